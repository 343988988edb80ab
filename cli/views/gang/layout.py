"""Layout: where each cell of a picture lies; cells in rows, rows in tiles, tiles under headings.

The four are neighbouring levels of the cluster: GPUs of hosts in racks under blocks, or, where
cells of GPUs would be too small, hosts of racks in blocks under datacenters, and so on upwards.
Where the cluster has no such level, runs of `RUN` cells or rows take its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.cli.views.gang.packing import (
    COLUMN_GAP,
    HEADING_HEIGHT,
    TITLE_HEIGHT,
    Group,
    Page,
    Tile,
    best_page,
)
from placewright.instances.derived.phrases import plural
from placewright.report.text import short, shortened
from placewright.topology import Cluster

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
