"""Region subproblem: the gang round of one region."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from placewright.formulations.common.inner_rounds import InnerRound
from placewright.formulations.common.priority_classes import PriorityClass
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.problem import Problem as Gangs
from placewright.formulations.gang.problem.quotas import Account, quota_of
from placewright.formulations.gang.problem.subproblem import cut_subproblem
from placewright.formulations.geo.heuristics.fixed_decisions import FixedDecisions
from placewright.formulations.geo.models.monolithic import PLACEMENT_TERMS
from placewright.formulations.geo.problem.compile import Problem
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.caps import Cap, Measure
from placewright.instances.documents.cluster import ClusterDocument, DomainEntry, HostEntry
from placewright.instances.documents.geo import Geo
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.policy import DisruptionLimits, PolicyLimits
from placewright.instances.documents.round import Reservation, Round
from placewright.topology.units import HOST_LEVEL

Quotas: TypeAlias = Mapping[Account, Mapping[Measure, int]]
"""What tenants and caps may hold in a region."""


@dataclass(frozen=True, eq=False)
class RegionSubproblem(InnerRound):
    """The gang round of a region.

    `document` returns the round as a document, for a solver elsewhere, and `gangs` its arrays;
    `classes` are the priority classes of the whole round.
    """

    region: int
    document: Callable[[], Round]
    gangs: Callable[[], Gangs]
    classes: tuple[PriorityClass, ...]


class RegionSubproblems:
    """Builds the gang rounds of regions."""

    def __init__(self, problem: Problem, gangs: Gangs) -> None:
        self.problem, self.gangs, self.round = problem, gangs, problem.round
        self.level = self.round.geo.level
        self._groups: dict[tuple[int, str], TaskGroup] = {}
        terms = ("value", *(term for term in self.round.policy.terms if term in PLACEMENT_TERMS))
        self._policy = self.round.policy.model_copy(update={"formulation": "gang", "terms": terms})

    def build(
        self,
        region: int,
        pending: Sequence[int],
        quotas: Quotas,
        fixed: FixedDecisions,
        model: Mapping[int, int],
        budget: DisruptionLimits | None = None,
    ) -> RegionSubproblem:
        """Return the gang round of a region with these pending jobs, in their order in the round.

        Parameters
        ----------
        region
            The region.
        pending
            The jobs assigned to it.
        quotas
            What tenants and caps may hold in the region.
        fixed
            Earlier decisions. Jobs that have started or migrated are pinned, as are the jobs that
            share a host with them.
        model
            The GPU model of jobs that are assigned to one.
        budget
            What may be done to running jobs of the region, None: anything.
        """
        stopped = fixed.preempted
        jobs = tuple(
            sorted({*pending, *fixed.fixed_in(region), *self.running[region]} - stopped.keys())
        )
        touched = fixed.hosts(region)
        closed = sorted(fixed.closed_hosts & self._names[region])
        tenants = tuple(
            tenant
            if ("tenant", tenant.name) not in quotas
            else tenant.model_copy(
                update={"quota": quota_of(quotas["tenant", tenant.name])},
            )
            for tenant in self.round.tenants
        )
        caps = {name: Cap.of(quotas.get(("cap", name), {})) for name in self.round.caps}
        update = {
            "cluster": self._region_clusters[region],
            "host_sets": self._region_host_sets[region],
            "jobs": tuple(self.round.jobs[j] for j in jobs),
            "tenants": tenants,
            "caps": caps,
            "reservations": (
                *self._reservations[region],
                *(Reservation(host=host) for host in closed),
            ),
            "policy": self._policy.model_copy(
                update={"limits": None if budget is None else PolicyLimits(disruption=budget)}
            ),
            "geo": Geo(),
        }
        round_, hosts = self.round.model_copy(update=update), self._hosts[region]
        classes = self.problem.priority_classes

        def restricted(j: int, model: int) -> Job:
            return self._restrict_job(j, region, fixed, touched, model)

        def document() -> Round:
            mine = tuple(restricted(j, model.get(j, NONE)) for j in jobs)
            return round_.model_copy(update={"jobs": mine})

        def arrays() -> Gangs:
            if touched or closed or not fixed.pinned_jobs.isdisjoint(jobs):
                return compile_round(document(), classes=classes)
            variants = [model.get(j, NONE) for j in jobs]
            return cut_subproblem(self.gangs, round_, jobs, hosts, variants, restricted)

        return RegionSubproblem(region, document, arrays, classes, jobs=jobs, hosts=hosts)

    @cached_property
    def running(self) -> list[list[int]]:
        """The running jobs of each region."""
        current_region = self.problem.current_region
        return [
            np.flatnonzero(current_region == r).tolist()
            for r in range(len(self.problem.wan.regions))
        ]

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
    def _region_host_sets(self) -> list[dict[str, tuple[str, ...]]]:
        return [
            {name: self._hosts_in_region(names, r) for name, names in self.round.host_sets.items()}
            for r in range(len(self.problem.wan.regions))
        ]

    @cached_property
    def _reservations(self) -> list[list[Reservation]]:
        cut: list[list[Reservation]] = [[] for _ in self.problem.wan.regions]
        index, region = self.problem.cluster.host_index, self.problem.wan.host_region
        for reservation in self.round.reservations:
            for host in expand(reservation.host):
                cut[region[index[host]]].append(reservation.model_copy(update={"host": host}))
        return cut

    @cached_property
    def _region_clusters(self) -> list[ClusterDocument]:
        """The cluster of each region: its hosts and the domains that enclose them."""
        cluster, regions = self.round.cluster, self.problem.wan.regions
        index, region = self.problem.cluster.host_index, self.problem.wan.host_region
        hosts: list[list[HostEntry]] = [[] for _ in regions]
        regions_of_domain: defaultdict[str | None, set[int]] = defaultdict(set)
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
                regions_of_domain[entry.parent].add(r)
        domains: list[list[DomainEntry]] = [[] for _ in regions]
        # From the inside out: what holds a domain comes into each region that the domain is in.
        place = {level: i for i, level in enumerate(cluster.levels)}
        for domain in sorted(cluster.domains, key=lambda d: -place[d.level]):
            for r in regions_of_domain[domain.name]:
                domains[r].append(domain)
            regions_of_domain[domain.parent] |= regions_of_domain[domain.name]
        return [
            cluster.model_copy(
                update={"hosts": tuple(mine), "domains": tuple(reversed(enclosing)), "wan": ()}
            )
            for mine, enclosing in zip(hosts, domains, strict=True)
        ]

    def _restrict_job(
        self, j: int, region: int, fixed: FixedDecisions, touched: Collection[str], model: int
    ) -> Job:
        """Return a job restricted to a region and to a GPU model if given, pinned if decided."""
        job = self.round.jobs[j]
        if model != NONE:
            job = self._restrict_to_model(job, model)
        if j in fixed.starts:
            job = job.model_copy(update={"running": self._fixed_running(j, fixed)})
        elif job.running is not None and (
            j in fixed.pinned_jobs or any(task.host in touched for task in job.running.tasks)
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
                        else group.model_copy(
                            update={"hosts": self._hosts_in_region(group.hosts, region)}
                        )
                        for group in option.groups
                    )
                }
            )
            for option in job.options
        )
        return job.model_copy(update={"options": options})

    def _restrict_to_model(self, job: Job, model: int) -> Job:
        """Return a job whose options use one GPU model, where they allow it."""
        name = self.problem.wan.models[model]
        options = tuple(
            option
            if any(g.gpu_models is not None and name not in g.gpu_models for g in option.groups)
            else option.model_copy(
                update={
                    "groups": tuple(self._restrict_group(group, name) for group in option.groups)
                }
            )
            for option in job.options
        )
        return job.model_copy(update={"options": options})

    def _restrict_group(self, group: TaskGroup, model: str) -> TaskGroup:
        """Return a group restricted to one GPU model; equal groups are shared."""
        key = id(group), model
        if key not in self._groups:
            same = group.gpu_models == (model,)
            alone = group if same else group.model_copy(update={"gpu_models": (model,)})
            self._groups[key] = alone
        return self._groups[key]

    def _fixed_running(self, j: int, fixed: FixedDecisions) -> Running:
        """Return the pinned placement of a job that has started or migrated."""
        option, places = fixed.starts[j]
        names = self.problem.cluster.hosts
        slots = fixed.slots.get(j) or (None,) * len(places)
        tasks = tuple(
            Task.model_construct(group=g, index=i, host=names[h], gpus=gpus, slot=slot)
            for (g, i, h, gpus), slot in zip(places, slots, strict=True)
        )
        return Running.model_construct(option=option, tasks=tasks, pinned=True)

    def _hosts_in_region(self, names: Sequence[str], region: int) -> tuple[str, ...]:
        here = self._names[region]
        return tuple(host for name in names for host in expand(name) if host in here)
