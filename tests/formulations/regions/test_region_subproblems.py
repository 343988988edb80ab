"""A region subproblem cut out of the arrays of the round equals what its document compiles to."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import numpy as np
import pytest

from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.problem import Problem as Gangs
from placewright.formulations.geo.heuristics.subproblem import FixedDecisions, RegionSubproblems
from placewright.formulations.geo.problem.compile import Problem, compile_geo
from placewright.instances.documents.geo import Geo
from placewright.instances.documents.job import AntiAffinity
from placewright.instances.documents.round import Round
from placewright.instances.generators.geo import generate

OTHERWISE = {"round", "layouts"}
"""Fields that are not compared: jobs may be as the whole round has them, and caches."""


def differences(one: object, other: object, path: str = "") -> list[str]:
    """Return where two values differ."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        same = one.dtype == other.dtype and np.array_equal(one, other)
        return [] if same else [path]
    if is_dataclass(one):
        return [
            found
            for field in fields(one)
            if field.name not in OTHERWISE
            for found in differences(
                getattr(one, field.name), getattr(other, field.name), f"{path}.{field.name}"
            )
        ]
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [found for k, (a, b) in pairs for found in differences(a, b, f"{path}[{k}]")]
    return [] if one == other else [path]


def made(seed: int) -> Round:
    """Return a round in which some jobs are pinned, reserved hosts, and labels."""
    round_ = generate(regions=4, datasets=12, jobs=80, gpus=320, policy="geo", seed=seed)
    rng = np.random.default_rng(seed)
    level = round_.cluster.levels[-1]
    jobs = []
    for job in round_.jobs:
        update: dict[str, object] = {}
        if job.running is not None and rng.random() < 0.2:
            update["running"] = job.running.model_copy(update={"pinned": True})
        if seed % 2 and rng.random() < 0.2:
            update["anti_affinity"] = AntiAffinity(label=f"l{rng.integers(3)}", level=level)
        jobs.append(job.model_copy(update=update))
    return round_.model_copy(update={"jobs": tuple(jobs)})


def both(seed: int) -> tuple[Problem, Gangs]:
    round_ = made(seed)
    policy = round_.policy.model_copy(update={"formulation": "gang", "terms": ("value",)})
    gangs = compile_round(round_.model_copy(update={"policy": policy, "geo": Geo()}))
    return compile_geo(round_), gangs


@pytest.mark.parametrize("seed", range(6))
def test_a_region_is_cut_as_it_compiles(seed: int) -> None:
    problem, gangs = both(seed)
    subproblems, rng = RegionSubproblems(problem, gangs), np.random.default_rng(seed)
    pending = np.flatnonzero(problem.current_region == NONE)
    where = rng.integers(-1, len(problem.wan.regions), len(pending))
    models = rng.integers(-1, len(problem.wan.models), len(problem.current_region)).tolist()
    for region in range(len(problem.wan.regions)):
        mine = pending[where == region].tolist()
        subproblem = subproblems.build(
            region, mine, {}, FixedDecisions(), {j: models[j] for j in mine}
        )
        assert differences(subproblem.gangs(), compile_round(subproblem.document())) == []
