"""The problem of replica placement as arrays, exact values of its terms, and solutions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.wan.arrays import NONE, UNLIMITED, Wan

# The problem of replica placement as arrays, exact values of its terms, and solutions.


# The problem of replica placement, as arrays over job classes and dataset classes.
#
# All terms are minimised lexicographically: `overload`, `remote_reads`, `copies`, `imbalance`,
# `hottest` (docs/formulations/replicas.md has the formulas).
#
# References
# ----------
# Choudhury et al., "MAST: global scheduling of ML training across geo-distributed datacenters at
# hyperscale", OSDI'24: its slow path, Tetris, balances demand and places data once a day. Tables
# with the same readers are moved together.


DATA = ("remote_reads", "copies")
"""Terms of what data costs, which matter one after the other."""

DATA_SUM = "data"
"""Their sum, an objective of relaxations: bounds of it less one term are of the other."""

HOMELESS = 3
"""What a milli-GPU of a job without a home adds to `overload`."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Job classes (w), dataset classes (p), regions (r) and GPU models (m) as arrays.

    Jobs of a class have the same demand, GPU models, regions and reads. Datasets of a class have
    the same replicas, residency and readers, and the GiB that a job reads of each are proportional
    to its size; the search copies and drops a dataset class as a whole.
    """

    wan: Wan
    job_class: Ints  # (jobs,): the class of each job
    dataset_class: Ints  # (datasets,): the class of each dataset
    # count, demand: (job classes,): number of jobs, and milli-GPU of one of them.
    count: Ints
    demand: Ints
    # (job classes, regions, models): where its jobs may have their home, as far as the class alone
    # decides: region and model are allowed and have supply, and all reads are possible.
    allowed_homes: Bools
    supply: Ints  # (regions, models): milli-GPU
    size: Ints  # (dataset classes,): GiB
    current: Bools  # (dataset classes, regions): where a replica is, or is under way
    fixed: Bools  # (dataset classes, regions): replicas under way that are not complete; they stay
    may_hold: Bools  # (dataset classes, regions): current replicas and possible copies
    # storage, incoming, outgoing: (regions,): GiB of storage, and of copies that all links in and
    # out of a region can carry.
    storage: Ints
    incoming: Ints
    outgoing: Ints
    linked: Bools  # (regions, regions): whether the second may read from replicas in the first
    # read_class, read_dataset_class, read_gib: (reads,): GiB that each job of a class reads of a
    # dataset class, sorted by job class.
    read_class: Ints
    read_dataset_class: Ints
    read_gib: Ints
    read_remote: Bools  # (reads,): whether the read may be remote

    @property
    def terms(self) -> tuple[str, ...]:
        """The terms of the policy, in their order."""
        return self.wan.round.policy.terms

    @property
    def regions(self) -> int:
        """The number of regions."""
        return len(self.storage)

    @property
    def job_classes(self) -> int:
        """The number of job classes."""
        return len(self.count)

    @property
    def dataset_classes(self) -> int:
        """The number of dataset classes."""
        return len(self.size)

    @property
    def origin(self) -> Ints:
        """The only region with a dataset class (dataset classes,), -1 for none or several."""
        alone = self.current.sum(axis=1) == 1
        origin: Ints = np.where(alone, self.current.argmax(axis=1), -1)
        return origin

    @property
    def homeless(self) -> Bools:
        """Which job classes cannot have a home whatever is copied (job classes,)."""
        never: Bools = np.logical_not(self.allowed_homes.any(axis=(1, 2)))
        return never


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Replicas after the plan, and the home of each job."""

    replicas: Bools  # (datasets, regions)
    homes: Ints  # (jobs, 2): region and GPU model, `NONE` without a home

    def creates(self, wan: Wan) -> Bools:
        """Return the new replicas (datasets, regions)."""
        new: Bools = self.replicas & ~(wan.holds | wan.arriving)
        return new

    def drops(self, wan: Wan) -> Bools:
        """Return the dropped replicas (datasets, regions); replicas under way cannot be dropped."""
        gone: Bools = wan.complete() & ~self.replicas
        return gone


def dense_ids(labels: list[object]) -> Ints:
    """Return an id for each label (labels,), counted from 0 in order of first appearance."""
    seen: dict[object, int] = {}
    return np.array([seen.setdefault(label, len(seen)) for label in labels], dtype=np.int64)


def overload(demand: Ints, supply: Ints) -> Ints:
    """Return the overload of each amount of demand, convex and piecewise linear, in milli-GPU."""
    over: Ints = np.maximum(0, demand - supply) - (-np.maximum(0, 5 * demand - 6 * supply) // 5)
    return over


def overload_of(demand: Ints, supply: Ints) -> int:
    """Return the sum of all overload, in milli-GPU."""
    return int(overload(demand, supply).sum())


def imbalance_of(used: Ints, storage: Ints) -> int:
    """Return the GiB that limited regions hold beyond their share of what all of them hold."""
    limited = storage < UNLIMITED
    total, used, limits = int(storage[limited].sum()), used[limited], storage[limited]
    held = int(used.sum())
    return sum(
        max(0, int(mine) - (held * int(limit) // total if total else 0))
        for mine, limit in zip(used, limits, strict=True)
    )


# The minimum total overload over all distributions of demand, and the demands that attain it.
#
# Overload is a convex function of the demand of each GPU model in each region. By the usual
# optimality condition (equal marginal cost, as in water filling) the total is least where each
# model has at least the demand of all pieces that cost less than the marginal price, and at most
# that of all pieces that cost no more. Models whose overload is held at this minimum need only
# these bounds on demand, and no columns for overload.


class LeastOverload(NamedTuple):
    """The least total overload, and the bounds on demand that exactly its solutions satisfy."""

    overload: int  # In milli-GPU
    # lower, upper: (regions, models): bounds on the units of demand.
    lower: Ints
    upper: Ints


def least_overload(supply: Ints, unit: int, units: int) -> LeastOverload:
    """Return the least overload of a number of units of demand that may run anywhere.

    `supply` (regions, models): milli-GPU. `unit` and `units`: milli-GPU per unit of demand, and the
    number of units.
    """
    nothing = np.zeros_like(supply)
    if not units:  # there may be no model that could be asked
        return LeastOverload(0, nothing, nothing)
    length, cost = overload_pieces(supply, unit, units)
    prices = np.unique(cost)
    price = prices[np.argmax([length[cost <= price].sum() >= units for price in prices])]
    cheaper = length * (cost < price)
    overload = (cheaper * cost).sum() + price * (units - cheaper.sum())
    return LeastOverload(int(overload), cheaper.sum(axis=0), (length * (cost <= price)).sum(axis=0))


def least_overload_of_jobs(
    supply: Ints, unit: int, demand: Ints, homeless: Bools
) -> tuple[LeastOverload, int]:
    """Return the least overload of jobs with a home, and the total with that of homeless jobs.

    `demand` and `homeless` (n,): milli-GPU, and whether no region can have them.
    """
    least = least_overload(supply, unit, int(demand[~homeless].sum()) // unit)
    return least, least.overload + HOMELESS * int(demand[homeless].sum())


def demand_unit(demand: Ints) -> int:
    """Return the greatest common divisor of all demands, in milli-GPU, at least 1."""
    return max(1, int(np.gcd.reduce(demand, initial=0)))


def overload_pieces(supply: Ints, unit: int, units: int) -> tuple[Ints, Ints]:
    """Return the linear pieces of overload as demand grows, both (5, regions, models).

    Lengths in units of demand, and the cost of one unit. The first piece is free, the last is as
    long as all units. Demand is integer in units, so interpolation between whole units is exact.
    """
    none, first, second = np.zeros_like(supply), supply // unit, 6 * supply // (5 * unit)
    points = np.sort(np.stack([none, first, first + 1, second, second + 1, second + 2]), axis=0)
    asked = points * unit
    over = overload(asked, supply)
    length = np.diff(points, axis=0)
    cost = np.diff(over, axis=0) // np.maximum(1, length)
    length[-1] = units
    return length * (supply > 0), cost


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Homes of job classes and replicas of dataset classes."""

    jobs: Ints  # (job classes, regions, models): jobs with their home there
    replicas: Bools  # (dataset classes, regions)

    def demand(self, problem: Problem) -> Ints:
        """Return the demand in milli-GPU (regions, models)."""
        asked: Ints = np.tensordot(problem.demand, self.jobs, axes=1)
        return asked

    def objective(self, problem: Problem) -> tuple[int, int, int]:
        """Return the leading terms as a tuple: `overload`, `remote_reads` and `copies`."""
        homeless = problem.count - self.jobs.sum(axis=(1, 2))
        there = self.jobs.sum(axis=2)[problem.read_class]
        local = np.where(self.replicas[problem.read_dataset_class], there, 0).sum(axis=1)
        away = problem.count[problem.read_class] - local
        new = self.replicas & ~problem.current
        return (
            overload_of(self.demand(problem), problem.supply)
            + HOMELESS * int((homeless * problem.demand).sum()),
            int((away * problem.read_gib).sum()),
            int((new * problem.size[:, None]).sum()),
        )

    def without_idle_copies(self, problem: Problem) -> Solution:
        """Return it without new replicas that no job reads and without needless drops.

        A replica over whose links jobs read remotely is kept. Existing replicas stay where storage
        allows it, the smallest first.
        """
        read = self.local_reads(problem)
        replicas = self.replicas & (problem.current | read)
        served = replicas | (replicas.astype(np.float64) @ problem.linked > 0)
        short = (read & ~served).any(axis=1)
        replicas[short] = self.replicas[short]
        residual = problem.storage - replicas.T.astype(np.int64) @ problem.size
        gone, region = np.nonzero(problem.current & ~replicas)
        order = np.argsort(problem.size[gone], kind="stable")
        for p, r in zip(gone[order].tolist(), region[order].tolist(), strict=True):
            if problem.size[p] <= residual[r]:
                replicas[p, r] = True
                residual[r] -= problem.size[p]
        return replace(self, replicas=replicas)

    def local_reads(self, problem: Problem) -> Bools:
        """Return where jobs read a dataset class locally (dataset classes, regions)."""
        read = np.zeros_like(problem.current)
        np.logical_or.at(
            read, problem.read_dataset_class, self.jobs.sum(axis=2)[problem.read_class] > 0
        )
        return read

    def layout(self, problem: Problem) -> Layout:
        """Return it per dataset and job; jobs of a class get its homes in their order."""
        homes = np.full((len(problem.job_class), 2), NONE, dtype=np.int64)
        order = np.argsort(problem.job_class, kind="stable")
        first = np.concatenate([[0], np.cumsum(problem.count)])
        w, r, m = np.nonzero(self.jobs)
        number = self.jobs[w, r, m]
        before = np.concatenate([[0], np.cumsum(number)])[:-1]
        start = before - before[np.searchsorted(w, w)] + first[w]
        at = np.repeat(start, number) + np.arange(number.sum()) - np.repeat(before, number)
        homes[order[at], 0] = np.repeat(r, number)
        homes[order[at], 1] = np.repeat(m, number)
        return Layout(self.replicas[problem.dataset_class], homes)
