"""One region's part of a round, as a round of gangs of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.problem import Problem as Gangs
from placewright.formulations.gang.problem.subproblem import cut
from placewright.formulations.geo.models.monolithic import PLACES
from placewright.formulations.geo.problem.compile import Problem
from placewright.formulations.session import Candidate, Place, Slots
from placewright.instances.checks.cluster import HOST_LEVEL
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.cluster import ClusterDocument, DomainEntry, HostEntry
from placewright.instances.documents.geo import Geo
from placewright.instances.documents.job import Job, Running, TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.round import Reservation, Round

Quotas = Mapping[str, Mapping[str, int]]
"""By tenant and resource what a tenant's jobs may hold."""


@dataclass(frozen=True, eq=False)
class Part:
    """A region's round of gangs: `jobs` and `hosts` have their indices in the whole round.

    `document` makes the round, for whoever decides it elsewhere, and `gangs` its arrays.
    """

    region: int
    jobs: tuple[int, ...]
    hosts: tuple[int, ...]
    document: Callable[[], Round]
    gangs: Callable[[], Gangs]

    def told(self, found: Candidate) -> Candidate:
        """Tell a plan of the region as one that counts jobs and hosts of the whole round."""
        jobs, hosts = self.jobs, self.hosts
        return Candidate(
            {
                jobs[j]: (option, tuple((g, i, hosts[h], gpus) for g, i, h, gpus in places))
                for j, (option, places) in found.starts.items()
            },
            found.source,
            {jobs[j]: jobs[above] for j, above in found.preempted.items()},
            slots={jobs[j]: slots for j, slots in found.slots.items()},
        )


@dataclass(slots=True)
class Settled:
    """What is decided already, by the jobs' indices in the whole round, as a candidate says it.

    `of_region` and `came` have, by region, who has started or moved there, and the hosts to which
    something came. Running jobs that `stay` may not move.
    """

    starts: dict[int, tuple[int, tuple[Place, ...]]] = field(default_factory=dict)
    preempted: dict[int, int] = field(default_factory=dict)
    slots: dict[int, Slots] = field(default_factory=dict)
    of_region: dict[int, list[int]] = field(default_factory=dict)
    came: dict[int, set[str]] = field(default_factory=dict)
    stay: set[int] = field(default_factory=set)

    def add(self, region: int, found: Candidate, names: Sequence[str]) -> None:
        """Add a plan of a region, told of the whole round; hosts have these `names`."""
        self.starts.update(found.starts)
        self.preempted.update(found.preempted)
        self.slots.update(found.slots)
        self.of_region.setdefault(region, []).extend(found.starts)
        came = self.came.setdefault(region, set())
        came.update(names[place[2]] for _, places in found.starts.values() for place in places)

    def in_region(self, region: int) -> Sequence[int]:
        """Return who has started or moved in a region."""
        return self.of_region.get(region, ())

    def hosts(self, region: int) -> Collection[str]:
        """Return the hosts of a region to which something came."""
        return self.came.get(region, frozenset())


class Regions:
    """Cuts a round into rounds of its regions."""

    def __init__(self, problem: Problem, gangs: Gangs) -> None:
        self.problem, self.gangs, self.round = problem, gangs, problem.round
        self.level = self.round.geo.level
        self._groups: dict[tuple[int, str], TaskGroup] = {}
        terms = ("value", *(term for term in self.round.policy.terms if term in PLACES))
        self._policy = self.round.policy.model_copy(update={"formulation": "gang", "terms": terms})

    def part(
        self,
        region: int,
        pending: Sequence[int],
        quotas: Quotas,
        settled: Settled,
        model: Mapping[int, int],
    ) -> Part:
        """Return a region's round with these pending jobs, in the order of the whole round.

        Those with a `model` are to have GPUs of it. What is `settled` stays: who has started or
        moved, and who shares a host with them. Nothing comes to hosts that somebody was stopped on.
        """
        stopped = settled.preempted
        jobs = tuple(
            sorted({*pending, *settled.in_region(region), *self.running[region]} - stopped.keys())
        )
        came, left = settled.hosts(region), self._left(stopped).get(region, ())
        tenants = tuple(
            tenant.model_copy(update={"quota": quotas[tenant.name]})
            if tenant.name in quotas
            else tenant
            for tenant in self.round.tenants
        )
        update = {
            "cluster": self._clusters[region],
            "jobs": tuple(self.round.jobs[j] for j in jobs),
            "tenants": tenants,
            "reservations": (*self._reservations[region], *left),
            "policy": self._policy,
            "geo": Geo(),
        }
        round_, hosts = self.round.model_copy(update=update), self._hosts[region]

        def told(j: int, model: int) -> Job:
            return self._gang(j, region, settled, came, model)

        def document() -> Round:
            mine = tuple(told(j, model.get(j, NONE)) for j in jobs)
            return round_.model_copy(update={"jobs": mine})

        def arrays() -> Gangs:
            if came or left or not settled.stay.isdisjoint(jobs):
                return compile_round(document())
            variants = [model.get(j, NONE) for j in jobs]
            return cut(self.gangs, round_, jobs, hosts, variants, told)

        return Part(region, jobs, hosts, document, arrays)

    def _left(self, stopped: Iterable[int]) -> dict[int, list[Reservation]]:
        """Return reservations of the hosts on which jobs were stopped, by region."""
        found: dict[int, dict[str, Reservation]] = {}
        for j in stopped:
            running = self.round.jobs[j].running
            for task in () if running is None else running.tasks:
                mine = found.setdefault(int(self.problem.at[j]), {})
                mine[task.host] = Reservation(host=task.host)
        return {region: list(mine.values()) for region, mine in found.items()}

    @cached_property
    def running(self) -> list[list[int]]:
        """Indices of the jobs that run in each region."""
        at = self.problem.at
        return [np.flatnonzero(at == r).tolist() for r in range(len(self.problem.wan.regions))]

    @cached_property
    def _hosts(self) -> list[tuple[int, ...]]:
        region = self.problem.wan.host_region
        count = len(self.problem.wan.regions)
        return [tuple(np.flatnonzero(region == r).tolist()) for r in range(count)]

    @cached_property
    def _names(self) -> list[frozenset[str]]:
        names = self.problem.cluster.hosts
        return [frozenset(names[h] for h in hosts) for hosts in self._hosts]

    @cached_property
    def _reservations(self) -> list[list[Reservation]]:
        cut: list[list[Reservation]] = [[] for _ in self.problem.wan.regions]
        index, region = self.problem.cluster.host_index, self.problem.wan.host_region
        for reservation in self.round.reservations:
            for host in expand(reservation.host):
                cut[region[index[host]]].append(reservation.model_copy(update={"host": host}))
        return cut

    @cached_property
    def _clusters(self) -> list[ClusterDocument]:
        """Return each region's hosts, with the domains that hold them."""
        cluster, regions = self.round.cluster, self.problem.wan.regions
        index, region = self.problem.cluster.host_index, self.problem.wan.host_region
        hosts: list[list[HostEntry]] = [[] for _ in regions]
        held: defaultdict[str | None, set[int]] = defaultdict(set)
        for entry in cluster.hosts:
            names = expand(entry.name)
            parts = (
                [entry]
                if self.level != HOST_LEVEL
                else [entry.model_copy(update={"name": name}) for name in names]
            )
            for part, name in zip(parts, names, strict=False):
                r = int(region[index[name]])
                hosts[r].append(part)
                held[entry.parent].add(r)
        domains: list[list[DomainEntry]] = [[] for _ in regions]
        # From the inside out: what holds a domain comes into each region that the domain is in.
        place = {level: i for i, level in enumerate(cluster.levels)}
        for domain in sorted(cluster.domains, key=lambda d: -place[d.level]):
            for r in held[domain.name]:
                domains[r].append(domain)
            held[domain.parent] |= held[domain.name]
        return [
            cluster.model_copy(
                update={"hosts": tuple(mine), "domains": tuple(reversed(around)), "wan": ()}
            )
            for mine, around in zip(hosts, domains, strict=True)
        ]

    def _gang(
        self, j: int, region: int, settled: Settled, came: Collection[str], model: int
    ) -> Job:
        """Return a job as a gang; of the hosts that it names those in the region are left."""
        job = self.round.jobs[j]
        if model != NONE:
            job = self._on(job, model)
        if j in settled.starts:
            job = job.model_copy(update={"running": self._runs(j, settled)})
        elif job.running is not None and (
            j in settled.stay or any(task.host in came for task in job.running.tasks)
        ):
            pinned = job.running.model_copy(update={"pinned": True})
            job = job.model_copy(update={"running": pinned})
        if not any(group.hosts for option in job.options for group in option.groups):
            return job
        options = tuple(
            option.model_copy(
                update={
                    "groups": tuple(
                        group
                        if group.hosts is None
                        else group.model_copy(update={"hosts": self._named(group.hosts, region)})
                        for group in option.groups
                    )
                }
            )
            for option in job.options
        )
        return job.model_copy(update={"options": options})

    def _on(self, job: Job, model: int) -> Job:
        """Return a job of which the options that may have GPUs of a model have no others."""
        name = self.problem.wan.models[model]
        options = tuple(
            option
            if any(g.gpu_models is not None and name not in g.gpu_models for g in option.groups)
            else option.model_copy(
                update={"groups": tuple(self._only(group, name) for group in option.groups)}
            )
            for option in job.options
        )
        return job.model_copy(update={"options": options})

    def _only(self, group: TaskGroup, model: str) -> TaskGroup:
        """Return a group that may have GPUs of a model alone; of many jobs it is the same."""
        key = id(group), model
        if key not in self._groups:
            same = group.gpu_models == (model,)
            alone = group if same else group.model_copy(update={"gpu_models": (model,)})
            self._groups[key] = alone
        return self._groups[key]

    def _runs(self, j: int, settled: Settled) -> Running:
        """Return where a job runs that has started or moved; there it stays."""
        option, places = settled.starts[j]
        names = self.problem.cluster.hosts
        slots = settled.slots.get(j) or (None,) * len(places)
        tasks = tuple(
            Task.model_construct(group=g, index=i, host=names[h], gpus=gpus, slot=slot)
            for (g, i, h, gpus), slot in zip(places, slots, strict=True)
        )
        return Running.model_construct(option=option, tasks=tasks, pinned=True)

    def _named(self, names: Sequence[str], region: int) -> tuple[str, ...]:
        here = self._names[region]
        return tuple(host for name in names for host in expand(name) if host in here)
