"""The graph of a cluster as a picture: hosts with the links of their GPUs, in the network above."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, cos, pi, sin, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from placewright.cli.views.gang.chart import Style, legend_of
from placewright.cli.views.gang.facts import LETTERS, Occupancy
from placewright.cli.views.gang.layout import layout_of
from placewright.cli.views.gang.picture import (
    GREY,
    INK,
    LEGEND_GAP,
    LINE,
    add_legend,
    bars_of,
    ink_on,
)
from placewright.report.text import number, shortened
from placewright.topology import Cluster, GpuLinks
from placewright.topology.gpu_links import LINK_KINDS, LinkKind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_HOSTS = 256
LARGE, SMALL = 3.2, 0.95
"""Sides of the tile of a host, in inches, if there is one and if there are many."""
NUMBERED = 1.4
"""From there on tiles have space for the numbers of GPUs."""
PAD, TITLE, GAP = 0.1, 0.24, 0.12
WIDE = (400.0, 300.0)
"""A paper on which every GPU has a cell."""
COLOURS: dict[LinkKind, str] = {
    "nvlink": "#2e7d32",
    "xgmi": "#2e7d32",
    "pcie": "#1565c0",
    "numa": "#90a4ae",
    "system": "#cfd8dc",
}
MOST_NAME = 24


@dataclass(frozen=True, slots=True)
class _Box:
    """A domain, or a host, with its size and what it holds at which offset, in inches."""

    title: str
    width: float
    height: float
    inside: tuple[tuple[float, float, _Box], ...] = ()
    host: int = -1


class _Gpu(NamedTuple):
    """Where a GPU is drawn, and who has it."""

    x: float
    y: float
    style: Style | None


def draw_links(occupancy: Occupancy) -> Figure:
    """Return a figure of all hosts with their GPUs, who holds them, and links; domains around them.

    Raises ValueError if there are more than `MAX_HOSTS` hosts.
    """
    from matplotlib.figure import Figure

    cluster = occupancy.cluster
    if cluster.num_hosts > MAX_HOSTS:
        raise ValueError(
            f"the cluster has {cluster.num_hosts:,} hosts; expected at most {MAX_HOSTS} to draw"
        )
    side = max(LARGE / sqrt(cluster.num_hosts), SMALL)
    whole = _packed("", list(_boxes(cluster, 0, np.arange(cluster.num_hosts), side)))
    entries = [*legend_of(occupancy, len(LETTERS))]
    kinds = _kinds(cluster)
    height = max(whole.height, LINE * (len(entries) + len(kinds) + 2))
    figure = Figure(figsize=(whole.width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, whole.width)
    axes.set_ylim(height, 0)
    axes.set_axis_off()
    _draw(axes, cluster, whole, 0.0, 0.0, _styles(occupancy))
    add_legend(axes, entries, whole.width + LEGEND_GAP, len(entries))
    _add_kinds(axes, kinds, whole.width + LEGEND_GAP, LINE * (len(entries) + 1))
    return figure


def _styles(occupancy: Occupancy) -> list[Style | None]:
    """Return who has each GPU: of several the one with most of it."""
    layout = layout_of(occupancy.cluster, *WIDE, shared=bool(occupancy.sharing))
    bars = bars_of(occupancy, occupancy.maps[-1], layout)
    area = (bars.right - bars.left) * (bars.high - bars.low)
    found: dict[int, Style] = {}
    for i in np.argsort(area, kind="stable").tolist():
        found[int(bars.cell[i])] = bars.styles[bars.style[i]]
    return [found.get(cell) for cell in layout.cell_of_gpu.tolist()]


def _boxes(cluster: Cluster, depth: int, hosts: np.ndarray, side: float) -> Iterator[_Box]:
    """Yield the domains of a level that hold some hosts, each with what is in it."""
    if depth == len(cluster.levels) - 1:
        for host in hosts.tolist():
            name = shortened(cluster.hosts[host], MOST_NAME)
            yield _Box(name, side, side + TITLE, host=host)
        return
    level = cluster.levels[depth]
    width = cluster.uplink_mbps(depth) if level in cluster.links else None
    domain = cluster.domain[depth]
    for d in dict.fromkeys(domain[hosts].tolist()):
        name = shortened(cluster.names[depth][d], MOST_NAME)
        wide = "" if width is None else f", uplink {number(int(width[d]) / 1000)} Gbit/s"
        inside = _boxes(cluster, depth + 1, hosts[domain[hosts] == d], side)
        yield _packed(f"{level} {name}{wide}", list(inside))


def _packed(title: str, boxes: list[_Box]) -> _Box:
    """Return a box with others in lines from left to right, about half as wide again as high."""
    area = sum((box.width + GAP) * (box.height + GAP) for box in boxes)
    most = max(sqrt(1.5 * area), max(box.width for box in boxes)) + GAP
    if all(box.host >= 0 for box in boxes):  # hosts in a grid without a rest, where there is one
        columns = max(1, min(len(boxes), ceil(sqrt(1.5 * len(boxes)))))
        even = [c for c in range(columns, 0, -1) if len(boxes) % c == 0 and 2 * c >= columns]
        most = (even[0] if even else columns) * (boxes[0].width + GAP) + GAP
    top = (TITLE if title else 0.0) + PAD
    x, y, line, right = PAD, top, 0.0, 0.0
    inside = []
    for box in boxes:
        if x > PAD and x + box.width > most + PAD:
            x, y, line = PAD, y + line + GAP, 0.0
        inside.append((x, y, box))
        x, line = x + box.width + GAP, max(line, box.height)
        right = max(right, x - GAP)
    wide = max(right + PAD, 0.075 * len(title))
    return _Box(title, wide, y + line + PAD, tuple(inside))


def _draw(
    axes: Axes, cluster: Cluster, box: _Box, x: float, y: float, styles: list[Style | None]
) -> None:
    """Draw a box with its upper left corner at a place, and what is in it."""
    from matplotlib.patches import Rectangle

    if box.host >= 0:
        _draw_host(axes, cluster, box, x, y, styles)
        return
    if box.title:
        axes.add_patch(
            Rectangle((x, y), box.width, box.height, fill=False, edgecolor=GREY, linewidth=0.7)
        )
        axes.text(x + PAD, y + TITLE - 0.05, box.title, size=8, color=INK)
    for right, down, one in box.inside:
        _draw(axes, cluster, one, x + right, y + down, styles)


def _draw_host(
    axes: Axes, cluster: Cluster, box: _Box, x: float, y: float, styles: list[Style | None]
) -> None:
    """Draw the GPUs of a host in a circle, and their links, the widest on top."""
    from matplotlib.patches import Circle

    host, side = box.host, box.width
    first, count = int(cluster.gpu_start[host]), int(cluster.gpu_count[host])
    axes.text(x + side / 2, y + side + TITLE - 0.09, box.title, size=7, ha="center", color=INK)
    radius = min(0.1 * side, 0.27 * side * pi / max(count, 3))
    gpus = [
        _Gpu(
            x + side / 2 + (0.45 * side - radius) * sin(2 * pi * (i + 0.5) / count),
            y + side / 2 - (0.45 * side - radius) * cos(2 * pi * (i + 0.5) / count),
            styles[first + i],
        )
        for i in range(count)
    ]
    table = int(cluster.gpu_links_of[host])
    if table >= 0:
        _draw_wires(axes, cluster.gpu_links[table], gpus, side)
    for i, (a, b, style) in enumerate(gpus):
        colour = "#ffffff" if style is None else style.colour
        circle = Circle((a, b), radius, facecolor=colour, edgecolor=INK, linewidth=0.6, zorder=3)
        axes.add_patch(circle)
        ink = INK if style is None else ink_on(style)
        if style is not None and style.mark and radius > 0.05:
            size = min(90 * radius, 9)
            axes.text(a, b, style.mark, size=size, ha="center", va="center", zorder=4, color=ink)
        if side > NUMBERED:
            out = 1 + 1.5 * radius / (0.45 * side - radius)
            middle = x + side / 2, y + side / 2
            axes.text(
                middle[0] + out * (a - middle[0]),
                middle[1] + out * (b - middle[1]),
                str(i),
                size=7,
                ha="center",
                va="center",
                color=GREY,
            )


def _draw_wires(axes: Axes, links: GpuLinks, gpus: list[_Gpu], side: float) -> None:
    """Draw each link as a line: its colour says the kind, its width the bandwidth."""
    widest = max(max(row) for row in links.mbps) or 1
    for i, a in enumerate(gpus):
        for j, b in enumerate(gpus[:i]):
            kind, mbps = links.kind[i][j], links.mbps[i][j]
            if kind:
                axes.plot(
                    (a.x, b.x),
                    (a.y, b.y),
                    color=COLOURS[LINK_KINDS[kind - 1]],
                    linewidth=max(0.3, 1.1 * sqrt(side) * mbps / widest * 2),
                    zorder=1 + kind / 10,
                    solid_capstyle="butt",
                )


def _kinds(cluster: Cluster) -> list[tuple[LinkKind, str]]:
    """Return the kinds of links that there are, the best first, with the bandwidths of each."""
    seen: dict[int, set[int]] = {}
    for links in cluster.gpu_links:
        for kinds, widths in zip(links.kind, links.mbps, strict=True):
            for kind, mbps in zip(kinds, widths, strict=True):
                if kind:
                    seen.setdefault(kind, set()).add(mbps)
    found = []
    for kind in sorted(seen, reverse=True):
        low, high = (number(one / 1000) for one in (min(seen[kind]), max(seen[kind])))
        between = low if low == high else f"{low} to {high}"
        found.append((LINK_KINDS[kind - 1], f"{LINK_KINDS[kind - 1]}, {between} Gbit/s"))
    return found


def _add_kinds(axes: Axes, kinds: list[tuple[LinkKind, str]], left: float, top: float) -> None:
    """Add the kinds of links to the legend."""
    for line, (kind, text) in enumerate(kinds):
        y = top + LINE * (line + 0.5)
        axes.plot((left, left + 0.25), (y, y), color=COLOURS[kind], linewidth=2.5, clip_on=False)
        axes.text(left + 0.32, y, text, size=8, va="center", clip_on=False)
