"""Path relinking: from a schedule towards a better selection, keeping the promises that it keeps.

A selection that is as good as demand-bound rows allow may find no leases for some of its jobs; if
those jobs had promises, its schedule is worthless. So from the incumbent one job after another
switches to its alternative of the selection, or is inserted, by ejection chains; where that fails
the job keeps what it had.

References
----------
Glover, Laguna and Marti, "Fundamentals of scatter search and path relinking", Control and
Cybernetics 29, 2000.
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.heuristics.ejection_chains import EjectionChains
from placewright.formulations.deadline.heuristics.list_scheduling import by_density
from placewright.formulations.deadline.problem.problem import NONE, Problem, Schedule
from placewright.formulations.deadline.problem.schedule import ScheduleState


def relink(
    problem: Problem,
    schedule: Schedule,
    alternative: Ints,
    *,
    work_limit: int | None = None,
) -> Schedule:
    """Switch jobs to the alternatives (jobs,) of a guiding selection, as far as leases are found.

    Jobs that the choice refuses leave first, unless that would break a promise. `broken` does not
    rise.
    """
    saved = np.append(problem.loss[problem.job] - problem.lost, 0)
    state = ScheduleState.of(problem, schedule)
    for job in np.flatnonzero(
        (schedule.alternative != alternative) & (saved[schedule.alternative] == 0)
    ).tolist():
        if schedule.alternative[job] != NONE:
            state.remove(job)
    chains = EjectionChains(state, work_limit)
    waiting = by_density(
        problem, alternative[(alternative != state.alternative) & (alternative != NONE)]
    )
    # Jobs with more time leave capacity to others.
    before = state.alternative[problem.job[waiting]]
    later = (before != NONE) & (problem.end[waiting] > problem.end[before])
    for _ in range(parameters.PARAMETERS.max_relinking_passes):
        waiting = np.concatenate([waiting[later], waiting[~later]])
        moved = np.array(
            [_switch(chains, int(target), saved) for target in waiting], dtype=np.bool_
        )
        if not moved.any():
            break
        waiting = waiting[~moved]
        later = np.zeros(len(waiting), dtype=np.bool_)
    return state.schedule()


def _switch(chains: EjectionChains, target: int, saved: Ints) -> bool:
    """Switch a job to an alternative, if leases are found and no promise is broken by it."""
    state = chains.state
    job = int(state.problem.job[target])
    before = int(state.alternative[job])
    if before == NONE:
        return chains.insert(target)
    if saved[target] < saved[before]:
        return False
    leases = state.remove(job)
    chains.forget_rejected()
    if chains.insert(target):
        return True
    state.add(before, leases)
    return False


def restore_promises(
    problem: Problem,
    schedule: Schedule,
    must_keep: Ints,
    *,
    work_limit: int | None = None,
) -> Schedule:
    """Bring back broken promises, of which `must_keep` (jobs,) of the value should be kept.

    For a while all jobs have all the time that what they keep of promises allows, so that they can
    move out of the alternative; afterwards each takes back the time that it had, if it can.
    """
    saved = np.append(problem.loss[problem.job] - problem.lost, 0)
    state = ScheduleState.of(problem, schedule)
    chains = EjectionChains(state, work_limit)
    relaxed = _relax_deadlines(problem, schedule.alternative, must_keep)
    for job in np.flatnonzero(relaxed != schedule.alternative).tolist():
        state.add(int(relaxed[job]), state.remove(job))
    lacking = np.flatnonzero(
        (must_keep[problem.job] > saved[schedule.alternative[problem.job]])
        & (saved[:-1] >= must_keep[problem.job])
    )
    for target in by_density(problem, lacking).tolist():
        if saved[state.alternative[problem.job[target]]] < must_keep[problem.job[target]]:
            _force_in(chains, target, saved, must_keep)
    moved = np.flatnonzero(
        (state.alternative != schedule.alternative) & (schedule.alternative != NONE)
    )
    for target in by_density(problem, schedule.alternative[moved]).tolist():
        job = int(problem.job[target])
        if saved[target] < min(must_keep[job], saved[state.alternative[job]]):
            continue
        if state.alternative[job] != NONE and not state.runs[job, problem.end[target] :].any():
            state.add(target, state.remove(job))
        else:
            _switch(chains, target, saved)
    return state.schedule()


def _force_in(chains: EjectionChains, target: int, saved: Ints, must_keep: Ints) -> None:
    """Switch a job to an alternative, if need be in place of jobs that have nothing to keep."""
    if _switch(chains, target, saved):
        return
    state, before = chains.state, chains.state.copy()
    window = slice(state.problem.first[target], state.problem.end[target])
    there = state.runs[:, window].any(axis=1) & (must_keep == 0)
    for job in np.flatnonzero(there).tolist():
        state.remove(job)
    chains.forget_rejected()
    if not _switch(chains, target, saved):
        state.restore(before)


def _relax_deadlines(problem: Problem, alternative: Ints, must_keep: Ints) -> Ints:
    """Return for each job the alternative of equal demand and latest deadline, (jobs,)."""
    alternatives = np.flatnonzero(alternative[problem.job] != NONE)
    own = alternative[problem.job[alternatives]]
    same_demand = (problem.need[alternatives] == problem.need[own]) & (
        problem.first[alternatives] <= problem.first[own]
    )
    same_demand &= (problem.demand[alternatives] == problem.demand[own]).all(axis=1)
    saved = problem.loss[problem.job] - problem.lost
    same_demand &= saved[alternatives] >= np.minimum(
        must_keep[problem.job[alternatives]], saved[own]
    )
    alternatives = alternatives[same_demand & (problem.end[alternatives] >= problem.end[own])]
    alternatives = alternatives[np.argsort(problem.end[alternatives], kind="stable")]
    relaxed = alternative.copy()
    relaxed[problem.job[alternatives]] = alternatives
    return relaxed
