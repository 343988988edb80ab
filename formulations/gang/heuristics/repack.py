"""Repacking: bin packing of one-task jobs anew, shares included, so that more of them run.

The linear relaxation gives the pending jobs to start. They and all movable running jobs become
bundles (`bundles.py`), which are assigned to hosts by GPUs (`host_assignment.py`). Swaps then
reduce the excess of other resources (`swap_search.py`); where none helps, pending jobs are dropped,
least value first. If time is up, jobs are dropped until no host has an excess.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.bundles import Bundles
from placewright.formulations.gang.heuristics.host_assignment import HostAssignment
from placewright.formulations.gang.heuristics.swap_search import (
    drop_excess,
    drop_waiting,
    reduce_excess,
)
from placewright.formulations.gang.models.aggregate.column_generation import PricedModel
from placewright.formulations.gang.models.aggregate.host_columns import HostPatterns
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.placement.disruption_budget import repair_disruptions
from placewright.formulations.gang.placement.fair_share import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.session import Session
from placewright.solver import Outcome
from placewright.topology.units import WHOLE_GPU

TOLERANCE = 1e-6


def repack_tasks(
    session: Session, model: PricedModel, relaxed: Outcome | None, planned: Placement
) -> Placement | None:
    """Return a placement that starts the pending jobs of the relaxation as far as they fit.

    Jobs of several tasks are placed as in `planned`. None if there is no relaxation or time is up,
    with host patterns, which model all resources, and with GPU memory or slices.
    """
    counts, patterns = model
    if isinstance(patterns, HostPatterns) or relaxed is None or relaxed.values is None:
        return None
    if counts.problem.part_demands is not None:  # units are cut by milli-GPU alone
        return None
    if session.expired():
        return None
    problem = counts.problem
    base = Placement(problem)
    _copy_gangs(base, planned)
    waiting = _jobs_to_start(counts, relaxed.values, base)
    bundles = Bundles(base, waiting)
    # A gang of the plan may take GPUs of running jobs that are not packed: gangs, or shares.
    if base.is_overcommitted or not (bundles.homes or waiting):
        return None
    gpus = np.where(problem.open, base.whole, 0)
    gpu_worth = parameters.PARAMETERS.packing.gpu_worth_gpu_seconds * WHOLE_GPU
    units = bundles.units(session, gpu_worth, int(gpus.sum()))
    if units is None:
        return None
    assignment = HostAssignment(units, base.free, gpus, np.zeros(len(gpus), dtype=np.bool_))
    while not reduce_excess(assignment, session):
        if session.expired() or not drop_waiting(assignment):
            drop_excess(assignment)
            break
    placement = bundles.apply(assignment)
    repair_disruptions(placement)
    fill_by_policy(placement)
    return placement


def _copy_gangs(base: Placement, planned: Placement) -> None:
    """Place the jobs of several tasks as in a plan."""
    problem = base.problem

    def packed(job_class: int, choice: int) -> bool:
        return problem.classes[job_class].choices[choice].is_single_task

    away = [
        job for job in planned.displaced_jobs() if not packed(problem.running[job].job_class, 0)
    ]
    for job in away:
        base.stop(base.start_of(job))
    for _, start in planned.changed():
        if not packed(start.job_class, start.choice):
            base.restart(start)


def _jobs_to_start(
    counts: AggregateModel, values: NDArray[np.float64], base: Placement
) -> list[tuple[int, int]]:
    """Return (class, choice) of each one-task job that the relaxation starts, rounded up."""
    problem, quota = counts.problem, base.quota_left()
    number = np.ceil(values[counts.y] - TOLERANCE).astype(np.int64)
    left = list(base.waiting)
    to_start = []
    for c, o, n in zip(counts.y_class.tolist(), counts.y_choice.tolist(), number, strict=True):
        job_class = problem.classes[c]
        choice = job_class.choices[o]
        for _ in range(
            0 if job_class.running or not choice.is_single_task else min(int(n), left[c])
        ):
            if problem.within_quota(quota, job_class.accounts, choice):
                problem.charge_quota(quota, job_class.accounts, choice)
                to_start.append((c, o))
                left[c] -= 1
    return to_start
