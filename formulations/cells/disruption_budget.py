"""Admission within the disruption budget: guaranteed jobs whose evictions exceed it wait.

Evictions count before anything else that the plan does to running jobs, each as a preemption. Where
they exceed the budget, all jobs that start do so beside what runs, if there is room. Else, in the
order of admission, the first job with which the evictions exceed the budget waits, and the others
are admitted anew without it.
"""

from __future__ import annotations

from dataclasses import replace

from placewright.formulations.cells.admission import Admission, admit
from placewright.formulations.cells.residual_round import evictions_of
from placewright.formulations.gang.problem.disruption_budget import DisruptionBudget
from placewright.instances.documents.round import Round


def admit_within_budget(round_: Round) -> tuple[Admission, frozenset[int]]:
    """Return the admission of a round, and the guaranteed jobs that wait for the budget's sake."""
    budget, limited = DisruptionBudget.of(round_), frozenset[int]()
    while True:
        admission = admit(round_, without=limited)
        beyond = None if budget is None else _first_beyond(round_, budget, admission)
        if budget is None or beyond is None:
            return admission, limited
        beside = admit(round_, without=limited, beside_all=True)
        same = beside.placed.starts.keys() == admission.placed.starts.keys()
        if same and _first_beyond(round_, budget, beside) is None:
            return beside, limited
        limited |= {beyond}


def _first_beyond(round_: Round, budget: DisruptionBudget, admission: Admission) -> int | None:
    """Return a job with which the evictions exceed the budget, None if they never do.

    Without it and those that start after it they do not.
    """
    placed = admission.placed
    order = sorted(placed.starts, key=lambda job: (-round_.jobs[job].priority, job))

    def within(number: int) -> bool:
        first = replace(placed, starts={job: placed.starts[job] for job in order[:number]})
        return budget.allows(evictions_of(round_, first).jobs, ())

    if within(len(order)):
        return None
    most, beyond = 0, len(order)
    while beyond - most > 1:
        middle = (most + beyond) // 2
        if within(middle):
            most = middle
        else:
            beyond = middle
    return order[most]
