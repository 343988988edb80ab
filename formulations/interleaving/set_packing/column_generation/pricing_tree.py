"""Class tree: a binary tree over the classes of a bucket, with bounds for exact pricing.

All classes of a bucket are split again and again along the measure in which they differ most, down
to single classes. The reduced cost of a group of members i at a period T is at most

    sum over i of (rate_numerator(i) / T - price(i)) - price of the bucket

and a period never falls when a stage grows. So the period of the least stages of some subtrees is a
lower bound of T for all members from them, and at a lower bound of T the largest summand of each
subtree is an upper bound. These are tabulated for a geometric grid of periods.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import PackingProblem
from placewright.formulations.interleaving.set_packing.column_generation.duals import Prices
from placewright.formulations.interleaving.set_packing.columns import rate_numerator
from placewright.topology.units import MILLION

ROUNDING_FACTOR = 1 + 1e-12
"""More than what rounding can take from a quotient of floating-point numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassTree:
    """The class tree of one bucket; the root is node 0, children come after their parent.

    Attributes
    ----------
    left, right : int64 (nodes,)
        The children of a node, -1 for a single class.
    jobs : int64 (nodes,)
        How many jobs its classes have.
    of : int64 (nodes,)
        Its class if it is a single one, else one of its classes.
    width : float64 (nodes,)
        How much its classes differ; -1 for a single class.
    stages : int64 (nodes, resources)
        The least of each stage.
    own : int64 (nodes,)
        The least sum of all stages of a class.
    iteration, max_period : int64 (nodes,)
        The most of any class.
    memory : int64 (nodes,)
        The least of any class.
    grid : int64 (periods,)
        Ascending; the first is a lower bound of all periods.
    most : int64 (nodes, periods)
        The most that reach over period less price is for any class, scaled as the prices are.
    """

    left: Ints
    right: Ints
    jobs: Ints
    of: Ints
    width: Floats
    stages: Ints
    own: Ints
    iteration: Ints
    max_period: Ints
    memory: Ints
    grid: Ints
    most: Ints


def build_class_tree(packing: PackingProblem, prices: Prices, bucket: int) -> ClassTree:
    """Return the class tree of a bucket with at least one class that has a job."""
    classes = np.flatnonzero((packing.bucket == bucket) & (packing.count > 0))
    own = packing.stages[classes].sum(axis=1)
    typical = float(own.mean())
    value = rate_numerator(packing)[classes]
    # At twice the typical iteration, in the value of a typical job at the speed it has alone.
    unit = max(float(value.mean()), 1.0) / typical
    net = value / (2 * typical) - prices.member[classes] / prices.scale
    measures = np.column_stack(
        [packing.stages[classes] / typical, parameters.PARAMETERS.net_value_weight * net / unit]
    )
    left, right, parts, widths = _split_recursively(measures)
    order = np.concatenate(parts)
    start = np.cumsum([0, *(len(part) for part in parts)])[:-1]

    def least(of: Ints) -> Ints:
        return np.minimum.reduceat(of[classes][order], start, axis=0)

    def greatest(of: Ints) -> Ints:
        return np.maximum.reduceat(of[classes][order], start, axis=0)

    # No period is below a member's own stages.
    factor = min(packing.rules.contention) / MILLION
    first = max(int(own.min() * factor * 0.999), 1)
    last = max(
        first + 1, int(parameters.PARAMETERS.max_period_ratio * packing.iteration[classes].max())
    )
    length = max(
        min(
            parameters.PARAMETERS.max_grid_periods,
            parameters.PARAMETERS.max_grid_entries // len(parts),
        ),
        2,
    )
    grid = np.unique(np.geomspace(first, last, length).astype(np.int64))
    grid[0] = first
    paid = prices.member[classes]
    most = np.empty((len(parts), len(grid)), dtype=np.int64)
    for node in range(len(parts))[::-1]:
        if left[node] < 0:
            job = parts[node][0]
            gained = np.ceil(value[job] * prices.scale / grid * ROUNDING_FACTOR) + 1
            most[node] = gained.astype(np.int64) - paid[job]
        else:
            np.maximum(most[left[node]], most[right[node]], out=most[node])
    return ClassTree(
        left=left,
        right=right,
        jobs=np.add.reduceat(packing.count[classes][order], start),
        of=classes[order[start]],
        width=widths,
        stages=least(packing.stages),
        own=np.minimum.reduceat(own[order], start),
        iteration=greatest(packing.iteration),
        max_period=greatest(packing.max_period()),
        memory=least(packing.memory),
        grid=grid,
        most=most,
    )


def _split_recursively(measures: Floats) -> tuple[Ints, Ints, list[Ints], Floats]:
    """Return both children of each node, its classes by position, and its width."""
    left, right, widths = [-1], [-1], [-1.0]
    parts = [np.arange(len(measures))]
    for node, part in enumerate(parts):
        if len(part) == 1:
            continue
        part_measures = measures[part]
        spread = part_measures.max(axis=0) - part_measures.min(axis=0)
        widths[node] = float(spread.sum())
        along = part_measures[:, spread.argmax()]
        order = np.argsort(along, kind="stable")
        # In the middle of the range, so that nodes far apart separate first.
        middle = np.searchsorted(along[order], (along.min() + along.max()) / 2, side="right")
        cut = int(middle.clip(1, len(part) - 1))
        left[node], right[node] = len(parts), len(parts) + 1
        for half in (part[order[:cut]], part[order[cut:]]):
            parts.append(half)
            left.append(-1)
            right.append(-1)
            widths.append(-1.0)
    return np.array(left), np.array(right), parts, np.array(widths)
