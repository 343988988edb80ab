"""Phases of a formulation: its order of steps, and gang rounds inside the decisions of others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from placewright.formulations.plan_messages import Candidate
from placewright.formulations.session import Session
from placewright.instances.documents.round import Round

# Phases of a formulation: its order of steps as a list of names, functions and conditions.
#
# `run_phases` goes through the list. It leaves out phases whose conditions do not hold, and ends
# the search once all terms are proven. A phase yields plans and bounds; what later phases need of
# it stands in the state of the search.


@dataclass
class SearchState:
    """What the phases of a search share; each formulation adds its own."""

    session: Session  # That of the phase that runs: it ends with its share of the time
    # Set by a phase after which no later one can improve the plan or a bound, though some term is
    # not proven.
    finished: bool = field(default=False, kw_only=True)
    # The best plan that phases of its list have yielded: a later one goes on from there.
    best_plan: Candidate | None = field(default=None, kw_only=True)

    def ended(self) -> bool:
        """Whether no further phase is of use."""
        return self.finished or self.session.proven

    def close_enough(self) -> bool:
        """Whether the first term of the best plan is proven within the gap asked for."""
        best = self.session.best
        return best is not None and self.session.close_enough(next(iter(best.values())))


State = TypeVar("State", bound=SearchState)
Step = TypeVar("Step")
"""What a phase yields, such as `Candidate | Bound`."""


@dataclass(frozen=True, slots=True)
class Phase(Generic[State, Step]):
    """One heuristic, relaxation or exact search."""

    name: str  # Unique in its list; `leaving_out` refers to it
    run: Callable[[State], Iterator[Step]]  # Yields plans and bounds, and may change the state
    # Whether the phase is of use, asked when the phases before it have ended.
    applies: Callable[[State], bool] = lambda _: True
    # Part of the time left before the reserve that the phase may take in all. A single solve in it
    # may be given less.
    share: Callable[[State], float] = lambda _: 1.0
    reserve: Callable[[State], float] = lambda _: 0.0  # Seconds kept for the phases that follow
    needs_time: bool = False  # Whether the phase is left out after the deadline
    # Whether the phase serves the first term alone: it is left out once that term is proven within
    # the gap.
    needs_gap: bool = False


def leaving_out(
    session: Session, names: Collection[str], *lists: Sequence[Phase[Any, Any]]
) -> Session:
    """Return a session in which phases of such names are left out, in inner lists, too.

    Raises `ValueError` if no phase of the lists has such a name.
    """
    known = {phase.name for phases in lists for phase in phases}
    if unknown := sorted(set(names) - known):
        raise ValueError(f"phases {unknown} are unknown; some of {sorted(known)} were expected")
    return replace(session, without=frozenset(names))


def run_phases(phases: Sequence[Phase[State, Step]], state: State) -> Iterator[Step]:
    """Yield the steps of the phases that apply, until the search has ended."""
    session = state.session
    for phase in phases:
        if state.ended():
            return
        if phase.name in session.without or not phase.applies(state):
            continue
        if phase.needs_gap and state.close_enough():
            continue
        if phase.needs_time and session.expired():
            continue
        state.session = session.part(phase.share(state), phase.reserve(state))
        try:
            for step in phase.run(state):
                known = session.best
                yield step
                if isinstance(step, Candidate) and session.best != known:
                    state.best_plan = step
        finally:
            state.session = session


@dataclass(frozen=True, kw_only=True, eq=False)
class InnerRound:
    """A gang round inside another decision, by the indices of the outer round."""

    jobs: tuple[int, ...]  # Index in the outer round of each job
    # Index in the outer round of each option of each job; None if they are the same.
    options: tuple[tuple[int, ...], ...] | None = None
    # Index in the outer round of each host; None if they are the same.
    hosts: tuple[int, ...] | None = None

    def lift(self, plan: Candidate) -> Candidate:
        """Return the starts, preemptions and MIG slots of a plan as the outer round counts them."""
        jobs, options, hosts = self.jobs, self.options, self.hosts
        starts = plan.starts
        if hosts is not None:
            starts = {
                j: (option, tuple((g, i, hosts[h], gpus) for g, i, h, gpus in places))
                for j, (option, places) in starts.items()
            }
        return Candidate(
            {
                jobs[j]: (option if options is None else options[j][option], places)
                for j, (option, places) in starts.items()
            },
            plan.source,
            {jobs[j]: jobs[by] if by >= 0 else by for j, by in plan.preempted.items()},
            slots={jobs[j]: slots for j, slots in plan.slots.items()},
        )


def inner_plans(round_: Round, session: Session, problem: Any = None) -> Iterator[Candidate]:
    """Yield the plans of a gang round that the session decides, without its bounds."""
    for step in session.inner_rounds(round_, session, problem):
        if isinstance(step, Candidate):
            yield step
