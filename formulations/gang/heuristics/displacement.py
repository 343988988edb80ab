"""Displacement cost: the cheapest victims, host by host, within quotas and caps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.disruption_budget import disruption_of
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import use_of_pool
from placewright.formulations.gang.problem.jobs import Choice, JobClass
from placewright.formulations.gang.problem.limits import (
    NO_BUDGET_PRICES,
    NOTHING,
    BudgetPrices,
    QuotaKey,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.shapes import Pool
from placewright.formulations.session import Session
from placewright.solver import Model
from placewright.topology.units import WHOLE_GPU

# Multidimensional knapsack: which changes of a displacement to keep within all quotas and caps.
#
# The jobs that start and those that stop on connected hosts are one change; hosts that share a job
# are connected. Changes depend on each other through quotas alone:
#
#     max  sum_i gain[i] k[i]      sum_i use[i,q] k[i]  <=  residual quota q,      k[i] in {0, 1}


def keep_within_quotas(session: Session, placement: Placement) -> None:
    """Undo the changes that exceed quotas, in a placement in which no running job has moved."""
    problem = placement.problem
    left = Placement(problem).quota_left()
    came, stopped = _changes(placement)
    if not left or not came:
        return
    gain = np.zeros(len(came))
    use = np.zeros((len(came), len(left)))
    for jobs, sign in ((came, 1), (stopped, -1)):
        for i, members in jobs.items():
            for _, c, o in members:
                job_class = problem.classes[c]
                choice = job_class.choices[o]
                gain[i] += sign * choice.value
                for q, (owner, resource) in enumerate(left):
                    if owner in job_class.accounts:
                        use[i, q] += sign * problem.demand_of(choice, resource)
    model = Model()
    kept = model.variables("kept", len(came), upper=1)
    rows = model.rows("quota", len(left), upper=np.array(list(left.values())))
    at, of = np.nonzero(use)
    model.add(rows[of], kept[at], use[at, of])
    model.term("gain", kept, gain, sense="max")
    tuning = parameters.PARAMETERS.insertion
    outcome = session.optimise(
        model.arrays("gain"), most=tuning.max_quota_seconds, gap=tuning.quota_gap_rel
    )
    if outcome is None or outcome.values is None:
        return
    for i in np.flatnonzero(np.rint(outcome.values) == 0).tolist():
        for number, _, _ in came[i]:
            placement.stop(number)
        for job, _, _ in stopped[i]:
            placement.restart(problem.running_placement_of[job])


_Jobs = dict[int, list[tuple[int, int, int]]]
"""By change: (start or running job, class, choice)."""


def _changes(placement: Placement) -> tuple[_Jobs, _Jobs]:
    """Return who came and who stopped, by change; the changes are numbered."""
    # Small rounds never come here.
    import networkx as nx

    problem = placement.problem
    came = [
        (number, start.job_class, start.choice, [put.host for put in start.tasks])
        for number, start in placement.changed()
    ]
    stopped = [
        (job, running.job_class, 0, [place[2] for place in running.places])
        for stopped in placement.stopped
        for job, running in ((job, problem.running[job]) for job in stopped)
    ]
    graph: nx.Graph[int] = nx.Graph()
    for _, _, _, hosts in (*came, *stopped):
        nx.add_path(graph, hosts)
    component = {
        host: i for i, hosts in enumerate(nx.connected_components(graph)) for host in hosts
    }

    def grouped(jobs: Iterable[tuple[int, int, int, list[int]]]) -> _Jobs:
        found: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for job, c, o, hosts in jobs:
            found[component[hosts[0]]].append((job, c, o))
        return found

    first, second = grouped(came), grouped(stopped)
    return {i: first[i] for i in range(nx.number_connected_components(graph))}, second


# Victim sets: sets of running jobs that may be preempted together, host by host.


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


class _Table:
    """Rows of arrays, one array per field."""

    def rows(self, which: NDArray[Any]) -> Self:
        """Return some of the rows."""
        return self._of(getattr(self, name)[which] for name in self._names())

    @classmethod
    def _names(cls) -> list[str]:
        return [field.name for field in fields(cls)]  # type: ignore[arg-type]

    @classmethod
    def _of(cls, columns: Iterable[NDArray[Any]]) -> Self:
        return cls(*columns)


@dataclass(frozen=True, eq=False, slots=True)
class VictimCandidates(_Table):
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

    @property
    def bit(self) -> Ints:
        """Place (rows,) of each job among those of its host, and of its bit in `stopped`."""
        place: Ints = np.arange(len(self.host)) - np.searchsorted(self.host, self.host)
        return place


def _held_of_pool(problem: Problem, pool: Pool, job: Ints, host: Ints) -> Ints:
    """Return what running jobs hold of the domain of a pool around a host, int64 (rows,)."""
    home, jobs = problem.running_placement_of, job.tolist()
    held = {j: use_of_pool(problem, pool, home[j]) for j in set(jobs)}
    pairs = zip(jobs, pool.domain[host].tolist(), strict=True)
    return np.array([held[j].get(domain, 0) for j, domain in pairs], dtype=np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class VictimSets(_Table):
    """One row per host and set of its jobs that stops.

    Attributes
    ----------
    capacity : int64 (rows, 1 + resources)
        What is free then, whole GPUs first; last what the victims give back of pools.
    level : int64 (rows,)
        Least rank that may come.
    stopped : int64 (rows,)
        Which of the jobs of the host, as bits.
    used : float64 (rows, limits)
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
            none,
            np.zeros((0, columns), dtype=np.int64),
            np.zeros(0),
            none,
            none,
            np.zeros((0, len(NOTHING))),
        )

    def merged(self, *others: Self) -> Self:
        """Return the rows of all, by rising host; within a host in their order."""
        order = np.argsort(np.concatenate([t.host for t in (self, *others)]), kind="stable")
        # Read column by column.
        return self._of(
            np.asfortranarray(np.concatenate([getattr(t, name) for t in (self, *others)])[order])
            for name in self._names()
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


# Displacement cost: the cheapest set of victims, host by host, for tasks that arrive there.
#
# A row of the table is one host and one set of its running jobs: the capacity that is free once
# they stop, and the loss. On hosts with many jobs only the sets of the cheapest ones are
# enumerated. What pools have left is looked up when it is asked for, since other hosts take from
# them, too.


Quota: TypeAlias = Mapping[QuotaKey, int]
"""Amounts of quotas and caps."""
NO_QUOTA: Quota = {}
_CountKey: TypeAlias = tuple[int, int, tuple[tuple[QuotaKey, int], ...]]
"""A shape, a number of tasks, and what of quotas each must find free."""


class DisplacementCost:
    """Table of victim sets of a placement.

    A host where jobs were preempted is out of the table until `refresh`. `table` has a row per
    host and set of its `candidates` that stops.

    Parameters
    ----------
    prices, budget_prices
        What a unit of each quota, and of each limit of the disruption budget, is worth.
    beyond_budget
        Whether victims may exceed the disruption budget.
    """

    def __init__(
        self,
        placement: Placement,
        prices: QuotaPrices = NO_QUOTA_PRICES,
        budget_prices: BudgetPrices = NO_BUDGET_PRICES,
        *,
        beyond_budget: bool = False,
    ) -> None:
        self.placement = placement
        problem = placement.problem
        # A share may need a GPU of its own.
        gpus = -(-problem.shape_gpu // WHOLE_GPU)
        self._pools = problem.pools
        taken = [pool.demand for pool in self._pools]
        self._sizes = np.column_stack([gpus, problem.shape_demand, *taken])
        # A share that stops may leave its GPU in use, and a reserved GPU is never free.
        self._gpus_by_name = not problem.usable.all() or any(
            problem.is_share[group.shape]
            for job_class in problem.classes
            if job_class.running
            for group in job_class.choices[0].groups
        )
        jobs = VictimCandidates.of(placement, self._sizes, prices, budget_prices)
        # No pending job may preempt the others.
        jobs = jobs.rows(jobs.level < problem.shape_rank.max(initial=0))
        budget = problem.budget
        if budget is not None:
            jobs = jobs.rows(
                np.array([not budget.is_protected(j) for j in jobs.job.tolist()], np.bool_)
            )
        self.candidates, self._budget = jobs, None if beyond_budget else budget
        self._set_budget_left()
        self._stale_hosts: set[int] = set()
        self.table = self._victim_sets(np.flatnonzero(problem.open), self.candidates)
        self._index()

    def refresh(self) -> None:
        """Put changed hosts back into the table, in their current state."""
        open_ = self.placement.problem.open
        used = np.array(sorted(h for h in self._stale_hosts if open_[h]), dtype=np.int64)
        self._stale_hosts = set()
        runs = np.array(
            [self.placement.in_place(j) for j in self.candidates.job.tolist()], np.bool_
        )
        self.candidates = self.candidates.rows(runs)
        self._set_budget_left()
        mine = self.candidates.rows(np.isin(self.candidates.host, used))
        others = self.table.rows(~np.isin(self.table.host, used))
        self.table = others.merged(self._victim_sets(used, mine))
        self._index()

    def _set_budget_left(self) -> None:
        """Note what the placement leaves of the disruption budget, inf where there is no limit."""
        left: tuple[int | None, ...] = ()
        if self._budget is not None:
            left = self._budget.after(disruption_of(self.placement, self._budget)).limits
        limits = [np.inf if most is None else most for most in left]
        self._budget_left = np.array(limits, dtype=np.float64)

    def _budget_use(self, jobs: Ints) -> NDArray[np.float64]:
        """Return what stopping each of some jobs uses of the disruption budget, (..., limits)."""
        if self._budget is None:
            return np.zeros((*jobs.shape, len(NOTHING)))
        uses = [self._budget.used([job], []) for job in jobs.ravel().tolist()]
        return np.array(uses, dtype=np.float64).reshape(*jobs.shape, len(NOTHING))

    def _index(self) -> None:
        """Index the table by host, and drop cached results."""
        self._least_arrived = self.placement.least_arrived.copy()
        self._first_rows = np.flatnonzero(np.diff(self.table.host, prepend=-1))
        self._of_count: dict[_CountKey, tuple[NDArray[np.float64], Ints]] = {}
        self._freed_cache: dict[QuotaKey, Ints] = {}

    def _victim_sets(self, hosts: Ints, jobs: VictimCandidates) -> VictimSets:
        """Return the rows of some hosts, in their order, and of the jobs that run on them."""
        number = np.bincount(np.searchsorted(hosts, jobs.host), minlength=len(hosts))
        first = np.cumsum(number) - number
        parts = [VictimSets.empty(self._sizes.shape[1])]
        for k in np.unique(number).tolist():
            mine = hosts[number == k]
            index = first[number == k][:, None] + np.arange(k)
            if exceeds_enumeration(k):
                # Few sets: the cheapest jobs one after the other.
                loss = jobs.loss[index]
                order = np.argsort(np.argsort(loss, axis=1, kind="stable"), axis=1)
                sets = job_subsets(k)[:, None, :] & np.ones((1, len(mine), 1), dtype=np.bool_)
                sets = np.take_along_axis(sets, order[None], axis=2)
            else:
                few = job_subsets(k)
                sets = np.broadcast_to(few[:, None, :], (len(few), len(mine), k))
            parts.append(self._rows_of(mine, jobs, index, sets))
        return parts[0].merged(*parts[1:])

    def _rows_of(
        self, hosts: Ints, jobs: VictimCandidates, index: Ints, sets: NDArray[np.bool_]
    ) -> VictimSets:
        """Return rows of hosts for sets (n, hosts, k) of jobs, at `index` (hosts, k) of `jobs`."""
        placement = self.placement
        none = np.zeros((len(hosts), len(self._pools)), dtype=np.int64)
        base = np.column_stack([placement.whole[hosts], placement.free[hosts], none])
        shape = (len(sets) * len(hosts),)
        capacity = base + np.einsum("snk,nkd->snd", sets, jobs.gain[index])
        if self._gpus_by_name:
            capacity[..., 0] = self._whole_gpus(hosts, jobs.job[index], sets)
        return VictimSets(
            np.broadcast_to(hosts, sets.shape[:2]).reshape(shape),
            capacity.reshape(*shape, -1),
            np.einsum("snk,nk->sn", sets, jobs.loss[index]).reshape(shape),
            (sets * (jobs.level[index] + 1)).max(axis=2, initial=0).reshape(shape),
            (sets * (1 << np.arange(index.shape[1]))).sum(axis=2).reshape(shape),
            np.einsum("snk,nkd->snd", sets, self._budget_use(jobs.job[index])).reshape(
                *shape, len(NOTHING)
            ),
        )

    def add_sets_of(self, plan: Placement) -> Ints:
        """Add, host by host, the set of those not in place in a plan; return the table's rows.

        Of hosts with many jobs it may not be there yet.
        """
        jobs, hosts = self.candidates, np.flatnonzero(self.placement.problem.open)
        leaves = np.array([not plan.in_place(job) for job in jobs.job.tolist()], dtype=np.bool_)
        stopped = np.zeros(len(self.placement.whole), dtype=np.int64)
        np.add.at(stopped, jobs.host, leaves << jobs.bit)
        found = self.table.stopped == stopped[self.table.host]
        lacking = np.setdiff1d(hosts, self.table.host[found]).tolist()
        parts = []
        for host in lacking:
            index = np.arange(len(leaves))[slice_of(jobs.host, host)]
            parts.append(
                self._rows_of(np.array([host]), jobs, index[None], leaves[index][None, None])
            )
        if parts:
            self.table = self.table.merged(*parts)
            self._index()
        return np.flatnonzero(self.table.stopped == stopped[self.table.host])

    def _whole_gpus(self, hosts: Ints, jobs: Ints, sets: NDArray[np.bool_]) -> Ints:
        """Wholly free GPUs of each host with each set of its jobs stopped, (sets, hosts)."""
        held = np.zeros((*jobs.shape, self.placement.gpu_free.shape[1]), dtype=np.int64)
        for n, host in enumerate(hosts.tolist()):
            for k, job in enumerate(jobs[n].tolist()):
                held[n, k] = self.placement.milli_gpu_held(job, host)
        left = self.placement.gpu_free[hosts] + np.einsum("snk,nkg->sng", sets, held)
        # What has arrived since holds GPUs that have no names yet.
        unnamed = (self.placement.gpu_free[hosts] == WHOLE_GPU).sum(axis=1) - self.placement.whole[
            hosts
        ]
        whole: Ints = np.asarray((left == WHOLE_GPU).sum(axis=2) - unnamed, dtype=np.int64)
        return whole

    def of(self, wanted: Ints, quota: Quota = NO_QUOTA) -> NDArray[np.float64]:
        """Return the least loss (hosts,) for a set of tasks, `wanted` (shapes,); inf if impossible.

        `quota` are amounts of quotas and caps that the victims must free.
        """
        return self._least_per_host(self._row_cost(wanted, quota))

    def of_count(
        self, shape: int, count: int, quota: Quota = NO_QUOTA
    ) -> tuple[NDArray[np.float64], Ints]:
        """Return loss and number of tasks (hosts,), as many as a host can hold, up to `count`.

        `quota` are amounts that must be freed per task.
        """
        key = (shape, count, tuple(sorted(quota.items())))
        if key not in self._of_count:
            self._of_count[key] = self._compute_of_count(shape, count, quota)
        return self._of_count[key]

    def _compute_of_count(
        self, shape: int, count: int, quota: Quota
    ) -> tuple[NDArray[np.float64], Ints]:
        problem = self.placement.problem
        number = np.zeros(problem.cluster.num_hosts, dtype=np.int64)
        loss = np.full(len(number), np.inf)
        wanted = np.zeros(len(problem.shape_gpu), dtype=np.int64)
        for n in range(1, count + 1):
            wanted[shape] = n
            more = self.of(wanted, {key: n * amount for key, amount in quota.items()})
            fits = np.isfinite(more)
            if not fits.any():
                break
            number[fits], loss[fits] = n, more[fits]
        return loss, number

    def preempt_for_count(
        self, host: int, shape: int, count: int, quota: Quota = NO_QUOTA
    ) -> list[int]:
        """Preempt the cheapest victims for `count` tasks of a shape, as `of_count`; return them."""
        wanted = np.zeros(len(self._sizes), dtype=np.int64)
        wanted[shape] = count
        all_of = {key: count * amount for key, amount in quota.items()}
        return self.preempt_for(host, wanted, all_of)

    def preempt_for(self, host: int, wanted: Ints, quota: Quota = NO_QUOTA) -> list[int]:
        """Preempt the cheapest victims for a set of tasks and return them; removes the host."""
        table = self.table
        at = slice_of(table.host, host)
        best = at.start + int(self._row_cost(wanted, quota, at).argmin())
        stopped = []
        for k, job in enumerate(self.candidates.job[slice_of(self.candidates.host, host)].tolist()):
            if table.stopped[best] >> k & 1 and self.placement.is_running(job):
                self.placement.stop(self.placement.start_of(job))
                stopped.append(job)
                running = self.placement.problem.running[job]
                others = {place[2] for place in running.places}
                self._stale_hosts.update(others)
                self._keep_pools_right(job, others - {host})
        table.loss[at] = np.inf
        self._stale_hosts.add(host)
        if stopped and self._budget is not None:
            self._budget_left -= self._budget_use(np.array(stopped)).sum(axis=0)
            self._of_count.clear()
        for loss, number in self._of_count.values():
            loss[host], number[host] = np.inf, 0
        return stopped

    def _keep_pools_right(self, job: int, hosts: Iterable[int]) -> None:
        """Take what a stopped job held of pools on other hosts from what its stop there frees.

        What pools have left has it by now.
        """
        for host in hosts if self._pools else ():
            at, mine = slice_of(self.table.host, host), slice_of(self.candidates.host, host)
            for k in np.flatnonzero(self.candidates.job[mine] == job).tolist():
                rows = at.start + np.flatnonzero(self.table.stopped[at] >> k & 1)
                gain = self.candidates.gain[mine.start + k, -len(self._pools) :]
                self.table.capacity[rows, -len(self._pools) :] -= gain

    def within_budget(self, tasks: Iterable[tuple[int, Ints, Quota]]) -> bool:
        """Whether what is left of the disruption budget allows the victims for all these tasks.

        `tasks` are a host, a set of tasks, (shapes,), and what these must free of quotas.
        """
        if self._budget is None:
            return True
        used = np.zeros(len(NOTHING))
        for host, wanted, quota in tasks:
            at = slice_of(self.table.host, host)
            cost = self._row_cost(wanted, quota, at)
            if not np.isfinite(cost).any():
                return False
            used += self.table.used[at.start + int(cost.argmin())]
        return bool((used <= self._budget_left).all())

    def beyond_pools(self, tasks: Iterable[tuple[int, Ints, Quota]]) -> int | None:
        """Return the first host whose tasks find too little in a pool; None if there is none.

        `tasks` are as in `within_budget`; each takes what those before it leave.
        """
        if not self._pools:
            return None
        left = [mine.copy() for mine in self.placement.pools.left]
        stopped = set[int]()
        for host, wanted, quota in tasks:
            at, mine = slice_of(self.table.host, host), slice_of(self.candidates.host, host)
            cost = self._row_cost(wanted, quota, at, left)
            if not np.isfinite(cost).any():
                return host
            row = at.start + int(cost.argmin())
            need = wanted @ self._sizes
            more = self.table.capacity[row] - need
            victims = np.flatnonzero(
                self.table.stopped[row] >> np.arange(mine.stop - mine.start) & 1
            )
            for k in (victims + mine.start).tolist():
                # What a gang gives back of a domain counts once, though it leaves several hosts.
                job = int(self.candidates.job[k])
                more = more - self.candidates.gain[k] if job in stopped else more
                stopped.add(job)
            for k, pool in enumerate(self._pools, start=-len(self._pools)):
                left[k][pool.domain[host]] += more[k]
                if need[k] and left[k][pool.domain[host]] < 0:
                    return host
        return None

    def freed_quota(self, key: QuotaKey) -> Ints:
        """Return how much of a quota or cap each row frees."""
        if key not in self._freed_cache:
            problem = self.placement.problem
            held = [
                problem.demand_of(c.choices[0], key[1]) if c.running and key[0] in c.accounts else 0
                for c in problem.classes
            ]
            jobs = self.candidates.job.tolist()
            mine = np.array([held[problem.running[j].job_class] for j in jobs], dtype=np.int64)
            self._freed_cache[key] = self.sums_of_victims(mine[:, None])[:, 0]
        return self._freed_cache[key]

    def sums_of_victims(self, amount: Ints) -> Ints:
        """Sum amounts of the candidates, (candidates, n), over those that stop, (rows, n)."""
        jobs, table = self.candidates, self.table
        first, last = (np.searchsorted(jobs.host, table.host, side) for side in ("left", "right"))
        total = np.zeros((len(table.host), amount.shape[1]), dtype=np.int64)
        for k in range(int((last - first).max(initial=0))):
            row = np.flatnonzero((first + k < last) & (table.stopped >> k & 1 > 0))
            total[row] += amount[first[row] + k]
        return total

    def _with_leave(self, shape: int) -> NDArray[np.bool_]:
        """Return whether a shape may preempt all that stop in each row."""
        problem, jobs = self.placement.problem, self.candidates
        barred = [not problem.over(shape, problem.running[j]) for j in jobs.job.tolist()]
        number = np.array(barred, dtype=np.int64)[:, None]
        found: NDArray[np.bool_] = self.sums_of_victims(number)[:, 0] == 0
        return found

    def _row_cost(
        self,
        wanted: Ints,
        quota: Quota = NO_QUOTA,
        at: slice = slice(None),
        left: Sequence[Ints] | None = None,
    ) -> NDArray[np.float64]:
        """Loss per row, inf where the tasks do not fit or may not come.

        `left` is what pools have left, by default as in the placement.
        """
        problem, table = self.placement.problem, self.table
        shapes = np.flatnonzero(wanted)
        need = wanted @ self._sizes
        rank: np.int64 = problem.shape_rank[shapes].min()
        hosts, level, capacity = table.host[at], table.level[at], table.capacity[at]
        fits: NDArray[np.bool_] = np.less_equal(level, rank)
        # What has arrived may not profit from a preemption, nor may this where others have left.
        fits &= level <= self._least_arrived[hosts]
        for shape in shapes.tolist() if problem.over.sets is not None else ():
            fits &= self._with_leave(shape)[at]
        # Rows are by rising host: most often they are of one.
        some = slice(hosts[0], hosts[-1] + 1) if len(hosts) else slice(0, 0)
        may_come = np.logical_and.reduce(problem.shape_hosts[shapes, some])
        may_come &= self.placement.least_rank[some] <= rank
        fits &= may_come[hosts - some.start]
        width, left = len(need) - len(self._pools), left or self.placement.pools.left
        for d in np.flatnonzero(need[:width]):
            fits &= capacity[:, d] >= need[d]
        for k in np.flatnonzero(need[width:]).tolist():
            free = left[k][self._pools[k].domain[hosts]]
            fits &= capacity[:, width + k] + free >= need[width + k]
        for key, amount in quota.items():
            fits &= self.freed_quota(key)[at] >= amount
        if self._budget is not None:
            fits &= (table.used[at] <= self._budget_left).all(axis=1)
        idle = capacity[:, 0] - need[0]
        cost: NDArray[np.float64] = (
            table.loss[at] + parameters.PARAMETERS.insertion.value_per_idle_gpu * idle
        )
        cost[~fits] = np.inf
        return cost

    def _least_per_host(self, cost: NDArray[np.float64]) -> NDArray[np.float64]:
        loss = np.full(self.placement.problem.cluster.num_hosts, np.inf)
        if len(self._first_rows):
            loss[self.table.host[self._first_rows]] = np.minimum.reduceat(cost, self._first_rows)
        return loss
