"""The deadline formulation: promises by admission, leases by filling, the current one by gangs.

Exact for which promises fit the counted capacity of the leases, as far as `admission.py` says; the
current lease is then really placed, and whatever that costs shows in the gap.

References
----------
Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs", SoCC'21.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.admission import ADMITTED, BROKEN, AdmissionBound, admit
from placewright.formulations.deadline.bounds.trivial import trivial_bounds
from placewright.formulations.deadline.heuristics.list_scheduling import objective
from placewright.formulations.deadline.heuristics.place_current_lease import (
    place_current_lease,
)
from placewright.formulations.deadline.models.whole.solve import solve_integrated
from placewright.formulations.deadline.problem.compile import Admission
from placewright.formulations.deadline.problem.problem import NONE, Problem, Schedule
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session


def run(admission: Admission, session: Session) -> Iterator[Candidate | Bound]:
    """Yield plans, each of better promises, and bounds.

    Parameters
    ----------
    admission
        What there is to promise.
    session
        Clock and solver, and who decides inner rounds of gangs.
    """
    bounds: list[Bound] = []
    for step in _search_admission(admission, session):
        if isinstance(step, Bound):
            bounds.append(step)
        yield step
    if session.best is not None and not _proven(session.best, bounds):
        yield from solve_integrated(admission, session)


def _proven(best: Mapping[str, int], bounds: Sequence[Bound]) -> bool:
    """Whether no plan is better than the best in what is broken, nor then in what is admitted."""
    least = max((one.value for one in bounds if one.term == BROKEN), default=0.0)
    most = [
        one.value
        for one in bounds
        if one.term == ADMITTED and all(best[term] <= held for term, held in one.holds)
    ]
    # A policy may leave out either of these terms.
    unbroken = best.get(BROKEN, 0) <= least
    return unbroken and (ADMITTED not in best or min(most) <= best[ADMITTED])


def _search_admission(admission: Admission, session: Session) -> Iterator[Candidate | Bound]:
    """Yield plans that place the current lease of chosen promises, and bounds of the choice.

    Promises that are kept by steady ways come first, for where the current lease can be placed they
    are surely kept. All ways together are then asked for bounds, and for what would be better.
    """
    yield from trivial_bounds(admission)
    problem, steady = admission.problem, admission.steady_only()
    known = admission.known
    choosing = replace(
        session, deadline=_deadline_after(session, 1 - parameters.PARAMETERS.placement_share)
    )
    first = best = None
    if steady is not admission:
        alternatives = np.append(np.flatnonzero(admission.steady), NONE)
        session_part = replace(
            choosing, deadline=_deadline_after(choosing, parameters.PARAMETERS.steady_share)
        )
        for step in _choose(steady.problem, session_part, known):
            if isinstance(step, Schedule):
                known = Schedule(alternatives[step.alternative], step.runs)
                if (
                    first is None
                    and steady.problem.alternatives
                    and problem.jobs <= parameters.PARAMETERS.max_early_plan_jobs
                ):
                    yield from islice(place_current_lease(admission, known, session), 1)
                first = known
        session.wall_stopped |= session_part.wall_stopped
    for step in _choose(problem, choosing, known):
        if isinstance(step, Bound):
            yield step
            continue
        if (
            first is best is None
            and problem.alternatives
            and problem.jobs <= parameters.PARAMETERS.max_early_plan_jobs
        ):
            yield from islice(place_current_lease(admission, step, session), 1)
        best = step
    session.wall_stopped |= choosing.wall_stopped
    if (
        first is not None
        and best is not None
        and objective(problem, best) > objective(problem, first)
    ):
        session_part = replace(
            session, deadline=_deadline_after(session, parameters.PARAMETERS.steady_share)
        )
        yield from place_current_lease(admission, first, session_part)
        session.wall_stopped |= session_part.wall_stopped
    elif first is not None:
        best = first
    if best is not None:
        yield from place_current_lease(admission, best, session)


def _choose(
    problem: Problem, session: Session, known: Schedule | None
) -> Iterator[Schedule | Bound]:
    """Yield ever better schedules of a problem of the admission, and bounds."""
    if not problem.alternatives:
        yield Schedule(
            np.full(problem.jobs, NONE, dtype=np.int64),
            np.zeros((problem.jobs, problem.horizon), dtype=np.bool_),
        )
        yield Bound(BROKEN, float(problem.loss.sum()), certified=True)
        yield Bound(ADMITTED, 0.0, certified=True)
        return
    for step in admit(problem, session, known):
        if isinstance(step, AdmissionBound):
            holds = () if step.broken is None else ((BROKEN, step.broken),)
            yield Bound(step.term, float(step.value), holds, step.certified)
        else:
            yield step


def _deadline_after(session: Session, share: float) -> float:
    """Return when a share of the session's time is over."""
    return session.deadline - (1 - share) * max(0.0, session.before_deadline())
