"""Rounds of racks with a power budget, rules that keep to it, and what a placement draws.

Nothing here asks the solver or the verifier: a placement is a list of host numbers per job, and
`figures_of` counts from it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round

__all__ = [
    "BUDGET",
    "GPUS",
    "RACK",
    "Asked",
    "Figures",
    "Way",
    "drawn",
    "figures_of",
    "first_fit",
    "hosts_of",
    "round_of",
]

RACK = 8
"""Hosts of a rack."""

GPUS = 8
BUDGET = 40_000
"""Watts of a rack."""

SIZES = {1: 30, 2: 15, 4: 15, 8: 20, 16: 10, 32: 6, 64: 3, 128: 1}
"""GPUs that jobs ask, and how often; gangs of whole hosts above 8."""

WATTS = (300, 400, 500, 600, 700, 800, 900, 1000)
"""What a GPU draws with its part of the host."""

MOST_DRAWN = RACK * GPUS * max(WATTS)
"""Watts of a rack, at most."""

MOST_WORTH = 10
DEMAND = 1.25
"""GPUs that the jobs ask together, over those that there are."""

Way: TypeAlias = Literal["pools", "wide", "even", "none"]
"""A rack's budget as a pool, as one that is never full, in equal parts as a resource of its hosts,
or left out.
"""

Placement: TypeAlias = Sequence[Sequence[int]]
"""The host of each task of each job, by number; none of a job that waits."""


class Asked(NamedTuple):
    """A job: tasks of some GPUs that draw so many watts each, and what it is worth."""

    tasks: int
    gpus: int
    watts: int
    value: int


@dataclass(frozen=True, slots=True)
class Figures:
    """What a placement comes to.

    `beyond` counts the racks that draw more than their budget, and `fullest` is the largest draw of
    any as a part of it.
    """

    value: int
    started: int
    gpus: int
    beyond: int
    fullest: float


def drawn(hosts: int, seed: int) -> list[Asked]:
    """Return jobs that ask 1.25 times the GPUs; value is GPUs times a worth of 1 to 10."""
    rng, jobs, total = random.Random(seed), list[Asked](), 0
    sizes, often = zip(*SIZES.items(), strict=True)
    while total < DEMAND * GPUS * hosts:
        (size,) = rng.choices(sizes, often)
        each = min(size, GPUS)
        jobs.append(
            Asked(size // each, each, each * rng.choice(WATTS), size * rng.randint(1, MOST_WORTH))
        )
        total += size
    return jobs


def round_of(hosts: int, jobs: Sequence[Asked], way: Way) -> Round:
    """Return the round: racks of hosts in order, each with its budget."""
    racks = range(hosts // RACK)
    each: dict[str, Any] = {"gpus": GPUS, "gpu_model": "H100"}
    if way == "even":
        each["resources"] = {"power_w": BUDGET // RACK}
    cluster: dict[str, Any] = {
        "levels": ["rack"],
        "domains": [{"name": f"r{r}", "level": "rack"} for r in racks],
        "hosts": [{"name": f"r{r}-h[0-{RACK - 1}]", "parent": f"r{r}", **each} for r in racks],
    }
    if way in ("pools", "wide"):
        capacity = BUDGET if way == "pools" else MOST_DRAWN
        cluster["pools"] = [{"resource": "power_w", "level": "rack", "capacity": capacity}]
    asked: list[dict[str, Any]] = []
    for i, job in enumerate(jobs):
        group: dict[str, Any] = {"gpu": job.gpus, "count": job.tasks}
        if way != "none":
            group["resources"] = {"power_w": job.watts}
        asked.append({"name": f"j{i}", "options": [{"value": job.value, "groups": [group]}]})
    raw = {"cluster": cluster, "jobs": asked, "policy": {"terms": ["value"]}}
    return Round.model_validate(raw)


def hosts_of(plan: Plan) -> list[list[int]]:
    """Return the placement of a plan."""
    hosts = {
        int(one.job.removeprefix("j")): [_number(task.host) for task in one.tasks]
        for one in plan.decisions
    }
    return [hosts[job] for job in range(len(hosts))]


def _number(host: str) -> int:
    rack, inside = host.removeprefix("r").split("-h")
    return int(rack) * RACK + int(inside)


def first_fit(hosts: int, jobs: Sequence[Asked]) -> list[list[int]]:
    """Return jobs by worth per GPU, the largest first, each task on the first host with room.

    A host has room if its GPUs and the budget of its rack do. A job that does not fit as a whole
    waits.
    """
    gpus = np.full(hosts, GPUS, dtype=np.int64)
    watts = np.full(hosts // RACK, BUDGET, dtype=np.int64)
    placement: list[list[int]] = [[] for _ in jobs]
    for number in sorted(range(len(jobs)), key=lambda n: -jobs[n].value / _gpus(jobs[n])):
        job, taken = jobs[number], placement[number]
        for _ in range(job.tasks):
            room = (gpus >= job.gpus) & np.repeat(watts >= job.watts, RACK)
            host = int(room.argmax())
            if not room[host]:
                break
            taken.append(host)
            gpus[host] -= job.gpus
            watts[host // RACK] -= job.watts
        if len(taken) < job.tasks:
            for host in taken:
                gpus[host] += job.gpus
                watts[host // RACK] += job.watts
            taken.clear()
    return placement


def _gpus(job: Asked) -> int:
    return job.tasks * job.gpus


def figures_of(hosts: int, jobs: Sequence[Asked], placement: Placement) -> Figures:
    """Count what a placement comes to.

    Raises
    ------
    ValueError
        If it is none: a host is unknown or gives more GPUs than it has, or a job has some of its
        tasks only.
    """
    held, power = Counter[int](), Counter[int]()
    value = started = 0
    for job, taken in zip(jobs, placement, strict=True):
        if not taken:
            continue
        if len(taken) != job.tasks:
            raise ValueError(f"a job has {len(taken)} of {job.tasks} tasks; expected all or none")
        value, started = value + job.value, started + 1
        for host in taken:
            held[host] += job.gpus
            power[host // RACK] += job.watts
    if any(n > GPUS or not 0 <= host < hosts for host, n in held.items()):
        raise ValueError(f"expected at most {GPUS} GPUs of each of {hosts} hosts")
    beyond = sum(watts > BUDGET for watts in power.values())
    fullest = max(power.values(), default=0) / BUDGET
    return Figures(value, started, sum(held.values()), beyond, fullest)
