"""Victim sets: sets of running jobs that may be preempted together, host by host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.pool_use import use_of_pool
from placewright.formulations.gang.problem.disruption_budget import (
    NO_BUDGET_PRICES,
    BudgetPrices,
)
from placewright.formulations.gang.problem.jobs import Choice, JobClass
from placewright.formulations.gang.problem.pools import Pool
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.quotas import QuotaKey

QuotaPrices: TypeAlias = Mapping[QuotaKey, float]
"""What a unit of a quota or cap is worth."""
NO_QUOTA_PRICES: QuotaPrices = {}


def net_value(problem: Problem, job_class: JobClass, choice: Choice, prices: QuotaPrices) -> float:
    """Return what an option is worth above what it takes of quotas."""
    return choice.value - sum(
        price * problem.demand_of(choice, resource)
        for (owner, resource), price in prices.items()
        if owner in job_class.accounts
    )


@dataclass(frozen=True, eq=False, slots=True)
class VictimCandidates:
    """Running jobs in place that may stop, one row per job and host, by rising host.

    Attributes
    ----------
    gain : int64 (rows, 1 + resources)
        What the host has free once the job has stopped, whole GPUs first; last what the pools
        around it have.
    loss : float64 (rows,)
        Its value, what it uses of the disruption budget at its prices, and what stopping it costs
        as a fraction of one unit.
    """

    job: Ints
    host: Ints
    gain: Ints
    loss: NDArray[np.float64]
    level: Ints

    @classmethod
    def of(
        cls,
        placement: Placement,
        sizes: Ints,
        prices: QuotaPrices,
        budget_prices: BudgetPrices = NO_BUDGET_PRICES,
    ) -> Self:
        """List the running jobs on hosts where tasks may arrive."""
        problem = placement.problem
        milli = [problem.demand_of(c.choices[0], -1) if c.running else 0 for c in problem.classes]
        value = [net_value(problem, c, c.choices[0], prices) for c in problem.classes]
        facts = [
            (value[r.job_class], r.preempt_cost + milli[r.job_class], placement.in_place(job))
            for job, r in problem.running.items()
        ]
        worth, cost, here = np.array(facts, dtype=np.float64).reshape(-1, 3).T
        loss = worth + cost / (1 + cost.sum())
        if problem.budget is not None and any(budget_prices):
            uses = [problem.budget.used([job], []) for job in problem.running]
            loss += np.array(uses, dtype=np.float64).reshape(-1, len(budget_prices)) @ budget_prices
        number = np.searchsorted(list(problem.running), problem.running_tasks[:, 0])
        tasks = problem.running_tasks[
            problem.open[problem.running_tasks[:, 2]] & (here[number] > 0)
        ]
        # By host, then by job; tasks of a job on one host are one row.
        key = tasks[:, 2] * (1 + tasks[:, 0].max(initial=0)) + tasks[:, 0]
        _, first, row = np.unique(key, return_index=True, return_inverse=True)
        gain = np.zeros((len(first), sizes.shape[1]), dtype=np.int64)
        np.add.at(gain, row, sizes[tasks[:, 3]])
        job, level, host, _ = tasks[first].T
        for k, pool in enumerate(problem.pools):
            gain[:, k - len(problem.pools)] = _held_of_pool(problem, pool, job, host)
        number = np.searchsorted(list(problem.running), job)
        return cls(job, host, gain, loss[number], level)

    def rows(self, which: NDArray[Any]) -> Self:
        """Return some of the rows."""
        return type(self)(
            self.job[which], self.host[which], self.gain[which], self.loss[which], self.level[which]
        )


def _held_of_pool(problem: Problem, pool: Pool, job: Ints, host: Ints) -> Ints:
    """Return what running jobs hold of the domain of a pool around a host, int64 (rows,)."""
    home, jobs = problem.running_placement_of, job.tolist()
    held = {j: use_of_pool(problem, pool, home[j]) for j in set(jobs)}
    pairs = zip(jobs, pool.domain[host].tolist(), strict=True)
    return np.array([held[j].get(domain, 0) for j, domain in pairs], dtype=np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class VictimSets:
    """One row per host and set of its jobs that stops.

    Attributes
    ----------
    capacity : int64 (rows, 1 + resources)
        What is free then, whole GPUs first; last what the victims give back of pools.
    level : int64 (rows,)
        Least rank that may come.
    stopped : int64 (rows,)
        Which of the jobs of the host, as bits.
    used : float64 (rows, 4)
        What that uses of the disruption budget.
    """

    host: Ints
    capacity: Ints
    loss: NDArray[np.float64]
    level: Ints
    stopped: Ints
    used: NDArray[np.float64]

    @classmethod
    def empty(cls, columns: int) -> Self:
        """Return a table without rows."""
        none = np.zeros(0, dtype=np.int64)
        return cls(
            none, np.zeros((0, columns), dtype=np.int64), np.zeros(0), none, none, np.zeros((0, 4))
        )

    def rows(self, which: NDArray[Any]) -> Self:
        """Return some of the rows."""
        return type(self)(
            self.host[which],
            self.capacity[which],
            self.loss[which],
            self.level[which],
            self.stopped[which],
            self.used[which],
        )

    def merged(self, *others: Self) -> Self:
        """Return the rows of all, by rising host; within a host in their order."""
        tables = (self, *others)
        host = np.concatenate([t.host for t in tables])
        order = np.argsort(host, kind="stable")
        return type(self)(
            host[order],
            # Read column by column.
            np.asfortranarray(np.concatenate([t.capacity for t in tables])[order]),
            np.concatenate([t.loss for t in tables])[order],
            np.concatenate([t.level for t in tables])[order],
            np.concatenate([t.stopped for t in tables])[order],
            np.concatenate([t.used for t in tables])[order],
        )


def slice_of(rising: Ints, value: int) -> slice:
    """Where a value is in a rising array."""
    first, last = np.searchsorted(rising, [value, value + 1]).tolist()
    return slice(first, last)


def exceeds_enumeration(jobs: int) -> bool:
    """Whether a host has too many jobs to look at all sets of them."""
    return jobs > parameters.PARAMETERS.insertion.max_enumerated_jobs


def job_subsets(jobs: int) -> NDArray[np.bool_]:
    """All subsets of `jobs` jobs, or the first n of them for each n; bool (sets, jobs)."""
    if exceeds_enumeration(jobs):
        return np.tri(jobs + 1, jobs, -1, dtype=np.bool_)
    numbers = np.arange(1 << jobs, dtype=np.int64)
    return (numbers[:, None] >> np.arange(jobs, dtype=np.int64) & 1).astype(np.bool_)
