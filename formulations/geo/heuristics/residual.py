"""Residual capacity of the rows, and greedy assignment of jobs to it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.geo.problem.class_arrays import JobClasses


class ResidualCapacity:
    """Residual capacity of each row (rows,), reduced as jobs are assigned."""

    def __init__(self, classes: JobClasses) -> None:
        self.classes = classes
        self.residual = classes.capacity.copy()
        by_assignment = np.argsort(classes.entry_assignment, kind="stable")
        cuts = np.searchsorted(
            classes.entry_assignment[by_assignment], np.arange(1, classes.num_assignments)
        )
        self._rows = np.split(classes.entry_row[by_assignment], cuts)
        self._usage = np.split(classes.entry_usage[by_assignment], cuts)

    @cached_property
    def assignments(self) -> list[list[int]]:
        """The assignments of each job class."""
        found: list[list[int]] = [[] for _ in self.classes.current_region]
        for assignment, job_class in enumerate(self.classes.assignment_class.tolist()):
            found[job_class].append(assignment)
        return found

    def take(self, assignment: int, count: int = 1) -> None:
        """Subtract the use of `count` jobs with this assignment."""
        self.residual[self._rows[assignment]] -= count * self._usage[assignment]

    def fits(self, assignment: int) -> bool:
        """Whether the rows have capacity for one more job with this assignment."""
        return bool((self.residual[self._rows[assignment]] >= self._usage[assignment]).all())

    @cached_property
    def _candidates(self) -> list[list[int]]:
        """The assignments of each job class that had capacity when last checked."""
        return [list(assignments) for assignments in self.assignments]

    def assign_greedily(
        self, jobs: Iterable[int], costs: Ints, excluded: Collection[tuple[int, int]] = ()
    ) -> Iterator[tuple[int, int]]:
        """Yield (job, assignment) for jobs that fit, each with its cheapest assignment.

        Jobs eligible in the fewest regions come first, then those of highest value. `costs` are
        (jobs, regions), `excluded` are (job, region) pairs.
        """
        classes, eligible = self.classes, self.classes.problem.eligible
        exhausted: set[tuple[int, bytes]] = set()
        where = classes.assignment_region.tolist()
        regions = eligible.sum(axis=1).tolist()
        class_of_job = classes.class_of_job.tolist()
        for j in sorted(jobs, key=lambda j: (regions[j], -self._max_value[class_of_job[j]], j)):
            job_class = int(classes.class_of_job[j])
            key = job_class, eligible[j].tobytes()
            if key in exhausted:
                continue
            allowed, cost = eligible[j].tolist(), costs[j].tolist()
            # Capacity is never given back: an assignment that does not fit never will.
            assignments = [
                assignment
                for assignment in self._candidates[job_class]
                if allowed[where[assignment]]
            ]
            if not assignments:
                exhausted.add(key)
            candidates = [
                (cost[where[assignment]], assignment)
                for assignment in assignments
                if (j, where[assignment]) not in excluded
            ]
            for _, assignment in sorted(candidates):
                if self.fits(assignment):
                    self.take(assignment)
                    yield j, assignment
                    break
                self._candidates[job_class].remove(assignment)

    @cached_property
    def _max_value(self) -> list[int]:
        return [
            max((int(self.classes.value[w]) for w in mine), default=0) for mine in self.assignments
        ]
