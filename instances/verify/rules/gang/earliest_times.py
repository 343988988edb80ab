"""The earliest time at which a job of one plain group fits beside others and reservations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.verify.cluster_facts import HostFacts
from placewright.instances.verify.reading import demand
from placewright.instances.verify.rules.gang.reservation_timeline import (
    FOREVER,
    Held,
    Reserved,
    Timeline,
    active_at,
    gpus_of,
    is_part,
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
        self._on_host: defaultdict[str, list[tuple[int, float, set[int], Counter[str]]]]
        self._on_host = defaultdict(list)
        for number, one in enumerate(self._held):
            for task in one.tasks:
                asked = Counter(dict(demand(one.option.groups[task.group])))
                self._on_host[task.host].append((number, one.end, set(task.gpus), asked))
        self._taken_known: dict[tuple[str, int, int, int], tuple[int, Counter[str]]] = {}
        self._room_known: dict[_Shape, int] = {}
        self._free_known: dict[tuple[int, int], int] = {}

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
        for at in self._times(held, before):
            if at >= last:
                break
            if self._most_gpus(at, held) < option.milli_gpu // WHOLE_GPU:
                continue
            end = FOREVER if job.expected_runtime_s is None else at + job.expected_runtime_s
            times = (at, *sorted({r.at for r in before if at < r.at < end}))
            if self._most_tasks(job, times, len(held), before) < option.groups[0].count:
                continue
            mine = Reserved((), job, option, at, end, ())
            if not any(
                self._timeline.quota_excess(t, held, [*active_at(before, t), mine]) for t in times
            ):
                return at
        return None

    def _times(self, held: Sequence[Held], before: Sequence[Reserved]) -> Iterator[int]:
        """Yield now, and the later times at which something ends, in order."""
        yield self._now
        ends = {one.end for one in held} | {r.end for r in before}
        yield from sorted(int(end) for end in ends if self._now < end < FOREVER)

    def _most_gpus(self, at: int, held: Sequence[Held]) -> int:
        """Return more GPUs than are free at a time, or as many: only whole ones are in use."""
        key = at, len(held)
        if key not in self._free_known:
            hosts = self._reading.cluster.hosts.values()
            self._free_known[key] = sum(host.hardware.gpus for host in hosts) - sum(
                len(task.gpus)
                for one in held
                if one.end > at
                for task in one.tasks
                if not is_part(one.option.groups[task.group])
            )
        return self._free_known[key]

    def _most_tasks(
        self, job: Job, times: tuple[int, ...], held: int, before: Sequence[Reserved]
    ) -> int:
        """Return how many tasks of a plain job a domain has room for, at each of some times."""
        option = job.options[0]
        group = option.groups[0]
        level = group.required or option.required
        where = group.hosts, group.gpu_models, level
        key = group.gpu, demand(group), where, times, held, len(before)
        if key not in self._room_known:
            position = None if level is None else self._reading.cluster.levels[level]
            room = Counter[str]()
            for host in self._reading.cluster.hosts.values():
                if self._timeline.may_arrive(group, host):
                    domain = "" if position is None else host.domains[position]
                    room[domain] += min(self._room(group, host, t, held, before) for t in times)
            self._room_known[key] = max(room.values(), default=0)
        return self._room_known[key]

    def _room(
        self, group: TaskGroup, host: HostFacts, at: int, held: int, before: Sequence[Reserved]
    ) -> int:
        """Return how many tasks of a group a host has room for at a time."""
        gpus, taken = self._taken(host.name, at, held, before)
        room = (host.hardware.gpus - gpus) // (group.gpu // WHOLE_GPU)
        for name, amount in demand(group):
            if amount:
                room = min(room, (host.hardware.capacity.get(name, 0) - taken[name]) // amount)
        return max(room, 0)

    def _taken(
        self, host: str, at: int, held: int, before: Sequence[Reserved]
    ) -> tuple[int, Counter[str]]:
        """Return GPUs and other resources of a host that are taken at a time."""
        key = host, at, held, len(before)
        if key not in self._taken_known:
            used = set(self._timeline.closed_gpus.get(host, ()))
            taken = Counter[str]()
            for number, end, gpus, asked in self._on_host[host]:
                if end > at and number < held:
                    used |= gpus
                    taken.update(asked)
            gpu_count = len(used)
            for r in active_at(before, at):
                for group, where, tasks in r.tasks:
                    if where.name == host:
                        gpu_count += gpus_of(group, tasks)
                        taken.update({name: tasks * each for name, each in demand(group)})
            self._taken_known[key] = gpu_count, taken
        return self._taken_known[key]


def _is_plain(job: Job) -> bool:
    option = job.options[0]
    group = option.groups[0]
    return (
        len(option.groups) == len(job.options) == 1
        and group.gpu >= WHOLE_GPU
        and not (group.slices or group.apart or group.mig or group.gpu_memory)
        and job.anti_affinity is None
    )
