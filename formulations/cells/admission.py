"""Admission of guaranteed jobs: which start, in which cells, and which running jobs give way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.cells.virtual_clusters import Bindings
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.greedy import place_choice
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import repair_preemptions
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.jobs import Choice, TaskPlacement
from placewright.formulations.gang.problem.limits import remaining_quotas
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Candidate, Place
from placewright.instances.checks.round import hosts_by_name
from placewright.instances.derived.arrays import (
    Places,
    build_cluster,
    places_of,
    pools_of,
    running_places,
)
from placewright.instances.derived.cell_trees import EntryKey, guaranteed
from placewright.instances.derived.hardware import Hardware
from placewright.instances.derived.names import AllowedHosts
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.round import Round
from placewright.topology.chain import Cell
from placewright.topology.units import WHOLE_GPU


class ResidualPools:
    """What is left of the pools of a round without its running jobs; (pool, domain) pairs.

    `limits`: of each pool what jobs may hold after the round.
    """

    def __init__(self, round_: Round) -> None:
        self._jobs = round_.jobs
        self._cluster = build_cluster(round_.cluster) if round_.cluster.pools else None
        self.pools = () if self._cluster is None else pools_of(round_, self._cluster)
        running = [] if self._cluster is None else running_places(self._jobs, self._cluster)
        self.limits: list[Ints] = [pool.limit(running) for pool in self.pools]
        self._left = [limit.copy() for limit in self.limits]

    def start(self, job: int, option: int, tasks: Sequence[Task]) -> set[tuple[int, int]]:
        """Charge what a job takes; return the domains that it takes from."""
        return self._charge(self._jobs[job].options[option], tasks, 1)

    def keep(self, job: int, times: int = 1) -> set[tuple[int, int]]:
        """Charge what a running job holds (`times` 1), or release it (-1)."""
        running = self._jobs[job].running
        if running is None:
            return set()
        return self._charge(self._jobs[job].options[running.option], running.tasks, times)

    def enough(self, domains: Collection[tuple[int, int]]) -> bool:
        """Whether no more than may be is taken of some domains."""
        return all(self._left[pool][domain] >= 0 for pool, domain in domains)

    def _charge(self, option: Option, tasks: Sequence[Task], times: int) -> set[tuple[int, int]]:
        places, charged = self._places(tasks), set[tuple[int, int]]()
        for k, pool in enumerate(self.pools):
            for domain, amount in pool.taken(option, places).items():
                self._left[k][domain] -= times * amount
                charged.add((k, domain))
        return charged

    def _places(self, tasks: Sequence[Task]) -> Places:
        return [] if self._cluster is None else places_of(tasks, self._cluster)


def cluster_with_limits(round_: Round) -> ClusterDocument:
    """Return the cluster with as much in its pools as jobs may hold after the round."""
    if not round_.cluster.pools:
        return round_.cluster
    found, residual = [], ResidualPools(round_)
    for pool, limit in zip(residual.pools, residual.limits, strict=True):
        more = {pool.names[d]: int(limit[d]) for d in np.flatnonzero(limit > pool.capacity)}
        capacity = more.pop(None, pool.pool.capacity)
        domains = {**pool.pool.domains, **{str(name): most for name, most in more.items()}}
        found.append(pool.pool.model_copy(update={"capacity": capacity, "domains": domains}))
    return round_.cluster.model_copy(update={"pools": tuple(found)})


@dataclass(frozen=True, slots=True)
class Evictions:
    """The evicted jobs."""

    # Of each evicted job the guaranteed job that arrives on one of its hosts, or takes from one of
    # its pools.
    jobs: Mapping[int, int]
    # Least disruption of any evictions, in milli-GPU-seconds: that of jobs whose GPUs are taken.
    # The others might be spared if different jobs left.
    min_cost: int


def evictions(
    round_: Round,
    starts: Mapping[int, tuple[int, Sequence[Task]]],
    stay: set[int],
    order: Sequence[int],
) -> Evictions:
    """Return the running jobs to evict so that guaranteed jobs start; greedy, in a given order.

    `starts`: option and tasks of the guaranteed jobs that start, by their indices in the round.
    `stay`: running jobs that cannot be evicted; they fit beside the jobs that start. `order`: the
    other running jobs, those first that are to keep their places.
    """
    comes: dict[str, int] = {}
    for j, (_, tasks) in starts.items():
        for task in tasks:
            comes.setdefault(task.host, j)
    hardware = hosts_by_name(round_.cluster)
    left = _ResidualCapacity({host: hardware[host] for host in comes})
    parted = {gpu for j, (o, tasks) in starts.items() for gpu in _parts(round_.jobs[j], o, tasks)}
    for j, (option, tasks) in starts.items():
        left.take(round_.jobs[j], option, tasks, 1)
    taken = left.gpus_taken()
    pools = ResidualPools(round_)
    sought = {where: j for j in starts for where in pools.start(j, *starts[j])}
    for j in stay:
        running = round_.jobs[j].running
        if running is not None:
            left.take(round_.jobs[j], running.option, running.tasks, 1)
            pools.keep(j)
    evicted: dict[int, int] = {}
    min_cost = 0
    for j in order:
        job, running = round_.jobs[j], round_.jobs[j].running
        if running is None:
            continue
        drawn = pools.keep(j)
        if not any(task.host in comes for task in running.tasks) and drawn.isdisjoint(sought):
            continue
        gpus = {(task.host, gpu) for task in running.tasks for gpu in task.gpus}
        mixed = not parted.isdisjoint(gpus) or any(
            gpu in taken for gpu in _parts(job, running.option, running.tasks)
        )
        left.take(job, running.option, running.tasks, 1)
        if left.enough and not mixed and pools.enough(drawn):
            continue
        left.take(job, running.option, running.tasks, -1)
        pools.keep(j, -1)
        by = [comes[task.host] for task in running.tasks if task.host in comes]
        evicted[j] = (by or [sought[where] for where in sorted(drawn & sought.keys())])[0]
        if any(
            taken.get((task.host, gpu), 0) + _each(job, running.option, task) > WHOLE_GPU
            for task in running.tasks
            for gpu in task.gpus
        ):
            min_cost += _least_cost(job, round_.now)
    return Evictions(evicted, min_cost)


class _ResidualCapacity:
    """Residual capacity of some hosts."""

    def __init__(self, hosts: Mapping[str, Hardware]) -> None:
        self._free = {host: dict(has.capacity) for host, has in hosts.items()}
        self._gpus: defaultdict[tuple[str, int], int] = defaultdict(lambda: WHOLE_GPU)
        self._short = 0

    @property
    def enough(self) -> bool:
        """Whether no resource is overcommitted."""
        return not self._short

    def take(self, job: Job, option: int, tasks: Sequence[Task], times: int) -> None:
        """Charge what a job holds (`times` 1), or release it (-1)."""
        for task in tasks:
            free = self._free.get(task.host)
            if free is None:
                continue
            for name, amount in _demand(job.options[option].groups[task.group]).items():
                before = free.get(name, 0)
                free[name] = before - times * amount
                self._short += (free[name] < 0) - (before < 0)
            for gpu in task.gpus:
                before = self._gpus[task.host, gpu]
                after = before - times * _each(job, option, task)
                self._gpus[task.host, gpu] = after
                self._short += (after < 0) - (before < 0)

    def gpus_taken(self) -> dict[tuple[str, int], int]:
        """Return the milli-GPU taken so far, by host and GPU."""
        return {gpu: WHOLE_GPU - left for gpu, left in self._gpus.items()}


def _parts(job: Job, option: int, tasks: Sequence[Task]) -> set[tuple[str, int]]:
    """Return the GPUs, by host and index, of which tasks take memory or a MIG slice.

    No running job shares such a GPU with a guaranteed job that arrives, even if both fit.
    """
    groups = job.options[option].groups
    return {
        (task.host, gpu)
        for task in tasks
        if groups[task.group].mig is not None or groups[task.group].gpu_memory
        for gpu in task.gpus
    }


def _demand(group: TaskGroup) -> dict[str, int]:
    return {"cpu": group.cpu, "memory": group.memory, **group.resources}


def _each(job: Job, option: int, task: Task) -> int:
    return min(job.options[option].groups[task.group].gpu, WHOLE_GPU)


def _least_cost(job: Job, now: int) -> int:
    """Return the least disruption of evicting a job: one task migrates, or all are preempted."""
    running = job.running
    if running is None:
        return 0
    option = job.options[running.option]
    stop = option.milli_gpu * (running.unsaved_s(now) + running.restart_s)
    migrate = stop if running.migrate_cost is None else running.migrate_cost
    preempt = stop if running.preempt_cost is None else running.preempt_cost
    smallest = min(group.gpu for group in option.groups)
    return min(migrate + smallest, preempt + option.milli_gpu)


# Admission of guaranteed jobs (Zhao et al., HiveD, OSDI 2020): which start, and in which cells.
#
# They are decided before all others, in the order of priority, each by the binding rule: it is
# placed in the cells that its tenant has bound; else in these and one more, the smallest that
# suffices; else the largest unbound cell is bound and the rule applied again. Only the tenant's
# own guaranteed jobs and cells matter, as in a cluster of its own; other jobs are evicted.


@dataclass(frozen=True, slots=True)
class Admission:
    """Which guaranteed jobs start, by their indices in the round, and where."""

    placed: Candidate  # The plan that starts pending guaranteed jobs
    # The cells in use afterwards: tenant, entry, level, domain and hosts.
    bound: tuple[tuple[int, int, str, str, tuple[str, ...]], ...]


def admit(round_: Round, without: Collection[int] = (), *, beside_all: bool = False) -> Admission:
    """Decide the guaranteed jobs of a round in which some tenant owns cells.

    Those of `without`, by their indices in the round, wait. With `beside_all` the others start only
    where there is room beside all running jobs.
    """
    return _AdmissionState(round_, beside_all=beside_all).admission(without)


class _AdmissionState:
    """A round of guaranteed and pinned jobs alone, or all that run, and its placement so far."""

    def __init__(self, round_: Round, *, beside_all: bool) -> None:
        self.round = round_
        self.mine = list(guaranteed(round_))
        mine = set(self.mine)
        jobs = round_.jobs
        stay = [j for j, job in enumerate(jobs) if job.running and job.running.pinned]
        runs = [j for j, job in enumerate(jobs) if job.running] if beside_all else stay
        self.there = sorted(mine.union(runs))
        there = tuple(pinned(jobs[j]) for j in self.there)
        alone = round_.model_copy(
            update={"jobs": there, "bindings": (), "cluster": cluster_with_limits(round_)}
        )
        self.problem: Problem = compile_round(alone)
        self.placement = Placement(self.problem)
        cluster = self.problem.cluster
        self.index = cluster.host_index
        self.class_of = {
            self.there[j]: c for c, one in enumerate(self.problem.classes) for j in one.jobs
        }
        self.tenants = {tenant.name: t for t, tenant in enumerate(round_.tenants)}
        # All running jobs count in quotas: it is open which evicted ones find another place.
        running = tuple(pinned(job) for job in jobs if job.running is not None)
        # Of pools they have to leave what these jobs take.
        self.quota = self.problem.quota | remaining_quotas(
            round_.model_copy(update={"jobs": running}), cluster
        )
        self.allowed = AllowedHosts(round_.host_sets)
        self.held = _held(round_, mine)
        blocked = {host for host, at in self.index.items() if not self.problem.open[at]}
        blocked |= {host for one in round_.reservations for host in expand(one.host)}
        others = (jobs[j].running for j in stay if j not in mine)
        blocked |= {task.host for running in others if running for task in running.tasks}
        per_host: defaultdict[str, int] = defaultdict(int)
        for (host, _), milli in self.held.items():
            per_host[host] += milli
        self.bindings = Bindings(round_, blocked, lambda host: per_host.get(host, 0))

    def admission(self, without: Collection[int]) -> Admission:
        jobs = self.round.jobs
        failed = set[int]()  # classes: if one job fails, so do the others
        waiting = [j for j in self.mine if jobs[j].running is None and j not in without]
        for j in sorted(waiting, key=lambda j: (-jobs[j].priority, j)):
            c = self.class_of[j]
            if c not in failed and not self._start(self.tenants[jobs[j].tenant or ""], c):
                failed.add(c)
        repair_preemptions(self.placement)
        named = assign(self.placement, "cells")
        starts = self._on_quiet_gpus({self.there[j]: start for j, start in named.starts.items()})
        slots = {self.there[j]: mine for j, mine in named.slots.items()}
        placed = Candidate(starts, named.source, slots=slots)
        return Admission(placed, tuple(self._bound()))

    def _start(self, tenant: int, c: int) -> bool:
        """Start a job of a class; return whether it starts."""
        choices, accounts = self.problem.classes[c].choices, self.problem.classes[c].accounts
        for o in sorted(range(len(choices)), key=lambda o: -choices[o].value):
            if not self.problem.within_quota(self.quota, accounts, choices[o]):
                continue
            puts = self._place(tenant, choices[o], self._named(c, choices[o]))
            if puts is not None:
                self.placement.start(c, o, puts)
                self.problem.charge_quota(self.quota, accounts, choices[o])
                return True
        return False

    def _named(self, c: int, choice: Choice) -> frozenset[str]:
        """Return the hosts that groups of an option name."""
        option = self.round.jobs[self.there[self.problem.classes[c].jobs[0]]].options[choice.index]
        sets = {hosts for hosts in map(self.allowed.of, option.groups) if hosts is not None}
        return sets.pop() if len(sets) == 1 else frozenset[str]().union(*sets)

    def _place(
        self, tenant: int, choice: Choice, named: frozenset[str]
    ) -> list[TaskPlacement] | None:
        """Place an option in cells of its tenant, new ones where it names hosts."""
        inside = np.zeros(self.problem.cluster.num_hosts, dtype=np.bool_)
        for key, bound in self.bindings.of_tenant(tenant):
            inside[self._hosts(key, bound)] = True
        new: list[tuple[EntryKey, Cell]] = []
        puts = self._place_inside(choice, inside)
        while puts is None:
            largest_key: EntryKey | None = None
            for key in self.bindings.unbound_entries(tenant):
                cell = self.bindings.bind(key, named)
                if cell is None:
                    continue
                largest_key = key
                more = inside.copy()
                more[self._hosts(key, cell)] = True
                puts = self._place_inside(choice, more)
                if puts is not None:
                    new.append((key, cell))
                    break
                self.bindings.unbind(key, cell)
            if puts is not None or largest_key is None:
                break
            largest = self.bindings.bind(largest_key, named)
            if largest is None:
                break
            inside[self._hosts(largest_key, largest)] = True
            new.append((largest_key, largest))
        used = {put.host for put in puts or ()}
        for key, bound in new:
            if used.isdisjoint(self._hosts(key, bound)):
                self.bindings.unbind(key, bound)
        return puts

    def _place_inside(
        self, choice: Choice, inside: NDArray[np.bool_]
    ) -> list[TaskPlacement] | None:
        with self.placement.only_on(inside):
            return place_choice(self.placement, choice)

    def _hosts(self, key: EntryKey, cell: Cell) -> list[int]:
        return [self.index[host] for host in self.bindings.hosts(key, cell)]

    def _bound(self) -> list[tuple[int, int, str, str, tuple[str, ...]]]:
        return [
            (
                *key,
                self.round.tenants[key[0]].cells[key[1]].level,
                self.bindings.domain(key, cell),
                self.bindings.hosts(key, cell),
            )
            for key, cell in self.bindings.bound
        ]

    def _on_quiet_gpus(
        self, starts: dict[int, tuple[int, tuple[Place, ...]]]
    ) -> dict[int, tuple[int, tuple[Place, ...]]]:
        """Choose the whole GPUs of tasks anew, those first that evictable jobs use least."""
        cluster, problem = self.problem.cluster, self.problem
        shared = {
            (host, gpu)
            for j, (o, places) in starts.items()
            for group, _, host, gpus in places
            if self.round.jobs[j].options[o].groups[group].gpu < WHOLE_GPU
            for gpu in gpus
        }
        free: dict[int, list[int]] = {}
        for host in {host for _, places in starts.values() for _, _, host, _ in places}:
            first, name = int(cluster.gpu_start[host]), cluster.hosts[host]
            whole = [
                gpu
                for gpu in range(int(cluster.gpu_count[host]))
                if problem.state.gpu_free[first + gpu] == WHOLE_GPU and (host, gpu) not in shared
            ]
            free[host] = sorted(whole, key=lambda gpu: (self.held.get((name, gpu), 0), gpu))

        def again(job: int, option: int, places: Sequence[Place]) -> tuple[Place, ...]:
            groups = self.round.jobs[job].options[option].groups
            return tuple(
                (group, k, host, tuple(sorted(free[host].pop(0) for _ in gpus)))
                if groups[group].gpu >= WHOLE_GPU
                else (group, k, host, gpus)
                for group, k, host, gpus in places
            )

        return {job: (o, again(job, o, places)) for job, (o, places) in starts.items()}


def pinned(job: Job) -> Job:
    """Return a job pinned to where it runs, if it runs."""
    if job.running is None or job.running.pinned:
        return job
    return job.model_copy(update={"running": job.running.model_copy(update={"pinned": True})})


def _held(round_: Round, mine: set[int]) -> dict[tuple[str, int], int]:
    """Return the milli-GPU that evictable jobs hold of each GPU, by host and index."""
    held: defaultdict[tuple[str, int], int] = defaultdict(int)
    for j, job in enumerate(round_.jobs):
        if job.running is not None and not job.running.pinned and j not in mine:
            groups = job.options[job.running.option].groups
            for task in job.running.tasks:
                for gpu in task.gpus:
                    held[task.host, gpu] += min(groups[task.group].gpu, WHOLE_GPU)
    return dict(held)
