"""Teams of hosts that keep each other's checkpoints: ours, and the rules that frameworks have.

One job runs on all hosts of a cluster with racks of several sizes, its ranks in the order of the
tree. What counts is how many teams have all hosts in different racks, how many racks lose a
checkpoint if they fail, and how likely failed hosts lose nothing.

References
----------
`stride`: NVIDIA Resiliency Extension (local checkpointing), cliques of ranks n, n + J, n + 2J ...
`group and ring`: Wang et al., "Gemini", SOSP'23, section 4.1.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.report import ERROR, OURS, Row
from placewright.instances.documents.round import Round
from placewright.rounds.protection import ProtectedJob, protect, survival

HOSTS, QUICK_HOSTS = (64, 1000, 10_000), (64,)
COPIES = (2, 3)
RACK = 4, 36
"""Least and most hosts of a rack."""

SEED = 0
GPUS = 8

Sets = list[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Case:
    """So many hosts, and copies of each checkpoint."""

    hosts: int
    copies: int

    @property
    def name(self) -> str:
        """What rows call it."""
        return f"{self.hosts} hosts, {self.copies} copies"


def cases(*, quick: bool) -> list[Case]:
    """Return all cases, or those of the smallest cluster."""
    return [Case(n, copies) for n in (QUICK_HOSTS if quick else HOSTS) for copies in COPIES]


def run(chosen: Sequence[Case], *, quick: bool) -> Iterator[Row]:  # noqa: ARG001
    """Yield a row per case and method."""
    for case in chosen:
        racks = racks_of(case.hosts)
        rack_of = [rack for rack, size in enumerate(racks) for _ in range(size)]
        wall, cpu = time.monotonic(), time.process_time()
        found = protect(round_of(racks), case.copies, "rack", 1024)
        took = time.monotonic() - wall, time.process_time() - cpu
        (job,) = found.jobs
        bound = found.most_apart
        yield _row(case, OURS, _numbered(job), rack_of, bound, took)
        for method, sets in rules(case.hosts, case.copies).items():
            yield _row(case, method, sets, rack_of, bound, None)


def racks_of(hosts: int) -> list[int]:
    """Return the sizes of racks that have so many hosts in all."""
    rng, racks = random.Random(SEED), list[int]()
    while (left := hosts - sum(racks)) > 0:
        racks.append(min(left, rng.randint(*RACK)))
    return racks


def round_of(racks: Sequence[int]) -> Round:
    """Return a round in which one job runs on all hosts."""
    hosts = [
        {"name": f"r{r}h{h}", "parent": f"r{r}", "gpus": GPUS, "gpu_model": "x", "memory": "1Ti"}
        for r, size in enumerate(racks)
        for h in range(size)
    ]
    tasks = [
        {"index": number, "host": host["name"], "gpus": list(range(GPUS))}
        for number, host in enumerate(hosts)
    ]
    job = {
        "name": "train",
        "options": [{"groups": [{"count": len(hosts), "gpu": GPUS}]}],
        "running": {"tasks": tasks},
    }
    domains = [{"name": f"r{r}", "level": "rack"} for r in range(len(racks))]
    cluster = {"levels": ["rack"], "domains": domains, "hosts": hosts}
    return Round.model_validate({"cluster": cluster, "jobs": [job]})


def rules(hosts: int, copies: int) -> dict[str, Sets]:
    """Return the sets of each rule, of host numbers in the order of ranks."""
    strides = dict.fromkeys((1, 8, 16, hosts // copies))
    return {
        **{f"stride {stride}": strided(hosts, copies, stride) for stride in strides},
        "group and ring": in_order(range(hosts), copies),
        "random": in_order(random.Random(SEED).sample(range(hosts), hosts), copies),
    }


def in_order(hosts: Sequence[int], copies: int) -> Sets:
    """Return teams of hosts that follow each other; the last one and those left are a ring."""
    rest = len(hosts) % copies
    last = len(hosts) - (rest + copies if rest else 0)
    ring = hosts[last:]
    around = [
        tuple(ring[(k + step) % len(ring)] for step in range(copies)) for k in range(len(ring))
    ]
    return [tuple(hosts[k : k + copies]) for k in range(0, last, copies)] + around


def strided(hosts: int, copies: int, stride: int) -> Sets:
    """Return cliques of a stride, block by block; what fills no block is in order."""
    block = stride * copies
    whole = hosts // block * block
    cliques = [
        tuple(range(first + k, first + block, stride))
        for first in range(0, whole, block)
        for k in range(stride)
    ]
    rest = range(whole, hosts)
    if 0 < len(rest) < copies:
        return cliques[:-1] + in_order([*cliques[-1], *rest], copies)
    return cliques + in_order(rest, copies)


def _numbered(job: ProtectedJob) -> Sets:
    order = {host: number for number, host in enumerate(job.hosts)}
    keepers = [one.hosts for one in job.sets] + [(host,) for host in job.unprotected]
    return [tuple(order[host] for host in keeper) for keeper in keepers]


def _row(
    case: Case,
    method: str,
    sets: Sets,
    rack_of: Sequence[int],
    bound: int | None,
    took: tuple[float, float] | None,
) -> Row:
    # Sets that share hosts are one team at most.
    taken, apart = set[int](), 0
    for one in sets:
        if len({rack_of[host] for host in one}) == len(one) and taken.isdisjoint(one):
            taken.update(one)
            apart += 1
    inside = [{rack_of[host] for host in one} for one in sets]
    fatal = {rack for racks in inside if len(racks) == 1 for rack in racks}
    chances = {
        f"{failed} fail %": 100 * survival(sets, case.hosts, failed).value for failed in (2, 3, 4)
    }
    return Row(
        case.name,
        method,
        SEED,
        "done" if bound is None or apart <= bound else ERROR,
        seconds=None if took is None else took[0],
        cpu_seconds=None if took is None else took[1],
        figures={
            "teams apart": float(apart),
            **({} if bound is None else {"at most": float(bound)}),
            "gap %": 100 * (1 - apart / bound) if bound else 0.0,
            "fatal racks": float(len(fatal)),
            **chances,
        },
        note="more teams than the bound" if bound is not None and apart > bound else "",
    )
