"""One region's part of a round, as a round of gangs of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from placewright.formulations.geo.compile import Problem
from placewright.formulations.geo.united import PLACES
from placewright.formulations.session import Candidate
from placewright.instances.cluster import ClusterDocument, DomainEntry, HostEntry
from placewright.instances.cluster_references import HOST_LEVEL
from placewright.instances.geo import Geo
from placewright.instances.job import Job
from placewright.instances.ranges import expand
from placewright.instances.round import Reservation, Round

Quotas = Mapping[str, Mapping[str, int]]
"""By tenant and resource what a tenant's jobs may hold."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A region's round of gangs: `jobs` and `hosts` have their indices in the whole round."""

    region: int
    round: Round
    jobs: tuple[int, ...]
    hosts: tuple[int, ...]

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


class Regions:
    """Cuts a round into rounds of its regions."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.round = problem, problem.round
        self.level = self.round.geo.level
        terms = ("value", *(term for term in self.round.policy.terms if term in PLACES))
        self._policy = self.round.policy.model_copy(update={"formulation": "gang", "terms": terms})

    def part(self, region: int, pending: Sequence[int], quotas: Quotas) -> Part:
        """Return a region's round with these pending jobs, in the order of the whole round."""
        jobs = sorted((*pending, *self.running[region]))
        tenants = tuple(
            tenant.model_copy(update={"quota": quotas[tenant.name]})
            if tenant.name in quotas
            else tenant
            for tenant in self.round.tenants
        )
        update = {
            "cluster": self._clusters[region],
            "jobs": tuple(self._gang(j, region) for j in jobs),
            "tenants": tenants,
            "reservations": tuple(self._reservations[region]),
            "policy": self._policy,
            "geo": Geo(),
        }
        round_ = self.round.model_copy(update=update)
        return Part(region, round_, tuple(jobs), self._hosts[region])

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

    def _gang(self, j: int, region: int) -> Job:
        """Return a job as a gang; of the hosts that it names those in the region are left."""
        job = self.round.jobs[j]
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

    def _named(self, names: Sequence[str], region: int) -> tuple[str, ...]:
        here = self._names[region]
        return tuple(host for name in names for host in expand(name) if host in here)
