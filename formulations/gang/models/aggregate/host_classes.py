"""Host classes: hosts that the aggregate model does not distinguish.

The key of a class starts as everything that a round can see of a host besides its place in the tree
(which matters to gangs only, and those are counted per domain): kind, free whole GPUs, whether it
is empty, free shares, other free resources. If that gives more classes than the model should have,
the key loses its least important parts, last first. Sums over a class stay exact, so a coarser key
is a relaxation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.problem import Problem


@dataclass(frozen=True, eq=False, slots=True)
class HostClasses:
    """Classes of the hosts where some task fits.

    Attributes
    ----------
    of_host : int64 (hosts,)
        Class of each host, -1 where nothing fits.
    size : int64 (classes,)
        Hosts in each class.
    whole : int64 (classes,)
        Free whole GPUs of each host of the class (equal for all).
    idle : bool (classes,)
        Whether nothing runs on its hosts.
    free : int64 (classes, resources)
        Sum of the free resources of the class.
    most_free : int64 (classes, resources)
        Largest free amount on one host of the class.
    capacity : int64 (shapes, classes)
        Sum over the hosts of how many tasks of the shape fit one host alone.
    residual : tuple of (milli-GPU, GPUs) pairs per class
        Partly used GPUs that have something left.
    """

    of_host: Ints
    size: Ints
    whole: Ints
    idle: NDArray[np.bool_]
    free: Ints
    most_free: Ints
    capacity: Ints
    residual: tuple[tuple[tuple[int, int], ...], ...]

    def __len__(self) -> int:
        return len(self.size)


def host_classes(problem: Problem, capacity: Ints) -> HostClasses:
    """Group the hosts of a cleared placement; `capacity`, (shapes, hosts): how many tasks fit."""
    placement = Placement(problem, cleared=True)
    hosts = np.flatnonzero(capacity.any(axis=0))
    shares = np.sort(placement.partial_free[hosts], axis=1)
    parts = [
        np.column_stack(
            [
                problem.host_kind[hosts],
                placement.whole[hosts],
                ~problem.state.busy[hosts],
            ]
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
    shares = placement.partial_free[hosts]
    return HostClasses(
        of_host=of_host,
        size=np.bincount(members, minlength=len(first)),
        whole=placement.whole[hosts][first],
        idle=~problem.state.busy[hosts][first],
        free=total(free.T).T,
        most_free=most_free,
        capacity=total(capacity),
        residual=tuple(_residual(shares[members == c]) for c in range(len(first))),
    )


def _coarse_resources(placement: Placement, problem: Problem, hosts: Ints) -> Ints:
    """Return the other resources in multiples of the median demand, capped: a coarse key."""
    if not len(problem.shape_demand):
        return np.zeros((len(hosts), 0), dtype=np.int64)
    step = np.maximum(np.quantile(problem.shape_demand, 0.5, axis=0).astype(np.int64), 1)
    cap: Ints = 4 * (placement.whole[hosts][:, None] + 1)
    return np.minimum(placement.free[hosts] // step, cap, dtype=np.int64)


def _class_of_hosts(parts: list[Ints], fits: NDArray[np.bool_]) -> Ints:
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


def _residual(shares: Ints) -> tuple[tuple[int, int], ...]:
    """Return how many GPUs there are of each free milli-GPU."""
    sizes, counts = np.unique(shares[shares > 0], return_counts=True)
    return tuple(zip(sizes.tolist(), counts.tolist(), strict=True))
