"""Who holds what in a round, as arrays: the same beside whichever job waits there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.problem.shapes import host_mask
from placewright.instances.derived.host_sets import AllowedHosts
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.round import Round
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

Holds: TypeAlias = Callable[[Job], bool]
"""Whether a job holds something."""

Verb: TypeAlias = tuple[str, str]
"""What jobs do, said of one and of several: `runs`, `run`."""

Takes: TypeAlias = Callable[[Job, Job | None], Verb | None]
"""What a job does by a plan, as it is after and before it; None if it did so before."""


class Holding:
    """The jobs that hold something in a round.

    Attributes
    ----------
    jobs
        In the order of the round.
    index
        Where they are in `jobs`, by name.
    verbs
        What each does by the plan; None if it did so before, or there is no plan.
    taken
        Whether it holds that by the plan alone (jobs,).
    milli_gpu
        What each asks with the option that it runs, or with its first one (jobs,).
    milli_cpu
        What each that runs has (jobs,).
    """

    def __init__(
        self, round_: Round, before: Round | None, cluster: Cluster, holds: Holds, takes: Takes
    ) -> None:
        self.jobs = tuple(filter(holds, round_.jobs))
        self.index = {job.name: j for j, job in enumerate(self.jobs)}
        known = {} if before is None else {job.name: job for job in before.jobs}
        self.verbs = [takes(job, known.get(job.name)) for job in self.jobs]
        self.taken = np.array([verb is not None for verb in self.verbs], dtype=np.bool_)
        self._runs = np.array([job.running is not None for job in self.jobs], dtype=np.bool_)
        host_index = cluster.host_index
        rows: list[tuple[int, int, int, int]] = []
        milli: list[int] = []
        self.milli_cpu = np.zeros(len(self.jobs), dtype=np.int64)
        for j, job in enumerate(self.jobs):
            if job.running is None:
                milli.append(job.options[0].milli_gpu)
                continue
            groups = job.options[job.running.option].groups
            asked = [(host_index[t.host], groups[t.group]) for t in job.running.tasks]
            rows += [(j, host, group.gpu, group.cpu) for host, group in asked]
            milli.append(sum(group.gpu for _, group in asked))
            self.milli_cpu[j] = sum(group.cpu for _, group in asked)
        self.milli_gpu = np.array(milli, dtype=np.int64)
        self._tasks = np.array(rows, dtype=np.int64).reshape(-1, 4)

    def on(self, hosts: Bools) -> tuple[Ints, Ints, Bools]:
        """Return milli-GPU and milli-cores of each job on some hosts, and whether it is there.

        Jobs that do not run could have one anywhere, and hold no GPUs.
        """
        there = self._tasks[hosts[self._tasks[:, 1]]]
        held, has_task = np.zeros((2, len(self.jobs)), dtype=np.int64), ~self._runs
        for amounts, column in zip(held, (2, 3), strict=True):
            np.add.at(amounts, there[:, 0], there[:, column])
        has_task[there[:, 0]] = True
        return held[0], held[1], has_task


def able_hosts(cluster: Cluster, round_: Round, job: Job) -> Bools:
    """Return which hosts could hold a task of a job, were they empty (hosts,)."""
    allowed = AllowedHosts(round_.host_sets)
    groups = (group for option in job.options for group in option.groups)
    able = np.zeros(cluster.num_hosts, dtype=np.bool_)
    for group in groups:
        able |= hosts_for(cluster, allowed, group)
    return able


def hosts_for(cluster: Cluster, allowed: AllowedHosts, asked: TaskGroup) -> Bools:
    """Return which hosts could hold a task of a group, were they empty (hosts,)."""
    able = cluster.gpu_count * WHOLE_GPU >= asked.gpu
    amounts: Mapping[str, int] = {"cpu": asked.cpu, "memory": asked.memory, **asked.resources}
    for name, amount in amounts.items():
        if name in cluster.resources:
            able &= cluster.capacity[:, cluster.resources.index(name)] >= amount
        elif amount:
            able &= False
    if asked.gpu_models is not None:
        models = [m for m, name in enumerate(cluster.gpu_models) if name in asked.gpu_models]
        able &= np.isin(cluster.gpu_model, models)
    named = allowed.of(asked)
    return able if named is None else able & host_mask(cluster, tuple(named))
