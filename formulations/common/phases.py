"""Phases of a formulation: its order of steps as a list of names, functions and conditions.

With each phase goes the share of the time that it may take.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from placewright.formulations.session import Session

State = TypeVar("State")
Step = TypeVar("Step")


def _always(_: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Phase(Generic[State, Step]):
    """One phase.

    Attributes
    ----------
    name
        Unique in its list; `without` refers to it.
    steps
        Yields plans and bounds, given the state of the run and a session that ends with the phase.
    applies
        Whether the phase is of use, asked when the ones before have ended.
    until
        Share of the whole time of the list at which the phase ends.
    share
        Share of the time left at its start that the phase may take.
    """

    name: str
    steps: Callable[[State, Session], Iterator[Step]]
    applies: Callable[[State], bool] = _always
    until: float = 1.0
    share: float = 1.0


def run_phases(
    phases: Sequence[Phase[State, Step]],
    state: State,
    session: Session,
    without: Collection[str] = (),
) -> Iterator[Step]:
    """Yield the steps of the phases that apply, one phase after the other.

    Parameters
    ----------
    without
        Names of phases to leave out, for an ablation.
    """
    whole = max(0.0, session.before_deadline())
    for phase in phases:
        if phase.name in without or not phase.applies(state):
            continue
        if phase.until == phase.share == 1.0:
            yield from phase.steps(state, session)
            continue
        left = max(0.0, session.before_deadline())
        kept = max((1 - phase.until) * whole, (1 - phase.share) * left)
        part = replace(session, deadline=session.deadline - kept)
        yield from phase.steps(state, part)
        session.wall_stopped |= part.wall_stopped
