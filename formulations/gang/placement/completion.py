"""Completion under strict priority: no GPU stays idle that a waiting job could have.

A search that ends for want of time has not decided the lower priority classes, and a repair may
free GPUs. What waits starts there greedily, class by class.
"""

from __future__ import annotations

from placewright.formulations.gang.placement.disruption_budget import repair_disruptions
from placewright.formulations.gang.placement.fair_share import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.dominant_shares import SHARE_TERMS
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import CLASS_VALUES, ENTITLED

NO_LOSS = (ENTITLED, "remaining", *SHARE_TERMS)
"""Terms for which no start of a waiting job is a loss."""


def complete(placement: Placement) -> bool:
    """Start waiting jobs of all priority classes that still fit; return whether value rises.

    The placement keeps the disruption budget, and its preemptions are lawful, before and after.
    Nothing changes without priority classes, nor where a term before them may suffer.
    """
    before = placement.value
    if not _only_gains(placement.problem) or not any(placement.waiting):
        return False
    fill_by_policy(placement)
    repair_disruptions(placement)
    return placement.value > before


def _only_gains(problem: Problem) -> bool:
    """Whether no term before those of the priority classes may suffer from a start."""
    if not problem.priority_classes:
        return False
    before = problem.terms[: problem.terms.index(CLASS_VALUES[0])]
    return all(term in NO_LOSS for term in before)
