"""Small rounds of policy `replicas` whose best copies cannot be carried."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.formulations.replicas.heuristics.incumbent import untransferable_copies
from placewright.formulations.replicas.problem.compile import compile_replicas
from placewright.instances.documents.geo import Copying
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.generators.geo import generate
from placewright.instances.verify import verify
from placewright.rounds import solve_round


def full(seed: int) -> Round:
    """Two regions without room for a copy; a replica that could go has to stay until too late."""
    round_ = generate(regions=2, datasets=8, jobs=24, gpus=144, seed=seed)
    geo = round_.geo
    largest = max(geo.datasets, key=lambda one: one.size)
    (other,) = {region.name for region in geo.regions} - set(largest.replicas)
    late = round_.now + 2 * geo.window_s
    regions = [region.model_copy(update={"storage": 0}) for region in geo.regions]
    copying = [Copying(dataset=largest.name, region=other, ready=late)]
    return with_geo(round_, regions=tuple(regions), copying=tuple(copying))


def with_geo(round_: Round, **fields: Any) -> Round:
    return round_.model_copy(update={"geo": round_.geo.model_copy(update=fields)})


def without_copies(round_: Round) -> Round:
    links = [link.model_copy(update={"budget": 0}) for link in round_.geo.links]
    return with_geo(round_, links=tuple(links))


def terms(plan: Plan) -> list[int]:
    assert plan.certificate is not None
    return [term.value for term in plan.certificate.terms]


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("seed", [2, 7, 10])
def test_where_no_copy_can_be_made_homes_are_the_best_without(seed: int) -> None:
    round_ = full(seed)
    plan = solve_round(round_, time_limit=30, isolation="none", deterministic=True)
    assert verify(round_, plan).ok
    best = solve_round(without_copies(round_), time_limit=30, isolation="none", deterministic=True)
    assert terms(best)[2] == 0
    assert terms(plan) == terms(best)


def test_what_lies_in_a_region_does_not_say_that_links_cannot_carry_a_copy() -> None:
    round_ = generate(regions=3, datasets=8, jobs=60, gpus=144, seed=1)
    geo = round_.geo
    largest = max(geo.datasets, key=lambda one: one.size)
    free = largest.model_copy(update={"regions": None})
    datasets = tuple(free if one is largest else one for one in geo.datasets)
    # No single link takes the copy, two of them do; each region holds no more than it has room for.
    links = tuple(
        link.model_copy(update={"budget": largest.size * 6 // 10, "bandwidth": 100_000})
        for link in geo.links
    )
    regions = tuple(r.model_copy(update={"storage": largest.size}) for r in geo.regions)
    problem = compile_replicas(with_geo(round_, datasets=datasets, links=links, regions=regions))
    group = problem.dataset_class[geo.datasets.index(largest)]
    new = problem.may_hold[group] & ~problem.current[group]
    assert new.sum() == 2
    assert ((problem.size @ problem.current)[new] > 0).all()
    assert not untransferable_copies(problem)[group].any()
