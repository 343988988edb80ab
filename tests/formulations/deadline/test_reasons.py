"""Reasons to wait under `deadline`: promised jobs come first, hosts that are away do not count."""

from __future__ import annotations

from typing import Any

from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import DecisionKind, Reason
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Raw = dict[str, Any]
LENGTH = 100


def reasons(jobs: list[Raw], outages: list[Raw]) -> dict[str, Reason | None]:
    """The reasons of the jobs that wait, on two hosts of 2 GPUs."""
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
    return {d.job: d.reason for d in plan.decisions if d.decision is DecisionKind.WAIT}


def job(name: str, count: int, **more: Any) -> Raw:
    return {"name": name, "options": [{"groups": [{"gpu": 2, "count": count}]}], **more}


def test_what_only_a_host_that_is_away_could_hold_waits_for_capacity() -> None:
    assert reasons([job("both", 2)], [{"host": "h1", "start": 0, "end": 50}]) == {
        "both": Reason.CAPACITY
    }


def test_a_promised_job_displaces_one_of_equal_priority() -> None:
    due = {"work_s": 90, "due": [{"at": LENGTH, "value": 1}]}
    found = reasons([job("promised", 2, deadline=due), job("late", 1)], [])
    assert found == {"late": Reason.DISPLACED_BY_PRIORITY}
