"""Bin packing by domain: jobs that take from pools, so that GPUs and pools are used up together.

The domains of the innermost level with pools are the bins. They are filled one after the other,
each by a bounded knapsack over GPUs and the scarcest pool: of the jobs that are left, those that
take most of both together, in shares of what all domains have, each weighted by how scarce it is.
Equal domains get the same jobs as long as there are enough, so few knapsacks are solved. (The
sequential heuristic procedure for cutting stock: Haessler, A Heuristic Programming Solution to a
Nonlinear Cutting Stock Problem, Management Science 17, 1971.) Inside a domain the hosts with the
fewest free GPUs come first. Jobs that are larger than any domain are divided into their tasks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.class_packing import StartCounts
from placewright.formulations.gang.placement.greedy import place_choice
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Choice, TaskPlacement
from placewright.formulations.gang.problem.pools import taken_by_gang


def pack_domains(placement: Placement, starts: StartCounts) -> None:
    """Start jobs inside single domains as far as they fit; they are taken from `starts`."""
    if placement.pools.pools and any(starts.values()):
        _Packing(placement, starts).pack()


class _Packing:
    """Jobs to be packed, and what the domains have left of GPUs and pools.

    Attributes
    ----------
    demand : int64 (jobs, 1 + pools)
        Milli-GPU, and what a job, or a task of a divided one, takes of each pool.
    number : int64 (jobs,)
        How many of each are left.
    """

    def __init__(self, placement: Placement, starts: StartCounts) -> None:
        self.placement, self.starts = placement, starts
        cluster, pools = placement.problem.cluster, placement.pools.pools
        self.level = max(pool.level for pool in pools)
        domain = np.unique(cluster.domain[self.level], return_inverse=True)[1]  # those with hosts
        order = np.argsort(domain, kind="stable")
        size = int(domain.max()) + 1
        self.hosts = np.split(order, np.searchsorted(domain[order], np.arange(1, size)))
        # The domain of each pool that is around each of these domains; any where none has hosts.
        some = [int(hosts[0]) if len(hosts) else 0 for hosts in self.hosts]
        self.around = [pool.domain[some] for pool in pools]
        self.gpus = np.zeros(size, dtype=np.int64)
        usable = np.where(placement.problem.open, placement.free_milli_gpu, 0)
        np.add.at(self.gpus, domain, usable)
        self.keys = [key for key, n in starts.items() if n]
        classes = placement.problem.classes
        self.choices = [classes[c].choices[o] for c, o in self.keys]
        self.number = np.array([starts[key] for key in self.keys], dtype=np.int64)
        self.demand = np.array([self._demand(choice) for choice in self.choices], dtype=np.int64)
        left = np.array([self._left(d) for d in range(size)], dtype=np.int64)
        self._divide(left.max(axis=0, initial=0))
        has = np.maximum(left, 0).sum(axis=0).astype(np.float64)
        asked = (self.number[:, None] * self.demand).sum(axis=0)
        self.price = np.minimum(asked / np.maximum(has, 1), 1.0) / np.maximum(has, 1)
        self.scarcest = 1 + int((asked[1:] / np.maximum(has[1:], 1)).argmax())
        self.placed: list[list[TaskPlacement]] = [[] for _ in self.keys]

    def _demand(self, choice: Choice) -> list[int]:
        pools = self.placement.pools.pools
        taken = [sum(taken_by_gang(pool, group) for group in choice.groups) for pool in pools]
        return [sum(group.milli_gpu for group in choice.groups), *taken]

    def _left(self, d: int) -> list[int]:
        """Return what a domain, and the pools around it, have left."""
        pools = zip(self.placement.pools.left, self.around, strict=True)
        return [int(self.gpus[d]), *(int(left[around[d]]) for left, around in pools)]

    def _divide(self, widest: Ints) -> None:
        """Divide jobs that are larger than any domain, if their tasks may be in several."""
        self.parts = np.ones(len(self.keys), dtype=np.int64)
        for k, choice in enumerate(self.choices):
            group = choice.groups[0]
            alone = len(choice.groups) == 1 and not choice.is_tied and not choice.uses
            if alone and group.required == NO_LEVEL and (self.demand[k] > widest).any():
                self.parts[k] = group.count
        self.demand //= self.parts[:, None]
        self.number *= self.parts

    def pack(self) -> None:
        """Fill the domains, those with the fewest GPUs first."""
        known: tuple[list[int], Ints] | None = None
        for d in np.argsort(self.gpus, kind="stable").tolist():
            left = self._left(d)
            if known is None or known[0] != left or (known[1] > self.number).any():
                known = left, self._fullest(np.array(left, dtype=np.int64))
            for k in np.flatnonzero(known[1]).tolist():
                for _ in range(int(known[1][k])):
                    if not self._start(k, self.hosts[d]):
                        break
                    self.number[k] -= 1
                    self.gpus[d] -= self.demand[k, 0]
        for choice, placed in zip(self.choices, self.placed, strict=True):
            for put in placed:
                self.placement.lift(choice.groups[0].shape, put)

    def _fullest(self, left: Ints) -> Ints:
        """Return how many of each job fill a domain best, int64 (jobs,)."""
        fits = (self.number > 0) & (self.demand <= left).all(axis=1)
        jobs = np.flatnonzero(fits)
        found = np.zeros(len(self.keys), dtype=np.int64)
        if not len(jobs):
            return found
        sides = [0, self.scarcest]
        units = [_unit(self.demand[jobs, r], int(left[r])) for r in sides]
        sizes = np.stack([-(-self.demand[jobs, r] // u) for r, u in zip(sides, units, strict=True)])
        top = int(left[0]) // units[0], int(left[self.scarcest]) // units[1]
        worth = (self.demand[jobs] * self.price).sum(axis=1)
        # Of equally good sets those of larger jobs: small ones still fit later.
        worth *= 1 + parameters.PARAMETERS.packing.worth_of_size * worth / (worth.max() or 1.0)
        found[jobs] = knapsack_of_two(sizes.T, worth, self.number[jobs], top)
        return found

    def _start(self, k: int, hosts: Ints) -> bool:
        """Start a job, or place a task of a divided one, on hosts of a domain, if it fits."""
        choice, placed = self.choices[k], self.placed[k]
        puts = self._place(choice, 1 if self.parts[k] > 1 else choice.groups[0].count, hosts)
        if puts is None:
            return False
        placed += puts
        if self.parts[k] == 1 or len(placed) == self.parts[k]:
            self.placement.start(*self.keys[k], list(placed))
            self.starts[self.keys[k]] -= 1
            placed.clear()
        return True

    def _place(self, choice: Choice, count: int, hosts: Ints) -> list[TaskPlacement] | None:
        if len(choice.groups) == 1 and not choice.is_tied:
            return self._best_fit(choice.groups[0].shape, count, hosts)
        mask: NDArray[np.bool_] = np.zeros(self.placement.problem.cluster.num_hosts, dtype=np.bool_)
        mask[hosts] = True
        return place_choice(self.placement, choice, dict.fromkeys(range(len(choice.groups)), mask))

    def _best_fit(self, shape: int, count: int, hosts: Ints) -> list[TaskPlacement] | None:
        """Place tasks on the hosts with the fewest free GPUs that fit them; all or none."""
        placement = self.placement
        puts: list[TaskPlacement] = []
        for host in hosts[np.argsort(placement.whole[hosts], kind="stable")].tolist():
            while len(puts) < count and placement.fits_host(shape, host):
                puts.append(TaskPlacement(0, host, 1, placement.put(shape, host)))
            if len(puts) == count:
                return puts
        for put in puts:
            placement.lift(shape, put)
        return None


def _unit(demand: Ints, left: int) -> int:
    """Return the unit in which a table counts an amount: it divides all demands, or is coarser."""
    divisor = max(int(np.gcd.reduce(demand)), 1)
    most = parameters.PARAMETERS.packing.max_knapsack_units
    return divisor if left // divisor <= most else -(-left // most)


def knapsack_of_two(
    sizes: Ints, worth: NDArray[np.float64], number: Ints, top: tuple[int, int]
) -> Ints:
    """Solve a bounded knapsack over two resources.

    Parameters
    ----------
    sizes : int64 (items, 2)
    worth : float64 (items,)
    number : int64 (items,)
        How many there are of each item.
    top
        What there is of both resources.

    Returns
    -------
    int64 (items,)
        How many of each to take.
    """
    best = np.zeros((top[0] + 1, top[1] + 1))
    steps: list[tuple[int, int, NDArray[np.bool_]]] = []
    for i, (a, b) in enumerate(sizes.tolist()):
        fit = [t // each for t, each in zip(top, (a, b), strict=True) if each]
        left, times = min([int(number[i]), *fit]), 1
        while left > 0:
            n = min(times, left)
            left, times = left - n, 2 * times
            taken = np.zeros(best.shape, dtype=np.bool_)
            with_it = best[: top[0] + 1 - n * a, : top[1] + 1 - n * b] + n * worth[i]
            better = with_it > best[n * a :, n * b :]
            taken[n * a :, n * b :] = better
            best[n * a :, n * b :][better] = with_it[better]
            steps.append((i, n, taken))
    found = np.zeros(len(sizes), dtype=np.int64)
    at = list(top)
    for i, n, taken in reversed(steps):
        if taken[at[0], at[1]]:
            found[i] += n
            at = [at[0] - n * int(sizes[i, 0]), at[1] - n * int(sizes[i, 1])]
    return found
