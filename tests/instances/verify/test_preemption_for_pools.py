"""Preemption by need where pools are short: who had to stop, and who may profit."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify

Raw = dict[str, Any]

RACK: Raw = {"resource": "w", "level": "rack", "capacity": 100}


def tasks(*hosts: str, gpu: int = 0) -> list[Raw]:
    return [{"index": i, "host": host, "gpus": [gpu]} for i, host in enumerate(hosts)]


def job(name: str, watts: int, priority: int, *hosts: str, gpu: int = 0, count: int = 1) -> Raw:
    """A job of one task per host that it runs on, or a pending one."""
    group = {"count": len(hosts) or count, "gpu": 1, "resources": {"w": watts}}
    running = {"running": {"tasks": tasks(*hosts, gpu=gpu)}} if hosts else {}
    return {"name": name, "priority": priority, "options": [{"groups": [group]}], **running}


def placed(kind: str, name: str, *hosts: str, gpu: int = 0) -> Raw:
    return {"job": name, "decision": kind, "option": 0, "tasks": tasks(*hosts, gpu=gpu)}


def stopped(name: str, *by: str) -> Raw:
    return {"job": name, "decision": "preempt", "displaced_by": list(by)}


def rules_of(pools: list[Raw], jobs: list[Raw], *decisions: Raw, steps: list[str]) -> list[str]:
    """The rules that a plan breaks, on racks r0, r1 and r2 of four hosts of 8 GPUs."""
    racks = ["r0", "r1", "r2"]
    round_ = Round.model_validate(
        {
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": rack, "level": "rack"} for rack in racks],
                "hosts": [
                    {"name": f"{rack}-h[0-3]", "parent": rack, "gpus": 8, "gpu_model": "T4"}
                    for rack in racks
                ],
                "pools": pools,
            },
            "jobs": jobs,
        }
    )
    sections = [{"kind": "moves", "steps": steps, "needs_spare": []}] if steps else []
    plan = Plan.model_validate({"decisions": list(decisions), "sections": sections})
    found = verify(round_, plan)
    return list(dict.fromkeys(violation.rule for violation in found.violations))


@pytest.mark.parametrize(
    ("pool", "there", "rules"),
    [
        (RACK, "r0-h1", []),
        (RACK, "r1-h0", ["displaced_by", "preemption"]),
        ({**RACK, "level": None}, "r1-h0", []),
        ({**RACK, "level": None, "capacity": 120}, "r1-h0", ["displaced_by", "preemption"]),
        ({**RACK, "level": "host"}, "r0-h1", ["displaced_by", "preemption"]),
        ({**RACK, "level": "host"}, "r0-h0", []),
    ],
)
def test_who_has_of_a_pool_what_a_higher_job_needs_stops(
    pool: Raw, there: str, rules: list[str]
) -> None:
    jobs = [job("v", 60, 1, "r0-h0"), job("n", 60, 2)]
    plan = stopped("v", "n"), placed("start", "n", there, gpu=1)
    assert rules_of([pool], jobs, *plan, steps=["v"]) == rules


def test_a_job_of_the_same_priority_takes_no_part_of_a_pool_that_a_victim_gave_back() -> None:
    jobs = [job("v", 60, 1, "r0-h0"), job("n", 50, 2), job("x", 50, 1)]
    both = placed("start", "n", "r0-h1"), placed("start", "x", "r0-h2")
    both_rules = ["displaced_by", "preemption"]  # without n alone v could not stay
    assert rules_of([RACK], jobs, stopped("v", "n"), *both, steps=["v"]) == both_rules
    elsewhere = placed("start", "n", "r0-h1"), placed("start", "x", "r1-h2")
    assert rules_of([RACK], jobs, stopped("v", "n"), *elsewhere, steps=["v"]) == []


def test_victims_of_one_priority_are_put_back_together() -> None:
    jobs = [job("v1", 40, 1, "r0-h0"), job("v2", 40, 1, "r0-h1"), job("n", 50, 2)]
    jobs += [job("x", 30, 1)]
    plan = stopped("v1", "n"), stopped("v2", "n"), placed("start", "n", "r0-h2")
    start = placed("start", "x", "r0-h3")
    wait = {"job": "x", "decision": "wait"}
    # Beside n and x there is room for neither, but without n for both only if x is not there.
    assert rules_of([RACK], jobs, *plan, start, steps=["v1", "v2"]) == ["preemption"]
    # Without x each of them could stay.
    assert set(rules_of([RACK], jobs, *plan, wait, steps=["v1", "v2"])) == {
        "displaced_by",
        "preemption",
    }


@pytest.mark.parametrize(
    ("there", "rules"), [("r2-h3", []), ("r1-h2", ["preemption"]), ("r1-h3", ["preemption"])]
)
def test_a_higher_job_that_moves_into_a_pool_goes_back_where_it_was(
    there: str, rules: list[str]
) -> None:
    """Job h moves into the rack of v; its GPU and its part of its old rack must stay free."""
    jobs = [job("v", 60, 1, "r0-h0"), job("h", 60, 2, "r1-h3"), job("x", 60, 1)]
    plan = stopped("v", "h"), placed("migrate", "h", "r0-h1"), placed("start", "x", there)
    assert rules_of([RACK], jobs, *plan, steps=["v", "h"]) == rules


@pytest.mark.parametrize(
    ("watts", "there", "rules"),
    [(40, "r1-h2", []), (50, "r1-h2", ["preemption"]), (50, "r2-h2", [])],
)
def test_a_pool_has_room_for_a_higher_job_that_goes_back_to_its_place(
    watts: int, there: str, rules: list[str]
) -> None:
    """Job h takes the GPU of v; no victim held anything of the pool that h came from."""
    jobs = [job("v", 0, 1, "r0-h0"), job("h", 60, 2, "r1-h0"), job("x", watts, 1)]
    plan = stopped("v", "h"), placed("migrate", "h", "r0-h0"), placed("start", "x", there)
    assert rules_of([RACK], jobs, *plan, steps=["v", "h"]) == rules


def test_a_pool_has_room_for_jobs_that_go_back_one_after_the_other() -> None:
    """Job h takes the GPU of v, and g what h held of rack r1; x must not have what g held of r2."""
    jobs = [job("v", 0, 1, "r0-h0"), job("h", 60, 2, "r1-h0"), job("g", 60, 2, "r2-h0")]
    jobs += [job("x", 60, 1)]
    moves = placed("migrate", "h", "r0-h0"), placed("migrate", "g", "r1-h1")
    for there, rules in (("r0-h1", ["pool"]), ("r2-h1", ["preemption"])):
        plan = stopped("v", "h"), *moves, placed("start", "x", there)
        assert rules_of([RACK], jobs, *plan, steps=["v", "h", "g"]) == rules


def test_a_job_that_moves_within_a_pool_displaces_nobody_there() -> None:
    """Both h and n are above v; h takes of the pool what it took before."""
    jobs = [job("v", 40, 1, "r0-h0"), job("h", 60, 2, "r0-h1"), job("n", 40, 2)]
    moved = placed("migrate", "h", "r0-h2"), placed("start", "n", "r0-h3")
    for by, rules in ((("n",), []), (("h",), ["displaced_by"]), (("h", "n"), ["displaced_by"])):
        assert rules_of([RACK], jobs, stopped("v", *by), *moved, steps=["v", "h"]) == rules


def test_a_pool_beyond_its_capacity_stops_nobody() -> None:
    jobs = [job("v", 60, 1, "r0-h0"), job("o", 60, 1, "r0-h1"), job("n", 20, 2)]
    keep, start = placed("keep", "o", "r0-h1"), placed("start", "n", "r0-h2")
    # 120 W were held, so v had to stop only where n takes more than v gives back.
    assert rules_of([RACK], jobs, stopped("v", "n"), keep, start, steps=["v"]) == []
    assert set(
        rules_of(
            [{**RACK, "domains": {"r0": 140}}],
            jobs,
            stopped("v", "n"),
            keep,
            start,
            steps=["v"],
        )
    ) == {"displaced_by", "preemption"}


def test_what_a_job_uses_once_is_given_back_with_its_last_task() -> None:
    pool = {"resource": "trees", "level": "rack", "capacity": 1, "per": "job"}

    def using(name: str, priority: int, *hosts: str, count: int = 1) -> Raw:
        raw = job(name, 0, priority, *hosts, count=count)
        raw["options"] = [
            {"groups": [{"count": len(hosts) or count, "gpu": 1}], "uses": {"trees": 1}}
        ]
        return raw

    jobs = [using("v", 1, "r0-h0", "r1-h0"), using("n", 2)]
    for rack, rules in (("r0", []), ("r1", []), ("r2", ["displaced_by", "preemption"])):
        plan = stopped("v", "n"), placed("start", "n", f"{rack}-h2")
        assert rules_of([pool], jobs, *plan, steps=["v"]) == rules
