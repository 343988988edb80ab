"""Where each cell of a picture lies: cells in rows, rows in tiles, tiles under headings.

The four are neighbouring levels of the cluster: GPUs of hosts in racks under blocks, or, where
that is too many, hosts of racks in blocks under datacenters, and so on upwards. Where the cluster
has no such level, runs of `RUN` cells or rows take its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from placewright.topology import Cluster

MAX_CELLS = 20_000
RUN = 32
GPU_LEVEL = "GPU"

TILE_GAP = 1.0
TITLE_HEIGHT = 1.4
HEADING_HEIGHT = 2.6
HEADING_GAP = 0.4
ASPECT = 1.6

TILE_ABOVE, HEADING_ABOVE = 1, 2

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
        What one cell is: `GPU_LEVEL` or a level of the cluster.
    cell_of_gpu : int64 array (gpus,)
        The cell that each GPU belongs to. Hosts without GPUs have no cells of GPUs.
    x, y : float64 arrays (cells,)
        Upper left corner of each cell.
    width, height : float
        Size of the whole.
    titles, headings : tuple of Label
        Names of tiles, and of what holds them.
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
        cell_of_gpu = cluster.domain[depth][host_of_gpu].astype(np.int64)
        row = _holders(cluster, depth, np.arange(sizes[depth]))
    columns = np.bincount(row)
    rows = np.flatnonzero(columns)
    tile = _holders(cluster, depth - 1, rows)
    heading = _holders(cluster, depth - 2, tile) if depth > HEADING_ABOVE else 0 * tile
    order = np.lexsort((rows, tile, heading))
    rows, tile, heading = rows[order], tile[order], heading[order]

    flow = _Flow(width=float(np.sqrt(ASPECT * (row.size + rows.size))))
    corner = np.zeros((2, columns.size))
    titles, headings = [], []
    for group in _runs(heading):
        if depth > HEADING_ABOVE:
            name = cluster.names[depth - HEADING_ABOVE - 1][heading[group.start]]
            headings.append(flow.heading(name))
        for part in _runs(tile[group]):
            members = rows[group][part]
            x, y = flow.tile(int(columns[members].max()), members.size)
            corner[0, members], corner[1, members] = x, y + np.arange(members.size)
            if depth > TILE_ABOVE:
                name = cluster.names[depth - TILE_ABOVE - 1][tile[group][part.start]]
                titles.append(Label(name, x, y))
        flow.end_line()
    by_row = np.argsort(row, kind="stable")
    column = np.empty(row.size)
    column[by_row] = np.concatenate([np.arange(size) for size in columns if size])
    return Layout(
        level=levels[depth],
        cell_of_gpu=cell_of_gpu,
        x=corner[0, row] + column,
        y=corner[1, row],
        width=flow.right,
        height=flow.y,
        titles=tuple(titles),
        headings=tuple(headings),
    )


class _Flow:
    """Puts tiles beside each other until a line is full, then below, as words on a page."""

    def __init__(self, width: float) -> None:
        self.width = width
        self.x = self.y = self.right = self._line_height = 0.0

    def heading(self, text: str) -> Label:
        """Take a line for a heading."""
        self.end_line()
        self.y += HEADING_HEIGHT
        return Label(text, 0.0, self.y - HEADING_GAP)

    def tile(self, width: int, height: int) -> tuple[float, float]:
        """Take the place of a tile and its title; return the tile's upper left corner."""
        if self.x and self.x + width > self.width:
            self.end_line()
        corner = self.x, self.y + TITLE_HEIGHT
        self.right = max(self.right, self.x + width)
        self._line_height = max(self._line_height, TITLE_HEIGHT + height)
        self.x += width + TILE_GAP
        return corner

    def end_line(self) -> None:
        """Go below everything that was placed."""
        self.x, self.y, self._line_height = 0.0, self.y + self._line_height, 0.0


def _holders(cluster: Cluster, depth: int, members: Ints) -> Ints:
    """Return what holds each member of a level; above the outermost level, runs of members."""
    return cluster.parent[depth][members].astype(np.int64) if depth > 0 else members // RUN


def _runs(sorted_groups: Ints) -> Iterator[slice]:
    """Yield the slice of each run of equal entries."""
    ends = [*(np.flatnonzero(np.diff(sorted_groups)) + 1).tolist(), sorted_groups.size]
    yield from (slice(start, end) for start, end in pairwise([0, *ends]))
