"""Weighted scalarisation of `entitled`: an entitled option is worth many times its value.

In the scalarised round an entitled job displaces borrowers, unless these are worth as many times
more. Its bounds do not hold for the round asked.
"""

from __future__ import annotations

from dataclasses import replace

from placewright.formulations.gang import parameters
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import VALUE


def scalarise_entitled(problem: Problem) -> Problem:
    """Return the round with `value` as its only term, and entitled options worth far more."""
    weight = parameters.PARAMETERS.insertion.entitled_weight
    classes = tuple(
        replace(
            job_class,
            choices=tuple(
                replace(choice, value=choice.value * (weight if choice.entitled else 1), weight=1)
                for choice in job_class.choices
            ),
        )
        for job_class in problem.classes
    )
    return replace(problem, classes=classes, terms=(VALUE,), priority_classes=(), class_weights=())
