"""Leaves of a tree of relaxations: what is said of copies in each, its bound, and how it grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TypeAlias

import numpy as np

from placewright.formulations.session import proven_whole
from placewright.solver.arrays import Floats
from placewright.solver.batched_pdhg import WIDTH, Descent, Start

Said: TypeAlias = Mapping[int, float]
"""Columns of copies, and whether they are made."""

MORE = 1e-3
"""Of a bound, what so many steps must have added for more of them."""


@dataclass(order=True, slots=True)
class Leaf:
    """A relaxation with some copies said.

    Attributes
    ----------
    number
        No two leaves of a tree have the same.
    start
        Where its descent goes on.
    ready
        More steps would add little, so it is to be split.
    """

    bound: float
    number: int
    said: Said = field(compare=False)
    start: Start = field(compare=False)
    ready: bool = field(compare=False)


def descended(
    descent: Descent, leaves: Sequence[Leaf], steps: int, cutoff: float, threads: int
) -> list[Leaf]:
    """Return leaves after some more steps, fewer where bounds are no worse than the cutoff."""
    parts = [leaves[k : k + WIDTH] for k in range(0, len(leaves), WIDTH)]

    def run(part: Sequence[Leaf]) -> list[tuple[float, Start]]:
        said, starts = [leaf.said for leaf in part], [leaf.start for leaf in part]
        return descent.run(said, starts, steps, cutoff)

    with ThreadPoolExecutor(threads) as pool:
        ends = [end for ends in pool.map(run, parts) for end in ends]
    return [_after(leaf, *end) for leaf, end in zip(leaves, ends, strict=True)]


def _after(leaf: Leaf, bound: float, start: Start) -> Leaf:
    # Multipliers of what has no point grow without end.
    if not isfinite(bound):
        return replace(leaf, ready=True)
    whole = proven_whole(bound)
    ready = whole < leaf.bound + MORE * abs(leaf.bound)
    return replace(leaf, bound=max(whole, leaf.bound), start=start, ready=ready)


def growth(costs: Floats) -> float:
    """Return how fast a tree grows of which every leaf is split into some that cost so much more.

    It has exp(growth times what they are to cost) leaves: sum of exp(-growth costs) = 1.
    """
    low, high = 0.0, float(np.log(max(2, len(costs))) / costs.min())
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if np.exp(-middle * costs).sum() > 1 else (low, middle)
    return high
