"""What is held over time: by jobs until their expected ends, and by reservations.

Whether they fit together at a time is judged on the hosts of the reservations, in the pools around
these, and for the quotas and caps of jobs that have one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from placewright.instances.derived.ranges import expand
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.errors import Path
from placewright.instances.verify.cluster_facts import HostFacts
from placewright.instances.verify.reading import Placed, Reading, demand
from placewright.instances.verify.rules.gang.accounts import (
    Account,
    Resource,
    accounts_of,
    asked_in,
    limits_of,
    text_of,
)
from placewright.instances.verify.rules.gang.maintenance import Windows
from placewright.instances.verify.rules.gang.pools import Pools, Taken
from placewright.instances.verify.rules.gang.waiting import Turn, end_of
from placewright.topology.units import WHOLE_GPU

FOREVER = float("inf")


class Held(NamedTuple):
    """A job that holds something from now until its end."""

    job: Job
    option: Option
    tasks: tuple[Task, ...]
    end: float
    is_bound: bool


class Reserved(NamedTuple):
    """A reservation with its job, option and groups."""

    path: Path
    job: Job
    option: Option
    at: int
    end: float
    tasks: tuple[tuple[TaskGroup, HostFacts, int], ...]
    was: int | None = None

    def active(self, at: float) -> bool:
        """Whether it holds at a time."""
        return self.at <= at < self.end


class Timeline:
    """Jobs that run before the round or start in their turn, and what their hosts have.

    Parameters
    ----------
    in_turn
        The jobs that start in their turn, with their turns.

    Attributes
    ----------
    reading : Reading
    windows : Windows
        Of maintenance.
    closed_gpus : mapping of str to set of int
        GPUs that reservations of the round close, by host.
    running : sequence of Held
        The jobs that run before the round, where they are.
    starts : sequence of Held
        The jobs that start in their turn, in order.
    """

    def __init__(self, reading: Reading, in_turn: Mapping[str, Turn]) -> None:
        self.reading, now = reading, reading.round.now
        self.windows = Windows(reading.round)
        self._pools = Pools(reading)
        self._closed_hosts = set[str]()
        closed = defaultdict[str, set[int]](set)
        for entry in reading.round.reservations:
            for name in expand(entry.host):
                if entry.gpus is None:
                    self._closed_hosts.add(name)
                else:
                    closed[name] |= set(entry.gpus)
        self.closed_gpus: Mapping[str, set[int]] = closed
        self.running: Sequence[Held] = [
            Held(job, reading.option_run(name), before.tasks, end_of(job, now), False)
            for name, before in reading.running.items()
            for job in (reading.jobs[name],)
        ]
        starts = [p for p in reading.started if p.job.name in in_turn]
        self.starts: Sequence[Held] = [
            held_by(p, now, is_bound=False)
            for p in sorted(starts, key=lambda p: in_turn[p.job.name])
        ]

    def may_arrive(self, group: TaskGroup, host: HostFacts, at: float, end: float) -> bool:
        """Whether a task of a group that runs from `at` to `end` may arrive on a host."""
        if self.windows.first(host.name, at, end) is not None:
            return False
        if not host.healthy or host.name in self.reading.vacated | self._closed_hosts:
            return False
        if group.gpu_models is not None and host.hardware.gpu_model not in group.gpu_models:
            return False
        return self.reading.named.include(group, host.name)

    def excess(self, at: int, held: Sequence[Held], reserved: Sequence[Reserved]) -> str:
        """Say of what hosts, pools or tenants have too little for reservations at a time, or "".

        A pool that jobs hold more of than it has takes no reservation until it is within its limit.
        """
        active = [r for r in reserved if r.active(at)]
        hosts = {host.name: host for r in active for _, host, _ in r.tasks}
        taken: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for r in active:
            for group, host, number in r.tasks:
                taken[host.name]["gpu"] += gpus_of(group, number)
                for name, amount in demand(group):
                    taken[host.name][name] += number * amount
        gpus = {host: count["gpu"] for host, count in taken.items()}
        used: dict[str, set[int]] = {name: set(self.closed_gpus.get(name, ())) for name in hosts}
        for one in (*self.running, *self.starts):
            for task in one.tasks if one.end > at else ():
                if task.host in used and is_part(one.option.groups[task.group]):
                    used[task.host].update(task.gpus)
        for one in held:
            for task in one.tasks if one.end > at else ():
                if task.host not in hosts:
                    continue
                group = one.option.groups[task.group]
                if one.is_bound and gpus[task.host] and is_part(group):
                    return f"part of a GPU of host {task.host!r} goes to job {one.job.name!r}"
                used[task.host].update(task.gpus)
                for name, amount in demand(group):
                    taken[task.host][name] += amount
        for name, host in hosts.items():
            if gpus[name] and len(used[name]) + gpus[name] > host.hardware.gpus:
                return f"{len(used[name])} GPUs of host {name!r} in use, {gpus[name]} reserved"
            for resource, amount in taken[name].items():
                if resource != "gpu" and amount > host.hardware.capacity.get(resource, 0):
                    return f"too little {resource} on host {name!r}"
        return self._pool_excess(at, held, active) or self.quota_excess(at, held, active)

    def taken_of_pools(self, at: int, held: Iterable[Held], active: Iterable[Reserved]) -> Taken:
        """Return what jobs and reservations take of pools at a time."""
        taken: Taken = Counter()
        facts = self.reading.cluster.hosts
        for one in held if self._pools else ():
            if one.end > at:
                groups = one.option.groups
                tasks = ((groups[task.group], facts[task.host]) for task in one.tasks)
                taken.update(self._pools.taken(one.option, tasks))
        for r in active if self._pools else ():
            taken.update(self._reserved_of_pools(r))
        return taken

    def _reserved_of_pools(self, reserved: Reserved) -> Taken:
        tasks = ((group, host) for group, host, number in reserved.tasks for _ in range(number))
        return self._pools.taken(reserved.option, tasks)

    def _pool_excess(self, at: int, held: Iterable[Held], active: Sequence[Reserved]) -> str:
        """Say which pool around a reservation would have too little at a time; "" if none."""
        taken = self.taken_of_pools(at, held, active)
        asked = {where for r in active for where in self._reserved_of_pools(r)} if taken else ()
        over = [where for where in asked if taken[where] > self._pools.capacity(where)]
        return f"{self._pools.text(min(over), taken)}, too much" if over else ""

    def quota_excess(self, at: int, held: Iterable[Held], active: Iterable[Reserved]) -> str:
        """Say which tenant or cap of a reservation would hold too much at a time; "" if none."""
        active = list(active)
        owners = {account for r in active for account in accounts_of(r.job)}
        limits = {a: most for a, most in self._limits.items() if a in owners}
        if not limits:
            return ""
        uses: defaultdict[Account, Counter[Resource]] = defaultdict(Counter)
        alive = [(one.job, one.option) for one in held if one.end > at]
        for job, option in [*((r.job, r.option) for r in active), *alive]:
            for account in accounts_of(job):
                if account in limits:
                    uses[account].update(asked_in(account, option))
        for account, of in limits.items():
            for name, most in of.items():
                if uses[account][name] > most:
                    return f"{account} would hold {text_of(name, uses[account][name])}, too much"
        return ""

    @cached_property
    def _limits(self) -> Mapping[Account, Mapping[Resource, int]]:
        return limits_of(self.reading.round, by_region=False)


def held_by(placed: Placed, now: int, *, is_bound: bool) -> Held:
    """Return what a placed job holds by its tasks that can be read."""
    tasks = tuple(one.task for one in placed.tasks)
    return Held(placed.job, placed.option, tasks, end_of(placed.job, now), is_bound)


def is_part(group: TaskGroup) -> bool:
    """Whether a task of a group takes a part of a GPU."""
    return group.mig is not None or group.gpu % WHOLE_GPU > 0


def gpus_of(group: TaskGroup, tasks: int) -> int:
    """Return the whole GPUs that are reserved on a host for tasks of a group."""
    if group.mig is not None or group.gpu >= WHOLE_GPU:
        return tasks * max(group.gpu // WHOLE_GPU, 1)
    if group.gpu == 0:
        return 0
    together = WHOLE_GPU // group.gpu
    return (tasks + together - 1) // together


def active_at(reserved: Iterable[Reserved], at: int) -> list[Reserved]:
    """Return the reservations that hold at a time."""
    return [r for r in reserved if r.active(at)]
