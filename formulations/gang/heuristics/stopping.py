"""When a search may stop: the first term, or each priority class, is proven within the gap."""

from __future__ import annotations

from placewright.formulations.common.priority_classes import (
    PriorityClass,
    classes_by_term,
    classes_close_enough,
)
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import CLASS_VALUES, VALUE
from placewright.formulations.session import Session


def close_enough(problem: Problem, session: Session, placement: Placement) -> bool:
    """Whether the value of a placement is proven within the gap asked for."""
    if not _classes_first(problem):
        return session.close_enough(placement.value)
    return classes_close_enough(session, placement.class_values, _classes(problem))


def best_close_enough(problem: Problem, session: Session) -> bool:
    """Whether the first term of the best plan is proven within the gap, or each priority class."""
    if session.best is None:
        return False
    if not _classes_first(problem):
        return session.close_enough(session.best[problem.terms[0]])
    return classes_close_enough(session, session.best, _classes(problem))


def _classes(problem: Problem) -> dict[str, PriorityClass]:
    return classes_by_term(VALUE, problem.priority_classes)


def _classes_first(problem: Problem) -> bool:
    return problem.terms[0] == CLASS_VALUES[0]
