"""Exact pricing: the groups of a bucket of positive reduced cost, by branch and bound.

A node is a group of subtrees of the class tree (`pricing_tree`), for all groups with one member
from each; its bound is that of the least stages. The widest subtree is split where the bound is too
high, best bound first, many nodes at a time. Groups of single classes are evaluated exactly. What
is left unexplored is bounded, so that stopping early only weakens the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    MAX_MEMBERS,
    PackingProblem,
    pad_members,
)
from placewright.formulations.interleaving.problem.period import best_offsets, contended
from placewright.formulations.interleaving.set_packing.column_generation.duals import Prices
from placewright.formulations.interleaving.set_packing.column_generation.pricing_tree import (
    ClassTree,
    build_class_tree,
)
from placewright.formulations.interleaving.set_packing.column_value import (
    column_values,
)
from placewright.formulations.interleaving.set_packing.columns import NOT_ALLOWED, Columns
from placewright.formulations.session import Session


@dataclass(frozen=True, slots=True, eq=False)
class PricingResult:
    """Groups found by pricing a bucket, and a bound of all others.

    Attributes
    ----------
    columns
        Groups with a scaled reduced cost above the tolerance.
    reduced : int64 (columns,)
        Theirs.
    rest_bound
        No other group of the bucket has a greater one; at least the tolerance.
    """

    columns: Columns
    reduced: Ints
    rest_bound: int


def solve_pricing(
    packing: PackingProblem,
    prices: Prices,
    bucket: int,
    tolerance: int,
    nodes: int,
    session: Session,
    reserve: float = 0.0,
) -> PricingResult:
    """Return the groups of a bucket whose scaled reduced cost exceeds a tolerance.

    Parameters
    ----------
    bucket
        Has at least one class with a job.
    nodes
        Nodes to bound, after which the search stops.
    reserve
        Seconds to leave before the deadline.
    """
    search = _BranchAndBound(packing, prices, bucket, tolerance)
    for size in range(2, packing.max_members + 1):
        search.run(size, nodes, session, reserve)
    columns = Columns(np.concatenate(search.members), np.concatenate(search.values_found))
    return PricingResult(
        columns, prices.reduced_cost(packing, columns.members, columns.value), search.rest_bound
    )


class _BranchAndBound:
    """Branch and bound over the groups of a bucket, by number of members."""

    def __init__(
        self, packing: PackingProblem, prices: Prices, bucket: int, tolerance: int
    ) -> None:
        self.packing, self.prices, self.bucket, self.tolerance = packing, prices, bucket, tolerance
        self.tree = build_class_tree(packing, prices, bucket)
        self.gpu_memory = int(packing.gpu_memory[bucket])
        self.rest_bound = tolerance
        self.nodes = 0
        self.members = [np.zeros((0, MAX_MEMBERS), dtype=np.int64)]
        self.values_found = [np.zeros(0, dtype=np.int64)]

    def run(self, size: int, max_nodes: int, session: Session, reserve: float) -> None:
        """Branch until no node exceeds the tolerance, or `max_nodes` were bounded."""
        found = 0
        groups, bounds = self._bound_groups(np.zeros((1, size), dtype=np.int64))
        while len(groups):
            if (
                self.nodes >= max_nodes
                or found >= parameters.PARAMETERS.max_priced_groups
                or session.expired(reserve)
            ):
                self.rest_bound = max(self.rest_bound, int(bounds.max()))
                return
            count = max(parameters.PARAMETERS.pricing_chunk_nodes, len(groups) // 4)
            if count < len(groups):
                order = np.argpartition(-bounds, count)
                groups, bounds = groups[order], bounds[order]
            children, values = self._bound_groups(_branch(self.tree, groups[:count]))
            single = (self.tree.left[children] < 0).all(axis=1)
            found += self._keep_single_groups(children[single])
            groups = np.concatenate([groups[count:], children[~single]])
            bounds = np.concatenate([bounds[count:], values[~single]])

    def _bound_groups(self, groups: Ints) -> tuple[Ints, Ints]:
        """Return the nodes whose bound exceeds the tolerance, and their bounds."""
        tree, rules = self.tree, self.packing.rules
        self.nodes += len(groups)
        if self.gpu_memory:
            groups = groups[tree.memory[groups].sum(axis=1) <= self.gpu_memory]
        bare, _ = best_offsets(tree.stages[groups], spanning=rules.spanning)
        bare = np.maximum(bare, tree.own[groups].max(axis=1))
        period = contended(bare, rules.contention[groups.shape[1] - 2])
        within = np.minimum(tree.iteration[groups].sum(axis=1), tree.max_period[groups].min(axis=1))
        groups, period = groups[period <= within], period[period <= within]
        level = np.searchsorted(tree.grid, period, side="right") - 1
        bound = tree.most[groups, level[:, None]].sum(axis=1) - self.prices.group[self.bucket]
        above = bound > self.tolerance
        return groups[above], bound[above]

    def _keep_single_groups(self, groups: Ints) -> int:
        """Keep the groups of single classes above the tolerance; return their number."""
        members = np.sort(self.tree.of[groups], axis=1)
        members = pad_members(members)
        value = column_values(self.packing, members)
        above = self.prices.reduced_cost(self.packing, members, value) > self.tolerance
        above &= value != NOT_ALLOWED
        self.members.append(members[above])
        self.values_found.append(value[above])
        return int(above.sum())


def _branch(tree: ClassTree, groups: Ints) -> Ints:
    """Return the nodes with the widest subtree of each replaced by its halves."""
    rows = np.arange(len(groups))
    node = groups[rows, tree.width[groups].argmax(axis=1)]
    same = groups == node[:, None]
    times = same.sum(axis=1)
    results = [groups[:0]]
    for times_used in np.unique(times).tolist():
        some = times == times_used
        left, right = tree.left[node[some]], tree.right[node[some]]
        rest = groups[some][~same[some]].reshape(len(left), -1)
        for rights in range(times_used + 1):
            lefts = times_used - rights
            enough = (tree.jobs[left] >= lefts) & (tree.jobs[right] >= rights)
            halved = [np.repeat(left[:, None], lefts, 1), np.repeat(right[:, None], rights, 1)]
            results.append(np.hstack([rest, *halved])[enough])
    return np.concatenate(results)
