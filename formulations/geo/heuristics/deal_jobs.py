"""Disaggregation: whole jobs from a point of the assignment model.

Each column gets its integer part in jobs. Of a cost class the jobs of highest priority are placed,
and of these the ones with the highest cost go to their cheapest regions. Jobs that rounding leaves
over are assigned greedily to residual capacity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.geo.heuristics.residual import ResidualCapacity
from placewright.formulations.geo.models.assignment_lp import AssignmentModel, CostClasses
from placewright.instances.documents.job import Job

ROUNDING_TOLERANCE = 1e-6
"""Fraction of a job within which a value of the solver is rounded to a whole number."""


def deal_jobs(assignment_model: AssignmentModel, values: Floats, costs: Ints) -> tuple[Ints, Ints]:
    """Return the region and the assignment of each pending job (jobs,), NONE without capacity."""
    classes, cost_classes, residual = (
        assignment_model.classes,
        assignment_model.cost_classes,
        ResidualCapacity(assignment_model.classes),
    )
    region = np.full(len(classes.class_of_job), NONE, dtype=np.int64)
    assignment_of_job = region.copy()
    cheap, other = (
        _round_down(values[assignment_model.cheap]),
        _round_down(values[assignment_model.other]),
    )
    num_served = np.zeros(len(cost_classes.job_class))
    np.add.at(num_served, assignment_model.cheap_class, values[assignment_model.cheap])
    num_served[assignment_model.other_class] += values[assignment_model.other]
    other_of_class = np.zeros(len(cost_classes.job_class), dtype=np.int64)
    other_of_class[assignment_model.other_class] = other
    runs = classes.current_region[cost_classes.job_class] != NONE
    cheap_shares: list[list[tuple[float, int, int]]] = [[] for _ in cost_classes.job_class]
    assignments = zip(
        assignment_model.cheap_class.tolist(),
        assignment_model.cheap_assignment.tolist(),
        cheap.tolist(),
        strict=True,
    )
    for c, assignment, share in assignments:
        if runs[c]:
            residual.take(assignment, share)
        elif share:
            cheap_shares[c].append(
                (
                    float(cost_classes.cost[c, classes.assignment_region[assignment]]),
                    assignment,
                    share,
                )
            )
    slots = _shared_slots(assignment_model, values)
    order, start = _jobs_by_cost_class(classes.problem.wan.round.jobs, cost_classes)

    def assign(jobs: Ints, assignment: int) -> int:
        region[jobs], assignment_of_job[jobs] = classes.assignment_region[assignment], assignment
        residual.take(assignment, len(jobs))
        return len(jobs)

    for c in np.flatnonzero(~runs).tolist():
        mine = order[start[c] : start[c + 1]]
        mine = mine[: int(np.ceil(num_served[c] - ROUNDING_TOLERANCE))]
        mine = mine[np.argsort(-costs[mine].max(axis=1, initial=0), kind="stable")]
        dealt = 0
        for _, assignment, share in sorted(cheap_shares[c]):
            dealt += assign(mine[dealt : dealt + share], assignment)
        shared = slots.get(int(cost_classes.group[c]), {})
        for assignment, jobs in _deal_to_shared(
            mine[dealt : dealt + int(other_of_class[c])], costs, shared, classes.assignment_region
        ):
            assign(jobs, assignment)
    pending = (classes.class_of_job != NONE) & (classes.problem.current_region == NONE)
    for j, assignment in residual.assign_greedily(
        np.flatnonzero(pending & (region == NONE)).tolist(), costs
    ):
        region[j], assignment_of_job[j] = classes.assignment_region[assignment], assignment
    return region, assignment_of_job


def _round_down(shares: Floats) -> Ints:
    return np.floor(shares + ROUNDING_TOLERANCE).astype(np.int64)


def _deal_to_shared(
    jobs: Ints, costs: Ints, slots: dict[int, int], assignment_region: Ints
) -> Iterator[tuple[int, Ints]]:
    """Yield assignments of a group with the jobs that take them, and reduce `slots` accordingly.

    Jobs are matched greedily by the cost saved against their most expensive assignment.
    """
    assignments = np.array(
        [assignment for assignment, left in slots.items() if left], dtype=np.int64
    )
    if not len(jobs) or not len(assignments):
        return
    cost = costs[jobs][:, assignment_region[assignments]]
    order = np.argsort((cost - cost.max(axis=1)[:, None]).ravel(), kind="stable")
    given: dict[int, list[int]] = {}
    left = set(range(len(jobs)))
    for dealt in order.tolist():
        j, w = divmod(dealt, len(assignments))
        assignment = int(assignments[w])
        if j in left and slots[assignment]:
            slots[assignment] -= 1
            left.remove(j)
            given.setdefault(assignment, []).append(j)
            if not left:
                break
    for assignment, mine in given.items():
        yield assignment, jobs[mine]


def _shared_slots(assignment_model: AssignmentModel, values: Floats) -> dict[int, dict[int, int]]:
    """Return the assignments of each group with the integer number of jobs that they take."""
    slots: dict[int, dict[int, int]] = {}
    shares = _round_down(values[assignment_model.shared]).tolist()
    assignments = zip(
        assignment_model.shared_group.tolist(),
        assignment_model.shared_assignment.tolist(),
        shares,
        strict=True,
    )
    for shared, assignment, share in assignments:
        if share:
            slots.setdefault(shared, {})[assignment] = share
    return slots


def _jobs_by_cost_class(jobs: Sequence[Job], cost_classes: CostClasses) -> tuple[Ints, Ints]:
    """Return jobs sorted by cost class and priority, and where each class begins."""
    mine = np.flatnonzero(cost_classes.class_of_job != NONE)
    priority = np.array([job.priority for job in jobs], dtype=np.int64)
    order = mine[np.lexsort((mine, -priority[mine], cost_classes.class_of_job[mine]))]
    start = np.searchsorted(
        cost_classes.class_of_job[order], np.arange(len(cost_classes.job_class) + 1)
    )
    return order, start
