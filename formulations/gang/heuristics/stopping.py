"""When a search may stop: the first term, or each priority class, is proven within the gap."""

from __future__ import annotations

from collections.abc import Mapping

from placewright.formulations.bound_arithmetic import SHARPNESS
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import CLASS_VALUES
from placewright.formulations.session import Session


def close_enough(problem: Problem, session: Session, placement: Placement) -> bool:
    """Whether the value of a placement is proven within the gap asked for."""
    if not _classes_first(problem):
        return session.close_enough(placement.value)
    return classes_close_enough(problem, session, placement.class_values)


def best_close_enough(problem: Problem, session: Session) -> bool:
    """Whether the first term of the best plan is proven within the gap, or each priority class."""
    if session.best is None:
        return False
    if not _classes_first(problem):
        return session.close_enough(session.best[problem.terms[0]])
    return classes_close_enough(problem, session, session.best)


def classes_close_enough(problem: Problem, session: Session, values: Mapping[str, int]) -> bool:
    """Whether the value of each priority class is proven within the gap, of what it asks.

    Bounds of lower classes hold for plans no worse in the higher ones than the best; of a plan that
    is worse there, a higher class is not proven.
    """
    gap = max(session.gap, SHARPNESS)
    return all(
        term in session.best_known.bounds
        and session.best_known.bounds[term] - values[term] <= gap * one.asked
        for term, one in zip(CLASS_VALUES, problem.priority_classes, strict=False)
    )


def _classes_first(problem: Problem) -> bool:
    return problem.terms[0] == CLASS_VALUES[0]
