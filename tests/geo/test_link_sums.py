"""What copies take of links while homes are tried: beside sums over all copies at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from placewright.formulations.replicas.compile import compile_replicas
from placewright.formulations.replicas.links import FULL, Links
from placewright.formulations.replicas.problem import Problem
from placewright.formulations.wan.compile import Bools
from placewright.instances.geo_generator import generate


def beyond(problem: Problem, copies: Bools) -> tuple[float, float, float]:
    """Return GiB of copies (groups, regions) beyond what links take: in, out and in all."""
    size, origin = problem.size[:, None] * copies, problem.origin
    wants = np.zeros(problem.wan.budget.shape)
    np.add.at(wants, origin, size)
    out = np.zeros(problem.regions)
    np.add.at(out, origin, problem.size * copies.any(axis=1))
    budget = problem.wan.budget
    hops = wants.sum() + np.maximum(0, wants - budget).sum()
    return (
        float(np.maximum(0, size.sum(axis=0) - FULL * problem.incoming).sum()),
        float(np.maximum(0, out - FULL * problem.outgoing).sum()),
        float(max(0, hops - FULL * budget.sum())),
    )


@pytest.mark.parametrize("seed", range(4))
def test_excess_is_what_sums_grow_by_and_what_leaves_is_forgotten(seed: int) -> None:
    round_ = generate(
        regions=4, datasets=20, jobs=120, gpus=600, mix="spare", seed=seed, policy="replicas"
    )
    problem = compile_replicas(round_)
    scarce = replace(problem, wan=replace(problem.wan, budget=problem.wan.budget // 8))
    problem = replace(
        scarce, incoming=scarce.wan.budget.sum(axis=0), outgoing=scarce.wan.budget.sum(axis=1)
    )
    assert (problem.origin >= 0).all()
    links, random = Links(problem), np.random.default_rng(seed)
    copies = np.zeros_like(problem.now)
    grown = 0
    for _ in range(200):
        group, region = int(random.integers(problem.groups)), int(random.integers(problem.regions))
        if problem.now[group, region]:
            continue
        if copies[group, region]:
            links.leave(group, region)
            copies[group, region] = False
            continue
        before = sum(beyond(problem, copies))
        excess = links.excess([group], region)
        links.take(group, region)
        copies[group, region] = True
        assert excess == pytest.approx(sum(beyond(problem, copies)) - before)
        grown += excess > 0
    assert grown > 10
    assert links.excess([], 0) == 0


def test_copies_that_come_together_share_what_links_into_a_region_take() -> None:
    round_ = generate(
        regions=4, datasets=20, jobs=120, gpus=600, mix="spare", seed=0, policy="replicas"
    )
    problem = compile_replicas(round_)
    # Nothing but the sum into the first region is scarce.
    plenty = np.full_like(problem.wan.budget, 10**9)
    groups = np.flatnonzero(~problem.now[:, 0])[:2]
    into = np.full_like(problem.incoming, 10**9)
    into[0] = int(problem.size[groups].max() / FULL)
    problem = replace(
        problem,
        wan=replace(problem.wan, budget=plenty),
        incoming=into,
        outgoing=np.full_like(into, 10**9),
    )
    links = Links(problem)
    assert links.excess(groups[:1].tolist(), 0) <= 1.0
    both = float(problem.size[groups].sum()) - FULL * int(into[0])
    assert links.excess(groups.tolist(), 0) == pytest.approx(both)
