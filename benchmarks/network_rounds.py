"""Rounds of racks that share uplinks, rules that place their jobs, and what a placement sends.

Nothing here asks the solver or the verifier: a placement is a list of host numbers per job, and
`figures_of` counts from it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round

__all__ = [
    "GPUS",
    "LINK_MBPS",
    "RACK",
    "Asked",
    "Figures",
    "drawn",
    "figures_of",
    "hosts_of",
    "placed_in_order",
    "round_of",
    "rules",
]

RACK = 8
"""Hosts of a rack."""

GPUS = 8
LINK_MBPS = 300
"""Bandwidth of a rack's uplink, each way."""

SIZES = (1, 2, 3, 4, 6, 8, 10, 12)
"""Hosts that a job may ask."""

RATES = (40, 80, 120, 200, 300)
LEAST_ASKED, MOST_ASKED = 54 / 64, 60 / 64
"""Parts of all hosts that the jobs ask together."""

Placement: TypeAlias = Sequence[Sequence[int]]
"""The hosts of each job, by number; none of a job that waits."""


class Asked(NamedTuple):
    """A job: whole hosts, and Mbit/s over each uplink that it crosses."""

    hosts: int
    rate: int


@dataclass(frozen=True, slots=True)
class Figures:
    """What a placement comes to.

    `held` counts the hosts of the jobs that start. `spread` is that of the term, in GPUs: all of a
    job, for each of its racks beyond the first. `contention` is Mbit/s beyond the bandwidth, summed
    over uplinks; `overloaded` counts these uplinks, and `fullest` is the largest load of any, as a
    part of its bandwidth.
    """

    started: int
    held: int
    spread: int
    contention: int
    overloaded: int
    fullest: float


def drawn(hosts: int, seed: int) -> list[Asked]:
    """Return jobs that ask 54/64 to 60/64 of the hosts; a job of one host sends nothing."""
    rng, jobs, total = random.Random(seed), list[Asked](), 0
    least, most = int(LEAST_ASKED * hosts), int(MOST_ASKED * hosts)
    while total < least:
        size = rng.choice(SIZES)
        if total + size <= most:
            jobs.append(Asked(size, rng.choice(RATES) if size > 1 else 0))
            total += size
    return jobs


def round_of(hosts: int, jobs: Sequence[Asked], terms: Sequence[str]) -> Round:
    """Return the round: racks of hosts in order, each with an uplink."""
    racks = range(hosts // RACK)
    cluster = {
        "levels": ["rack"],
        "domains": [{"name": f"r{r}", "level": "rack"} for r in racks],
        "hosts": [
            {"name": f"r{r}-h[0-{RACK - 1}]", "parent": f"r{r}", "gpus": GPUS, "gpu_model": "H100"}
            for r in racks
        ],
        "links": {"rack": {"bandwidth_mbps": LINK_MBPS, "latency_us": 1.0}},
    }
    asked: list[dict[str, Any]] = []
    for i, job in enumerate(jobs):
        group: dict[str, Any] = {"gpu": GPUS, "count": job.hosts}
        if job.rate:
            group["communication"] = {"rate_mbps": job.rate}
        asked.append({"name": f"j{i}", "options": [{"groups": [group]}]})
    raw = {"cluster": cluster, "jobs": asked, "policy": {"terms": list(terms)}}
    return Round.model_validate(raw)


def hosts_of(plan: Plan) -> list[list[int]]:
    """Return the placement of a plan."""
    hosts = {
        int(one.job.removeprefix("j")): sorted(_number(task.host) for task in one.tasks)
        for one in plan.decisions
    }
    return [hosts[job] for job in range(len(hosts))]


def _number(host: str) -> int:
    rack, inside = host.removeprefix("r").split("-h")
    return int(rack) * RACK + int(inside)


def rules(hosts: int, jobs: Sequence[Asked], seed: int) -> Mapping[str, Placement]:
    """Return what each rule makes of the jobs in their order: hosts in order, or at random."""
    order = random.Random(seed).sample(range(hosts), hosts)
    return {
        "first fit": placed_in_order(range(hosts), jobs),
        "random": placed_in_order(order, jobs),
    }


def placed_in_order(hosts: Sequence[int], jobs: Sequence[Asked]) -> list[list[int]]:
    """Return job after job on the next hosts of an order; one that does not fit waits."""
    placement, at = list[list[int]](), 0
    for job in jobs:
        fits = at + job.hosts <= len(hosts)
        placement.append(sorted(hosts[at : at + job.hosts]) if fits else [])
        at += len(placement[-1])
    return placement


def figures_of(hosts: int, jobs: Sequence[Asked], placement: Placement) -> Figures:
    """Count what a placement comes to.

    Raises
    ------
    ValueError
        If it is none: a host is shared or unknown, or a job has some of its hosts only.
    """
    held = Counter(host for taken in placement for host in taken)
    if len(placement) != len(jobs) or any(n > 1 or not 0 <= h < hosts for h, n in held.items()):
        raise ValueError("expected a list of hosts for each job, each host in one at most")
    load: Counter[int] = Counter()
    started = spread = 0
    for job, taken in zip(jobs, placement, strict=True):
        if not taken:
            continue
        if len(taken) != job.hosts:
            raise ValueError(f"a job has {len(taken)} of {job.hosts} hosts; expected all or none")
        racks = {host // RACK for host in taken}
        started += 1
        spread += GPUS * job.hosts * (len(racks) - 1)
        if len(racks) > 1:
            load.update(dict.fromkeys(racks, job.rate))
    beyond = [mbps - LINK_MBPS for mbps in load.values() if mbps > LINK_MBPS]
    fullest = max(load.values(), default=0) / LINK_MBPS
    return Figures(started, len(held), spread, sum(beyond), len(beyond), fullest)
