"""Large rounds in which guarantees come first: entitled jobs displace those that borrow.

They are planned as rounds in which value comes first, and an entitled option is worth `EMPHASIS`
times its value: so an entitled job displaces borrowed ones whatever they are worth, but for those
that are worth as many times more. Bounds of such a round say nothing of the one that is asked.
"""

from __future__ import annotations

from dataclasses import replace

from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import VALUE

ENTITLED_WEIGHT = 1000


def scalarise_entitled(problem: Problem) -> Problem:
    """Return the round with `value` as its only term, and entitled options worth far more."""
    classes = tuple(
        replace(
            job_class,
            choices=tuple(
                replace(choice, value=choice.value * (ENTITLED_WEIGHT if choice.entitled else 1))
                for choice in job_class.choices
            ),
        )
        for job_class in problem.classes
    )
    return replace(problem, classes=classes, terms=(VALUE,))
