"""A disruption budget under policy `interleaving`: each job of a group counts for itself."""

from __future__ import annotations

from typing import Any

import pytest

from placewright import Plan, Round, solve_round, verify
from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import DecisionKind

Raw = dict[str, Any]


def job(name: str, stages: list[int], host: str = "", **more: Any) -> Raw:
    """A job of both GPUs of a host with a profile; it runs if it has a host."""
    raw: Raw = {"name": name, "options": [{"groups": [{"gpu": 2}]}], **more}
    raw["profile"] = {"stages": stages}
    if host:
        raw["running"] = {"tasks": [{"host": host, "gpus": [0, 1]}], "checkpoint": 900}
    return raw


def read(jobs: list[Raw], limits: Raw, hosts: int = 2, **policy: Any) -> Round:
    cluster = {"hosts": [{"name": f"h{i}", "gpus": 2, "gpu_model": "A"} for i in range(hosts)]}
    policy = {"formulation": "interleaving", "limits": {"disruption": limits}, **policy}
    raw = {"now": 1000, "cluster": cluster, "jobs": jobs, "policy": policy}
    raw["sharing"] = {"resources": ["gpu", "network"]}
    round_ = Round.model_validate(raw)
    check_round(round_)
    return round_


def decided(plan: Plan, kind: DecisionKind) -> list[str]:
    return [decision.job for decision in plan.decisions if decision.decision is kind]


def regrouping(**limits: Any) -> Round:
    """Two that compute and two that communicate, each beside its like: pairs of both do better."""
    return read(
        [
            job("compute0", [90, 10], "h0"),
            job("compute1", [90, 10], "h0"),
            job("network0", [10, 90], "h1"),
            job("network1", [10, 90], "h1"),
        ],
        limits,
        terms=["throughput", "disruption"],
    )


LIMITS = [({}, 2), ({"migrated_jobs": 2}, 2), ({"migrated_jobs": 1}, 0), ({"migrated_jobs": 0}, 0)]
LIMITS += [({"lost_gpu_s": 400}, 2), ({"lost_gpu_s": 399}, 0)]


@pytest.mark.parametrize(("limits", "most"), LIMITS)
def test_groups_change_as_far_as_the_budget_allows(limits, most):
    round_ = regrouping(**limits)
    for seconds in (0, 20):
        plan = solve_round(round_, time_limit=seconds, isolation="none")
        assert verify(round_, plan).ok
        assert len(decided(plan, DecisionKind.MIGRATE)) == (most if seconds else 0)


def test_a_plan_beyond_the_budget_breaks_the_rule():
    plan = solve_round(regrouping(), time_limit=20, isolation="none")
    assert len(decided(plan, DecisionKind.MIGRATE)) == 2
    plan = plan.model_copy(update={"round": None, "certificate": None})
    found = verify(regrouping(migrated_jobs=1), plan).violations
    assert {violation.rule for violation in found} == {"disruption_budget"}


@pytest.mark.parametrize(
    ("limits", "most"),
    [({}, 2), ({"preempted_jobs": 1}, 1), ({"preempted_gpus": 3}, 1), ({"lost_gpu_s": 199}, 0)],
)
def test_as_many_jobs_are_preempted_as_the_budget_allows(limits, most):
    """Jobs without a profile share no GPUs: the gang formulation decides."""
    jobs = [job(f"r{i}", [1, 1], f"h{i}") for i in range(2)]
    jobs += [job(f"p{i}", [1, 1], priority=1, weight=9) for i in range(2)]
    for one in jobs:
        del one["profile"]
    round_ = read(jobs, limits, terms=["weighted_throughput", "disruption"])
    plan = solve_round(round_, time_limit=20, isolation="none")
    assert verify(round_, plan).ok
    assert len(decided(plan, DecisionKind.PREEMPT)) == most
    assert plan.certificate is not None
    assert plan.certificate.terms[0].status == "optimal"


@pytest.mark.parametrize("most", [0, 1, 2])
def test_members_that_stop_count_each(most):
    """Two that share GPUs stop together for a job of higher priority that shares with nobody."""
    pair = [job(f"r{i}", [[9, 1], [1, 9]][i], "h0") for i in range(2)]
    lone = job("lone", [1, 1], priority=1, weight=9)
    del lone["profile"]
    round_ = read([*pair, lone], {"preempted_jobs": most}, hosts=1)
    plan = solve_round(round_, time_limit=20, isolation="none")
    assert verify(round_, plan).ok
    assert decided(plan, DecisionKind.START) == (["lone"] if most == 2 else [])
