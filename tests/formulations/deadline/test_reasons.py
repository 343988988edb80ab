"""Reasons to wait under `deadline`: promised jobs come first, hosts that are away do not count."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import DecisionKind, Detail, Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Raw = dict[str, Any]
LENGTH = 100


def reasons(jobs: list[Raw], outages: list[Raw]) -> dict[str, Reason | None]:
    """The reasons of the jobs that wait, on two hosts of 2 GPUs."""
    _, plan = solved(jobs, outages)
    return {d.job: d.reason for d in plan.decisions if d.decision is DecisionKind.WAIT}


def solved(jobs: list[Raw], outages: list[Raw]) -> tuple[Round, Plan]:
    """A round on two hosts of 2 GPUs, and a plan for it."""
    hosts = [{"name": f"h{i}", "gpus": 2, "gpu_model": "A"} for i in range(2)]
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": hosts},
            "jobs": jobs,
            "policy": {"formulation": "deadline"},
            "leases": {"length_s": LENGTH, "horizon": 4, "outages": outages},
        }
    )
    check_round(round_)
    plan = solve_round(round_, isolation="none")
    assert verify(round_, plan).ok
    return round_, plan


def job(name: str, count: int, **more: Any) -> Raw:
    return {"name": name, "options": [{"groups": [{"gpu": 2, "count": count}]}], **more}


def test_what_only_a_host_that_is_away_could_hold_waits_until_it_is_back() -> None:
    assert reasons([job("both", 2)], [{"host": "h1", "start": 0, "end": 50}]) == {
        "both": Reason.HOSTS_AWAY
    }


def test_a_promised_job_displaces_one_of_equal_priority() -> None:
    due = {"work_s": 90, "due": [{"at": LENGTH, "value": 1}]}
    found = reasons([job("promised", 2, deadline=due), job("late", 1)], [])
    assert found == {"late": Reason.DISPLACED_BY_PRIORITY}


def due(at: int, **more: Any) -> Raw:
    return {"work_s": 90, "due": [{"at": at, "value": 1}], **more}


def test_jobs_that_wait_for_leases_say_when() -> None:
    jobs = [
        job("now", 2, deadline={"work_s": 90, "due": [{"at": LENGTH, "value": 5}]}),
        job("later", 1, deadline=due(2 * LENGTH)),
        job("late", 1, deadline=due(LENGTH)),
        job("unready", 1, deadline={"work_s": 90, "ready": 150}),
    ]
    _, plan = solved(jobs, [])
    found = {d.job: (d.reason, d.detail) for d in plan.decisions[1:]}
    assert found == {
        "later": (Reason.PROMISED_LATER, Detail(at=LENGTH)),
        "late": (Reason.REFUSED, Detail(at=LENGTH + 90)),
        "unready": (Reason.NOT_BEFORE, Detail(at=150)),
    }


@pytest.mark.parametrize(
    ("number", "reason", "at", "rule"),
    [
        (1, Reason.PROMISED_LATER, 0, "lease_reason"),
        (1, Reason.REFUSED, None, "lease_reason"),
        (1, Reason.CAPACITY, None, "lease_reason"),
        (2, Reason.REFUSED, LENGTH, "lease_reason"),
        (2, Reason.NOT_CHOSEN, None, "lease_reason"),
        (3, Reason.NOT_BEFORE, 151, "lease_reason"),
        (3, Reason.CAPACITY, None, "lease_reason"),
        (4, Reason.NOT_BEFORE, None, "lease_reason"),
        (4, Reason.CAPACITY, None, "gang_reason"),
        (4, Reason.NOT_CHOSEN, None, "gang_reason"),
    ],
)
def test_the_verifier_refuses_reasons_that_are_not_true(
    number: int, reason: Reason, at: int | None, rule: str
) -> None:
    jobs = [
        job("now", 2, deadline={"work_s": 90, "due": [{"at": LENGTH, "value": 5}]}),
        job("later", 1, deadline=due(2 * LENGTH)),
        job("late", 1, deadline=due(LENGTH)),
        job("unready", 1, deadline={"work_s": 90, "ready": 150}),
        job("free", 1),
    ]
    round_, plan = solved(jobs, [])
    assert plan.decisions[4].reason is Reason.DISPLACED_BY_PRIORITY
    told = plan.decisions[number].model_copy(update={"reason": reason, "detail": Detail(at=at)})
    decisions = [told if n == number else one for n, one in enumerate(plan.decisions)]
    other = plan.model_copy(update={"decisions": tuple(decisions)})
    rules = {found.rule for found in verify(round_, other).violations}
    assert rule in rules
    assert rules <= {"lease_reason", "gang_reason"}
