"""Demand-bound rows: the leases that promises force into a set of leases must fit there.

An alternative w needs n[w] leases of those that it can use, u[w] in all. Of a set A of leases it
cannot avoid

    forced(w, A) = max(0, n[w] - (leases outside A that it can use))

and for every load f, with a weight f[w] per alternative and a capacity per lease,

    sum_w f[w] forced(w, A) S[w]  <=  sum_{t in A} capacity_f[t]

holds for every schedule, with S[w] = 1 for the alternatives that are chosen. With f the GPUs that
alternatives ask, and every A, these rows describe the fluid relaxation (leases shared in
fractions), by max-flow min-cut; for a common first lease and capacity that never falls A = [0, T)
is enough, for every T.

Leases cannot be shared in fractions, so more loads are valid. Of gangs of at least s GPUs a lease
of C GPUs holds floor(C / s), one of g GPUs counts floor(g / s) times; and capacity is rounded down
to a sum of gang sizes.

References
----------
Baruah, Mok and Rosier, "Preemptively scheduling hard-real-time sporadic tasks on one processor",
RTSS'90 (the demand-bound test); Horn, "Some simple scheduling algorithms", Naval Research Logistics
21, 1974 (flows); Fekete and Schepers, "New classes of fast lower bounds for bin packing problems",
Mathematical Programming 91, 2001 (dual feasible functions, of which floor(g / s) is one).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.models.grid_sums import grid_rows
from placewright.formulations.deadline.problem.problem import Problem, demand_classes_of


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """A load: weights of alternatives (alternatives,), capacity of leases (horizon,); integers.

    `size` is that of the gangs that it counts, 0 if it counts GPUs.
    """

    weight: Ints
    capacity: Ints
    size: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class DemandRow:
    """The demand-bound row of a load, by its index, and a set of leases (horizon,)."""

    load: int
    leases: Bools


def loads_of(problem: Problem) -> tuple[Load, ...]:
    """Return the loads of a problem: of each capacity row its GPUs, and its gangs of each size.

    A size adds nothing, and is left out, where the capacity of every lease is a multiple of it. The
    last sizes of too many are left out, too.
    """
    loads: list[Load] = []
    most = parameters.PARAMETERS.max_bound_cells // max(1, problem.alternatives) - len(
        problem.capacity
    )
    for demand, capacity in zip(problem.demand.T, problem.capacity, strict=True):
        sizes = np.unique(demand[demand > 0])
        if not len(sizes):
            continue
        unit = gcd(*sizes.tolist())
        units, reachable = demand // unit, _reachable_sums(sizes // unit, capacity // unit)
        loads.append(Load(units, reachable))
        counts = [size for size in sizes[1:] // unit if (reachable % size).any()][: max(0, most)]
        loads += [Load(units // size, reachable // size, int(size)) for size in counts]
        most -= len(counts)
    return tuple(loads)


def _reachable_sums(sizes: Ints, capacity: Ints) -> Ints:
    """Return the largest sum of sizes within each capacity (subset sums with repetition)."""
    most = int(capacity.max(initial=0))
    if sizes[0] == 1 or most > parameters.PARAMETERS.max_subset_sum_units:
        return capacity
    exists = np.zeros(most + 1, dtype=np.bool_)
    exists[0] = True
    for size in sizes.tolist():
        # Doubling: after the sums of k times this size come those of up to 2k times.
        step = size
        while step <= most:
            exists[step:] |= exists[:-step].copy()
            step *= 2
    last: Ints = np.maximum.accumulate(np.where(exists, np.arange(most + 1), 0))
    reachable: Ints = last[capacity]
    return reachable


class DemandRows:
    """Demand-bound rows of a problem: coefficients, right-hand sides, separation.

    Parameters
    ----------
    problem
        Each of its alternatives can run alone (`feasible_alone`).
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.loads = loads_of(problem)
        usable, self._class_of = usable_leases(problem)
        self._before = _prefix_counts(usable)
        self._usable = usable
        self._total = self._usable_in_window(self._before)

    def _usable_in_window(self, counts: Ints) -> Ints:
        problem, class_of = self.problem, self._class_of
        count: Ints = counts[class_of, problem.end] - counts[class_of, problem.first]
        return count

    def forced_leases(self, leases: Bools) -> Ints:
        """Return how many leases of a set each alternative cannot avoid (alternatives,)."""
        inside = self._usable_in_window(_prefix_counts(self._usable & leases))
        forced_leases: Ints = np.maximum(0, self.problem.need - self._total + inside)
        return forced_leases

    def coefficients(self, row: DemandRow) -> Ints:
        """Return the coefficients of a row (alternatives,)."""
        coefficients: Ints = self.loads[row.load].weight * self.forced_leases(row.leases)
        return coefficients

    def capacity(self, row: DemandRow) -> int:
        """Return the right-hand side of a row."""
        return int(self.loads[row.load].capacity[row.leases].sum())

    @cached_property
    def window_starts(self) -> Ints:
        """First leases of the windows: 0, first leases of alternatives, falls of capacity.

        Capacity that falls makes all later parts of a window scarce, so then every lease at which
        it has fallen is one. Of too many only some are.
        """
        fallen = np.flatnonzero((np.diff(self.problem.capacity, axis=1) < 0).any(axis=0)) + 1
        window_starts: Ints = np.unique(np.concatenate([[0], self.problem.first, fallen]))
        most = max(1, parameters.PARAMETERS.max_window_cells // self.problem.horizon)
        if len(window_starts) > most:
            window_starts = window_starts[
                np.linspace(0, len(window_starts) - 1, most).astype(np.int64)
            ]
        return window_starts

    def prefix_rows(self, number: int) -> Iterator[DemandRow]:
        """Yield rows of evenly spaced prefixes of the horizon, of all loads that count GPUs."""
        horizon = self.problem.horizon
        for end in np.unique(np.linspace(0, horizon, number + 1).astype(np.int64))[1:]:
            for at, load in enumerate(self.loads):
                if not load.size:
                    yield DemandRow(at, window(horizon, 0, int(end)))

    def violated(self, chosen: Floats, tolerance: float = 1e-6) -> Iterator[DemandRow]:
        """Separation: yield the window rows that a choice violates most.

        Parameters
        ----------
        chosen
            (alternatives,): between 0 and 1.
        tolerance
            Excess that counts, relative to the capacity.
        """
        horizon = self.problem.horizon
        active = np.flatnonzero(chosen > 0)
        before = np.arange(horizon) < self.window_starts[:, None]
        for k, load in enumerate(self.loads):
            work = self._late_work(active, load.weight[active] * chosen[active])
            held = np.append(0, np.cumsum(load.capacity))
            capacity = held[1:] - held[self.window_starts, None]
            excess = work - capacity - tolerance * (capacity + 1)
            excess[before] = -np.inf
            # The last of those that are broken alike: it says most about what comes later.
            here = excess > 0
            here[:, 1:] &= excess[:, 1:] > excess[:, :-1]
            here[:, :-1] &= excess[:, :-1] >= excess[:, 1:]
            for start, end in zip(*np.nonzero(here), strict=True):
                yield DemandRow(k, window(horizon, int(self.window_starts[start]), int(end) + 1))

    def _late_work(self, alternatives: Ints, weight: Floats) -> Floats:
        """Return the work from each start to each lease's end, all as late as possible.

        (starts, horizon). Times are counted in leases that the demand class can use. An alternative
        that needs n leases from `first` to `end` runs from end - n on; of what begins at a start
        later than `first` it has run the more before, the later that start is, until nothing is
        left.
        """
        problem, class_of = self.problem, self._class_of[alternatives]
        work = np.zeros((len(self.window_starts), problem.horizon))
        patterns, pattern = np.unique(self._usable, axis=0, return_inverse=True)
        for one, usable in enumerate(patterns):
            mine = pattern.reshape(-1)[class_of] == one
            count = np.append(0, np.cumsum(usable))
            first, end = (
                count[problem.first[alternatives[mine]]],
                count[problem.end[alternatives[mine]]],
            )
            need, heavy = problem.need[alternatives[mine]], weight[mine]
            begin, done, zero = end - need, first + need, np.zeros_like(need)
            runs = grid_rows(
                int(count[-1]) + 2,
                count[self.window_starts],
                vertical=[
                    (zero, begin, heavy),
                    (first + 1, begin, -heavy),
                    (zero, end, -heavy),
                    (done, end, heavy),
                ],
                diagonal=[(first + 1, begin + 1, heavy), (done, end, -heavy)],
            )
            work += runs[:, count[:-1]] * usable
        running: Floats = np.cumsum(work, axis=1)
        return running


def by_demand_class(problem: Problem) -> Iterator[tuple[Ints, Bools]]:
    """Yield the alternatives of each demand class, and the leases that hold it (horizon,)."""
    classes, class_of = demand_classes_of(problem.demand)
    order = np.argsort(class_of, kind="stable")
    ends = np.cumsum(np.bincount(class_of, minlength=len(classes))).tolist()
    for demand, first, end in zip(classes, [0, *ends], ends, strict=False):
        yield order[first:end], (demand[:, None] <= problem.capacity).all(axis=0)


def usable_leases(problem: Problem) -> tuple[Bools, Ints]:
    """Return the leases that hold each demand class (classes, horizon), and each one's class."""
    usable, class_of = list[Bools](), np.zeros(problem.alternatives, dtype=np.int64)
    for alternatives, leases in by_demand_class(problem):
        class_of[alternatives] = len(usable)
        usable.append(leases)
    return np.array(usable, dtype=np.bool_).reshape(len(usable), problem.horizon), class_of


def fits_in_memory(problem: Problem) -> bool:
    """Whether the rows of a problem fit in the memory allowed for them."""
    classes, _ = demand_classes_of(problem.demand)
    cells = (len(classes) * problem.horizon, problem.alternatives * len(problem.capacity))
    return max(cells) <= parameters.PARAMETERS.max_bound_cells


def feasible_alone(problem: Problem) -> Bools:
    """Return which alternatives have enough leases of sufficient capacity (alternatives,)."""
    enough = np.zeros(problem.alternatives, dtype=np.bool_)
    for alternatives, leases in by_demand_class(problem):
        before = np.append(0, np.cumsum(leases))
        number = before[problem.end[alternatives]] - before[problem.first[alternatives]]
        enough[alternatives] = number >= problem.need[alternatives]
    return enough & (problem.end > problem.first)


def window(horizon: int, start: int, end: int) -> Bools:
    """Return the leases from `start` to before `end` as a set (horizon,)."""
    leases = np.zeros(horizon, dtype=np.bool_)
    leases[start:end] = True
    return leases


def new_rows(rows: Iterable[DemandRow], knownn: set[tuple[int, bytes]]) -> list[DemandRow]:
    """Return the rows that are not in `known`, and add them to it."""
    new = []
    for row in rows:
        key = row.load, np.packbits(row.leases).tobytes()
        if key not in knownn:
            knownn.add(key)
            new.append(row)
    return new


def _prefix_counts(leases: Bools) -> Ints:
    """Return the number of leases of each set before each time (sets, horizon + 1)."""
    counts = np.zeros((leases.shape[0], leases.shape[1] + 1), dtype=np.int64)
    np.cumsum(leases, axis=1, out=counts[:, 1:])
    return counts
