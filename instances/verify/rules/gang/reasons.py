"""The rule about reasons for waiting: none that a simple feasibility check refutes.

The look is a first fit of one job: it may miss a place, but what it finds is one. Jobs with slices,
failure domains, labels, MIG or GPU memory are not looked at, nor rounds in which tenants own cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import DecisionKind, Reason, Task
from placewright.instances.verify.cluster_facts import HostFacts
from placewright.instances.verify.reading import Reading, demand
from placewright.instances.verify.result import Finding, Rule
from placewright.topology.units import WHOLE_GPU

_MOST_DOMAINS = 64
"""Domains of a joint level that are tried."""


def gang_reason(reading: Reading) -> Iterator[Finding]:
    """Refuse `never_fits`, `quota` and `capacity` of jobs that plainly fit."""
    round_ = reading.round
    if any(tenant.cells for tenant in round_.tenants):
        return
    look = _ResidualCapacity(reading)
    problems = {
        Reason.NEVER_FITS: (look.on_empty_cluster, "which fits the empty, healthy cluster"),
        Reason.QUOTA: (look.within_quota, "which fits what the plan leaves of its tenant's quota"),
        Reason.CAPACITY: (look.on_what_is_free, "which fits what is free"),
    }
    other = Reason.NOT_CHOSEN
    for index, decision in enumerate(reading.plan.decisions):
        given = decision.reason
        if given is None or given is other or given not in problems:
            continue
        job = reading.jobs.get(decision.job)
        if job is None or decision.decision is not DecisionKind.WAIT:
            continue
        refutes, problem = problems[given]
        if refutes(job):
            yield Finding(
                ("decisions", index, "reason"),
                f"reason {given.value!r} of job {job.name!r}, {problem}; expected another",
            )


class _ResidualCapacity:
    """Residual capacity and quotas of a plan; equal jobs are checked once."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._free: dict[str, _FreeHosts] = {}
        self._left: dict[str, Counter[str]] | None = None
        self._known: dict[tuple[str, Hashable], bool] = {}

    def on_empty_cluster(self, job: Job) -> bool:
        """Whether a job finds a place on the empty cluster, all of whose hosts are healthy."""
        return self._fits("empty", job)

    def on_what_is_free(self, job: Job) -> bool:
        """Whether a job fits beside the jobs that run before the round, or after it."""
        return self._fits("before", job) or self._fits("after", job)

    def within_quota(self, job: Job) -> bool:
        """Whether a job fits its tenant's quota beside the jobs that run after the round."""
        if job.tenant is None:
            return True
        left = self._quota()[job.tenant]
        return any(
            all(_asked(option)[resource] <= left[resource] for resource in left)
            for option in job.options
        )

    def _quota(self) -> dict[str, Counter[str]]:
        if self._left is None:
            before, after = self._held(before=True), self._held(before=False)
            self._left = {
                tenant.name: Counter(
                    {
                        name: max(limit, before[tenant.name][name]) - after[tenant.name][name]
                        for name, limit in tenant.quota.items()
                    }
                )
                for tenant in self._reading.round.tenants
            }
        return self._left

    def _held(self, *, before: bool) -> dict[str, Counter[str]]:
        """Return what the jobs of each tenant hold before or after the round."""
        reading = self._reading
        held = {tenant.name: Counter[str]() for tenant in reading.round.tenants}
        jobs: Iterable[tuple[Job, Option]] = (
            ((reading.jobs[name], reading.option_run(name)) for name in reading.running)
            if before
            else ((placed.job, placed.option) for placed in reading.placed)
        )
        for job, option in jobs:
            if job.tenant is not None:
                held[job.tenant].update(_asked(option))
        return held

    def _fits(self, where: str, job: Job) -> bool:
        if job.anti_affinity is not None:
            return False
        for option in job.options:
            key = where, _class_key(option)
            if key not in self._known:
                plain = all(_plain(group) for group in option.groups)
                self._known[key] = plain and self._place(where).fits(option)
            if self._known[key]:
                return True
        return False

    def _place(self, where: str) -> _FreeHosts:
        if where not in self._free:
            free = _FreeHosts(self._reading)
            if where != "empty":
                free.close(self._reading)
                free.take(self._tasks(before=where == "before"))
                for victim in self._reading.preempted if where == "after" else ():
                    for task in self._reading.running[victim.job.name].tasks:
                        free.open[free.index[task.host]] = False
            self._free[where] = free
        return self._free[where]

    def _tasks(self, *, before: bool) -> Iterator[tuple[Task, TaskGroup]]:
        reading = self._reading
        if before:
            for name, running in reading.running.items():
                groups = reading.option_run(name).groups
                for task in running.tasks:
                    yield task, groups[task.group]
        else:
            for placed in reading.placed_tasks():
                yield placed.task, placed.group


class _FreeHosts:
    """What hosts have left, first all that they have.

    `gpus` (hosts, most GPUs of one) is in milli-GPU, 0 where there is none.
    """

    def __init__(self, reading: Reading) -> None:
        hosts: list[HostFacts] = list(reading.cluster.hosts.values())
        self.index = {host.name: i for i, host in enumerate(hosts)}
        self._levels = reading.cluster.levels
        self._of_host: dict[str, tuple[Ints, int]] = {}
        self._hosts = hosts
        number = np.array([host.hardware.gpus for host in hosts], dtype=np.int64)
        exists = np.arange(max(int(number.max(initial=0)), 1)) < number[:, None]
        self.gpus = np.where(exists, WHOLE_GPU, 0)
        names = dict.fromkeys(name for host in hosts for name in host.hardware.capacity)
        self._resources = {name: r for r, name in enumerate(names)}
        self._free = np.array(
            [[host.hardware.capacity.get(name, 0) for name in names] for host in hosts],
            dtype=np.int64,
        ).reshape(len(hosts), len(names))
        self.open = np.ones(len(hosts), dtype=np.bool_)

    def close(self, reading: Reading) -> None:
        """Let nothing arrive where nothing may."""
        for i, host in enumerate(self._hosts):
            self.open[i] = host.healthy and host.name not in reading.vacated
        for entry in reading.round.reservations:
            for name in expand(entry.host):
                if entry.gpus is None:
                    self.open[self.index[name]] = False
                else:
                    self.gpus[self.index[name], list(entry.gpus)] = 0

    def take(self, tasks: Iterable[tuple[Task, TaskGroup]]) -> None:
        """Take what tasks hold."""
        at: list[int] = []
        asks: list[Ints] = []
        gpus: list[tuple[int, int, int]] = []
        known: dict[int, Ints] = {}
        for task, group in tasks:
            host = self.index[task.host]
            if id(group) not in known:
                known[id(group)] = self._asks(group)
            at.append(host)
            asks.append(known[id(group)])
            # Beside MIG slices there is nothing else on a GPU.
            taken = WHOLE_GPU if group.mig else min(group.gpu, WHOLE_GPU)
            # What is not there other rules report.
            there = self._hosts[host].hardware.gpus
            gpus += [(host, gpu, taken) for gpu in task.gpus if gpu < there]
        if at:
            np.subtract.at(self._free, at, np.array(asks))
        if gpus:
            host_of, gpu_of, amounts = np.array(gpus, dtype=np.int64).T
            np.subtract.at(self.gpus, (host_of, gpu_of), amounts)

    def fits(self, option: Option) -> bool:
        """Whether a first fit places all groups of an option."""
        if option.required is None:
            return self._fit_within(option, self.open)
        of_host, number = self._domains(option.required)
        fitting_by_group = [
            np.minimum(self._fitting_tasks(g, self._free, self.gpus), g.count)
            for g in option.groups
        ]
        enough = np.ones(number, dtype=np.bool_)
        for group, fitting in zip(option.groups, fitting_by_group, strict=True):
            enough &= np.bincount(of_host, weights=fitting, minlength=number) >= group.count
        return any(
            self._fit_within(option, self.open & (of_host == domain))
            for domain in np.flatnonzero(enough)[:_MOST_DOMAINS].tolist()
        )

    def _fit_within(self, option: Option, hosts: Bools) -> bool:
        free, gpus = self._free.copy(), self.gpus.copy()
        for group in sorted(option.groups, key=lambda g: -g.gpu):
            fitting = np.where(
                hosts, np.minimum(self._fitting_tasks(group, free, gpus), group.count), 0
            )
            if group.required is not None and group.count > 1:
                of_host, number = self._domains(group.required)
                held = np.bincount(of_host, weights=fitting, minlength=number)
                fitting = np.where(of_host == held.argmax(), fitting, 0)
            if fitting.sum() < group.count:
                return False
            before = np.cumsum(fitting) - fitting
            number_on = np.clip(group.count - before, 0, fitting)
            free -= number_on[:, None] * self._asks(group)
            _occupy(gpus, number_on, group)
        return True

    def _fitting_tasks(self, group: TaskGroup, free: Ints, gpus: Ints) -> Ints:
        """Return how many tasks of a group each host takes."""
        if group.gpu >= WHOLE_GPU:
            fitting = (gpus >= WHOLE_GPU).sum(axis=1) // (group.gpu // WHOLE_GPU)
        elif group.gpu:
            fitting = (gpus.clip(min=0) // group.gpu).sum(axis=1)
        else:
            fitting = np.full(len(gpus), group.count)
        asks = self._asks(group)
        for r in np.flatnonzero(asks).tolist():
            fitting = np.minimum(fitting, free[:, r].clip(min=0) // asks[r])
        if any(amount for name, amount in demand(group) if name not in self._resources):
            return np.zeros_like(fitting)
        return np.where(self._allowed(group) & self.open, fitting, 0)

    def _asks(self, group: TaskGroup) -> Ints:
        asks = np.zeros(len(self._resources), dtype=np.int64)
        for name, amount in demand(group):
            if name in self._resources:
                asks[self._resources[name]] = amount
        return asks

    def _allowed(self, group: TaskGroup) -> Bools:
        allowed = np.ones(len(self._hosts), dtype=np.bool_)
        if group.gpu_models is not None:
            models = set(group.gpu_models)
            allowed &= np.array([host.hardware.gpu_model in models for host in self._hosts])
        if group.hosts is not None:
            named = np.zeros_like(allowed)
            named[[self.index[one] for name in group.hosts for one in expand(name)]] = True
            allowed &= named
        return allowed

    def _domains(self, level: str) -> tuple[Ints, int]:
        """Return the number of the domain of each host at a level, and how many there are."""
        if level not in self._of_host:
            at = self._levels[level]
            known: dict[str, int] = {}
            of_host = [known.setdefault(host.domains[at], len(known)) for host in self._hosts]
            self._of_host[level] = np.array(of_host, dtype=np.int64), len(known)
        return self._of_host[level]


def _occupy(gpus: Ints, number: Ints, group: TaskGroup) -> None:
    """Take the GPUs of the given number of tasks on each host: the first GPUs that fit."""
    for host in np.flatnonzero(number).tolist() if group.gpu else ():
        for _ in range(int(number[host])):
            each = min(group.gpu, WHOLE_GPU)
            chosen = np.flatnonzero(gpus[host] >= each)[: max(group.gpu // WHOLE_GPU, 1)]
            gpus[host, chosen] -= each


def _asked(option: Option) -> Counter[str]:
    """Return what a job holds with an option, by resource (`gpu` in milli-GPU)."""
    asked = Counter[str]()
    for group in option.groups:
        asked["gpu"] += group.milli_gpu
        for name, amount in demand(group):
            asked[name] += group.count * amount
    return asked


def _class_key(option: Option) -> Hashable:
    """Return the class key of an option: jobs of equal keys fit the same hosts."""
    return option.required, tuple(
        (
            *(group.count, group.gpu, demand(group), group.gpu_models, group.hosts, group.required),
            _plain(group),
        )
        for group in option.groups
    )


def _plain(group: TaskGroup) -> bool:
    return not (group.slices or group.apart or group.mig or group.gpu_memory)


RULES: tuple[Rule[Reading], ...] = (Rule("gang_reason", gang_reason),)
