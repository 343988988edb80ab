"""Leases under construction: which job runs when, and what each lease has left."""

from __future__ import annotations

from copy import copy

import numpy as np

from placewright.formulations.deadline.problem.problem import (
    NONE,
    Bools,
    Ints,
    Problem,
    Schedule,
    kinds_of,
    use_of,
)


class Chart:
    """A schedule that changes; what runs always fits, though jobs may have part of their leases.

    Attributes
    ----------
    way
        (jobs,): the way by which each job runs, or `NONE`.
    runs, open
        (jobs, horizon): where the job runs, and where its way would also allow it to run.
    free
        (rows, horizon): what is left of each row, milli-GPU.
    kind, asks
        Ways that ask the same of all rows are of one kind: (ways,) and (kinds, rows).
    """

    def __init__(self, problem: Problem, capacity: Ints | None = None) -> None:
        self.problem = problem
        self.asks, self.kind = kinds_of(problem.demand)
        self._rows = [np.flatnonzero(ask) for ask in self.asks]
        self._parts = [ask[rows, None] for ask, rows in zip(self.asks, self._rows, strict=True)]
        self.free = (problem.capacity if capacity is None else capacity).copy()
        self.way = np.full(problem.jobs, NONE, dtype=np.int64)
        self.runs = np.zeros((problem.jobs, problem.horizon), dtype=np.bool_)
        self.open = np.zeros_like(self.runs)

    def copy(self) -> Chart:
        """Return a chart that changes on its own."""
        other = copy(self)
        other.free, other.way = self.free.copy(), self.way.copy()
        other.runs, other.open = self.runs.copy(), self.open.copy()
        return other

    def restore(self, other: Chart) -> None:
        """Go back to what the copy has; it must not change any more."""
        self.free, self.way, self.runs, self.open = other.free, other.way, other.runs, other.open

    @classmethod
    def of(cls, problem: Problem, schedule: Schedule, capacity: Ints | None = None) -> Chart:
        """Return the chart of a schedule; with less capacity, what is free may be negative."""
        chart = cls(problem, capacity)
        chart.put_all(schedule.way[has := schedule.way != NONE], schedule.runs[has])
        return chart

    def schedule(self) -> Schedule:
        """Return what is promised; every job with a way must have all its leases."""
        return Schedule(self.way.copy(), self.runs.copy())

    def room(self, kind: int) -> Bools:
        """Whether one more job of the kind fits in each lease (horizon,)."""
        fits: Bools = (self.free[self._rows[kind]] >= self._parts[kind]).all(axis=0)
        return fits

    def rooms(self) -> tuple[Bools, Ints]:
        """Whether one more job of each kind that runs fits in each lease (such kinds, horizon).

        And the row of each of these kinds there (kinds,).
        """
        runs = np.bincount(self.kind[self.way[self.way != NONE]], minlength=len(self.asks)) > 0
        kinds = np.flatnonzero(runs)
        rooms = np.array([self.room(kind) for kind in kinds.tolist()], dtype=np.bool_)
        row: Ints = runs.cumsum() - 1
        return rooms.reshape(len(kinds), self.problem.horizon), row

    def leases(self, way: int) -> Ints:
        """Return the leases that the way may use and that have room for it, ascending."""
        first, end = self.problem.first[way], self.problem.end[way]
        room = self.free[self._rows[self.kind[way]], first:end] >= self._parts[self.kind[way]]
        leases: Ints = np.flatnonzero(room.all(axis=0)) + first
        return leases

    def put(self, way: int, leases: Ints) -> None:
        """Let the way's job run in these leases, which have room; it runs nowhere so far."""
        problem, job, kind = self.problem, self.problem.job[way], self.kind[way]
        self.way[job] = way
        self.open[job, problem.first[way] : problem.end[way]] = True
        self.open[job, leases] = False
        self.runs[job, leases] = True
        self.free[np.ix_(self._rows[kind], leases)] -= self._parts[kind]

    def put_all(self, ways: Ints, runs: Bools) -> None:
        """Let ways of jobs that run nowhere so far run in leases (ways, horizon) that fit."""
        problem, leases = self.problem, np.arange(self.problem.horizon)
        jobs = problem.job[ways]
        self.way[jobs] = ways
        self.runs[jobs] = runs
        inside = (problem.first[ways, None] <= leases) & (leases < problem.end[ways, None])
        self.open[jobs] = inside & ~runs
        self.free -= use_of(problem.demand[ways], runs)

    def take(self, job: int) -> Ints:
        """Take the job out of all its leases and return them; it has no way afterwards."""
        leases, kind = np.flatnonzero(self.runs[job]), self.kind[self.way[job]]
        self.free[np.ix_(self._rows[kind], leases)] += self._parts[kind]
        self.runs[job] = self.open[job] = False
        self.way[job] = NONE
        return leases

    def run(self, job: int, lease: int) -> None:
        """Let a job that has a way run in one more lease."""
        self._switch(job, lease, on=True)

    def pause(self, job: int, lease: int) -> None:
        """Let a job that runs in the lease no longer run there."""
        self._switch(job, lease, on=False)

    def _switch(self, job: int, lease: int, *, on: bool) -> None:
        self.runs[job, lease], self.open[job, lease] = on, not on
        ask = self.asks[self.kind[self.way[job]]]
        self.free[:, lease] += -ask if on else ask
