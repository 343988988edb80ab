"""Vector bin packing by domain: jobs that take from pools, with GPUs and pools in proportion.

The domains of the innermost level with pools are the bins. Jobs come in order of size, the largest
first, each to the domain whose GPUs and pools are then left in the most equal shares of what
domains have on average: so it runs out of GPUs and of power at about the same time. (A best fit
decreasing; Panigrahy, Talwar, Uyeda and Wieder, Heuristics for Vector Bin Packing, 2011, compare
such rules.) Of equally good domains the fullest is taken, and in it the hosts with the fewest free
GPUs. Jobs that are larger than any domain are divided into tasks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang.heuristics.class_packing import StartCounts
from placewright.formulations.gang.placement.greedy import place_choice
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Choice, TaskPlacement
from placewright.formulations.gang.problem.pools import taken_by_gang

MAX_TRIED = 3
"""Domains that are tried for a job; its tasks may not fit their hosts."""


def pack_domains(placement: Placement, starts: StartCounts) -> None:
    """Start jobs inside single domains as far as they fit; they are taken from `starts`."""
    if placement.pools.pools and any(starts.values()):
        _Packing(placement, starts).pack()


class _Packing:
    """Jobs to be packed, and what the domains have left of GPUs and pools.

    Attributes
    ----------
    left : int64 (domains, 1 + pools)
        Milli-GPU, and what pools have around each domain.
    """

    def __init__(self, placement: Placement, starts: StartCounts) -> None:
        self.placement, self.starts = placement, starts
        cluster, pools = placement.problem.cluster, placement.pools.pools
        self.level = max(pool.level for pool in pools)
        domain = cluster.domain[self.level]
        order = np.argsort(domain, kind="stable")
        size = len(cluster.names[self.level])
        self.hosts = np.split(order, np.searchsorted(domain[order], np.arange(1, size)))
        first = np.zeros(size, dtype=np.int64)
        first[domain] = np.arange(cluster.num_hosts)
        # The domain of each pool that is around each of these domains.
        self.around = [pool.domain[first] for pool in pools]
        self.left = np.zeros((size, 1 + len(pools)), dtype=np.int64)
        gpus = np.where(placement.problem.open, placement.free_milli_gpu, 0)
        np.add.at(self.left[:, 0], domain, gpus)
        self._look_up_pools()
        self.unit = np.maximum(np.maximum(self.left, 0).mean(axis=0), 1.0)

    def _look_up_pools(self) -> None:
        for k, left in enumerate(self.placement.pools.left):
            self.left[:, 1 + k] = left[self.around[k]]

    def pack(self) -> None:
        """Start what fits, the largest jobs first."""
        problem = self.placement.problem
        choices = {key: problem.classes[key[0]].choices[key[1]] for key in self.starts}
        demand = {key: self._demand(choice) for key, choice in choices.items()}
        size = {key: float((taken / self.unit).sum()) for key, taken in demand.items()}
        widest = self.left.max(axis=0, initial=0)
        for key in sorted(choices, key=lambda key: (-size[key], key)):
            choice = choices[key]
            if (demand[key] <= widest).all():
                while self.starts[key] and self._start(key, choice, demand[key]):
                    self.starts[key] -= 1
            elif self._is_divisible(choice):
                tasks = choice.groups[0].count
                while self.starts[key] and self._start_divided(key, choice, demand[key] // tasks):
                    self.starts[key] -= 1

    def _demand(self, choice: Choice) -> Ints:
        """Return what a job takes of the domain that holds it, as `left` has it."""
        pools = self.placement.pools.pools
        taken = [sum(taken_by_gang(pool, group) for group in choice.groups) for pool in pools]
        return np.array([sum(g.milli_gpu for g in choice.groups), *taken], dtype=np.int64)

    def _is_divisible(self, choice: Choice) -> bool:
        """Whether the tasks of a job may be in several domains, wherever those are."""
        alone = len(choice.groups) == 1 and not choice.is_tied and not choice.uses
        return alone and choice.groups[0].required == NO_LEVEL

    def _start(self, key: tuple[int, int], choice: Choice, demand: Ints) -> bool:
        """Start a job in one domain; return whether it fits any."""
        for d in self._best(demand):
            puts = self._place(choice, self.hosts[d])
            if puts is not None:
                self.placement.start(*key, puts)
                self._charge(d, demand)
                return True
        return False

    def _start_divided(self, key: tuple[int, int], choice: Choice, demand: Ints) -> bool:
        """Start a job in several domains, task by task; return whether it fits."""
        group = choice.groups[0]
        puts: list[TaskPlacement] = []
        for _ in range(group.count):
            for d in self._best(demand):
                one = self._best_fit(group.shape, 1, self.hosts[d])
                if one is not None:
                    puts += one
                    self._charge(d, demand)
                    break
            else:
                for put in puts:
                    self.placement.lift(group.shape, put)
                    d = int(self.placement.problem.cluster.domain[self.level][put.host])
                    self._charge(d, -demand)
                return False
        self.placement.start(*key, puts)
        return True

    def _charge(self, d: int, demand: Ints) -> None:
        self.left[d, 0] -= demand[0]
        self._look_up_pools()

    def _best(self, demand: Ints) -> list[int]:
        """Return the domains with room for a demand, the best ones first."""
        fits = np.flatnonzero((self.left >= demand).all(axis=1))
        rest = (self.left[fits] - demand) / self.unit
        order = np.lexsort((rest.sum(axis=1), rest.max(axis=1) - rest.min(axis=1)))
        best: list[int] = fits[order[:MAX_TRIED]].tolist()
        return best

    def _place(self, choice: Choice, hosts: Ints) -> list[TaskPlacement] | None:
        """Place a job on hosts of one domain; None if it does not fit."""
        if len(choice.groups) == 1 and not choice.is_tied:
            return self._best_fit(choice.groups[0].shape, choice.groups[0].count, hosts)
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
