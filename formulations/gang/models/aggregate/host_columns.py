"""Patterns of whole hosts: cutting-stock columns in all resources, for rounds of whole GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.aggregate.host_classes import (
    HostClasses,
    ResourceGrid,
    classes_of,
)
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.problem import Problem
from placewright.solver import Arrays, Model
from placewright.topology.units import WHOLE_GPU

# The pool of generated patterns: what each holds, and its column in the model.


class PatternPool:
    """Patterns of several kinds; each kind has a row that limits how often its patterns are used.

    `columns` and `kind`, int64 (patterns,), are column in the model and kind of each pattern so
    far, `cuts`, int64 (patterns, parts), how many of each part it holds.
    """

    def __init__(self, model: Model, rows: Ints, sizes: Ints, parts: int) -> None:
        self.model, self._rows, self._sizes = model, rows, sizes
        self._seen: set[tuple[int, bytes]] = set()
        self.columns = np.zeros(0, dtype=np.int64)
        self.kind = np.zeros(0, dtype=np.int64)
        self.cuts = np.zeros((0, parts), dtype=np.int64)

    def append(self, kinds: Ints, cuts: Ints) -> tuple[Ints, Ints, Ints]:
        """Append the patterns that are new and not empty; return their columns, kinds and cuts."""
        fresh = []
        for i, (kind, cut) in enumerate(zip(kinds.tolist(), cuts, strict=True)):
            key = (kind, cut.tobytes())
            if cut.any() and key not in self._seen:
                self._seen.add(key)
                fresh.append(i)
        kinds, cuts = kinds[fresh], cuts.reshape(-1, self.cuts.shape[1])[fresh]
        # One more than the row allows: at a bound of its own the price would leave the row's dual.
        columns = self.model.variables("pattern", len(kinds), upper=self._sizes[kinds] + 1)
        self.model.add(self._rows[kinds], columns, 1.0)
        self.columns = np.concatenate([self.columns, columns])
        self.kind = np.concatenate([self.kind, kinds])
        self.cuts = np.concatenate([self.cuts, cuts])
        return columns, kinds, cuts


# Exchanges between task slots of host patterns: dual-optimal inequalities as columns.
#
#     e[s,t]   slots of shape s in patterns that tasks of shape t take
#
#     tasks    sum over a, p of P[p,s] l[a,p] + sum_t (e[t,s] - e[s,t])  >=  tasks of s started
#
# A task fits wherever one fits that takes no less of any resource and is allowed on no more
# hosts. So a pattern with such a slot exchanged is a pattern, too, and the columns e change no
# optimum. In the dual they say pi[t] <= pi[s], which all patterns together imply. With few
# patterns the prices are near the last ones at once, and column generation needs a fraction of
# the iterations (Ben Amor, Desrosiers and Valério de Carvalho, Dual-Optimal Inequalities for
# Stabilized Column Generation, Operations Research 54, 2006). Pairs that follow from others are
# left out.


def exchangeable_slots(sizes: Ints, allowed: Bools) -> Ints:
    """Return (slot, task) pairs of shapes whose transitive closure says which task fits which slot.

    `sizes`, int64 (shapes, resources), is what a task takes, `allowed`, bool (shapes, classes),
    which classes of hosts it may be on. The pairs, int64 (pairs, 2), have no cycles, but for pairs
    of equal shapes in both directions.
    """
    keys, first, kind = np.unique(
        np.column_stack([sizes, allowed]), axis=0, return_index=True, return_inverse=True
    )
    kind = kind.reshape(-1)
    takes, where = keys[:, : sizes.shape[1]], keys[:, sizes.shape[1] :].astype(np.bool_)
    fits = np.ones((len(keys), len(keys)), dtype=np.bool_)
    for amount in takes.T:
        fits &= amount[:, None] >= amount[None, :]
    for may in where.T:
        fits &= ~may[:, None] | may[None, :]
    np.fill_diagonal(fits, False)
    between = fits.astype(np.float32) @ fits.astype(np.float32) > 0
    slot, task = np.nonzero(fits & ~between)
    others = np.flatnonzero(first[kind] != np.arange(len(sizes)))
    equal = np.column_stack([first[kind[others]], others])
    return np.concatenate([np.column_stack([first[slot], first[task]]), equal, equal[:, ::-1]])


def exchanged_slots(pairs: Ints, flow: Ints) -> list[tuple[int, int, int]]:
    """Decompose exchanges into paths: (slot, task, number), each slot exchanged once.

    `flow`, int64 (pairs,), says how often each of the pairs of `exchangeable_slots` is used.
    """
    net: defaultdict[tuple[int, int], int] = defaultdict(int)
    used = np.flatnonzero(flow)
    for (slot, task), n in zip(pairs[used].tolist(), flow[used].tolist(), strict=True):
        net[slot, task] += n
        net[task, slot] -= n  # equal shapes may be exchanged in both directions
    left: defaultdict[int, dict[int, int]] = defaultdict(dict)
    gain: defaultdict[int, int] = defaultdict(int)
    for (slot, task), n in net.items():
        if n > 0:
            left[slot][task] = n
            gain[slot] -= n
            gain[task] += n
    found = []
    for source in [s for s, n in gain.items() if n < 0]:
        while gain[source] < 0:
            # A path without cycles ends where more slots come than go.
            path = [source]
            while gain[path[-1]] <= 0:
                path.append(next(t for t, n in left[path[-1]].items() if n))
            steps = list(pairwise(path))
            amount = min(-gain[source], gain[path[-1]], *(left[s][t] for s, t in steps))
            for slot, task in steps:
                left[slot][task] -= amount
            gain[source] += amount
            gain[path[-1]] -= amount
            found.append((source, path[-1], amount))
    return found


#     l[a,p] hosts of class a that hold pattern p, a multiset of tasks that fit one of them together
#
#     tasks    sum over a, p of P[p,s] l[a,p]  >=  tasks of shape s that y starts
#     hosts    sum_p l[a,p]                    <=  hosts of a   (opened[a] where they are empty)
#
# In place of the sums over a class these make the model exact for single hosts, in all resources;
# only integrality and the domain tree stay relaxed. Smaller tasks may take slots of larger ones
# (`exchanges`). With the price pi[s] of a task and mu[a] of a host, the best pattern of a class
# is a knapsack with a dimension per resource. Demands are multiples of their greatest common
# divisors; if the table over those is small enough, one dynamic program prices all classes of a
# GPU model at once, exactly, so that bounds can be certified.


def host_patterns_apply(problem: Problem, grid: ResourceGrid) -> bool:
    """Whether all tasks take whole GPUs and the table of the dynamic program is small enough."""
    tuning = parameters.PARAMETERS.models
    whole = bool((problem.shape_gpu >= WHOLE_GPU).all())
    return whole and prod(grid.shape) <= tuning.max_host_table_entries


def grid_host_classes(placement: Placement, capacity: Ints, grid: ResourceGrid) -> HostClasses:
    """Group hosts that are equal on the grid."""
    problem = placement.problem
    hosts = np.flatnonzero(capacity.any(axis=0))
    key = np.column_stack([problem.host_kind[hosts], ~problem.state.busy[hosts], grid.free[hosts]])
    members = np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)
    return classes_of(placement, capacity, hosts, members)


def knapsack(
    grid: ResourceGrid, price: NDArray[Any], allowed: Bools, top: Ints
) -> tuple[NDArray[Any], Ints]:
    """Knapsack over all resources: the largest price within each vector of free units up to `top`.

    `price` and `allowed` are (shapes,), `top` (1 + resources,). Returns the largest total price, of
    the grid's shape, and the shape taken last, int64 of the same shape, -1 if none.
    """
    best = np.zeros(grid.shape, dtype=price.dtype)
    taken = np.full(grid.shape, -1, dtype=np.int64)
    fits = allowed & (price > 0) & (grid.sizes <= top).all(axis=1)
    shapes = np.flatnonzero(fits)
    # Of shapes of equal demand only that of the highest price matters.
    shapes = shapes[np.argsort(-price[shapes], kind="stable")]
    shapes = shapes[np.unique(grid.sizes[shapes], axis=0, return_index=True)[1]]
    for s in shapes.tolist():
        size = grid.sizes[s]
        upper = tuple(slice(int(d), int(t) + 1) for d, t in zip(size, top, strict=True))
        lower = tuple(slice(0, int(t - d) + 1) for d, t in zip(size, top, strict=True))
        for _ in range(int(top[0] // size[0])):
            total = best[lower] + price[s]
            better = total > best[upper]
            if not better.any():
                break
            best[upper][better] = total[better]
            taken[upper][better] = s
    return best, taken


def follow(grid: ResourceGrid, taken: Ints, free: Ints) -> Ints:
    """Return the pattern, (shapes,), that the choices of `knapsack` give in some free units."""
    pattern = np.zeros(len(grid.sizes), dtype=np.int64)
    left = free.copy()
    while (s := int(taken[tuple(left)])) >= 0:
        pattern[s] += 1
        left = left - grid.sizes[s]
    return pattern


class HostPatterns:
    """The patterns of whole hosts of an aggregate model that was built without sums.

    The kinds of `pool` are host classes, its parts are shapes. `keys`, int64 (classes, 3 +
    resources), are idle, host kind and free units of each class: equal keys allow the same
    patterns. `same_key`, int64 (classes,), is the number of the key without `idle`.
    """

    def __init__(self, aggregate: AggregateModel, grid: ResourceGrid) -> None:
        if not host_patterns_apply(aggregate.problem, grid):
            raise ValueError("a host pattern has tasks of whole GPUs; other tasks were given")
        self.aggregate, self.grid = aggregate, grid
        classes, problem = aggregate.host_classes, aggregate.problem
        known, first = np.unique(classes.of_host, return_index=True)
        first = first[known >= 0]
        self.free = grid.free[first]
        self.model = problem.host_kind[first]
        self._allowed = _allowed_somewhere(problem, classes)
        upper = np.where(classes.idle, 0, classes.size)
        self.keys = np.column_stack([classes.idle, self.model, self.free])
        key = self.keys[:, 1:]
        self.same_key = np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)
        self.host_row = aggregate.model.rows("hosts", len(classes), upper=upper)
        idle = np.flatnonzero(classes.idle)
        aggregate.model.add(self.host_row[idle], aggregate.opened[idle], -1.0)
        self.pool = PatternPool(aggregate.model, self.host_row, classes.size, len(grid.sizes))
        self._pairs = exchangeable_slots(grid.sizes, self._allowed)
        gpus = int(self.free[:, 0] @ classes.size)
        self._exchange = aggregate.model.variables("exchange", len(self._pairs), upper=gpus)
        aggregate.model.add(aggregate.task_row[self._pairs[:, 0]], self._exchange, -1.0)
        aggregate.model.add(aggregate.task_row[self._pairs[:, 1]], self._exchange, 1.0)

    @property
    def columns(self) -> Ints:
        """The columns of all patterns so far, and of exchanges."""
        return np.concatenate([self.pool.columns, self._exchange])

    def add_patterns_of(self, placement: Placement) -> None:
        """Add the patterns that the hosts of a placement hold."""
        problem = self.aggregate.problem
        held = np.zeros((problem.cluster.num_hosts, len(self.grid.sizes)), dtype=np.int64)
        # Under a budget jobs have to run on beside those that relaxations leave out.
        left_out = frozenset[int]() if problem.budget is None else problem.not_competing
        for _, start in placement.started():
            groups = problem.classes[start.job_class].choices[start.choice].groups
            for put in () if start.job in left_out else start.tasks:
                held[put.host, groups[put.group].shape] += put.count
        # A task that stays on a reserved GPU takes more than a pattern may.
        fits = (held @ self.grid.sizes <= self.grid.free).all(axis=1)
        hosts = np.flatnonzero(held.any(axis=1) & fits & (self.aggregate.host_classes.of_host >= 0))
        self.add(self.aggregate.host_classes.of_host[hosts], held[hosts])

    def add_improving(self, duals: Floats, sense: str) -> tuple[bool, float]:
        """Price: add the best pattern of each class that improves the relaxation.

        Returns whether one was added, and the most that missing patterns can still improve the
        optimum (Lagrangian bound).
        """
        tuning = parameters.PARAMETERS.models
        sign = 1.0 if sense == "max" else -1.0
        price = (-sign * duals[self.aggregate.task_row]).clip(min=0.0)
        threshold = tuning.min_pattern_gain_rel * max(float(price.max(initial=0.0)), 1e-12)
        gain = np.zeros(len(self.host_row))
        chosen: list[int] = []
        cuts: list[Ints] = []
        for _, mine, best, taken in self.tables(price):
            gain[mine] = best[tuple(self.free[mine].T)] - sign * duals[self.host_row[mine]]
            for a in mine[gain[mine] > threshold].tolist():
                found = [follow(self.grid, taken, self.free[a])]
                if len(self.free) * len(price) <= tuning.max_extra_patterns:
                    # With few classes an iteration yields little: the best with each shape, too.
                    mu = float(sign * duals[self.host_row[a]]) + threshold
                    found += self._with_each(best, taken, price, a, mu)
                chosen += [a] * len(found)
                cuts += found
        added = self.add(np.array(chosen, dtype=np.int64), np.array(cuts, dtype=np.int64))
        return added, float((gain.clip(min=0.0) * self.aggregate.host_classes.size).sum())

    def tables(self, price: NDArray[Any]) -> Iterator[tuple[int, Ints, NDArray[Any], Ints]]:
        """Yield each kind of hosts, its classes, and what `knapsack` returns at these prices."""
        for model in np.unique(self.model).tolist():
            mine = np.flatnonzero(self.model == model)
            yield model, mine, *knapsack(self.grid, price, *self._limits(mine))

    def max_missing_gain(self, y: NDArray[Any]) -> int:
        """Return, exactly, the most that all patterns can add at whole-number multipliers."""
        price = (-y[self.aggregate.task_row]).clip(min=0)
        most = int(self.free[:, 0].max(initial=0))
        if int(price.max(initial=0)) * (most + 1) < 1 << 62:
            price = price.astype(np.int64)  # as exact, and faster
        total = 0
        for _, mine, best, _ in self.tables(price):
            gain = best[tuple(self.free[mine].T)].astype(object) - y[self.host_row[mine]]
            total += int((gain.clip(min=0) * self.aggregate.host_classes.size[mine]).sum())
        return total

    def _limits(self, mine: Ints) -> tuple[Bools, Ints]:
        """Return the shapes that some of these classes allow, and their most free units."""
        return np.any(self._allowed[:, mine], axis=1), np.max(self.free[mine], axis=0)

    def _with_each(
        self, best: NDArray[Any], taken: Ints, price: NDArray[Any], a: int, mu: float
    ) -> list[Ints]:
        """Return, per shape, the best pattern of a class with it, if worth more than `mu`."""
        found = []
        for s in np.flatnonzero((price > 0) & self._allowed[:, a]):
            left = self.free[a] - self.grid.sizes[s]
            if (left >= 0).all() and best[tuple(left)] + price[s] > mu:
                found.append(follow(self.grid, taken, left))
                found[-1][s] += 1
        return found

    def relax_exchanges(self, arrays: Arrays, backend: str) -> Arrays:
        """Return a program with continuous exchanges, if the backend takes such columns.

        With whole numbers of tasks and patterns they are a network flow: its vertices are whole.
        """
        if backend != "highs":
            return arrays
        integer = arrays.integer.copy()
        integer[self._exchange] = False
        return replace(arrays, integer=integer)

    def in_use(self, number: Ints) -> list[tuple[int, Ints, int]]:
        """Return the patterns of whole-number values as (host class, tasks per shape, hosts).

        Slots are exchanged for the tasks that take them. Those of most GPUs come first.
        """
        times = number[self.pool.columns]
        used = np.flatnonzero(times)
        kinds, times = self.pool.kind[used].tolist(), times[used].tolist()
        found = list(zip(kinds, self.pool.cuts[used], times, strict=True))
        for slot, task, n in exchanged_slots(self._pairs, number[self._exchange]):
            found = _exchange(found, slot, task, n)
        gpus = self.aggregate.problem.shape_gpu
        return sorted(found, key=lambda pattern: -int(pattern[1] @ gpus))

    def add(self, kinds: Ints, cuts: Ints) -> bool:
        """Add patterns (tasks per shape) of these host classes; return whether one is new."""
        columns, _, cuts = self.pool.append(kinds, cuts)
        at, s = np.nonzero(cuts)
        self.aggregate.model.add(self.aggregate.task_row[s], columns[at], cuts[at, s])
        return bool(len(columns))


def _exchange(
    patterns: list[tuple[int, Ints, int]], slot: int, task: int, number: int
) -> list[tuple[int, Ints, int]]:
    """Exchange slots of one shape for tasks of another, in as few patterns as possible."""
    exchanged = []
    for kind, cut, times in patterns:
        left = times
        while number and left and cut[slot]:
            # On as many hosts as exchange all of these slots, then on one that exchanges some.
            count = min(int(cut[slot]), number)
            hosts = min(left, number // count)
            other = cut.copy()
            other[slot] -= count
            other[task] += count
            exchanged.append((kind, other, hosts))
            left -= hosts
            number -= hosts * count
        if left:
            exchanged.append((kind, cut, left))
    return exchanged


def _allowed_somewhere(problem: Problem, classes: HostClasses) -> Bools:
    """Return which shapes some host of each class allows, bool (shapes, classes)."""
    hosts = np.flatnonzero(classes.of_host >= 0)
    hosts = hosts[np.argsort(classes.of_host[hosts], kind="stable")]
    starts = np.flatnonzero(np.diff(classes.of_host[hosts], prepend=-1))
    allowed: Bools = np.logical_or.reduceat(problem.shape_allowed[:, hosts], starts, axis=1)
    return allowed
