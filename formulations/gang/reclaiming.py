"""Large rounds in which guarantees come first: entitled jobs displace those that borrow.

As `displace` does for value, and without a model: an entitled job is worth `EMPHASIS` times its
value there, so that it displaces borrowed ones whatever they are worth, but for the least of them.
"""

from __future__ import annotations

from dataclasses import replace

from placewright.formulations.gang.landing import displace
from placewright.formulations.gang.placement import Placement
from placewright.formulations.gang.problem import Problem

EMPHASIS = 1000


def reclaim(problem: Problem) -> Placement:
    """Return a plan in which entitled jobs take back what others borrow."""
    classes = tuple(
        replace(
            job_class,
            choices=tuple(
                replace(choice, value=choice.value * (EMPHASIS if choice.entitled else 1))
                for choice in job_class.choices
            ),
        )
        for job_class in problem.classes
    )
    placement = Placement(replace(problem, classes=classes))
    displace(placement)
    return placement
