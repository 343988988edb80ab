"""Whole gangs stop for all that comes to their hosts together.

Who starts displaces what is worth less than itself (landing.py, clearing.py). A large gang is worth
more than each of the jobs that wait, and less than those that its hosts have room for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placewright.formulations.gang.placing.filling import fill
from placewright.formulations.gang.placing.greedy import order_of
from placewright.formulations.gang.placing.placement import Placement
from placewright.formulations.session import Session


def oust(session: Session, placement: Placement) -> None:
    """Stop gangs that run, those first that are worth least per GPU, where others are worth more.

    Whoever waits comes to what they leave, as far as its precedence is higher.
    """
    fill(placement)
    order = order_of(placement.problem)
    for job in _by_worth(placement):
        if session.expired():
            return
        if placement.in_place(job) and placement.may_leave(job) and _may_pay(placement, job, order):
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


def _may_pay(placement: Placement, job: int, order: Sequence[tuple[int, int]]) -> bool:
    """Whether those of higher precedence that wait could be worth more where a job runs.

    They share its GPUs and all that are free, in parts, in the `order` of their value per GPU.
    """
    problem, mine = placement.problem, placement.problem.running[job]
    choice = problem.classes[mine.job_class].choices[0]
    may = problem.shape_hosts[:, [host for _, _, host, _ in mine.places]].any(axis=1)
    may &= problem.shape_rank > mine.level
    left = sum(group.milli_gpu for group in choice.groups) + int(placement.free_milli.sum())
    worth = 0.0
    for c, o in order:
        many, other = placement.waiting[c], problem.classes[c].choices[o]
        if many and all(may[group.shape] for group in other.groups):
            asked = many * sum(group.milli_gpu for group in other.groups)
            worth += many * other.value * min(1.0, left / max(1, asked))
            left -= asked
            if left <= 0 or worth > choice.value:
                break
    return worth > choice.value


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
