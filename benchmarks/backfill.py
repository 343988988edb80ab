"""`backfill`: an overloaded cluster round by round, with and without reservations, beside EASY.

512 GPUs, gangs and small jobs of one class that ask more than there is, run times known to a factor
of two. Arrivals stop, and all jobs end. docs/benchmarks/results.md has what it found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.easy import Arrival, Easy
from benchmarks.plots import figure_bars
from benchmarks.report import OURS, Row
from placewright import Changes, Engine, Round
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import DecisionKind

__all__ = ["Case", "cases", "draw", "run"]

HOSTS, GPUS = 64, 8
ROUND_S = 60
ARRIVING_ROUNDS, QUICK_ROUNDS = 300, 100
SEEDS = range(10)
SMALL = ((1, 1), (1, 2), (1, 4), (1, 8))
GANGS = ((2, 8), (4, 8), (8, 8), (16, 8), (32, 8))
SHORTEST_S = 60
SECONDS = 5.0
"""More than any round takes, so that the clock decides none."""
LAST_ROUND = 5000
SIZES = {"small": (1, 1), "gangs": (2, 32), "2-8 hosts": (2, 8), "16-32 hosts": (16, 32)}
"""Classes of jobs by their number of hosts."""


@dataclass(frozen=True, slots=True)
class Stream:
    """How jobs are drawn: the GPU time that they ask over what there is, gangs, run times.

    Attributes
    ----------
    gang_share : float
        The share of jobs that are gangs.
    longest_s : int
        Run times are log-uniform between a minute and this many seconds.
    """

    name: str
    load: float
    gang_share: float
    longest_s: int


OVERLOADED = Stream("overloaded-512", 1.3, 0.2, 3600)
CROWDED = Stream("crowded-512", 1.0, 0.01, 600)


@dataclass(frozen=True, slots=True)
class Case:
    """A stream of jobs, by a seed."""

    stream: Stream
    seed: int
    rounds: int = ARRIVING_ROUNDS

    @property
    def name(self) -> str:
        """By which it is chosen."""
        return f"{self.stream.name}-{self.seed}"

    def arrivals(self) -> list[Arrival]:
        """Draw the jobs, in the order in which they come."""
        draw = np.random.Generator(np.random.PCG64(self.seed))
        jobs: list[Arrival] = []
        asked, offered = 0.0, 0.0
        for number in range(self.rounds):
            offered += self.stream.load * HOSTS * GPUS * ROUND_S
            while asked < offered:
                kinds = GANGS if draw.random() < self.stream.gang_share else SMALL
                tasks, gpus = kinds[int(draw.integers(len(kinds)))]
                log_s = draw.uniform(np.log(SHORTEST_S), np.log(self.stream.longest_s))
                seconds = int(np.exp(log_s))
                expected = max(1, int(seconds * 2 ** draw.uniform(-1, 1)))
                name = f"j{len(jobs)}"
                jobs.append(Arrival(name, tasks, gpus, number * ROUND_S, seconds, expected))
                asked += tasks * gpus * seconds
        return jobs


def cases(*, quick: bool) -> list[Case]:
    """Return the streams; `quick`: one of few rounds."""
    if quick:
        return [Case(OVERLOADED, 0, QUICK_ROUNDS)]
    return [Case(stream, seed) for stream in (OVERLOADED, CROWDED) for seed in SEEDS]


class _Scheduler(Protocol):
    @property
    def unproven(self) -> int:
        """Rounds without a proof of optimality, where there is anything to prove."""
        ...

    def step(self, now: int, ended: Sequence[str], arrived: Sequence[Arrival]) -> list[str]:
        """Return the jobs that start now."""
        ...


class _Ours:
    """An `Engine`, told what ends and what comes."""

    def __init__(self, policy: Mapping[str, Any]) -> None:
        hosts = [{"name": f"h[0-{HOSTS - 1}]", "gpus": GPUS, "gpu_model": "A100"}]
        made = {"cluster": {"hosts": hosts}, "policy": {"terms": ["value"], **policy}}
        self._engine = Engine(Round.model_validate(made), time_limit=SECONDS, isolation="none")
        self.unproven = 0

    def step(self, now: int, ended: Sequence[str], arrived: Sequence[Arrival]) -> list[str]:
        """Return the jobs that start now."""
        added = [
            Job.model_validate(
                {
                    "name": job.name,
                    "submitted": job.at,
                    "expected_runtime_s": job.expected,
                    "options": [{"groups": [{"count": job.tasks, "gpu": job.gpus}]}],
                }
            )
            for job in arrived
        ]
        pinned = [
            job.model_copy(update={"running": job.running.model_copy(update={"pinned": True})})
            for job in self._engine.state.jobs
            if job.running is not None and not job.running.pinned and job.name not in ended
        ]
        changes = Changes(removed=ended, added=added, updated=pinned, now=now)
        plan = self._engine.round(changes)
        self.unproven += plan.certificate is None or plan.certificate.status != "optimal"
        return [one.job for one in plan.decisions if one.decision is DecisionKind.START]


ALL = f"{OURS} depth all"
METHODS: Mapping[str, Callable[[], _Scheduler]] = {
    f"{OURS} depth 1": partial(_Ours, {"backfill": {"depth": 1}}),
    f"{OURS} depth 10": partial(_Ours, {"backfill": {"depth": 10}}),
    ALL: partial(_Ours, {"backfill": {"depth": "all"}}),
    f"{OURS} without": partial(_Ours, {}),
    "EASY": partial(Easy, HOSTS, GPUS),
    "first come": partial(Easy, HOSTS, GPUS, passing="none"),
    "skipping": partial(Easy, HOSTS, GPUS, passing="any"),
}


def run(chosen: Sequence[Case], *, quick: bool) -> Iterator[Row]:
    """Yield a row per method and case; reservations for all jobs only where the queue is short."""
    for case in chosen:
        arrivals = case.arrivals()
        for method, make in METHODS.items():
            if method == ALL and (quick or case.stream is CROWDED):
                continue
            yield _row(case, method, arrivals, make())


def draw(rows: Sequence[Row], target: Path) -> None:
    """Draw mean and longest waits by size."""
    sizes = [size for size in SIZES if size != "gangs"]
    panels = {
        f"{what} wait, rounds": {f"{what} wait, {size}": size for size in sizes}
        for what in ("mean", "longest")
    }
    figure_bars(rows, target, panels)


def _row(case: Case, method: str, arrivals: Sequence[Arrival], scheduler: _Scheduler) -> Row:
    """Run a stream to its end under one scheduler."""
    began, cpu = time.monotonic(), time.process_time()
    by_name = {job.name: job for job in arrivals}
    coming = list(arrivals)
    ends: dict[str, int] = {}
    started: dict[str, int] = {}
    busy = 0.0
    for number in range(LAST_ROUND):
        now = number * ROUND_S
        if not coming and len(started) == len(arrivals):
            break
        ended = [name for name, end in ends.items() if end <= now]
        for name in ended:
            del ends[name]
        arrived = [job for job in coming if job.at <= now]
        del coming[: len(arrived)]
        for name in scheduler.step(now, ended, arrived):
            job = by_name[name]
            started[name], ends[name] = now, now + job.seconds
            last = min(job.seconds, case.rounds * ROUND_S - now)
            busy += job.tasks * job.gpus * max(last, 0)
    figures = {"allocation %": 100 * busy / (HOSTS * GPUS * case.rounds * ROUND_S)}
    waits = {job: (started[job.name] - job.at) / ROUND_S for job in arrivals if job.name in started}
    figures["mean wait"] = float(np.mean(list(waits.values())))
    for title, measure in (("mean", np.mean), ("longest", np.max)):
        for size, (least, most) in SIZES.items():
            mine = [wait for job, wait in waits.items() if least <= job.tasks <= most]
            if mine:
                figures[f"{title} wait, {size}"] = float(measure(mine))
    figures["rounds not proven"] = scheduler.unproven
    return Row(
        case.stream.name,
        method,
        case.seed,
        "done" if len(started) == len(arrivals) else "unfinished",
        seconds=time.monotonic() - began,
        cpu_seconds=time.process_time() - cpu,
        figures=figures,
    )
