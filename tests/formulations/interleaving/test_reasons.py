"""Reasons to wait under `interleaving`: as if each job had GPUs of its own."""

from __future__ import annotations

from typing import Any

from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import Decision, DecisionKind, Detail, Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Raw = dict[str, Any]


def waiting(hosts: int, jobs: list[Raw], **more: Any) -> dict[str, Decision]:
    """The decisions of the jobs that wait, on hosts of 2 GPUs and of `cpu` cores."""
    _, plan = solved(hosts, jobs, **more)
    return {d.job: d for d in plan.decisions if d.decision is DecisionKind.WAIT}


def solved(hosts: int, jobs: list[Raw], *, cpu: int = 0, **more: Any) -> tuple[Round, Plan]:
    """A round on hosts of 2 GPUs, and a plan for it."""
    host = {"gpus": 2, "gpu_model": "A", "cpu": cpu}
    cluster = {"hosts": [{"name": f"h{i}", **host} for i in range(hosts)]}
    policy = {"formulation": "interleaving", "terms": ["throughput"]}
    round_ = Round.model_validate({"cluster": cluster, "jobs": jobs, "policy": policy, **more})
    check_round(round_)
    plan = solve_round(round_, isolation="none")
    assert verify(round_, plan).ok
    return round_, plan


def job(name: str, gpu: int, *, cpu: int = 0, **more: Any) -> Raw:
    return {"name": name, "options": [{"groups": [{"gpu": gpu, "cpu": cpu}]}], **more}


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


def test_a_job_that_a_group_of_higher_priority_leaves_no_gpus_is_displaced_by_it() -> None:
    profile = {"stages": [100, 0, 300, 0]}, {"stages": [0, 300, 0, 100]}
    jobs = [job(f"high{i}", 2, priority=1, profile=one) for i, one in enumerate(profile)]
    jobs += [job("low", 2), job("mid", 2, priority=1)]
    found = waiting(1, jobs)
    assert found["low"].reason is Reason.DISPLACED_BY_PRIORITY
    assert found["mid"].reason is Reason.NOT_CHOSEN


def test_a_group_of_preempted_jobs_counts_its_cpu_once() -> None:
    profile = {"stages": [10, 0, 10, 0]}
    group: Raw = {"profile": profile, "running": {"tasks": [{"host": "h0", "gpus": [0]}]}}
    jobs = [job(name, 1, cpu=2, **group) for name in ("one", "two")]
    jobs += [job("high", 1, cpu=3, priority=1), job("low", 1, cpu=2)]
    policy = {"formulation": "interleaving", "terms": ["weighted_throughput"]}
    found = waiting(1, jobs, cpu=3, policy=policy)
    assert found.keys() == {"low"}
    assert found["low"].reason is Reason.CAPACITY
    assert found["low"].detail is not None
    facts = found["low"].detail.model_dump()
    assert (facts["resource"], facts["asked"], facts["free"]) == ("cpu", 2, 1)


def test_the_verifier_refuses_reasons_that_are_not_true() -> None:
    profile = {"stages": [100, 0, 300, 0]}, {"stages": [0, 300, 0, 100]}
    running = {"tasks": [{"host": "h0", "gpus": [0, 1]}], "pinned": True}
    jobs = [job(f"runs{i}", 2, profile=one, running=running) for i, one in enumerate(profile)]
    round_, plan = solved(2, [*jobs, job("both", 2, tenant="red")], tenants=[{"name": "red"}])
    assert len(plan.decisions[2].tasks) == 1
    round_, plan = solved(1, [*jobs, job("both", 2)])
    last = plan.decisions[2]
    assert last.reason is Reason.CAPACITY
    for reason, facts in (
        (Reason.NEVER_FITS, last.detail),
        (Reason.DISPLACED_BY_PRIORITY, last.detail),
        (Reason.NOT_CHOSEN, None),
        (Reason.CAPACITY, Detail.model_construct(**(dict(last.detail or {}) | {"free": 1000}))),
    ):
        told = last.model_copy(update={"reason": reason, "detail": facts})
        other = plan.model_copy(update={"decisions": (*plan.decisions[:2], told)})
        assert {found.rule for found in verify(round_, other).violations} == {"gang_reason"}
