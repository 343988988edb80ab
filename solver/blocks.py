"""Named blocks of columns and rows, and the checks of the arrays that fill them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from placewright.array_types import Floats, Ints

__all__ = [
    "Block",
    "Numbers",
    "check_finite",
    "check_indices",
    "check_interval",
    "end",
    "explain",
    "indices",
    "interval",
    "new_block",
]

Numbers: TypeAlias = npt.ArrayLike


@dataclass(frozen=True, slots=True)
class Block:
    """A run of columns or rows that were appended together.

    Parameters
    ----------
    name
        Several blocks may share a name.
    start, size
        The block holds the indices ``start`` to ``start + size - 1``.
    keys
        One key per index, or None: then the key is the position inside the block.
    """

    name: str
    start: int
    size: int
    keys: Sequence[Hashable] | None

    def key(self, index: int) -> Hashable:
        """Give the key of the column or row with this index in the model."""
        position = index - self.start
        return position if self.keys is None else self.keys[position]


def end(blocks: list[Block]) -> int:
    """Give the number of columns or rows in the blocks."""
    return blocks[-1].start + blocks[-1].size if blocks else 0


def new_block(blocks: list[Block], name: str, size: int, keys: Sequence[Hashable] | None) -> Block:
    """Make the block that would follow these; ValueError for a bad size or wrong keys."""
    if size < 0:
        raise ValueError(f"size {size} of block {name!r} is negative; 0 or more was expected")
    if keys is not None and len(keys) != size:
        raise ValueError(f"block {name!r} has {len(keys)} keys; {size} were expected")
    return Block(name, end(blocks), size, keys)


def indices(block: Block) -> Ints:
    """Give the columns or rows of a block, shape (size,)."""
    return np.arange(block.start, block.start + block.size, dtype=np.int64)


def interval(block: Block, lower: Numbers, upper: Numbers) -> tuple[Floats, Floats]:
    """Copy scalar or array bounds to shape (size,)."""
    low = np.broadcast_to(np.asarray(lower, dtype=np.float64), block.size).copy()
    high = np.broadcast_to(np.asarray(upper, dtype=np.float64), block.size).copy()
    return low, high


def check_interval(block: Block, low: Floats, high: Floats) -> None:
    """Raise ValueError when an interval holds no number or a bound is NaN."""
    # Written so that NaN fails, too; an interval at one infinity holds no number.
    wrong = np.flatnonzero(~((low <= high) & (low < np.inf) & (high > -np.inf)))
    if wrong.size:
        i = int(wrong[0])
        raise ValueError(
            f"bounds {low[i]} to {high[i]} of {block.name}[{block.key(block.start + i)!r}] "
            "hold no number; lower <= upper was expected"
        )


def check_indices(what: str, index: Ints, size: int) -> None:
    """Raise ValueError when an index is outside 0 to size - 1."""
    wrong = index[(index < 0) | (index >= size)]
    if wrong.size:
        raise ValueError(
            f"{what} {wrong.flat[0]} is not in the model; 0 to {size - 1} was expected"
        )


def check_finite(what: str, value: npt.NDArray[np.float64]) -> None:
    """Raise ValueError when a number is infinite or NaN."""
    wrong = value[~np.isfinite(value)]
    if wrong.size:
        raise ValueError(f"{what} {wrong.flat[0]} is not finite; a number was expected")


def explain(blocks: list[Block], index: int) -> tuple[str, Hashable]:
    """Give the block name and key of an index; IndexError when no block holds it."""
    for block in blocks:
        if block.start <= index < block.start + block.size:
            return block.name, block.key(index)
    raise IndexError(f"index {index} is not in the model; 0 to {end(blocks) - 1} was expected")
