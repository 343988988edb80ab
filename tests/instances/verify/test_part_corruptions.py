"""A valid plan with MIG slices and shares with memory, and each corruption of it refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import Verification, verify
from placewright.instances.verify.rules.gang.places import RULES_OF_GPU_PARTS

Raw = dict[str, Any]


def job(name: str, **group: Any) -> Raw:
    return {"name": name, "options": [{"groups": [group]}]}


def running(name: str, host: str, on: int, slot: int | None = None, **group: Any) -> Raw:
    task = {"host": host, "gpus": [on]} | ({} if slot is None else {"slot": slot})
    return job(name, **group) | {"running": {"tasks": [task]}}


ROUND_RAW: Raw = {
    "cluster": {
        "hosts": [
            {"name": "a", "gpus": 2, "gpu_model": "A100-SXM4-80GB"},
            {"name": "b", "gpus": 1, "gpu_model": "A100-PCIE-40GB"},
            {"name": "c", "gpus": 2, "gpu_model": "T4", "gpu_memory": "16Gi"},
            {"name": "d", "gpus": 1, "gpu_model": "H100-SXM5-80GB", "mig": False},
            {"name": "e", "gpus": 1, "gpu_model": "L40S"},
        ]
    },
    "policy": {"terms": ["value", "disruption"]},
    "jobs": [
        running("old", "a", 0, 4, mig="3g.40gb"),
        running("share", "c", 0, gpu=0.3, gpu_memory="6Gi"),
        running("mover", "a", 1, 0, mig="1g.20gb"),
        job("one", mig="1g.10gb"),
        job("media", mig="1g.10gb+me"),
        job("two", mig="2g.20gb"),
        job("double", mig="1g.10gb", gpu_models=["A100-PCIE-40GB"]),
        job("half", gpu=0.5, gpu_memory="10Gi"),
        job("whole", gpu=1, gpu_memory="16Gi"),
        job("plain", gpu=0.2),
        job("media-2", mig="1g.10gb+me"),
    ],
}
ROUND = Round.model_validate(ROUND_RAW)
check_round(ROUND)


def decided(name: str, kind: str, host: str, gpu: int, slot: int | None = None) -> Raw:
    task = {"host": host, "gpus": [gpu]} | ({} if slot is None else {"slot": slot})
    return {"job": name, "decision": kind, "option": 0, "tasks": [task]}


PLAN: Raw = {
    "decisions": [
        decided("old", "keep", "a", 0, 4),
        decided("share", "keep", "c", 0),
        decided("mover", "migrate", "a", 1, 6),
        decided("one", "start", "a", 0, 3),
        decided("media", "start", "a", 0, 2),
        decided("two", "start", "a", 0, 0),
        decided("double", "start", "b", 0, 6),
        decided("half", "start", "c", 0),
        decided("whole", "start", "c", 1),
        decided("plain", "start", "d", 0),
        decided("media-2", "start", "a", 1, 0),
    ],
    "sections": [{"kind": "moves", "steps": ["mover"], "needs_spare": []}],
}
AT = {d["job"]: i for i, d in enumerate(PLAN["decisions"])}


def put(name: str, **fields: Any) -> Callable[[Raw], None]:
    """Change the place of a job's task."""

    def edit(raw: Raw) -> None:
        raw["decisions"][AT[name]]["tasks"][0].update(fields)

    return edit


def check(edit: Callable[[Raw], object]) -> Verification:
    raw = copy.deepcopy(PLAN)
    edit(raw)
    return verify(ROUND, Plan.model_validate(raw))


CORRUPTIONS: dict[str, tuple[Callable[[Raw], object], set[str], str]] = {
    "no slot": (put("one", slot=None), {"slot"}, "one"),
    "a slot that is no start": (put("two", slot=1), {"slot", "mig_layout"}, "two"),
    "a slot beyond the last start": (put("media-2", slot=7), {"slot", "mig_layout"}, "media-2"),
    "a start of the other product": (put("double", slot=5), {"slot"}, "double"),
    "a slot of a share": (put("plain", slot=0), {"slot"}, "plain"),
    "a profile that the host's product lacks": (
        put("two", host="b", gpus=[0], slot=0),
        {"slot"},
        "two",
    ),
    "a host where MIG is off": (put("one", host="d", gpus=[0]), {"slot", "mig_layout"}, "plain"),
    "a host that has no MIG": (put("media-2", host="e", gpus=[0], slot=0), {"slot"}, "media-2"),
    "slices that overlap": (put("one", slot=2), {"mig_layout"}, "media"),
    "a slice over one that is kept": (put("one", slot=5), {"mig_layout"}, "one"),
    "a share beside slices": (put("plain", host="b"), {"mig_layout"}, "plain"),
    "a whole GPU with slices": (
        put("whole", host="a", gpus=[1]),
        {"mig_layout", "gpu_capacity"},
        "whole",
    ),
    "two slices with media extensions": (
        put("media", gpus=[1], slot=2),
        {"mig_layout"},
        "media-2",
    ),
    "more memory than a GPU has": (put("half", gpus=[1]), {"gpu_memory", "gpu_capacity"}, "whole"),
    "memory alone exceeded": (put("plain", host="c", gpus=[0]), set(), ""),
    "a share with memory on GPUs of unknown memory": (
        put("half", host="e", gpus=[0]),
        {"gpu_memory"},
        "half",
    ),
    "a whole GPU of unknown memory": (put("whole", host="e", gpus=[0]), {"gpu_memory"}, "whole"),
    "a migrated slice that stays": (put("mover", slot=0), {"migrated", "mig_layout"}, "mover"),
    "a kept slice at another start": (put("old", slot=0), {"kept_in_place", "mig_layout"}, "old"),
}


def test_the_plan_is_valid_before_it_is_corrupted():
    found = check(lambda raw: None)
    assert found.ok, found.violations
    assert found.terms == {"value": 142 * 4 + 285 + 500 + 1000 + 200, "disruption": 142}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corrupted_plan_is_refused(name):
    edit, rules, job_name = CORRUPTIONS[name]
    found = check(edit)
    assert {violation.rule for violation in found.violations} == rules
    if rules:
        where = f"decisions[{AT[job_name]}]"
        assert any(violation.where.startswith(where) for violation in found.violations)
    assert all("; expected " in violation.message for violation in found.violations)


def test_more_memory_than_a_gpu_has_is_refused_where_its_milli_gpu_suffice():
    raw = copy.deepcopy(ROUND_RAW)
    raw["jobs"][AT["half"]]["options"][0]["groups"][0]["gpu_memory"] = "11Gi"
    found = verify(Round.model_validate(raw), Plan.model_validate(PLAN))
    assert [violation.rule for violation in found.violations] == ["gpu_memory"]


def test_a_move_may_not_come_before_the_slice_that_it_needs_is_left():
    raw = copy.deepcopy(ROUND_RAW)
    raw["jobs"].append(running("blocker", "a", 1, 6, mig="1g.20gb"))
    plan = copy.deepcopy(PLAN)
    plan["decisions"].append(decided("blocker", "migrate", "a", 1, 4))
    round_ = Round.model_validate(raw)
    check_round(round_)
    for steps, rules in ((["blocker", "mover"], []), (["mover", "blocker"], ["move_order"])):
        plan["sections"][0]["steps"] = steps
        found = verify(round_, Plan.model_validate(plan))
        assert [violation.rule for violation in found.violations] == rules


def test_every_rule_of_parts_is_broken_alone():
    alone = {next(iter(rules)) for _, rules, _ in CORRUPTIONS.values() if len(rules) == 1}
    assert alone == {rule.id for rule in RULES_OF_GPU_PARTS}
