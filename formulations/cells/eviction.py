"""Eviction: the running jobs that leave their places to guaranteed jobs that start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placewright.formulations.cells.residual_pools import ResidualPools
from placewright.instances.checks.round import hosts_by_name
from placewright.instances.derived.hardware import Hardware
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.round import Round
from placewright.topology.units import WHOLE_GPU


@dataclass(frozen=True, slots=True)
class Evictions:
    """The evicted jobs.

    Attributes
    ----------
    jobs
        Of each evicted job the guaranteed job that arrives on one of its hosts, or takes from one
        of its pools.
    min_cost
        Least disruption of any evictions, in milli-GPU-seconds: that of jobs whose GPUs are taken.
        The others might be spared if different jobs left.
    """

    jobs: Mapping[int, int]
    min_cost: int


def evictions(
    round_: Round,
    starts: Mapping[int, tuple[int, Sequence[Task]]],
    stay: set[int],
    order: Sequence[int],
) -> Evictions:
    """Return the running jobs to evict so that guaranteed jobs start; greedy, in a given order.

    Parameters
    ----------
    starts
        Option and tasks of the guaranteed jobs that start, by their indices in the round.
    stay
        Running jobs that cannot be evicted; they fit beside the jobs that start.
    order
        The other running jobs, those first that are to keep their places.
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
