"""A schedule under construction: which job runs when, and the residual capacity of each lease."""

from __future__ import annotations

from copy import copy

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.deadline.problem.problem import (
    NONE,
    Problem,
    Schedule,
    demand_classes_of,
    usage_of,
)


class ScheduleState:
    """A mutable schedule within capacity; jobs may lack some of their leases.

    Attributes
    ----------
    alternative
        (jobs,): the alternative by which each job runs, or `NONE`.
    runs, idle
        (jobs, horizon): where the job runs, and where its alternative would also allow it to run.
    residual
        (rows, horizon): what is left of each row, milli-GPU.
    demand_class, class_demand
        (alternatives,), and (classes, rows): alternatives of one class ask the same of all rows.
    """

    def __init__(self, problem: Problem, capacity: Ints | None = None) -> None:
        self.problem = problem
        self.class_demand, self.demand_class = demand_classes_of(problem.demand)
        self._rows = [np.flatnonzero(demand) for demand in self.class_demand]
        self._row_demand = [
            demand[rows, None] for demand, rows in zip(self.class_demand, self._rows, strict=True)
        ]
        self.residual = (problem.capacity if capacity is None else capacity).copy()
        self.alternative = np.full(problem.jobs, NONE, dtype=np.int64)
        self.runs = np.zeros((problem.jobs, problem.horizon), dtype=np.bool_)
        self.idle = np.zeros_like(self.runs)

    def copy(self) -> ScheduleState:
        """Return an independent copy."""
        other = copy(self)
        other.residual, other.alternative = self.residual.copy(), self.alternative.copy()
        other.runs, other.idle = self.runs.copy(), self.idle.copy()
        return other

    def restore(self, other: ScheduleState) -> None:
        """Restore a copy, which must not change any more."""
        self.residual, self.alternative, self.runs, self.idle = (
            other.residual,
            other.alternative,
            other.runs,
            other.idle,
        )

    @classmethod
    def of(
        cls, problem: Problem, schedule: Schedule, capacity: Ints | None = None
    ) -> ScheduleState:
        """Return the state of a schedule; with less capacity, residual capacity may be negative."""
        state = cls(problem, capacity)
        state.add_all(schedule.alternative[has := schedule.alternative != NONE], schedule.runs[has])
        return state

    def schedule(self) -> Schedule:
        """Return the schedule; every job with an alternative must have all its leases."""
        return Schedule(self.alternative.copy(), self.runs.copy())

    def fits(self, demand_class: int) -> Bools:
        """Return whether one more job of a demand class fits in each lease (horizon,)."""
        fits: Bools = (
            self.residual[self._rows[demand_class]] >= self._row_demand[demand_class]
        ).all(axis=0)
        return fits

    def fits_by_class(self) -> tuple[Bools, Ints]:
        """Return whether one more job of each scheduled class fits, and the row of each class.

        (scheduled classes, horizon) and (classes,).
        """
        runs = (
            np.bincount(
                self.demand_class[self.alternative[self.alternative != NONE]],
                minlength=len(self.class_demand),
            )
            > 0
        )
        classes = np.flatnonzero(runs)
        fits = np.array(
            [self.fits(demand_class) for demand_class in classes.tolist()], dtype=np.bool_
        )
        row: Ints = runs.cumsum() - 1
        return fits.reshape(len(classes), self.problem.horizon), row

    def free_leases(self, alternative: int) -> Ints:
        """Return the leases, ascending, that an alternative may use and that hold it."""
        first, end = self.problem.first[alternative], self.problem.end[alternative]
        fits = (
            self.residual[self._rows[self.demand_class[alternative]], first:end]
            >= self._row_demand[self.demand_class[alternative]]
        )
        leases: Ints = np.flatnonzero(fits.all(axis=0)) + first
        return leases

    def add(self, alternative: int, leases: Ints) -> None:
        """Add an alternative in these leases, which have capacity; its job has none so far."""
        problem, job, demand_class = (
            self.problem,
            self.problem.job[alternative],
            self.demand_class[alternative],
        )
        self.alternative[job] = alternative
        self.idle[job, problem.first[alternative] : problem.end[alternative]] = True
        self.idle[job, leases] = False
        self.runs[job, leases] = True
        self.residual[np.ix_(self._rows[demand_class], leases)] -= self._row_demand[demand_class]

    def add_all(self, alternatives: Ints, runs: Bools) -> None:
        """Add alternatives of unscheduled jobs with leases, bool (alternatives, horizon)."""
        problem, leases = self.problem, np.arange(self.problem.horizon)
        jobs = problem.job[alternatives]
        self.alternative[jobs] = alternatives
        self.runs[jobs] = runs
        inside = (problem.first[alternatives, None] <= leases) & (
            leases < problem.end[alternatives, None]
        )
        self.idle[jobs] = inside & ~runs
        self.residual -= usage_of(problem.demand[alternatives], runs)

    def remove(self, job: int) -> Ints:
        """Remove a job from the schedule, and return its leases."""
        leases, demand_class = (
            np.flatnonzero(self.runs[job]),
            self.demand_class[self.alternative[job]],
        )
        self.residual[np.ix_(self._rows[demand_class], leases)] += self._row_demand[demand_class]
        self.runs[job] = self.idle[job] = False
        self.alternative[job] = NONE
        return leases

    def assign(self, job: int, lease: int) -> None:
        """Assign one more lease to a scheduled job."""
        self._switch(job, lease, on=True)

    def unassign(self, job: int, lease: int) -> None:
        """Take a lease from a scheduled job."""
        self._switch(job, lease, on=False)

    def _switch(self, job: int, lease: int, *, on: bool) -> None:
        self.runs[job, lease], self.idle[job, lease] = on, not on
        demand = self.class_demand[self.demand_class[self.alternative[job]]]
        self.residual[:, lease] += -demand if on else demand
