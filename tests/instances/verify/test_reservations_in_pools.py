"""Reservations of jobs that wait for a pool: when they fit, and what delays them."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify

Raw = dict[str, Any]

TASK: Raw = {"host": "h0", "gpus": [0]}


def job(name: str, watts: int, runtime: int, **fields: Any) -> Raw:
    group = {"gpu": 1, "resources": {"w": watts}}
    return {
        "name": name,
        "options": [{"groups": [group]}],
        "expected_runtime_s": runtime,
        **fields,
    }


def problems(level: str | None, at: int, start: Raw | None = None, asked: int = 60) -> str:
    """What is said of a plan in which `q` is reserved; 60 of 100 W are held for 10 s more."""
    pool = {"resource": "w", "capacity": 100} | ({} if level is None else {"level": level})
    jobs = [
        job("old", 60, 10, running={"tasks": [TASK], "started": 0}),
        job("q", asked, 5, priority=1),
    ]
    decisions = [
        {"job": "old", "decision": "keep", "option": 0, "tasks": [TASK]},
        {"job": "q", "decision": "wait", "reason": "reserved", "detail": {"at": at}},
    ]
    if start is not None:
        jobs.append(start)
        tasks = [{"host": "h1", "gpus": [0]}]
        decisions.append({"job": start["name"], "decision": "start", "option": 0, "tasks": tasks})
    hosts = {"name": "h[0-1]", "parent": "r0", "gpus": 4, "gpu_model": "T4"}
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": "r0", "level": "rack"}],
                "hosts": [hosts],
                "pools": [pool],
            },
            "jobs": jobs,
            "policy": {"backfill": {"depth": 1}},
        }
    )
    reserved = [{"group": 0, "host": "h1", "tasks": 1}]
    entry = {"job": "q", "option": 0, "at": at, "end": at + 5, "tasks": reserved}
    section = {"kind": "reservations", "starts": [], "jobs": [entry]}
    found = verify(round_, Plan.model_validate({"decisions": decisions, "sections": [section]}))
    assert {violation.rule for violation in found.violations} <= {"reservations"}
    return "".join(violation.message for violation in found.violations)


@pytest.mark.parametrize("level", ["rack", None])
@pytest.mark.parametrize(
    ("at", "start", "message"),
    [
        (10, None, ""),
        (9, None, "jobs hold 120 of w together in"),
        (12, None, "expected 10, when it fits"),
        (10, job("s", 40, 20), ""),
        (10, job("s", 35, 10), ""),
    ],
)
def test_a_job_is_reserved_what_is_left_of_a_pool_in_time(
    level: str | None, at: int, start: Raw | None, message: str
) -> None:
    found = problems(level, at, start)
    assert message in found
    assert bool(message) == bool(found)


@pytest.mark.parametrize("level", ["rack", None])
@pytest.mark.parametrize(("runtime", "watts", "delays"), [(11, 30, 0), (11, 31, 1), (10, 40, 0)])
def test_a_job_that_starts_leaves_reservations_their_part_of_a_pool(
    level: str | None, runtime: int, watts: int, delays: int
) -> None:
    """Beside what runs now the pool has room for it, but not beside the 70 W from 10 s on."""
    found = problems(level, 10, job("s", watts, runtime), asked=70)
    assert ("reservation of job 'q' at 10 is delayed: jobs hold 101 of w" in found) == bool(delays)
    assert bool(found) == bool(delays)
