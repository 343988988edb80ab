"""Every plan of a tiny round that shares GPUs, by brute force, from its document alone.

Jobs are of one group and of equal priority, so that running ones stay or migrate. Tasks are placed
one after the other on every GPU and, as MIG slices, at every start; what the GPUs then hold is all
that matters to those that follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from placewright.instances.derived.hardware import Hardware, hardware
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.round import Round
from placewright.topology.mig import PRODUCTS, SLICES

SENSE = {"value": 1, "disruption": -1, "opened": -1, "leftover": -1}
Vector = tuple[int, ...]


class Gpu(NamedTuple):
    """What a GPU holds: slices as (kind, start), or milli-GPU and MiB of anything else."""

    slices: tuple[tuple[int, int], ...] = ()
    milli: int = 0
    memory: int = 0

    @property
    def used(self) -> int:
        return self.milli + sum(1000 * SLICES[kind].compute // 7 for kind, _ in self.slices)


class Host(NamedTuple):
    """What a host holds; `touched`: something arrived."""

    gpus: tuple[Gpu, ...]
    cpu: int = 0
    touched: bool = False


class Place(NamedTuple):
    """Where a task is."""

    host: int
    gpus: tuple[int, ...]
    slot: int | None


Hosts = tuple[Host, ...]


def legal(slices: tuple[tuple[int, int], ...]) -> bool:
    cells = [
        cell
        for kind, start in slices
        for cell in (
            *range(start, start + SLICES[kind].size),
            *(["media"] if SLICES[kind].media else []),
        )
    ]
    return len(cells) == len(set(cells))


class Enumeration:
    """The plans of a round."""

    def __init__(self, round_: Round) -> None:
        self.round = round_
        self.has: list[Hardware] = []
        self.names: list[str] = []
        for entry in round_.cluster.hosts:
            for name in expand(entry.name):
                self.has.append(hardware(entry))
                self.names.append(name)
        self.busy = [
            any(t.host == name for j in round_.jobs if j.running for t in j.running.tasks)
            for name in self.names
        ]

    def after(self, hosts: Hosts, group: TaskGroup, place: Place, *, comes: bool) -> Hosts | None:
        """The hosts once a task is in a place; None if it cannot be there."""
        host, has = hosts[place.host], self.has[place.host]
        if host.cpu + group.cpu > has.capacity["cpu"]:
            return None
        gpus = list(host.gpus)
        for g in place.gpus:
            gpu = gpus[g]
            if group.mig is not None:
                kind = PRODUCTS[has.product].profiles[group.mig]
                gpu = gpu._replace(slices=tuple(sorted((*gpu.slices, (kind, place.slot or 0)))))
                if gpu.milli or not legal(gpu.slices):
                    return None
            else:
                gpu = gpu._replace(
                    milli=gpu.milli + min(group.gpu, 1000), memory=gpu.memory + group.gpu_memory
                )
                if gpu.slices or gpu.milli > 1000 or gpu.memory > (has.gpu_memory or 0):
                    return None
            gpus[g] = gpu
        new = Host(tuple(gpus), host.cpu + group.cpu, host.touched or comes)
        return (*hosts[: place.host], new, *hosts[place.host + 1 :])

    def places(self, group: TaskGroup) -> Iterator[Place]:
        """All places where a task of a group may ever be."""
        for h, has in enumerate(self.has):
            if group.gpu_models is not None and has.gpu_model not in group.gpu_models:
                continue
            if group.mig is not None:
                profiles = PRODUCTS[has.product].profiles if has.product >= 0 else {}
                if group.mig in profiles:
                    for g in range(has.gpus):
                        for start in SLICES[profiles[group.mig]].starts:
                            yield Place(h, (g,), start)
            else:
                for gpus in combinations(range(has.gpus), -(-group.gpu // 1000)):
                    yield Place(h, gpus, None)

    def all_of(self, hosts: Hosts, group: TaskGroup) -> set[Hosts]:
        """The hosts in each way in which all tasks of a group arrive."""
        ways = {hosts}
        for _ in range(group.count):
            ways = {
                after
                for now in ways
                for place in self.places(group)
                if (after := self.after(now, group, place, comes=True)) is not None
            }
        return ways

    def ways_of(self, hosts: Hosts, job: Job, *, stay: bool) -> Iterator[tuple[Hosts, int]]:
        """The hosts and the disruption of a running job of one task that stays, or moves."""
        if job.running is None:
            return
        group, task = job.options[0].groups[0], job.running.tasks[0]
        home = Place(self.names.index(task.host), task.gpus, task.slot)
        if stay:
            kept = self.after(hosts, group, home, comes=False)
            if kept is not None:
                yield kept, 0
        elif not job.running.pinned:
            for place in self.places(group):
                moved = self.after(hosts, group, place, comes=True) if place != home else None
                if moved is not None:
                    yield moved, group.gpu

    def vectors(self) -> set[Vector]:
        """The term values of every plan."""
        empty = tuple(Host((Gpu(),) * has.gpus) for has in self.has)
        states = {(empty, 0, 0)}  # hosts, value, disruption
        for job in (j for j in self.round.jobs if j.running):
            states = {
                (after, value, cost + more)
                for hosts, value, cost in states
                for stay in (True, False)
                for after, more in self.ways_of(hosts, job, stay=stay)
            }
        known: dict[tuple[Hosts, int], set[Hosts]] = {}
        for job in (j for j in self.round.jobs if not j.running):
            following = set(states)
            for o, option in enumerate(job.options):
                for hosts, value, cost in states:
                    key = hosts, id(option)
                    if key not in known:
                        known[key] = self.all_of(hosts, option.groups[0])
                    following |= {(after, value + job.value_of(o), cost) for after in known[key]}
            states = following
        return {self._terms(*state) for state in states}

    def _terms(self, hosts: Hosts, value: int, cost: int) -> Vector:
        values = {
            "value": value,
            "disruption": cost,
            "opened": sum(h.touched and not busy for h, busy in zip(hosts, self.busy, strict=True)),
            "leftover": sum(1000 - g.used for h in hosts if h.touched for g in h.gpus),
        }
        return tuple(values[term] for term in self.round.policy.terms)


def optimum(round_: Round) -> Vector:
    """The lexicographically best term values."""
    senses = [SENSE[term] for term in round_.policy.terms]
    return max(
        Enumeration(round_).vectors(),
        key=lambda v: [s * x for s, x in zip(senses, v, strict=True)],
    )
