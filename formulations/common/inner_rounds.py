"""Rounds of gangs inside another decision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placewright.formulations.plan_messages import Candidate
from placewright.formulations.session import Session
from placewright.instances.documents.round import Round


def inner_plans(round_: Round, session: Session, problem: Any = None) -> Iterator[Candidate]:
    """Yield the plans of a round of gangs that the session decides, without its bounds."""
    for step in session.inner_rounds(round_, session, problem):
        if isinstance(step, Candidate):
            yield step
