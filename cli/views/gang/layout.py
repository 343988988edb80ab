"""Layout: where each cell of a picture lies; cells in rows, rows in tiles, tiles under headings.

The four are neighbouring levels of the cluster: GPUs of hosts in racks under blocks, or, where
cells of GPUs would be too small, hosts of racks in blocks under datacenters, and so on upwards.
Where the cluster has no such level, runs of `RUN` cells or rows take its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from math import sqrt

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.cli.format.text import short, shortened
from placewright.cli.views.gang.packing import (
    COLUMN_GAP,
    HEADING_HEIGHT,
    TITLE_HEIGHT,
    Page,
    Tile,
    best_page,
)
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
LETTER = 0.36
"""Width of a letter, in cells of at most `NAMED`."""
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
    sizes = (*map(len, cluster.names), cluster.num_gpus)
    for depth in range(len(cluster.levels), -1, -1):
        if sizes[depth] <= MAX_CELLS:
            layout = _layout(cluster, depth, 1, (width, height), shared)
            if layout.cell >= SMALLEST:
                return layout
    run = max(2, -(-sizes[0] // MAX_CELLS))
    while True:
        layout = _layout(cluster, 0, run, (width, height), shared)
        if layout.cell >= SMALLEST:
            return layout
        run *= 2


def _layout(
    cluster: Cluster, depth: int, run: int, paper: tuple[float, float], shared: bool
) -> Layout:
    """Lay out a cluster by this level, or by runs of its members."""
    levels = (*cluster.levels, GPU_LEVEL)
    host_of_gpu = np.repeat(np.arange(cluster.num_hosts), cluster.gpu_count)
    if levels[depth] == GPU_LEVEL:
        cell_of_gpu, row = np.arange(cluster.num_gpus), host_of_gpu
    else:
        cell_of_gpu = cluster.domain[depth][host_of_gpu].astype(np.int64) // run
        row = _holders(cluster, depth, np.arange(-(-len(cluster.names[depth]) // run)))
    columns = np.bincount(row)
    rows = np.flatnonzero(columns)
    tile = _holders(cluster, depth - 1, rows)
    headed = depth - 2 > 0 and len(cluster.names[depth - 3]) > 1
    heading = _holders(cluster, depth - 2, tile) if headed else np.zeros_like(tile)
    order = np.lexsort((rows, tile, heading))
    rows, tile, heading = rows[order], tile[order], heading[order]
    groups = [[rows[group][part] for part in _runs(tile[group])] for group in _runs(heading)]
    names = _row_names(cluster, depth - 1)
    titles = _titles(cluster, depth - 2)
    cells = int(columns.sum())
    largest = min(max(2 / sqrt(cells), USUAL), LARGEST) * (SHARED if shared else 1.0)
    longest = max(len(names[r]) for r in rows.tolist()) + 1 if names else 0

    def packed(scale: float) -> tuple[list[list[Tile]], Page]:
        """Pack the tiles with letters of this size."""
        tiles = [
            [
                Tile(
                    part.size,
                    scale * LETTER * longest + int(columns[part].max()),
                    scale * LETTER * len(title_of(part)),
                )
                for part in group
            ]
            for group in groups
        ]
        return tiles, best_page(
            tiles,
            title_height=scale * TITLE_HEIGHT if titles else 0.0,
            heading_height=scale * HEADING_HEIGHT if headed else 0.0,
            size=(*paper, largest),
        )

    def title_of(part: Ints) -> str:
        return titles[int(_holders(cluster, depth - 1, part[:1])[0])] if titles else ""

    # Names do not grow with the cells of a small cluster.
    scale = min(NAMED / largest, 1.0)
    tiles, page = packed(scale)
    if page.cell(*paper, largest) < largest:
        scale = min(NAMED / page.cell(*paper, largest), 1.0)
        tiles, page = packed(scale)
    margin = scale * LETTER * longest

    row_x, row_y = np.zeros(columns.size), np.zeros(columns.size)
    top = scale * TITLE_HEIGHT if titles else 0.0
    for part, facts, (x, y) in zip(
        chain.from_iterable(groups), chain.from_iterable(tiles), page.tiles, strict=True
    ):
        each = -(-part.size // -(-part.size // page.rows))
        column, line = np.divmod(np.arange(part.size), each)
        row_x[part] = x + column * (facts.row_width + COLUMN_GAP) + margin
        row_y[part] = y + top + line
    place = np.empty(row.size)
    place[np.argsort(row, kind="stable")] = np.concatenate([np.arange(n) for n in columns if n])
    return Layout(
        level=levels[depth] if run == 1 else f"run of {run} {levels[depth]}s",
        cell_of_gpu=cell_of_gpu,
        row=row,
        x=row_x[row] + place,
        y=row_y[row],
        width=page.width,
        height=page.height,
        cell=page.cell(*paper, largest),
        letters=scale,
        titles=tuple(
            Label(titles[int(tile[run_.start])], x, y + top)
            for run_, (x, y) in zip(_runs_within(tile, heading), page.tiles, strict=True)
        )
        if titles
        else (),
        headings=tuple(
            Label(cluster.names[depth - 3][int(heading[run_.start])], x, y + scale * HEADING_HEIGHT)
            for run_, (x, y) in zip(_runs(heading), page.headings, strict=True)
        )
        if headed
        else (),
        names=tuple(
            Label(names[r], row_x[r] - scale * LETTER / 2, row_y[r] + 0.5) for r in rows.tolist()
        )
        if names
        else (),
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


def _titles(cluster: Cluster, depth: int) -> list[str]:
    """Name the members of a level in full; none above the outermost."""
    return [] if depth < 0 else [shortened(name, MAX_TITLE) for name in cluster.names[depth]]


def _holders(cluster: Cluster, depth: int, members: Ints) -> Ints:
    """Return what holds each member of a level; above the outermost level, runs of members."""
    return cluster.parent[depth][members].astype(np.int64) if depth > 0 else members // RUN


def _runs(values: Ints) -> Iterator[slice]:
    """Yield the slice of each run of equal entries."""
    ends = [*(np.flatnonzero(np.diff(values)) + 1).tolist(), values.size]
    yield from (slice(start, end) for start, end in pairwise([0, *ends]))


def _runs_within(values: Ints, groups: Ints) -> Iterator[slice]:
    """Yield the slice of each run of equal entries in each run of equal groups."""
    for group in _runs(groups):
        for run in _runs(values[group]):
            yield slice(group.start + run.start, group.start + run.stop)
