"""One job arrives: is there room for it beside all promises, by when, and if not, by when there is.

Other jobs may run in other leases than planned, along chains of moves; no promise is touched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placewright.formulations.deadline.heuristics.ejection_chains import Chains
from placewright.formulations.deadline.heuristics.list_scheduling import EFFORT
from placewright.formulations.deadline.problem.problem import Problem, Schedule
from placewright.formulations.deadline.problem.schedule import Chart


@dataclass(frozen=True, slots=True)
class Arrival:
    """A way by which one more job fits, and the schedule with it; its leases end before `end`."""

    way: int
    end: int
    schedule: Schedule


def arrival(problem: Problem, schedule: Schedule, job: int) -> Arrival | None:
    """Return the best way for a job that has none yet, beside all that is promised.

    None if no way was found; with gangs of unlike sizes there may be one all the same.
    """
    ways = np.flatnonzero(problem.job == job)
    for way in ways[np.argsort(-problem.value[ways], kind="stable")].tolist():
        found = _inserted(problem, schedule, way)
        if found is not None:
            return Arrival(way, int(problem.end[way]), found)
    return None


def earliest(problem: Problem, schedule: Schedule, job: int) -> Arrival | None:
    """Return the way of a job that could end before the earliest lease, whatever it is worth.

    The ends of the ways do not matter. None if the job does not fit before the horizon.
    """
    best: Arrival | None = None
    for way in np.flatnonzero(problem.job == job).tolist():
        low = int(problem.first[way] + problem.need[way])
        high = problem.horizon if best is None else best.end - 1
        while low <= high:
            end = (low + high) // 2
            ends = problem.end.copy()
            ends[way] = end
            found = _inserted(replace(problem, end=ends), schedule, way)
            if found is None:
                low = end + 1
            else:
                best, high = Arrival(way, end, found), end - 1
    return best


def _inserted(problem: Problem, schedule: Schedule, way: int) -> Schedule | None:
    chart = Chart.of(problem, schedule)
    return chart.schedule() if Chains(chart, EFFORT).insert(way) else None
