"""Where the hosts of a picture lie: levels packed into rows and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log, sqrt
from typing import NamedTuple

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.instances.derived.phrases import plural
from placewright.report.text import short, shortened
from placewright.topology import Cluster

# Packing: tiles beside each other until a line is full, then below, as words on a page.
#
# Tiles under one heading are packed into a box first, and the boxes are then packed like tiles.
# Long tiles fold into columns. Of several shapes the page is chosen on which a cell is largest.


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


# Layout: where each cell of a picture lies; cells in rows, rows in tiles, tiles under headings.
#
# The four are neighbouring levels of the cluster: GPUs of hosts in racks under blocks, or, where
# cells of GPUs would be too small, hosts of racks in blocks under datacenters, and so on upwards.
# Where the cluster has no such level, runs of `RUN` cells or rows take its place.


MAX_CELLS = 20_000
RUN = 32
GPU_LEVEL = "GPU"
SMALLEST, USUAL, LARGEST = 0.085, 0.2, 0.4
"""Inches of a cell: the least that can be read, that of many cells, and that of a few."""
SHARED = 1.6
"""How much larger cells of small clusters are in which jobs share GPUs."""
NAMED = 0.18
"""Inches of a cell up to which names grow with cells."""
LETTER, HEADING_LETTER = 0.36, 0.5
"""Width of a letter, and of one of a heading, in cells of at most `NAMED`."""
MAX_ROW_NAME, MAX_TITLE = 14, 28


@dataclass(frozen=True, slots=True)
class Label:
    """A text, and the point where it belongs."""

    text: str
    x: float
    y: float


@dataclass(frozen=True, eq=False, slots=True)
class Layout:
    """Unit squares on a plane whose y axis points down.

    Parameters
    ----------
    level : str
        What one cell is: `GPU_LEVEL`, a level of the cluster, or a run of members of one.
    cell_of_gpu : int64 array (gpus,)
        The cell that each GPU belongs to. Hosts without GPUs have no cells of GPUs.
    row : int64 array (cells,)
        The row of each cell, such as the host of a GPU.
    x, y : float64 arrays (cells,)
        Upper left corner of each cell.
    width, height : float
        Size of the whole.
    cell : float
        Inches of a cell.
    letters : float
        Size of letters, where 1 is as large as cells allow.
    titles, headings : tuple of Label
        Names of tiles, and of what holds them, where the cluster has such levels, by their lower
        left corner.
    names : tuple of Label
        Names of rows, where the cluster has such a level, by the middle of their right side.
    """

    level: str
    cell_of_gpu: Ints
    row: Ints
    x: Floats
    y: Floats
    width: float
    height: float
    cell: float
    letters: float
    titles: tuple[Label, ...]
    headings: tuple[Label, ...]
    names: tuple[Label, ...]


class _Tile(NamedTuple):
    """Rows of cells under a title, which is empty where the cluster has no such level."""

    title: str
    rows: Ints


class _Group(NamedTuple):
    """Tiles under a heading, which is empty where the cluster has no such level."""

    heading: str
    tiles: list[_Tile]


class _Grid(NamedTuple):
    """A cluster as rows of cells in tiles in groups, by one of its levels.

    `level`, `cell_of_gpu` and `row` are as in `Layout`, `columns` the number of cells of each row,
    and `names` those of rows, if they have some.
    """

    level: str
    cell_of_gpu: Ints
    row: Ints
    columns: Ints
    names: list[str]
    groups: list[_Group]


def layout_of(cluster: Cluster, width: float, height: float, *, shared: bool = False) -> Layout:
    """Lay out a cluster on paper of this size in inches, by the deepest level that can be read.

    Where none can, a cell is a run of the members of its outermost level. Cells of small clusters
    are no larger than they need be, which is larger if GPUs are `shared`.

    Raises
    ------
    ValueError
        If the cluster has no GPUs.
    """
    if not cluster.num_gpus:
        raise ValueError(f"cluster {cluster.name!r} has no GPUs; expected some to draw")
    paper = width, height
    sizes = (*map(len, cluster.names), cluster.num_gpus)
    for depth in range(len(cluster.levels), -1, -1):
        if sizes[depth] <= MAX_CELLS:
            layout = _layout(_grid(cluster, depth), paper, shared)
            if layout.cell >= SMALLEST:
                return layout
    run = max(2, -(-sizes[0] // MAX_CELLS))
    while True:
        layout = _layout(_grid(cluster, 0, run), paper, shared)
        if layout.cell >= SMALLEST:
            return layout
        run *= 2


def _grid(cluster: Cluster, depth: int, run: int = 1) -> _Grid:
    """Divide a cluster into cells by a level, or by runs of its members."""
    host_of_gpu = np.repeat(np.arange(cluster.num_hosts), cluster.gpu_count)
    if depth == len(cluster.levels):
        level = GPU_LEVEL
        cell_of_gpu, row = np.arange(cluster.num_gpus), host_of_gpu
    else:
        name = cluster.levels[depth]
        level = name if run == 1 else f"run of {run} {plural(name)}"
        cell_of_gpu = cluster.domain[depth][host_of_gpu].astype(np.int64) // run
        row = _holders(cluster, depth, np.arange(-(-len(cluster.names[depth]) // run)))
    columns = np.bincount(row)
    rows = np.flatnonzero(columns)
    tile = _holders(cluster, depth - 1, rows)
    # A heading that stands alone says nothing.
    headed = depth > 2 and len(cluster.names[depth - 3]) > 1
    group = _holders(cluster, depth - 2, tile) if headed else np.zeros_like(tile)
    order = np.lexsort((rows, tile, group))
    rows, tile, group = rows[order], tile[order], group[order]
    groups = [
        _Group(
            _title(cluster, depth - 3, int(group[part.start])) if headed else "",
            [
                _Tile(_title(cluster, depth - 2, int(tile[part][inner.start])), rows[part][inner])
                for inner in _runs(tile[part])
            ],
        )
        for part in _runs(group)
    ]
    return _Grid(level, cell_of_gpu, row, columns, _row_names(cluster, depth - 1), groups)


def _layout(grid: _Grid, paper: tuple[float, float], shared: bool) -> Layout:
    """Lay out a cluster whose cells are given."""
    largest = min(max(2 / sqrt(grid.row.size), USUAL), LARGEST) * (SHARED if shared else 1.0)
    # Names do not grow with the cells of a small cluster.
    letters = min(NAMED / largest, 1.0)
    page = _page(grid, letters, (*paper, largest))
    cell = page.cell(*paper, largest)
    if cell < largest:
        letters = min(NAMED / cell, 1.0)
        page = _page(grid, letters, (*paper, largest))
    tiles = [tile for group in grid.groups for tile in group.tiles]
    titled = bool(tiles[0].title)
    row_x, row_y = np.zeros(grid.columns.size), np.zeros(grid.columns.size)
    for tile, (x, y) in zip(tiles, page.tiles, strict=True):
        rows, margin = tile.rows, _margin(grid, tile, letters)
        each = -(-rows.size // -(-rows.size // page.rows))
        column, line = np.divmod(np.arange(rows.size), each)
        width = margin + int(grid.columns[rows].max()) + COLUMN_GAP
        row_x[rows] = x + margin + column * width
        row_y[rows] = y + line + (letters * TITLE_HEIGHT if tile.title else 0.0)
    place = np.empty(grid.row.size)
    place[np.argsort(grid.row, kind="stable")] = np.concatenate(
        [np.arange(number) for number in grid.columns if number]
    )
    return Layout(
        level=grid.level,
        cell_of_gpu=grid.cell_of_gpu,
        row=grid.row,
        x=row_x[grid.row] + place,
        y=row_y[grid.row],
        width=page.width,
        height=page.height,
        cell=page.cell(*paper, largest),
        letters=letters,
        titles=tuple(
            Label(tile.title, x, y + letters * TITLE_HEIGHT)
            for tile, (x, y) in zip(tiles, page.tiles, strict=True)
            if titled
        ),
        headings=tuple(
            Label(group.heading, x, y + letters * HEADING_HEIGHT)
            for group, (x, y) in zip(grid.groups, page.headings, strict=False)
        ),
        names=tuple(
            Label(grid.names[row], row_x[row] - letters * LETTER / 2, row_y[row] + 0.5)
            for tile in tiles
            for row in tile.rows.tolist()
            if grid.names
        ),
    )


def _margin(grid: _Grid, tile: _Tile, letters: float) -> float:
    """Return the space that the longest name of a row of a tile takes, in cells."""
    if not grid.names:
        return 0.0
    return letters * LETTER * (1 + max(len(grid.names[row]) for row in tile.rows.tolist()))


def _page(grid: _Grid, letters: float, size: tuple[float, float, float]) -> Page:
    """Pack the tiles of a grid with letters of this size."""
    groups = [
        Group(
            [
                Tile(
                    tile.rows.size,
                    _margin(grid, tile, letters) + int(grid.columns[tile.rows].max()),
                    letters * LETTER * len(tile.title),
                )
                for tile in group.tiles
            ],
            letters * HEADING_LETTER * len(group.heading),
        )
        for group in grid.groups
    ]
    first = grid.groups[0]
    return best_page(
        groups,
        title_height=letters * TITLE_HEIGHT if first.tiles[0].title else 0.0,
        heading_height=letters * HEADING_HEIGHT if first.heading else 0.0,
        size=size,
    )


def _row_names(cluster: Cluster, depth: int) -> list[str]:
    """Name the members of a level without the name of what holds them; none above the outermost."""
    if depth < 0:
        return []
    return [
        shortened(
            short(name, cluster.names[depth - 1][int(cluster.parent[depth][i])] if depth else ""),
            MAX_ROW_NAME,
        )
        for i, name in enumerate(cluster.names[depth])
    ]


def _title(cluster: Cluster, depth: int, member: int) -> str:
    """Name a member of a level; above the outermost it has no name."""
    return "" if depth < 0 else shortened(cluster.names[depth][member], MAX_TITLE)


def _holders(cluster: Cluster, depth: int, members: Ints) -> Ints:
    """Return what holds each member of a level; above the outermost level, runs of members."""
    return cluster.parent[depth][members].astype(np.int64) if depth > 0 else members // RUN


def _runs(values: Ints) -> Iterator[slice]:
    """Yield the slice of each run of equal entries."""
    ends = [*(np.flatnonzero(np.diff(values)) + 1).tolist(), values.size]
    yield from (slice(start, end) for start, end in pairwise([0, *ends]))
