"""Cells of a chain: hardware of one kind in trees that are uniform level by level.

Level 0 is the innermost (a GPU, or a host), the last one the outermost that anybody owns. Cells of
a level are numbered so that those inside one cell are neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple


class Cell(NamedTuple):
    """One cell: its level, innermost 0, and its number in that level."""

    level: int
    number: int


@dataclass(frozen=True, slots=True)
class Chain:
    """The shape of a chain: `children[l]` cells of level l make one of level l + 1.

    Raises ValueError if a cell would have no children.
    """

    children: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(number < 1 for number in self.children):
            raise ValueError(f"children {self.children}; expected at least one per cell")

    @property
    def levels(self) -> int:
        """Number of levels."""
        return len(self.children) + 1

    def ratio(self, outer: int, inner: int) -> int:
        """Return how many cells of level `inner` make one of level `outer`."""
        return prod(self.children[inner:outer])

    def above(self, cell: Cell, level: int) -> Cell:
        """Return the cell of this level that a cell of the same or an inner level lies in."""
        return Cell(level, cell.number // self.ratio(level, cell.level))

    def inside(self, cell: Cell, level: int) -> range:
        """Return the numbers of the cells of this level in a cell of the same or an outer one."""
        number = self.ratio(cell.level, level)
        return range(cell.number * number, (cell.number + 1) * number)


def claims_fit(chain: Chain, claims: Sequence[int], free: Sequence[int]) -> bool:
    """Whether all claims for cells can be met together from the free cells.

    `chain`: its tree is uniform, which is what makes the rows sufficient. `claims`: per level, the
    cells that may still be asked for. `free`: per level, the maximal free cells: those that no
    other free cell holds.

    For every level l, with c(m, l) cells of level l in one of level m:

        sum over m >= l of c(m, l) claims[m]  <=  sum over m >= l of c(m, l) free[m]

    Necessary, since a claim of level l or above takes from free cells of level l or above only.
    Sufficient, by putting the largest claims first: in a uniform tree whatever they leave of a cell
    splits into whole cells of the next level.
    """
    pairs = zip(_sums(chain, claims), _sums(chain, free), strict=True)
    return all(claimed <= there for claimed, there in pairs)


def _sums(chain: Chain, cells: Sequence[int]) -> Iterator[int]:
    """Yield, per level, the cells there and above, counted in cells of that level."""
    held = 0
    for level in reversed(range(chain.levels)):
        held = cells[level] + (held * chain.children[level] if level < chain.levels - 1 else 0)
        yield held
