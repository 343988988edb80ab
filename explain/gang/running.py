"""Running jobs as arrays: what hosts have left once any of them are taken away."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.problem.limits import Account, accounts_of
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.pools import PoolDomains, places_of
from placewright.instances.documents.caps import Measure
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.round import Round
from placewright.topology import State
from placewright.topology.units import WHOLE_GPU


def has_gpu_parts(job: Job) -> bool:
    """Whether a job asks for GPU memory or MIG slices."""
    return any(
        group.mig is not None or group.gpu_memory
        for option in job.options
        for group in option.groups
    )


class RunningJobs:
    """The cluster and the running jobs of a round.

    Attributes
    ----------
    cluster
        The cluster as arrays.
    jobs, index
        The jobs that run, in the order of the round, and where they are in it, by name.
    has_gpu_parts
        Whether one of them asks for GPU memory or MIG slices, of which `state` knows nothing.
    """

    def __init__(self, round_: Round) -> None:
        self._document = round_.cluster
        self.cluster = cluster = build_cluster(round_.cluster)
        self.jobs = [job for job in round_.jobs if job.running is not None]
        self._number = {id(job): j for j, job in enumerate(self.jobs)}
        self.index = {job.name: j for j, job in enumerate(self.jobs)}
        self.has_gpu_parts = any(map(has_gpu_parts, self.jobs))
        self._held: dict[tuple[Account, Measure], Ints] = {}
        self._taken: dict[tuple[str, str | None], Ints] = {}
        names = cluster.resources
        rows: dict[int, int] = {}
        demands: list[list[int]] = []
        task_job: list[int] = []
        task_host: list[int] = []
        task_row: list[int] = []
        gpu_job: list[int] = []
        gpus: list[int] = []
        milli: list[int] = []
        # Tasks of one group ask alike, and jobs that were read together share their groups.
        alive: list[TaskGroup] = []
        start, host_index = cluster.gpu_start.tolist(), cluster.host_index
        for j, job in enumerate(self.jobs):
            if job.running is None:
                continue
            groups = job.options[job.running.option].groups
            for task in job.running.tasks:
                group, host = groups[task.group], host_index[task.host]
                if id(group) not in rows:
                    wanted = {"cpu": group.cpu, "memory": group.memory, **group.resources}
                    rows[id(group)] = len(demands)
                    demands.append([wanted.get(name, 0) for name in names])
                    alive.append(group)
                task_job.append(j)
                task_host.append(host)
                task_row.append(rows[id(group)])
                each = min(group.gpu, WHOLE_GPU)
                for gpu in task.gpus:
                    gpu_job.append(j)
                    gpus.append(start[host] + gpu)
                    milli.append(each)
        self._task_job, self._task_host = _ints(task_job), _ints(task_host)
        self._asked = np.array(demands, dtype=np.int64).reshape(-1, len(names))[_ints(task_row)]
        self._gpu_job, self._gpus = _ints(gpu_job), _ints(gpus)
        self._milli = np.array(milli, dtype=np.int32)

    def present(self, round_: Round) -> Bools | None:
        """Return which of the jobs run in another round (jobs,).

        None if that has another cluster, or runs other jobs than these.
        """
        if round_.cluster is not self._document:
            return None
        jobs = round_.jobs
        numbers = np.fromiter(map(self._number.get, map(id, jobs), repeat(-1)), np.int64, len(jobs))
        if any(jobs[k].running is not None for k in np.flatnonzero(numbers < 0).tolist()):
            return None
        present = np.zeros(len(self.jobs), dtype=np.bool_)
        present[numbers[numbers >= 0]] = True
        return present

    def state(self, kept: Bools) -> State:
        """Return the hosts, all of them healthy, beside some of the jobs (jobs,)."""
        state = State.empty(self.cluster)
        on, of = kept[self._task_job], kept[self._gpu_job]
        np.subtract.at(state.free, self._task_host[on], self._asked[on])
        np.subtract.at(state.gpu_free, self._gpus[of], self._milli[of])
        return state

    def held(self, account: Account, measure: Measure) -> Ints:
        """Return what each job counts in an account: 0 if it is in another one (jobs,)."""
        if (account, measure) not in self._held:
            self._held[account, measure] = _ints(
                [
                    measure.asked_by(job.options[job.running.option])
                    if job.running is not None and account in accounts_of(job)
                    else 0
                    for job in self.jobs
                ]
            )
        return self._held[account, measure]

    def held_of_pool(self, pool: PoolDomains, kept: Bools) -> Ints:
        """Return what some of the jobs (jobs,) take of each domain of a pool (domains,)."""
        key = pool.pool.resource, pool.pool.level
        if key not in self._taken:
            taken = [
                (j, domain, amount)
                for j, job in enumerate(self.jobs)
                if job.running is not None
                for domain, amount in pool.taken(
                    job.options[job.running.option], places_of(job.running.tasks, self.cluster)
                ).items()
            ]
            self._taken[key] = np.array(taken, dtype=np.int64).reshape(-1, 3)
        job, domain, amount = self._taken[key].T
        held = np.zeros(len(pool.names), dtype=np.int64)
        np.add.at(held, domain[kept[job]], amount[kept[job]])
        return held

    def domains(self, j: int, domain: Ints) -> frozenset[int]:
        """Return the domains in which a job has tasks; `domain` is that of each host."""
        return frozenset(domain[self._task_host[self._task_job == j]].tolist())


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)
