"""`links`: jobs come and end; whose GPUs are joined, beside rules that choose GPUs.

64 hosts of three kinds: pairs joined by bridges, a hybrid cube mesh, and switches. What runs does
not move. docs/benchmarks/results.md has what it found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from benchmarks.measure import RunError
from benchmarks.plots import figure_bars
from benchmarks.report import ERROR, OURS, Row
from placewright import Changes, Engine, Round
from placewright.formulations.gang.problem.gpu_links import LinkTables, LinkTask
from placewright.instances.documents.arrangement import GpuLinkRequest
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import DecisionKind
from placewright.topology import LINK_MATRICES
from placewright.topology.gpu_links import joining_links, pairs_in, slowest_link

__all__ = ["Case", "Place", "best_effort", "cases", "draw", "first_run", "lowest", "run"]

GpuSet: TypeAlias = int
"""Bit i stands for GPU i."""

KINDS = ("a100-pcie-8-bridged", "hgx-v100-8", "hgx-a100-8")
"""Names of host models; the hosts are of each in turn."""

HOSTS, GPUS = 64, 8
SIZES, SHARES = (1, 2, 3, 4, 8), (0.35, 0.25, 0.1, 0.2, 0.1)
"""GPUs of a job, and how often a job asks so many."""

LOADS, SEEDS = (0.85, 0.9, 0.95), range(10)
MEAN_ROUNDS = 20
"""Run times are exponential, in rounds."""

ROUNDS, QUICK_ROUNDS = 100, 60
UNCOUNTED = 30
"""Jobs that come in the first rounds are not counted, nor are these rounds."""

SECONDS = 5.0
"""More than any round takes, so that the clock decides none."""

LANE_MBPS, SCORE_OF_LANE, SCORE_OF_SOCKET, SCORE_ACROSS = 200_000, 100, 20, 10
"""Scores of pairs of GPUs: per NVLink lane, and for the way over PCIe within and across sockets."""


class Arrival(NamedTuple):
    """A job: its GPUs, the round in which it comes, and how many rounds it runs."""

    name: str
    gpus: int
    at: int
    rounds: int


class Place(NamedTuple):
    """GPUs of a host."""

    host: int
    gpus: GpuSet


@dataclass(frozen=True, slots=True)
class Case:
    """A stream of jobs, by the GPU time that they ask over what there is, and a seed."""

    load: float
    seed: int
    rounds: int = ROUNDS

    @property
    def stream(self) -> str:
        """What rows call it, beside its seed."""
        return f"load-{100 * self.load:.0f}"

    @property
    def name(self) -> str:
        """By which it is chosen."""
        return f"{self.stream}-{self.seed}"

    def arrivals(self) -> list[Arrival]:
        """Draw the jobs, in the order in which they come: those of a running cluster at first."""
        draw = np.random.Generator(np.random.PCG64(self.seed))
        running = self.load * HOSTS * GPUS / float(np.dot(SIZES, SHARES))
        jobs: list[Arrival] = []
        for at in range(self.rounds):
            number = round(running) if at == 0 else int(draw.poisson(running / MEAN_ROUNDS))
            for gpus in draw.choice(SIZES, number, p=SHARES).tolist():
                rounds = 1 + int(draw.exponential(MEAN_ROUNDS - 0.5))
                jobs.append(Arrival(f"j{len(jobs)}", gpus, at, rounds))
        return jobs


def cases(*, quick: bool) -> list[Case]:
    """Return all streams; `quick`: one of few rounds."""
    if quick:
        return [Case(LOADS[1], 0, QUICK_ROUNDS)]
    return [Case(load, seed) for load in LOADS for seed in SEEDS]


class _Kind:
    """What sets of GPUs of a host model are like, by the sets."""

    def __init__(self, name: str) -> None:
        links = LINK_MATRICES[name]
        nvlink = joining_links(links, "nvlink", 0)
        mbps = np.array(links.mbps, dtype=np.int64)
        pairs = pairs_in(nvlink.astype(np.int64)).tolist()
        size = [gpus.bit_count() for gpus in range(1 << GPUS)]
        self.joined = [p == n * (n - 1) // 2 for p, n in zip(pairs, size, strict=True)]
        self.possible = {n for n, joined in zip(size, self.joined, strict=True) if joined}
        self.ring = slowest_link(mbps, "ring").tolist()
        socket = np.arange(GPUS) // (GPUS // 2)
        same = socket[:, None] == socket[None, :]
        lanes = np.where(nvlink, mbps // LANE_MBPS, 0)
        score = SCORE_OF_LANE * lanes + np.where(same, SCORE_OF_SOCKET, SCORE_ACROSS)
        self.score = pairs_in(score).tolist()


_kind = cache(_Kind)


def kind_of(host: int) -> str:
    """Return the host model of a host."""
    return KINDS[host % len(KINDS)]


def bits(gpus: GpuSet) -> list[int]:
    """Return the GPUs of a set, ascending."""
    return [gpu for gpu in range(GPUS) if gpus >> gpu & 1]


def lowest(kind: str, free: GpuSet, number: int) -> GpuSet:  # noqa: ARG001
    """Return the free GPUs of the lowest index."""
    return sum(1 << gpu for gpu in bits(free)[:number])


def first_run(kind: str, free: GpuSet, number: int) -> GpuSet:
    """Return the first free GPUs that follow each other, else those of the lowest index."""
    run = (1 << number) - 1
    runs = (run << at for at in range(GPUS - number + 1))
    return next((gpus for gpus in runs if not gpus & ~free), lowest(kind, free, number))


@cache
def best_effort(kind: str, free: GpuSet, number: int) -> GpuSet:
    """Return a set of the partition of the free GPUs into sets of this size that scores most.

    NVIDIA's `BestEffort` as its README describes it: NVLinks and the PCIe hierarchy count, and all
    later jobs are taken to be of this size. GPUs beyond a multiple of it are a set of their own;
    given out is the full set of the largest score, the first of equal ones.
    """
    score, some = _kind(kind).score, bits(free)
    rests = map(_set_of, combinations(some, len(some) % number))
    best = max(
        (
            (score[rest] + sum(score[gpus] for gpus in sets), sets)
            for rest in rests
            for sets in _partitions(free & ~rest, number)
        ),
        key=lambda found: found[0],
    )
    return max(best[1], key=score.__getitem__)


def _set_of(gpus: Sequence[int]) -> GpuSet:
    return sum(1 << gpu for gpu in gpus)


def _partitions(gpus: GpuSet, number: int) -> Iterator[tuple[GpuSet, ...]]:
    if not gpus:
        yield ()
        return
    first, *others = bits(gpus)
    for more in combinations(others, number - 1):
        mine = _set_of((first, *more))
        for sets in _partitions(gpus & ~mine, number):
            yield (mine, *sets)


@cache
def packed(kind: str, free: GpuSet, number: int) -> GpuSet:
    """Return the set that a plan of Placewright has for a single job on such a host."""
    asked = GpuLinkRequest() if number > 1 else None
    found = _tables(kind).pack(free, (LinkTask(number, asked, free),))
    if found is None:
        raise RunError(f"no {number} of the GPUs {bits(free)} of {kind} were found")
    return found.sets[0]


@cache
def _tables(kind: str) -> LinkTables:
    return LinkTables(LINK_MATRICES[kind])


def best_fit(free: Sequence[GpuSet], number: int) -> int | None:
    """Return the host with the fewest free GPUs of those with room, the first of equal ones."""
    room = (host for host, gpus in enumerate(free) if gpus.bit_count() >= number)
    return min(room, key=lambda host: free[host].bit_count(), default=None)


def first_fit(free: Sequence[GpuSet], number: int) -> int | None:
    """Return the first host with room."""
    return next((host for host, gpus in enumerate(free) if gpus.bit_count() >= number), None)


HostRule: TypeAlias = Callable[[Sequence[GpuSet], int], int | None]
GpuRule: TypeAlias = Callable[[str, GpuSet, int], GpuSet]


class _Scheduler(Protocol):
    def step(
        self, free: Sequence[GpuSet], ended: Sequence[str], arrived: Sequence[Arrival]
    ) -> dict[str, Place]:
        """Return the jobs that start now and where, given what is free once others have ended."""
        ...


@dataclass
class _ByRule:
    """Places the waiting jobs one after the other; those without room go on waiting."""

    choose_host: HostRule
    choose_gpus: GpuRule
    waiting: list[Arrival] = field(default_factory=list)

    def step(
        self,
        free: Sequence[GpuSet],
        ended: Sequence[str],  # noqa: ARG002
        arrived: Sequence[Arrival],
    ) -> dict[str, Place]:
        """Return the jobs that start now, and where."""
        self.waiting += arrived
        left, started = list(free), {}
        for job in self.waiting:
            host = self.choose_host(left, job.gpus)
            if host is not None:
                gpus = self.choose_gpus(kind_of(host), left[host], job.gpus)
                left[host] &= ~gpus
                started[job.name] = Place(host, gpus)
        self.waiting = [job for job in self.waiting if job.name not in started]
        return started


class _Ours:
    """An `Engine` with the terms value and gpu_links; what runs is pinned."""

    def __init__(self) -> None:
        hosts = [{"name": f"h{host}", "model": kind_of(host)} for host in range(HOSTS)]
        made = {"cluster": {"hosts": hosts}, "policy": {"terms": ["value", "gpu_links"]}}
        self._engine = Engine(
            Round.model_validate(made), time_limit=SECONDS, deterministic=True, isolation="none"
        )

    def step(
        self,
        free: Sequence[GpuSet],  # noqa: ARG002
        ended: Sequence[str],
        arrived: Sequence[Arrival],
    ) -> dict[str, Place]:
        """Return the jobs that start now, and where."""
        pinned = [
            job.model_copy(update={"running": job.running.model_copy(update={"pinned": True})})
            for job in self._engine.state.jobs
            if job.running is not None and not job.running.pinned and job.name not in ended
        ]
        added = [_asked(job) for job in arrived]
        plan = self._engine.round(Changes(removed=ended, added=added, updated=pinned))
        return {
            one.job: Place(int(one.tasks[0].host[1:]), _set_of(one.tasks[0].gpus))
            for one in plan.decisions
            if one.decision is DecisionKind.START
        }


def _asked(job: Arrival) -> Job:
    group: dict[str, Any] = {"gpu": job.gpus}
    if job.gpus > 1:
        group["gpu_links"] = {}
    return Job.model_validate({"name": job.name, "options": [{"groups": [group]}]})


METHODS: Mapping[str, Callable[[], _Scheduler]] = {
    OURS: _Ours,
    f"{OURS}'s packing": partial(_ByRule, best_fit, packed),
    "best effort": partial(_ByRule, best_fit, best_effort),
    "first run": partial(_ByRule, best_fit, first_run),
    "lowest index": partial(_ByRule, best_fit, lowest),
    "first fit": partial(_ByRule, first_fit, lowest),
}


def run(chosen: Sequence[Case], *, quick: bool) -> Iterator[Row]:  # noqa: ARG001
    """Yield a row per stream and method."""
    for case in chosen:
        arrivals = case.arrivals()
        for method, make in METHODS.items():
            began, cpu = time.monotonic(), time.process_time()
            figures, note = {}, ""
            try:
                figures = _play(case, arrivals, make())
            except RunError as error:
                note = str(error)
            yield Row(
                case.stream,
                method,
                case.seed,
                ERROR if note else "done",
                seconds=time.monotonic() - began,
                cpu_seconds=time.process_time() - cpu,
                figures=figures,
                note=note,
            )


def _play(case: Case, arrivals: Sequence[Arrival], scheduler: _Scheduler) -> dict[str, float]:
    """Play a stream under one scheduler."""
    free, running = [(1 << GPUS) - 1] * HOSTS, dict[str, tuple[int, Place]]()
    by_name = {job.name: job for job in arrivals}
    waits: dict[str, int] = {}
    places: dict[str, Place] = {}
    busy = 0
    for now in range(case.rounds):
        ended = [name for name, (end, _) in running.items() if end <= now]
        for name in ended:
            place = running.pop(name)[1]
            free[place.host] |= place.gpus
        arrived = [job for job in arrivals if job.at == now]
        for name, place in scheduler.step(tuple(free), ended, arrived).items():
            job = by_name[name]
            if place.gpus & ~free[place.host] or place.gpus.bit_count() != job.gpus:
                raise RunError(f"{name} has GPUs {bits(place.gpus)} of host {place.host}, not free")
            free[place.host] &= ~place.gpus
            running[name] = now + job.rounds, place
            if job.at >= UNCOUNTED:
                waits[name], places[name] = now - job.at, place
        if now >= UNCOUNTED:
            busy += HOSTS * GPUS - sum(gpus.bit_count() for gpus in free)
    several = [(_kind(kind_of(p.host)), p.gpus) for n, p in places.items() if by_name[n].gpus > 1]
    joined = [kind.joined[gpus] for kind, gpus in several]
    could = [k.joined[gpus] for k, gpus in several if gpus.bit_count() in k.possible]
    return {
        "jobs": len(places),
        "of several GPUs": len(several),
        "joined %": 100 * float(np.mean(joined)),
        "where some are %": 100 * float(np.mean(could)),
        "ring Gbit/s": float(np.mean([kind.ring[gpus] for kind, gpus in several])) / 1000,
        "allocation %": 100 * busy / (HOSTS * GPUS * (case.rounds - UNCOUNTED)),
        "mean wait": float(np.mean(list(waits.values()))),
    }


def draw(rows: Sequence[Row], target: Path) -> None:
    """Draw joined jobs, ring bandwidths and allocation."""
    panels = {title: {title: title} for title in ("joined %", "ring Gbit/s", "allocation %")}
    figure_bars(rows, target, panels)
