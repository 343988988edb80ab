"""EASY as the benchmark has it ends the four jobs of its description as it should."""

from __future__ import annotations

from typing import Literal

import pytest

from benchmarks.easy import Arrival, Easy

FOUR = {
    0: Arrival("A", 1, 2, 0, 10, 10),
    1: Arrival("B", 1, 4, 1, 5, 5),
    2: Arrival("C", 1, 2, 2, 6, 6),
    3: Arrival("D", 1, 2, 3, 9, 9),
}


@pytest.mark.parametrize(
    ("passing", "answer"),
    [
        ("no later", {"A": 10, "B": 15, "C": 8, "D": 24}),
        ("any", {"A": 10, "B": 22, "C": 8, "D": 17}),
        ("none", {"A": 10, "B": 15, "C": 21, "D": 24}),
    ],
)
def test_four_jobs_end_as_described(
    passing: Literal["no later", "any", "none"], answer: dict[str, int]
) -> None:
    easy = Easy(1, 4, passing=passing)
    ends: dict[str, int] = {}
    seconds = {job.name: job.seconds for job in FOUR.values()}
    for now in range(30):
        over = [name for name, end in ends.items() if end == now]
        arrived = [FOUR[now]] if now in FOUR else []
        ends |= {name: now + seconds[name] for name in easy.step(now, over, arrived)}
    assert ends == answer
