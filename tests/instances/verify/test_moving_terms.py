"""Terms of rounds in which running jobs move or stop, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify

Raw = dict[str, Any]
Place = tuple[str, list[int]]

CLUSTER = {
    "levels": ["rack"],
    "domains": [{"name": f"k{rack}", "level": "rack"} for rack in range(3)],
    "hosts": [
        {"name": f"k{rack}-h[0-1]", "parent": f"k{rack}", "gpus": 4, "gpu_model": "T4"}
        for rack in range(3)
    ],
}

ONE_SUM: Raw = {"priority": "preemption"}
BY_CLASS: Raw = {"terms": ["value"]}


def tasks_at(*places: Place) -> list[Raw]:
    return [{"index": i, "host": host, "gpus": gpus} for i, (host, gpus) in enumerate(places)]


def running(name: str, *places: Place, gpu: int = 1000, **fields: Any) -> Raw:
    """A running job of one group with a task per place; what `Job` lacks goes to `running`."""
    job: Raw = {"weight": fields.pop("weight")} if "weight" in fields else {}
    options = [{"groups": [{"count": len(places), "gpu": f"{gpu}m"}]}]
    held = {"tasks": tasks_at(*places), **fields}
    return {"name": name, "options": options, "running": held, **job}


def pending(name: str, count: int = 1, gpu: int = 1000, **fields: Any) -> Raw:
    return {"name": name, "options": [{"groups": [{"count": count, "gpu": f"{gpu}m"}]}], **fields}


def placed(kind: str, job: str, *places: Place) -> Raw:
    return {"job": job, "decision": kind, "option": 0, "tasks": tasks_at(*places)}


def preempted(job: str, by: str) -> Raw:
    return {"job": job, "decision": "preempt", "displaced_by": by}


def term(name: str, jobs: list[Raw], decisions: list[Raw], **fields: Any) -> int:
    """One term of a plan that breaks no rule."""
    policy = {"terms": [name], **fields.pop("policy", {})}
    round_ = Round.model_validate({"cluster": CLUSTER, "jobs": jobs, "policy": policy, **fields})
    stopped = [entry["job"] for entry in decisions if entry["decision"] == "preempt"]
    moving = [entry["job"] for entry in decisions if entry["decision"] == "migrate"]
    moves = {"kind": "moves", "steps": [*stopped, *moving], "needs_spare": []}
    found = verify(
        round_,
        Plan.model_validate(
            {"decisions": decisions, "sections": [moves] if stopped or moving else []}
        ),
    )
    assert found.violations == ()
    return found.terms[name]


def test_value_loses_what_preempted_jobs_were_worth() -> None:
    low = running("low", ("k0-h0", [0]), ("k0-h0", [1]), weight=3)
    low["options"].insert(0, {"value": 1, "groups": [{"gpu": 1}]})
    low["running"]["option"] = 1
    kept, moved = running("kept", ("k1-h0", [0])), running("moved", ("k1-h0", [1]))
    jobs = [low, kept, moved, pending("high", gpu=4000, priority=1, weight=5)]
    decisions = [
        preempted("low", by="high"),
        placed("keep", "kept", ("k1-h0", [0])),
        placed("migrate", "moved", ("k1-h0", [2])),
        placed("start", "high", ("k0-h0", [0, 1, 2, 3])),
    ]
    assert term("value", jobs, decisions, policy=ONE_SUM) == 5 * 4000 - 3 * 2000
    assert term("value_1", jobs, decisions, policy=BY_CLASS) == 5 * 4000
    assert term("value_2", jobs, decisions, policy=BY_CLASS) == -3 * 2000


def test_progress_is_that_of_started_options_less_that_of_preempted_ones() -> None:
    low = running("low", ("k0-h0", [0]))
    low["options"][0]["progress"] = 5
    kept = running("kept", ("k0-h1", [0]))
    kept["options"][0]["progress"] = 100
    high = pending("high", priority=1)
    high["options"].append({"groups": [{"gpu": 2}], "progress": 17, "value": 0})
    start = {
        "job": "high",
        "decision": "start",
        "option": 1,
        "tasks": [{"host": "k0-h0", "gpus": [0, 1]}],
    }
    decisions = [preempted("low", "high"), placed("keep", "kept", ("k0-h1", [0])), start]
    assert term("progress", [low, kept, high], decisions) == 17 - 5
    assert term("value", [low, kept, high], decisions, policy=ONE_SUM) == 0 - 1000


@pytest.mark.parametrize(
    ("fields", "migrated", "preempted_"),
    [
        ({}, 0, 0),
        ({"restart_s": 9}, 2000 * 9, 2000 * 9),
        ({"checkpoint": 70}, 2000 * 30, 2000 * 30),
        ({"checkpoint": 100}, 0, 0),
        ({"checkpoint": 70, "restart_s": 9}, 2000 * 39, 2000 * 39),
        ({"restart_s": 9, "migrate_cost": 5}, 5, 2000 * 9),
        ({"restart_s": 9, "preempt_cost": 5}, 2000 * 9, 5),
        ({"restart_s": 9, "migrate_cost": 0, "preempt_cost": 0}, 0, 0),
    ],
)
def test_disruption_is_the_stop_and_the_gpus_that_move_or_stop(
    fields: Raw, migrated: int, preempted_: int
) -> None:
    places = ("k0-h0", [0]), ("k0-h0", [1])
    jobs = [running("a", *places, **fields), pending("high", gpu=4000, priority=1)]
    wait = {"job": "high", "decision": "wait"}
    one_moves = placed("migrate", "a", places[0], ("k0-h1", [1]))
    assert term("disruption", jobs, [one_moves, wait], now=100) == migrated + 1000
    both_move = placed("migrate", "a", ("k0-h0", [2]), ("k0-h0", [3]))
    assert term("disruption", jobs, [both_move, wait], now=100) == migrated + 2000
    start = placed("start", "high", ("k0-h0", [0, 1, 2, 3]))
    assert term("disruption", jobs, [preempted("a", "high"), start], now=100) == preempted_ + 2000
    keep = placed("keep", "a", *places)
    assert term("disruption", jobs, [keep, wait], now=100) == 0


def test_tasks_that_change_index_both_move() -> None:
    jobs = [running("a", ("k0-h0", [0]), ("k0-h0", [1]))]
    decision = placed("migrate", "a", ("k0-h0", [1]), ("k0-h0", [0]))
    assert term("disruption", jobs, [decision]) == 2000


def test_a_task_that_lists_its_gpus_in_another_order_stays() -> None:
    jobs = [running("a", ("k0-h0", [0, 1]), ("k0-h0", [2, 3]), gpu=2000)]
    decision = placed("migrate", "a", ("k0-h0", [1, 0]), ("k0-h1", [2, 3]))
    assert term("disruption", jobs, [decision]) == 2000


def test_remaining_counts_every_task_left_on_hosts_to_vacate() -> None:
    jobs = [
        running("kept", ("k0-h0", [0]), ("k0-h0", [0]), ("k2-h0", [0]), gpu=250),
        running("half", ("k0-h0", [1]), ("k0-h1", [1])),
        running("gone", ("k0-h1", [2, 3]), gpu=2000),
    ]
    decisions = [
        placed("keep", "kept", ("k0-h0", [0]), ("k0-h0", [0]), ("k2-h0", [0])),
        placed("migrate", "half", ("k0-h0", [1]), ("k1-h1", [1])),
        placed("migrate", "gone", ("k1-h1", [2, 3])),
    ]
    policy = {"vacate": ["k0-h[0-1]"]}
    assert term("remaining", jobs, decisions, policy=policy) == 250 + 250 + 1000


@pytest.mark.parametrize(
    ("level", "target", "freed"),
    [
        ("host", "k0-h1", 4),  # k0-h0 becomes empty, k0-h1 has a task already
        ("host", "k1-h0", 4 - 4),  # a host empties, another fills
        ("rack", "k0-h1", 0),  # the rack holds a task before and after
        ("rack", "k1-h0", 0 - 8),  # k0 keeps "other", k1 fills
        ("rack", "k2-h1", 0),  # k2 has a task already
        ("host", "k0-h0", 0),  # a move within the host
    ],
)
def test_freed_pays_for_domains_emptied_and_charges_those_filled(
    level: str, target: str, freed: int
) -> None:
    jobs = [
        running("a", ("k0-h0", [0]), restart_s=3),
        running("other", ("k0-h1", [0])),
        running("far", ("k2-h0", [0])),
    ]
    decisions = [
        placed("migrate", "a", (target, [3])),
        placed("keep", "other", ("k0-h1", [0])),
        placed("keep", "far", ("k2-h0", [0])),
    ]
    policy = {"freeing": {"level": level, "gpu_worth_s": 10}}
    disruption = 1000 * 3 + 1000
    assert term("freed", jobs, decisions, policy=policy) == freed * 1000 * 10 - disruption


def test_freed_counts_whole_racks_and_what_starts_fill() -> None:
    jobs = [running("a", ("k0-h0", [0])), running("b", ("k1-h0", [0])), pending("new")]
    decisions = [
        placed("migrate", "a", ("k1-h0", [3])),
        placed("keep", "b", ("k1-h0", [0])),
        {"job": "new", "decision": "wait"},
    ]
    policy = {"freeing": {"level": "rack", "gpu_worth_s": 1}}
    assert term("freed", jobs, decisions, policy=policy) == 8 * 1000 - 1000
    decisions[2] = placed("start", "new", ("k2-h0", [0]))
    assert term("freed", jobs, decisions, policy=policy) == 8 * 1000 - 8 * 1000 - 1000
    decisions[2] = placed("start", "new", ("k0-h1", [0]))
    assert term("freed", jobs, decisions, policy=policy) == -1000


def test_freed_sees_a_preempted_job_leave() -> None:
    low = running("low", ("k0-h0", [0]), ("k1-h0", [0]))
    decisions = [preempted("low", "high"), placed("start", "high", ("k0-h0", [0, 1, 2, 3]))]
    policy = {"freeing": {"gpu_worth_s": 1}}
    jobs = [low, pending("high", gpu=4000, priority=1)]
    assert term("freed", jobs, decisions, policy=policy) == 4 * 1000 - 2000


MOVED = [running("a", ("k0-h0", [0]), ("k0-h0", [1])), running("b", ("k1-h0", [0]))]
MOVES = [
    placed("migrate", "a", ("k0-h0", [0]), ("k2-h1", [1])),
    placed("migrate", "b", ("k0-h0", [2])),
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("spread", 2000 * 1),  # a lies in two racks, its staying task among them
        ("proximity", 2),  # the two tasks of a share neither host nor rack
        ("opened", 1),  # k2-h1; k0-h0 is busy, since a runs there
        ("leftover", (4000 - 1000) + (4000 - 1000 - 1000)),  # on k2-h1, and on k0-h0 with a and b
    ],
)
def test_migrated_jobs_count_where_started_ones_do(name: str, expected: int) -> None:
    assert term(name, MOVED, MOVES) == expected


def test_a_host_that_a_preempted_job_leaves_is_not_opened() -> None:
    jobs = [running("low", ("k0-h0", [0])), pending("high", priority=1)]
    decisions = [preempted("low", "high"), placed("start", "high", ("k0-h0", [0]))]
    assert term("opened", jobs, decisions) == 0
    assert term("leftover", jobs, decisions) == 3000
