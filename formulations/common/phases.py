"""Phases of a formulation: its order of steps as a list of names, functions and conditions.

A list of phases is data: `run_phases` goes through it and holds the only checks that leave a phase
out or end the search. A phase yields plans and bounds; what it hands on to later ones stands in the
state of the search.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from placewright.formulations.session import Session


@dataclass
class SearchState:
    """What the phases of a search share; each formulation adds its own.

    Attributes
    ----------
    session
        That of the phase that runs: it ends with its share of the time.
    without
        Names of phases left out, for an ablation.
    finished
        Whether nothing is left to search, though some term is not proven.
    """

    session: Session
    without: Collection[str] = field(default=(), kw_only=True)
    finished: bool = field(default=False, kw_only=True)

    def ended(self) -> bool:
        """Whether no further phase is of use."""
        return self.finished or self.session.proven

    def close_enough(self) -> bool:
        """Whether the first term of the best plan is proven within the gap asked for."""
        best = self.session.best
        return best is not None and self.session.close_enough(next(iter(best.values())))


State = TypeVar("State", bound=SearchState)
Step = TypeVar("Step")


def _always(_: Any) -> bool:
    return True


def _all(_: Any) -> float:
    return 1.0


def _none(_: Any) -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class Phase(Generic[State, Step]):
    """One heuristic, relaxation or exact search.

    Attributes
    ----------
    name
        Unique in its list; `without` refers to it.
    run
        Yields plans and bounds, and may change the state.
    applies
        Whether the phase is of use, asked when the ones before have ended.
    share
        Of the time left before the reserve, what the phase may take as a whole; solves inside have
        shares of their own.
    reserve
        Seconds kept for what follows.
    needs_time
        Whether it is left out once the deadline has passed.
    needs_gap
        Whether it is left out once the first term is proven within the gap: it serves no later one.
    """

    name: str
    run: Callable[[State], Iterator[Step]]
    applies: Callable[[State], bool] = _always
    share: Callable[[State], float] = _all
    reserve: Callable[[State], float] = _none
    needs_time: bool = False
    needs_gap: bool = False


def run_phases(phases: Sequence[Phase[State, Step]], state: State) -> Iterator[Step]:
    """Yield the steps of the phases that apply, until the search has ended."""
    session = state.session
    for phase in phases:
        if state.ended():
            return
        if phase.name in state.without or not phase.applies(state):
            continue
        if phase.needs_gap and state.close_enough():
            continue
        if phase.needs_time and session.expired():
            continue
        state.session = session.part(phase.share(state), phase.reserve(state))
        try:
            yield from phase.run(state)
        finally:
            state.session = session
