"""Admission control: which promises to give; least value broken first, then most value admitted.

1. Promises that jobs have are scheduled first. Where they do not all fit, the jobs that have one
   are a problem of their own, whose value is what is kept of each promise; its bound bounds
   `broken`.
2. The master LP over all alternatives, with as much kept as the best schedule keeps, bounds
   `admitted`, and its solutions are turned into schedules (`heuristics/master_subproblem.py`).

Demand-bound rows are exact where every job asks one GPU of one row, all may begin at once and
capacity never falls. Elsewhere they are a relaxation: a problem is solved exactly where its bound
is reached, or where the time-indexed model ends with a proof.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from placewright.array_types import Bools
from placewright.formulations.deadline.heuristics.list_scheduling import (
    ORDERS,
    complete,
    list_schedule,
    objective,
)
from placewright.formulations.deadline.heuristics.master_subproblem import (
    MasterSubproblem,
    UpperBound,
    is_close,
)
from placewright.formulations.deadline.models.demand_bound import (
    DemandRows,
    feasible_alone,
    fits_in_memory,
)
from placewright.formulations.deadline.problem.problem import (
    ADMITTED,
    BROKEN,
    NONE,
    Problem,
    Schedule,
)
from placewright.formulations.session import Session


@dataclass(frozen=True, slots=True)
class AdmissionBound:
    """No schedule that breaks no more than `broken` beats `value` in `term`.

    `broken` is None for the term `broken` itself. `certified`: recomputed in our own code;
    otherwise claimed by a solver.
    """

    term: str
    value: int
    broken: int | None
    certified: bool


def admit(
    problem: Problem, session: Session, known: Schedule | None = None
) -> Iterator[Schedule | AdmissionBound]:
    """Yield ever better schedules, by `broken` and then `admitted`, and bounds of both terms.

    The first schedule comes at once. It ends when both terms are proven (within the session's gap),
    nothing more is found, or the session's time is over.

    Parameters
    ----------
    known
        A schedule of promises that the last round has left; the first one breaks no more than it.
    """
    feasible = feasible_alone(problem)
    first = _schedule_promises(problem, feasible)
    if known is not None and known.broken(problem) < first.broken(problem):
        first = known
    best = complete(problem, first, expired=session.expired)
    if known is not None and objective(problem, known) > objective(problem, best):
        best = known
    yield best
    kept: Schedule | None = None
    for step in _minimise_broken(problem, feasible, best, session):
        if isinstance(step, Schedule):
            kept = step
        else:
            yield step
    if kept is not None:
        best = complete(problem, kept, expired=session.expired)
        yield best
    broken = best.broken(problem)
    for found in _maximise_admitted(problem, feasible, best, session):
        if isinstance(found, Schedule):
            yield found
        else:
            yield AdmissionBound(ADMITTED, found.value, broken, found.certified)


def _schedule_promises(problem: Problem, feasible: Bools) -> Schedule:
    """Return a schedule of the promises that jobs have, by list scheduling alone."""
    lossless = np.flatnonzero(feasible & (problem.loss[problem.job] > 0) & (problem.lost == 0))
    time = problem.end[lossless] - problem.first[lossless]
    # Of the alternatives that lose nothing: the smallest demand, or the earliest end.
    demand = problem.need[lossless] * problem.demand[lossless].sum(axis=1)
    alternative = np.full(problem.jobs, NONE, dtype=np.int64)
    best = list_schedule(problem, alternative)
    demands = DemandRows(problem) if fits_in_memory(problem) else None
    for order in (
        np.lexsort((time, -demand)),
        np.lexsort((time, -demand, -problem.need[lossless])),
    ):
        before, alternative = alternative, np.full(problem.jobs, NONE, dtype=np.int64)
        alternative[problem.job[lossless[order]]] = lossless[order]
        if (alternative == before).all():
            break
        chosen = np.zeros(problem.alternatives)
        chosen[alternative[alternative != NONE]] = 1.0
        if demands is not None and any(demands.violated(chosen)):
            # They cannot all be kept, so whom to push out is decided with all of them in view.
            without_promises = replace(problem, loss=np.zeros_like(problem.loss))
            found = list_schedule(without_promises, alternative, orders=ORDERS[:1], work_limit=0)
        else:
            found = list_schedule(problem, alternative)
        if found.broken(problem) < best.broken(problem):
            best = found
        if not best.broken(problem):
            break
    return best


def _minimise_broken(
    problem: Problem, feasible: Bools, kept: Schedule, session: Session
) -> Iterator[Schedule | AdmissionBound]:
    """Yield schedules that break less value than this one, and bounds of `broken`."""
    total = int(problem.loss.sum())
    if not kept.broken(problem):
        yield AdmissionBound(BROKEN, 0, None, certified=True)
        return
    saved = problem.loss[problem.job] - problem.lost
    alternatives = np.flatnonzero(feasible & (saved > 0))
    own = replace(
        problem.restrict(alternatives),
        loss=np.zeros_like(problem.loss),
        value=saved[alternatives],
        classes=None,
    )
    # The last entries stand for NONE.
    inside = np.full(problem.alternatives + 1, NONE)
    inside[alternatives] = np.arange(len(alternatives))
    outside = np.append(alternatives, NONE)
    alternative = inside[kept.alternative]
    begin = Schedule(alternative, kept.runs & (alternative != NONE)[:, None])
    for step in _maximise_admitted(own, np.ones(len(alternatives), dtype=np.bool_), begin, session):
        if isinstance(step, Schedule):
            yield Schedule(outside[step.alternative], step.runs)
        else:
            yield AdmissionBound(BROKEN, max(0, total - step.value), None, step.certified)


def bound_admitted(problem: Problem, best: Schedule, session: Session) -> int | None:
    """Return a certified bound of `admitted` for all schedules that break no more than one."""
    return MasterSubproblem(problem, feasible_alone(problem), best, session).relaxation_bound()


def _maximise_admitted(
    problem: Problem, feasible: Bools, best: Schedule, session: Session
) -> Iterator[Schedule | UpperBound]:
    """Yield schedules that admit more and break no more, and bounds of `admitted`."""
    bound: int | None = None
    for step in MasterSubproblem(problem, feasible, best, session).steps():
        if isinstance(step, Schedule):
            best = step
        elif bound is None or step.value < bound:
            bound = step.value
        else:
            continue
        yield step
        if bound is not None and is_close(problem, bound, best, session.gap):
            return
