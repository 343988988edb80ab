"""Bounds without a solver, exact for every schedule within the counts.

- `makespan`: critical paths; and for each row, what jobs with late heads or long tails take of it
  (energetic reasoning; Carlier and Latapie, "Une méthode arborescente pour résoudre les problèmes
  cumulatifs", RAIRO 25, 1991).
- `completion`: the work that leads to each last job, one pipeline after the other by work divided
  by weight, as if all of a row worked on one (Smith, "Various optimizers for single-stage
  production", Naval Research Logistics Quarterly 3, 1956; Eastman, Even and Isaacs, "Bounds for the
  optimal scheduling of n jobs on m processors", Management Science 11, 1964); and the k-th
  completion of all is neither before k pipelines' least work is done, nor before the k-th critical
  path.
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.stages.heuristics.list_schedules import sinks
from placewright.formulations.stages.problem import COMPLETION, MAKESPAN, Problem


def bounds(problem: Problem) -> dict[str, int]:
    """Return a lower bound of each term of times."""
    return {MAKESPAN: makespan(problem), COMPLETION: completion(problem)}


def makespan(problem: Problem) -> int:
    """Return a lower bound of the makespan."""
    best = int((problem.head + problem.shortest + problem.tail).max(initial=0))
    best = max(best, problem.held_makespan)
    for row, free in enumerate(problem.free.T):
        energy = _Energy(problem.times, free)
        for key, other in ((problem.tail, problem.head), (problem.head, problem.tail)):
            order = np.argsort(-key, kind="stable")
            work = problem.work[order, row].cumsum()
            least = np.minimum.accumulate(other[order])
            from_, then = (least, key[order]) if key is problem.tail else (key[order], least)
            asks = work > 0
            done = energy.done(from_[asks], work[asks]) + then[asks]
            best = max(best, int(done.max(initial=0)))
    return best


def completion(problem: Problem) -> int:
    """Return a lower bound of the sum of weight times completion."""
    last = np.flatnonzero(problem.weight > 0)
    weight, ends = problem.weight[last], (problem.head + problem.shortest)[last]
    best = int(weight @ ends)
    earliest = np.sort(ends)
    sink = sinks(problem)
    for row, free in enumerate(problem.free.T):
        work = np.zeros(len(problem.jobs), dtype=np.int64)
        np.add.at(work, sink, problem.work[:, row])
        mine, capacity = work[last], int(free[-1])
        order = np.argsort(mine / weight, kind="stable")
        total = sum(
            int(w) * int(t) for w, t in zip(weight[order], mine[order].cumsum(), strict=True)
        )
        best = max(best, -(-total // capacity) if capacity else 0)
        done = _Energy(problem.times, free).done(
            np.zeros(len(last), np.int64), np.sort(mine).cumsum()
        )
        earliest = np.maximum(earliest, done)
    best = max(best, int(np.sort(weight)[::-1] @ np.sort(earliest)))
    return problem.held_completion + best


class _Energy:
    """When a row has done how much work, from when on: its free capacity over time."""

    def __init__(self, times: Ints, free: Ints) -> None:
        self._times, self._free = times, free
        self._before = np.concatenate([[0], (np.diff(times) * free[:-1]).cumsum()])

    def done(self, begin: Ints, work: Ints) -> Ints:
        """Return the earliest time by which work is done that begins no sooner."""
        step = np.searchsorted(self._times, begin, side="right") - 1
        before = self._before[step] + (begin - self._times[step]) * self._free[step]
        total = before + work
        step = np.maximum(0, np.searchsorted(self._before, total, side="left") - 1)
        free = np.maximum(1, self._free[step])
        done: Ints = self._times[step] - (self._before[step] - total) // free
        return np.where(work > 0, done, begin)
