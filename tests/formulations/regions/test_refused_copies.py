"""Copies that links refuse, and regions without jobs, data, links or hosts that work."""

from __future__ import annotations

from typing import Any

import pytest
from formulation_parameters import set_parameters

from placewright import solve_round
from placewright.formulations.geo import parameters
from placewright.formulations.replicas import run
from placewright.formulations.replicas.heuristics.incumbent import untransferable_copies
from placewright.formulations.replicas.problem.compile import compile_replicas
from placewright.instances.documents.geo import Copying, Geo
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.generators.geo import generate
from placewright.instances.verify import verify

# Small rounds of policy `replicas` whose best copies cannot be carried.


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


# Regions without jobs, data, links or hosts that work: a plan, and no method stumbles.


def without_jobs(round_: Round) -> dict[str, Any]:
    return {"jobs": ()}


def without_data(round_: Round) -> dict[str, Any]:
    jobs = tuple(job.model_copy(update={"reads": ()}) for job in round_.jobs)
    return {"jobs": jobs, "geo": round_.geo.model_copy(update={"datasets": ()})}


def without_links(round_: Round) -> dict[str, Any]:
    return {"geo": round_.geo.model_copy(update={"links": ()})}


def without_replicas(round_: Round) -> dict[str, Any]:
    lost = [dataset.model_copy(update={"replicas": ()}) for dataset in round_.geo.datasets]
    return {"geo": round_.geo.model_copy(update={"datasets": tuple(lost)})}


def without_hosts(round_: Round) -> dict[str, Any]:
    hosts = [host.model_copy(update={"healthy": False}) for host in round_.cluster.hosts]
    return {"cluster": round_.cluster.model_copy(update={"hosts": tuple(hosts)})}


def without_anything(round_: Round) -> dict[str, Any]:
    return {"jobs": (), "geo": Geo()}


CHANGES = (
    without_jobs,
    without_data,
    without_links,
    without_replicas,
    without_hosts,
    without_anything,
)


@pytest.mark.nightly(after=4)
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("policy", ["geo", "replicas"])
def test_a_round_that_lacks_something_has_a_plan(policy, change):
    round_ = generate(policy=policy, regions=3, datasets=5, jobs=40, gpus=240)
    lacking = Round.model_validate({**dict(round_), **change(round_)})
    plan = solve_round(lacking, time_limit=4)
    checked = verify(lacking, plan)
    assert checked.ok, checked.violations
    assert not [text for text in plan.certificate.degraded if text.startswith("formulation")]


@pytest.mark.filterwarnings("error")
def test_many_datasets_that_nobody_reads_stay_where_they_are():
    round_ = generate(regions=10, datasets=200, jobs=300, gpus=2000)
    lacking = round_.model_copy(update=without_jobs(round_))
    plan = solve_round(lacking, time_limit=4)
    assert verify(lacking, plan).ok
    assert not plan.certificate.degraded
    assert plan.certificate.terms[0].value == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("change", CHANGES)
def test_so_has_one_that_is_decided_region_by_region(monkeypatch, change):
    set_parameters(monkeypatch, parameters, max_monolithic_size=-1, max_refined_size=-1)
    round_ = generate(policy="geo", regions=3, datasets=5, jobs=40, gpus=240)
    lacking = Round.model_validate({**dict(round_), **change(round_)})
    plan = solve_round(lacking, isolation="none", time_limit=4)
    assert verify(lacking, plan).ok
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()


@pytest.mark.nightly(after=1)
@pytest.mark.usefixtures("machine_code")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("change", CHANGES)
def test_so_has_one_in_which_data_is_annealed(monkeypatch, change):
    monkeypatch.setattr(run, "is_small", lambda _: False)
    round_ = generate(policy="replicas", regions=3, datasets=5, jobs=40, gpus=240)
    lacking = Round.model_validate({**dict(round_), **change(round_)})
    plan = solve_round(lacking, isolation="none", time_limit=2)
    assert verify(lacking, plan).ok
    assert plan.certificate is not None
    assert plan.certificate.degraded == ()
