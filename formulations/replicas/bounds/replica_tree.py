"""Branch and bound over the placement of the largest datasets; each node fixes some copies."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from math import isfinite
from threading import Event
from typing import TypeAlias

import numpy as np

from placewright.array_types import Floats
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.plan_messages import proven_whole
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.models.relaxation import (
    ProvenBound,
    Relaxation,
    RelaxationResult,
)
from placewright.formulations.session import Session
from placewright.solver import Arrays
from placewright.solver.batched_pdhg import WIDTH, BatchedPdhg, Iterate

Fixings: TypeAlias = Mapping[int, float]
"""Columns of copies, and whether they are made."""


@dataclass(order=True, slots=True)
class Node:
    """A relaxation with some copies fixed, ordered by its bound."""

    bound: float
    number: int  # Unique in a tree, to break ties
    fixings: Fixings = field(compare=False)  # Columns of copies, and their values
    iterate: Iterate = field(compare=False)  # Where its first-order method continues
    # More iterations would improve the bound little, so it is to be branched on.
    ready: bool = field(compare=False)


def solve_nodes(
    pdhg: BatchedPdhg, nodes: Sequence[Node], steps: int, cutoff: float, threads: int
) -> list[Node]:
    """Return nodes after some more iterations, fewer once all bounds reach the cutoff."""
    parts = [nodes[k : k + WIDTH] for k in range(0, len(nodes), WIDTH)]

    def run(batch: Sequence[Node]) -> list[tuple[float, Iterate]]:
        fixings = [node.fixings for node in batch]
        iterates = [node.iterate for node in batch]
        return pdhg.run(fixings, iterates, steps, cutoff)

    with ThreadPoolExecutor(threads) as aggregate:
        ends = [end for ends in aggregate.map(run, parts) for end in ends]
    return [_updated(node, *end) for node, end in zip(nodes, ends, strict=True)]


def _updated(node: Node, bound: float, iterate: Iterate) -> Node:
    # Multipliers of what has no point grow without end.
    if not isfinite(bound):
        return replace(node, ready=True)
    proven = proven_whole(bound)
    ready = proven < node.bound + parameters.PARAMETERS.min_node_progress_rel * abs(node.bound)
    return replace(node, bound=max(proven, node.bound), iterate=iterate, ready=ready)


def tree_growth_rate(costs: Floats) -> float:
    """Return the growth rate of the tree in which every node has children of these costs.

    The size of a tree that must raise the bound by g is exp(rate g), with sum of exp(-rate cost) =
    1 (Le Bodic and Nemhauser 2017).
    """
    low, high = 0.0, float(np.log(max(2, len(costs))) / costs.min())
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if np.exp(-middle * costs).sum() > 1 else (low, middle)
    return high


def fractionality(copies: Floats) -> Floats:
    """Return the total distance of copies (datasets, regions) from 0 and 1, (datasets,)."""
    doubt: Floats = np.minimum(copies, 1.0 - copies).clip(0.0).sum(axis=1)
    return doubt


# Strong branching at the root of the replica tree: the children of some datasets are bounded.
#
# The datasets with the most GiB of fractionality are probed: a copy in each region alone, and
# none. The root is branched on the one with the smallest estimated tree (Le Bodic and Nemhauser,
# "An abstract model for branching", Mathematical Programming 166, 2017). Its cheapest children
# also tell the search where to place that dataset.


@dataclass(frozen=True, slots=True)
class Probes:
    """Bounds of children of the root."""

    # By dataset and region that gets a copy, `NONE` for no copy at all.
    bounds: dict[tuple[int, int], float]
    # Estimate of the tree's size by dataset, where all of its children are bounded.
    growth_rates: dict[int, float]

    def branching_dataset(self) -> tuple[int, list[int]] | None:
        """Return the dataset of the smallest tree and its regions by bound; None without any."""
        if not self.growth_rates:
            return None
        p = min(self.growth_rates, key=self.growth_rates.__getitem__)
        return p, self.regions(p)

    def regions(self, p: int) -> list[int]:
        """Return the regions that may get a copy of a dataset, by bound."""
        bounds = {r: bound for (q, r), bound in self.bounds.items() if q == p and r != NONE}
        return sorted(bounds, key=bounds.__getitem__)


def probe_datasets(
    relaxation: Relaxation,
    point: Floats,
    session: Session,
    root: float,
    node_of: Callable[[Fixings], Node],
    solve: Callable[[Sequence[Node], int], list[Node]],
) -> Probes:
    """Return bounds of the children of some datasets, fewer if the time share ends.

    `point` and `root`: the point of the relaxation, and its bound. `node_of`: returns the child of
    the root with these fixings. `solve`: returns nodes after so many iterations.
    """
    doubt = fractionality(relaxation.copy_fractions(point))
    datasets = np.argsort(-relaxation.aggregate.wan.size * doubt, kind="stable")[
        : parameters.PARAMETERS.probed_datasets
    ]
    datasets = datasets[doubt[datasets] > parameters.PARAMETERS.min_fractionality]
    children: dict[tuple[int, int], Fixings] = {}
    for p in datasets.tolist():
        columns, regions = relaxation.replica[p], np.flatnonzero(relaxation.aggregate.copyable[p])
        children |= {(p, r): {int(columns[r]): 1.0} for r in regions.tolist()}
        children[p, NONE] = dict.fromkeys(columns[regions].tolist(), 0.0)
    found: dict[tuple[int, int], Node] = {}
    until = (1 - parameters.PARAMETERS.probing_time_share) * session.remaining()
    batch = parameters.PARAMETERS.tree_threads * WIDTH
    for k in range(0, len(children), batch):
        keys = list(children)[k : k + batch]
        nodes = [node_of(children[key]) for key in keys]
        solved = solve(nodes, parameters.PARAMETERS.probing_iterations)
        found |= dict(zip(keys, solved, strict=True))
        if session.expired(until):
            break
    bounds = {key: node.bound for key, node in found.items()}
    least = parameters.PARAMETERS.min_branching_gain_rel * max(1, root)
    growth_rates = {
        p: tree_growth_rate(
            np.maximum([bound - root for (q, _), bound in bounds.items() if q == p], least)
        )
        for p in datasets.tolist()
        if (p, NONE) in found
    }
    if growth_rates and not session.expired(until):
        p = min(growth_rates, key=growth_rates.__getitem__)
        mine = sorted((key for key in found if key[0] == p), key=bounds.__getitem__)[:batch]
        surer = solve([found[key] for key in mine], parameters.PARAMETERS.confirming_iterations)
        bounds |= {key: node.bound for key, node in zip(mine, surer, strict=True)}
    return Probes(bounds, growth_rates)


# Branch and bound over the placement of the largest datasets; each node fixes some copies.
#
#     copied nowhere   or   a copy in region 1   or   none there and one in region 2   or   ...
#
# holds for every dataset, so the least bound of these children holds for every plan. The relaxation
# copies large data in fractions to many regions, and with it what is read beside it; once the few
# largest datasets are fixed, what else must come or leave shows in the bound.
#
# The root is branched on the dataset that strong branching chooses. Other
# nodes branch on
#
#     a copy in region r   or   none there and one in s   or   in neither
#
# for the two regions of most fractionality, and the dataset with the smallest estimated tree among
# some; later nodes reuse that dataset as long as it is fractional there. Node LPs are solved in
# batches by a first-order method (`solver/batched_pdhg.py`), warm-started at the parent.


class ReplicaTree:
    """The tree of a relaxation.

    `relaxation` and `arrays`: the relaxation, and its LP. `root`: its solution. `holds`: upper
    bounds on terms in it.
    """

    def __init__(
        self,
        relaxation: Relaxation,
        arrays: Arrays,
        root: RelaxationResult,
        holds: tuple[tuple[str, int], ...],
        session: Session,
    ) -> None:
        self.relaxation, self.arrays, self.root, self.holds = relaxation, arrays, root, holds
        self._session = session
        self._pdhg = BatchedPdhg(arrays)
        self._point = np.zeros(arrays.columns) if root.point is None else root.point
        self._iterate = self._pdhg.scaled_iterate(self._point, root.prices)
        self._number = count()
        self._probes = Probes({}, {})
        self._branching_datasets: list[int] = []
        self._threads = parameters.PARAMETERS.tree_threads
        self._best = float(root.bound)
        self._nodes = [Node(self._best, next(self._number), {}, self._iterate, ready=True)]

    @property
    def replicas(self) -> Floats:
        """The fractional replicas of the relaxation (datasets, regions)."""
        return self.relaxation.replicas(self._point)

    def probe(self) -> None:
        """Strong branching at the root: bound the children of some datasets."""
        self._probes = probe_datasets(
            self.relaxation,
            self._point,
            self._session,
            float(self.root.bound),
            lambda fixings: self._node(self.root.bound, fixings, self._iterate),
            lambda nodes, iterations: self._solve_nodes(nodes, iterations, np.inf),
        )

    def branching_dataset(self) -> tuple[int, list[int]] | None:
        """Return the dataset of the root and its regions by bound; None before `probe`."""
        return self._probes.branching_dataset()

    def improve_bound(self, goal: float, until: float) -> Iterator[ProvenBound]:
        """Yield ever better claims until a number of seconds is left or the goal is reached."""
        session, known, turns, grows = self._session, self.root.bound, 0, True
        while True:
            now = int(min(self._best, goal))
            if now > known:
                known = now
                yield ProvenBound(known, certified=False)
            if (
                not grows
                or session.expired(until)
                or turns >= parameters.PARAMETERS.deterministic_max_batches
            ):
                return
            grows = self._expand(goal)
            turns += session.deterministic

    @contextmanager
    def run_in_background(self, goal: Callable[[], float]) -> Iterator[None]:
        """Grow the tree in a thread of its own inside this context.

        In deterministic rounds nothing is grown.
        `goal`: returns the value at which to stop, asked before each batch.
        """
        if self._session.deterministic:
            yield
            return
        stop, self._threads = Event(), 1

        def grow() -> None:
            while not stop.is_set() and self._expand(goal()):
                pass

        with ThreadPoolExecutor(1) as thread:
            task = thread.submit(grow)
            try:
                yield
            finally:
                stop.set()
            task.result()
        self._threads = parameters.PARAMETERS.tree_threads

    def _expand(self, goal: float) -> bool:
        """Solve the open nodes of least bound, as many as all threads take at once.

        False if there are none: the goal is reached, or a node has no fractional copies.
        """
        tuning = parameters.PARAMETERS
        aim = next(
            (a for a in (goal * (1 - n) for n in tuning.tree_target_gaps_rel) if a > self._best),
            goal,
        )
        chosen = self._best_nodes(goal, aim)
        for node in self._solve_nodes(chosen, tuning.node_iterations, aim):
            heapq.heappush(self._nodes, node)
        self._best = max(self._best, min(self._nodes[0].bound, goal))
        return bool(chosen)

    def _best_nodes(self, goal: float, cutoff: float) -> list[Node]:
        """Take the open nodes of least bound, branching on those that are `ready`.

        None of them if one cannot be branched on.
        """
        chosen: list[Node] = []
        number = self._threads * WIDTH
        while self._nodes and len(chosen) < number and self._nodes[0].bound < goal:
            node = heapq.heappop(self._nodes)
            children = self._split(node, cutoff) if node.ready else []
            if node.ready and not children:
                for again in (node, *chosen):
                    heapq.heappush(self._nodes, again)
                return []
            if not node.ready:
                chosen.append(node)
            for child in children:
                heapq.heappush(self._nodes, child)
        return chosen

    def _solve_nodes(self, nodes: Sequence[Node], steps: int, cutoff: float) -> list[Node]:
        return solve_nodes(self._pdhg, nodes, steps, cutoff, self._threads)

    def _split(self, node: Node, cutoff: float) -> list[Node]:
        """Return the children of a node, none if it has no fractional copies."""
        tuning = parameters.PARAMETERS
        relaxation, fresh = self.relaxation, self.relaxation.aggregate.copyable
        first = self.branching_dataset()
        if not node.fixings and first is not None:
            return list(self._branch_on_all_regions(node, first[0]))
        copies = relaxation.copy_fractions(self._pdhg.point(node.iterate))
        copies[np.isin(relaxation.replica, list(node.fixings))] = 0.0
        doubt = np.minimum(copies, 1.0 - copies) * fresh
        total = doubt.sum(axis=1)
        asked = next(
            (p for p in self._branching_datasets if total[p] > tuning.min_fractionality),
            None,
        )
        if asked is not None:
            return self._branch_on_regions(node, asked, doubt[asked])
        datasets = np.argsort(-relaxation.aggregate.wan.size * total, kind="stable")[
            : tuning.branching_candidates
        ]
        datasets = datasets[total[datasets] > tuning.min_fractionality]
        if not datasets.size:
            return []
        answers = [self._branch_on_regions(node, p, doubt[p]) for p in datasets.tolist()]
        ends = iter(
            self._solve_nodes(
                [end for each in answers for end in each],
                tuning.branching_iterations,
                cutoff,
            )
        )
        found = [[replace(next(ends), ready=False) for _ in each] for each in answers]
        least = tuning.min_branching_gain_rel * max(1.0, node.bound)
        sizes = [
            tree_growth_rate(np.array([end.bound - node.bound for end in each]).clip(least))
            for each in found
        ]
        best = int(np.argmin(sizes))
        self._branching_datasets.append(int(datasets[best]))
        return found[best]

    def _branch_on_regions(self, node: Node, p: int, doubt: Floats) -> list[Node]:
        """Return children with a copy in the most fractional region, the next, or neither."""
        fixings, found = dict(node.fixings), []
        for r in np.argsort(-doubt, kind="stable")[
            : parameters.PARAMETERS.branching_regions
        ].tolist():
            column = int(self.relaxation.replica[p, r])
            if doubt[r] > 0:
                found.append(self._node(node.bound, {**fixings, column: 1.0}, node.iterate))
                fixings[column] = 0.0
        return [*found, self._node(node.bound, fixings, node.iterate)]

    def _branch_on_all_regions(self, node: Node, p: int) -> Iterator[Node]:
        """Yield children with the first copy in each region, and one without copies."""
        replica, fixings = self.relaxation.replica, dict(node.fixings)
        bounds = self._probes.bounds
        for r in self._probes.regions(p):
            column = int(replica[p, r])
            yield self._node(bounds[p, r], {**fixings, column: 1.0}, node.iterate)
            fixings[column] = 0.0
        yield self._node(bounds[p, NONE], fixings, node.iterate)

    def _node(self, bound: float, fixings: Fixings, iterate: Iterate) -> Node:
        return Node(bound, next(self._number), fixings, iterate, ready=False)
