"""Multi-mode RCPSP with interval variables: exact for all schedules within the counts.

Every unit of a mode has an interval; those of a job with one mode begin in order, as they are
alike. What runs already takes its part as intervals that are fixed.

    min  makespan  or  sum_j weight_j end_j
    s.t. sum_m x_jm = 1,   begin_jmu + seconds_m <= end_j  if x_jm
         end_j <= begin_kmu  for j before k
         cumulative(row r): at any time, the units that run ask at most free_r
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.stages.problem import COMPLETION, MAKESPAN, Problem, Schedule
from placewright.solver import ALWAYS, Arrays, Intervals, Model


@dataclass(frozen=True, slots=True)
class IntervalModel:
    """The model and its columns: `begin` (units,), `chosen` (modes,), `end` (jobs,)."""

    problem: Problem
    model: Model
    unit_mode: Ints  # (units,): the mode of each unit; those of one mode lie together
    begin: Ints
    latest: Ints  # (units,): when each begins at the latest
    chosen: Ints
    end: Ints
    makespan: int
    zero: int  # A column that is 0

    def arrays(self, term: str) -> Arrays:
        """Return the model with a term as the objective."""
        return replace(self.model.arrays(term), intervals=self._intervals())

    def _intervals(self) -> Intervals:
        problem = self.problem
        steps = len(problem.times) - 1
        # Each step is a fixed interval from 0 to its end, with what ends there.
        missing = np.diff(problem.free, axis=0)
        single = np.bincount(problem.job, minlength=len(problem.jobs))[problem.job] == 1
        present = np.where(single, ALWAYS, self.chosen)[self.unit_mode]
        return Intervals(
            start=np.concatenate([self.begin, np.full(steps, self.zero)]),
            size=np.concatenate([problem.seconds[self.unit_mode], problem.times[1:]]),
            present=np.concatenate([present, np.full(steps, ALWAYS)]),
            demand=np.concatenate([problem.demand[self.unit_mode], missing]),
            capacity=problem.free[-1],
        )

    def values_of(self, schedule: Schedule) -> Floats:
        """Return a schedule as values of the columns, as a start for the solver."""
        problem = self.problem
        values = np.zeros(self.model.columns)
        ends = problem.ends(schedule)
        values[self.end] = ends
        values[self.chosen[schedule.mode]] = 1.0
        values[self.makespan] = problem.values(schedule)[MAKESPAN]
        values[self.begin] = self.latest
        first = np.searchsorted(self.unit_mode, schedule.mode)
        for w in np.argsort(schedule.begin, kind="stable").tolist():
            j, units = int(schedule.job[w]), int(schedule.units[w])
            values[self.begin[first[j] : first[j] + units]] = schedule.begin[w]
            first[j] += units
        return values

    def schedule_of(self, values: Floats) -> Schedule:
        """Return the schedule at a point of the model."""
        chosen = np.flatnonzero(values[self.chosen] > 0.5)
        mode = chosen[np.argsort(self.problem.job[chosen])]
        mine = np.isin(self.unit_mode, mode)
        job = self.problem.job[self.unit_mode[mine]]
        begin = np.rint(values[self.begin[mine]]).astype(np.int64)
        (job, begin), units = np.unique(np.stack([job, begin]), axis=1, return_counts=True)
        return Schedule(mode, job, begin, units)


def build(problem: Problem, horizon: int, least: int) -> IntervalModel:
    """Return the model of schedules that end by a horizon, none before `least`."""
    model, jobs = Model(), np.arange(len(problem.jobs))
    unit_mode = np.repeat(np.arange(len(problem.job)), problem.units)
    head, tail = problem.head, problem.tail
    owner, seconds = problem.job[unit_mode], problem.seconds[unit_mode]
    several = np.bincount(problem.job, minlength=len(jobs)) > 1
    # Units of a mode that is not chosen are anywhere, and wait for nobody.
    latest = horizon - seconds - np.where(several[owner], 0, tail[owner])
    latest = np.where(several[owner], np.maximum(latest, head[owner]), latest)
    begin = model.variables("begin", len(unit_mode), lower=head[owner], upper=latest)
    inside = (head + tail)[problem.job] + problem.least <= horizon
    chosen = model.variables("chosen", len(problem.job), lower=~several[problem.job], upper=inside)
    end = model.variables("end", len(jobs), lower=head + problem.shortest, upper=horizon - tail)
    makespan = int(model.variables("makespan", 1, lower=least, upper=horizon)[0])
    zero = int(model.variables("zero", 1, upper=0)[0])
    one = model.rows("one mode", len(jobs), lower=1, upper=1)
    model.add(one[problem.job], chosen, 1)
    done = model.rows("done", len(unit_mode), lower=seconds, when=chosen[unit_mode])
    model.add(done, end[owner], 1)
    model.add(done, begin, -1)
    same = np.flatnonzero(unit_mode[:-1] == unit_mode[1:])
    ordered = model.rows("ordered", len(same), lower=0)
    model.add(ordered, begin[same + 1], 1)
    model.add(ordered, begin[same], -1)
    firsts = np.searchsorted(unit_mode, np.arange(len(problem.job)))
    pair, mode = _pairs(problem)
    waits = model.rows("waits", len(pair), lower=0, when=chosen[mode])
    model.add(waits, begin[firsts[mode]], 1)
    model.add(waits, end[problem.before[pair]], -1)
    over = model.rows("over", len(jobs), lower=0)
    model.add(over, makespan, 1)
    model.add(over, end, -1)
    model.term(MAKESPAN, [makespan], 1, sense="min")
    model.term(COMPLETION, end, problem.weight, sense="min", constant=problem.held_completion)
    return IntervalModel(problem, model, unit_mode, begin, latest, chosen, end, makespan, zero)


def _pairs(problem: Problem) -> tuple[Ints, Ints]:
    """Return each pair of jobs with each mode of the second one."""
    found = [
        (pair, mode) for pair, k in enumerate(problem.after.tolist()) for mode in problem.modes[k]
    ]
    pair, mode = np.array(found, dtype=np.int64).reshape(-1, 2).T
    return pair, mode
