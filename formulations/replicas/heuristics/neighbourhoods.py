"""Neighbourhoods of large-neighbourhood search: which homes and replicas a MIP may change.

`regions` frees all that happens in a few of them; `connected` dataset classes connected by readers,
with all who read them; `sizes` all homes and some dataset classes, large ones more often; `relaxed`
all homes and the dataset classes of which most GiB are elsewhere in the LP relaxation, each where
the solution or the LP has it (RINS: Danna, Rothberg and Le Pape 2005). As other replicas are fixed
there are few possible homes, so jobs of all regions can be free. Costly parts are drawn more often.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.models.mip import Neighbourhood, whole_problem
from placewright.formulations.replicas.problem.minimum_remote_reads import (
    homes_of_least_remote_reads,
)
from placewright.formulations.replicas.problem.problem import Problem
from placewright.formulations.replicas.solution import Solution


class NeighbourhoodSampler:
    """Draws neighbourhoods of solutions.

    Parameters
    ----------
    relaxed
        (dataset classes, regions): fractional replicas of the LP relaxation; None if unknown.
    """

    def __init__(
        self, problem: Problem, relaxed: Floats | None, random: np.random.Generator
    ) -> None:
        self.problem, self._relaxation_replicas, self._random = problem, relaxed, random
        self._least_read_homes, self._least_remote_reads = homes_of_least_remote_reads(problem)
        self._readers = _rows(
            problem.read_dataset_class, problem.read_class, problem.dataset_classes
        )
        self._reads = _rows(problem.read_class, problem.read_dataset_class, problem.job_classes)

    def draw(self, kind: str, size: float, solution: Solution, may_hold: Bools) -> Neighbourhood:
        """Return a neighbourhood of a kind around a solution.

        Parameters
        ----------
        size
            Number of job classes of kinds `regions` and `connected`, else of dataset classes.
        may_hold
            (dataset classes, regions): where replicas may be.
        """
        if kind == "regions":
            return self._few_regions(size, solution, may_hold)
        if kind == "connected":
            return self._connected_datasets(size, solution, may_hold)
        relaxed = self._relaxation_replicas if kind == "relaxed" else None
        return self.some_datasets(solution, may_hold, relaxed, size)

    def restricted_to(self, replicas: Bools) -> Neighbourhood:
        """Return the neighbourhood of all homes with these replicas (dataset classes, regions).

        Remote reads are at their lower bound if all jobs have a home so.
        """
        problem = self.problem
        homes = (
            problem.allowed_homes & self._homes_with_data(replicas, least_reads=True)[:, :, None]
        )
        least_reads = bool((homes.any(axis=(1, 2)) | problem.homeless).all())
        homes = homes if least_reads else problem.allowed_homes
        return replace(whole_problem(problem), homes=homes, holds=replicas, least_reads=least_reads)

    def some_datasets(
        self, solution: Solution, may_hold: Bools, relaxed: Floats | None, number: float
    ) -> Neighbourhood:
        """Return a number of dataset classes and all homes, near a relaxation if one is given."""
        problem = self.problem
        if relaxed is None:
            weight, holds = problem.size**0.5, may_hold | solution.replicas
        else:
            weight = problem.size * np.abs(solution.replicas - relaxed).sum(axis=1)
            holds = (
                (may_hold & (relaxed > parameters.PARAMETERS.rins_min_fraction))
                | solution.replicas
                | problem.current
            )
        weight = weight + 1e-3 * weight.mean() + 1e-9
        dataset_classes = np.zeros(problem.dataset_classes, dtype=np.bool_)
        dataset_classes[
            self._random.choice(
                problem.dataset_classes,
                int(min(problem.dataset_classes, number)),
                replace=False,
                p=weight / weight.sum(),
            )
        ] = True
        least_reads = solution.objective(problem)[1] <= self._least_remote_reads
        # Homes beside data that is there or may come, and those of today.
        found = np.where(dataset_classes[:, None], holds, solution.replicas)
        beside = self._homes_with_data(found, least_reads=least_reads)
        return Neighbourhood(
            job_classes=np.ones(problem.job_classes, dtype=np.bool_),
            dataset_classes=dataset_classes,
            homes=problem.allowed_homes & (beside[:, :, None] | (solution.jobs > 0)),
            holds=holds,
            least_reads=least_reads,
        )

    def _homes_with_data(self, replicas: Bools, *, least_reads: bool) -> Bools:
        """Return where job classes have all their data with these replicas (job classes, regions).

        With `least_reads` only where remote reads are least, beside all data that can be there.
        """
        problem, beside = self.problem, np.ones_like(self._least_read_homes)
        if least_reads:
            beside, replicas = self._least_read_homes.copy(), replicas | ~problem.may_hold
        np.logical_and.at(beside, problem.read_class, replicas[problem.read_dataset_class])
        return beside

    def _few_regions(self, size: float, solution: Solution, may_hold: Bools) -> Neighbourhood:
        """Return a few regions, drawn by GiB copied there, and all that is in them."""
        problem = self.problem
        new = (solution.replicas & ~problem.current).T.astype(np.int64) @ problem.size
        over = np.maximum(0, solution.demand(problem) - problem.supply).sum(axis=1)
        weight = (
            new + 0.1 * new.mean() + 1.0 + parameters.PARAMETERS.term_weights["overload"] * over
        )
        inside = np.zeros(problem.regions, dtype=np.bool_)
        number = solution.jobs.sum(axis=2) > 0
        for r in self._random.choice(
            problem.regions, problem.regions, replace=False, p=weight / weight.sum()
        ):
            inside[r] = True
            held = ~(number & ~inside).any(axis=1)
            if inside.sum() >= 2 and held.sum() > size:
                break
        free = number[:, inside].any(axis=1) & ~(number & ~inside).any(axis=1)
        dataset_classes = np.ones(problem.dataset_classes, dtype=np.bool_)
        return Neighbourhood(
            job_classes=free,
            dataset_classes=dataset_classes,
            homes=problem.allowed_homes & (inside[:, None] | (solution.jobs > 0)),
            holds=(may_hold & inside) | solution.replicas,
        )

    def _connected_datasets(
        self, size: float, solution: Solution, may_hold: Bools
    ) -> Neighbourhood:
        """Return dataset classes connected by readers, and all their readers."""
        problem = self.problem
        cost = ((solution.replicas & ~problem.current) * problem.size[:, None]).sum(axis=1) ** 0.5
        cost += 0.1 * cost.mean() + 1.0
        dataset_classes = np.zeros(problem.dataset_classes, dtype=np.bool_)
        free = np.zeros(problem.job_classes, dtype=np.bool_)
        order = self._random.choice(
            problem.dataset_classes, problem.dataset_classes, replace=False, p=cost / cost.sum()
        )
        waiting: list[int] = []
        for start in order.tolist():
            waiting.append(start)
            while waiting and free.sum() < size:
                p = waiting.pop(int(self._random.integers(len(waiting))))
                if dataset_classes[p]:
                    continue
                dataset_classes[p] = True
                for w in self._readers[p].tolist():
                    if not free[w]:
                        free[w] = True
                        waiting += self._reads[w].tolist()
            if free.sum() >= size:
                break
        return Neighbourhood(
            job_classes=free,
            dataset_classes=dataset_classes,
            homes=problem.allowed_homes,
            holds=(may_hold | solution.replicas),
        )


def _rows(keys: Ints, values: Ints, count: int) -> list[Ints]:
    """Return the values of each key, as one array per key."""
    order = np.argsort(keys, kind="stable")
    return np.split(values[order], np.searchsorted(keys[order], np.arange(1, count)))
