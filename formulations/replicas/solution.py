"""A solution: homes per job class and replicas per dataset class, with its leading terms."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.replicas.problem.problem import HOMELESS, Layout, Problem, overload_of


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Homes of job classes and replicas of dataset classes."""

    jobs: Ints  # (job classes, regions, models): jobs with their home there
    replicas: Bools  # (dataset classes, regions)

    def demand(self, problem: Problem) -> Ints:
        """Return the demand in milli-GPU (regions, models)."""
        asked: Ints = np.tensordot(problem.demand, self.jobs, axes=1)
        return asked

    def objective(self, problem: Problem) -> tuple[int, int, int]:
        """Return the leading terms as a tuple: `overload`, `remote_reads` and `copies`."""
        homeless = problem.count - self.jobs.sum(axis=(1, 2))
        there = self.jobs.sum(axis=2)[problem.read_class]
        local = np.where(self.replicas[problem.read_dataset_class], there, 0).sum(axis=1)
        away = problem.count[problem.read_class] - local
        new = self.replicas & ~problem.current
        return (
            overload_of(self.demand(problem), problem.supply)
            + HOMELESS * int((homeless * problem.demand).sum()),
            int((away * problem.read_gib).sum()),
            int((new * problem.size[:, None]).sum()),
        )

    def without_idle_copies(self, problem: Problem) -> Solution:
        """Return it without new replicas that no job reads and without needless drops.

        A replica over whose links jobs read remotely is kept. Existing replicas stay where storage
        allows it, the smallest first.
        """
        read = self.local_reads(problem)
        replicas = self.replicas & (problem.current | read)
        served = replicas | (replicas.astype(np.float64) @ problem.linked > 0)
        short = (read & ~served).any(axis=1)
        replicas[short] = self.replicas[short]
        residual = problem.storage - replicas.T.astype(np.int64) @ problem.size
        gone, region = np.nonzero(problem.current & ~replicas)
        order = np.argsort(problem.size[gone], kind="stable")
        for p, r in zip(gone[order].tolist(), region[order].tolist(), strict=True):
            if problem.size[p] <= residual[r]:
                replicas[p, r] = True
                residual[r] -= problem.size[p]
        return replace(self, replicas=replicas)

    def local_reads(self, problem: Problem) -> Bools:
        """Return where jobs read a dataset class locally (dataset classes, regions)."""
        read = np.zeros_like(problem.current)
        np.logical_or.at(
            read, problem.read_dataset_class, self.jobs.sum(axis=2)[problem.read_class] > 0
        )
        return read

    def layout(self, problem: Problem) -> Layout:
        """Return it per dataset and job; jobs of a class get its homes in their order."""
        homes = np.full((len(problem.job_class), 2), NONE, dtype=np.int64)
        order = np.argsort(problem.job_class, kind="stable")
        first = np.concatenate([[0], np.cumsum(problem.count)])
        w, r, m = np.nonzero(self.jobs)
        number = self.jobs[w, r, m]
        before = np.concatenate([[0], np.cumsum(number)])[:-1]
        start = before - before[np.searchsorted(w, w)] + first[w]
        at = np.repeat(start, number) + np.arange(number.sum()) - np.repeat(before, number)
        homes[order[at], 0] = np.repeat(r, number)
        homes[order[at], 1] = np.repeat(m, number)
        return Layout(self.replicas[problem.dataset_class], homes)
