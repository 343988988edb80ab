"""A disruption budget under the policies `deadline` and `geo`: hard, whatever is promised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placewright import Plan, Round, solve_round, verify
from placewright.formulations.geo import parameters
from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import DecisionKind

Raw = dict[str, Any]
HOUR = 3600


def checked(raw: Raw) -> Round:
    round_ = Round.model_validate(raw)
    check_round(round_)
    return round_


def decided(plan: Plan, kind: DecisionKind) -> list[str]:
    return [decision.job for decision in plan.decisions if decision.decision is kind]


def running(name: str, host: str, gpus: int = 4, **more: Any) -> Raw:
    tasks = [{"host": host, "gpus": list(range(gpus))}]
    raw: Raw = {"name": name, "options": [{"groups": [{"gpu": gpus}]}], **more}
    return raw | {"running": {"tasks": tasks, "checkpoint": 0}}


def promises(limits: Raw, **leases: Any) -> Round:
    """Two hosts full of jobs without a deadline, and two urgent ones promised before."""
    urgent = {
        "options": [{"groups": [{"gpu": 4}]}],
        "deadline": {
            "work_s": 2 * HOUR,
            "due": [{"at": 2 * HOUR, "value": 5}],
            "promise": {"at": 2 * HOUR, "value": 5},
        },
    }
    return checked(
        {
            "now": 0,
            "cluster": {"hosts": [{"name": "h[0-1]", "gpus": 4, "gpu_model": "A"}]},
            "jobs": [
                *(running(f"rest{i}", f"h{i}") for i in range(2)),
                *({"name": f"urgent{i}", **urgent} for i in range(2)),
            ],
            "policy": {"formulation": "deadline", "limits": {"disruption": limits}},
            "leases": {"length_s": HOUR, "horizon": 8, **leases},
        }
    )


@pytest.mark.parametrize("seconds", [0, 10])
@pytest.mark.parametrize(
    ("limits", "most"),
    [({}, 2), ({"preempted_jobs": 1}, 1), ({"preempted_gpus": 7}, 1), ({"preempted_jobs": 0}, 0)],
)
def test_promises_break_that_the_budget_does_not_allow(limits, most, seconds):
    round_ = promises(limits)
    plan = solve_round(round_, time_limit=seconds, isolation="none")
    assert verify(round_, plan).ok
    assert len(decided(plan, DecisionKind.START)) == most
    assert len(decided(plan, DecisionKind.PREEMPT)) == most
    assert plan.certificate is not None
    assert not plan.certificate.degraded
    assert plan.certificate.terms[0].value == 5 * (2 - most)
    if seconds:
        assert plan.certificate.terms[0].status == "optimal"


def test_a_job_on_a_host_that_an_outage_takes_away_does_not_count():
    round_ = promises({"preempted_jobs": 0, "migrated_jobs": 0}, outages=[{"host": "h0"}])
    plan = solve_round(round_, time_limit=10, isolation="none")
    assert verify(round_, plan).ok
    assert decided(plan, DecisionKind.PREEMPT) == ["rest0"]


def regions(limits: Raw, number: int = 3) -> Round:
    """Regions of one host with two jobs each, and two jobs for each that may take their places."""
    hosts = [
        {"name": f"h{r}", "parent": f"r{r}", "gpus": 4, "gpu_model": "A"} for r in range(number)
    ]
    jobs = []
    for r in range(number):
        for k in range(2):
            job = running(f"old{r}{k}", f"h{r}", 2)
            job["running"]["tasks"][0]["gpus"] = [2 * k, 2 * k + 1]
            jobs.append(job)
    jobs += [
        {
            "name": f"new{i}",
            "priority": 1,
            "weight": 3,
            "options": [{"groups": [{"gpu": 2}]}],
        }
        for i in range(2 * number)
    ]
    return checked(
        {
            "now": 100,
            "cluster": {
                "levels": ["region"],
                "domains": [{"name": f"r{r}", "level": "region"} for r in range(number)],
                "hosts": hosts,
            },
            "jobs": jobs,
            "geo": {"level": "region"},
            "policy": {"formulation": "geo", "limits": {"disruption": limits}},
        }
    )


@pytest.mark.nightly(after=4)
@pytest.mark.parametrize("by_region", [False, True])
@pytest.mark.parametrize(
    ("limits", "most"),
    [({}, 6), ({"preempted_jobs": 4}, 4), ({"preempted_gpus": 3}, 1), ({"lost_gpu_s": 600}, 3)],
)
def test_regions_share_one_budget(limits, most, by_region, monkeypatch):
    if by_region:
        changed = replace(parameters.PARAMETERS, max_monolithic_size=0, max_refined_size=0)
        monkeypatch.setattr(parameters, "PARAMETERS", changed)
    round_ = regions(limits)
    for seconds in (0, 20):
        plan = solve_round(round_, time_limit=seconds, isolation="none")
        assert verify(round_, plan).ok
        assert len(decided(plan, DecisionKind.PREEMPT)) <= most
    if not by_region or "preempted_jobs" in limits or not limits:
        assert len(decided(plan, DecisionKind.PREEMPT)) == most


def test_plans_beyond_the_budget_break_the_rule():
    for of, limits in ((promises, {"preempted_jobs": 1}), (regions, {"preempted_gpus": 11})):
        plan = solve_round(of({}), time_limit=10, isolation="none")
        plan = plan.model_copy(update={"round": None, "certificate": None})
        assert {v.rule for v in verify(of(limits), plan).violations} == {"disruption_budget"}
