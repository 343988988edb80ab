"""Drop/add: a running gang is preempted, and the greedy refills its hosts; kept if worth more.

Displacement preempts what is worth less than one job that starts (`displace.py`,
`gang_insertion.py`). A large gang is worth more than each waiting job, but may be worth less than
all those that fit its hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from placewright.formulations.gang.placement.disruption_budget import BudgetGuard
from placewright.formulations.gang.placement.fair_share import fill_by_policy
from placewright.formulations.gang.placement.greedy import greedy_order
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.session import Session


def drop_and_add(session: Session, placement: Placement) -> None:
    """Preempt running gangs, least value per GPU first, where waiting jobs are worth more.

    Jobs of higher precedence take the hosts.
    """
    fill_by_policy(placement)
    options = [_option_of(placement, c, o) for c, o in greedy_order(placement.problem)]
    for job in _gangs_by_value_density(placement):
        if session.expired():
            return
        if (
            placement.in_place(job)
            and placement.may_be_preempted(job)
            and _may_be_profitable(placement, job, options)
        ):
            _drop_and_refill(placement, job)


class _Option(NamedTuple):
    """An option of a class: the shapes of its groups, its milli-GPU and its value."""

    job_class: int
    shapes: frozenset[int]
    milli: int
    value: int


def _option_of(placement: Placement, c: int, o: int) -> _Option:
    choice = placement.problem.classes[c].choices[o]
    milli = sum(group.milli_gpu for group in choice.groups)
    return _Option(c, frozenset(group.shape for group in choice.groups), milli, choice.value)


def _gangs_by_value_density(placement: Placement) -> list[int]:
    """Return the running jobs of several tasks, those of least value per GPU first."""
    large: dict[int, tuple[float, int]] = {}
    for c, job_class in enumerate(placement.problem.classes):
        mine = _option_of(placement, c, 0)
        if job_class.running and not job_class.choices[0].is_single_task and mine.milli:
            large[c] = mine.value / mine.milli, -mine.milli
    running = placement.problem.running.items()
    found = sorted((*large[r.job_class], job) for job, r in running if r.job_class in large)
    return [job for _, _, job in found]


def _may_be_profitable(placement: Placement, job: int, options: Sequence[_Option]) -> bool:
    """Whether waiting jobs of higher precedence could be worth more: a fractional knapsack.

    They fill its GPUs and all free ones in the order of their value per GPU.
    """
    problem, mine = placement.problem, placement.problem.running[job]
    dropped = _option_of(placement, mine.job_class, 0)
    rows = problem.shape_hosts[:, [host for _, _, host, _ in mine.places]].any(axis=1)
    eligible = set(
        np.flatnonzero(rows & problem.over(np.arange(problem.shape_rank.size), mine)).tolist()
    )
    left = dropped.milli + int(placement.free_milli_gpu.sum())
    value = 0.0
    for other in options:
        waiting = placement.waiting[other.job_class]
        if waiting and other.shapes <= eligible:
            demanded = waiting * other.milli
            value += waiting * other.value * min(1.0, left / max(1, demanded))
            left -= demanded
            if left <= 0 or value > dropped.value:
                break
    return value > dropped.value


def _drop_and_refill(placement: Placement, job: int) -> None:
    """Preempt a gang and run the greedy; undo both unless the value rises."""
    before, started = placement.value, {number for number, _ in placement.started()}
    guard, number = BudgetGuard(placement), placement.start_of(job)
    start = placement.get(number)
    placement.stop(number)
    fill_by_policy(placement)
    if start is None or (placement.value > before and guard.holds()):
        return
    for came in [number for number, _ in placement.started() if number not in started]:
        placement.stop(came)
    placement.restart(start)
