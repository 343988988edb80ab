"""Rules that say where data lives: leave it, or climb hills as MAST's slow path does.

Written from their descriptions. They choose homes for jobs by a weighted sum: a GPU of overload
(the convex one of the term) is dearer than all that its jobs read, a GiB read over links costs 1, a
GiB copied `COPY`.

- `stay`: replicas stay where they are, and jobs are at home where they read least over links.
- `leave`: replicas stay where they are; each job is at home where that adds least.
- `climb`: Tetris. Of all ways to replicate or move a group of datasets (those with the same
  readers) to a region, its readers following as far as that pays, the one that lowers the sum most
  is taken, until none does. A copy comes over direct links from the regions that hold the group
  now, as far as their budgets and the storage there go.

References
----------
Choudhury et al., "MAST: global scheduling of ML training across geo-distributed datacenters at
hyperscale", OSDI'24: the slow path is a local search over weighted goals.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.replicas.problem.problem import Layout, Problem

__all__ = ["RULES", "Climber", "Planner", "at_home", "climb", "leave", "stay"]

COPY = 0.1
STEPS = 100_000
LEAST = 1e-6

Place: TypeAlias = tuple[int, int]
"""Region and GPU model."""


@dataclass(frozen=True, slots=True)
class Step:
    """Bring a group of datasets to a region, and drop it in another (NONE: in none)."""

    dataset_class: int
    region: int
    dropped: int = NONE


Shift: TypeAlias = tuple[int, Place, Place, int]
"""Workload, from where, to where, and how many jobs."""


def stay(problem: Problem) -> Layout:
    """Return homes where the data is, whatever GPUs are there."""
    climber = Climber(problem, weight=LEAST)
    climber.settle()
    return climber.layout()


def at_home(problem: Problem, replicas: Bools) -> Ints:
    """Return homes for these replicas of datasets (jobs, 2)."""
    climber = Climber(problem)
    climber.has[:] = True
    np.logical_and.at(climber.has, problem.dataset_class, replicas)
    climber.settle()
    return climber.layout().homes


def leave(problem: Problem) -> Layout:
    """Return homes for replicas that stay."""
    climber = Climber(problem)
    climber.settle()
    return climber.layout()


def climb(problem: Problem) -> Layout:
    """Return what hill climbing leads to."""
    climber = Climber(problem)
    climber.settle()
    climber.climb()
    climber.settle()
    return climber.layout()


Planner: TypeAlias = Callable[[Problem], Layout]

RULES: Mapping[str, Planner] = {"stay": stay, "leave": leave, "climb": climb}


class Climber:
    """Replicas and homes, and what each step would change.

    `weight` is that of a milli-GPU of overload.
    """

    def __init__(self, problem: Problem, weight: float | None = None) -> None:
        self.problem, wan = problem, problem.wan
        self.supply = problem.supply.tolist()
        self.demand = [[0] * len(row) for row in self.supply]
        self.has = problem.current.copy()
        self.used = (problem.current.T.astype(np.int64) @ problem.size).tolist()
        self.budget = wan.budget.copy()
        self.linked = problem.linked
        self.head = np.unique(problem.dataset_class, return_index=True)[1]
        self.reads: list[list[tuple[int, int, bool]]] = [[] for _ in range(problem.job_classes)]
        self.readers: list[list[int]] = [[] for _ in range(problem.dataset_classes)]
        for w, p, gib, remote in zip(
            problem.read_class.tolist(),
            problem.read_dataset_class.tolist(),
            problem.read_gib.tolist(),
            problem.read_remote.tolist(),
            strict=True,
        ):
            self.reads[w].append((p, gib, remote))
            self.readers[p].append(w)
        # Only replicas that are complete may go, and may be copied.
        self.complete = np.zeros_like(problem.current)
        self.complete[problem.dataset_class] = wan.holds
        asked = float((problem.count * problem.demand).sum())
        read = sum(g * int(problem.count[w]) for w, r in enumerate(self.reads) for _, g, _ in r)
        self.weight = 10.0 * max(1.0, read) / max(1.0, asked) if weight is None else weight
        self.homes: list[dict[Place, int]] = [{} for _ in range(problem.job_classes)]

    def layout(self) -> Layout:
        """Return replicas of datasets, and homes of jobs."""
        problem = self.problem
        homes = np.full((len(problem.job_class), 2), NONE, dtype=np.int64)
        jobs = np.argsort(problem.job_class, kind="stable")
        ends = np.cumsum(problem.count)
        for w, places in enumerate(self.homes):
            at = int(ends[w] - problem.count[w])
            for place, count in places.items():
                homes[jobs[at : at + count]] = place
                at += count
        return Layout(self.has[problem.dataset_class], homes)

    def settle(self) -> None:
        """Give every job the home that adds least, largest jobs first, until no job moves."""
        order = np.argsort(-self.problem.demand, kind="stable").tolist()
        for _ in range(10):
            moved = False
            for w in order:
                moved |= self._settled(w)
            if not moved:
                return

    def climb(self) -> None:
        """Take the best step, again and again; gains are looked at anew when they come first."""
        heap = [(-gain, n, step) for n, (gain, step) in enumerate(self._gains(self._steps()))]
        heapq.heapify(heap)
        number = len(heap)
        for _ in range(STEPS):
            if not heap:
                break
            _, _, step = heapq.heappop(heap)
            gain, shifts = self.gain(step)
            if gain <= LEAST:
                continue
            if heap and gain < -heap[0][0] - LEAST:
                number += 1
                heapq.heappush(heap, (-gain, number, step))
                continue
            self._take(step, shifts)
            again = {p for w in self.readers[step.dataset_class] for p, _, _ in self.reads[w]}
            steps = (s for p in sorted({step.dataset_class, *again}) for s in self._steps_of(p))
            for better, other in self._gains(steps):
                number += 1
                heapq.heappush(heap, (-better, number, other))

    def gain(self, step: Step) -> tuple[float, list[Shift]]:
        """Return what a step lowers the weighted sum by, and which jobs follow; 0 if it may not."""
        problem, p, r = self.problem, step.dataset_class, step.region
        size, new = int(problem.size[p]), not self.has[p, r]
        if (step.dropped != NONE) and not self.has[p, step.dropped]:
            return 0.0, []
        if not new or self.used[r] + size > problem.storage[r] or self._sources(p, r) is None:
            return 0.0, []
        before = self.has[p].copy()
        self.has[p, r] = True
        if step.dropped != NONE:
            self.has[p, step.dropped] = False
        total, shifts = -COPY * size, list[Shift]()
        for w in self.readers[p]:
            lowered, mine = self._follow(w, p, r, before)
            total += lowered
            shifts += mine
        for w, old, to, jobs in shifts:
            self._add(to, -jobs * int(problem.demand[w]))
            self._add(old, jobs * int(problem.demand[w]))
        self.has[p] = before
        return total, shifts

    def _follow(self, w: int, p: int, region: int, before: np.ndarray) -> tuple[float, list[Shift]]:
        """Move the jobs of a reader to a region as far as that pays, in `demand` only."""
        total, shifts = 0.0, list[Shift]()
        asked = int(self.problem.demand[w])
        here = self._remote(w, region)
        for place, count in list(self.homes[w].items()):
            after = self._remote(w, place[0])
            now, self.has[p] = self.has[p].copy(), before
            was = self._remote(w, place[0])
            self.has[p] = now
            if place[0] == region:
                total += count * ((was or 0.0) - (after or 0.0))
                continue
            stays = np.inf if after is None else count * after
            best = (count * (was or 0.0) - stays, 0, place)
            models = (
                ()
                if here is None
                else np.flatnonzero(self.problem.allowed_homes[w, region]).tolist()
            )
            for m in models:
                to = region, int(m)
                residual = self.supply[region][m] - self.demand[region][m]
                for jobs in {count, min(count, max(0, residual // asked))} - {0}:
                    left = 0.0 if jobs == count else (count - jobs) * (stays / count)
                    spent = jobs * (here or 0.0) + left
                    lower = count * (was or 0.0) - spent
                    lower += self.weight * self._relief(place, to, jobs * asked)
                    best = max(best, (lower, jobs, to))
            lower, jobs, to = best
            total += lower
            if jobs:
                shifts.append((w, place, to, jobs))
                self._add(place, -jobs * asked)
                self._add(to, jobs * asked)
        return total, shifts

    def _settled(self, w: int) -> bool:
        """Move the jobs of a workload to where they add least; whether any moved."""
        count, asked = int(self.problem.count[w]), int(self.problem.demand[w])
        old = self.homes[w]
        for place, jobs in old.items():
            self._add(place, -jobs * asked)
        places = [
            (remote, (int(r), int(m)))
            for r, m in zip(*np.nonzero(self.problem.allowed_homes[w]), strict=True)
            for remote in [self._remote(w, int(r))]
            if remote is not None
        ]
        chosen: dict[Place, int] = {}
        for _ in range(count if places else 0):
            _, place = min(
                (remote + self.weight * self._added(place, asked), place)
                for remote, place in places
            )
            self._add(place, asked)
            chosen[place] = chosen.get(place, 0) + 1
        self.homes[w] = chosen
        return chosen != old

    def _remote(self, w: int, region: int) -> float | None:
        """Return the GiB that a job reads from elsewhere in a region; None if it may not."""
        total = 0
        for p, gib, remote in self.reads[w]:
            if self.has[p, region]:
                continue
            if not remote or not (self.has[p] & self.linked[:, region]).any():
                return None
            total += gib
        return float(total)

    def _cost(self, place: Place, demand: int) -> float:
        supply = float(self.supply[place[0]][place[1]])
        return max(0.0, demand - supply) + max(0.0, demand - 1.2 * supply)

    def _added(self, place: Place, more: int) -> float:
        demand = self.demand[place[0]][place[1]]
        change: float = self._cost(place, demand + more) - self._cost(place, demand)
        return change

    def _relief(self, old: Place, to: Place, asked: int) -> float:
        return -self._added(old, -asked) - self._added(to, asked)

    def _add(self, place: Place, more: int) -> None:
        self.demand[place[0]][place[1]] += more

    def _steps(self) -> Iterator[Step]:
        for p in range(self.problem.dataset_classes):
            yield from self._steps_of(p)

    def _steps_of(self, p: int) -> Iterator[Step]:
        if not self.readers[p]:
            return
        leaving = [NONE, *np.flatnonzero(self.has[p] & self.complete[p]).tolist()]
        for r in np.flatnonzero(self.problem.may_hold[p] & ~self.has[p]).tolist():
            for old in leaving:
                yield Step(p, r, old)

    def _gains(self, steps: Iterator[Step]) -> Iterator[tuple[float, Step]]:
        for step in steps:
            gain, _ = self.gain(step)
            if gain > LEAST:
                yield gain, step

    def _sources(self, p: int, region: int) -> Ints | None:
        """Return the GiB that come from each region, or None if budgets do not allow it."""
        size = int(self.problem.size[p])
        holders = self.complete[p] & self.has[p]
        within = self.within(p)[:, region]
        able = np.where(holders & within, self.budget[:, region], 0)
        if able.sum() < size:
            return None
        taken = np.diff(np.minimum(np.cumsum(able), size), prepend=0)
        return np.asarray(taken, dtype=np.int64)

    def within(self, p: int) -> Bools:
        """Return the links that may carry a group."""
        return self.problem.wan.links_of(int(self.head[p]))

    def _take(self, step: Step, shifts: list[Shift]) -> None:
        p, r = step.dataset_class, step.region
        size, taken = int(self.problem.size[p]), self._sources(p, r)
        if taken is not None:
            self.budget[:, r] -= taken
        self.has[p, r] = True
        self.used[r] += size
        if step.dropped != NONE:
            self.has[p, step.dropped] = False
            self.used[step.dropped] -= size
        for w, old, to, jobs in shifts:
            homes, asked = self.homes[w], int(self.problem.demand[w])
            homes[old] -= jobs
            if not homes[old]:
                del homes[old]
            homes[to] = homes.get(to, 0) + jobs
            self._add(old, -jobs * asked)
            self._add(to, jobs * asked)
