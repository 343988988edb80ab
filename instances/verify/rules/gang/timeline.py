"""What is held over time, by jobs and reservations, and the earliest time for one job more."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field, ValidationError

from placewright.array_types import Bools, Ints
from placewright.instances.documents.base import Document, Index, Many, Name
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.errors import Path
from placewright.instances.verify.reading import HostFacts, Placed, Reading, demand, reserved_places
from placewright.instances.verify.result import Finding
from placewright.instances.verify.rules.gang.free_hosts import FreeHosts, PoolsLeft, is_plain
from placewright.instances.verify.rules.gang.limits import (
    Account,
    Pools,
    Resource,
    Taken,
    accounts_of,
    asked_in,
    limits_of,
    text_of,
)
from placewright.instances.verify.rules.gang.places import Windows
from placewright.instances.verify.rules.gang.waiting import Turn, end_of
from placewright.topology.units import WHOLE_GPU

# The plan section `reservations`: jobs that start in their turn, and reservations of others.


KIND = "reservations"


class ReservedTasks(Document):
    """How many tasks of a group are to be on a host."""

    group: Index = 0
    host: Name
    tasks: Annotated[int, Field(strict=True, ge=1)]


class ReservedJob(Document):
    """A reservation: a job, when it is to start and to end (None: never), with what, and where.

    `was` is its time in the last round, and `cause` why it is later now.
    """

    job: Name
    option: Index = 0
    at: Index
    end: Index | None = None
    was: Index | None = None
    cause: Literal["arrival", "overrun", "capacity"] | None = None
    tasks: Many[ReservedTasks]


class ReservationSection(Document):
    """The jobs at the head of the queue that start, and the reservations of the others."""

    kind: Literal["reservations"] = "reservations"
    starts: Many[Name] = ()
    jobs: Many[ReservedJob] = ()


def form(_: Reading, entry: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    """Require the fields of the section."""
    try:
        ReservationSection.model_validate(entry)
    except ValidationError as error:
        first = error.errors()[0]
        yield Finding((*path, *first["loc"]), f"section {KIND!r}: {first['msg']}")


# What is held over time: by jobs until their expected ends, and by reservations.
#
# Whether they fit together at a time is judged on the hosts of the reservations, in the pools
# around these, and for the quotas and caps of jobs that have one.


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
        self._closed_hosts, self.closed_gpus = reserved_places(reading.round)
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

    @property
    def has_accounts(self) -> bool:
        """Whether quotas, caps or pools limit what is held at a time."""
        return bool(self._pools or self.limits)

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
        limits = {a: most for a, most in self.limits.items() if a in owners}
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
    def limits(self) -> Mapping[Account, Mapping[Resource, int]]:
        """What tenants and caps may hold at most."""
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


class Overbooking:
    """Whether reservations, one after the other, fit hosts beside jobs that are held.

    As `Timeline.excess` says of them all at a time, but only yes or no, and on arrays. GPUs that a
    task touches are in use until it ends.
    """

    def __init__(self, timeline: Timeline, held: Sequence[Held], reserved: Iterable[Reserved]):
        reserved = list(reserved)
        hosts = {host.name: host for r in reserved for _, host, _ in r.tasks}
        self._host = {name: h for h, name in enumerate(hosts)}
        groups = {id(g): g for r in reserved for g, _, _ in r.tasks}
        for one in held:
            groups.update((id(group), group) for group in one.option.groups)
        names = {name for group in groups.values() for name, _ in demand(group)}
        self._resource = {name: 1 + k for k, name in enumerate(sorted(names))}
        self._times = np.array(sorted({r.at for r in reserved}), dtype=np.int64)
        self._free = np.zeros((len(self._times), len(hosts), 1 + len(names)), dtype=np.int64)
        for name, h in self._host.items():
            hardware = hosts[name].hardware
            self._free[:, h, 0] = hardware.gpus
            for resource, k in self._resource.items():
                self._free[:, h, k] = hardware.capacity.get(resource, 0)
        ends = {(n, gpu): FOREVER for n in hosts for gpu in timeline.closed_gpus.get(n, ())}
        for one in held:
            until = int(np.searchsorted(self._times, one.end))
            for task in one.tasks:
                if task.host not in self._host:
                    continue
                for gpu in task.gpus:
                    where = task.host, gpu
                    ends[where] = max(ends.get(where, one.end), one.end)
                for resource, amount in demand(one.option.groups[task.group]):
                    if resource in self._resource:
                        self._free[:until, self._host[task.host], self._resource[resource]] -= (
                            amount
                        )
        for (name, _), end in ends.items():
            self._free[: int(np.searchsorted(self._times, end)), self._host[name], 0] -= 1

    def add(self, reserved: Reserved) -> bool:
        """Add a reservation, and say whether some host then has too little for those it is on."""
        first, end = np.searchsorted(self._times, [reserved.at, reserved.end])
        free, over = self._free[first:end], False
        for group, host, tasks in reserved.tasks:
            mine = free[:, self._host[host.name]]
            mine[:, 0] -= gpus_of(group, tasks)
            for resource, amount in demand(group):
                mine[:, self._resource[resource]] -= tasks * amount
        for name in {host.name for _, host, _ in reserved.tasks}:
            over |= bool((free[:, self._host[name]] < 0).any())
        return over


# The earliest time at which a job of one plain group fits beside others and reservations.


_Shape: TypeAlias = tuple[object, ...]
"""What a task asks of its host, and where it may arrive."""


class EarliestTimes:
    """When something ends on a timeline, and what hosts have room for then.

    A job is looked at beside all running jobs, and beside the starts and reservations that come
    before it in the queue.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._reading, self._now = timeline.reading, timeline.reading.round.now
        self._held: Sequence[Held] = (*timeline.running, *timeline.starts)
        self._hosts = list(self._reading.cluster.hosts.values())
        self._open = FreeHosts(self._reading)
        self._open.close(self._reading)
        self._beside_held: dict[tuple[int, int], tuple[Ints, Ints]] = {}
        self._state: tuple[int, list[Reserved]] = (-1, [])  # jobs and reservations that count in
        self._rows: dict[int, tuple[Ints, Ints]] = {}  # what is free, by time
        self._begins: list[int] = []  # of these reservations
        self._there_known: dict[tuple[float, float], Bools] = {}
        self._most_known: dict[_Shape, int] = {}

    def earliest(
        self, job: Job, starts: int, before: Sequence[Reserved], last: float = FOREVER
    ) -> int | None:
        """Return the first time before `last` at which a plain job fits, None if there is none.

        It has one option of one group, whose tasks take whole GPUs; of another job None.

        Parameters
        ----------
        starts
            How many starts come before it.
        before
            The reservations that come before it.
        """
        if not _is_plain(job):
            return None
        option, held = job.options[0], self._held[: len(self._timeline.running) + starts]
        self._advance(len(held), before)
        short = self._short(option.groups[0]) if last > self._now + 1 else []
        short_until = self._now - 1
        for at in self._times(held, before, last):
            if at <= short_until:
                continue
            if self._beside(at, len(held))[0].sum() < option.milli_gpu // WHOLE_GPU:
                continue
            end = FOREVER if job.expected_runtime_s is None else at + job.expected_runtime_s
            # No start from now until such a time fits: a later one would run at that time, too.
            if short and (last_short := short[bisect_left(short, end) - 1]) < end:
                short_until = last_short
                if at <= short_until:
                    continue
            begins = self._begins
            times = (at, *begins[bisect_right(begins, at) : bisect_left(begins, end)])
            if self._most_tasks(job, times, end, len(held), before) < option.groups[0].count:
                continue
            mine = Reserved((), job, option, at, end, ())
            if not self._timeline.limits or not any(
                self._timeline.quota_excess(t, held, [*active_at(before, t), mine]) for t in times
            ):
                return at
        return None

    def _advance(self, held: int, before: Sequence[Reserved]) -> None:
        """Count in so many jobs and these reservations; of rows that are known only what is new."""
        known_held, known = self._state
        new: Sequence[Reserved] = before[len(known) :]
        if held != known_held or list(before[: len(known)]) != known:
            self._rows, self._begins, new = {}, [], before
        for at, row in self._rows.items():
            self._reserve(row, active_at(new, at))
        self._begins = sorted({*self._begins, *(r.at for r in new)})
        self._state = held, list(before)

    def _short(self, group: TaskGroup) -> list[int]:
        """Return the times at which reservations begin and all hosts together lack GPUs."""
        if not self._begins:
            return []
        gpus = np.array([self._row(at)[0] for at in self._begins])
        tasks = (gpus.clip(min=0) // (group.gpu // WHOLE_GPU)).sum(axis=1)
        return [self._begins[k] for k in np.flatnonzero(tasks < group.count).tolist()]

    def _times(
        self, held: Sequence[Held], before: Sequence[Reserved], last: float
    ) -> Iterator[int]:
        """Yield now, and the later times before `last` at which something ends, in order."""
        yield self._now
        if last <= self._now + 1:
            return
        ends = {one.end for one in held} | {r.end for r in before}
        ends |= self._timeline.windows.ends()
        yield from sorted(int(end) for end in ends if self._now < end < min(last, FOREVER))

    def _most_tasks(
        self, job: Job, times: tuple[int, ...], end: float, held: int, before: Sequence[Reserved]
    ) -> int:
        """Return how many tasks of a plain job a domain has room for, at all times until its end.

        These change at `times` alone, of which the first is that of its start.
        """
        option = job.options[0]
        group = option.groups[0]
        level = group.required or option.required
        window = (times[0], end) if self._reading.round.maintenance else None
        where = self._reading.named.key(group), group.gpu_models, window
        asks = demand(group), tuple(option.uses.items())
        key = group.gpu, asks, where, level, times, held, len(before)
        if key not in self._most_known:
            allowed = self._open.allowed(group)
            if window is not None:
                allowed = allowed & self._there(*window)
            room = np.where(allowed, self._room(group, times), 0)
            position = None if level is None else self._reading.cluster.levels[level]
            if self._open.pools:
                left = self._pools_left(times, held, before)
                room = self._within_pools(room, left, option, position)
            domains = Counter[str]()
            for h in np.flatnonzero(room).tolist():
                domain = "" if position is None else self._hosts[h].domains[position]
                domains[domain] += int(room[h])
            self._most_known[key] = max(domains.values(), default=0)
        return self._most_known[key]

    def _there(self, start: float, end: float) -> Bools:
        """Return the hosts that maintenance does not take from `start` to `end`, (hosts,)."""
        if (start, end) not in self._there_known:
            first = self._timeline.windows.first
            there = [first(host.name, start, end) is None for host in self._hosts]
            self._there_known[start, end] = np.array(there, dtype=np.bool_)
        return self._there_known[start, end]

    def _pools_left(
        self, times: tuple[int, ...], held: int, before: Sequence[Reserved]
    ) -> PoolsLeft:
        """Return what pools have left at all of some times."""
        least = self._open.pools.copy()
        for at in times:
            here = self._open.pools.copy()
            here.less(self._timeline.taken_of_pools(at, self._held[:held], active_at(before, at)))
            least.keep_least(here)
        return least

    def _within_pools(
        self, room: Ints, left: PoolsLeft, option: Option, position: int | None
    ) -> Ints:
        """Return numbers of tasks by host, of which pools have enough for those of any domain."""
        names = ["" if position is None else host.domains[position] for host in self._hosts]
        of_host = np.unique(names, return_inverse=True)[1]
        found = np.zeros_like(room)
        for d in np.unique(of_host[room > 0]).tolist():
            found += left.clip(np.where(of_host == d, room, 0), option.groups[0], option)
        return found

    def _room(self, group: TaskGroup, times: tuple[int, ...]) -> Ints:
        """Return how many tasks of a group hosts have room for at all of some times, (hosts,)."""
        rows = [self._row(at) for at in times]
        gpus: Ints = np.array([gpus for gpus, _ in rows]).min(axis=0)
        free: Ints = np.array([free for _, free in rows]).min(axis=0)
        room, asks = gpus // (group.gpu // WHOLE_GPU), self._open.asks(group)
        for r in np.flatnonzero(asks).tolist():
            room = np.minimum(room, free[:, r] // asks[r])
        return np.maximum(room, 0)

    def _row(self, at: int) -> tuple[Ints, Ints]:
        """Return GPUs, (hosts,), and resources, (hosts, resources), that are free at a time."""
        if at not in self._rows:
            held, before = self._state
            gpus, free = self._beside(at, held)
            self._rows[at] = gpus.copy(), free.copy()
            self._reserve(self._rows[at], active_at(before, at))
        return self._rows[at]

    def _reserve(self, row: tuple[Ints, Ints], reserved: Iterable[Reserved]) -> None:
        """Take what reservations ask from a row."""
        gpus, free = row
        for r in reserved:
            for group, host, tasks in r.tasks:
                gpus[self._open.index[host.name]] -= gpus_of(group, tasks)
                free[self._open.index[host.name]] -= tasks * self._open.asks(group)

    def _beside(self, at: int, held: int) -> tuple[Ints, Ints]:
        """Return GPUs and resources that are free beside jobs at a time, reservations aside."""
        key = at, held
        if key not in self._beside_held:
            state, there = self._open.copy(), [one for one in self._held[:held] if one.end > at]
            state.take((t, one.option.groups[t.group]) for one in there for t in one.tasks)
            self._beside_held[key] = (state.gpus >= WHOLE_GPU).sum(axis=1), state.left
        return self._beside_held[key]


def _is_plain(job: Job) -> bool:
    option = job.options[0]
    group = option.groups[0]
    return (
        len(option.groups) == len(job.options) == 1
        and group.gpu >= WHOLE_GPU
        and is_plain(job.options[0])
        and job.anti_affinity is None
    )
