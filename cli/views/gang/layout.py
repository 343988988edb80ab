"""Where each cell of a picture lies: cells in rows, rows in tiles, tiles under headings.

The four are neighbouring levels of the cluster: GPUs of hosts in racks under blocks, or, where
that is too many, hosts of racks in blocks under datacenters, and so on upwards. Where the cluster
has no such level, runs of `RUN` cells or rows take its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from math import log

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.topology import Cluster

MAX_CELLS = 20_000
RUN = 32
GPU_LEVEL = "GPU"

TILE_GAP = 1.0
TITLE_HEIGHT = 1.6
HEADING_HEIGHT = 2.0
ASPECT = 1.5
MAX_TILES_A_LINE = 48


@dataclass(frozen=True, slots=True)
class Label:
    """A text, and where its lower left corner belongs."""

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
    x, y : float64 arrays (cells,)
        Upper left corner of each cell.
    width, height : float
        Size of the whole.
    titles, headings : tuple of Label
        Names of tiles, and of what holds them, where the cluster has such levels.
    """

    level: str
    cell_of_gpu: Ints
    x: Floats
    y: Floats
    width: float
    height: float
    titles: tuple[Label, ...]
    headings: tuple[Label, ...]


def layout_of(cluster: Cluster) -> Layout:
    """Lay out a cluster by its deepest level that has at most `MAX_CELLS` members.

    Where none has so few, a cell is a run of the members of its outermost level.

    Raises
    ------
    ValueError
        If the cluster has no GPUs.
    """
    if not cluster.num_gpus:
        raise ValueError(f"cluster {cluster.name!r} has no GPUs; expected some to draw")
    levels = (*cluster.levels, GPU_LEVEL)
    sizes = (*map(len, cluster.names), cluster.num_gpus)
    depth = max((d for d, size in enumerate(sizes) if size <= MAX_CELLS), default=0)
    host_of_gpu = np.repeat(np.arange(cluster.num_hosts), cluster.gpu_count)
    if levels[depth] == GPU_LEVEL:
        cell_of_gpu, row = np.arange(cluster.num_gpus), host_of_gpu
    else:
        run = -(-sizes[depth] // MAX_CELLS)
        cell_of_gpu = cluster.domain[depth][host_of_gpu].astype(np.int64) // run
        row = _holders(cluster, depth, np.arange(-(-sizes[depth] // run)))

    columns = np.bincount(row)
    rows = np.flatnonzero(columns)
    tile = _holders(cluster, depth - 1, rows)
    headed = depth - 2 > 0
    heading = _holders(cluster, depth - 2, tile) if headed else np.zeros_like(tile)
    order = np.lexsort((rows, tile, heading))
    rows, tile, heading = rows[order], tile[order], heading[order]
    groups = [[rows[group][part] for part in _runs(tile[group])] for group in _runs(heading)]
    page = _best_page(
        [[(int(columns[part].max()), part.size) for part in group] for group in groups], headed
    )

    row_x, row_y = np.zeros(columns.size), np.zeros(columns.size)
    for part, (x, y) in zip(chain.from_iterable(groups), page.tiles, strict=True):
        row_x[part], row_y[part] = x, y + np.arange(part.size)
    column = np.empty(row.size)
    column[np.argsort(row, kind="stable")] = np.concatenate([np.arange(n) for n in columns if n])
    return Layout(
        level=levels[depth] if sizes[depth] <= MAX_CELLS else f"run of {run} {levels[depth]}s",
        cell_of_gpu=cell_of_gpu,
        x=row_x[row] + column,
        y=row_y[row],
        width=page.width,
        height=page.height,
        titles=_labels(cluster, depth - 2, tile, page.tiles),
        headings=_labels(cluster, depth - 3, heading, page.headings),
    )


def _holders(cluster: Cluster, depth: int, members: Ints) -> Ints:
    """Return what holds each member of a level; above the outermost level, runs of members."""
    return cluster.parent[depth][members].astype(np.int64) if depth > 0 else members // RUN


def _runs(values: Ints) -> Iterator[slice]:
    """Yield the slice of each run of equal entries."""
    ends = [*(np.flatnonzero(np.diff(values)) + 1).tolist(), values.size]
    yield from (slice(start, end) for start, end in pairwise([0, *ends]))


def _labels(
    cluster: Cluster, depth: int, members: Ints, corners: list[tuple[float, float]]
) -> tuple[Label, ...]:
    """Name each run of equal members of a level at its corner."""
    if depth < 0:
        return ()
    first = [int(members[run.start]) for run in _runs(members)]
    return tuple(
        Label(cluster.names[depth][member], x, y)
        for member, (x, y) in zip(first, corners, strict=True)
    )


@dataclass(slots=True)
class _Page:
    """Tiles beside each other until a line is full, then below, as words on a page."""

    width: float
    height: float
    tiles: list[tuple[float, float]]
    headings: list[tuple[float, float]]


def _best_page(groups: list[list[tuple[int, int]]], headed: bool) -> _Page:
    """Fill pages of several widths with groups of tiles; return the best shaped one."""
    widest = max(width for group in groups for width, _ in group) + TILE_GAP
    most = min(max(map(len, groups)), MAX_TILES_A_LINE)
    pages = [_fill(groups, widest * tiles, headed) for tiles in range(1, most + 1)]
    return min(pages, key=lambda page: abs(log(page.width / page.height / ASPECT)))


def _fill(groups: list[list[tuple[int, int]]], space: float, headed: bool) -> _Page:
    page = _Page(0.0, 0.0, [], [])
    for group in groups:
        if headed:
            page.height += HEADING_HEIGHT
            page.headings.append((0.0, page.height))
        x = line_height = 0.0
        for width, height in group:
            if x + width > space:
                page.height += line_height
                x = line_height = 0.0
            page.tiles.append((x, page.height + TITLE_HEIGHT))
            page.width = max(page.width, x + width)
            line_height = max(line_height, TITLE_HEIGHT + height)
            x += width + TILE_GAP
        page.height += line_height
    return page
