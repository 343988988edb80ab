"""Rounds of jobs that write checkpoints to one store, and rules that divide its bandwidth."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.speed_models import checkpoints

__all__ = [
    "BITS",
    "FULL",
    "INTERVALS",
    "Choice",
    "Stream",
    "choices_of",
    "drawn",
    "equal_bandwidth",
    "equal_intervals",
    "fluid_bound",
    "load_of",
    "lost_of",
    "round_of",
    "store_mbps",
]

GPUS = 8
SIZES = (1, 1, 2, 2, 4, 8, 16)
"""Hosts of a job."""

LEAST_ASKED, MOST_ASKED = 0.8, 0.9
"""Parts of all hosts that the jobs ask together."""

STATE_GBIT = 50, 400
"""Least and most of a host's part of a state."""

MOST_WORK = 10
"""Work that a GPU loses per second, at most."""

INTERVALS = (10, 20, 30, 40, 60, 80, 100, 120, 160, 200, 240, 320, 480, 960)
WORST = 3600
"""Seconds; waiting counts as such an interval."""

MEAN_S = 100
"""Interval at which all states in 32 bits would fill the store."""

FULL: Mapping[int, int] = {32: 0}
BITS: Mapping[int, int] = {32: 0, 8: 5, 4: 20, 3: 40, 2: 80}
"""Bits of a number, and what they cost in seconds of a job's work."""


class Stream(NamedTuple):
    """A job: hosts, its state in Gbit, and the work that it loses per second."""

    hosts: int
    state: int
    work: int


class Choice(NamedTuple):
    """An interval in seconds and bits of a number."""

    interval: int
    bits: int


def drawn(hosts: int, seed: int) -> list[Stream]:
    """Return jobs that ask 0.8 to 0.9 of the hosts."""
    rng, jobs, total = random.Random(seed), list[Stream](), 0
    while total < LEAST_ASKED * hosts:
        size = rng.choice(SIZES)
        if total + size <= MOST_ASKED * hosts:
            state = size * rng.randint(*STATE_GBIT)
            jobs.append(Stream(size, state, size * GPUS * rng.randint(1, MOST_WORK)))
            total += size
    return jobs


def store_mbps(jobs: Sequence[Stream]) -> int:
    """Return the bandwidth of the store."""
    return 1000 * sum(job.state for job in jobs) // MEAN_S


def round_of(
    hosts: int, jobs: Sequence[Stream], bits: Mapping[int, int], capacity: int | None
) -> Round:
    """Return the round, with a store of so many Mbit/s as a pool, or without (None)."""
    cluster: dict[str, Any] = {
        "hosts": [
            {"name": f"h[0-{hosts - 1}]", "gpus": GPUS, "gpu_model": "H100", "memory": "2Ti"}
        ],
    }
    if capacity is not None:
        pool = {"resource": checkpoints.STORE, "capacity": capacity, "per": "job"}
        cluster["pools"] = [pool]
    asked: list[dict[str, Any]] = []
    for number, job in enumerate(jobs):
        menu = checkpoints.options(
            job.state,
            job.work,
            INTERVALS,
            {b: seconds * job.work for b, seconds in bits.items()},
            worst_s=WORST,
            worker=TaskGroup(gpu=GPUS, count=job.hosts),
            scale=1,
        )
        options = [option.model_dump(mode="json") for option in menu]
        for option in options if capacity is None else ():
            del option["uses"]
        asked.append({"name": f"j{number}", "options": options})
    raw = {"cluster": cluster, "jobs": asked, "policy": {"terms": ["value"]}}
    return Round.model_validate(raw)


def choices_of(round_: Round, plan: Plan) -> list[Choice | None]:
    """Return interval and bits of each job; None of one that waits."""
    menus = {job.name: job.options for job in round_.jobs}
    found: dict[str, Choice | None] = {}
    for one in plan.decisions:
        found[one.job] = None
        if one.option is not None:
            interval, bits = menus[one.job][one.option].name.split("-")
            found[one.job] = Choice(int(interval.removesuffix("s")), int(bits.removesuffix("bits")))
    return [found[job.name] for job in round_.jobs]


def lost_of(
    jobs: Sequence[Stream], chosen: Sequence[Choice | None], bits: Mapping[int, int]
) -> float:
    """Return the work that is lost: by a job that waits, that of the worst interval."""
    return sum(
        job.work * (WORST / 2 if one is None else one.interval / 2 + bits[one.bits])
        for job, one in zip(jobs, chosen, strict=True)
    )


def load_of(jobs: Sequence[Stream], chosen: Sequence[Choice | None]) -> int:
    """Return Mbit/s that the store is asked for, of each job rounded up."""
    return sum(_mbps(job, one) for job, one in zip(jobs, chosen, strict=True) if one is not None)


def equal_bandwidth(jobs: Sequence[Stream], bits: Mapping[int, int]) -> list[Choice | None]:
    """Return the best choice of each job within an equal part of the bandwidth."""
    share = store_mbps(jobs) // len(jobs)
    return [
        min(
            (one for one in _choices(bits) if _mbps(job, one) <= share),
            key=lambda one: lost_of([job], [one], bits),
            default=None,
        )
        for job in jobs
    ]


def equal_intervals(jobs: Sequence[Stream], bits: Mapping[int, int]) -> list[Choice | None]:
    """Return the best interval and bits that all jobs can have; all wait if there are none."""
    waiting: list[Choice | None] = [None] * len(jobs)
    alike: list[list[Choice | None]] = [[one] * len(jobs) for one in _choices(bits)]
    fitting = [chosen for chosen in alike if load_of(jobs, chosen) <= store_mbps(jobs)]
    return min(fitting, key=lambda chosen: lost_of(jobs, chosen, bits), default=waiting)


def fluid_bound(jobs: Sequence[Stream]) -> float:
    """Return the least work lost with 32 bits at any intervals, if all jobs start."""
    states = [(job.state, job.work) for job in jobs]
    intervals = checkpoints.fluid_intervals(states, store_mbps(jobs) / 1000)
    return sum(job.work * tau / 2 for job, tau in zip(jobs, intervals, strict=True))


def _choices(bits: Mapping[int, int]) -> list[Choice]:
    return [Choice(*both) for both in product(INTERVALS, bits)]


def _mbps(job: Stream, one: Choice) -> int:
    return -(-1000 * job.state * one.bits // (checkpoints.FULL_BITS * one.interval))
