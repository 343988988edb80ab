"""Reservations keep slices together and tasks apart, as plans do."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify

Raw = dict[str, Any]

CLUSTER: Raw = {
    "levels": ["rack"],
    "domains": [{"name": "r0", "level": "rack"}, {"name": "r1", "level": "rack"}],
    "hosts": [
        {"name": "a[0-1]", "parent": "r0", "gpus": 4, "gpu_model": "T4"},
        {"name": "b[0-1]", "parent": "r1", "gpus": 4, "gpu_model": "T4"},
    ],
}
ON_ALL = [
    {"index": i, "host": host, "gpus": [0, 1, 2, 3]} for i, host in enumerate(["a0", "a1", "b0"])
]


def reserved(asked: Raw, places: dict[str, int]) -> list[str]:
    """What is said of a reservation of four tasks, once a job on three of four hosts has ended."""
    running = {"tasks": ON_ALL, "started": 0}
    options = [{"groups": [{"count": 3, "gpu": 4}]}]
    old = {"name": "old", "options": options, "running": running, "expected_runtime_s": 10}
    options = [{"groups": [{"count": 4, "gpu": 2, **asked}]}]
    jobs = [old, {"name": "q", "options": options, "expected_runtime_s": 5}]
    policy = {"backfill": {"depth": 1}}
    round_ = Round.model_validate({"cluster": CLUSTER, "jobs": jobs, "policy": policy})
    decisions = [
        {"job": "old", "decision": "keep", "option": 0, "tasks": ON_ALL},
        {"job": "q", "decision": "wait", "reason": "reserved", "detail": {"at": 10}},
    ]
    tasks = [{"group": 0, "host": host, "tasks": number} for host, number in places.items()]
    entry = {"job": "q", "option": 0, "at": 10, "end": 15, "tasks": tasks}
    section = {"kind": "reservations", "starts": [], "jobs": [entry]}
    found = verify(round_, Plan.model_validate({"decisions": decisions, "sections": [section]}))
    assert {violation.rule for violation in found.violations} <= {"reservations"}
    return [violation.message.partition(": ")[2] for violation in found.violations]


SLICES = {"slices": {"required": "rack", "size": 2}}
APART = {"apart": {"level": "rack", "most": 2}}


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (SLICES, "tasks in 2 domains of level 'rack'; expected one"),
        (APART, "3 tasks of group 0 in 'r1'; expected at most 2"),
        ({}, ""),
    ],
)
def test_reservations_keep_slices_together_and_tasks_apart(asked: Raw, problem: str) -> None:
    assert reserved(asked, {"b0": 1, "a0": 1, "b1": 1, "a1": 1}) == []
    assert reserved(asked, {"b0": 2, "a0": 1, "b1": 1}) == ([problem] if problem else [])
