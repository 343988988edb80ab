"""Whole gangs stop for all that comes to their hosts together.

Who starts displaces what is worth less than itself (landing.py, clearing.py). A large gang is worth
more than each of the jobs that wait, and less than those that its hosts have room for.
"""

from __future__ import annotations

from collections.abc import Iterator

from placewright.formulations.gang.placing.filling import fill
from placewright.formulations.gang.placing.placement import Placement
from placewright.formulations.session import Session


def oust(session: Session, placement: Placement) -> None:
    """Stop gangs that run, those first that are worth least per GPU, where others are worth more.

    Whoever waits comes to what they leave, as far as its precedence is higher.
    """
    fill(placement)
    for job in list(_by_worth(placement)):
        if session.expired():
            return
        if placement.in_place(job) and placement.may_leave(job) and _rivals(placement, job):
            _replace(placement, job)


def _by_worth(placement: Placement) -> Iterator[int]:
    """Yield the running jobs of several tasks, those of least value per GPU first."""
    classes, running = placement.problem.classes, placement.problem.running
    found = []
    for job, mine in running.items():
        choice = classes[mine.job_class].choices[0]
        milli = sum(group.milli_gpu for group in choice.groups)
        if not choice.single and milli:
            found.append((choice.value / milli, -milli, job))
    for _, _, job in sorted(found):
        yield job


def _rivals(placement: Placement, job: int) -> bool:
    """Whether jobs of higher precedence wait that are worth more per GPU."""
    problem, mine = placement.problem, placement.problem.running[job]
    choice = problem.classes[mine.job_class].choices[0]
    milli = sum(group.milli_gpu for group in choice.groups)
    return any(
        n
        and problem.shape_rank[other.groups[0].shape] > mine.level
        and other.value * milli > choice.value * sum(group.milli_gpu for group in other.groups)
        for job_class, n in zip(problem.classes, placement.waiting, strict=True)
        for other in job_class.choices
    )


def _replace(placement: Placement, job: int) -> None:
    """Stop a job if what comes instead is worth more; else all stays as it was."""
    before, known = placement.value, {number for number, _ in placement.started()}
    number = placement.start_of(job)
    start = placement.get(number)
    placement.stop(number)
    fill(placement)
    if start is None or placement.value > before:
        return
    for came in [number for number, _ in placement.started() if number not in known]:
        placement.stop(came)
    placement.restart(start)
