"""Idle GPUs within a lease, and best-fit places on them for waiting jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from placewright.instances.checks.round import hosts_by_name
from placewright.instances.derived.leases import unavailable_hosts
from placewright.instances.derived.names import is_anywhere
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.round import Round
from placewright.topology.units import WHOLE_GPU

__all__ = ["IdleGpus"]


class IdleGpus:
    """Idle GPUs by host.

    Only options of whole GPUs, perhaps of some models, are placed here; all others wait for the
    next round.

    Parameters
    ----------
    round_
        Unhealthy hosts, hosts with an outage in the current lease, and reserved GPUs are never
        idle. GPUs of running jobs are marked by `hold`.
    """

    def __init__(self, round_: Round) -> None:
        hosts = hosts_by_name(round_.cluster)
        gone = unavailable_hosts(round_.leases, round_.now)
        self._model = {name: one.gpu_model for name, one in hosts.items()}
        self._free: dict[str, set[int]] = {}
        for entry in round_.cluster.hosts:
            for name in expand(entry.name):
                if entry.healthy and name not in gone and hosts[name].gpus:
                    self._free[name] = set(range(hosts[name].gpus))
        self._largest = max(map(len, self._free.values()), default=0)
        for reservation in round_.reservations:
            for name in expand(reservation.host):
                every = range(hosts[name].gpus)
                self._free.get(name, set()).difference_update(reservation.gpus or every)
        self.count = sum(map(len, self._free.values()))

    def hold(self, tasks: Iterable[Task]) -> None:
        """Mark the GPUs of tasks as used."""
        for task in tasks:
            free = self._free.get(task.host)
            if free is not None:
                before = len(free)
                free.difference_update(task.gpus)
                self.count += len(free) - before

    def release(self, tasks: Iterable[Task]) -> None:
        """Mark the GPUs of tasks as idle."""
        for task in tasks:
            free = self._free.get(task.host)
            if free is not None:
                free.update(task.gpus)
                self.count += len(task.gpus)

    def find(self, option: Option) -> tuple[Task, ...] | None:
        """Return best-fit places for the tasks of an option, None if they do not fit.

        An option that fits the largest host is placed on one host, that with the fewest idle GPUs;
        a larger one task by task, the largest first, each on the host with the fewest.
        """
        if option.required is not None or not all(map(_whole_gpus_only, option.groups)):
            return None
        asked = sum(group.milli_gpu for group in option.groups) // WHOLE_GPU
        if asked > self.count:
            return None
        numbered = [(g, t) for g, group in enumerate(option.groups) for t in range(group.count)]
        if asked <= self._largest:
            host = self._best_fit_host(asked, option.groups)
            return None if host is None else self._tasks_on(option, dict.fromkeys(numbered, host))
        numbered.sort(key=lambda one: -option.groups[one[0]].gpu)
        return self._over_several_hosts(option, numbered)

    def _over_several_hosts(
        self, option: Option, numbered: list[tuple[int, int]]
    ) -> tuple[Task, ...] | None:
        found: list[Task] = []
        for g, t in numbered:
            group = option.groups[g]
            host = self._best_fit_host(group.gpu // WHOLE_GPU, (group,))
            if host is None:
                self.release(found)
                return None
            placed = self._tasks_on(option, {(g, t): host})
            self.hold(placed)
            found += placed
        self.release(found)
        return tuple(found)

    def _best_fit_host(self, asked: int, groups: Sequence[TaskGroup]) -> str | None:
        """Best fit: the host of an allowed model with the fewest idle GPUs, at least `asked`."""
        suited = (
            (len(free), name)
            for name, free in self._free.items()
            if len(free) >= asked
            and all(g.gpu_models is None or self._model[name] in g.gpu_models for g in groups)
        )
        return min(suited, default=(0, None))[1]

    def _tasks_on(self, option: Option, on: dict[tuple[int, int], str]) -> tuple[Task, ...]:
        """Return the tasks on their hosts, each with the idle GPUs of lowest index."""
        left = {host: sorted(self._free[host], reverse=True) for host in on.values()}
        return tuple(
            Task(
                group=g,
                index=t,
                host=host,
                gpus=tuple(
                    sorted(left[host].pop() for _ in range(option.groups[g].gpu // WHOLE_GPU))
                ),
            )
            for (g, t), host in on.items()
        )


def _whole_gpus_only(group: TaskGroup) -> bool:
    """Whether a group asks for whole GPUs, perhaps of some models, and nothing else."""
    return (
        group.gpu >= WHOLE_GPU
        and not (group.cpu or group.memory or group.resources or group.gpu_memory)
        and is_anywhere(group)
        and group.required is None
        and group.slices is None
        and group.apart is None
        and group.mig is None
    )
