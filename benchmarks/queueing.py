"""Replays of random arrivals beside queueing theory: M/M/1 and M/M/c, mean time in system.

References
----------
Erlang 1917 (M/M/c). Phipps, "Machine repair as a priority waiting-line problem", Operations
Research 1956 (SJF). Schrage and Miller, "The queue M/G/1 with the shortest remaining processing
time discipline", Operations Research 1966 (SRPT). Where service is exponential, all policies that
do not know running times and leave no server idle have the same mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import factorial

import numpy as np

from benchmarks.report import ERROR, Row
from placewright.array_types import Floats
from placewright.instances.traces.trace import Trace
from placewright.rounds.replay.spec import ReplaySpec, play

JOBS, QUICK_JOBS = 1_000_000, 60_000
BATCHES = 20
"""Of equally many jobs; one more before them is warm-up."""

STUDENT = 3.883
"""99.9 % of Student's t, two-sided, of 19 degrees of freedom."""

SEED = 0
SERVICE_US = 1_000_000
"""Mean service."""


def blind(servers: int, load: float) -> float:
    """Return the mean time of M/M/c for policies that do not know running times."""
    offered = servers * load
    waits = offered**servers / factorial(servers) / (1 - load)
    ready = sum(offered**number / factorial(number) for number in range(servers))
    return 1 + waits / (waits + ready) / (servers * (1 - load))


def _grid(load: float) -> tuple[Floats, Floats, Floats]:
    """Return running times, their density, and the load of jobs that are no longer."""
    times = np.linspace(0, 60, 600_001)
    density = np.exp(-times)
    return times, density, load * (1 - (1 + times) * density)


def shortest_first(servers: int, load: float) -> float:
    """Return the mean time of M/M/1 where the shortest job is first and none is preempted."""
    times, density, shorter = _alone(servers, load)
    return 1 + float(np.trapezoid(load / (1 - shorter) ** 2 * density, times))


def least_remaining_first(servers: int, load: float) -> float:
    """Return the mean time of M/M/1 where the job of the least remaining time runs (SRPT)."""
    times, density, shorter = _alone(servers, load)
    squares = 2 - (times**2 + 2 * times + 2) * density + times**2 * density
    waits = load * squares / (2 * (1 - shorter) ** 2)
    steps = (1 / (1 - shorter)[1:] + 1 / (1 - shorter)[:-1]) / 2 * np.diff(times)
    serves = np.concatenate([[0.0], np.cumsum(steps)])
    return float(np.trapezoid((waits + serves) * density, times))


def _alone(servers: int, load: float) -> tuple[Floats, Floats, Floats]:
    if servers != 1:
        raise ValueError(f"no closed form for {servers} servers")
    return _grid(load)


THEORY: dict[str, Callable[[int, float], float]] = {
    "fifo": blind,
    "2d-las": blind,
    "2d-gittins": blind,
    "sjf": shortest_first,
    "srtf": least_remaining_first,
}
"""What gives the mean time of a policy, in multiples of the mean service."""


@dataclass(frozen=True, slots=True)
class Case:
    """A policy on so many servers, which are GPUs of one host, at a load."""

    servers: int
    load: float
    policy: str

    @property
    def name(self) -> str:
        """What rows call it."""
        return f"mm{self.servers}-{self.load}"

    def expected(self) -> float:
        """Return the mean time in system by theory."""
        return THEORY[self.policy](self.servers, self.load)

    def play(self, jobs: int) -> tuple[float, float]:
        """Play so many jobs; return their mean time and the half-width of its 99.9 % interval."""
        rng, batch = np.random.default_rng(SEED), jobs // BATCHES
        count = batch * (1 + BATCHES)
        submit = np.cumsum(rng.exponential(SERVICE_US / self.load / self.servers, count))
        trace = Trace.of(
            np.rint(submit).astype(np.int64),
            np.ones(count, dtype=np.int64),
            np.maximum(np.rint(rng.exponential(SERVICE_US, count)), 1).astype(np.int64),
        )
        found = play(trace, ReplaySpec(self.policy, (self.servers,)))
        times = (found.end_us - found.trace.submit_us)[batch:] / SERVICE_US
        means = times.reshape(BATCHES, batch).mean(axis=1)
        return float(means.mean()), STUDENT * float(means.std(ddof=1)) / BATCHES**0.5


def cases(*, quick: bool) -> list[Case]:
    """Return all cases, or those of one server at load 0.8."""
    alone = [Case(1, 0.8, policy) for policy in THEORY]
    if quick:
        return alone
    return [
        *alone,
        *(Case(1, 0.9, policy) for policy in ("fifo", "srtf")),
        *(Case(8, 0.9, policy) for policy in ("fifo", "2d-las")),
        Case(64, 0.95, "fifo"),
    ]


def run(chosen: Sequence[Case], *, quick: bool) -> Iterator[Row]:
    """Yield a row per case; it is an error if theory is outside of the interval."""
    for case in chosen:
        wall, cpu = time.monotonic(), time.process_time()
        mean, half_width = case.play(QUICK_JOBS if quick else JOBS)
        expected = case.expected()
        inside = abs(mean - expected) < half_width
        yield Row(
            case.name,
            case.policy,
            SEED,
            "done" if inside else ERROR,
            seconds=time.monotonic() - wall,
            cpu_seconds=time.process_time() - cpu,
            figures={
                "theory": expected,
                "mean": mean,
                "99.9 % +-": half_width,
                "off by %": 100 * (mean / expected - 1),
            },
            note="" if inside else "theory is outside of the interval",
        )
