"""Buddy allocation (Knowlton 1965) in the trees of a chain: the smallest free cell is split."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence

from placewright.topology.chain import Cell, Chain

Cost = Callable[[Cell], int]


class Buddy:
    """The free cells of a chain, as a list of the maximal ones.

    Parameters
    ----------
    chain
        The shape of the trees.
    roots
        Disjoint cells of any levels, all free at first. Free cells are merged no further than into
        a root.
    """

    def __init__(self, chain: Chain, roots: Iterable[Cell]) -> None:
        self.chain = chain
        self._roots = frozenset(roots)
        self._free: list[list[int]] = [[] for _ in range(chain.levels)]
        self._held: set[Cell] = set()
        for level, index in sorted(self._roots):
            self._free[level].append(index)

    @property
    def maximal(self) -> tuple[int, ...]:
        """Number of maximal free cells per level, innermost first."""
        return tuple(len(indices) for indices in self._free)

    def take(self, level: int, cost: Cost | None = None) -> Cell | None:
        """Take a cell of a level out of the smallest free cell that holds one; None if none does.

        Ties, also among the parts of a split, go to the least `cost`, then to the first.
        """
        for outer in range(level, self.chain.levels):
            if self._free[outer]:
                cell = Cell(outer, _cheapest(outer, self._free[outer], cost))
                while cell.level > level:
                    below = cell.level - 1
                    halves = self.chain.inside(cell, below)
                    self._split(cell)
                    cell = Cell(below, _cheapest(below, halves, cost))
                self._remove(cell)
                self._held.add(cell)
                return cell
        return None

    def claim(self, cell: Cell) -> bool:
        """Take this very cell if all of it is free; return whether it was."""
        for outer in range(cell.level, self.chain.levels):
            over = self.chain.above(cell, outer)
            if self._is_free(over):
                while over.level > cell.level:
                    self._split(over)
                    over = self.chain.above(cell, over.level - 1)
                self._remove(cell)
                self._held.add(cell)
                return True
        return False

    def give(self, cell: Cell) -> None:
        """Give a taken cell back; free buddies are merged.

        Raises
        ------
        ValueError
            If it was not taken.
        """
        if cell not in self._held:
            raise ValueError(f"{cell} is given back; expected a cell that was taken")
        self._held.remove(cell)
        while cell not in self._roots:
            over = self.chain.above(cell, cell.level + 1)
            others = [i for i in self.chain.inside(over, cell.level) if i != cell.number]
            if not all(self._is_free(Cell(cell.level, i)) for i in others):
                break
            for i in others:
                self._remove(Cell(cell.level, i))
            cell = over
        insort(self._free[cell.level], cell.number)

    def free_root(self, root: Cell) -> bool:
        """Whether no part of a root is taken."""
        return self._is_free(root)

    def _split(self, cell: Cell) -> None:
        self._remove(cell)
        below = self._free[cell.level - 1]
        parts = self.chain.inside(cell, cell.level - 1)
        at = bisect_left(below, parts.start)
        below[at:at] = parts

    def _is_free(self, cell: Cell) -> bool:
        """Whether a cell is one of the maximal free ones."""
        indices = self._free[cell.level]
        at = bisect_left(indices, cell.number)
        return at < len(indices) and indices[at] == cell.number

    def _remove(self, cell: Cell) -> None:
        indices = self._free[cell.level]
        del indices[bisect_left(indices, cell.number)]


def _cheapest(level: int, indices: Sequence[int], cost: Cost | None) -> int:
    if cost is None:
        return indices[0]
    return min(indices, key=lambda index: (cost(Cell(level, index)), index))
