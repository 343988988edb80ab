"""From counts to hosts: gangs into their domains, then single tasks packed class by class.

What the counts promise and the hosts cannot hold (CPU and memory are sums per class there) is tried
on any host, and in the end the greedy fills what is still free with whatever waits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.counts import Counts
from placewright.formulations.gang.gangs import ROOT
from placewright.formulations.gang.greedy import fill, place_choice
from placewright.formulations.gang.patterns import Patterns
from placewright.formulations.gang.placement import Placement, Put
from placewright.instances.documents import WHOLE_GPU

Starts = defaultdict[tuple[int, int], int]
"""How many jobs of (class, choice) are still to be started."""


@dataclass(frozen=True, slots=True)
class _Item:
    """What is packed on one host: one task, or the shares that one pattern puts on a GPU."""

    gpus: int
    demand: NDArray[np.int64]
    shapes: tuple[int, ...]


def expand(
    counts: Counts,
    patterns: Patterns | None,
    values: NDArray[np.float64],
    deadline: float = float("inf"),
) -> Placement:
    """Place what the counts start, and fill the rest greedily until `deadline`."""
    placement = Placement(counts.problem)
    number = np.rint(values).astype(np.int64)
    starts: Starts = defaultdict(int)
    for c, o, n in zip(counts.y_class, counts.y_choice, number[counts.y], strict=True):
        if n:
            starts[int(c), int(o)] += int(n)
    _place_gangs(counts, number, placement, starts)
    _Singles(counts, patterns, number, placement, starts).pack()
    for (c, o), n in starts.items():
        choice = counts.problem.classes[c].choices[o]
        for _ in range(n):
            puts = place_choice(placement, choice)
            if puts is None:
                break
            placement.start(c, o, puts)
    fill(placement, deadline)
    return placement


def _place_gangs(
    counts: Counts, number: NDArray[np.int64], placement: Placement, starts: Starts
) -> None:
    """Jobs of several tasks: those bound to the innermost domains first, large before small."""
    problem = counts.problem
    domains: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # by kind
    for i in np.flatnonzero(number[counts.u]):
        place = (int(counts.gangs.level[i]), int(counts.gangs.domain[i]))
        domains[int(counts.gangs.kind[i])] += [place] * int(number[counts.u[i]])
    work = []
    for (c, o), n in starts.items():
        groups = problem.classes[c].choices[o].groups
        if len(groups) == 1 and groups[0].count == 1:
            continue
        for _ in range(n):
            inside: dict[int, tuple[int, int]] = {}
            for k, group in enumerate(groups):
                if group in counts.kind_of and domains[counts.kind_of[group]]:
                    inside[k] = domains[counts.kind_of[group]].pop()
            level = max((place[0] for place in inside.values()), default=ROOT)
            size = sum(g.milli_gpu for g in groups)
            work.append((-level, -size, c, o, inside))
    for _, _, c, o, inside in sorted(work, key=lambda w: w[:4]):
        puts = place_choice(placement, problem.classes[c].choices[o], _masks(counts, inside))
        if puts is not None:
            placement.start(c, o, puts)
            starts[c, o] -= 1


def _masks(counts: Counts, inside: Mapping[int, tuple[int, int]]) -> dict[int, NDArray[np.bool_]]:
    domain = counts.problem.cluster.domain
    return {k: domain[level] == d for k, (level, d) in inside.items() if level != ROOT}


class _Singles:
    """One-task jobs, packed on the hosts of the class that the counts chose."""

    def __init__(
        self,
        counts: Counts,
        patterns: Patterns | None,
        number: NDArray[np.int64],
        placement: Placement,
        starts: Starts,
    ) -> None:
        self.counts, self.patterns, self.number = counts, patterns, number
        self.placement, self.starts = placement, starts
        self.problem = counts.problem
        self.pool: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for (c, o), n in starts.items():
            groups = self.problem.classes[c].choices[o].groups
            if len(groups) == 1 and groups[0].count == 1:
                self.pool[groups[0].shape] += [(c, o)] * n

    def pack(self) -> None:
        """Pack every class; what does not fit stays in `starts`."""
        wanted: defaultdict[int, list[int]] = defaultdict(list)  # class -> shapes, one per task
        taken = self._taken()
        offered = {shape: len(jobs) for shape, jobs in self.pool.items()}
        counts = self.counts
        for i in np.flatnonzero(self.number[counts.x]):
            shape, a = int(counts.x_shape[i]), int(counts.x_class[i])
            n = int(self.number[counts.x[i]]) - taken[shape, a]
            n = min(n, offered.get(shape, 0))
            if n > 0:
                offered[shape] -= n
                wanted[a] += [shape] * n
        for a, shapes in wanted.items():
            hosts = np.flatnonzero(counts.classes.of_host == a)
            shares = [s for s in shapes if self.problem.shared[s]]
            items = [
                _Item(
                    int(self.problem.shape_gpu[s]) // WHOLE_GPU, self.problem.shape_demand[s], (s,)
                )
                for s in shapes
                if not self.problem.shared[s]
            ]
            if shares:
                shares = self._fill_residual(a, hosts, shares)
                items += self._bundles(a, shares)
            self._pack_items(hosts, items)

    def _taken(self) -> defaultdict[tuple[int, int], int]:
        """Tasks of each (shape, host class) that the gangs took."""
        taken: defaultdict[tuple[int, int], int] = defaultdict(int)
        for _, c, o, puts in self.placement.started():
            groups = self.problem.classes[c].choices[o].groups
            for put in puts:
                key = groups[put.group].shape, int(self.counts.classes.of_host[put.host])
                taken[key] += put.count
        return taken

    def _start(self, shape: int, host: int) -> bool:
        if not self.placement.fits_host(shape, host):
            return False
        c, o = self.pool[shape].pop()
        self.placement.start(c, o, [Put(0, host, 1, self.placement.put(shape, host))])
        self.starts[c, o] -= 1
        return True

    def _fill_residual(self, a: int, hosts: NDArray[np.int64], shares: list[int]) -> list[int]:
        """Put shares on partly used GPUs as the patterns of those GPUs say; returns the others."""
        assert self.patterns is not None
        left = _by_fraction(self.problem.shape_gpu, shares)
        for i in np.flatnonzero(self.number[self.patterns.columns]):
            g = self.patterns.kind[i]
            free = int(self.patterns.kind_free[g])
            if self.patterns.kind_class[g] != a or free == WHOLE_GPU:
                continue
            for _ in range(int(self.number[self.patterns.columns[i]])):
                for f in np.flatnonzero(self.patterns.cuts[i])[::-1]:
                    fraction = int(self.counts.fractions[f])
                    for _ in range(int(self.patterns.cuts[i, f])):
                        if left[fraction]:
                            self._put_on_partial(hosts, fraction, left[fraction])
        return [s for shapes in left.values() for s in shapes]

    def _put_on_partial(self, hosts: NDArray[np.int64], fraction: int, shapes: list[int]) -> None:
        partial = self.placement.partial[hosts]
        tightest = np.where(partial >= fraction, partial, WHOLE_GPU + 1).min(axis=1)
        for at in np.argsort(tightest, kind="stable")[:8]:
            if tightest[at] > WHOLE_GPU:
                return
            for k in range(len(shapes) - 1, -1, -1):
                if self._start(shapes[k], int(hosts[at])):
                    del shapes[k]
                    return

    def _bundles(self, a: int, shares: list[int]) -> list[_Item]:
        """Deal the shares of a class to the whole-GPU patterns, heavy with light."""
        assert self.patterns is not None
        demand = self.problem.shape_demand
        left = _by_fraction(self.problem.shape_gpu, shares)
        for shapes in left.values():
            shapes.sort(key=lambda s: tuple(demand[s]))
        bundles = []
        for i in np.flatnonzero(self.number[self.patterns.columns]):
            g = self.patterns.kind[i]
            if self.patterns.kind_class[g] != a or self.patterns.kind_free[g] != WHOLE_GPU:
                continue
            for _ in range(int(self.number[self.patterns.columns[i]])):
                chosen = []
                for f in np.flatnonzero(self.patterns.cuts[i]):
                    waiting = left[int(self.counts.fractions[f])]
                    for k in range(int(self.patterns.cuts[i, f])):
                        if waiting:
                            chosen.append(waiting.pop(-1 if k % 2 == 0 else 0))
                if chosen:
                    bundles.append(_Item(1, demand[chosen].sum(axis=0), tuple(chosen)))
        # What the patterns of whole GPUs did not take had a place on residual GPUs that was lost.
        bundles += [_Item(1, demand[s], (s,)) for shapes in left.values() for s in shapes]
        return bundles

    def _pack_items(self, hosts: NDArray[np.int64], items: list[_Item]) -> None:
        """Largest first, to the host whose other resources then still serve its other GPUs best."""
        if not items:
            return
        free, whole = self.placement.free, self.placement.whole
        demand = np.array([item.demand for item in items])
        gpus = np.array([item.gpus for item in items])
        scale = np.maximum(free[hosts].max(axis=0), 1)
        weight = (demand / scale).max(axis=1)
        left_gpus, left_demand = int(gpus.sum()), demand.sum(axis=0).astype(np.float64)
        for i in np.lexsort((-weight, -gpus)):
            fits = (whole[hosts] >= gpus[i]) & (free[hosts] >= demand[i]).all(axis=1)
            open_hosts = hosts[fits]
            left_gpus -= int(gpus[i])
            left_demand -= demand[i]
            if not len(open_hosts):
                continue
            gpus_after = whole[open_hosts] - gpus[i]
            needed = gpus_after[:, None] * (left_demand / max(left_gpus, 1))
            short = ((needed - (free[open_hosts] - demand[i])).clip(min=0) / scale).sum(axis=1)
            best = np.lexsort((gpus_after, np.round(short, 3)))[0]
            for shape in items[i].shapes:
                self._start(shape, int(open_hosts[best]))


def _by_fraction(shape_gpu: NDArray[np.int64], shares: list[int]) -> defaultdict[int, list[int]]:
    left: defaultdict[int, list[int]] = defaultdict(list)
    for s in shares:
        left[int(shape_gpu[s])].append(s)
    return left
