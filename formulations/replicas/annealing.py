"""Homes by simulated annealing: data follows the jobs, and prices stand for what is scarce.

A unit is some jobs of one workload that move together. One step takes a unit out and puts it back
where it costs least, with noise: the GiB of replicas that it would be the only reader of, overload,
and what the region's storage and links cannot take. Sometimes all units that read a group in a
region move together, since a replica is saved only with its last reader. The noise falls, and the
price of overload rises.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias, cast

import numpy as np

from placewright.formulations.replicas.draft import Draft
from placewright.formulations.replicas.links import Links
from placewright.formulations.replicas.problem import Problem
from placewright.formulations.session import Session
from placewright.formulations.wan.compile import Bools

Table: TypeAlias = list[list[float]]

LARGE = 0.05
"""Jobs of a workload move one by one where one is more than this part of a usual cell."""

REMOTE_WORTH = 16.0
"""A GiB read from afar counts as so many copied."""

HOT, COLD = 0.3, 0.002
"""Noise at first and in the end, in GiB of a usual group."""

CHEAP, DEAR = 0.001, 10.0
"""Price of overload at first and in the end, in GiB of usual groups per usual unit."""

EXCESS = 4.0
"""Price of a GiB more than storage or links take."""

SWEEPS = 2000
"""Sweeps, at most: more do not pay."""

TOGETHER = 2
"""Moves of all readers of a group in a region, per group and sweep."""


class Annealing:
    """Units and where they are."""

    def __init__(self, problem: Problem, draft: Draft, may_hold: Bools, seed: int) -> None:
        self.problem = problem
        self._random = np.random.default_rng(seed)
        self._gumbel = self._noises()
        self._may_hold, self._regions = may_hold, problem.regions
        self._units(draft)
        self._reads()
        self._start()

    def run(self, session: Session, seconds: float, begin: float = 0.0) -> Draft:
        """Return the draft after so many seconds, or `SWEEPS` of all units if that is sooner.

        The noise begins where a share of the way down is done.
        """
        size = self.problem.size[self.problem.size > 0]
        usual = float(np.median(size)) if size.size else 1.0
        price = usual / max(1.0, float(np.median(self._asks))) if self._asks else 0.0
        until, sweep, done = session.remaining() - seconds, 0, begin
        while done < 1.0:
            self._noise = usual * HOT * (COLD / HOT) ** done
            self._price = price * CHEAP * (DEAR / CHEAP) ** done
            self._sweep()
            sweep += 1
            gone = sweep / SWEEPS
            if not session.deterministic and seconds > 0:
                gone = max(gone, 1.0 - (session.remaining() - until) / seconds)
            elif session.expired(until):
                break
            done = begin + (1.0 - begin) * gone
        return self.draft()

    def _sweep(self) -> None:
        """Move each unit once, and each group as often as the others."""
        for unit in self._random.permutation(len(self._workload)).tolist():
            self._take(unit)
            self._put(unit, self._choose(unit))
        number = TOGETHER * len(self._at)
        groups = self._random.integers(max(1, len(self._at)), size=number).tolist()
        targets = self._random.integers(self._regions, size=number).tolist()
        chances = self._random.random(number).tolist()
        for group, target, chance in zip(groups, targets, chances, strict=True):
            self._move_together(group, target, chance)

    def _noises(self) -> Iterator[float]:
        while True:
            yield from np.log(self._random.standard_exponential(4096)).tolist()

    def draft(self) -> Draft:
        """Return where everything is."""
        problem = self.problem
        jobs = np.zeros(problem.may.shape, dtype=np.int64)
        cells = jobs.reshape(problem.workloads, -1)
        for w, number, cell in zip(self._workload, self._jobs, self._cell, strict=True):
            if cell >= 0:
                cells[w, cell] += number
        read = Draft(jobs, problem.now).read(problem) & self._may_hold
        unread = np.logical_not(read.any(axis=1))
        replicas = read | problem.fixed | (problem.now & unread[:, None])
        return Draft(jobs, replicas).trimmed(problem)

    def _units(self, draft: Draft) -> None:
        """Cut workloads into units, each in one cell of the draft, or nowhere (-1)."""
        problem = self.problem
        supply = problem.supply[problem.supply > 0]
        usual = float(np.median(supply)) if supply.size else 0.0
        workload, jobs, cell = [], [], []
        cells = draft.jobs.reshape(problem.workloads, -1)
        homeless = problem.count - cells.sum(axis=1)
        for w, c in zip(*np.nonzero(np.column_stack([homeless, cells])), strict=True):
            number = int(cells[w, c - 1] if c else homeless[w])
            at_once = max(1, int(LARGE * usual // max(1, problem.demand[w])))
            for first in range(0, number, at_once):
                workload.append(int(w))
                jobs.append(min(at_once, number - first))
                cell.append(int(c) - 1)
        self._workload, self._jobs, self._cell = workload, jobs, cell
        self._asks = [float(n * problem.demand[w]) for w, n in zip(workload, jobs, strict=True)]

    def _reads(self) -> None:
        """Note for each workload its groups, its cells by region, and what it reads from afar."""
        problem = self.problem
        first = np.searchsorted(problem.read_workload, np.arange(problem.workloads + 1))
        models = problem.supply.shape[1]
        self._groups_of: list[list[int]] = []
        self._places_of: list[dict[int, tuple[list[int], float]]] = []
        for w in range(problem.workloads):
            mine = slice(int(first[w]), int(first[w + 1]))
            groups = problem.read_group[mine]
            apart = ~self._may_hold[groups]
            barred = (apart & ~problem.read_remote[mine, None]).sum(axis=0) > 0
            base = (apart * problem.read_gib[mine, None]).sum(axis=0) * REMOTE_WORTH
            may = problem.may[w] & ~barred[:, None]
            self._groups_of.append(groups.tolist())
            self._places_of.append(
                {
                    r: ((np.flatnonzero(may[r]) + r * models).tolist(), float(base[r]))
                    for r in np.flatnonzero(may.sum(axis=1)).tolist()
                }
            )

    def _start(self) -> None:
        """Put every unit where it is in the draft; lists, since numbers change one by one."""
        problem = self.problem
        models, unread = problem.supply.shape[1], np.ones(problem.groups, dtype=np.bool_)
        unread[problem.read_group] = False
        size = problem.size[:, None].astype(float)
        stays = (problem.now & unread[:, None]).T.astype(float) @ problem.size
        self._region_of = [cell // models for cell in range(problem.supply.size)]
        self._supply: list[float] = problem.supply.ravel().astype(float).tolist()
        self._load = [0.0] * len(self._supply)
        self._readers = cast(
            "list[list[int]]", np.zeros(problem.now.shape, dtype=np.int64).tolist()
        )
        # GiB that come with the first reader: of copies, and of room.
        self._copy = cast("Table", np.where(self._may_hold & ~problem.now, size, 0.0).tolist())
        self._need = cast("Table", np.where(self._may_hold, size, 0.0).tolist())
        self._room: list[float] = (problem.storage - stays).tolist()
        self._links = Links(problem)
        self._at: list[list[int]] = [[] for _ in range(problem.groups)]
        cells, self._cell = self._cell, [-1] * len(self._cell)
        for unit, cell in enumerate(cells):
            for p in self._groups_of[self._workload[unit]]:
                self._at[p].append(unit)
            self._put(unit, cell)

    def _take(self, unit: int) -> None:
        cell = self._cell[unit]
        if cell < 0:
            return
        region = self._region_of[cell]
        self._cell[unit] = -1
        self._load[cell] -= self._asks[unit]
        for p in self._groups_of[self._workload[unit]]:
            self._readers[p][region] -= 1
            if not self._readers[p][region]:
                self._room[region] += self._need[p][region]
                if self._copy[p][region]:
                    self._links.leave(p, region)

    def _put(self, unit: int, cell: int) -> None:
        if cell < 0:
            return
        region = self._region_of[cell]
        self._cell[unit] = cell
        self._load[cell] += self._asks[unit]
        for p in self._groups_of[self._workload[unit]]:
            if not self._readers[p][region]:
                self._room[region] -= self._need[p][region]
                if self._copy[p][region]:
                    self._links.take(p, region)
            self._readers[p][region] += 1

    def _choose(self, unit: int) -> int:
        """Return a cell for a unit that is nowhere, -1 if none will do."""
        best, chosen = math.inf, -1
        for region, (cells, base) in self._places_of[self._workload[unit]].items():
            price = self._data(unit, region) + base * self._jobs[unit]
            for cell in cells:
                # The least of costs less Gumbel noise is drawn as in a heat bath.
                cost = price + self._over(unit, cell) + self._noise * next(self._gumbel)
                if cost < best:
                    best, chosen = cost, cell
        return chosen

    def _least(self, unit: int, region: int) -> tuple[float, int]:
        """Return the least cost of a unit in a region, and its cell there; -1 if there is none."""
        cells, base = self._places_of[self._workload[unit]].get(region, ((), 0.0))
        least = min(((self._over(unit, cell), cell) for cell in cells), default=(math.inf, -1))
        return least[0] + self._data(unit, region) + base * self._jobs[unit], least[1]

    def _data(self, unit: int, region: int) -> float:
        """Return what the data costs that only this unit would read in a region."""
        copied = held = 0.0
        new = []
        for p in self._groups_of[self._workload[unit]]:
            if not self._readers[p][region]:
                held += self._need[p][region]
                if self._copy[p][region]:
                    copied += self._copy[p][region]
                    new.append(p)
        excess = max(0.0, held - max(0.0, self._room[region]))
        if new:
            excess += self._links.excess(new, region)
        return copied + EXCESS * excess

    def _over(self, unit: int, cell: int) -> float:
        """Return what the overload costs that a unit adds to a cell."""
        load, supply = self._load[cell], self._supply[cell]
        over = load + self._asks[unit] - supply
        if over <= 0.0:
            return 0.0
        added = over - max(0.0, load - supply)
        more = over - 0.2 * supply
        if more > 0.0:
            added += more - max(0.0, load - 1.2 * supply)
        cost: float = self._price * added
        return cost

    def _move_together(self, group: int, target: int, chance: float) -> None:
        """Move all units that read a group where one of them is drawn to be, to one region."""
        at = self._at[group]
        cell = self._cell[at[int(chance * len(at))]] if at else -1
        if cell < 0 or self._region_of[cell] == target:
            return
        region = self._region_of[cell]
        units = [u for u in at if self._cell[u] >= 0 and self._region_of[self._cell[u]] == region]
        before, gain = [self._cell[u] for u in units], 0.0
        for unit, cell in zip(units, before, strict=True):
            self._take(unit)
            base = self._places_of[self._workload[unit]].get(region, ((), 0.0))[1]
            gain += self._data(unit, region) + self._over(unit, cell) + base * self._jobs[unit]
        # The worse the move, the rarer it is made.
        least = -self._noise * math.exp(next(self._gumbel))
        for unit in units:
            cost, cell = self._least(unit, target)
            gain -= cost
            if gain < least:
                break
            self._put(unit, cell)
        if gain < least:
            for unit in units:
                self._take(unit)
            for unit, cell in zip(units, before, strict=True):
                self._put(unit, cell)
