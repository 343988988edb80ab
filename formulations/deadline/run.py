"""The deadline formulation: admission of promises, leases by list scheduling, places by gangs.

Admission is exact for the counted capacity of the leases, within the limits that `admission.py`
states; then the current lease is placed on hosts, and what that costs is in the gap.

References
----------
Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs", SoCC'21.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from placewright.formulations.common.phases import Phase, SearchState, run_phases
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.admission import AdmissionBound, admit
from placewright.formulations.deadline.bounds.trivial import trivial_bounds
from placewright.formulations.deadline.heuristics.earliest_offers import Offers
from placewright.formulations.deadline.heuristics.list_scheduling import objective
from placewright.formulations.deadline.heuristics.place_current_lease import place_current_lease
from placewright.formulations.deadline.heuristics.repair_promises import with_promises
from placewright.formulations.deadline.models.integrated.solve import solve_integrated
from placewright.formulations.deadline.problem.compile import Admission
from placewright.formulations.deadline.problem.problem import (
    ADMITTED,
    BROKEN,
    NONE,
    Problem,
    Schedule,
)
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session


@dataclass
class _Run(SearchState):
    """What the phases of one run share.

    Attributes
    ----------
    steady
        The admission with its steady alternatives only, which is itself if it has no others.
    seconds
        What the whole run may take.
    steady_best, best
        The best schedule of steady alternatives, and of all of them: None before their phases.
    bounds
        All that was yielded.
    """

    admission: Admission
    steady: Admission
    seconds: float
    steady_best: Schedule | None = None
    best: Schedule | None = None
    bounds: list[Bound] = field(default_factory=list)

    @property
    def problem(self) -> Problem:
        """The problem of all alternatives."""
        return self.admission.problem

    def steady_is_worse(self) -> bool:
        """Whether the best schedule of all alternatives beats that of the steady ones."""
        return (
            self.steady_best is not None
            and self.best is not None
            and objective(self.problem, self.best) > objective(self.problem, self.steady_best)
        )

    def place_early(self, schedule: Schedule) -> Iterator[Candidate]:
        """Yield a first plan of the first schedule, where placing it takes no more than seconds."""
        few = self.problem.jobs <= parameters.PARAMETERS.max_early_plan_jobs
        if few and self.problem.alternatives and self.steady_best is self.best is None:
            yield from islice(place_current_lease(self.admission, schedule, self.session), 1)


def run(
    admission: Admission, session: Session, without: Collection[str] = ()
) -> Iterator[Candidate | Bound]:
    """Yield plans, each of better promises, and bounds.

    Parameters
    ----------
    admission
        The jobs that ask for promises, their alternatives, and the capacity of the leases.
    session
        Clock and solver, and the service that decides inner rounds of gangs.
    without
        Names of phases to leave out, for an ablation.
    """
    seconds = max(0.0, session.remaining())
    state = _Run(session, admission, admission.steady_only(), seconds, without=without)
    for step in run_phases(PHASES, state):
        if isinstance(step, Bound):
            state.bounds.append(step)
        yield step


def _bound_trivially(state: _Run) -> Iterator[Candidate | Bound]:
    """Yield a bound of each term that needs no solver."""
    yield from trivial_bounds(state.admission)


def _admit_steady(state: _Run) -> Iterator[Candidate | Bound]:
    """Find the best schedule of steady alternatives: its promises survive most placements."""
    alternatives = np.append(np.flatnonzero(state.admission.steady), NONE)
    for step in _admit(state.steady.problem, state.session, state.admission.known):
        if isinstance(step, Schedule):
            schedule = Schedule(alternatives[step.alternative], step.runs)
            if state.steady.problem.alternatives:
                yield from state.place_early(schedule)
            state.steady_best = schedule


def _admit_all(state: _Run) -> Iterator[Candidate | Bound]:
    """Find the best schedule of all alternatives, and bounds of `broken` and `admitted`."""
    known = state.admission.known if state.steady_best is None else state.steady_best
    for step in _admit(state.problem, state.session, known):
        if isinstance(step, Bound):
            yield step
        else:
            yield from state.place_early(step)
            state.best = step


def _place_steady(state: _Run) -> Iterator[Candidate | Bound]:
    """Place the current lease of the steady schedule, since the better one may lose promises."""
    if state.steady_best is not None:
        yield from place_current_lease(state.admission, state.steady_best, state.session)


def _place(state: _Run) -> Iterator[Candidate | Bound]:
    """Place the current lease of the better schedule, the steady one if they are equally good."""
    schedule = state.best if state.steady_is_worse() else state.steady_best or state.best
    if schedule is not None:
        yield from place_current_lease(state.admission, schedule, state.session)


def _solve_integrated(state: _Run) -> Iterator[Candidate | Bound]:
    """Decide promises, leases and places in one model, where the round is small enough."""
    for step in solve_integrated(state.admission, state.session):
        if isinstance(step, Bound):
            yield step
        else:
            plan, schedule = step
            yield with_promises(state.admission, plan, schedule, Offers(state.admission))[0]


def _placement_seconds(state: _Run) -> float:
    """Return the seconds kept for placement."""
    return parameters.PARAMETERS.placement_share * state.seconds


def _all_alternatives_seconds(state: _Run) -> float:
    """Return the seconds kept for admission with all alternatives, and for placement."""
    tuning = parameters.PARAMETERS
    return (1 - (1 - tuning.placement_share) * tuning.steady_share) * state.seconds


PHASES: tuple[Phase[_Run, Candidate | Bound], ...] = (
    Phase("trivial bounds", _bound_trivially),
    Phase(
        "steady admission",
        _admit_steady,
        lambda state: state.steady is not state.admission,
        reserve=_all_alternatives_seconds,
    ),
    Phase("admission", _admit_all, reserve=_placement_seconds),
    Phase(
        "steady placement",
        _place_steady,
        _Run.steady_is_worse,
        share=lambda _: parameters.PARAMETERS.steady_share,
    ),
    Phase("placement", _place),
    Phase("integrated model", _solve_integrated, lambda state: not _proven(state)),
)
"""The order of steps."""


def _proven(state: _Run) -> bool:
    """Whether there is no plan, or none better in `broken`, nor then in `admitted`."""
    best = state.session.best
    if best is None:
        return True
    least = max((bound.value for bound in state.bounds if bound.term == BROKEN), default=0.0)
    most = [
        bound.value
        for bound in state.bounds
        if bound.term == ADMITTED and all(best[term] <= held for term, held in bound.holds)
    ]
    # A policy may leave out either of these terms.
    unbroken = best.get(BROKEN, 0) <= least
    return unbroken and (ADMITTED not in best or min(most) <= best[ADMITTED])


def _admit(
    problem: Problem, session: Session, known: Schedule | None
) -> Iterator[Schedule | Bound]:
    """Yield ever better schedules of a problem, and bounds."""
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
