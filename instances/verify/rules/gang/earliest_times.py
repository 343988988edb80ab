"""The earliest time at which a job of one plain group fits beside others and reservations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

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
)
from placewright.topology.units import WHOLE_GPU


class EarliestTimes:
    """When something ends, and what hosts have room for then, beside jobs held on a timeline.

    Parameters
    ----------
    timeline
    held
        Those of its jobs that count.
    """

    def __init__(self, timeline: Timeline, held: Sequence[Held]) -> None:
        self._timeline, self._held = timeline, held
        self._reading, self._now = timeline.reading, timeline.reading.round.now
        self._on_host: defaultdict[str, list[tuple[float, set[int], Counter[str]]]] = defaultdict(
            list
        )
        for one in held:
            for task in one.tasks:
                asked = Counter(dict(demand(one.option.groups[task.group])))
                self._on_host[task.host].append((one.end, set(task.gpus), asked))
        self._taken_known: dict[tuple[str, int, int], tuple[int, Counter[str]]] = {}

    def earliest(self, job: Job, before: Sequence[Reserved], last: float) -> int | None:
        """Return the first time before `last` at which a plain job fits, None if there is none.

        It has one option of one group, whose tasks take whole GPUs; of another job None.

        Parameters
        ----------
        before
            The first of the reservations, in the order of the queue.
        """
        option = job.options[0]
        group = option.groups[0]
        plain = (
            len(option.groups) == len(job.options) == 1
            and group.gpu >= WHOLE_GPU
            and not (group.slices or group.apart or group.mig or group.gpu_memory)
            and job.anti_affinity is None
        )
        if not plain:
            return None
        hosts = [
            host
            for host in self._reading.cluster.hosts.values()
            if self._timeline.may_arrive(group, host)
        ]
        for at in self._times(before):
            if at >= last:
                break
            end = FOREVER if job.expected_runtime_s is None else at + job.expected_runtime_s
            times = [at, *(r.at for r in before if at < r.at < end)]
            if not self._has_room(job, hosts, times, before):
                continue
            mine = Reserved((), job, option, at, end, ())
            if not any(
                self._timeline.quota_excess(t, self._held, [*active_at(before, t), mine])
                for t in times
            ):
                return at
        return None

    def _times(self, before: Sequence[Reserved]) -> Iterator[int]:
        """Yield now, and the later times at which something ends, in order."""
        ends = {one.end for one in self._held} | {r.end for r in before}
        yield self._now
        yield from sorted(int(end) for end in ends if self._now < end < FOREVER)

    def _has_room(
        self, job: Job, hosts: Sequence[HostFacts], times: Sequence[int], before: Sequence[Reserved]
    ) -> bool:
        """Whether a domain has room for all tasks of a plain job, at each of some times."""
        option = job.options[0]
        group = option.groups[0]
        level = group.required or option.required
        position = None if level is None else self._reading.cluster.levels[level]
        room = Counter[str]()
        for host in hosts:
            domain = "" if position is None else host.domains[position]
            room[domain] += min(self._room(group, host, time, before) for time in times)
        return max(room.values(), default=0) >= group.count

    def _room(self, group: TaskGroup, host: HostFacts, at: int, before: Sequence[Reserved]) -> int:
        """Return how many tasks of a group a host has room for at a time."""
        gpus, taken = self._taken(host.name, at, before)
        room = (host.hardware.gpus - gpus) // (group.gpu // WHOLE_GPU)
        for name, amount in demand(group):
            if amount:
                room = min(room, (host.hardware.capacity.get(name, 0) - taken[name]) // amount)
        return max(room, 0)

    def _taken(self, host: str, at: int, before: Sequence[Reserved]) -> tuple[int, Counter[str]]:
        """Return GPUs and other resources of a host that are taken at a time."""
        key = host, at, len(before)
        if key not in self._taken_known:
            used = set(self._timeline.closed_gpus.get(host, ()))
            taken = Counter[str]()
            for end, gpus, asked in self._on_host[host]:
                if end > at:
                    used |= gpus
                    taken.update(asked)
            number = len(used)
            for r in active_at(before, at):
                for group, where, tasks in r.tasks:
                    if where.name == host:
                        number += gpus_of(group, tasks)
                        taken.update({name: tasks * each for name, each in demand(group)})
            self._taken_known[key] = number, taken
        return self._taken_known[key]
