"""Branch and bound over replicas with a certified bound for each node.

The LP relaxation copies large datasets in fractions. Nodes bound the number of copies of a dataset,
or fix whether it has a replica in a region; the least bound of all open nodes holds for every plan.
Best-first search: the node of the least bound is branched on next, at the number of copies or the
copy with the most GiB of fractionality, a number first in a tie, since that leaves no way out by
another region.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from placewright.array_types import Floats
from placewright.formulations.replicas import parameters
from placewright.formulations.replicas.models.relaxation import (
    Relaxation,
    RelaxationResult,
    solve_relaxation,
)
from placewright.formulations.session import Session
from placewright.solver import Arrays, SolveOptions, certified_bound, multipliers
from placewright.solver.arrays import csr


@dataclass(frozen=True, slots=True)
class Branching:
    """Bounds on a row or a column of the relaxation."""

    row: bool
    index: int
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class ProvenBound:
    """A bound; `certified` unless some node is infeasible by a claim of the solver alone."""

    bound: int
    certified: bool


@dataclass(order=True, slots=True)
class _Node:
    bound: int
    number: int
    branchings: tuple[Branching, ...] = field(compare=False)
    point: Floats | None = field(compare=False)


def is_proven_infeasible(arrays: Arrays, session: Session) -> bool:
    """Whether multipliers prove a relaxation infeasible (Farkas).

    An elastic LP penalises violation of rows; its duals are then checked on the original rows.
    """
    rows, columns = arrays.rows, arrays.columns
    more = np.arange(rows, dtype=np.int64)
    row = np.concatenate([arrays.entry_rows(), more, more])
    column = np.concatenate([arrays.indices, columns + more, columns + rows + more])
    data = np.concatenate([arrays.data, np.ones(rows), -np.ones(rows)])
    indptr, indices, data = csr(row, column, data, (rows, columns + 2 * rows))
    nothing = replace(arrays, cost=np.zeros(columns), constant=0.0)
    missing = replace(
        nothing,
        cost=np.concatenate([nothing.cost, np.ones(2 * rows)]),
        lower=np.concatenate([arrays.lower, np.zeros(2 * rows)]),
        upper=np.concatenate([arrays.upper, np.full(2 * rows, np.inf)]),
        integer=np.zeros(columns + 2 * rows, dtype=np.bool_),
        indptr=indptr,
        indices=indices,
        data=data,
    )
    outcome = session.optimise(missing, options=SolveOptions(interior=True))
    if outcome is None or outcome.row_duals is None:
        return False
    least = certified_bound(nothing, multipliers(nothing, outcome.row_duals))
    return least is not None and least > 0


def branch_and_bound(
    relaxation: Relaxation, arrays: Arrays, root: RelaxationResult, session: Session, goal: float
) -> Iterator[ProvenBound]:
    """Yield ever better bounds of a relaxation with integer replicas, from its root on.

    It ends at the goal, the value of a plan, when no node can be branched on, or without time.
    """
    certified, number = True, count()
    best = root.bound
    nodes = [_Node(root.bound, next(number), (), root.point)]
    splits = (
        range(parameters.PARAMETERS.deterministic_max_branchings)
        if session.deterministic
        else count()
    )
    for _ in splits:
        if not nodes or nodes[0].bound >= goal:
            return
        node = nodes[0]
        split = None if node.point is None else _choose_branching(relaxation, node.point)
        if split is None:
            return
        children = []
        for branching in split:
            branchings = (*node.branchings, branching)
            child_arrays = _apply_branchings(arrays, branchings)
            try:
                child = solve_relaxation(child_arrays, session)
            except ArithmeticError:
                certified = certified and is_proven_infeasible(child_arrays, session)
                continue
            if child is None:
                return
            bound = max(node.bound, child.bound)
            children.append(_Node(bound, next(number), branchings, child.point))
        heapq.heappop(nodes)
        for child_leaf in children:
            heapq.heappush(nodes, child_leaf)
        if nodes and nodes[0].bound > best:
            best = nodes[0].bound
            yield ProvenBound(best, certified)


def _choose_branching(relaxation: Relaxation, point: Floats) -> tuple[Branching, Branching] | None:
    """Return two branchings of which every plan satisfies one, and the point neither."""
    copies = relaxation.copy_fractions(point)
    numbers = copies.sum(axis=1)
    size = relaxation.aggregate.wan.size
    by_number = size * np.abs(numbers - np.rint(numbers))
    by_copy = size[:, None] * np.abs(copies - np.rint(copies))
    if (
        max(by_number.max(initial=0.0), by_copy.max(initial=0.0))
        <= parameters.PARAMETERS.integrality_tolerance
    ):
        return None
    if by_number.max() >= by_copy.max():
        p = int(by_number.argmax())
        row, below = int(relaxation.copy_rows[p]), float(np.floor(numbers[p]))
        return Branching(True, row, -np.inf, below), Branching(True, row, below + 1.0, np.inf)
    column = int(relaxation.replica.ravel()[by_copy.argmax()])
    return Branching(False, column, 0.0, 0.0), Branching(False, column, 1.0, 1.0)


def _apply_branchings(arrays: Arrays, branchings: tuple[Branching, ...]) -> Arrays:
    """Return the arrays with the bounds of all branchings."""
    lower, upper = arrays.lower.copy(), arrays.upper.copy()
    row_lower, row_upper = arrays.row_lower.copy(), arrays.row_upper.copy()
    for branching in branchings:
        low, high = (row_lower, row_upper) if branching.row else (lower, upper)
        low[branching.index] = max(low[branching.index], branching.least)
        high[branching.index] = min(high[branching.index], branching.most)
    return replace(arrays, lower=lower, upper=upper, row_lower=row_lower, row_upper=row_upper)
