"""From a schedule towards a better choice of ways, without losing what it keeps of promises.

A choice that is as good as rows of demand allow may find no leases for some of its jobs, and if
promises were given to those before, the schedule is worth nothing. So here one job after the other
changes its way, or comes in, by chains of moves; where that fails it stays as it was.
"""

from __future__ import annotations

import numpy as np

from placewright.formulations.deadline.chains import Chains
from placewright.formulations.deadline.chart import Chart
from placewright.formulations.deadline.filling import EFFORT, by_worth
from placewright.formulations.deadline.problem import NONE, Ints, Problem, Schedule


def steer(problem: Problem, schedule: Schedule, way: Ints, *, effort: int = EFFORT) -> Schedule:
    """Give jobs the ways (jobs,) of a choice, as far as each is found room for.

    Jobs that the choice refuses leave first, unless that would break a promise. `broken` does not
    rise.
    """
    saved = np.append(problem.loss[problem.job] - problem.lost, 0)
    chart = Chart.of(problem, schedule)
    for job in np.flatnonzero((schedule.way != way) & (saved[schedule.way] == 0)).tolist():
        if schedule.way[job] != NONE:
            chart.take(job)
    chains = Chains(chart, effort)
    wanted = way[(way != chart.way) & (way != NONE)]
    for target in by_worth(problem, wanted).tolist():
        job = int(problem.job[target])
        before = int(chart.way[job])
        if before == NONE:
            chains.insert(target)
        elif saved[target] >= saved[before]:
            leases = chart.take(job)
            if chains.insert(target):
                chains.forget()
            else:
                chart.put(before, leases)
    return chart.schedule()
