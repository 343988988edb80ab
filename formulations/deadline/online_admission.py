"""Online admission of one arriving job: its best due time, else the earliest finish, that fits.

Other jobs may be moved to other leases by ejection chains; no promise is touched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placewright.formulations.deadline.heuristics.ejection_chains import EjectionChains
from placewright.formulations.deadline.problem.problem import Problem, Schedule
from placewright.formulations.deadline.problem.schedule import ScheduleState


@dataclass(frozen=True, slots=True)
class Arrival:
    """An alternative by which one more job fits, with its schedule and the end of its leases."""

    alternative: int
    end: int
    schedule: Schedule


def admit_arrival(problem: Problem, schedule: Schedule, job: int) -> Arrival | None:
    """Return the best alternative that fits for a job without one; all other promises are kept.

    None if none was found; with gangs of several sizes one may exist nevertheless.
    """
    alternatives = np.flatnonzero(problem.job == job)
    for alternative in alternatives[
        np.argsort(-problem.value[alternatives], kind="stable")
    ].tolist():
        found = _insert(problem, schedule, alternative)
        if found is not None:
            return Arrival(alternative, int(problem.end[alternative]), found)
    return None


def admit_earliest(problem: Problem, schedule: Schedule, job: int) -> Arrival | None:
    """Return a job's alternative of earliest end that fits, of any value.

    The ends of the alternatives do not matter. None if the job does not fit before the horizon.
    """
    best: Arrival | None = None
    for alternative in np.flatnonzero(problem.job == job).tolist():
        low = int(problem.first[alternative] + problem.need[alternative])
        high = problem.horizon if best is None else best.end - 1
        while low <= high:
            end = (low + high) // 2
            ends = problem.end.copy()
            ends[alternative] = end
            found = _insert(replace(problem, end=ends), schedule, alternative)
            if found is None:
                low = end + 1
            else:
                best, high = Arrival(alternative, end, found), end - 1
    return best


def _insert(problem: Problem, schedule: Schedule, alternative: int) -> Schedule | None:
    state = ScheduleState.of(problem, schedule)
    return state.schedule() if EjectionChains(state).insert(alternative) else None
