"""Nodes of the replica tree: their fixings and bounds, and how they are solved in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TypeAlias

import numpy as np

from placewright.array_types import Floats
from placewright.formulations.bound_arithmetic import proven_whole
from placewright.formulations.replicas import parameters
from placewright.solver.batched_pdhg import WIDTH, BatchedPdhg, Iterate

Fixings: TypeAlias = Mapping[int, float]
"""Columns of copies, and whether they are made."""


@dataclass(order=True, slots=True)
class Node:
    """A relaxation with some copies fixed, ordered by its bound.

    Attributes
    ----------
    number
        Unique in a tree, to break ties.
    fixings
        Columns of copies, and their values.
    iterate
        Where its first-order method continues.
    ready
        More iterations would improve the bound little, so it is to be branched on.
    """

    bound: float
    number: int
    fixings: Fixings = field(compare=False)
    iterate: Iterate = field(compare=False)
    ready: bool = field(compare=False)


def solve_nodes(
    pdhg: BatchedPdhg, nodes: Sequence[Node], steps: int, cutoff: float, threads: int
) -> list[Node]:
    """Return nodes after some more iterations, fewer once all bounds reach the cutoff."""
    parts = [nodes[k : k + WIDTH] for k in range(0, len(nodes), WIDTH)]

    def run(batch: Sequence[Node]) -> list[tuple[float, Iterate]]:
        fixings, iterates = (
            [node.fixings for node in batch],
            [node.iterate for node in batch],
        )
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
