"""Reasons to wait under `geo`: of the region in which a job comes furthest."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.checks.round import check_round
from placewright.instances.derived.reason_text import reason_text
from placewright.instances.documents.plan import Decision, DecisionKind, Detail, Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Raw = dict[str, Any]


def job(name: str, gpu: int, **more: Any) -> Raw:
    return {"name": name, "options": [{"groups": [{"gpu": gpu}]}], **more}


def round_of(jobs: list[Raw], **quotas: Any) -> Round:
    """A host of 4 GPUs in the west, one of 2 in the east."""
    regions = [{"name": "west", "quotas": quotas}, {"name": "east"}]
    host = {"gpu_model": "A"}
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["region"],
                "domains": [{"name": one["name"], "level": "region"} for one in regions],
                "hosts": [
                    {**host, "name": "w", "gpus": 4, "parent": "west"},
                    {**host, "name": "e", "gpus": 2, "parent": "east"},
                ],
            },
            "geo": {"regions": regions},
            "tenants": [{"name": "red"}],
            "jobs": jobs,
            "policy": {"formulation": "geo", "terms": ["value"]},
        }
    )
    check_round(round_)
    return round_


def waiting(round_: Round) -> tuple[Plan, dict[str, Decision]]:
    plan = solve_round(round_, isolation="none")
    assert verify(round_, plan).ok
    return plan, {d.job: d for d in plan.decisions if d.decision is DecisionKind.WAIT}


def told(decision: Decision) -> str:
    assert decision.reason is not None
    return reason_text(decision.reason, decision.detail)


def test_a_job_for_which_each_region_is_too_small_never_fits() -> None:
    two = {"name": "two", "options": [{"groups": [{"gpu": 3, "count": 2}]}]}
    _, found = waiting(round_of([two]))
    assert found["two"].reason is Reason.NEVER_FITS
    assert told(found["two"]) == (
        "in region west: at most 1 of 2 tasks fit even when all is empty "
        "(4 GPUs free, the 2 ask 6 GPUs)"
    )


def test_a_job_waits_for_the_quota_of_the_region_that_could_hold_it() -> None:
    running = {"tasks": [{"host": "w", "gpus": [0, 1]}], "pinned": True}
    jobs = [job("runs", 2, tenant="red", running=running), job("more", 2, tenant="red")]
    blocks = job("blocks", 1, running={"tasks": [{"host": "e", "gpus": [0]}], "pinned": True})
    _, found = waiting(round_of([*jobs, blocks], red=3))
    # In the east it comes further.
    assert (found["more"].reason, found["more"].detail) == (
        Reason.CAPACITY,
        Detail.model_validate(
            {
                "region": "east",
                "host": "e",
                "tasks": 1,
                "places": 0,
                "resource": "gpu",
                "asked": 2,
                "free": 1,
            }
        ),
    )
    _, found = waiting(round_of([*jobs[:1], job("more", 2, tenant="red", regions=["west"])], red=3))
    assert told(found["more"]) == (
        "tenant red uses 2 of 3 GPUs in region west; the job asks 2 GPUs, 1 too many"
    )


@pytest.mark.parametrize(
    ("reason", "facts"),
    [
        (Reason.NEVER_FITS, {}),
        (Reason.QUOTA, {}),
        (Reason.DISPLACED_BY_PRIORITY, {"region": "west"}),
        (Reason.NOT_CHOSEN, {"region": "west"}),
        (Reason.NO_REGION, {}),
        (Reason.CAPACITY, {"region": "north"}),
        (Reason.CAPACITY, {"region": "east", "tasks": 1, "places": 1}),
        (Reason.CAPACITY, {"region": "west", "host": "w", "free": 3000}),
    ],
)
def test_the_verifier_refuses_reasons_that_are_not_true(reason: Reason, facts: Raw) -> None:
    running = {"tasks": [{"host": "w", "gpus": [0, 1]}], "pinned": True}
    blocks = {"tasks": [{"host": "e", "gpus": [0]}], "pinned": True}
    jobs = [job("runs", 2, running=running), job("blocks", 1, running=blocks), job("more", 3)]
    round_ = round_of(jobs)
    plan, found = waiting(round_)
    assert found["more"].reason is Reason.CAPACITY
    old = {} if reason is not Reason.CAPACITY else dict(found["more"].detail or {})
    wrong = found["more"].model_copy(
        update={"reason": reason, "detail": Detail.model_construct(**(old | facts))}
    )
    other = plan.model_copy(update={"decisions": (*plan.decisions[:2], wrong)})
    rules = {violation.rule for violation in verify(round_, other).violations}
    assert rules == {"data_reason" if reason is Reason.NO_REGION else "gang_reason"}
