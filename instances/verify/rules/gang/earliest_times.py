"""The earliest time at which a job of one plain group fits beside others and reservations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.verify.reading import demand
from placewright.instances.verify.rules.gang.free_hosts import is_plain
from placewright.instances.verify.rules.gang.pools_left import PoolsLeft
from placewright.instances.verify.rules.gang.reservation_timeline import (
    FOREVER,
    Held,
    Reserved,
    Timeline,
    active_at,
    gpus_of,
)
from placewright.topology.units import WHOLE_GPU

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
        self._number = {host.name: h for h, host in enumerate(self._hosts)}
        names = dict.fromkeys(name for host in self._hosts for name in host.hardware.capacity)
        self._resources = {name: r for r, name in enumerate(names)}
        self._capacity = np.array(
            [[host.hardware.capacity.get(name, 0) for name in names] for host in self._hosts]
        ).reshape(len(self._hosts), len(names))
        self._pools = PoolsLeft(self._reading, self._hosts)
        self._gpus = np.array([host.hardware.gpus for host in self._hosts])
        self._beside_held: dict[tuple[int, int], tuple[Ints, Ints]] = {}
        self._free_known: dict[tuple[int, int, int], tuple[Ints, Ints]] = {}
        self._allowed_known: dict[_Shape, Bools] = {}
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
        for at in self._times(held, before, last):
            if self._beside(at, len(held))[0].sum() < option.milli_gpu // WHOLE_GPU:
                continue
            end = FOREVER if job.expected_runtime_s is None else at + job.expected_runtime_s
            times = (at, *sorted({r.at for r in before if at < r.at < end}))
            if self._most_tasks(job, times, end, len(held), before) < option.groups[0].count:
                continue
            mine = Reserved((), job, option, at, end, ())
            if not any(
                self._timeline.quota_excess(t, held, [*active_at(before, t), mine]) for t in times
            ):
                return at
        return None

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
            if where not in self._allowed_known:
                self._allowed_known[where] = np.array(
                    [self._timeline.may_arrive(group, host, times[0], end) for host in self._hosts],
                    dtype=np.bool_,
                )
            room = self._room(group, times, held, before)
            room = np.where(self._allowed_known[where], room, 0)
            position = None if level is None else self._reading.cluster.levels[level]
            if self._pools:
                left = self._pools_left(times, held, before)
                room = self._within_pools(room, left, option, position)
            domains = Counter[str]()
            for h in np.flatnonzero(room).tolist():
                domain = "" if position is None else self._hosts[h].domains[position]
                domains[domain] += int(room[h])
            self._most_known[key] = max(domains.values(), default=0)
        return self._most_known[key]

    def _pools_left(
        self, times: tuple[int, ...], held: int, before: Sequence[Reserved]
    ) -> PoolsLeft:
        """Return what pools have left at all of some times."""
        least = self._pools.copy()
        for at in times:
            here = self._pools.copy()
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

    def _room(
        self, group: TaskGroup, times: tuple[int, ...], held: int, before: Sequence[Reserved]
    ) -> Ints:
        """Return how many tasks of a group hosts have room for at all of some times, (hosts,)."""
        gpus, free = self._free(times[0], held, before)
        for at in times[1:]:
            gpus_then, free_then = self._free(at, held, before)
            gpus, free = np.minimum(gpus, gpus_then), np.minimum(free, free_then)
        room = gpus // (group.gpu // WHOLE_GPU)
        for name, amount in demand(group):
            if amount:
                r = self._resources.get(name)
                room = np.minimum(room, 0 if r is None else free[:, r] // amount)
        return np.maximum(room, 0)

    def _free(self, at: int, held: int, before: Sequence[Reserved]) -> tuple[Ints, Ints]:
        """Return GPUs, (hosts,), and resources, (hosts, resources), that are free at a time."""
        key = at, held, len(before)
        if key not in self._free_known:
            # Reservations come in the order of the queue: mostly all but the last one are known.
            known = self._free_known.get((at, held, len(before) - 1))
            more = active_at(before if known is None else before[-1:], at)
            gpus, free = known or self._beside(at, held)
            if more:
                gpus, free = gpus.copy(), free.copy()
            for r in more:
                for group, host, tasks in r.tasks:
                    gpus[self._number[host.name]] -= gpus_of(group, tasks)
                    self._take(free, host.name, group, tasks)
            self._free_known[key] = gpus, free
        return self._free_known[key]

    def _beside(self, at: int, held: int) -> tuple[Ints, Ints]:
        """Return GPUs and resources that are free beside jobs at a time, reservations aside."""
        key = at, held
        if key not in self._beside_held:
            used = {name: set(gpus) for name, gpus in self._timeline.closed_gpus.items()}
            free = self._capacity.copy()
            for one in self._held[:held]:
                for task in one.tasks if one.end > at else ():
                    used.setdefault(task.host, set()).update(task.gpus)
                    self._take(free, task.host, one.option.groups[task.group], 1)
            gpus = self._gpus.copy()
            for name, taken in used.items():
                gpus[self._number[name]] -= len(taken)
            self._beside_held[key] = gpus, free
        return self._beside_held[key]

    def _take(self, free: Ints, host: str, group: TaskGroup, tasks: int) -> None:
        """Subtract what tasks of a group ask of a host besides GPUs."""
        for name, amount in demand(group):
            if amount and name in self._resources:
                free[self._number[host], self._resources[name]] -= tasks * amount


def _is_plain(job: Job) -> bool:
    option = job.options[0]
    group = option.groups[0]
    return (
        len(option.groups) == len(job.options) == 1
        and group.gpu >= WHOLE_GPU
        and is_plain(job.options[0])
        and job.anti_affinity is None
    )
