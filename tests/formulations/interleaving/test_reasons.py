"""Reasons to wait under `interleaving`: as if each job had GPUs of its own."""

from __future__ import annotations

from typing import Any

from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import Decision, DecisionKind, Reason
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Raw = dict[str, Any]


def waiting(hosts: int, jobs: list[Raw], **more: Any) -> dict[str, Decision]:
    """The decisions of the jobs that wait, on hosts of 2 GPUs."""
    cluster = {"hosts": [{"name": f"h{i}", "gpus": 2, "gpu_model": "A"} for i in range(hosts)]}
    policy = {"formulation": "interleaving", "terms": ["throughput"]}
    round_ = Round.model_validate({"cluster": cluster, "jobs": jobs, "policy": policy, **more})
    check_round(round_)
    plan = solve_round(round_, isolation="none")
    assert verify(round_, plan).ok
    return {d.job: d for d in plan.decisions if d.decision is DecisionKind.WAIT}


def job(name: str, gpu: int, **more: Any) -> Raw:
    return {"name": name, "options": [{"groups": [{"gpu": gpu}]}], **more}


def test_what_this_plan_uses_up_of_a_quota_is_named() -> None:
    jobs = [job(f"job-{i}", 2, tenant="red") for i in range(3)]
    found = waiting(4, jobs, tenants=[{"name": "red", "quota": {"gpu": 4}}])
    (decision,) = found.values()
    assert decision.reason is Reason.QUOTA
    assert decision.detail is not None
    assert decision.detail.model_dump() == {
        "tenant": "red",
        "resource": "gpu",
        "asked": 2,
        "used": 4,
        "limit": 4,
        "excess": 2,
    }


def test_what_kept_jobs_leave_no_place_for_waits_for_capacity() -> None:
    running = {"tasks": [{"host": "h0", "gpus": [0]}], "pinned": True}
    found = waiting(1, [job("runs", 1, running=running), job("big", 2), job("never", 4)])
    assert {name: d.reason for name, d in found.items()} == {
        "big": Reason.CAPACITY,
        "never": Reason.NEVER_FITS,
    }
