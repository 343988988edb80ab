"""Resource grid: demands and free amounts of hosts in few coarse units, for small tables.

A unit divides all demands, or else demands are rounded to it such that the same multisets of tasks
fit each host. For example, 21,333 and 64,000 MiB become 1 and 3 units if no multiset of tasks,
together with the GPUs of a host, shows a difference.
"""

from __future__ import annotations

from math import prod

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.problem import Problem
from placewright.topology.units import WHOLE_GPU


class ResourceGrid:
    """Demands and free resources in units of the demands' greatest common divisors, or coarser.

    Resources that pools alone limit count nothing.

    Attributes
    ----------
    sizes : int64 (shapes, 1 + resources)
        Demands in units; whole GPUs first.
    free : int64 (hosts, 1 + resources)
        Free units, rounded down, and no more than all GPUs of a host can use.
    """

    def __init__(self, problem: Problem, placement: Placement) -> None:
        tuning = parameters.PARAMETERS.models
        demand = problem.shape_demand * problem.limited
        unit = np.gcd.reduce(demand, axis=0, initial=0)
        unit[unit == 0] = 1
        self.sizes = np.column_stack([problem.shape_gpu // WHOLE_GPU, demand // unit])
        self.free = np.column_stack([placement.whole, placement.free // unit])
        self._cap()
        if prod(self.shape) > tuning.max_host_table_entries and bool((self.sizes[:, 0] > 0).all()):
            self._coarsen()
            self._cap()

    def _cap(self) -> None:
        """Cap free units at what the hungriest tasks can use beside a host's GPUs."""
        gpus = np.maximum(self.sizes[:, 0], 1)
        hungriest = (-(-self.sizes // gpus[:, None])).max(axis=0, initial=0)
        self.free = np.minimum(self.free, self.free[:, :1] * hungriest)

    def _coarsen(self) -> None:
        """Coarsen the units of resources, the finest first, until the table is small enough."""
        tuning = parameters.PARAMETERS.models
        kinds, of_host = np.unique(self.free, axis=0, return_inverse=True)
        of_host = of_host.reshape(-1)
        tasks, of_shape = np.unique(self.sizes, axis=0, return_inverse=True)
        of_shape = of_shape.reshape(-1)
        if len(kinds) > tuning.max_rounded_kinds or len(tasks) > tuning.max_rounded_kinds:
            return
        for r in sorted(range(1, len(self.shape)), key=lambda r: -self.shape[r]):
            rest = prod(self.shape) // self.shape[r]
            limit = (
                tuning.max_host_table_entries // rest
                if rest <= tuning.max_host_table_entries // 2
                else self.shape[r] - 1
            )
            found = coarser_units(tasks[:, [0, r]], kinds[:, [0, r]], limit)
            if found is not None:
                sizes, free = found
                self.sizes[:, r], self.free[:, r] = sizes[of_shape], free[of_host]
            if prod(self.shape) <= tuning.max_host_table_entries:
                return

    @property
    def shape(self) -> tuple[int, ...]:
        """Entries of the table along each resource."""
        return tuple(int(top) + 1 for top in self.free.max(axis=0, initial=0))


def coarser_units(sizes: Ints, free: Ints, limit: int) -> tuple[Ints, Ints] | None:
    """Return demands and free amounts in a coarser unit in which the same multisets fit.

    Parameters
    ----------
    sizes
        (tasks, 2): GPUs, at least 1, and the amount that a task takes of a resource.
    free
        (hosts, 2): GPUs and the amount that a host has.
    limit
        Most units that a host may have.

    Returns
    -------
    tuple or None
        Units per task and per host, int64; None if in every unit tried other multisets would fit.

    Raises
    ------
    ValueError
        If a task has no GPU: the number of such tasks that fit is unbounded.
    """
    tuning = parameters.PARAMETERS.models
    if (sizes[:, 0] < 1).any():
        raise ValueError("a task without a GPU was given; expected one at least")
    some = sizes[sizes[:, 1] > 0, 1]
    if not len(some):
        return None
    for divisor in range(1, tuning.max_units_of_least_demand + 1):
        units = (2 * divisor * sizes[:, 1] + some.min()) // (2 * some.min())
        if units.max() >= 4 * limit:
            return None
        have = _fitting(sizes, units, free, limit)
        if have is not None:
            return units, have
    return None


def _fitting(sizes: Ints, units: Ints, free: Ints, limit: int) -> Ints | None:
    """Return the units of each host for which the same multisets fit; None if there are none.

    With `most[g, u]`, the most that tasks of up to g GPUs and u units take, and `least[g, u]`, the
    least that those of at least u units take: a host of g GPUs with f free has u units if all that
    takes up to u units fits, and nothing fits that takes more.
    """
    gpus = int(free[:, 0].max(initial=0))
    most = np.zeros((gpus + 1, limit + 1), dtype=np.int64)
    never = np.int64(1 << 60)
    least = np.full((gpus + 1, limit + 2), never, dtype=np.int64)
    least[:, 0] = 0
    reach = np.arange(limit + 2)
    for g in range(1, gpus + 1):
        most[g], least[g] = most[g - 1], least[g - 1]
        for (wide, amount), u in zip(sizes.tolist(), units.tolist(), strict=True):
            if wide > g:
                continue
            if u <= limit:
                np.maximum(most[g, u:], amount + most[g - wide, : limit + 1 - u], out=most[g, u:])
            before = least[g - wide, np.maximum(reach - u, 0)]
            np.minimum(least[g], np.minimum(before + amount, never), out=least[g])
    have = np.array([np.searchsorted(most[g], f, side="right") - 1 for g, f in free.tolist()])
    return have if bool((least[free[:, 0], have + 1] > free[:, 1]).all()) else None
