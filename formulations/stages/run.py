"""Stages: list schedules of tasks, bounds, interval variables; what begins now is placed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from placewright.formulations.common.phases import Phase, SearchState, leaving_out, run_phases
from placewright.formulations.plan_messages import Bound, Candidate, proven_whole
from placewright.formulations.session import Session
from placewright.formulations.stages import parameters
from placewright.formulations.stages.bounds import bounds
from placewright.formulations.stages.heuristics.list_schedules import list_schedules, serial
from placewright.formulations.stages.heuristics.placing import place, value_of
from placewright.formulations.stages.models import build
from placewright.formulations.stages.problem import COMPLETION, MAKESPAN, SPREAD, Problem, Schedule

LARGEST = 2**60
"""Of an objective that CP-SAT counts in 64 bits."""


@dataclass
class _Run(SearchState):
    """What the phases share: the best schedule by counts."""

    problem: Problem
    schedule: Schedule | None = None


def run(
    problem: Problem, session: Session, without: Collection[str] = ()
) -> Iterator[Candidate | Bound]:
    """Yield plans, each with a better schedule, and bounds of the times.

    `without`: names of phases to leave out, for an ablation.
    """
    found = bounds(problem)
    for term in problem.round.policy.terms:
        yield Bound(term, found.get(term, 0), certified=True)
    session = leaving_out(session, without, PHASES)
    yield from run_phases(PHASES, _Run(session, problem))


def _lists(state: _Run) -> Iterator[Candidate | Bound]:
    """Take the best list schedule, shifted left."""
    problem = state.problem
    for schedule in list_schedules(problem):
        if state.schedule is None or _better(problem, schedule, state.schedule):
            state.schedule = schedule
        if state.session.expired():
            break
    yield from _candidate(state, "list schedule")


def _intervals(state: _Run) -> Iterator[Candidate | Bound]:
    """Solve the interval model, term by term."""
    problem, session, held = state.problem, state.session, dict[str, int]()
    for term in problem.round.policy.terms:
        best, schedule = session.best, state.schedule
        if best is None or schedule is None or term == SPREAD:
            return
        if best[term] > session.best_known.bounds.get(term, -1):
            yield from _solve(state, schedule, term, held)
            best = session.best or best
        held[term] = best[term]


def _solve(
    state: _Run, schedule: Schedule, term: str, held: dict[str, int]
) -> Iterator[Candidate | Bound]:
    """Minimise a term among schedules no worse in those before."""
    problem, session = state.problem, state.session
    values = problem.values(schedule)
    horizon = held.get(MAKESPAN, values[MAKESPAN])
    if term == COMPLETION and MAKESPAN not in held:
        horizon = max(horizon, _active(problem))
    if term == COMPLETION and int(problem.weight.sum()) * horizon > LARGEST:
        return
    model = build(problem, horizon, max(problem.held_makespan, 0))
    for name, value in held.items():
        model.model.hold(name, value)
    outcome = session.optimise(model.arrays(term), start=model.values_of(schedule))
    if outcome is None:
        return
    if outcome.bound is not None:
        yield Bound(term, proven_whole(outcome.bound), tuple(held.items()))
    if outcome.values is not None:
        found = serial(problem, model.schedule_of(outcome.values))
        if _better(problem, found, schedule):
            state.schedule = found
            yield from _candidate(state, "intervals")


def _active(problem: Problem) -> int:
    """Return when a schedule is done at the latest that never idles for nothing."""
    longest = sum(
        max(int(problem.seconds[mode] * problem.units[mode]) for mode in modes)
        for modes in problem.modes
    )
    return longest + max(int(problem.times[-1]), int(problem.release.max(initial=0)))


def _places(state: _Run) -> Iterator[Candidate | Bound]:
    """Place what the best schedule begins now as well as the gang formulation can."""
    yield from _candidate(state, "places", state.session)


def _candidate(state: _Run, source: str, session: Session | None = None) -> Iterator[Candidate]:
    if state.schedule is not None:
        yield place(state.problem, state.schedule, source, session)


def _better(problem: Problem, one: Schedule, other: Schedule) -> bool:
    return value_of(problem, one) < value_of(problem, other)


def _loses(state: _Run) -> bool:
    """Whether better places may make the plan better."""
    best, problem = state.session.best, state.problem
    if best is None or state.schedule is None:
        return False
    times = problem.values(state.schedule)
    worse = any(best[term] > times[term] for term in times if term in best)
    return worse or best.get(SPREAD, 0) > 0


PHASES: tuple[Phase[_Run, Candidate | Bound], ...] = (
    Phase("list schedules", _lists),
    Phase(
        "intervals",
        _intervals,
        applies=lambda state: state.problem.units.sum() <= parameters.PARAMETERS.max_interval_units,
        share=lambda _: 1 - parameters.PARAMETERS.gang_share,
        needs_time=True,
    ),
    Phase("places", _places, applies=_loses, needs_time=True),
)
