"""Bounds of later terms where running tasks stay or leave host by host, at the cost of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.aggregate.accounts import without_budget
from placewright.formulations.gang.models.aggregate.host_columns import HostPatterns
from placewright.formulations.gang.problem.limits import DISRUPTION
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Bound
from placewright.formulations.session import Session
from placewright.solver import Arrays, Core, certified_bound
from placewright.solver.arrays import ALWAYS, csr
from placewright.solver.certify import SCALE, SUM_BITS, overflow_safe_scale, round_to_integers
from placewright.topology.units import WHOLE_GPU

# Lagrangian bound: hosts on which each running task stays or leaves.
#
# In the aggregate model a running job may move for nothing, and stopping one costs the least of its
# step. Prices of the model's rows prove more if hosts are looked at one by one. Let pi[s] be the
# price of a slot for a task of shape s, w what a unit of `disruption` counts (1 in its own bound,
# the price of its row in that of a later term), and r(c) what the rows pay for a job of class c
# that stops, apart from slots. A task p of a job of n tasks that leaves its host costs at least
#
#     leave(p)  =  min( w (migrate / n + milli(p)) + pi[s],   (w preempt - r) / n )
#
# so a host h, with the sets K of its tasks that may stay, takes off the bound at most
#
#     max over K of    best set of arrivals in what K leaves free, at prices pi
#                    - sum of leave(p) over its tasks p that are not in K
#
# All else is as in the model with every running job in place. Prices may be any (weak duality), so
# those of its relaxation serve, and all is in whole numbers. Parts of costs are rounded down: of a
# job of which some tasks move, the parts of these are no more than what its migration costs.


HELD = f"hold:{DISRUPTION}"
PLACED = (DISRUPTION, "spread", "opened")
"""Terms with such a bound: of a running job, only its stops count in them."""


def bound_in_place(
    session: Session,
    patterns: HostPatterns,
    term: str,
    holds: tuple[tuple[str, int], ...],
    arrays: Arrays,
    duals: Floats,
) -> Iterator[Bound]:
    """Bound a term of `PLACED` by its relaxation `arrays`, which holds `holds`, at some row duals.

    Where these leave `disruption` at 0, also at those of programs in which slots that take a whole
    host may be bought, at several prices: moves make such room where free moves cost nothing. No
    bound where running jobs may resize, or numbers are too large.
    """
    problem = patterns.aggregate.problem
    if term not in PLACED or problem.resizes or not problem.running:
        return
    dual = _Lagrangian(patterns, term, arrays)
    found = [dual.bound(duals)]
    if term == DISRUPTION and not found[0]:
        # Prices up to the one from which on the bound falls: it is concave.
        for slots in dual.with_slots():
            outcome = session.optimise(slots)
            if outcome is None or outcome.row_duals is None:
                break
            found.append(dual.bound(outcome.row_duals))
            if (found[-1] or 0.0) < (found[-2] or 0.0):
                break
    proven = [bound for bound in found if bound is not None]
    if proven:
        yield Bound(term, max(proven), holds, certified=True)


class _Tasks(NamedTuple):
    """The tasks of running jobs that compete for hosts, each int64 (tasks,)."""

    host: Ints
    shape: Ints
    job_class: Ints
    # What `disruption` counts at least if the task leaves, by preemption and by migration
    preempt: Ints
    migrate: Ints
    of_job: Ints  # How many tasks its job has

    @classmethod
    def of(cls, problem: Problem) -> Self:
        rows = problem.running_tasks
        job, _, host, shape = rows[~np.isin(rows[:, 0], list(problem.not_competing))].T
        jobs, which, number = np.unique(job, return_inverse=True, return_counts=True)
        running = [problem.running[j] for j in jobs.tolist()]
        of_job, milli = number[which], problem.shape_gpu[shape]
        preempt = np.array([one.preempt_cost for one in running], dtype=np.int64)
        np.add.at(preempt, which, milli)
        migrate = np.array([one.migrate_cost for one in running], dtype=np.int64)
        job_class = np.array([one.job_class for one in running], dtype=np.int64)
        return cls(
            host,
            shape,
            job_class[which],
            preempt[which] // of_job,
            migrate[which] // of_job + milli,
            of_job,
        )


@dataclass(frozen=True, eq=False)
class _StayingSets:
    """The sets of running tasks that may stay on each host that has any."""

    hosts: Ints  # (hosts,)
    tasks: Ints  # (hosts, width): Tasks of each, -1 for none
    beyond: Ints  # Further tasks: as if they took nothing on their hosts
    start: Ints  # (hosts,): The first set of each
    host: Ints  # (sets,): Position in `hosts`
    stays: Bools  # (sets, width)
    free: Ints  # (sets, 1 + resources): Units of the grid that the set leaves

    @classmethod
    def of(cls, patterns: HostPatterns, tasks: _Tasks) -> Self:
        grid, width = patterns.grid, parameters.PARAMETERS.models.max_staying_tasks
        order = np.lexsort((-grid.sizes[tasks.shape, 0], tasks.host))
        hosts, first, number = np.unique(tasks.host[order], return_index=True, return_counts=True)
        row = np.repeat(np.arange(len(hosts)), number)
        rank = np.arange(len(order)) - first[row]
        inside = rank < width
        table = np.full((len(hosts), width), -1, dtype=np.int64)
        table[row[inside], rank[inside]] = order[inside]
        sets = 1 << np.minimum(number, width)
        start = np.cumsum(sets) - sets
        host = np.repeat(np.arange(len(hosts)), sets)
        stays = ((np.arange(len(host)) - start[host])[:, None] >> np.arange(width)) & 1 > 0
        free = grid.free[hosts[host]]
        for i in range(width):
            some = np.flatnonzero(stays[:, i])
            free[some] -= grid.sizes[tasks.shape[table[host[some], i]]]
        # Tasks in place may take more than a pattern may.
        return cls(hosts, table, order[~inside], start, host, stays, free.clip(min=0))

    def leaving(self, gain: Ints) -> Ints:
        """Sum the gains of the tasks that leave, (sets,)."""
        each = np.append(gain, 0)[self.tasks]
        total: Ints = np.where(self.stays, 0, each[self.host]).sum(axis=1)
        return total


class _Lagrangian:
    """The model with all running jobs in place, and what leaves their hosts."""

    def __init__(self, patterns: HostPatterns, term: str, arrays: Arrays) -> None:
        counts = patterns.aggregate
        self._patterns, self._term, self._counts = patterns, term, counts
        self._tasks = _Tasks.of(counts.problem)
        self._sets = _StayingSets.of(patterns, self._tasks)
        arrays = without_budget(counts, arrays)
        runs = np.flatnonzero(counts.problem.num_pending[counts.y_class] == 0)
        point = np.zeros(arrays.columns)
        point[counts.y[runs]] = counts.y_most[runs]
        kept = np.ones(arrays.columns, dtype=np.bool_)
        kept[np.concatenate([counts.y[runs], patterns.columns])] = False
        in_place = Core.of(arrays, kept, point).arrays
        # Who stays brings the slots that it takes.
        lower = in_place.row_lower.copy()
        lower[counts.task_row] = arrays.row_lower[counts.task_row]
        self._arrays = replace(in_place, row_lower=lower)
        self._held = np.flatnonzero(np.array(arrays.block_names)[arrays.row_block] == HELD)
        # Class, row and coefficient of what a running job takes besides slots.
        of_column = np.full(arrays.columns, -1, dtype=np.int64)
        of_column[counts.y[runs]] = counts.y_class[runs]
        first = np.unique(counts.y_class[runs], return_index=True)[1]
        column = np.isin(arrays.indices, counts.y[runs[first]])
        row = arrays.entry_rows()
        mine = column & ~np.isin(row, np.append(counts.task_row, self._held))
        self._taken = of_column[arrays.indices[mine]], row[mine], arrays.data[mine]

    def with_slots(self) -> Iterator[Arrays]:
        """Yield programs without hosts, in which room for tasks of whole hosts has a price."""
        arrays, problem, tasks = self._arrays, self._counts.problem, self._tasks
        if not len(tasks.host):
            return
        shapes, gpus = len(problem.shape_gpu), problem.shape_gpu // WHOLE_GPU
        whole = gpus >= self._patterns.grid.free[:, 0].max()
        unit = float(np.median(np.minimum(tasks.preempt, tasks.migrate)))
        slot = arrays.columns + np.arange(shapes)
        indptr, indices, data = csr(
            np.append(arrays.entry_rows(), self._counts.task_row),
            np.append(arrays.indices, slot),
            np.append(arrays.data, np.ones(shapes)),
            (arrays.rows, arrays.columns + shapes),
        )
        for step in parameters.PARAMETERS.models.slot_price_steps:
            yield replace(
                arrays,
                cost=np.append(arrays.cost, np.where(whole, step * unit, 0.0)),
                lower=np.append(arrays.lower, np.zeros(shapes)),
                upper=np.append(arrays.upper, np.full(shapes, np.inf)),
                integer=np.append(arrays.integer, np.zeros(shapes, dtype=np.bool_)),
                indptr=indptr,
                indices=indices,
                data=data,
            )

    def bound(self, duals: Floats) -> float | None:
        """Return the bound at multipliers near the duals, None if numbers are too large for it."""
        counts, tasks, sets, arrays = self._counts, self._tasks, self._sets, self._arrays
        dual = self._usable(duals)
        of_class, row, data = self._taken
        own = self._term == DISRUPTION
        classes = len(counts.problem.classes)
        rent = np.bincount(of_class, np.abs(data * dual[row]), minlength=classes)
        weight = 1.0 if own else float(dual[self._held].sum())
        stop = weight * max(tasks.preempt.max(initial=0), tasks.migrate.max(initial=0))
        each = rent.max(initial=0.0) + stop + np.abs(dual[counts.task_row]).max(initial=0.0) + 1
        most = each * float(self._patterns.grid.free[:, 0].max(initial=0) + sets.tasks.shape[1] + 1)
        if most >= 1 << SUM_BITS or (data != np.rint(data)).any():
            return None
        scale = overflow_safe_scale(most)
        y = round_to_integers(dual * scale)
        paid = np.zeros(classes, dtype=object)
        np.add.at(paid, of_class, round_to_integers(data) * y[row])
        price = -y[counts.task_row].astype(np.int64)
        times = scale if own else int(y[self._held].sum())
        moved = -times * tasks.migrate - price[tasks.shape]
        stopped = -(-paid.astype(np.int64)[tasks.job_class] // tasks.of_job)
        stopped -= times * tasks.preempt
        gain = self._gain(y, price, np.maximum(moved, stopped)) * (SCALE // scale)
        found = certified_bound(arrays, y * (SCALE // scale), gain)
        return None if found is None else counts.problem.round_certified(self._term, found)

    def _usable(self, duals: Floats) -> Floats:
        """Return the duals of rows that bound, for a maximum; hosts in use need no price."""
        arrays, patterns = self._arrays, self._patterns
        dual = arrays.sign * np.where(np.isfinite(duals), duals, 0.0)
        usable = np.where(dual > 0, np.isfinite(arrays.row_upper), np.isfinite(arrays.row_lower))
        usable &= arrays.when == ALWAYS
        usable[patterns.host_row[~self._counts.host_classes.idle]] = False
        return np.where(usable, dual, 0.0)

    def _gain(self, y: NDArray[Any], price: Ints, leaving: Ints) -> int:
        """Return what all hosts gain at most: by slots at their prices, and by tasks that leave."""
        sets, patterns, classes = self._sets, self._patterns, self._counts.host_classes
        kind = self._counts.problem.host_kind[sets.hosts[sets.host]]
        of_set = np.zeros(len(kind), dtype=np.int64)
        of_class = np.zeros(len(classes), dtype=np.int64)
        for model, mine, best, _ in patterns.tables(price):
            some = np.flatnonzero(kind == model)
            of_set[some] = best[tuple(sets.free[some].T)]
            of_class[mine] = best[tuple(patterns.free[mine].T)]
        of_host = classes.of_host[sets.hosts]
        others = classes.size - np.bincount(of_host[of_host >= 0], minlength=len(classes))
        paid = (of_class.astype(object) - y[patterns.host_row]).clip(min=0)
        most = np.maximum.reduceat(of_set + sets.leaving(leaving), sets.start)
        loose = leaving[sets.beyond].clip(min=0)
        total: int = sum(most.tolist()) + sum(loose.tolist()) + sum((paid * others).tolist())
        return total
