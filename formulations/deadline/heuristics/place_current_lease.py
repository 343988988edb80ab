"""Place the current lease of a schedule: plans that keep its promises as far as hosts allow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.common.inner_rounds import inner_plans
from placewright.formulations.deadline.heuristics.displacement_greedy import displacement_greedy
from placewright.formulations.deadline.heuristics.earliest_offers import Offers
from placewright.formulations.deadline.heuristics.repair_promises import with_promises
from placewright.formulations.deadline.heuristics.right_shift import right_shift
from placewright.formulations.deadline.problem.compile import Admission
from placewright.formulations.deadline.problem.current_lease import (
    CurrentLease,
    build_current_lease,
)
from placewright.formulations.deadline.problem.problem import NONE, Schedule
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.disruption_budget import repair_disruptions
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.plan_messages import Candidate
from placewright.formulations.session import Session


def place_current_lease(
    admission: Admission, schedule: Schedule, session: Session
) -> Iterator[Candidate]:
    """Yield plans that keep a schedule's promises, as far as the current lease can be placed."""
    problem, offers = admission.problem, Offers(admission)
    must = schedule
    if problem.alternatives:
        must = right_shift(
            problem, schedule, _costs_of_running_now(admission), admission.round.leases.headroom
        )
    current = build_current_lease(admission, must, must.runs[:, 0])
    for found in _gang_plans(current, session):
        plan, kept = with_promises(admission, current.lift(found), must, offers)
        if not _displaces_in_vain(admission, kept, plan):
            yield plan


def _displaces_in_vain(admission: Admission, kept: Schedule, plan: Candidate) -> bool:
    """Whether a job was preempted for one whose promise could not be kept where it came."""
    jobs = admission.round.jobs
    promised = {j for number, j in enumerate(admission.jobs) if kept.alternative[number] != NONE}
    return any(
        above != NONE and above not in promised and jobs[above].priority <= jobs[victim].priority
        for victim, above in plan.preempted.items()
    )


def _gang_plans(current: CurrentLease, session: Session) -> Iterator[Candidate]:
    """Yield plans of the gangs: the displacement greedy's at once, then better ones."""
    gangs = compile_round(current.round)
    placement = displacement_greedy(gangs)
    repair_disruptions(placement)
    yield assign(placement, "displacement")
    yield from inner_plans(current.round, session, gangs)


def _costs_of_running_now(admission: Admission) -> Ints:
    """Return the cost of running each job now, in milli-GPU: doubled where it would have to start.

    Whoever runs already is not better off for that: its later leases are free for others only if it
    runs now as well, and whether it does is for the terms of the policy to say.
    """
    costs = []
    for j in admission.jobs:
        job = admission.round.jobs[j]
        running = job.running
        option = job.options[0 if running is None else running.option]
        costs.append(option.milli_gpu * (2 if running is None else 1))
    return np.array(costs, dtype=np.int64)
