"""The term `freed`: which domains of the policy's level count, and what each is worth empty."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.problem.problem import Problem
from placewright.topology.units import WHOLE_GPU


class FreeableDomains:
    """The domains of the level that `policy.freeing` names.

    Attributes
    ----------
    domain : int64 (hosts,)
        Domain of each host.
    worth_of_gpu, worth_of_host, worth_of_domain : int, int64 (hosts,), int64 (domains,)
        Milli-GPU-seconds that an empty GPU, host or domain is worth.
    busy : bool (domains,)
        Whether something ran there before the round.
    freeable : bool (domains,)
        Whether it was busy and no pinned job runs there.
    """

    def __init__(self, problem: Problem) -> None:
        cluster, goal = problem.cluster, problem.round.policy.freeing
        if goal is None:
            raise ValueError("the term 'freed' has no policy.freeing; expected one")
        level = cluster.levels.index(goal.level)
        self.domain = cluster.domain[level].astype(np.int64)
        count = len(cluster.names[level])
        self.worth_of_gpu = WHOLE_GPU * goal.gpu_worth_s
        self.worth_of_host = cluster.gpu_count.astype(np.int64) * self.worth_of_gpu
        self.worth_of_domain = np.zeros(count, dtype=np.int64)
        np.add.at(self.worth_of_domain, self.domain, self.worth_of_host)
        self.busy = self._any(problem.state.busy, count)
        self.freeable = self.busy & ~self._any(problem.pinned_hosts, count)

    def _any(self, hosts: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
        return np.bincount(self.domain, weights=hosts, minlength=count) > 0
