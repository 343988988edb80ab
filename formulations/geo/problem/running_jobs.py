"""What is said of running jobs, however a round's jobs are sorted into kinds.

Those that no row can tell apart **lie alike**: what is said of one of them holds for all. They are
of one class, in one region, and may all stop or none; of each group their tasks lie on hosts of the
same GPU models that are open, or where such tasks may arrive, alike.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import numpy as np

from placewright.formulations.common.wan.arrays import NONE, Bools, Ints
from placewright.formulations.gang.problem.problem import Problem as Gangs
from placewright.formulations.geo.problem.compile import Problem

ALL_PINNED = -(2**62)
"""Below the rank of any job."""


class Lying:
    """A round, and what is known of the jobs that run; `gangs` are all jobs as a round of gangs."""

    def __init__(self, problem: Problem, gangs: Gangs) -> None:
        self.problem, self.gangs = problem, gangs

    @cached_property
    def may_stop(self) -> Bools:
        """Whether running jobs may have to make way for one of higher precedence (jobs,)."""
        jobs, at = self.problem.round.jobs, self.problem.at
        rank = np.array([job.priority + 2**31 * (not job.opportunistic) for job in jobs])
        pinned = np.array([bool(job.running and job.running.pinned) for job in jobs], dtype=bool)
        comes = np.where(self.problem.can & ~pinned[:, None], rank[:, None], ALL_PINNED)
        top = comes.max(axis=0, initial=ALL_PINNED)
        may: Bools = (at != NONE) & (rank < top[at])
        return may

    @cached_property
    def alike(self) -> list[list[int]]:
        """The running jobs that may move, those together that lie alike."""
        return lying_alike(self.gangs, self.problem.at, self.may_stop)

    @cached_property
    def limits(self) -> dict[tuple[int, int], int]:
        """Milli-GPU that a tenant's jobs may hold in a region, NONE for all, beside pinned ones."""
        problem, jobs = self.problem, self.problem.round.jobs
        tenants = {tenant.name: t for t, tenant in enumerate(problem.round.tenants)}
        limits = {(t, NONE): most for (t, res), most in self.gangs.quota.items() if res < 0}
        held: dict[tuple[int, int], int] = {}
        pinned: dict[tuple[int, int], int] = {}
        for j in np.flatnonzero(problem.at != NONE).tolist() if problem.quota else ():
            job = jobs[j]
            if job.running is not None and job.tenant is not None:
                key = tenants[job.tenant], int(problem.at[j])
                milli = job.options[job.running.option].milli_gpu
                held[key] = held.get(key, 0) + milli
                pinned[key] = pinned.get(key, 0) + milli * job.running.pinned
        for (r, name), most in problem.quota.items():
            key = tenants[name], r
            limits[key] = max(most, held.get(key, 0)) - pinned.get(key, 0)
        return limits


def lying_alike(gangs: Gangs, at: Ints, may_stop: Bools) -> list[list[int]]:
    """Return the running jobs that may move, those together that lie alike.

    `at` (jobs,) are the regions where jobs run, `may_stop` (jobs,) says who may make way at all.
    """
    _, _, at_host, shape = gangs.places.T
    code = (gangs.cluster.gpu_model[at_host] + 1) * 4
    code += 2 * gangs.open[at_host] + gangs.shape_hosts[shape, at_host]
    where, stops, codes = at.tolist(), may_stop.tolist(), iter(code.tolist())
    every = bool(gangs.usable.all())
    found: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for j, running in gangs.running.items():
        tasks = [
            (group, next(codes), len(gpus) if every else _usable(gangs, host, gpus))
            for group, _, host, gpus in running.places
        ]
        found[running.job_class, where[j], stops[j], *sorted(tasks)].append(j)
    return list(found.values())


def _usable(gangs: Gangs, host: int, gpus: tuple[int, ...]) -> int:
    """Return how many of some GPUs of a host are not reserved."""
    start = int(gangs.cluster.gpu_start[host])
    return sum(bool(gangs.usable[start + gpu]) for gpu in gpus)
