"""Packing: tiles beside each other until a line is full, then below, as words on a page.

Tiles under one heading are packed into a box first, and the boxes are then packed like tiles. Long
tiles fold into columns. Of several shapes the page is chosen on which a cell is largest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log, sqrt
from typing import NamedTuple

TILE_GAP = 0.8
COLUMN_GAP = 0.5
TITLE_HEIGHT, HEADING_HEIGHT = 1.0, 1.5
ASPECT = 1.5
FOLDED, EMPTY = 0.7, 2.0
"""How much a page on which tiles are folded, and one that is larger, is worse by than its shape."""
SHAPES, STRETCH = 20, 1.25
INNER = (1.3, 1.0, 1.8)
LEAST_ROWS = 4


class Tile(NamedTuple):
    """What belongs together: rows of cells, the width of one row with its name, and of a title."""

    rows: int
    row_width: float
    title_width: float


class Group(NamedTuple):
    """Tiles under one heading, and the width of that."""

    tiles: Sequence[Tile]
    heading_width: float


@dataclass(frozen=True, slots=True)
class Page:
    """Where tiles lie, in cells; the y axis points down.

    Parameters
    ----------
    width, height
        Of the whole.
    tiles
        Upper left corner of the title of each tile.
    headings
        Upper left corner of each heading, if there are headings.
    rows
        How many rows a tile has below each other, at most, before the next column begins.
    """

    width: float
    height: float
    tiles: tuple[tuple[float, float], ...]
    headings: tuple[tuple[float, float], ...]
    rows: int

    def cell(self, width: float, height: float, largest: float) -> float:
        """Return the size of a cell on paper of this size, at most the largest one."""
        return min(largest, width / self.width, height / self.height)


def best_page(
    groups: Sequence[Group],
    *,
    title_height: float,
    heading_height: float,
    size: tuple[float, float, float],
) -> Page:
    """Return the page with the largest cells, of several those of the best shape.

    Heights are in cells, 0 where there are no titles or headings. `size` is that of the paper, and
    of the largest cell, in one unit.
    """
    longest = max(tile.rows for group in groups for tile in group.tiles)

    def merit(page: Page) -> tuple[float, float]:
        shape = abs(log(page.width / page.height / ASPECT))
        # A larger page for the same tiles is an emptier one.
        empty = EMPTY * log(page.width * page.height)
        return -round(page.cell(*size), 3), shape + empty + FOLDED * (page.rows < longest)

    return min(_pages(groups, longest, title_height, heading_height), key=merit)


def _pages(
    groups: Sequence[Group], longest: int, title_height: float, heading_height: float
) -> Iterator[Page]:
    """Yield pages of several widths and of several lengths of columns."""
    rows = longest
    while True:
        boxes = [[_box(tile, rows, title_height) for tile in group.tiles] for group in groups]
        widest = max(width for group in boxes for width, _ in group)
        area = sum(width * height for group in boxes for width, height in group)
        for step in range(-SHAPES // 2, SHAPES // 2):
            space = max(sqrt(area * ASPECT) * STRETCH**step, widest)
            if not heading_height:
                corners, width, height = _flow([box for group in boxes for box in group], space)
                yield Page(width, height, tuple(corners), (), rows)
                continue
            for inner in INNER:
                yield _headed_page(groups, boxes, space, rows, heading_height, inner)
        if rows <= LEAST_ROWS:
            return
        rows = max(ceil(rows / 2), LEAST_ROWS)


def _box(tile: Tile, rows: int, title_height: float) -> tuple[float, float]:
    """Return the width and height of a tile whose columns have at most so many rows."""
    columns = ceil(tile.rows / rows)
    width = columns * (tile.row_width + COLUMN_GAP) - COLUMN_GAP
    height = ceil(tile.rows / columns) + title_height
    return max(width, tile.title_width), height


def _headed_page(
    groups: Sequence[Group],
    boxes: Sequence[Sequence[tuple[float, float]]],
    space: float,
    rows: int,
    heading_height: float,
    inner: float,
) -> Page:
    """Return a page of boxes in boxes; `inner` is how much wider than its shape an outer one is."""
    packed, outer = [], []
    for group, sizes in zip(groups, boxes, strict=True):
        area = sum(width * height for width, height in sizes)
        widest = max(width for width, _ in sizes)
        corners, width, height = _flow(sizes, min(max(inner * sqrt(area * ASPECT), widest), space))
        packed.append(corners)
        outer.append((max(width, group.heading_width), heading_height + height))
    headings, width, height = _flow(outer, space)
    tiles = tuple(
        (left + x, top + heading_height + y)
        for (left, top), corners in zip(headings, packed, strict=True)
        for x, y in corners
    )
    return Page(width, height, tiles, tuple(headings), rows)


def _flow(
    boxes: Sequence[tuple[float, float]], space: float
) -> tuple[list[tuple[float, float]], float, float]:
    """Return the corner of each box in lines of this width, and the width and height of all."""
    corners = []
    x = y = line = width = 0.0
    for wide, tall in boxes:
        if x and x + wide > space + 1e-9:
            y += line + TILE_GAP
            x = line = 0.0
        corners.append((x, y))
        width, line = max(width, x + wide), max(line, tall)
        x += wide + TILE_GAP
    return corners, width, y + line
