"""What the term `freed` pays for: the domains of one level, and what each is worth empty."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.problem.problem import Problem
from placewright.instances.documents.base import WHOLE_GPU


class FreeableDomains:
    """The domains of the policy's level.

    Attributes
    ----------
    domain : int64 (hosts,)
        Domain of each host.
    gpu_worth, worth_of_hosts, worth : int, int64 (hosts,), int64 (domains,)
        Milli-GPU-seconds that a GPU, a host, and a domain as a whole, is worth.
    busy : bool (domains,)
        Whether something ran there before the round.
    clearable : bool (domains,)
        Whether it was busy, and nothing there is pinned.
    """

    def __init__(self, problem: Problem) -> None:
        cluster, goal = problem.cluster, problem.round.policy.freeing
        if goal is None:
            raise ValueError("the term 'freed' has no policy.freeing; expected one")
        level = cluster.levels.index(goal.level)
        self.domain = cluster.domain[level].astype(np.int64)
        count = len(cluster.names[level])
        self.gpu_worth = WHOLE_GPU * goal.gpu_worth_s
        self.worth_of_hosts = cluster.gpu_count.astype(np.int64) * self.gpu_worth
        self.worth = np.zeros(count, dtype=np.int64)
        np.add.at(self.worth, self.domain, self.worth_of_hosts)
        self.busy = self._any(problem.state.busy, count)
        self.clearable = self.busy & ~self._any(problem.pinned_hosts, count)

    def _any(self, hosts: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
        return np.bincount(self.domain, weights=hosts, minlength=count) > 0
