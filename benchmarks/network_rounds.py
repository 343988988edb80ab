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
    "FULL",
    "GPUS",
    "LOOSE",
    "Asked",
    "Figures",
    "Kind",
    "drawn",
    "figures_of",
    "hosts_of",
    "placed_in_order",
    "round_of",
    "rules",
]

GPUS = 8
LINK_MBPS = 300
"""Bandwidth of a rack's uplink, each way."""

Placement: TypeAlias = Sequence[Sequence[int]]
"""The hosts of each job, by number; none of a job that waits."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of rounds.

    `rack` is how many hosts a rack has, `least` and `most` how many of 64 hosts the jobs ask in
    all, and `sizes` and `rates` what a job may ask and send.
    """

    name: str
    rack: int
    least: int
    most: int
    sizes: Sequence[int]
    rates: Sequence[int]


LOOSE = Kind("", 8, 54, 60, (1, 2, 3, 4, 6, 8, 10, 12), (40, 80, 120, 200, 300))
FULL = Kind("full", 4, 64, 64, (1, 2, 3, 5, 6, 7, 9, 10), (120, 200, 300))
"""All hosts are asked, nearly all jobs cross, and many pairs of them overload a link."""


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


def drawn(kind: Kind, hosts: int, seed: int) -> list[Asked]:
    """Return the jobs of a round; those of one host send nothing."""
    rng, jobs, total = random.Random(seed), list[Asked](), 0
    while total < hosts * kind.least // 64:
        size = rng.choice(kind.sizes)
        if total + size <= hosts * kind.most // 64:
            jobs.append(Asked(size, rng.choice(kind.rates) if size > 1 else 0))
            total += size
    return jobs


def round_of(rack: int, hosts: int, jobs: Sequence[Asked], terms: Sequence[str]) -> Round:
    """Return the round: racks of so many hosts, in order, each with an uplink."""
    racks = range(hosts // rack)
    cluster = {
        "levels": ["rack"],
        "domains": [{"name": f"r{r}", "level": "rack"} for r in racks],
        "hosts": [
            {
                "name": f"h[{r * rack}-{(r + 1) * rack - 1}]",
                "parent": f"r{r}",
                "gpus": GPUS,
                "gpu_model": "H100",
            }
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
        int(one.job.removeprefix("j")): sorted(int(t.host.removeprefix("h")) for t in one.tasks)
        for one in plan.decisions
    }
    return [hosts[job] for job in range(len(hosts))]


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


def figures_of(rack: int, hosts: int, jobs: Sequence[Asked], placement: Placement) -> Figures:
    """Count what a placement in racks of so many hosts comes to.

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
        racks = {host // rack for host in taken}
        started += 1
        spread += GPUS * job.hosts * (len(racks) - 1)
        if len(racks) > 1:
            load.update(dict.fromkeys(racks, job.rate))
    beyond = [mbps - LINK_MBPS for mbps in load.values() if mbps > LINK_MBPS]
    fullest = max(load.values(), default=0) / LINK_MBPS
    return Figures(started, len(held), spread, sum(beyond), len(beyond), fullest)
