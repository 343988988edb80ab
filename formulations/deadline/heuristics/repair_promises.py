"""From the leases of a schedule and what is placed now to promises that the plan keeps.

A job that was to run now and found no place, or one that is slower than expected, takes a later
lease, for which others may move; if there is none, it is promised a later time, or nothing. Whoever
runs now although it need not gives a later lease back. At last everybody runs as early as there is
room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from placewright.formulations.deadline.heuristics.ejection_chains import Chains
from placewright.formulations.deadline.heuristics.list_scheduling import EFFORT
from placewright.formulations.deadline.problem.compile import Admission
from placewright.formulations.deadline.problem.problem import NONE, Ints, Problem, Schedule
from placewright.formulations.deadline.problem.schedule import Chart
from placewright.formulations.session import Place, Promise


@dataclass(frozen=True, slots=True)
class Now:
    """Where a job is in the current lease: its option, and on how many hosts."""

    option: int
    hosts: int


def holding(
    admission: Admission,
    starts: Mapping[int, tuple[int, tuple[Place, ...]]],
    preempted: Mapping[int, int],
) -> dict[int, Now]:
    """Return where the jobs of an admission are after a plan, by their index in its problem."""
    now: dict[int, Now] = {}
    for number, j in enumerate(admission.jobs):
        running = admission.round.jobs[j].running
        if j in starts:
            option, places = starts[j]
            now[number] = Now(option, len({host for _, _, host, _ in places}))
        elif running is not None and j not in preempted:
            now[number] = Now(running.option, len({task.host for task in running.tasks}))
    return now


def settled(admission: Admission, schedule: Schedule, now: Mapping[int, Now]) -> Schedule:
    """Return the schedule with the current lease as it is placed.

    Jobs whose promise cannot be kept that way have a later one, or none. In the result a job may
    run in fewer leases than its way needs, or in more, if its place now is faster or slower.
    """
    problem = _after(admission, now)
    chart = Chart(problem)
    missing = []
    for job in np.flatnonzero(schedule.way != NONE).tolist():
        way = int(schedule.way[job])
        has = np.flatnonzero(schedule.runs[job])
        inside = has[(problem.first[way] <= has) & (has < problem.end[way])]
        if len(inside) >= problem.need[way]:
            chart.put(way, inside[: problem.need[way]])
        else:
            missing.append(way)
    _find(chart, np.array(missing, dtype=np.int64))
    chart = _earliest(chart, now)
    for job in now:
        chart.runs[job, 0] = chart.way[job] != NONE
    return chart.schedule()


def _after(admission: Admission, now: Mapping[int, Now]) -> Problem:
    """Return what the ways need of the leases after the current one; some are not possible."""
    problem = admission.problem
    need, first, end = problem.need.copy(), np.maximum(1, problem.first), problem.end.copy()
    need[admission.fast] = problem.horizon
    holds = np.isin(problem.job, list(now))
    for way in np.flatnonzero(holds).tolist():
        here = now[int(problem.job[way])]
        possible = here.option == admission.option[way]
        if possible:
            need[way], first[way], end[way], possible = admission.after_now(way, here.hosts)
        if not possible:
            need[way] = problem.horizon
    return replace(problem, need=need, first=first, end=np.maximum(first, end))


def _find(chart: Chart, ways: Ints) -> None:
    """Give jobs that miss leases others, for their way or the best one that there is room for.

    Promises of old come first, and then what is worth most.
    """
    problem = chart.problem
    chains = Chains(chart, EFFORT)
    for before in ways[np.lexsort((-problem.value[ways], -problem.loss[problem.job[ways]]))]:
        others = np.flatnonzero(problem.job == problem.job[before])
        others = others[np.lexsort((-problem.value[others], problem.lost[others]))]
        for way in (int(before), *others.tolist()):
            if problem.need[way] == 0:
                chart.put(way, np.zeros(0, dtype=np.int64))
                break
            if chains.insert(way):
                break


def _earliest(chart: Chart, now: Mapping[int, Now]) -> Chart:
    """Let everybody run as early as there is room: due first, first; of equal ones who runs now."""
    problem = chart.problem
    ways = chart.way[chart.way != NONE]
    goes_on = np.isin(problem.job[ways], list(now))
    ways = ways[np.lexsort((~goes_on, problem.end[ways]))].tolist()
    anew = Chart(problem)
    for way in ways:
        leases = anew.leases(way)[: problem.need[way]]
        if len(leases) < problem.need[way]:
            break
        anew.put(way, leases)
    else:
        return anew
    for way in ways:  # too tight for that: each on its own, beside all others
        chart.take(int(problem.job[way]))
        chart.put(way, chart.leases(way)[: problem.need[way]])
    return chart


def promises(
    admission: Admission, schedule: Schedule, now: Mapping[int, Now]
) -> tuple[Promise, ...]:
    """Return the promises of a settled schedule, in the order of the round."""
    told = []
    for number in np.flatnonzero(schedule.way != NONE):
        way, leases = int(schedule.way[number]), np.flatnonzero(schedule.runs[number])
        here = now.get(int(number))
        hosts = None if here is None else here.hosts
        due = admission.due[way]
        told.append(
            Promise(
                job=admission.jobs[number],
                option=int(admission.option[way]),
                at=due.at,
                value=due.value,
                finish=admission.finish(way, leases, hosts),
                leases=intervals(leases),
            )
        )
    return tuple(told)


def intervals(leases: Ints) -> tuple[tuple[int, int], ...]:
    """Return ascending leases as half-open intervals."""
    breaks = np.flatnonzero(np.diff(leases) > 1)
    first = leases[np.concatenate([[0], breaks + 1])] if len(leases) else leases
    end = leases[np.concatenate([breaks, [-1]])] + 1 if len(leases) else leases
    return tuple(zip(first.tolist(), end.tolist(), strict=True))
