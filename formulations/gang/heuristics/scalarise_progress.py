"""Lexicographic scalarisation of `value` and `progress` into one value per option.

Displacement and exchange look at `value` alone. So the first of the two terms is multiplied by more
than the second can amount to, and the second is added. Bounds of the scalarised round do not hold
for the round asked.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

from placewright.formulations.gang.problem.jobs import Choice
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import PROGRESS, VALUE

MAX_SCALARISED_VALUE = 1 << 50
"""Above this a sum of worths is no longer exact in floating point."""


def scalarise_progress(problem: Problem) -> Problem | None:
    """Return the round with one worth as its only term; None where `progress` is no part of it."""
    leading = [*takewhile(lambda term: term in (VALUE, PROGRESS), problem.weighted_terms)]
    if PROGRESS not in leading:
        return None
    weight = 1
    if len(leading) > 1:
        weight += _largest_difference(problem, leading[1])
        if weight * _largest_difference(problem, leading[0]) > MAX_SCALARISED_VALUE:
            return None

    def worth(choice: Choice) -> int:
        parts = {VALUE: choice.value, PROGRESS: choice.progress}
        second = parts[leading[1]] if len(leading) > 1 else 0
        return weight * parts[leading[0]] + second

    classes = tuple(
        replace(
            job_class,
            choices=tuple(
                replace(choice, value=worth(choice), weight=1) for choice in job_class.choices
            ),
        )
        for job_class in problem.classes
    )
    return replace(problem, classes=classes, terms=(VALUE,), priority_classes=(), class_weights=())


def _largest_difference(problem: Problem, term: str) -> int:
    """Return by how much two plans can differ in a term at most."""
    return sum(
        len(job_class.jobs)
        * max(choice.value if term == VALUE else choice.progress for choice in job_class.choices)
        for job_class in problem.classes
    )
