"""Running jobs of a round: which may be preempted, and which are interchangeable.

Running jobs are **equivalent** if no capacity row distinguishes them: they have the same gang
class, region and preemptibility, and the tasks of each of their groups run on hosts of the same GPU
models that are equally open to arriving tasks.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.gang.problem.problem import Problem as Gangs
from placewright.formulations.gang.problem.quotas import (
    GPUS,
    QuotaKey,
    accounts_of,
    limits_of,
)
from placewright.formulations.geo.problem.compile import Problem

LOWEST_RANK = -(2**62)
"""A rank below that of any job."""


class RunningJobs:
    """Facts about the running jobs of a round that every aggregation to job classes uses.

    Parameters
    ----------
    problem
        The round, which may restrict where jobs are eligible.
    gangs
        All jobs as one gang round over the whole cluster.
    """

    def __init__(self, problem: Problem, gangs: Gangs) -> None:
        self.problem, self.gangs = problem, gangs

    @cached_property
    def preemptible(self) -> Bools:
        """Whether some job of higher rank may displace a running job (jobs,).

        It could start in the same region; or anywhere, if it could take a quota of the whole round
        or a cap, or has a label.
        """
        jobs, current_region = self.problem.round.jobs, self.problem.current_region
        rank = np.array(
            [job.priority + 2**31 * (not job.opportunistic) for job in jobs], dtype=np.int64
        )
        pinned = np.array([bool(job.running and job.running.pinned) for job in jobs], dtype=bool)
        incoming_rank = np.where(
            self.problem.eligible & ~pinned[:, None], rank[:, None], LOWEST_RANK
        )
        highest_rank = incoming_rank.max(axis=0, initial=LOWEST_RANK)
        limited = limits_of(self.problem.round).keys()
        anywhere = np.array(
            [
                job.anti_affinity is not None
                or bool(limited and not limited.isdisjoint(accounts_of(job)))
                for job in jobs
            ],
            dtype=np.bool_,
        )
        limit = np.where(anywhere, highest_rank.max(initial=LOWEST_RANK), 0)
        limit[~anywhere] = highest_rank[current_region[~anywhere]]
        preemptible: Bools = (current_region != NONE) & (rank < limit)
        return preemptible

    @cached_property
    def equivalent(self) -> list[list[int]]:
        """Equivalence classes of running jobs that are not pinned, as lists of jobs."""
        return group_equivalent(self.gangs, self.problem.current_region, self.preemptible)

    @cached_property
    def quota_limits(self) -> dict[tuple[QuotaKey, int], int]:
        """What jobs that are not pinned may hold, by account and amount, and region.

        Milli-GPU of quotas, and all that caps limit. The region is NONE for a quota of the whole
        round or a cap. What pinned jobs hold is subtracted.
        """
        problem, jobs = self.problem, self.problem.round.jobs
        tenants = {tenant.name: t for t, tenant in enumerate(problem.round.tenants)}
        quota_limits = {
            (key, NONE): most
            for key, most in self.gangs.quota.items()
            if key[1] == GPUS or key[0] >= len(tenants)
        }
        held: dict[tuple[int, int], int] = {}
        pinned: dict[tuple[int, int], int] = {}
        for j in np.flatnonzero(problem.current_region != NONE).tolist() if problem.quota else ():
            job = jobs[j]
            if job.running is not None and job.tenant is not None:
                key = tenants[job.tenant], int(problem.current_region[j])
                milli = job.options[job.running.option].milli_gpu
                held[key] = held.get(key, 0) + milli
                pinned[key] = pinned.get(key, 0) + milli * job.running.pinned
        for (r, name), most in problem.quota.items():
            key = tenants[name], r
            left = max(most, held.get(key, 0)) - pinned.get(key, 0)
            quota_limits[(tenants[name], GPUS), r] = left
        return quota_limits


def group_equivalent(gangs: Gangs, current_region: Ints, preemptible: Bools) -> list[list[int]]:
    """Return the equivalence classes of running jobs, as lists of jobs.

    `current_region` and `preemptible` are (jobs,).
    """
    _, _, at_host, shape = gangs.running_tasks.T
    code = (gangs.cluster.gpu_model[at_host] + 1) * 4
    code += 2 * gangs.open[at_host] + gangs.shape_hosts[shape, at_host]
    where, stops, codes = current_region.tolist(), preemptible.tolist(), iter(code.tolist())
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
    """Return the number of given GPUs of a host that are not reserved."""
    start = int(gangs.cluster.gpu_start[host])
    return sum(bool(gangs.usable[start + gpu]) for gpu in gpus)
