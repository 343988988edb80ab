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

from itertools import pairwise
from math import ceil

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.stages import parameters
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
    """Return a lower bound of the sum of weight times completion.

    Work before several of the last jobs is divided evenly among them.
    """
    weight = problem.weight[problem.last]
    alone = (problem.head + problem.shortest)[problem.last]
    best, earliest = 0, np.zeros_like(alone)
    parts = problem.led / np.maximum(1, problem.led.sum(axis=1, keepdims=True))
    times = _times_before(problem)
    due = {q: _due(problem, q) for q in times}
    for row, free in enumerate(problem.free.T):
        energy, work = _Energy(problem.times, free), problem.work[:, row]
        mine = {q: work @ (parts * due[q]) for q in times}
        for q in times:
            # All that leads to one has to be done, and counts in full.
            led = _floor(work @ due[q])
            alone = np.maximum(alone, _done(energy, led, q))
            least = _least_work(problem, led, _floor(mine[q]))
            earliest = np.maximum(earliest, _done(energy, least, q))
        best = max(best, _busy_times(weight, alone, mine, int(free[-1])))
    best = max(best, int(weight @ alone))
    earliest = np.maximum(np.sort(alone), np.sort(earliest))
    best = max(best, int(np.sort(weight)[::-1] @ earliest))
    return problem.held_completion + best


def _busy_times(weight: Ints, alone: Ints, due: dict[int, Floats], capacity: int) -> int:
    """Return a bound by mean busy times: when, on average, the work of each pipeline is done.

    `due`: what has to be done so long before each completion, which falls with that time. A
    completion is later than the mean busy time by the integral of what is done by then, over the
    work; and by Smith's rule the weighted sum of these means is least one pipeline after the other.
    """
    work, times = due[0], list(due)
    some = work > 0
    if not some.any() or not capacity:
        return 0
    after = np.zeros_like(work)
    for q, until in pairwise(times):
        after += (until - q) * np.maximum(due[until], work - capacity * until)
    # What is left after the last time is at most there at a rate of the whole capacity.
    rest = np.maximum(0.0, work - capacity * times[-1])
    after += rest**2 / (2 * capacity)
    order = np.argsort((work / np.maximum(weight, 1e-9))[some], kind="stable")
    w, mine = weight[some][order], work[some][order]
    means = (mine.cumsum() - mine / 2) / capacity
    total = float(w @ (means + after[some][order] / mine)) + float(weight[~some] @ alone[~some])
    return ceil(total * (1 - 1e-9) - 1e-6)


def _times_before(problem: Problem) -> list[int]:
    """Return how long before completions it is counted what has to be done by then; 0 first."""
    tuning = parameters.PARAMETERS
    most = max(1, min(tuning.num_times_before, tuning.max_bound_cells // (problem.tails.size + 1)))
    times = np.unique(np.append(np.maximum(0, problem.tails), 0))
    chosen: list[int] = times[np.linspace(0, len(times) - 1, most).astype(np.int64)].tolist()
    return sorted(set(chosen))


def _due(problem: Problem, before: int) -> Floats:
    """Return what part of each job has to be done so long before each completion (jobs, last)."""
    first = np.array([modes.start for modes in problem.modes], dtype=np.int64)
    single = np.array([len(modes) == 1 for modes in problem.modes], dtype=np.bool_)
    length = np.where(single, problem.seconds[first], 1)[:, None]
    rest = np.clip((length - (before - problem.tails)) / length, 0.0, 1.0)
    due: Floats = np.where(problem.led, np.where(single[:, None], rest, np.floor(rest)), 0.0)
    return due


def _floor(work: Floats) -> Ints:
    """Return work rounded down, by more than floats may have added to it.

    What is less than a millionth below a whole number is one: that changes no time at which a whole
    capacity has done a whole number.
    """
    floor: Ints = np.floor(work * (1 - 1e-11) + 1e-6).astype(np.int64)
    return floor


def _done(energy: _Energy, work: Ints, before: int) -> Ints:
    """Return when work that is due so long before a completion allows it; 0 if there is none."""
    done: Ints = np.where(work > 0, energy.done(np.zeros_like(work), work) + before, 0)
    return done


def _least_work(problem: Problem, led: Ints, mine: Ints) -> Ints:
    """Return the least work with which k of the last jobs are done, for k = 1, 2, ... (last,).

    Of each pipeline: no less than the k-th of what leads to one, and than the k least parts; and of
    this its convex envelope, so that the k least steps of all pipelines add up to the least.
    """
    steps: list[int] = []
    for number in range(int(problem.pipeline.max(initial=-1)) + 1):
        inside = problem.pipeline == number
        least = np.maximum(np.sort(led[inside]), np.sort(mine[inside]).cumsum())
        at, rest = 0, [0, *least.tolist()]
        while at < len(rest) - 1:
            slopes = [(rest[k] - rest[at]) // (k - at) for k in range(at + 1, len(rest))]
            slope = min(slopes)
            k = at + 1 + max(i for i, one in enumerate(slopes) if one == slope)
            steps += [slope] * (k - at)
            at = k
    found: Ints = np.sort(np.array(steps, dtype=np.int64)).cumsum()
    return found


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
        done: Ints = np.where(
            work > 0, self._times[step] - (self._before[step] - total) // free, begin
        )
        return done
