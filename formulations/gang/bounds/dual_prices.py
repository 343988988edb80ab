"""Dual bound: prices of tasks prove a bound on `value` without a linear program.

Whatever prices the tasks of each shape get, a plan is worth no more than what jobs are worth above
the prices of their tasks, plus the most that hosts can hold at these prices:

    value  <=  sum_c jobs of c * max(0, max_o value(o) - sum_s price[s] tasks of s in o)
             + sum_h best set of tasks that host h holds, at these prices
             - value of the running jobs

With a disruption budget, prices of its limits count, too: a running job that stops pays for what it
uses of them, and all of each limit is paid for. Then of each running job the larger counts of its
value above prices and minus what it pays, in place of 0, and the limits come on top.

This is the Lagrangian dual of the model by host patterns (host_columns.py) without gangs and
quotas, so the duals of its last relaxation give a bound as tight as that, as long as the round
changes little.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang.models.aggregate.host_columns import knapsack
from placewright.formulations.gang.models.aggregate.resource_grid import ResourceGrid
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.disruption_budget import (
    NO_BUDGET_PRICES,
    BudgetPrices,
)
from placewright.formulations.gang.problem.jobs import Choice, JobPlacement
from placewright.formulations.gang.problem.problem import Problem

SCALE = 1 << 10
"""Prices are whole multiples of this part of a unit of value, so that sums are exact."""

MAX_PRICE = 1 << 38

BUDGET_SCALE = 1 << 30
"""Prices of a disruption budget are multiples of this part of a part: a unit of work is small."""


@dataclass(frozen=True, eq=False)
class DualPrices:
    """Prices of a problem's shapes, and the most that its hosts can hold at them.

    Attributes
    ----------
    price : int64 (shapes,)
        In `SCALE` parts of a unit of value.
    best_of_host : int64 (hosts,)
        Largest total price on each host, cleared of all that may move; 0 where nothing may arrive.
    budget_price : tuple of int
        Price of a unit of each limit of the disruption budget, in `SCALE * BUDGET_SCALE` parts.
    """

    problem: Problem
    price: Ints
    best_of_host: Ints
    budget_price: tuple[int, ...] = (0,) * len(NO_BUDGET_PRICES)

    @classmethod
    def of(
        cls,
        problem: Problem,
        grid: ResourceGrid,
        price: NDArray[np.float64],
        budget_prices: BudgetPrices = NO_BUDGET_PRICES,
    ) -> Self:
        """Take the prices of the first shapes, and price the others at what they displace.

        Parameters
        ----------
        grid
            Of the cleared hosts: what running jobs hold that may move counts as free.
        price
            In units of value, (first shapes,); any numbers will do.
        budget_prices
            Of a unit of each limit of the disruption budget; any numbers from 0 on will do.

        Raises
        ------
        ValueError
            If running jobs that may move hold something in the grid: the bound would be too low.
        """
        if not np.array_equal(grid.free[:, 0], problem.cleared.whole_free(problem.cluster)):
            raise ValueError("the grid is not one of cleared hosts: prices would prove too much")
        model = problem.host_kind
        of_model = [np.flatnonzero(problem.open & (model == m)) for m in np.unique(model)]
        parts: list[tuple[Ints, NDArray[np.bool_]]] = [
            (mine, np.any(problem.shape_allowed[:, mine], axis=1)) for mine in of_model if len(mine)
        ]
        top = [grid.free[mine].max(axis=0) for mine, _ in parts]
        known = len(price)
        whole = np.zeros(len(grid.sizes), dtype=np.int64)
        whole[:known] = np.rint(price * SCALE).clip(0, MAX_PRICE).astype(np.int64)
        # Shapes of equal demand and hosts compete: the highest price counts.
        key = np.column_stack([grid.sizes, *(allowed for _, allowed in parts)])
        kind = np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)
        highest = np.full(len(whole), -1, dtype=np.int64)
        np.maximum.at(highest, kind[:known], whole[:known])
        new = np.flatnonzero(highest[kind] < 0)
        whole = highest[kind].clip(min=0)
        if len(new):
            displaced = np.full((len(parts), len(whole)), MAX_PRICE, dtype=np.int64)
            for i, (_, allowed) in enumerate(parts):
                best, _ = knapsack(grid, whole, allowed, top[i])
                fits = new[allowed[new] & (grid.sizes[new] <= top[i]).all(axis=1)]
                displaced[i, fits] = (
                    best[tuple(top[i])] - best[tuple((top[i] - grid.sizes[fits]).T)]
                )
            least = displaced.min(axis=0, initial=MAX_PRICE)[new]
            whole[new] = np.where(least < MAX_PRICE, least, 0)
        most = np.zeros(len(grid.free), dtype=np.int64)
        for i, (mine, allowed) in enumerate(parts):
            best, _ = knapsack(grid, whole, allowed, top[i])
            most[mine] = best[tuple(grid.free[mine].T)]
        paid = (round(max(one, 0.0) * SCALE * BUDGET_SCALE) for one in budget_prices)
        return cls(problem, whole, most, tuple(paid))

    def bound(self) -> float:
        """Return an exact upper bound on the term `value`."""
        problem = self.problem
        total = BUDGET_SCALE * int(self.best_of_host.sum()) + self._limits()
        for c, number in zip(problem.classes, problem.num_competing.tolist(), strict=True):
            margin = BUDGET_SCALE * max(self._margin(choice) for choice in c.choices)
            if not c.running:
                total += number * max(0, margin)
                continue
            total -= number * c.choices[0].value * SCALE * BUDGET_SCALE
            if margin >= 0 or not any(self.budget_price):
                total += number * max(0, margin)
            else:
                competing = (j for j in c.jobs if j not in problem.not_competing)
                total += sum(max(margin, -self._paid(j)) for j in competing)
        return problem.round_certified("value", Fraction(total, SCALE * BUDGET_SCALE))

    def _limits(self) -> int:
        """Return what all limits of the disruption budget cost together."""
        budget = self.problem.budget
        limits = () if budget is None else zip(self.budget_price, budget.limits, strict=True)
        return sum(price * most for price, most in limits if most is not None)

    def _paid(self, job: int) -> int:
        """Return what a running job pays if it is preempted."""
        budget = self.problem.budget
        if budget is None:
            return 0
        used = zip(self.budget_price, budget.used([job], ()), budget.limits, strict=True)
        return sum(price * amount for price, amount, most in used if most is not None)

    def may_pay(self, choice: Choice) -> bool:
        """Whether it may be worth displacing others for an option.

        Its value exceeds the prices of its tasks; or it equals them, if the option needs whole
        hosts together: the GPUs may be free, but scattered.
        """
        margin = self._margin(choice)
        return margin > 0 or (margin == 0 and not choice.is_single_task)

    def _margin(self, choice: Choice) -> int:
        """Return the value of an option above the prices of its tasks, in `SCALE` parts."""
        tasks = sum(g.count * int(self.price[g.shape]) for g in choice.groups)
        return choice.value * SCALE - tasks

    def loss_per_host(self, placement: Placement) -> NDArray[np.float64]:
        """Return how much less value each host holds than it could, float64 (hosts,)."""
        held = np.zeros(len(self.best_of_host), dtype=np.int64)
        _, _, host, shape = self.problem.running_tasks.T
        np.add.at(held, host, self.price[shape])
        classes = self.problem.classes

        def add(start: JobPlacement, times: int) -> None:
            groups = classes[start.job_class].choices[start.choice].groups
            for put in start.tasks:
                held[put.host] += times * put.count * int(self.price[groups[put.group].shape])

        for job in placement.displaced_jobs():
            add(self.problem.running_placement_of[job], -1)
        for _, start in placement.changed():
            add(start, 1)
        return (self.best_of_host - held) / SCALE
