"""Plans of policy `stages` that break one of its rules, and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from placewright import Round, verify
from placewright.instances import parse_plan
from placewright.instances.verify.rules.stages import POLICY

HOSTS = [{"name": "h", "gpus": 4, "gpu_model": "A100"}]
BEGINS = {"a": 0, "c": 0, "d": 4, "e": 4, "b": 5, "r": 0}
SECONDS = {"a": 4, "c": 6, "d": 6, "e": 3, "b": 2, "r": 5}
GPUS = {"r": 0, "a": 1, "c": 2}


def job(name: str) -> dict[str, Any]:
    stage = {"task_s": SECONDS[name], "after": ["a"] if name == "b" else []}
    running = {"running": {"started": 0, "tasks": tasks(name)}} if name == "r" else {}
    return {"name": name, "options": [{"groups": [{"gpu": 1}]}], "stage": stage, **running}


def tasks(name: str) -> list[dict[str, Any]]:
    return [{"host": "h", "gpus": [GPUS[name]]}]


ROUND = Round.of(
    {"hosts": HOSTS}, [job(name) for name in BEGINS], policy={"formulation": "stages"}, now=0
)


def plan() -> dict[str, Any]:
    decisions: list[dict[str, Any]] = []
    for name, begin in BEGINS.items():
        if begin:
            waits = {"decision": "wait", "reason": "later", "detail": {"at": begin}}
            decisions.append({"job": name, **waits})
        else:
            decision = "keep" if name == "r" else "start"
            decisions.append({"job": name, "decision": decision, "option": 0, "tasks": tasks(name)})
    jobs = [
        {"job": name, "option": 0, "start": begin, "end": begin + SECONDS[name], "tasks": 1}
        for name, begin in BEGINS.items()
    ]
    return {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Plan",
        "decisions": decisions,
        "sections": [{"kind": "schedule", "jobs": jobs}],
    }


def entry(raw: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in raw["sections"][0]["jobs"] if one["job"] == name)


def decided(raw: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in raw["decisions"] if one["job"] == name)


def begins_at(name: str, begin: int) -> Callable[[dict[str, Any]], None]:
    def edit(raw: dict[str, Any]) -> None:
        entry(raw, name).update(start=begin, end=begin + SECONDS[name])
        decided(raw, name)["detail"] = {"at": begin}

    return edit


CORRUPTIONS: dict[str, Callable[[dict[str, Any]], object]] = {
    "schedule": lambda raw: raw["sections"][0]["jobs"].remove(entry(raw, "e")),
    "schedule_times": lambda raw: entry(raw, "e").update(end=8),
    "stage_order": begins_at("b", 2),
    "stage_capacity": begins_at("b", 4),
    "stage_start": lambda raw: entry(raw, "c").update(start=1, end=7),
    "later_reason": lambda raw: decided(raw, "d").update(detail={"at": 3}),
    "stage_keep": lambda raw: decided(raw, "r").update(
        decision="preempt", option=None, tasks=[], displaced_by=["a"]
    ),
}
WITH_OTHERS = {"stage_keep"}
"""Who stops also breaks the rules about whom jobs may preempt, and the order of moves."""


def broken(edit: Callable[[dict[str, Any]], object]) -> set[str]:
    raw = plan()
    edit(raw)
    return {one.rule for one in verify(ROUND, parse_plan(raw)).violations}


def test_the_plan_is_valid_before_it_is_corrupted() -> None:
    assert broken(lambda raw: None) == set()


@pytest.mark.parametrize("rule", CORRUPTIONS)
def test_a_corrupted_plan_is_rejected(rule: str) -> None:
    found = broken(CORRUPTIONS[rule])
    assert rule in found
    assert rule in WITH_OTHERS or found == {rule}


def test_every_rule_of_the_policy_is_broken() -> None:
    own = {rule.id for rule in POLICY.rules if rule.check.__module__.endswith("rules.stages")}
    assert set(CORRUPTIONS) == own
