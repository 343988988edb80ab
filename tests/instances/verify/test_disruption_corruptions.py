"""A plan with a preemption, a move and a job that is held: each corruption breaks its own rule."""

from __future__ import annotations

from typing import Any

import pytest

from corrupting import (
    Corruption,
    Raw,
    assert_broken,
    both,
    broken_alone,
    decide,
    nothing,
    set_in,
    verified,
)
from placewright.instances.verify.rules.gang.limits import RULES_OF_DISRUPTION_BUDGET
from placewright.instances.verify.rules.gang.places import RULES_OF_MAINTENANCE
from placewright.instances.verify.rules.gang.preemption import RULES_OF_PREEMPTION
from placewright.instances.verify.rules.gang.reasons import RULES_OF_WAITING_REASONS
from placewright.instances.verify.rules.gang.reservations import RULES_OF_RESERVATIONS


def job(name: str, priority: int, gpu: int, *running: Raw, **more: Any) -> Raw:
    """A job of one task, which runs in a place that is given."""
    options = [{"groups": [{"gpu": gpu}]}]
    runs = {"running": {"tasks": list(running)}} if running else {}
    return {"name": name, "priority": priority, "options": options, **runs, **more}


def at(host: str, *gpus: int) -> Raw:
    return {"host": host, "gpus": list(gpus)}


def placed(name: str, decision: str, place: Raw) -> Raw:
    return {"job": name, "decision": decision, "option": 0, "tasks": [place]}


ALL = range(4)
ROUND: Raw = {
    "cluster": {"hosts": [{"name": "h[0-4]", "gpus": 4, "gpu_model": "A100"}]},
    "now": 100,
    "maintenance": [{"host": "h3", "start": 200, "end": 300}],
    "policy": {
        "terms": ["value", "disruption"],
        "limits": {"disruption": {"preempted_jobs": 1, "migrated_jobs": 1}},
    },
    "jobs": [
        job("victim", 1, 4, at("h0", *ALL)),
        job("high", 2, 4, at("h1", *ALL)),
        job("equal", 1, 4),
        job("kept", 1, 1, at("h2", 0)),
        job("held", 1, 1, held=True),
    ],
}
VICTIM, HIGH, EQUAL, KEPT, HELD = range(5)
PLAN: Raw = {
    "decisions": [
        {"job": "victim", "decision": "preempt", "displaced_by": "high"},
        placed("high", "migrate", at("h0", *ALL)),
        {"job": "equal", "decision": "wait", "reason": "not_chosen"},
        placed("kept", "keep", at("h2", 0)),
        {"job": "held", "decision": "wait", "reason": "held"},
    ],
    "sections": [{"kind": "moves", "steps": ["victim", "high"], "needs_spare": []}],
}

CORRUPTIONS: dict[str, Corruption] = {
    "an equal of the victim in the place that a higher job left for it": (
        decide(EQUAL, placed("equal", "start", at("h1", *ALL))),
        {"preemption"},
        "decisions[0]",
    ),
    "one move more than the budget": (
        both(
            decide(KEPT, placed("kept", "migrate", at("h2", 1))),
            set_in("sections", 0, "steps", to=["victim", "high", "kept"]),
        ),
        {"disruption_budget"},
        "decisions[3]",
    ),
    "a job that no guarantee covers waits for the budget": (
        set_in("decisions", EQUAL, "reason", to="disruption_limit"),
        {"disruption_limit"},
        "decisions[2].reason",
    ),
    "a held job starts": (
        decide(HELD, placed("held", "start", at("h2", 1))),
        {"eligible"},
        "decisions[4].decision",
    ),
    "a job that nobody holds waits as held": (
        set_in("decisions", EQUAL, "reason", to="held"),
        {"waiting_reason"},
        "decisions[2].reason",
    ),
    "a job without a known end comes to a host that will be away": (
        decide(EQUAL, placed("equal", "start", at("h3", *ALL))),
        {"maintenance"},
        "decisions[2].tasks[0].host",
    ),
    "reservations without backfilling": (
        lambda raw: raw["sections"].append({"kind": "reservations", "jobs": [], "starts": []}),
        {"reservations"},
        "sections",
    ),
}


def test_the_plan_is_valid_before_it_is_corrupted() -> None:
    assert verified(ROUND, PLAN, nothing).violations == ()


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corrupted_plan_is_rejected(name: str) -> None:
    edit, rules, where = CORRUPTIONS[name]
    assert_broken(verified(ROUND, PLAN, edit), rules, where)


def test_every_rule_of_disruption_and_waiting_is_broken_alone() -> None:
    owners = (RULES_OF_DISRUPTION_BUDGET, RULES_OF_MAINTENANCE, RULES_OF_RESERVATIONS)
    owners += (RULES_OF_WAITING_REASONS, RULES_OF_PREEMPTION)
    rules = {rule.id for owner in owners for rule in owner}
    assert broken_alone(CORRUPTIONS.values()) == rules - {"displaced_by"}
