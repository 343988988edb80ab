"""Rounds of deadline admission, drawn from Chronus's MIX2 trace; the same on every machine.

The recipe. Rows of the trace that ask for a deadline and at least one GPU are drawn with
replacement, as a look at a random moment finds them: a row as often as it is long from its
submission to its last deadline, its age uniform in that life. What it has done by then is uniform
between the least with which it could still meet its last deadline, if it ran on from now, and the
most that its age allows, less a minute. A job whose last deadline lies beyond the horizon is drawn
again. Leases are 20 minutes, and each costs a job the artifact's checkpoint and resume, 30 s times
1 + log2 of its GPUs.

The work asked is that of all jobs that have a deadline they can meet alone: leases times GPUs. The
cluster has this work / (load x the last lease that a deadline reaches) GPUs, rounded to hosts of 8,
and at least those of the largest job: `tight` is a load of 1.3, `loose` of 0.7. A round whose load
is then more than 5 % off is drawn again as a whole.

- `arriving`: every second job arrives later, a row of the trace drawn evenly, with all its work
  ahead, at a second uniform in what the horizon leaves before its last deadline.
- `maintained`: the four quarters of the cluster are away for 24 leases each, one after another,
  from leases 24, 72, 120 and 168 on; and an eighth is there for the first half of the horizon only.
- `promised`: two jobs of three have a promise, the last deadline at which the job fits beside those
  of the jobs before it; then a quarter of the hosts is lost for good.
- `few`: so many jobs for which a load of 1.3 asks 32 GPUs; other rounds are drawn again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import gcd
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from placewright import Round
from placewright.array_types import Ints
from placewright.formulations.deadline.problem.compile import compile_admission
from placewright.formulations.deadline.problem.problem import Problem
from placewright.instances.checks.round import check_round
from placewright.instances.converters.support.trace_rounds import TraceJob, overhead_s
from placewright.instances.converters.traces.chronus import chronus_jobs
from placewright.instances.documents.cluster import ClusterDocument, HostEntry
from placewright.instances.documents.deadline import Deadline, Due, Pace
from placewright.instances.documents.job import Job
from placewright.instances.documents.leases import Leases, Outage
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.policy import Policy
from placewright.topology.units import WHOLE_GPU

__all__ = [
    "GPUS_PER_HOST",
    "TRACE",
    "Asked",
    "Drawn",
    "Load",
    "Variant",
    "draw",
    "few",
    "problem_of",
    "round_of",
]

Load: TypeAlias = Literal["tight", "loose"]
Variant: TypeAlias = Literal["", "arriving", "maintained", "promised"]

TRACE = Path(__file__).parents[2] / "shared/data/traces/chronus/trace_job_Philly_MIX2.csv"
LENGTH_S = 1200
MINUTE_S = 60
NOW = 10**6
"""The clock of a round; some deadlines are in the past."""

LOADS: dict[Load, float] = {"tight": 1.3, "loose": 0.7}
NEAR = 0.05
"""How far the load of a round may be off, since hosts are whole."""

GPUS_PER_HOST = 8
FEW_GPUS = 32

AWAY, AWAY_FROM = 24, (24, 72, 120, 168)
"""Maintenance: leases that a quarter of the cluster is away, and those from which it is."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a job asks: GPUs, seconds of work, deadlines with falling values, and its release.

    Seconds count from the beginning of the first lease. `promise` is one of `due`, or None.
    """

    gpus: int
    work_s: int
    due: tuple[tuple[int, int], ...]
    ready_s: int = 0
    promise: tuple[int, int] | None = None

    @property
    def overhead_s(self) -> int:
        """Seconds of each lease that are lost to checkpoint and resume."""
        return overhead_s(self.gpus)

    @property
    def gain_s(self) -> int:
        """Seconds of work that a lease does."""
        return LENGTH_S - self.overhead_s

    @property
    def need(self) -> int:
        """Leases that the job needs."""
        return -(-self.work_s // self.gain_s)

    @property
    def first(self) -> int:
        """The first lease that the job can use."""
        return -(-self.ready_s // LENGTH_S)

    def end(self, at: int) -> int:
        """Return the lease after the last one in which the job may finish in time."""
        rest = self.overhead_s + self.work_s - (self.need - 1) * self.gain_s
        return (at - rest) // LENGTH_S + 1

    def alternatives(self, horizon: int) -> tuple[tuple[int, int], ...]:
        """Return (end, value) of the deadlines that the job can meet alone, the best first."""
        ends = ((min(self.end(at), horizon), value) for at, value in self.due)
        return tuple((end, value) for end, value in ends if self.first + self.need <= end)


@dataclass(frozen=True, slots=True)
class Drawn:
    """Jobs, a cluster, and the leases (first, end) in which some of its hosts are away.

    An outage is (first host, hosts, first lease, lease after the last), None for no end.
    """

    jobs: tuple[Asked, ...]
    hosts: int
    horizon: int
    outages: tuple[tuple[int, int, int, int | None], ...] = ()

    @property
    def load(self) -> float:
        """Work asked over the capacity before the last deadline, as if no host were ever away."""
        work, last = _asked(self.jobs, self.horizon)
        return work / (self.hosts * GPUS_PER_HOST * last)

    def capacity(self) -> Ints:
        """Milli-GPU of each lease (horizon,)."""
        there = np.ones((self.hosts, self.horizon), dtype=np.bool_)
        for first, hosts, start, end in self.outages:
            there[first : first + hosts, start:end] = False
        gpus: Ints = there.sum(axis=0) * GPUS_PER_HOST
        return gpus * WHOLE_GPU


@cache
def _rows() -> tuple[TraceJob, ...]:
    return tuple(job for job in chronus_jobs(TRACE) if job.due)


def draw(jobs: int, horizon: int, load: Load, seed: int, variant: Variant = "") -> Drawn:
    """Draw a round, as the docstring of this module says.

    Raises
    ------
    OSError
        If the trace is not there.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    while not _near((drawn := _draw(jobs, horizon, load, random, variant)).load, load):
        pass
    if variant == "maintained":
        return replace(drawn, outages=_maintenance(drawn.hosts, horizon))
    return _promised(drawn) if variant == "promised" else drawn


def few(jobs: int, horizon: int, seed: int) -> Drawn:
    """Draw until a tight load asks `FEW_GPUS` GPUs."""
    random = np.random.Generator(np.random.PCG64(seed))
    while True:
        drawn = _draw(jobs, horizon, "tight", random)
        if drawn.hosts * GPUS_PER_HOST == FEW_GPUS and _near(drawn.load, "tight"):
            return drawn


def _near(found: float, load: Load) -> bool:
    return abs(found / LOADS[load] - 1) <= NEAR


def _draw(
    jobs: int, horizon: int, load: Load, random: np.random.Generator, variant: Variant = ""
) -> Drawn:
    rows = _rows()
    lives = np.cumsum([job.due[-1][0] - job.submit_s for job in rows])
    drawn: list[Asked] = []
    while len(drawn) < jobs:
        which, progress = random.random(2).tolist()
        if variant == "arriving" and len(drawn) % 2:
            job = rows[int(which * len(rows))]
            spare = horizon * LENGTH_S - (job.due[-1][0] - job.submit_s)
            if spare >= 0:
                ready = int(progress * (spare + 1))
                drawn.append(
                    Asked(job.gpus, job.duration_s, _due(job, job.submit_s - ready), ready)
                )
            continue
        # A uniform second of all lives laid end to end: the row, and its age in it.
        moment = int(which * lives[-1])
        row = int(np.searchsorted(lives, moment, side="right"))
        job, left = rows[row], int(lives[row]) - moment
        now = job.due[-1][0] - left
        if left > horizon * LENGTH_S:
            continue
        least = max(0, job.duration_s - left)
        most = min(now - job.submit_s, job.duration_s - MINUTE_S)
        done = least + int(progress * (most - least + 1))
        drawn.append(Asked(job.gpus, job.duration_s - done, _due(job, now)))
    work, last = _asked(drawn, horizon)
    asked = work / (LOADS[load] * last)
    least = -(-max(job.gpus for job in drawn) // GPUS_PER_HOST)
    return Drawn(tuple(drawn), max(least, round(asked / GPUS_PER_HOST)), horizon)


def _due(job: TraceJob, now: int) -> tuple[tuple[int, int], ...]:
    return tuple((at - now, value) for at, value in job.due)


def _asked(jobs: tuple[Asked, ...] | list[Asked], horizon: int) -> tuple[int, int]:
    """Return leases times GPUs of the jobs that some deadline suits, and the last lease of it."""
    alternatives = [(job, job.alternatives(horizon)) for job in jobs]
    work = sum(job.gpus * job.need for job, mine in alternatives if mine)
    return work, max(mine[-1][0] for _, mine in alternatives if mine)


def _maintenance(hosts: int, horizon: int) -> tuple[tuple[int, int, int, int | None], ...]:
    edges = [hosts * quarter // 4 for quarter in range(5)]
    quarters = [
        (low, high - low, start, start + AWAY)
        for low, high, start in zip(edges[:-1], edges[1:], AWAY_FROM, strict=True)
    ]
    return (*quarters, (0, -(-hosts // 8), horizon // 2, None))


def _promised(drawn: Drawn) -> Drawn:
    """Return the round with promises that could all be kept, and a quarter of its hosts lost."""
    free = drawn.capacity() // WHOLE_GPU
    jobs: list[Asked] = []
    for i, job in enumerate(drawn.jobs):
        made = None
        for at, value in reversed(job.due) if i % 3 else ():
            leases = np.flatnonzero(free[job.first : max(0, job.end(at))] >= job.gpus)
            if len(leases) >= job.need:
                free[job.first + leases[-job.need :]] -= job.gpus
                made = at, value
                break
        jobs.append(replace(job, promise=made))
    return replace(drawn, jobs=tuple(jobs), outages=((0, -(-drawn.hosts // 4), 0, None),))


def problem_of(drawn: Drawn) -> Problem:
    """Return the arrays of a round, as placewright makes them of its document."""
    return compile_admission(round_of("drawn", drawn)).problem


def round_of(name: str, drawn: Drawn) -> Round:
    """Return the round as a document: hosts of 8 GPUs, tasks of equal size, no other resource."""
    made = Round(
        name=name,
        now=NOW,
        cluster=ClusterDocument(
            hosts=(HostEntry(name=_hosts(0, drawn.hosts), gpus=GPUS_PER_HOST, gpu_model="V100"),)
        ),
        jobs=tuple(_job(i, job) for i, job in enumerate(drawn.jobs)),
        policy=Policy(formulation="deadline", terms=("broken", "admitted")),
        leases=Leases(
            length_s=LENGTH_S,
            horizon=drawn.horizon,
            outages=tuple(
                Outage(host=_hosts(first, hosts), start=_clock(start), end=_clock(end))
                for first, hosts, start, end in drawn.outages
            ),
        ),
    )
    check_round(made)
    return made


def _hosts(first: int, number: int) -> str:
    return f"h[{first}-{first + number - 1}]"


def _clock(lease: int | None) -> int | None:
    return None if lease is None else NOW + lease * LENGTH_S


def _job(i: int, job: Asked) -> Job:
    size = job.gpus if job.gpus <= GPUS_PER_HOST else gcd(job.gpus, GPUS_PER_HOST)
    group = TaskGroup(count=job.gpus // size, gpu=size)
    due = [Due(at=NOW + at, value=value) for at, value in job.due]
    return Job(
        name=f"job{i}",
        options=(Option(groups=(group,)),),
        deadline=Deadline(
            work_s=job.work_s,
            due=tuple(due),
            ready=NOW + job.ready_s if job.ready_s else None,
            promise=None if job.promise is None else due[job.due.index(job.promise)],
            paces=(Pace(overhead_s=job.overhead_s),),
        ),
    )
