"""Admission within the disruption budget: beside what runs, where evictions would exceed it."""

from __future__ import annotations

from typing import Any

import pytest

from fuzz.play import read
from placewright.instances.documents.plan import DecisionKind, Plan, Reason
from placewright.instances.verify import verify
from placewright.rounds import solve_round

Raw = dict[str, Any]


def solved(asked: int, budget: Raw | None) -> Plan:
    """Solve a round with a rack of a tenant, on one host of which another's job runs.

    Parameters
    ----------
    asked
        How many tasks of a whole host the tenant's job asks.
    """
    hosts = [{"name": f"h{i}", "parent": "r", "gpus": 2, "gpu_model": "A"} for i in range(3)]
    tasks = [{"host": "h0", "gpus": [0], "group": 0, "index": 0}]
    round_ = read(
        {
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": "r", "level": "rack"}],
                "hosts": hosts,
            },
            "tenants": [{"name": "t", "cells": [{"level": "rack"}]}],
            "jobs": [
                {
                    "name": "other",
                    "options": [{"groups": [{"gpu": 1000}]}],
                    "running": {"option": 0, "tasks": tasks},
                },
                {
                    "name": "mine",
                    "tenant": "t",
                    "options": [{"groups": [{"gpu": 2000, "count": asked}]}],
                },
            ],
            "policy": {"terms": ["value"], "limits": {"disruption": budget}},
        }
    )
    plan = solve_round(round_, isolation="none")
    assert verify(round_, plan).ok
    return plan


@pytest.mark.parametrize("budget", [{"preempted_jobs": 0}, {"preempted_gpus": 0}])
def test_a_guaranteed_job_starts_beside_what_may_not_stop(budget: Raw) -> None:
    other, mine = solved(2, budget).decisions
    assert other.decision is DecisionKind.KEEP
    assert mine.decision is DecisionKind.START
    assert {task.host for task in mine.tasks} == {"h1", "h2"}


def test_a_guaranteed_job_without_room_beside_it_waits_for_the_budget() -> None:
    other, mine = solved(3, {"preempted_jobs": 0}).decisions
    assert other.decision is DecisionKind.KEEP
    assert mine.reason is Reason.DISRUPTION_LIMIT


def test_within_the_budget_it_evicts() -> None:
    other, mine = solved(3, {"preempted_jobs": 1}).decisions
    assert other.decision is not DecisionKind.KEEP
    assert mine.decision is DecisionKind.START
