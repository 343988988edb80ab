"""Joint levels, slices, failure domains and anti-affinity: each corruption breaks its own rule."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.instances.verify.rules.gang.places import RULES_OF_ARRANGEMENT

Raw = dict[str, Any]


def job(
    name: str, *groups: Raw, required: str | None = None, hosts: Raw | None = None, **fields: Any
) -> Raw:
    option = {"groups": groups, "required": required, "hosts": hosts}
    return {"name": name, "options": [option], **fields}


KEEP_OUT = {"anti_affinity": {"label": "db", "level": "rack"}}
ROUND = Round.model_validate(
    {
        "cluster": {
            "levels": ["block", "rack"],
            "domains": [
                *({"name": f"b{b}", "level": "block"} for b in range(2)),
                *(
                    {"name": f"b{b}-r{r}", "level": "rack", "parent": f"b{b}"}
                    for b in range(2)
                    for r in range(3)
                ),
            ],
            "hosts": [
                {
                    "name": f"b{b}-r{r}-h[0-1]",
                    "parent": f"b{b}-r{r}",
                    "gpus": 8,
                    "gpu_model": "A",
                }
                for b in range(2)
                for r in range(3)
            ],
        },
        "jobs": [
            job(
                "team",
                {"gpu": 0},
                {"gpu": 1, "count": 2},
                required="block",
            ),
            job(
                "sliced",
                {"gpu": 1, "count": 4, "slices": {"size": 2, "required": "rack"}},
            ),
            job("replicas", {"gpu": 1, "count": 3, "apart": {"level": "rack"}}),
            job("new", {"gpu": 1, "count": 2}, **KEEP_OUT),
            job(
                "old",
                {"gpu": 1},
                running={"tasks": [{"host": "b1-r0-h0", "gpus": [0]}]},
                **KEEP_OUT,
            ),
            job(
                "too-near",
                {"gpu": 1, "count": 2},
                running={
                    "tasks": [
                        {"index": 0, "host": "b1-r0-h1", "gpus": [0]},
                        {"index": 1, "host": "b1-r1-h1", "gpus": [0]},
                    ]
                },
                **KEEP_OUT,
            ),
            job("few", {"gpu": 1, "count": 3}, hosts={"min": 2, "max": 2}),
            job(
                "two-each",
                {"gpu": 0},
                {"gpu": 1, "count": 4, "num_hosts": {"min": 2, "max": 2}},
                hosts={"max": 3},
            ),
        ],
    }
)
check_round(ROUND)
TEAM, SLICED, REPLICAS, NEW, OLD, NEAR, FEW, EACH = range(8)


def decision(name: str, kind: str, *tasks: tuple[int, int, str, list[int]]) -> Raw:
    return {
        "job": name,
        "decision": kind,
        "option": 0,
        "tasks": [{"group": g, "index": i, "host": h, "gpus": gpus} for g, i, h, gpus in tasks],
    }


PLAN: Raw = {
    "decisions": [
        decision(
            "team",
            "start",
            (0, 0, "b0-r0-h0", []),
            (1, 0, "b0-r1-h0", [0]),
            (1, 1, "b0-r2-h0", [0]),
        ),
        decision(
            "sliced",
            "start",
            (0, 0, "b0-r0-h0", [1]),
            (0, 1, "b0-r0-h1", [1]),
            (0, 2, "b1-r0-h0", [1]),
            (0, 3, "b1-r0-h1", [1]),
        ),
        decision(
            "replicas",
            "start",
            (0, 0, "b0-r0-h0", [2]),
            (0, 1, "b0-r1-h0", [2]),
            (0, 2, "b1-r1-h0", [2]),
        ),
        decision("new", "start", (0, 0, "b0-r0-h0", [3]), (0, 1, "b0-r0-h1", [3])),
        decision("old", "keep", (0, 0, "b1-r0-h0", [0])),
        # It shares a rack with the other running one, and leaves one that it does not share.
        decision("too-near", "migrate", (0, 0, "b1-r0-h1", [0]), (0, 1, "b1-r2-h0", [0])),
        decision(
            "few",
            "start",
            (0, 0, "b0-r0-h0", [4]),
            (0, 1, "b0-r0-h0", [5]),
            (0, 2, "b0-r0-h1", [4]),
        ),
        decision(
            "two-each",
            "start",
            (0, 0, "b1-r2-h1", []),
            (1, 0, "b0-r0-h0", [6]),
            (1, 1, "b0-r0-h1", [6]),
            (1, 2, "b0-r0-h0", [7]),
            (1, 3, "b0-r0-h1", [7]),
        ),
    ],
    "sections": [{"kind": "moves", "steps": ["too-near"], "needs_spare": []}],
}

Edit = Callable[[Raw], object]


def move(job: int, task: int, host: str, **fields: Any) -> Edit:
    return lambda raw: raw["decisions"][job]["tasks"][task].update(host=host, **fields)


def swap(job: int, one: int, other: int) -> Edit:
    def edit(raw: Raw) -> None:
        tasks = raw["decisions"][job]["tasks"]
        tasks[one]["index"], tasks[other]["index"] = tasks[other]["index"], tasks[one]["index"]

    return edit


CORRUPTIONS: dict[str, tuple[Edit, str, str, str]] = {
    "a worker in another block than the leader": (
        move(TEAM, 2, "b1-r0-h0"),
        "joint_level",
        "decisions[0].tasks",
        "job 'team' is in 2 domains of level 'block', 'b0' and 'b1' among them",
    ),
    "a leader in another block": (
        move(TEAM, 0, "b1-r0-h0"),
        "joint_level",
        "decisions[0].tasks",
        "expected one for all groups",
    ),
    "a slice in two racks": (
        move(SLICED, 1, "b0-r1-h0"),
        "slices",
        "decisions[1].tasks",
        "slice 0 of group 0 of job 'sliced' is in 2 domains",
    ),
    "tasks of two slices that change places": (
        swap(SLICED, 1, 2),
        "slices",
        "decisions[1].tasks",
        "'b0-r0' and 'b1-r0' among them",
    ),
    "two replicas in one rack": (
        move(REPLICAS, 1, "b0-r0-h1"),
        "apart",
        "decisions[2].tasks",
        "2 tasks of group 0 of job 'replicas' are in 'b0-r0'; expected at most 1 in one rack",
    ),
    "a task on one host too many": (
        move(FEW, 1, "b0-r1-h0"),
        "num_hosts",
        "decisions[6].tasks",
        "job 'few' is on 3 hosts; expected 2 to 2",
    ),
    "all tasks on one host": (
        move(FEW, 2, "b0-r0-h0"),
        "num_hosts",
        "decisions[6].tasks",
        "job 'few' is on 1 hosts; expected 2 to 2",
    ),
    "a task of a group on one host too many": (
        move(EACH, 1, "b1-r2-h1"),
        "num_hosts",
        "decisions[7].tasks",
        "group 1 of job 'two-each' is on 3 hosts; expected 2 to 2",
    ),
    "a start where another of the label runs": (
        move(NEW, 1, "b1-r0-h1"),
        "anti_affinity",
        "decisions[3].tasks[1].host",
        "job 'new' comes to 'b1-r0', where 'old' has the label 'db', too",
    ),
    "a start where another of the label comes": (
        move(NEW, 0, "b1-r2-h1"),
        "anti_affinity",
        "decisions[3].tasks[0].host",
        "where 'too-near' has the label",
    ),
    "a task that moves within a rack that another of the label has": (
        move(NEAR, 1, "b1-r0-h0", gpus=[5]),
        "anti_affinity",
        "decisions[5].tasks[1].host",
        "job 'too-near' comes to 'b1-r0', where 'old' has the label",
    ),
}


def check(edit: Edit) -> Any:
    corrupted = copy.deepcopy(PLAN)
    edit(corrupted)
    return verify(ROUND, Plan.model_validate(corrupted))


def test_running_jobs_that_are_too_near_already_may_stay_so() -> None:
    assert check(lambda _: None).violations == ()


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_each_corruption_breaks_its_rule(name: str) -> None:
    edit, rule, where, message = CORRUPTIONS[name]
    violations = [v for v in check(edit).violations if v.rule != "gpu_capacity"]
    assert {v.rule for v in violations} == {rule}
    assert any(v.where == where and message in v.message for v in violations)


def test_each_rule_of_the_arrangement_is_broken_by_some_corruption() -> None:
    assert {rule for _, rule, _, _ in CORRUPTIONS.values()} == {r.id for r in RULES_OF_ARRANGEMENT}
