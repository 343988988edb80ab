"""Repair: from a schedule and the placed current lease to promises that the plan keeps.

A job that was to run now and was not placed, or is slower than assumed, takes a later lease, by
ejection chains; if there is none, it gets a later due time, or no promise. A job that runs now
although it need not gives a later lease back. Finally all jobs are shifted left, to the earliest
leases with capacity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.deadline.heuristics.earliest_offers import Offers
from placewright.formulations.deadline.heuristics.ejection_chains import EjectionChains
from placewright.formulations.deadline.problem.compile import Admission
from placewright.formulations.deadline.problem.problem import NONE, Problem, Schedule, intervals
from placewright.formulations.deadline.problem.schedule import ScheduleState
from placewright.formulations.plan_messages import Candidate, Place, Promise


def with_promises(
    admission: Admission, plan: Candidate, schedule: Schedule, offers: Offers
) -> tuple[Candidate, Schedule]:
    """Return a plan of the current lease with promises and offers, and the schedule that it keeps.

    `schedule` is what the plan was made for; it is repaired for the places that the plan has.
    """
    places = current_places(admission, plan.starts, plan.preempted)
    kept = repair_promises(admission, schedule, places)
    promises = promises_of(admission, kept, places)
    return replace(plan, promises=promises, offers=offers.for_refused(kept)), kept


@dataclass(frozen=True, slots=True)
class CurrentPlace:
    """Where a job is in the current lease: its option, and on how many hosts."""

    option: int
    hosts: int


def current_places(
    admission: Admission,
    starts: Mapping[int, tuple[int, tuple[Place, ...]]],
    preempted: Mapping[int, int],
) -> dict[int, CurrentPlace]:
    """Return the option and number of hosts of each job that runs after a plan, by its index."""
    current: dict[int, CurrentPlace] = {}
    for number, j in enumerate(admission.jobs):
        running = admission.round.jobs[j].running
        if j in starts:
            option, places = starts[j]
            current[number] = CurrentPlace(option, len({host for _, _, host, _ in places}))
        elif running is not None and j not in preempted:
            current[number] = CurrentPlace(
                running.option, len({task.host for task in running.tasks})
            )
    return current


def repair_promises(
    admission: Admission, schedule: Schedule, current: Mapping[int, CurrentPlace]
) -> Schedule:
    """Return the schedule repaired for the current lease as placed.

    Jobs whose promise cannot be kept that way have a later one, or none. In the result a job may
    run in fewer or more leases than its alternative needs, since its place now is faster or slower.
    """
    problem = _residual_problem(admission, current)
    state = ScheduleState(problem)
    missing = []
    for job in np.flatnonzero(schedule.alternative != NONE).tolist():
        alternative = int(schedule.alternative[job])
        has = np.flatnonzero(schedule.runs[job])
        inside = has[(problem.first[alternative] <= has) & (has < problem.end[alternative])]
        if len(inside) >= problem.need[alternative]:
            state.add(alternative, inside[: problem.need[alternative]])
        else:
            missing.append(alternative)
    _insert_missing(state, np.array(missing, dtype=np.int64))
    state = _left_shift(state, current)
    for job in current:
        state.runs[job, 0] = state.alternative[job] != NONE
    return state.schedule()


def _residual_problem(admission: Admission, current: Mapping[int, CurrentPlace]) -> Problem:
    """Return the problem of the leases after the current one; some alternatives need too many."""
    problem = admission.problem
    need, first, end = problem.need.copy(), np.maximum(1, problem.first), problem.end.copy()
    need[admission.fast] = problem.horizon
    holds = np.isin(problem.job, list(current))
    for alternative in np.flatnonzero(holds).tolist():
        place = current[int(problem.job[alternative])]
        feasible = place.option == admission.option[alternative]
        if feasible:
            need[alternative], first[alternative], end[alternative], feasible = (
                admission.after_current_lease(alternative, place.hosts)
            )
        if not feasible:
            need[alternative] = problem.horizon
    return replace(problem, need=need, first=first, end=np.maximum(first, end))


def _insert_missing(state: ScheduleState, alternatives: Ints) -> None:
    """Insert jobs that miss leases, by their alternative or the best other one that fits.

    Existing promises come first, then the largest value.
    """
    problem = state.problem
    chains = EjectionChains(state)
    for before in alternatives[
        np.lexsort((-problem.counted[alternatives], -problem.loss[problem.job[alternatives]]))
    ]:
        others = np.flatnonzero(problem.job == problem.job[before])
        others = others[np.lexsort((-problem.counted[others], problem.lost[others]))]
        for alternative in (int(before), *others.tolist()):
            if problem.need[alternative] == 0:
                state.add(alternative, np.zeros(0, dtype=np.int64))
                break
            if chains.insert(alternative):
                break


def _left_shift(state: ScheduleState, current: Mapping[int, CurrentPlace]) -> ScheduleState:
    """Shift all jobs to their earliest leases, by due time; of ties those that run now first."""
    problem = state.problem
    alternatives = state.alternative[state.alternative != NONE]
    runs_now = np.isin(problem.job[alternatives], list(current))
    alternatives = alternatives[np.lexsort((~runs_now, problem.end[alternatives]))].tolist()
    anew = ScheduleState(problem)
    for alternative in alternatives:
        leases = anew.free_leases(alternative)[: problem.need[alternative]]
        if len(leases) < problem.need[alternative]:
            break
        anew.add(alternative, leases)
    else:
        return anew
    for alternative in alternatives:  # too tight for that: each on its own, beside all others
        state.remove(int(problem.job[alternative]))
        state.add(alternative, state.free_leases(alternative)[: problem.need[alternative]])
    return state


def promises_of(
    admission: Admission, schedule: Schedule, current: Mapping[int, CurrentPlace]
) -> tuple[Promise, ...]:
    """Return the promises of a repaired schedule, in the order of the round."""
    promises = []
    for number in np.flatnonzero(schedule.alternative != NONE):
        alternative, leases = (
            int(schedule.alternative[number]),
            np.flatnonzero(schedule.runs[number]),
        )
        place = current.get(int(number))
        hosts = None if place is None else place.hosts
        due = admission.due[alternative]
        promises.append(
            Promise(
                job=admission.jobs[number],
                option=int(admission.option[alternative]),
                at=due.at,
                value=due.value,
                finish=admission.finish(alternative, leases, hosts),
                leases=intervals(leases),
            )
        )
    return tuple(promises)
