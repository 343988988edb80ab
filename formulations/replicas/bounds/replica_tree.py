"""Where the largest datasets go: a tree of relaxations, each with some copies said.

    copied nowhere   or   a copy in region 1   or   none there and one in region 2   or   ...

is true of every dataset, so the least bound of these holds for every plan. The relaxation copies
large data by parts to many regions, and with it what is read beside it. Where the few largest
datasets are to be said by region, that shows what else has to come, and who has to leave.

Datasets of which most GiB are in doubt are *probed* first: each of their answers on its own. The
root is split by the one that would make the smallest tree, if its answers cost as much everywhere
as they do alone (Le Bodic and Nemhauser, "An abstract model for branching", Mathematical
Programming 166, 2017). Where they cost least is also where to look for plans. Other leaves ask

    a copy in region r   or   none there and one in s   or   in neither

of the two regions most in doubt, and of the dataset that makes the smallest tree of such a leaf:
what it asks then, others ask too, as long as that is in doubt there.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from threading import Event

import numpy as np

from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.replicas.bounds.branch_and_bound import (
    Proven,
    Relaxed,
    copies_of,
    doubt_of,
)
from placewright.formulations.replicas.bounds.tree_node import Leaf, Said, descended, growth
from placewright.formulations.replicas.models.relaxation import Program
from placewright.formulations.session import Session
from placewright.solver import Arrays
from placewright.solver.arrays import Floats
from placewright.solver.batched_pdhg import WIDTH, Descent, Start

THREADS = 2
"""Relaxations are solved by so many threads, `WIDTH` at once in each."""

PROBED, PROBING, SURER = 8, 600, 2500
"""Datasets that are probed, steps for each of their answers, and more for those of the first."""

PATIENCE = 0.15
"""Share of the time left for all of that."""

STEPS = 1000
"""Steps for each leaf of the tree, before it is split or gets as many more."""

ASKED, LIKELIEST, LOOKING = 10, 2, 600
"""Datasets of which one is to split leaves, regions that it is asked for, and steps to compare."""

LEAST = 4e-4
"""Of a bound, what an answer costs at least, as far as the size of trees goes."""

DOUBT = 0.1
"""Copies of a dataset in part, in all, from which on it is in doubt."""

MOST_TURNS = 20
"""Turns of all threads, where the clock must not decide."""

NEARER = (0.0499, 0.0399, 0.0299, 0.0199)
"""How near to a plan bounds are to come, one after the other."""


class Places:
    """The tree of a relaxation.

    Attributes
    ----------
    program, arrays
        The relaxation.
    holds : tuple of (term, value)
        What its plans keep.
    root : Relaxed
        What the relaxation says.
    """

    def __init__(
        self,
        program: Program,
        arrays: Arrays,
        root: Relaxed,
        holds: tuple[tuple[str, int], ...],
        session: Session,
    ) -> None:
        self.program, self.arrays, self.root, self.holds = program, arrays, root, holds
        self._session = session
        self._descent = Descent(arrays)
        self._point = np.zeros(arrays.columns) if root.point is None else root.point
        self._start = self._descent.start(self._point, root.prices)
        self._number = count()
        self._probed: dict[tuple[int, int], float] = {}
        self._size: dict[int, float] = {}
        self._asked: list[int] = []
        self._threads = THREADS
        self._best = float(root.bound)
        self._leaves = [Leaf(self._best, next(self._number), {}, self._start, ready=True)]

    @property
    def replicas(self) -> Floats:
        """How much of each replica (datasets, regions) there is in the relaxation."""
        return self.program.replicas(self._point)

    def probe(self) -> None:
        """Find what each answer costs, of some datasets, as long as that is soon done."""
        root, program = self.root, self.program
        doubt = doubt_of(copies_of(program, self._point))
        datasets = np.argsort(-program.pool.wan.size * doubt, kind="stable")[:PROBED]
        datasets = datasets[doubt[datasets] > DOUBT]
        answers: dict[tuple[int, int], Said] = {}
        for p in datasets.tolist():
            columns, regions = program.replica[p], np.flatnonzero(program.pool.fresh[p])
            answers |= {(p, r): {int(columns[r]): 1.0} for r in regions.tolist()}
            answers[p, NONE] = dict.fromkeys(columns[regions].tolist(), 0.0)
        found: dict[tuple[int, int], Leaf] = {}
        until = (1 - PATIENCE) * self._session.remaining()
        for k in range(0, len(answers), THREADS * WIDTH):
            keys = list(answers)[k : k + THREADS * WIDTH]
            leaves = [self._leaf(root.bound, answers[key], self._start) for key in keys]
            found |= dict(zip(keys, self._turn(leaves, PROBING, np.inf), strict=True))
            if self._session.expired(until):
                break
        self._probed = {key: leaf.bound for key, leaf in found.items()}
        for p in datasets.tolist():
            if (p, NONE) in found:
                costs = [bound - root.bound for (q, _), bound in self._probed.items() if q == p]
                self._size[p] = growth(np.maximum(costs, LEAST * max(1, root.bound)))
        if self._size and not self._session.expired(until):
            p = min(self._size, key=self._size.__getitem__)
            mine = sorted((key for key in found if key[0] == p), key=self._probed.__getitem__)
            mine = mine[: THREADS * WIDTH]
            surer = self._turn([found[key] for key in mine], SURER, np.inf)
            self._probed |= {key: leaf.bound for key, leaf in zip(mine, surer, strict=True)}

    def first(self) -> tuple[int, list[int]] | None:
        """Return the dataset that is branched on first, and regions, the likeliest first."""
        if not self._size:
            return None
        p = min(self._size, key=self._size.__getitem__)
        bounds = {r: bound for (q, r), bound in self._probed.items() if q == p and r != NONE}
        return p, sorted(bounds, key=bounds.__getitem__)

    def claims(self, goal: float, until: float) -> Iterator[Proven]:
        """Yield better and better claims until so many seconds are left, or the goal is reached."""
        session, known, turns, grows = self._session, self.root.bound, 0, True
        while True:
            now = int(min(self._best, goal))
            if now > known:
                known = now
                yield Proven(known, certified=False)
            if not grows or session.expired(until) or turns >= MOST_TURNS:
                return
            grows = self._grows(goal)
            turns += session.deterministic

    @contextmanager
    def growing(self, goal: Callable[[], float]) -> Iterator[None]:
        """Let the tree grow in a thread of its own meanwhile, unless the clock must not decide."""
        if self._session.deterministic:
            yield
            return
        stop, self._threads = Event(), 1

        def grow() -> None:
            while not stop.is_set() and self._grows(goal()):
                pass

        with ThreadPoolExecutor(1) as thread:
            task = thread.submit(grow)
            try:
                yield
            finally:
                stop.set()
            task.result()
        self._threads = THREADS

    def _grows(self, goal: float) -> bool:
        """Let the leaves of the least bounds descend, as many as all threads take at once.

        False if there are none: the goal is reached, or nothing of a leaf is in doubt.
        """
        aim = next((a for a in (goal * (1 - n) for n in NEARER) if a > self._best), goal)
        chosen = self._least(goal, aim)
        for leaf in self._turn(chosen, STEPS, aim):
            heapq.heappush(self._leaves, leaf)
        self._best = max(self._best, min(self._leaves[0].bound, goal))
        return bool(chosen)

    def _least(self, goal: float, cutoff: float) -> list[Leaf]:
        """Take the leaves of the least bounds, splitting those that are ready.

        None if one cannot be split.
        """
        chosen: list[Leaf] = []
        number = self._threads * WIDTH
        while self._leaves and len(chosen) < number and self._leaves[0].bound < goal:
            leaf = heapq.heappop(self._leaves)
            children = self._split(leaf, cutoff) if leaf.ready else []
            if leaf.ready and not children:
                for again in (leaf, *chosen):
                    heapq.heappush(self._leaves, again)
                return []
            if not leaf.ready:
                chosen.append(leaf)
            for child in children:
                heapq.heappush(self._leaves, child)
        return chosen

    def _turn(self, leaves: Sequence[Leaf], steps: int, cutoff: float) -> list[Leaf]:
        return descended(self._descent, leaves, steps, cutoff, self._threads)

    def _split(self, leaf: Leaf, cutoff: float) -> list[Leaf]:
        """Return the leaves that take a leaf's place, none if nothing of it is in doubt."""
        program, fresh = self.program, self.program.pool.fresh
        first = self.first()
        if not leaf.said and first is not None:
            return list(self._each_region(leaf, first[0]))
        copies = copies_of(program, self._descent.point(leaf.start))
        copies[np.isin(program.replica, list(leaf.said))] = 0.0
        doubt = np.minimum(copies, 1.0 - copies) * fresh
        total = doubt.sum(axis=1)
        asked = next((p for p in self._asked if total[p] > DOUBT), None)
        if asked is not None:
            return self._answers(leaf, asked, doubt[asked])
        datasets = np.argsort(-program.pool.wan.size * total, kind="stable")[:ASKED]
        datasets = datasets[total[datasets] > DOUBT]
        if not datasets.size:
            return []
        answers = [self._answers(leaf, p, doubt[p]) for p in datasets.tolist()]
        ends = iter(self._turn([end for each in answers for end in each], LOOKING, cutoff))
        found = [[replace(next(ends), ready=False) for _ in each] for each in answers]
        least = LEAST * max(1.0, leaf.bound)
        sizes = [
            growth(np.array([end.bound - leaf.bound for end in each]).clip(least)) for each in found
        ]
        best = int(np.argmin(sizes))
        self._asked.append(int(datasets[best]))
        return found[best]

    def _answers(self, leaf: Leaf, p: int, doubt: Floats) -> list[Leaf]:
        """Return leaves with a copy where that is most in doubt, in the next region, in neither."""
        said, found = dict(leaf.said), []
        for r in np.argsort(-doubt, kind="stable")[:LIKELIEST].tolist():
            column = int(self.program.replica[p, r])
            if doubt[r] > 0:
                found.append(self._leaf(leaf.bound, {**said, column: 1.0}, leaf.start))
                said[column] = 0.0
        return [*found, self._leaf(leaf.bound, said, leaf.start)]

    def _each_region(self, leaf: Leaf, p: int) -> Iterator[Leaf]:
        """Yield leaves with the first copy in each region, and none."""
        replica, said = self.program.replica, dict(leaf.said)
        regions = [r for q, r in self._probed if q == p and r != NONE]
        for r in sorted(regions, key=lambda r: self._probed[p, r]):
            column = int(replica[p, r])
            yield self._leaf(self._probed[p, r], {**said, column: 1.0}, leaf.start)
            said[column] = 0.0
        yield self._leaf(self._probed[p, NONE], said, leaf.start)

    def _leaf(self, bound: float, said: Said, start: Start) -> Leaf:
        return Leaf(bound, next(self._number), said, start, ready=False)
