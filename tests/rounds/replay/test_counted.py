"""Lists on counted GPUs, lease by lease, beside a naive simulator."""

from __future__ import annotations

import numpy as np
import pytest

from examples import by_day
from placewright.array_types import Ints
from placewright.instances.traces.trace import SECOND, Trace
from placewright.rounds.policies.base import Columns, Keys, ListPolicy
from placewright.rounds.replay.book import Costs, HostLedger
from placewright.rounds.replay.list_decider import list_decider
from placewright.rounds.replay.loop import Loop, Trigger

GPUS = 6
MANY = 1000
"""More than the jobs of a trace."""


def _least_gpu_time(jobs: Columns) -> Keys:
    """Order by GPU time that is left, then by arrival."""
    return jobs.remaining_us * jobs.gpus * MANY + jobs.numbers


LEAST_GPU_TIME = ListPolicy(
    "least-gpu-time", _least_gpu_time, frozenset({"remaining_us"}), preempts=True, skips=True
)


class Counted:
    """Jobs of the least GPU time first, from boundary to boundary, in whole seconds."""

    def __init__(self, submit: Ints, gpus: Ints, work: Ints, stop: Ints, length: int) -> None:
        self.submit, self.gpus, self.stop = submit.tolist(), gpus.tolist(), stop.tolist()
        self.left = work.tolist()
        self.overhead, self.stops, self.ends = ([0] * len(self.left) for _ in range(3))
        self.running: dict[int, int] = {}
        self.waiting: set[int] = set()
        self.now, self.coming = 0, 0
        while self.running or self.waiting or self.coming < len(self.left):
            self.arrive(self.now)
            self.decide()
            self.play(self.now + length)
            self.now += length

    def arrive(self, now: int) -> None:
        while self.coming < len(self.left) and self.submit[self.coming] <= now:
            self.waiting.add(self.coming)
            self.coming += 1

    def start(self, jobs: set[int], now: int) -> None:
        free = GPUS - sum(self.gpus[job] for job in self.running)
        for job in sorted(jobs, key=lambda job: (self.left[job] * self.gpus[job], job)):
            if self.gpus[job] <= free:
                free -= self.gpus[job]
                self.running[job] = now + self.overhead[job] + self.left[job]
        self.waiting -= set(self.running)

    def decide(self) -> None:
        before, self.running = set(self.running), {}
        self.start(before | self.waiting, self.now)
        for job in before - set(self.running):
            self.stops[job] += 1
            self.overhead[job] = self.stop[job]
            self.waiting.add(job)

    def play(self, end: int) -> None:
        since = dict.fromkeys(self.running, self.now)
        while True:
            arrival = self.submit[self.coming] if self.coming < len(self.left) else end + 1
            time = min(arrival, *self.running.values(), end + 1)
            if time > end:
                break
            for job in [job for job, done in self.running.items() if done == time]:
                del self.running[job]
                self.ends[job] = time
            self.arrive(time)
            if time < end:
                self.start(self.waiting, time)
                since = {job: since.get(job, time) for job in self.running}
        for job in self.running:
            restarting = min(self.overhead[job], end - since[job])
            self.overhead[job] -= restarting
            self.left[job] -= end - since[job] - restarting


@pytest.mark.parametrize("seed", by_day(range(1000), 40))
def test_a_list_on_counted_gpus_is_what_a_naive_simulator_counts(seed: int) -> None:
    """Leases of a second up to some that are longer than most jobs; stops cost time."""
    rng = np.random.default_rng(seed)
    number = int(rng.integers(1, 20))
    submit = np.sort(rng.integers(0, 400, number))
    gpus, work = rng.integers(1, GPUS + 1, number), rng.integers(1, 200, number)
    stop, length = rng.integers(0, 60, number), (1, 10, 90, 700)[seed % 4]
    submit[0] = 0
    loop = Loop(
        Trace.of(SECOND * submit, gpus, SECOND * work),
        HostLedger([4, 2], "counting"),
        list_decider(LEAST_GPU_TIME, number),
        costs=Costs(stop_us=SECOND * stop),
        trigger=Trigger(SECOND * length, leases=True),
    )
    loop.run()
    found = Counted(submit, gpus, work, stop, length)
    assert loop.end.tolist() == [SECOND * end for end in found.ends]
    assert loop.stops.tolist() == found.stops
