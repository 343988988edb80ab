"""From a schedule towards a better choice of ways, without losing what it keeps of promises.

A choice that is as good as rows of demand allow may find no leases for some of its jobs, and if
promises were given to those before, the schedule is worth nothing. So here one job after the other
changes its way, or comes in, by chains of moves; where that fails it stays as it was.
"""

from __future__ import annotations

import numpy as np

from placewright.formulations.deadline.heuristics.ejection_chains import Chains
from placewright.formulations.deadline.heuristics.list_scheduling import EFFORT, by_worth
from placewright.formulations.deadline.problem.problem import NONE, Ints, Problem, Schedule
from placewright.formulations.deadline.problem.schedule import Chart

PASSES = 3
"""How often those who found no room ask again, after others have moved."""


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
    waiting = by_worth(problem, way[(way != chart.way) & (way != NONE)])
    # Whoever gets more time makes room for others.
    before = chart.way[problem.job[waiting]]
    later = (before != NONE) & (problem.end[waiting] > problem.end[before])
    for _ in range(PASSES):
        waiting = np.concatenate([waiting[later], waiting[~later]])
        moved = np.array(
            [_change(chains, int(target), saved) for target in waiting], dtype=np.bool_
        )
        if not moved.any():
            break
        waiting = waiting[~moved]
        later = np.zeros(len(waiting), dtype=np.bool_)
    return chart.schedule()


def _change(chains: Chains, target: int, saved: Ints) -> bool:
    """Let the way's job run by it, if there is room, and no promise is broken by it."""
    chart = chains.chart
    job = int(chart.problem.job[target])
    before = int(chart.way[job])
    if before == NONE:
        return chains.insert(target)
    if saved[target] < saved[before]:
        return False
    leases = chart.take(job)
    chains.forget()
    if chains.insert(target):
        return True
    chart.put(before, leases)
    return False


def mend(problem: Problem, schedule: Schedule, level: Ints, *, effort: int = EFFORT) -> Schedule:
    """Bring back promises that were lost, of which `level` (jobs,) should be kept.

    For a while all jobs have all the time that what they keep of promises allows, so that they can
    move out of the way; afterwards each takes back the time that it had, if it can.
    """
    saved = np.append(problem.loss[problem.job] - problem.lost, 0)
    chart = Chart.of(problem, schedule)
    chains = Chains(chart, effort)
    loosest = _loosest(problem, schedule.way, level)
    for job in np.flatnonzero(loosest != schedule.way).tolist():
        chart.put(int(loosest[job]), chart.take(job))
    lacking = np.flatnonzero(
        (level[problem.job] > saved[schedule.way[problem.job]]) & (saved[:-1] >= level[problem.job])
    )
    for target in by_worth(problem, lacking).tolist():
        if saved[chart.way[problem.job[target]]] < level[problem.job[target]]:
            _force(chains, target, saved, level)
    moved = np.flatnonzero((chart.way != schedule.way) & (schedule.way != NONE))
    for target in by_worth(problem, schedule.way[moved]).tolist():
        job = int(problem.job[target])
        if saved[target] < min(level[job], saved[chart.way[job]]):
            continue
        if chart.way[job] != NONE and not chart.runs[job, problem.end[target] :].any():
            chart.put(target, chart.take(job))
        else:
            _change(chains, target, saved)
    return chart.schedule()


def _force(chains: Chains, target: int, saved: Ints, level: Ints) -> None:
    """Let the way's job run by it, if need be in the place of jobs that have nothing to keep."""
    if _change(chains, target, saved):
        return
    chart, before = chains.chart, chains.chart.copy()
    window = slice(chart.problem.first[target], chart.problem.end[target])
    there = chart.runs[:, window].any(axis=1) & (level == 0)
    for job in np.flatnonzero(there).tolist():
        chart.take(job)
    chains.forget()
    if not _change(chains, target, saved):
        chart.restore(before)


def _loosest(problem: Problem, way: Ints, level: Ints) -> Ints:
    """Return for each job with a way the one with most time among those that ask the same."""
    ways = np.flatnonzero(way[problem.job] != NONE)
    own = way[problem.job[ways]]
    alike = (problem.need[ways] == problem.need[own]) & (problem.first[ways] <= problem.first[own])
    alike &= (problem.demand[ways] == problem.demand[own]).all(axis=1)
    saved = problem.loss[problem.job] - problem.lost
    alike &= saved[ways] >= np.minimum(level[problem.job[ways]], saved[own])
    ways = ways[alike & (problem.end[ways] >= problem.end[own])]
    ways = ways[np.argsort(problem.end[ways], kind="stable")]
    loosest = way.copy()
    loosest[problem.job[ways]] = ways
    return loosest
