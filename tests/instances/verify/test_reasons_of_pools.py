"""Reasons to wait where pools are short: which are refuted, and which facts are true."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify

Raw = dict[str, Any]

RACK: Raw = {"resource": "w", "level": "rack", "capacity": 100, "domains": {"r1": 50}}
ALL: Raw = {"resource": "w", "capacity": 100}
TREES: Raw = {"resource": "trees", "level": "rack", "capacity": 1, "per": "job"}


def job(name: str, count: int, watts: int, priority: int = 0, **fields: Any) -> Raw:
    group = {"count": count, "gpu": 1, "resources": {"w": watts} if watts else {}}
    option = {"groups": [group], "uses": fields.pop("uses", {})}
    if required := fields.pop("required", None):
        option["required"] = required
    return {"name": name, "priority": priority, "options": [option], **fields}


def tasks(gpu: int, *hosts: str) -> list[Raw]:
    return [{"index": i, "host": host, "gpus": [gpu]} for i, host in enumerate(hosts)]


def placed(kind: str, name: str, gpu: int, *hosts: str) -> Raw:
    return {"job": name, "decision": kind, "option": 0, "tasks": tasks(gpu, *hosts)}


def problems(pools: list[Raw], jobs: list[Raw], decisions: list[Raw], **why: Any) -> str:
    """What is said of the reason of the last job, on racks r0 and r1 of two hosts of 4 GPUs."""
    hosts = {"gpus": 4, "gpu_model": "T4"}
    cluster = {
        "levels": ["rack"],
        "domains": [{"name": f"r{i}", "level": "rack"} for i in range(2)],
        "hosts": [{**hosts, "name": f"r{i}-h[0-1]", "parent": f"r{i}"} for i in range(2)],
        "pools": pools,
    }
    round_ = Round.model_validate({"cluster": cluster, "jobs": jobs})
    reason = why.pop("reason")
    wait = {"job": jobs[-1]["name"], "decision": "wait", "reason": reason, "detail": why or None}
    stopped = any(one["decision"] in ("preempt", "migrate") for one in decisions)
    moves = [one["job"] for one in decisions if one["decision"] in ("preempt", "migrate")]
    sections = [{"kind": "moves", "steps": moves, "needs_spare": []}] if stopped else []
    plan = Plan.model_validate({"decisions": [*decisions, wait], "sections": sections})
    found = verify(round_, plan)
    assert {violation.rule for violation in found.violations} <= {"gang_reason"}
    return "".join(violation.message for violation in found.violations)


@pytest.mark.parametrize(
    ("pools", "new", "reason"),
    [
        ([RACK], job("new", 1, 101), "never_fits"),
        ([RACK], job("new", 1, 100), "not_chosen"),
        ([RACK], job("new", 4, 50), "never_fits"),
        ([RACK], job("new", 3, 50), "not_chosen"),
        ([RACK], job("new", 3, 50, required="rack"), "never_fits"),
        ([RACK], job("new", 2, 50, required="rack"), "not_chosen"),
        ([RACK, ALL], job("new", 3, 50), "never_fits"),
        ([ALL], job("new", 2, 50), "not_chosen"),
        ([ALL], job("new", 2, 51), "never_fits"),
        ([TREES], job("new", 1, 0, uses={"trees": 2}), "never_fits"),
        ([TREES], job("new", 16, 0, uses={"trees": 1}), "not_chosen"),
        ([{**TREES, "domains": {"r1": 0}}], job("new", 9, 0, uses={"trees": 1}), "never_fits"),
        ([{**TREES, "domains": {"r1": 0}}], job("new", 8, 0, uses={"trees": 1}), "not_chosen"),
    ],
)
def test_an_empty_cluster_has_all_that_pools_have(pools: list[Raw], new: Raw, reason: str) -> None:
    for said in ("never_fits", "capacity", "hosts_away", "not_chosen"):
        assert (problems(pools, [new], [], reason=said) == "") == (said == reason), said


def test_what_runs_takes_of_pools() -> None:
    old = job("old", 1, 60, running={"tasks": tasks(0, "r0-h0")})
    keep = placed("keep", "old", 0, "r0-h0")
    for watts, reason in ((50, "not_chosen"), (51, "capacity"), (101, "never_fits")):
        for said in ("never_fits", "capacity", "not_chosen"):
            found = problems([RACK], [old, job("new", 1, watts)], [keep], reason=said)
            assert (found == "") == (said == reason), (watts, said)


def test_a_pool_beyond_its_capacity_leaves_what_was_given_back() -> None:
    """Of 100 W 150 were held; b leaves for n, which takes 30, so 50 more may be taken."""
    jobs = [
        job("a", 1, 70, running={"tasks": tasks(0, "r0-h0")}),
        job("b", 1, 80, running={"tasks": tasks(1, "r0-h0")}),
        job("n", 1, 30, 2),
    ]
    plan = [
        placed("keep", "a", 0, "r0-h0"),
        {"job": "b", "decision": "preempt", "displaced_by": ["n"]},
        placed("start", "n", 1, "r0-h1"),
    ]
    for priority, watts, reason in ((1, 50, "not_chosen"), (1, 51, "displaced_by_priority")):
        new = job("new", 1, watts, priority)
        assert problems([ALL], [*jobs, new], plan, reason=reason) == ""
    # A job no higher than b may have only what b leaves: beside a and b there is nothing left.
    for watts, reason in ((1, "capacity"), (0, "not_chosen")):
        assert problems([ALL], [*jobs, job("new", 1, watts)], plan, reason=reason) == ""
        wrong = "not_chosen" if watts else "capacity"
        assert problems([ALL], [*jobs, job("new", 1, watts)], plan, reason=wrong)


R0: Raw = {"level": "rack", "domain": "r0"}
R1: Raw = {"level": "rack", "domain": "r1"}


@pytest.mark.parametrize(
    ("pool", "new", "facts", "true"),
    [
        (ALL, job("new", 2, 30), {"asked": 60, "free": 40, "limit": 100}, True),
        (ALL, job("new", 2, 30), {"asked": 60, "free": 41, "limit": 100}, False),
        (ALL, job("new", 2, 30), {"asked": 30, "free": 40, "limit": 100}, False),
        (ALL, job("new", 2, 30), {"asked": 60, "free": 40, "limit": 40}, False),
        (ALL, job("new", 2, 30), {**R1, "asked": 60, "free": 40, "limit": 100}, False),
        (RACK, job("new", 1, 60), {**R1, "asked": 60, "free": 50, "limit": 50}, True),
        (RACK, job("new", 1, 60), {**R0, "asked": 60, "free": 40, "limit": 100}, True),
        (RACK, job("new", 1, 60), {**R0, "asked": 60, "free": 50, "limit": 50}, False),
        (RACK, job("new", 3, 40), {**R1, "asked": 120, "free": 50, "limit": 50}, True),
        (RACK, job("new", 3, 40), {"asked": 120, "free": 90, "limit": 150}, False),
        (RACK, job("new", 12, 10), {**R1, "asked": 80, "free": 50, "limit": 50}, True),
        (RACK, job("new", 12, 10), {**R0, "asked": 70, "free": 40, "limit": 100}, True),
        (
            TREES,
            job("new", 9, 0, uses={"trees": 1}),
            {**R0, "asked": 1, "free": 0, "limit": 1},
            True,
        ),
        (
            TREES,
            job("new", 9, 0, uses={"trees": 1}),
            {**R1, "asked": 1, "free": 1, "limit": 1},
            False,
        ),
    ],
)
def test_facts_of_pools_have_to_be_true(pool: Raw, new: Raw, facts: Raw, true: bool) -> None:
    """A job holds 60 W and the tree of r0 before, on a GPU of its first host."""
    per_job = pool["resource"] == "trees"
    uses = {"trees": 1} if per_job else {}
    old = job("old", 1, 0 if per_job else 60, running={"tasks": tasks(0, "r0-h0")}, uses=uses)
    keep = placed("keep", "old", 0, "r0-h0")
    found = problems(
        [pool], [old, new], [keep], reason="capacity", resource=pool["resource"], **facts
    )
    assert (found == "") == true, found
