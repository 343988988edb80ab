"""EASY as the benchmark has it: known answers, and a second, slower way to write it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pytest

from benchmarks.backfill import CROWDED, METHODS, OVERLOADED, Case, Stream, run
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


class Slow:
    """EASY by what is free at each time, with each job's places looked for anew."""

    def __init__(self, hosts: int, gpus: int) -> None:
        self.gpus = [gpus] * hosts
        self.runs: dict[str, tuple[int, Arrival, list[int]]] = {}
        self.queue: list[Arrival] = []

    def free(self, at: int, now: int) -> list[int]:
        taken = [0] * len(self.gpus)
        for start, job, places in self.runs.values():
            end = start + job.expected
            if at == now or (end if end > now else now + max(now - end, 1)) > at:
                taken = [t + job.gpus * p for t, p in zip(taken, places, strict=True)]
        return [g - t for g, t in zip(self.gpus, taken, strict=True)]

    def best_fit(self, free: Sequence[int], job: Arrival) -> list[int] | None:
        places, left = [0] * len(free), job.tasks
        for host in sorted(range(len(free)), key=lambda h: free[h]):
            places[host] = min(left, max(free[host], 0) // job.gpus)
            left -= places[host]
        return None if left else places

    def step(self, now: int, ended: Sequence[str], arrived: Sequence[Arrival]) -> list[str]:
        for name in ended:
            del self.runs[name]
        self.queue += arrived
        started: list[str] = []
        reserved: tuple[int, list[int]] | None = None
        for job in list(self.queue):
            free = self.free(now, now)
            if reserved is not None and now + job.expected > reserved[0]:
                then = self.free(reserved[0], now)
                free = [min(a, b - c) for a, b, c in zip(free, then, reserved[1], strict=True)]
            places = self.best_fit(free, job)
            if places is not None:
                self.queue.remove(job)
                self.runs[job.name] = now, job, places
                started.append(job.name)
            elif reserved is None:
                ends = (start + one.expected for start, one, _ in self.runs.values())
                times = (end if end > now else now + max(now - end, 1) for end in ends)
                for at in sorted(times):
                    places = self.best_fit(self.free(at, now), job)
                    if places is not None:
                        reserved = at, [job.gpus * p for p in places]
                        break
        return started


@pytest.mark.parametrize(("stream", "rounds"), [(OVERLOADED, 60), (CROWDED, 10)])
def test_easy_starts_the_same_jobs_as_a_second_implementation(stream: Stream, rounds: int) -> None:
    jobs = Case(stream, 0, rounds).arrivals()
    fast, slow = Easy(64, 8), Slow(64, 8)
    ends: dict[str, int] = {}
    for now in range(0, 60 * rounds, 60):
        over = [name for name, end in ends.items() if now - 60 < end <= now]
        arrived = [job for job in jobs if job.at == now]
        started = fast.step(now, over, arrived)
        assert slow.step(now, over, arrived) == started
        seconds = {job.name: job.seconds for job in jobs}
        ends |= {name: now + seconds[name] for name in started}


def test_all_jobs_of_a_stream_end_under_every_method() -> None:
    rows = list(run([Case(OVERLOADED, 0, 2)], quick=False))
    assert [row.method for row in rows] == list(METHODS)
    for row in rows:
        assert row.status == "done"
        assert row.figures["rounds not proven"] == 0
        assert np.isfinite(list(row.figures.values())).all()
