"""CPU and memory tuning: the best of all plans, proven with places, and nobody below its share."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from examples import examples
from placewright.formulations.interleaving.problem.compile import compile_interleaving
from placewright.formulations.interleaving.problem.packing_problem import (
    Grouping,
    grouped_jobs,
    job_options,
)
from placewright.formulations.interleaving.set_packing.solve import solve_set_packing
from placewright.formulations.session import Session
from placewright.instances.converters import convert_synergy
from placewright.instances.derived.speed import speed
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.round import Round
from placewright.instances.documents.sharing import Sharing
from placewright.instances.io.files import parse_round
from placewright.instances.verify import verify
from placewright.rounds import solve_round
from placewright.solver import InProcess
from tests.formulations.interleaving import oracle

PROFILES = Path(__file__).parents[4] / "shared" / "data" / "profiles" / "synergy_profiles.json"
NEEDS_PROFILES = pytest.mark.skipif(not PROFILES.exists(), reason="the matrices are not here")
UNIT = 1_000_000
SEEDS = {
    "highs": range(examples(day=10, nightly=40)),
    "cp-sat": range(40, 55),
    "cbc": range(55, 65),
    "scip": range(65, 75),
}


def tuned_round(seed: int, *, cores: int = 0, sharing: bool = False, alike: bool = False) -> Round:
    """Up to five jobs with random matrices on one or two hosts; `cores` more on each of those.

    If they are `alike`, all have one matrix, size and weight.
    """
    rng = Random(seed)
    gpus = rng.choice([2, 3])
    raw: dict[str, Any] = {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Round",
        "cluster": {
            "hosts": [
                {
                    "name": f"h{i}",
                    "gpus": gpus,
                    "gpu_model": "V100",
                    "cpu": f"{3000 * gpus + 1000 * cores}m",
                    "memory": f"{1000 * gpus}Mi",
                }
                for i in range(rng.choice([1, 2]))
            ]
        },
        "jobs": [_job(rng, i) for i in range(rng.choice([3, 4, 5]))],
        "sharing": {"resources": ["a", "b"], "most": 2 if sharing else 1},
        "policy": {
            "formulation": "interleaving",
            "terms": [rng.choice(["throughput", "weighted_throughput"])],
        },
    }
    if alike:
        one = raw["jobs"][0]
        for job in raw["jobs"]:
            job["profile"]["sensitivity"] = one["profile"]["sensitivity"]
            job |= {key: one[key] for key in ("options", "weight")}
    if not alike and rng.random() < 0.4:
        place = {"tasks": [{"host": "h0", "gpus": [0]}], "pinned": rng.random() < 0.5}
        raw["jobs"][0] = {**_job(rng, 0, gpus=1), "running": place}
    return parse_round(raw)


def _job(rng: Random, number: int, gpus: int | None = None) -> dict[str, Any]:
    size = gpus or rng.choice([1, 1, 1, 2])
    speeds = [[rng.choice([300_000, UNIT]), UNIT]]
    for _ in range(2):
        more = [max(speeds[-1][k], rng.choice([UNIT, 1_400_000, 2_000_000])) for k in (0, 1)]
        speeds.append([more[0], max(more)])
    return {
        "name": f"j{number}",
        "weight": rng.choice([1, 1, 3]),
        "priority": rng.choice([0, 0, 1]),
        "options": [
            {"groups": [{"gpu": size, "cpu": f"{3000 * size}m", "memory": f"{1000 * size}Mi"}]}
        ],
        "profile": {
            "stages": [rng.randint(1, 9), rng.randint(1, 9)],
            "sensitivity": {"cores": [1, 3, 5], "memory": ["500Mi", "1000Mi"], "speeds": speeds},
        },
    }


def everybody_first(round_: Round) -> Round:
    """The round in which as many GPUs as can be are used, then the sum of speeds is greatest."""
    jobs = [
        job.model_copy(
            update={
                "profile": None,
                "options": tuple(
                    option.model_copy(update={"progress": speed(job, i) * job.weight})
                    for i, option in enumerate(job.options)
                ),
            }
        )
        for job in round_.jobs
    ]
    policy = Policy(terms=("value", "progress"))
    update = {"jobs": tuple(jobs), "policy": policy, "sharing": Sharing()}
    return round_.model_copy(update=update)


def speeds_of(round_: Round, plan: Plan) -> list[int]:
    """The speed of each job, 0 where it waits."""
    pairs = zip(round_.jobs, plan.decisions, strict=True)
    return [0 if d.option is None else speed(job, d.option) for job, d in pairs]


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("backend", SEEDS)
def test_tuned_jobs_get_the_best_of_all_plans_and_it_is_proven(backend: str) -> None:
    for seed in SEEDS[backend]:
        round_ = tuned_round(seed)
        plan = solve_round(round_, backend=backend, gap=0.0, isolation="none")
        assert verify(round_, plan).ok
        assert plan.certificate is not None
        first = plan.certificate.terms[0]
        assert first.value == first.bound == oracle.best(round_).value, seed


@pytest.mark.nightly
@pytest.mark.parametrize("alike", [False, True])
def test_jobs_that_share_beside_tuned_ones_are_never_better_than_the_bound(*, alike: bool) -> None:
    missed = 0
    for seed in range(100, 125):
        round_ = tuned_round(seed, sharing=True, alike=alike)
        plan = solve_round(round_, gap=0.0, isolation="none")
        assert plan.certificate is not None
        first, best = plan.certificate.terms[0], oracle.best(round_).value
        assert first.value <= best
        for bound in (first.certified, first.claimed):
            assert bound is None or bound >= best, seed
        missed += first.value < best
    assert missed <= 1


def test_jobs_alike_but_for_stages_share_a_row_and_none_is_taken_twice() -> None:
    for seed in range(100, 125):
        round_ = tuned_round(seed, sharing=True, alike=True)
        problem = compile_interleaving(round_)
        assert len(set(problem.class_of_job.values())) <= len(problem.priorities.terms)
        session = Session(InProcess().solve, deadline=time.monotonic() + 10.0)
        for found in solve_set_packing(problem.packing, session):
            if isinstance(found, Grouping):
                teams = grouped_jobs(found, job_options(round_, problem.jobs), problem.class_of_job)
                jobs = [j for team in teams for j in team]
                assert len(set(jobs)) == len(jobs) <= len(round_.jobs)


def test_more_cores_never_lower_the_optimum() -> None:
    for seed in range(examples(day=4, nightly=12)):
        values = []
        for cores in range(3):
            plan = solve_round(tuned_round(seed, cores=cores), gap=0.0, isolation="none")
            assert plan.certificate is not None
            values.append(plan.certificate.terms[0].value)
        assert values == sorted(values)


@pytest.mark.nightly(after=2)
@NEEDS_PROFILES
@pytest.mark.parametrize("seed", range(5))
def test_on_16_servers_tuning_gains_a_third_proven_with_places(seed: int) -> None:
    round_ = convert_synergy(PROFILES, seed=seed)
    assert len(round_.jobs) == 128
    plan = solve_round(round_, gap=0.0)
    assert plan.certificate is not None
    first = plan.certificate.terms[0]
    assert first.gap == 0
    assert 1.30 <= first.value / (128 * UNIT) <= 1.40
    assert min(speeds_of(round_, plan)) >= UNIT
    assert all(len(decision.tasks) == 1 for decision in plan.decisions)


@NEEDS_PROFILES
def test_without_time_nobody_is_below_its_share() -> None:
    round_ = convert_synergy(PROFILES, servers=8, gpus=(1, 2, 4))
    assert min(speeds_of(round_, solve_round(round_, time_limit=0))) >= UNIT


@NEEDS_PROFILES
def test_512_jobs_are_proven_to_a_thousandth() -> None:
    round_ = convert_synergy(PROFILES, servers=64)
    plan = solve_round(round_)
    assert plan.certificate is not None
    assert plan.certificate.gap is not None
    assert plan.certificate.gap <= 1e-3
    assert min(speeds_of(round_, plan)) >= UNIT


@NEEDS_PROFILES
def test_no_job_that_fits_on_one_host_is_split() -> None:
    round_ = convert_synergy(PROFILES, servers=32, gpus=(1, 2, 4, 8, 16))
    plan = solve_round(round_)
    assert plan.certificate is not None
    assert plan.certificate.gap == 0
    for job, decision in zip(round_.jobs, plan.decisions, strict=True):
        hosts = {task.host for task in decision.tasks}
        assert len(hosts) == len(decision.tasks) == max(1, job.options[0].milli_gpu // 8000)


@NEEDS_PROFILES
@pytest.mark.parametrize(
    ("split", "least", "most"), [((33, 33, 33), 1.22, 1.28), ((50, 0, 50), 1.0, 1.0)]
)
def test_where_everybody_runs_other_splits_gain_what_is_known(
    split: tuple[int, int, int], least: float, most: float
) -> None:
    round_ = everybody_first(convert_synergy(PROFILES, split=split))
    plan = solve_round(round_, gap=0.0)
    assert plan.certificate is not None
    value, progress = plan.certificate.terms
    assert value.value == 128_000
    assert progress.gap == 0
    assert least <= progress.value / (128 * UNIT) <= most
