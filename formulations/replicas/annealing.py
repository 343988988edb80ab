"""Homes by simulated annealing: data follows the jobs, and prices stand for what is scarce.

A unit is some jobs of one workload that move together. One step takes a unit out and puts it back
where it costs least, with noise: the GiB of replicas that it would be the only reader of, overload,
and what the region's storage and links cannot take. Sometimes all units that read a group in a
region move together, since a replica is saved only with its last reader. The noise falls, and the
price of overload rises.
"""

from __future__ import annotations

import numpy as np

from placewright.formulations.replicas.draft import Draft
from placewright.formulations.replicas.problem import Problem
from placewright.formulations.session import Session
from placewright.formulations.wan.compile import Bools, Ints
from placewright.solver.arrays import Floats

LARGE = 0.05
"""Jobs of a workload move one by one where one is more than this part of a usual cell."""

REMOTE_WORTH = 16.0
"""A GiB read from afar counts as so many copied."""

HOT, COLD = 4.0, 0.02
"""Noise at first and in the end, in GiB of a usual group."""

CHEAP, DEAR = 0.01, 10.0
"""Price of overload at first and in the end, in GiB of usual groups per usual unit."""

EXCESS = 4.0
"""Price of a GiB more than storage or links take."""

SWEEPS = 400
"""Sweeps, at most: more do not pay."""

TOGETHER = 2
"""Moves of all readers of a group in a region, per group and sweep."""


class Annealing:
    """Units and where they are."""

    def __init__(self, problem: Problem, draft: Draft, may_hold: Bools, seed: int) -> None:
        self.problem = problem
        self._random = np.random.default_rng(seed)
        self._may_hold, self._regions = may_hold, problem.regions
        self._units(draft)
        self._reads()
        self._start()

    def run(self, session: Session, seconds: float) -> Draft:
        """Return the draft after so many seconds, or `SWEEPS` of all units if that is sooner."""
        size = self.problem.size[self.problem.size > 0]
        usual = float(np.median(size)) if size.size else 1.0
        price = usual / max(1.0, float(np.median(self._asks))) if self._asks.size else 0.0
        until, sweep, done = session.remaining() - seconds, 0, 0.0
        while done < 1.0:
            self._noise = usual * HOT * (COLD / HOT) ** done
            self._price = price * CHEAP * (DEAR / CHEAP) ** done
            self._sweep()
            sweep += 1
            done = sweep / SWEEPS
            if not session.deterministic and seconds > 0:
                done = max(done, 1.0 - (session.remaining() - until) / seconds)
            elif session.expired(until):
                break
        return self.draft()

    def _sweep(self) -> None:
        """Move each unit once, and each group as often as the others."""
        for unit in self._random.permutation(len(self._workload)).tolist():
            self._take(unit)
            self._put(unit, self._choose(unit))
        for group in self._random.integers(len(self._at), size=TOGETHER * len(self._at)):
            self._move_together(int(group))

    def draft(self) -> Draft:
        """Return where everything is."""
        problem = self.problem
        jobs = np.zeros(problem.may.shape, dtype=np.int64)
        cells = jobs.reshape(problem.workloads, -1)
        placed = self._cell >= 0
        np.add.at(cells, (self._workload[placed], self._cell[placed]), self._jobs[placed])
        read = Draft(jobs, problem.now).read(problem) & self._may_hold
        unread = np.logical_not(read.any(axis=1))
        replicas = read | problem.fixed | (problem.now & unread[:, None])
        return Draft(jobs, replicas).trimmed(problem)

    def _units(self, draft: Draft) -> None:
        """Cut workloads into units, each in one cell of the draft."""
        problem = self.problem
        usual = float(np.median(problem.supply[problem.supply > 0]))
        workload, jobs, cell = [], [], []
        cells = draft.jobs.reshape(problem.workloads, -1)
        for w, c in zip(*np.nonzero(cells), strict=True):
            number = int(cells[w, c])
            at_once = max(1, int(LARGE * usual // max(1, problem.demand[w])))
            for first in range(0, number, at_once):
                workload.append(int(w))
                jobs.append(min(at_once, number - first))
                cell.append(int(c))
        self._workload = np.array(workload, dtype=np.int64)
        self._jobs = np.array(jobs, dtype=np.int64)
        self._cell = np.array(cell, dtype=np.int64)
        self._asks = (self._jobs * problem.demand[self._workload]).astype(float)

    def _reads(self) -> None:
        """Note for each unit its groups, its cells, and what it reads from afar in each region."""
        problem = self.problem
        first = np.searchsorted(problem.read_workload, np.arange(problem.workloads + 1))
        models = problem.supply.shape[1]
        self._region_of = np.repeat(np.arange(problem.regions), models)
        self._groups_of: list[Ints] = []
        self._cells_of: list[Ints] = []
        self._base_of: list[Floats] = []
        for w in range(problem.workloads):
            mine = slice(int(first[w]), int(first[w + 1]))
            groups = problem.read_group[mine]
            apart = ~self._may_hold[groups]
            barred = (apart & ~problem.read_remote[mine, None]).sum(axis=0) > 0
            may = problem.may[w] & ~barred[:, None]
            base = (apart * problem.read_gib[mine, None]).sum(axis=0) * REMOTE_WORTH
            cells = np.flatnonzero(may)
            self._groups_of.append(groups)
            self._cells_of.append(cells)
            self._base_of.append(base[self._region_of[cells]].astype(float))

    def _start(self) -> None:
        problem = self.problem
        self._supply = problem.supply.ravel().astype(float)
        self._load = np.zeros(len(self._supply))
        self._readers = np.zeros(problem.now.shape, dtype=np.int64)
        size = problem.size[:, None].astype(float)
        # GiB that come with the first reader, of copies and of room.
        self._copy = np.where(self._may_hold & ~problem.now, size, 0.0)
        self._need = np.where(self._may_hold, size, 0.0)
        self._missing, self._lacking = self._copy.copy(), self._need.copy()
        idle = np.bincount(problem.read_group, minlength=problem.groups) == 0
        self._room = problem.storage - (problem.now & idle[:, None]).T.astype(float) @ problem.size
        self._left = problem.incoming.astype(float)
        self._at: list[list[int]] = [[] for _ in range(problem.groups)]
        cells, self._cell = self._cell.copy(), np.full_like(self._cell, -1)
        for unit, cell in enumerate(cells.tolist()):
            for p in self._groups_of[self._workload[unit]].tolist():
                self._at[p].append(unit)
            self._put(unit, cell)

    def _take(self, unit: int) -> None:
        cell = int(self._cell[unit])
        if cell < 0:
            return
        region, groups = self._region_of[cell], self._groups_of[self._workload[unit]]
        self._cell[unit] = -1
        self._load[cell] -= self._asks[unit]
        self._readers[groups, region] -= 1
        last = groups[self._readers[groups, region] == 0]
        if last.size:
            self._missing[last, region] = self._copy[last, region]
            self._lacking[last, region] = self._need[last, region]
            self._left[region] += self._copy[last, region].sum()
            self._room[region] += self._need[last, region].sum()

    def _put(self, unit: int, cell: int) -> None:
        if cell < 0:
            return
        region, groups = self._region_of[cell], self._groups_of[self._workload[unit]]
        self._cell[unit] = cell
        self._load[cell] += self._asks[unit]
        self._left[region] -= self._missing[groups, region].sum()
        self._room[region] -= self._lacking[groups, region].sum()
        self._readers[groups, region] += 1
        self._missing[groups, region] = 0.0
        self._lacking[groups, region] = 0.0

    def _choose(self, unit: int) -> int:
        """Return a cell for a unit that is nowhere, -1 if none will do."""
        cells = self._cells_of[self._workload[unit]]
        if not cells.size:
            return -1
        cost = self._costs(unit)
        cost += self._noise * np.log(self._random.standard_exponential(len(cells)))
        return int(cells[cost.argmin()])

    def _costs(self, unit: int) -> Floats:
        """Return what a unit costs in each of its cells."""
        w = self._workload[unit]
        groups, cells = self._groups_of[w], self._cells_of[w]
        copied = self._missing[groups].sum(axis=0)
        held = self._lacking[groups].sum(axis=0)
        price = copied + EXCESS * (
            np.maximum(0.0, copied - np.maximum(0.0, self._left))
            + np.maximum(0.0, held - np.maximum(0.0, self._room))
        )
        load, supply = self._load[cells], self._supply[cells]
        over = load + self._asks[unit] - supply
        more = over - 0.2 * supply
        beyond = (
            np.maximum(0.0, over)
            - np.maximum(0.0, load - supply)
            + np.maximum(0.0, more)
            - np.maximum(0.0, load - 1.2 * supply)
        )
        cost: Floats = price[self._region_of[cells]] + self._price * beyond
        cost += self._base_of[w] * self._jobs[unit]
        return cost

    def _move_together(self, group: int) -> None:
        """Move all units that read a group in one of its regions to one other region."""
        placed = [u for u in self._at[group] if self._cell[u] >= 0]
        if not placed:
            return
        where = self._region_of[self._cell[placed]]
        region, target = self._random.choice(where), int(self._random.integers(self._regions))
        units = [u for u, r in zip(placed, where.tolist(), strict=True) if r == region]
        before, gain = self._cell[units].tolist(), 0.0
        for u in units:
            here = self._cells_of[self._workload[u]] == self._cell[u]
            self._take(u)
            gain += float(self._costs(u)[here].sum())
        for u in units:
            cells = self._cells_of[self._workload[u]]
            inside = np.flatnonzero(self._region_of[cells] == target)
            if not inside.size:
                gain = -np.inf
                break
            cost = self._costs(u)[inside]
            gain -= float(cost.min())
            self._put(u, int(cells[inside[cost.argmin()]]))
        if gain < -self._noise * self._random.standard_exponential():
            for u in units:
                self._take(u)
            for u, back in zip(units, before, strict=True):
                self._put(u, back)
