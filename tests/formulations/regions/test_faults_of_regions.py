"""What may go wrong in a round of regions: the plan is valid, and says who waits and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from placewright.instances.documents.plan import DecisionKind, Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.generators.geo import generate
from placewright.instances.io.files import parse_round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Raw = dict[str, Any]
LOST = "region-0"


def hosts_fail(raw: Raw) -> None:
    inside = {LOST}
    for domain in raw["cluster"]["domains"]:
        if domain.get("parent") in inside:
            inside.add(domain["name"])
    for host in raw["cluster"]["hosts"]:
        host["healthy"] = host["parent"] not in inside


def links_fail(raw: Raw) -> None:
    for link in raw["geo"]["links"]:
        if LOST in (link["source"], link["target"]):
            link["bandwidth"] = 0


def nothing_passes(raw: Raw) -> None:
    for link in raw["geo"]["links"]:
        link["bandwidth"] = 0


def data_is_lost(raw: Raw) -> None:
    for dataset in raw["geo"]["datasets"]:
        dataset["replicas"] = [region for region in dataset["replicas"] if region != LOST]


def a_region_is_lost(raw: Raw) -> None:
    for fault in (hosts_fail, links_fail, data_is_lost):
        fault(raw)


def residencies_contradict(raw: Raw) -> None:
    for dataset in raw["geo"]["datasets"]:
        dataset["regions"] = dataset["replicas"][:1]
    for job in raw["jobs"]:
        if "running" not in job:
            job["regions"] = ["region-1"]


def storage_is_full(raw: Raw) -> None:
    for region in raw["geo"]["regions"]:
        region["storage"] = 0


def everything_at_once(raw: Raw) -> None:
    for fault in (a_region_is_lost, nothing_passes, storage_is_full):
        fault(raw)
    raw["geo"]["links"] = []


FAULTS = [
    hosts_fail,
    links_fail,
    nothing_passes,
    data_is_lost,
    a_region_is_lost,
    residencies_contradict,
    storage_is_full,
    everything_at_once,
]


def faulty(policy: Any, fault: Callable[[Raw], None]) -> tuple[Round, Plan]:
    """Return a round with a fault, and its plan."""
    made = generate(regions=3, datasets=8, jobs=24, gpus=96, seed=3, policy=policy)
    raw = made.model_dump(mode="json", exclude_defaults=True)
    fault(raw)
    round_ = parse_round(raw)
    return round_, solve_round(round_, time_limit=2.0, isolation="none")


@pytest.mark.nightly(after=3)
@pytest.mark.parametrize("policy", ["geo", "replicas"])
@pytest.mark.parametrize("fault", FAULTS)
def test_the_plan_is_valid_and_says_why_jobs_wait(
    policy: str, fault: Callable[[Raw], None]
) -> None:
    round_, plan = faulty(policy, fault)
    assert verify(round_, plan).violations == ()
    assert plan.certificate is not None
    assert not plan.certificate.degraded
    waiting = [one for one in plan.decisions if one.decision is DecisionKind.WAIT]
    assert all(one.reason is not None for one in waiting)


@pytest.mark.parametrize("policy", ["geo", "replicas"])
def test_jobs_whose_data_may_not_be_where_they_may_be_have_no_region(policy: str) -> None:
    round_, plan = faulty(policy, residencies_contradict)
    regions = {one.name: one.regions for one in round_.geo.datasets}
    torn = {
        job.name
        for job in round_.jobs
        if job.running is None
        and any("region-1" not in (regions[read.dataset] or ()) for read in job.reads)
    }
    without_region = {one.job for one in plan.decisions if one.reason is Reason.NO_REGION}
    assert torn
    assert torn <= without_region


@pytest.mark.parametrize("policy", ["geo", "replicas"])
def test_jobs_whose_data_nobody_holds_have_no_region(policy: str) -> None:
    round_, plan = faulty(policy, data_is_lost)
    lost = {one.name for one in round_.geo.datasets if not one.replicas}
    readers = {
        job.name
        for job in round_.jobs
        if job.running is None and lost & {read.dataset for read in job.reads}
    }
    without_region = {one.job for one in plan.decisions if one.reason is Reason.NO_REGION}
    assert readers
    assert readers <= without_region
