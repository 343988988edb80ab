"""Region subproblem: the gang round of one region, with its part of quotas, budgets and labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.phases import InnerRound
from placewright.formulations.common.priority_classes import PriorityClass
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.limits import (
    Account,
    Disruption,
    DisruptionBudget,
    accounts_of,
    add_held,
    held_before,
    limits_of,
    quota_of,
)
from placewright.formulations.gang.problem.problem import Problem as Gangs
from placewright.formulations.gang.problem.subproblem import cut_subproblem
from placewright.formulations.geo.models.assignment_lp import PLACEMENT_TERMS
from placewright.formulations.geo.problem.compile import Problem
from placewright.formulations.plan_messages import Candidate, Place, Slots
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.caps import Cap, Measure
from placewright.instances.documents.cluster import ClusterDocument, DomainEntry, HostEntry
from placewright.instances.documents.geo import Geo
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.policy import DisruptionLimits, PolicyLimits
from placewright.instances.documents.round import Reservation, Round
from placewright.topology.units import HOST_LEVEL, WHOLE_GPU

# Decisions of earlier passes, and what nobody may have because jobs gave it back.
#
# Nobody of a victim's precedence or lower may have what it gave back
# (docs/plans.md#who-may-be-preempted). The round of a region sees to that for its own victims, but
# does not know those of earlier passes. So later passes leave alone what these gave back, and what
# jobs left that would move back with them, whoever asks for it.


@dataclass(slots=True)
class FixedDecisions:
    """Decisions of earlier passes, by indices of jobs in the whole round.

    `starts`, `preempted` and `slots` are those of a candidate. `of_region` and `touched` have, by
    region, the jobs that have started or migrated and the hosts that received tasks. Running jobs
    in `pinned_jobs` stay where they are. Nothing more comes to the `closed_hosts`, nor where an
    anti-affinity label of `closed_labels` counts.
    """

    starts: dict[int, tuple[int, tuple[Place, ...]]] = field(default_factory=dict)
    preempted: dict[int, int] = field(default_factory=dict)
    slots: dict[int, Slots] = field(default_factory=dict)
    of_region: dict[int, list[int]] = field(default_factory=dict)
    touched: dict[int, set[str]] = field(default_factory=dict)
    pinned_jobs: frozenset[int] = frozenset()
    closed_hosts: frozenset[str] = frozenset()
    closed_labels: frozenset[str] = frozenset()

    def add(self, region: int, found: Candidate, names: Sequence[str]) -> None:
        """Add the lifted plan of a region; `names` are those of all hosts."""
        self.starts.update(found.starts)
        self.preempted.update(found.preempted)
        self.slots.update(found.slots)
        self.of_region.setdefault(region, []).extend(found.starts)
        touched = self.touched.setdefault(region, set())
        touched.update(names[place[2]] for _, places in found.starts.values() for place in places)

    def close_what_was_given_back(self, round_: Round, names: Sequence[str]) -> None:
        """Close the hosts and labels of preempted jobs, and of those that would move back.

        These are the migrated jobs with a task on a closed host or with a closed label, and so on.
        """
        hosts, labels = set[str](), set[str]()
        back = list(self.preempted)
        movers = {j for j in self.starts if round_.jobs[j].running is not None}
        while back:
            for job in (round_.jobs[j] for j in back):
                hosts.update(() if job.running is None else (t.host for t in job.running.tasks))
                labels.update(() if job.anti_affinity is None else (job.anti_affinity.label,))
            movers.difference_update(back)
            back = [
                j
                for j in movers
                if any(names[host] in hosts for _, _, host, _ in self.starts[j][1])
                or _has_label(round_.jobs[j], labels)
            ]
        self.closed_hosts, self.closed_labels = frozenset(hosts), frozenset(labels)

    def closed_to(self, job: Job) -> bool:
        """Whether a job has an anti-affinity label that is closed."""
        return _has_label(job, self.closed_labels)


def _has_label(job: Job, labels: Collection[str]) -> bool:
    return job.anti_affinity is not None and job.anti_affinity.label in labels


def budgets_of_regions(
    problem: Problem, fixed: FixedDecisions, jobs_of_region: Mapping[int, Sequence[int]]
) -> dict[int, DisruptionLimits]:
    """Return the disruption limits of each region subproblem, {} without a budget.

    What earlier passes left of each limit is split in proportion to the GPUs that the jobs assigned
    to a region ask for beyond those that are free there (largest remainder).
    """
    round_, budget = problem.round, DisruptionBudget.of(problem.round)
    given = round_.policy.limits
    if budget is None or given is None or given.disruption is None:
        return {}
    moved = [j for j in fixed.starts if round_.jobs[j].running is not None]
    left = budget.after(budget.used(fixed.preempted, moved)).limits
    weights = _lacking_gpus(problem, jobs_of_region)
    shares = {
        name: _split(most // WHOLE_GPU if name == "lost_gpu_s" else most, weights)
        for name, most in zip(Disruption._fields, left, strict=True)
        if most is not None
    }
    return {
        r: given.disruption.model_copy(
            update={name: int(amounts[i]) for name, amounts in shares.items()}
        )
        for i, r in enumerate(jobs_of_region)
    }


def _lacking_gpus(problem: Problem, jobs_of_region: Mapping[int, Sequence[int]]) -> Ints:
    """Return the milli-GPU that jobs ask for beyond those free in each region, at least 1."""
    jobs, state = problem.round.jobs, problem.gangs().state
    gpus = np.repeat(problem.wan.host_region, problem.cluster.gpu_count)
    regions = len(problem.wan.regions)
    free = np.bincount(gpus, weights=state.gpu_free, minlength=regions).astype(np.int64)
    asked = [sum(jobs[j].options[0].milli_gpu for j in mine) for mine in jobs_of_region.values()]
    return (np.array(asked, dtype=np.int64) - free[list(jobs_of_region)]).clip(min=1)


def _split(amount: int, weights: Ints) -> Ints:
    """Split an amount in proportion to weights, in whole numbers that add up to it."""
    total = int(weights.sum())
    exact = [divmod(amount * weight, total) for weight in weights.tolist()]
    parts = np.array([whole for whole, _ in exact], dtype=np.int64)
    order = sorted(range(len(exact)), key=lambda i: (-exact[i][1], i))
    parts[order[: amount - int(parts.sum())]] += 1
    return parts


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
        self._policy = self.round.policy.model_copy(
            update={"formulation": "gang", "terms": terms, "keep_sizes": True}
        )

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

        `pending`: the jobs assigned to it. `quotas`: what tenants and caps
        may hold in the region. `fixed`: earlier decisions. Jobs that have started or migrated are
        pinned, as are the jobs that share a host with them. `model`: the GPU model of jobs that are
        assigned to one. `budget`: what may be done to running jobs of the region, None: anything.
        """
        stopped = fixed.preempted
        jobs = tuple(
            sorted(
                {*pending, *fixed.of_region.get(region, ()), *self.running[region]} - stopped.keys()
            )
        )
        touched = fixed.touched.get(region, set())
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


GPUS = Measure("gpus")


def quotas_of_regions(
    problem: Problem, fixed: FixedDecisions, jobs_of_region: Mapping[int, Sequence[int]]
) -> dict[int, Quotas]:
    """Return the quotas and caps of each region subproblem.

    Those of the whole round are split: a region gets what the jobs in question hold there, and what
    those assigned to it request as long as some is left. What preempted jobs gave back is not left.
    """
    jobs, current_region = problem.round.jobs, problem.current_region
    limits = limits_of(problem.round)
    here = dict(problem.quota)
    for j in fixed.preempted:
        key, running = (int(current_region[j]), jobs[j].tenant), jobs[j].running
        if key in here and running is not None:
            here[key] = max(0, here[key] - jobs[j].options[running.option].milli_gpu)
    found: dict[int, dict[Account, dict[Measure, int]]] = {r: {} for r in jobs_of_region}
    for (r, tenant), most in here.items():
        if r in found:
            found[r]["tenant", tenant] = {GPUS: most}
    if not limits:
        return dict(found)

    def nothing() -> dict[Account, dict[Measure, int]]:
        return {account: dict.fromkeys(measures, 0) for account, measures in limits.items()}

    before, every = held_before(problem.round, limits), nothing()
    held: defaultdict[int, dict[Account, dict[Measure, int]]] = defaultdict(nothing)
    where = problem.wan.host_region
    for j, job in enumerate(jobs):
        if not accounts_of(job):
            continue
        start = fixed.starts.get(j)
        if job.running is not None:
            option, region = job.options[job.running.option], int(current_region[j])
            holds = j not in fixed.preempted
        elif start is not None:
            option, region, holds = job.options[start[0]], int(where[start[1][0][2]]), True
        else:
            continue
        if holds:
            add_held(held[region], job, option)
        add_held(every, job, option)
    for account, limit in limits.items():
        left = {m: max(most, before[account][m]) - every[account][m] for m, most in limit.items()}
        for r, pending in jobs_of_region.items():
            mine = [jobs[j] for j in pending if account in accounts_of(jobs[j])]
            quota = {}
            for measure in limit:
                more = max(0, min(left[measure], _most(mine, measure)))
                left[measure] -= more
                quota[measure] = held[r][account][measure] + more
            there = here.get((r, account[1])) if account[0] == "tenant" else None
            if there is not None:
                quota[GPUS] = min(quota.get(GPUS, there), there)
            found[r][account] = quota
    return dict(found)


def _most(jobs: Sequence[Job], measure: Measure) -> int:
    """Return the most that some jobs may ask together."""
    return sum(max(map(measure.asked_by, job.options)) for job in jobs)


# Anti-affinity across regions: labels whose level has domains that span several regions.
#
# Each region enforces a label within itself. Of the regions that share a domain of the label's
# level only one at a time may start jobs of the label: the one in which such a job runs,
# otherwise the one to which the job of highest value is assigned. If jobs of the label already
# run in several regions of a domain, they are not moved, since a migration counts as an arrival.
# At first no more jobs of a label are assigned than there are domains without one.


Domain = tuple[str, int]
"""A label and a domain of its level."""


class CrossRegionAntiAffinity:
    """The anti-affinity labels of a round whose levels span several regions."""

    def __init__(self, problem: Problem) -> None:
        round_, cluster = problem.round, problem.cluster
        self._problem = problem
        # Of higher priority classes first, then of higher value.
        self._worth: dict[int, tuple[int, int]] = {}
        self._domains: dict[int, tuple[str, list[int]]] = {}
        of_level: dict[str, list[int]] = {}
        for level in range(cluster.levels.index(round_.geo.level)):
            domain = np.full(len(problem.wan.regions), NONE, dtype=np.int64)
            domain[problem.wan.host_region] = cluster.domain[level]
            of_level[cluster.levels[level]] = domain.tolist()
        for j, job in enumerate(round_.jobs):
            rule = job.anti_affinity
            if rule is not None and rule.level in of_level:
                self._domains[j] = rule.label, of_level[rule.level]
                level = job.priority if problem.priority_classes else 0
                self._worth[j] = level, job.value_of(0)

    def __bool__(self) -> bool:
        """Whether there are any such labels."""
        return bool(self._domains)

    def first_regions(self) -> Bools:
        """Return where jobs may be assigned in the first pass (jobs, regions)."""
        current_region, allowed = self._problem.current_region, self._problem.eligible.copy()
        occupied = {domain for _, domain in self._labelled_jobs(current_region)}
        labelled: defaultdict[str, list[int]] = defaultdict(list)
        for j, (label, domain) in self._domains.items():
            if current_region[j] == NONE:
                allowed[j] &= [(label, d) not in occupied for d in domain]
                labelled[label].append(j)
        for label, jobs in labelled.items():
            jobs.sort(key=lambda j: self._worth[j], reverse=True)
            domains = {(label, d) for d in self._domains[jobs[0]][1]}
            startable = [j for j in jobs if allowed[j].any()]
            allowed[startable[len(domains - occupied) :]] = False
        return allowed

    def forbidden(self, where: Ints) -> set[tuple[int, int]]:
        """Return the (pending job, region) pairs that a label forbids.

        A job of the label that runs in the region itself does not count, since it may be preempted.
        `where` (jobs,): the regions of jobs, NONE of jobs without one.
        """
        occupied, current_region = self._regions_with_label(where), self._problem.current_region
        started = {domain for j, domain in self._labelled_jobs(where) if current_region[j] == NONE}
        return {
            (j, r)
            for j, (label, domain) in self._domains.items()
            if where[j] == NONE and current_region[j] == NONE
            for r in np.flatnonzero(self._problem.eligible[j]).tolist()
            if (label, domain[r]) in started or occupied[label, domain[r]] - {r}
        }

    def immovable(self, where: Ints) -> set[int]:
        """Return running jobs that may not migrate, as their label is in another region, too."""
        occupied = self._regions_with_label(where)
        return {j for j, domain in self._labelled_jobs(where) if len(occupied[domain]) > 1}

    def yielding(self, region: Ints) -> Bools:
        """Return the assigned jobs that must give way to another region of their domain (jobs,).

        `region` (jobs,): the assigned regions, NONE of jobs without one.
        """
        best: dict[Domain, int] = {}
        for j, domain in self._labelled_jobs(region):
            first = best.setdefault(domain, j)
            if self._worth[j] > self._worth[first]:
                best[domain] = j
        found = np.zeros(len(region), dtype=np.bool_)
        for j, domain in self._labelled_jobs(region):
            found[j] = region[j] != region[best[domain]]
        return found

    def _regions_with_label(self, where: Ints) -> defaultdict[Domain, set[int]]:
        """Return the regions of each (label, domain) that have a job of the label."""
        occupied: defaultdict[Domain, set[int]] = defaultdict(set)
        for j, domain in self._labelled_jobs(where):
            occupied[domain].add(int(where[j]))
        return occupied

    def _labelled_jobs(self, region: Ints) -> Iterator[tuple[int, Domain]]:
        """Yield jobs that have a label and a region, each with its (label, domain)."""
        for j, (label, domain) in self._domains.items():
            if region[j] != NONE:
                yield j, (label, domain[region[j]])
