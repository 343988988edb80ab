"""Assignment model: how many jobs of each cost class run in which region, with which option.

A **cost class** holds jobs of one job class with similar read costs: in each region they cost the
same quarter of the most that the job costs in any region. It has a variable for each assignment in
a region where it costs less than its most, and one for all other regions together. The latter is
distributed over assignments by variables that all cost classes with the same job class and eligible
regions share (a **group**). So the model has one or two variables per cost class in place of one
per region. The duals of its rows bound the round itself (bounds/lagrangian.py), whatever the
aggregation loses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.geo import parameters
from placewright.formulations.geo.problem.class_arrays import JobClasses
from placewright.solver import Model

WORD_BYTES = 8
"""Bytes of an int64."""


@dataclass(frozen=True, slots=True, eq=False)
class CostClasses:
    """Cost classes.

    `class_of_job` (jobs,) is the cost class of each job, NONE for pinned jobs. Of each class
    (classes,): `number` of jobs, `job_class` and `group`; (classes, regions): the mean `cost`,
    whether it is `cheap` there (below its most), and whether it is `eligible`.
    """

    class_of_job: Ints
    number: Ints
    job_class: Ints
    cost: Floats
    cheap: Bools
    eligible: Bools
    group: Ints


def build_cost_classes(classes: JobClasses, costs: Ints) -> CostClasses:
    """Return the cost classes of a round, for costs (jobs, regions)."""
    problem = classes.problem
    jobs = np.flatnonzero(classes.class_of_job != NONE)
    eligible = problem.eligible[jobs]
    pending = classes.current_region[classes.class_of_job[jobs]] == NONE
    mine = np.where(eligible & pending[:, None], costs[jobs], 0)
    most = mine.max(axis=1, initial=0)
    level = np.zeros(mine.shape, dtype=np.int8)
    some = most > 0
    level[some] = (
        parameters.PARAMETERS.num_cost_levels * mine[some] + most[some, None] - 1
    ) // most[some, None]
    level[~eligible] = -1
    first, inverse = _distinct(classes.class_of_job[jobs], level)
    number = np.bincount(inverse, minlength=len(first))
    order = np.argsort(inverse, kind="stable")
    total = np.add.reduceat(mine[order], np.cumsum(number) - number, axis=0)
    cost = total / np.maximum(1, number)[:, None]
    class_of_job = np.full(len(classes.class_of_job), NONE, dtype=np.int64)
    class_of_job[jobs] = inverse
    top = level[first].max(axis=1, initial=0)
    cheap = eligible[first] & ((level[first] < top[:, None]) | ~pending[first, None])
    job_class = classes.class_of_job[jobs[first]]
    group = _distinct(job_class, eligible[first].view(np.int8))[1]
    return CostClasses(class_of_job, number, job_class, cost, cheap, eligible[first], group)


def _distinct(job_class: Ints, level: NDArray[np.int8]) -> tuple[Ints, Ints]:
    """Return the distinct pairs of a number (rows,) and a row of bytes (rows, regions).

    The first array is the first row of each pair, the second the pair of each row.
    """
    words = np.zeros((len(level), -(-level.shape[1] // WORD_BYTES) * WORD_BYTES), dtype=np.int8)
    words[:, : level.shape[1]] = level
    # To sort by few words is much faster than to compare rows.
    columns = np.column_stack([job_class, words.view(np.int64)])
    order = np.lexsort(columns.T)
    new = np.ones(len(job_class), dtype=np.bool_)
    new[1:] = (columns[order[1:]] != columns[order[:-1]]).any(axis=1)
    inverse = np.empty(len(job_class), dtype=np.int64)
    inverse[order] = np.cumsum(new) - 1
    return order[new].astype(np.int64), inverse


@dataclass(frozen=True, slots=True, eq=False)
class AssignmentModel:
    """The assignment model and the meaning of its columns.

    `cheap` are the columns of assignments in cheap regions, of cost class `cheap_class` and with
    assignment `cheap_assignment`; `other` are those of all other regions, of cost class
    `other_class`; `shared` distribute these over assignments `shared_assignment` of the group
    `shared_group`. `rows` are the capacity rows. `value` and `cost` are the columns and
    coefficients of the two terms.
    """

    classes: JobClasses
    cost_classes: CostClasses
    model: Model
    cheap: Ints
    cheap_class: Ints
    cheap_assignment: Ints
    other: Ints
    other_class: Ints
    shared: Ints
    shared_group: Ints
    shared_assignment: Ints
    rows: Ints
    value: tuple[Ints, Floats]
    cost: tuple[Ints, Floats]

    def add_value_term(self, name: str, value: Ints) -> None:
        """Add a term, maximised, in which assignments have these values (assignments,)."""
        columns, _ = self.value
        each = np.concatenate([value[self.cheap_assignment], value[self.shared_assignment]])
        job_class = self.cost_classes.job_class
        lost = np.zeros(len(job_class))
        runs = self.classes.current_region[job_class][self.cheap_class] != NONE
        number = self.cost_classes.number[self.cheap_class]
        worth = (value[self.cheap_assignment] * number).astype(np.float64)
        np.maximum.at(lost, self.cheap_class[runs], worth[runs])
        self.model.term(
            name, columns, each.astype(np.float64), sense="max", constant=-float(lost.sum())
        )


def build_assignment_model(classes: JobClasses, cost_classes: CostClasses) -> AssignmentModel:
    """Return the assignment model, with terms `value` (maximised) and `cost` (minimised)."""
    model = Model()
    by_class = np.argsort(classes.assignment_class, kind="stable")
    start = np.searchsorted(
        classes.assignment_class[by_class], np.arange(len(classes.current_region) + 1)
    )

    def assignments(job_class: Ints) -> tuple[Ints, Ints]:
        """Return the assignments of some job classes, and the position of the class of each."""
        count = start[job_class + 1] - start[job_class]
        owner = np.repeat(np.arange(len(job_class)), count)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
        return by_class[start[job_class][owner] + within], owner

    assignment, cost_class = assignments(cost_classes.job_class)
    region = classes.assignment_region[assignment]
    kept = cost_classes.cheap[cost_class, region]
    assignment, cost_class, region = assignment[kept], cost_class[kept], region[kept]
    groups, member = np.unique(cost_classes.group, return_index=True)
    shared_assignment, group = assignments(cost_classes.job_class[member])
    kept = cost_classes.eligible[member[group], classes.assignment_region[shared_assignment]]
    shared_assignment, group = shared_assignment[kept], group[kept]
    pending = classes.current_region[cost_classes.job_class] == NONE
    open_ = pending[member[group]]
    shared_assignment, group = shared_assignment[open_], group[open_]
    other_class = np.flatnonzero(pending & np.isin(cost_classes.group, group))

    number = cost_classes.number[cost_class].astype(float)
    cheap = model.variables("near", len(assignment), upper=number)
    other = model.variables(
        "far", len(other_class), upper=cost_classes.number[other_class].astype(float), integer=False
    )
    most = np.zeros(len(groups))
    np.add.at(most, cost_classes.group[other_class], cost_classes.number[other_class])
    shared = model.variables("shared", len(shared_assignment), upper=most[group])
    rows = model.rows("row", len(classes.capacity), upper=classes.capacity.astype(float))
    by_assignment = np.argsort(classes.entry_assignment, kind="stable")
    entry = np.searchsorted(
        classes.entry_assignment[by_assignment], np.arange(classes.num_assignments + 1)
    )
    for columns, of_column in ((cheap, assignment), (shared, shared_assignment)):
        count = entry[of_column + 1] - entry[of_column]
        owner = np.repeat(np.arange(len(of_column)), count)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
        entry_of_column = by_assignment[entry[of_column][owner] + within]
        model.add(
            rows[classes.entry_row[entry_of_column]],
            columns[owner],
            classes.entry_usage[entry_of_column],
        )
    # Running jobs that cannot be preempted go on.
    must_continue = ~pending & ~classes.preemptible[cost_classes.job_class]
    every = cost_classes.number.astype(float)
    demand = model.rows(
        "cluster", len(every), lower=np.where(must_continue, every, -np.inf), upper=every
    )
    model.add(demand[cost_class], cheap, 1.0)
    model.add(demand[other_class], other, 1.0)
    balance = model.rows("balance", len(groups), lower=0.0, upper=0.0)
    model.add(balance[cost_classes.group[other_class]], other, 1.0)
    model.add(balance[group], shared, -1.0)
    value = (
        np.concatenate([cheap, shared]),
        np.concatenate([classes.value[assignment], classes.value[shared_assignment]]).astype(
            np.float64
        ),
    )
    top = np.where(cost_classes.eligible, cost_classes.cost, 0.0).max(axis=1, initial=0.0)
    each = np.concatenate([cost_classes.cost[cost_class, region], top[other_class]])
    cost = np.concatenate([cheap, other]), each
    model.term("cost", *cost, sense="min")
    found = AssignmentModel(
        classes=classes,
        cost_classes=cost_classes,
        model=model,
        cheap=cheap,
        cheap_class=cost_class,
        cheap_assignment=assignment,
        other=other,
        other_class=other_class,
        shared=shared,
        shared_group=group,
        shared_assignment=shared_assignment,
        rows=rows,
        value=value,
        cost=cost,
    )
    found.add_value_term("value", classes.value)
    return found
