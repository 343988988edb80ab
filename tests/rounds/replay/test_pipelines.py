"""Pipelines over time: rules as they are described, and rounds that are decided at each event."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from placewright import Round, solve_round
from placewright.rounds.replay.pipelines import Pipelines


def stage(name: str, seconds: int, after: Sequence[str] = (), count: int = 1) -> Any:
    return {
        "name": name,
        "options": [{"groups": [{"gpu": 1, "count": count}]}],
        "stage": {"task_s": seconds, "after": list(after), "gang": False},
    }


def two_pipelines() -> Round:
    jobs = [stage("a", 4, count=3), stage("b", 4, ["a"]), stage("c", 2), stage("d", 1, ["c"])]
    policy = {"formulation": "stages", "terms": ["completion", "spread"]}
    return Round.of({"hosts": [{"name": "h", "gpus": 2, "gpu_model": "A100"}]}, jobs, policy=policy)


@pytest.mark.parametrize(
    ("rule", "ends"),
    [
        ("fifo", {"a": 8, "b": 12, "c": 6, "d": 7}),
        ("shortest", {"c": 2, "d": 3, "a": 8, "b": 12}),
        ("critical_path", {"a": 8, "b": 12, "c": 6, "d": 7}),
        ("fair", {"c": 2, "d": 3, "a": 8, "b": 12}),
    ],
)
def test_rules_begin_what_fits_in_their_order(rule: str, ends: dict[str, int]) -> None:
    assert Pipelines(two_pipelines()).play(rule) == ends


def test_rounds_are_decided_whenever_something_ends_or_comes() -> None:
    solve = partial(solve_round, time_limit=5, isolation="none")
    pipelines = Pipelines(two_pipelines())
    assert pipelines.play(solve) == {"c": 2, "d": 3, "a": 8, "b": 12}
    early = pipelines.play("fifo", {"a": 1, "b": 0})
    assert early == {"c": 2, "d": 3, "a": 9, "b": 13}
    late = pipelines.play(solve, {"c": 3, "d": 3})
    assert late == {"a": 8, "b": 12, "c": 6, "d": 7}
