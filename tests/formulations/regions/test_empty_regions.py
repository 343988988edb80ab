"""Regions without jobs, data, links or hosts that work: a plan, and no method stumbles."""

from __future__ import annotations

from typing import Any

import pytest
from formulation_parameters import set_parameters

from placewright import solve_round
from placewright.formulations.geo import parameters
from placewright.formulations.replicas import run
from placewright.instances.documents.geo import Geo
from placewright.instances.documents.round import Round
from placewright.instances.generators.geo import generate
from placewright.instances.verify import verify


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
