"""The rule book's definition of reservations finds what is wrong with a plan."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

import fuzz.play
import fuzz.policies.queue
from fuzz.policy import Judged, TooManyPlansError
from placewright import solve_round

Raw = dict[str, Any]


def job(name: str, gpus: int, seconds: int, **more: Any) -> Raw:
    group = {"gpu": 1000 * gpus, "count": more.pop("count", 1)}
    return {
        "name": name,
        "expected_runtime_s": seconds,
        "options": [{"groups": [group]}],
        **more,
    }


ROUND: Raw = {
    "now": 100,
    "cluster": {"hosts": [{"name": f"h{i}", "gpus": 2, "gpu_model": "A"} for i in range(3)]},
    "maintenance": [{"host": "h2", "start": 120}],
    "jobs": [
        job(
            "runs",
            2,
            10,
            running={"started": 95, "pinned": True, "tasks": [{"host": "h0", "gpus": [0, 1]}]},
        ),
        job("gang", 2, 9, count=3, submitted=10),
        job("first", 2, 5, submitted=20),
        job("second", 2, 5, submitted=30),
        job("long", 1, 40, submitted=40),
    ],
    "policy": {"terms": ["value"], "backfill": {"depth": 1}},
}


def later(plan: Raw) -> None:
    entry = plan["sections"][-1]["jobs"][0]
    entry["at"] += 1
    entry["end"] += 1


def earlier(plan: Raw) -> None:
    entry = plan["sections"][-1]["jobs"][0]
    entry["at"] -= 1
    entry["end"] -= 1


def passes_over(plan: Raw) -> None:
    second = plan["decisions"][2]
    second |= {"decision": "wait", "reason": "not_chosen", "tasks": [], "option": None}
    plan["sections"][-1]["starts"].remove("first")


def delays(plan: Raw) -> None:
    tasks = [{"host": "h2", "gpus": [0]}]
    plan["decisions"][3] |= {"decision": "wait", "reason": "capacity", "tasks": [], "option": None}
    plan["decisions"][4] |= {"decision": "start", "option": 0, "tasks": tasks}
    plan["sections"][-1]["starts"].remove("second")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda _: None, ""),
        (later, "fits at 105"),
        (earlier, "does not fit"),
        (passes_over, "passed over"),
        (delays, "maintenance"),
    ],
)
def test_a_plan_is_judged(change: Callable[[Raw], None], words: str) -> None:
    plan = solve_round(fuzz.play.read(ROUND), isolation="none", time_limit=5.0)
    document = copy.deepcopy(plan.model_dump(mode="json", exclude_none=True))
    assert set(document["sections"][-1]["starts"]) == {"first", "second"}
    change(document)
    assert words in fuzz.policies.queue.fault(ROUND, document)
    assert bool(words) == bool(fuzz.policies.queue.fault(ROUND, document))


def test_a_round_with_too_many_plans_beside_the_reservations_is_drawn_anew() -> None:
    """They are told once the plan is known."""

    def within(_round: Raw, _plan: Raw) -> Iterator[Judged]:
        raise TooManyPlansError

    policy = replace(fuzz.policies.POLICIES["queue"], within=within)
    with pytest.raises(TooManyPlansError):
        fuzz.play.play(policy, ROUND, 0)
