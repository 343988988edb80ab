"""Maintenance of hosts at a known time: known answers, and the rules that verify checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from placewright import Changes, Engine, InvalidInputError, load_round, solve_round, verify
from placewright.instances import verify as verification
from placewright.instances.checks.round import check_round
from placewright.instances.documents.job import Job
from placewright.instances.documents.leases import Outage
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Reason
from placewright.instances.documents.round import Round

AT_100 = [{"host": "h1", "start": 100, "end": 160}]


def job(name: str, gpu: float, seconds: int | None, **more: Any) -> dict[str, Any]:
    option = {"groups": [{"count": more.pop("count", 1), "gpu": gpu}]}
    return {"name": name, "expected_runtime_s": seconds, "options": [option], **more}


def round_of(
    *jobs: Mapping[str, Any], windows: list[dict[str, Any]] = AT_100, **more: Any
) -> Round:
    hosts = [{"name": f"h{i}", "gpus": 8, "gpu_model": "A100"} for i in range(2)]
    policy = {"terms": ["value"], **more.pop("policy", {})}
    made = {"cluster": {"hosts": hosts}, "jobs": jobs, "maintenance": windows, "policy": policy}
    round_ = Round.model_validate({**made, **more})
    check_round(round_)
    return round_


def decided(round_: Round, backend: str = "auto") -> tuple[Plan, dict[str, Decision]]:
    plan = solve_round(round_, isolation="none", time_limit=5.0, backend=backend)
    checked = verify(round_, plan)
    assert checked.ok, checked.violations
    return plan, {decision.job: decision for decision in plan.decisions}


def hosts_of(found: Mapping[str, Decision]) -> dict[str, set[str]]:
    return {name: {task.host for task in one.tasks} for name, one in found.items() if one.tasks}


@pytest.mark.parametrize("backend", ["highs", "cp-sat", "cbc", "scip"])
def test_the_bundled_round_starts_the_job_that_ends_in_time(backend: str) -> None:
    round_ = load_round(Path(verification.__file__).parents[1] / "library" / "maintenance.yaml")
    plan, found = decided(round_, backend)
    assert found["short"].decision is DecisionKind.START
    long = found["long"]
    assert long.reason is Reason.HELD_FOR_MAINTENANCE
    assert long.detail is not None
    assert long.detail.at == 100
    (section,) = (entry for entry in plan.sections if entry["kind"] == "reservations")
    assert [(entry["job"], entry["at"]) for entry in section["jobs"]] == [("pair", 160)]


@pytest.mark.parametrize("backend", ["highs", "cp-sat", "cbc", "scip"])
@pytest.mark.parametrize(
    ("seconds", "places"), [(100, {"h0", "h1"}), (101, {"h0"}), (None, {"h0"})]
)
def test_without_reservations_jobs_that_end_in_time_use_the_host(
    backend: str, seconds: int | None, places: set[str]
) -> None:
    jobs = [job(f"j{i}", 2, seconds) for i in range(8)]
    plan, found = decided(round_of(*jobs), backend)
    assert set.union(*hosts_of(found).values()) == places
    assert plan.certificate is not None
    assert plan.certificate.status == "optimal"
    waits = {one.reason for one in found.values() if one.decision is DecisionKind.WAIT}
    assert waits == (set() if len(places) == 2 else {Reason.HELD_FOR_MAINTENANCE})


@pytest.mark.parametrize("window", [{"end": 100}, {"start": 0, "end": 1}, {}])
def test_nothing_arrives_during_maintenance(window: dict[str, Any]) -> None:
    _, found = decided(round_of(job("a", 8, 1), job("b", 8, 1), windows=[{"host": "h1", **window}]))
    assert sorted(one.reason or "" for one in found.values()) == ["", Reason.HELD_FOR_MAINTENANCE]
    assert {"h0"} == set.union(*hosts_of(found).values())


def test_maintenance_that_is_over_keeps_nobody_off() -> None:
    _, found = decided(round_of(job("a", 8, 9, count=2), now=160))
    assert found["a"].decision is DecisionKind.START


def test_jobs_that_share_gpus_and_jobs_without_a_gpu_are_kept_off_too() -> None:
    hosts = [{"name": f"h{i}", "gpus": 8, "gpu_model": "A100", "cpu": 64} for i in range(2)]
    cpus = {"options": [{"groups": [{"gpu": 0, "cpu": 64}]}]}
    jobs = [job(f"share{i}", 0.5, 101) for i in range(17)]
    jobs += [{**job(f"cpu{i}", 0, 101), **cpus} for i in range(2)]
    for policy in ({}, {"backfill": {"depth": 3}}):
        round_ = round_of(*jobs, policy=policy, cluster={"hosts": hosts})
        assert set.union(*hosts_of(decided(round_)[1]).values()) == {"h0"}


def test_a_running_job_stays_and_one_that_would_not_end_in_time_does_not_move_there() -> None:
    on_h1 = {"started": 0, "tasks": [{"host": "h1", "gpus": [0, 1, 2, 3, 4]}]}
    on_h0 = {"started": 0, "tasks": [{"host": "h0", "gpus": [0]}]}
    large = job("large", 8, 10)
    large["options"][0]["groups"][0]["hosts"] = ["h0"]
    for seconds, decision in ((101, DecisionKind.KEEP), (100, DecisionKind.MIGRATE)):
        stays = job("stays", 5, 500, running=on_h1)
        _, found = decided(round_of(stays, job("moves", 1, seconds, running=on_h0), large))
        assert found["stays"].decision is DecisionKind.KEEP
        assert found["moves"].decision is decision


def test_verify_refuses_arrivals_on_a_host_that_maintenance_takes() -> None:
    plan, _ = decided(round_of(job("a", 8, 100, count=2)))
    longer = round_of(job("a", 8, 101, count=2))
    checked = verify(longer, plan.model_copy(update={"round": None, "certificate": None}))
    assert {violation.rule for violation in checked.violations} == {"maintenance"}


def test_an_engine_is_told_of_maintenance() -> None:
    with Engine(round_of(windows=[]), isolation="none", time_limit=2.0) as engine:
        engine.round()
        from_100 = Outage(host="h[0-1]", start=100)
        gang = Job.model_validate(job("gang", 8, 101, count=2))
        plan = engine.round(Changes(maintenance=[from_100], added=[gang]))
        assert [one.reason for one in plan.decisions] == [Reason.HELD_FOR_MAINTENANCE]


def test_hosts_of_maintenance_exist_and_other_policies_refuse_it() -> None:
    with pytest.raises(InvalidInputError, match="h9"):
        round_of(windows=[{"host": "h9"}])
    with pytest.raises(InvalidInputError, match="maintenance"):
        round_of(policy={"formulation": "interleaving", "terms": ["throughput"]})
