"""Host classes: hosts that the aggregate model does not distinguish, in coarse units."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.problem import Problem
from placewright.topology.units import WHOLE_GPU

# Host classes: hosts that the aggregate model does not distinguish.
#
# The key of a class starts as everything that a round can see of a host besides its place in the
# tree (which matters to gangs only, and those are counted per domain): kind, free whole GPUs,
# whether it is empty, free shares, other free resources. If that gives more classes than the
# model should have, the key loses its least important parts, last first. Sums over a class stay
# exact, so a coarser key is a relaxation.


@dataclass(frozen=True, eq=False, slots=True)
class HostClasses:
    """Classes of the hosts where some task fits."""

    of_host: Ints  # (hosts,): Class of each host, -1 where nothing fits
    size: Ints  # (classes,): Hosts in each class
    whole: Ints  # (classes,): Free whole GPUs of each host of the class (equal for all)
    idle: Bools  # (classes,): Whether nothing runs on its hosts
    free: Ints  # (classes, resources): Sum of the free resources of the class
    most_free: Ints  # (classes, resources): Largest free amount on one host of the class
    # (shapes, classes): Sum over the hosts of how many tasks of the shape fit one host alone
    capacity: Ints

    def __len__(self) -> int:
        return len(self.size)


def host_classes(problem: Problem, capacity: Ints) -> HostClasses:
    """Group the hosts of a cleared placement; `capacity`, (shapes, hosts): how many tasks fit."""
    placement = Placement(problem, cleared=True)
    hosts = np.flatnonzero(capacity.any(axis=0))
    shares = np.sort(placement.partial_free[hosts], axis=1)
    parts = [
        np.column_stack(
            [problem.host_kind[hosts], placement.whole[hosts], ~problem.state.busy[hosts]]
        ),
        shares.sum(axis=1, keepdims=True),
        _coarse_resources(placement, problem, hosts),
        np.column_stack([placement.free[hosts], shares]),
    ]
    if placement.part_state is not None:
        parts[-1] = np.column_stack(
            [parts[-1], np.sort(placement.part_state.layout[hosts], axis=1)]
        )
    members = _class_of_hosts(parts, capacity[:, hosts] > 0)
    return classes_of(placement, capacity, hosts, members)


def classes_of(placement: Placement, capacity: Ints, hosts: Ints, members: Ints) -> HostClasses:
    """Sum up the hosts of each class; `members` is the class of each of the `hosts`."""
    problem = placement.problem
    of_host = np.full(problem.cluster.num_hosts, -1, dtype=np.int64)
    of_host[hosts] = members
    first = np.unique(members, return_index=True)[1]
    order = np.argsort(members, kind="stable")
    starts = np.flatnonzero(np.diff(members[order], prepend=-1))

    def total(rows: Ints) -> Ints:
        return np.add.reduceat(rows[:, hosts[order]], starts, axis=1)

    free = problem.within_asked(placement.free)
    most_free = np.zeros((len(first), free.shape[1]), dtype=np.int64)
    np.maximum.at(most_free, members, free[hosts])
    return HostClasses(
        of_host=of_host,
        size=np.bincount(members, minlength=len(first)),
        whole=placement.whole[hosts][first],
        idle=~problem.state.busy[hosts][first],
        free=total(free.T).T,
        most_free=most_free,
        capacity=total(capacity),
    )


def _coarse_resources(placement: Placement, problem: Problem, hosts: Ints) -> Ints:
    """Return the other resources in multiples of the median demand, capped: a coarse key."""
    if not len(problem.shape_demand):
        return np.zeros((len(hosts), 0), dtype=np.int64)
    step = np.maximum(np.quantile(problem.shape_demand, 0.5, axis=0).astype(np.int64), 1)
    cap: Ints = 4 * (placement.whole[hosts][:, None] + 1)
    return np.minimum(placement.free[hosts] // step, cap, dtype=np.int64)


def _class_of_hosts(parts: list[Ints], fits: Bools) -> Ints:
    """Return the class of each host by the finest key with few enough (shape, class) pairs."""
    tuning = parameters.PARAMETERS.models
    members = np.zeros(len(parts[0]), dtype=np.int64)
    for upto in range(len(parts), 0, -1):
        key = np.column_stack(parts[:upto])
        members = np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)
        order = np.argsort(members, kind="stable")
        starts = np.flatnonzero(np.diff(members[order], prepend=-1))
        if (
            np.logical_or.reduceat(fits[:, order], starts, axis=1).sum()
            <= tuning.max_shape_class_pairs
        ):
            break
    return members


# Resource grid: demands and free amounts of hosts in few coarse units, for small tables.
#
# A unit divides all demands, or else demands are rounded to it such that the same multisets of
# tasks fit each host. For example, 21,333 and 64,000 MiB become 1 and 3 units if no multiset of
# tasks, together with the GPUs of a host, shows a difference.


class ResourceGrid:
    """Demands and free resources in units of the demands' greatest common divisors, or coarser.

    Resources that pools alone limit count nothing. `sizes`, int64 (shapes, 1 + resources), are
    demands in units, whole GPUs first; `free`, int64 (hosts, 1 + resources), is rounded down, and
    no more than all GPUs of a host can use.
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

    `sizes`, (tasks, 2), are GPUs and what a task takes of a resource, `free`, (hosts, 2), GPUs and
    what a host has; none may have more units than `limit`. None if in every unit tried other
    multisets would fit.

    Raises `ValueError` if a task has no GPU: the number of such tasks that fit is unbounded.
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


# Rounds where only whole GPUs in powers of two are scarce: the model by sums is exact for hosts.
#
# Tasks of such sizes, placed largest first, fit a host whenever its `floor` rows allow them. So
# patterns of hosts would add nothing, and even a small round needs no variable per host.


def only_powers_of_two(problem: Problem) -> bool:
    """Whether nothing runs that may move, and only powers of two of whole GPUs are scarce."""
    gpu = problem.shape_gpu
    whole = gpu // WHOLE_GPU
    if problem.running or not len(gpu) or (gpu % WHOLE_GPU).any() or (whole & (whole - 1)).any():
        return False
    if not whole.all() or problem.part_demands is not None:
        return False
    most = problem.cleared.whole_free(problem.cluster).astype(np.int64)
    for r, free in enumerate(problem.cleared.free.T):
        # Of all shapes the one that asks for most beside each GPU, on all GPUs of a host.
        hungriest = int((problem.shape_demand[:, r] / whole).argmax())
        if (problem.shape_demand[hungriest, r] * most > free * whole[hungriest]).any():
            return False
    return True
