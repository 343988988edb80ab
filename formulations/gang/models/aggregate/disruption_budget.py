"""Disruption budget of the aggregate model: which running jobs a y counts, and rows over them.

The running jobs of a class that compete for hosts are divided into steps, each with a y of its own:
how many of its n jobs run afterwards. Each of them costs and loses at least what the step says, so
a plan satisfies

    preempted_jobs   sum (n - y)              <= limit        over steps of jobs that count
    preempted_gpus   sum milli-GPU (n - y)    <= limit
    lost_gpu_s       sum lost (n - y)         <= limit
    min_run_s        y >= n                                   steps of protected jobs

Which jobs migrate a count does not tell: what they lose, and the limit on them, are left out, as is
what running jobs lose that do not compete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, groupby
from typing import NamedTuple

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.problem.disruption_budget import (
    NO_BUDGET_PRICES,
    NOTHING,
    BudgetPrices,
    Disruption,
    DisruptionBudget,
)
from placewright.formulations.gang.problem.jobs import JobClass
from placewright.formulations.gang.problem.problem import Problem
from placewright.solver import Arrays

PROTECTED, BUDGET = "protected", "disruption budget"


class Step(NamedTuple):
    """Running jobs of a class: how many, the least that stopping one costs and uses of the budget.

    `protected`: none of them is preempted.
    """

    jobs: int
    cost: int
    use: Disruption = NOTHING
    protected: bool = False


def steps_of(problem: Problem, number: int) -> Iterator[Step]:
    """Yield the steps of a class of running jobs."""
    tuning, budget = parameters.PARAMETERS.models, problem.budget
    job_class = problem.classes[number]
    if budget is None:
        costs = sorted(problem.running[j].preempt_cost for j in job_class.jobs)
        # Jobs that do not compete may be those of highest cost: leaving these out relaxes it.
        costs = costs[: problem.num_competing[number]]
        for part in np.array_split(np.array(costs), tuning.num_stop_cost_steps):
            if len(part):
                yield Step(len(part), int(part[0]))
        return
    for jobs in _parts(problem, budget, job_class):
        uses = [budget.stops[j].preempted for j in jobs if j in budget.stops]
        yield Step(
            len(jobs),
            min(problem.running[j].preempt_cost for j in jobs),
            Disruption(*map(min, zip(*uses, strict=True))) if uses else NOTHING,
            budget.is_protected(jobs[0]),
        )


def _parts(problem: Problem, budget: DisruptionBudget, job_class: JobClass) -> Iterator[list[int]]:
    """Yield the jobs of each step: those that count apart, and of these the protected ones."""
    tuning = parameters.PARAMETERS.models
    key = {
        j: (j in budget.stops, budget.is_protected(j))
        for j in job_class.jobs
        if j not in problem.not_competing
    }
    lost = {j: budget.used([j], []).lost_gpu_s for j in key}
    order = sorted(key, key=lambda j: (key[j], lost[j], problem.running[j].preempt_cost, j))
    for _, group in groupby(order, key.__getitem__):
        jobs, most = list(group), budget.limits[Disruption._fields.index("lost_gpu_s")]
        few = len(jobs)
        if most is not None:
            # Those that lose so much that they cannot stop beside all that lose less.
            few = sum(total <= most for total in accumulate(lost[j] for j in jobs))
        steps = tuning.num_stop_cost_steps if most is None else tuning.num_lost_work_steps
        for part in np.array_split(np.array(jobs[:few]), steps):
            if len(part):
                yield part.tolist()
        if few < len(jobs):
            yield jobs[few:]


def add_disruption_budget(m: AggregateModel) -> None:
    """Append the rows, and record those of the limits; none without a budget."""
    budget = m.problem.budget
    if budget is None:
        return
    least = np.flatnonzero(m.y_least)
    rows = m.model.rows(PROTECTED, len(least), lower=m.y_least[least].astype(np.float64))
    m.model.add(rows, m.y[least], 1.0)
    for number, most in enumerate(budget.limits):
        use = m.y_use[:, number]
        if most is None or not use.any():
            continue
        # Divided by what all uses share.
        counted, unit = np.flatnonzero(use), _unit(use)
        each = use[counted] // unit
        all_stop = int(each @ m.y_most[counted])
        row = m.model.rows(BUDGET, 1, lower=float(all_stop - most // unit))
        m.model.add(row[[0] * len(counted)], m.y[counted], each)
        m.budget_row[number] = row[0]


def without_budget(m: AggregateModel, arrays: Arrays) -> Arrays:
    """Return the arrays with the rows of the budget open: for patterns that do not fit them yet."""
    lower = arrays.row_lower.copy()
    for block in m.model.row_blocks:
        if block.name in (PROTECTED, BUDGET):
            lower[block.start : block.start + block.size] = -np.inf
    return replace(arrays, row_lower=lower)


def budget_prices(m: AggregateModel, row_duals: Floats | None) -> BudgetPrices:
    """Return what a unit of each limit is worth, by the duals of its row."""
    if row_duals is None:
        return NO_BUDGET_PRICES
    duals = np.append(row_duals, 0.0)[m.budget_row]
    prices = -duals.clip(max=0.0) / [_unit(use) for use in m.y_use.T]
    return tuple(prices.tolist())


def _unit(use: Ints) -> int:
    """Return the greatest common divisor of some uses, 1 if there are none."""
    return int(np.gcd.reduce(use, initial=0)) or 1
