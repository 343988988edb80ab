"""The map of a cluster, round or plan as a matplotlib figure, with its legend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.cli.format.colours import LIGHT, SHADE
from placewright.cli.views.gang.bars import Bars, bars_of, joined, marks_of
from placewright.cli.views.gang.facts import LETTERS, Occupancy
from placewright.cli.views.gang.layout import Layout, layout_of
from placewright.cli.views.gang.parts import SharingKind
from placewright.cli.views.gang.styles import CONDITIONS, Entry, Style, legend_of
from placewright.report.facts.jobs import Condition

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Place = TypeVar("Place", float, Floats)

PAPER = (13.0, 8.5)
BETWEEN, CAPTION = 0.35, 0.22
LINE, LEGEND_GAP, SWATCH, LETTER = 0.165, 0.25, 0.18, 0.062
LEGEND_HEIGHT = 2.4
"""All in inches; the last one is that of a legend beside a small map, before a second column."""
GAP, SEAM = 0.12, 0.01
"""Width of the line between cells, in cells, and between those of one job, in inches."""
NAME_SIZE, MARK_POINTS, LEAST_POINTS = 0.6, 9.0, 3.6
MAX_MARKS = 3000
MAX_TITLES = 600
POINTS = 72
INK, GREY = "#000000", "#555555"
NOTES = {
    SharingKind.SHARES: "GPUs in parts: shares, from below",
    SharingKind.SLICES: "MIG: where memory slices are, from below",
    SharingKind.TURNS: "side by side in a GPU: jobs take turns",
}
OUTLINES = {Condition.RESERVED: ":", Condition.TO_VACATE: "--"}


def draw_map(occupancy: Occupancy) -> Figure:
    """Return a figure of the cluster, before a plan too if that moves jobs, and of its legend."""
    from matplotlib.figure import Figure

    layout, places = _places(occupancy)
    entries = [
        Entry(f"a cell is one {layout.level}"),
        *legend_of(occupancy, len(LETTERS)),
    ]
    entries += [Entry(NOTES[sharing]) for sharing in occupancy.sharing]
    width = max(x for x, _ in places) + layout.width * layout.cell
    tall = max(y for _, y in places) + layout.height * layout.cell
    lines = -(-len(entries) // -(-len(entries) * LINE // max(tall, LEGEND_HEIGHT)))
    height = max(tall, lines * LINE)
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    # All is drawn in inches, downwards.
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_axis_off()
    for word, parts, (x, y) in zip(("before", "after"), occupancy.maps, places, strict=False):
        if occupancy.before is not None:
            axes.text(x, y - 0.06, word, size=9, va="bottom", weight="bold", clip_on=False)
        _Map(axes, layout, x, y).draw(occupancy, bars_of(occupancy, parts, layout))
    _add_legend(axes, entries, width + LEGEND_GAP, int(lines))
    return figure


def _places(occupancy: Occupancy) -> tuple[Layout, list[tuple[float, float]]]:
    """Return the layout, and where each map begins: of two, beside or below, where more is seen."""
    shared = bool(occupancy.sharing)
    width, height = PAPER
    if occupancy.before is None:
        return layout_of(occupancy.cluster, width, height, shared=shared), [(0.0, 0.0)]
    beside = layout_of(occupancy.cluster, (width - BETWEEN) / 2, height - CAPTION, shared=shared)
    below = layout_of(occupancy.cluster, width, (height - BETWEEN) / 2 - CAPTION, shared=shared)
    if below.cell > beside.cell:
        second = 2 * CAPTION + BETWEEN + below.height * below.cell
        return below, [(0.0, CAPTION), (0.0, second)]
    second = max(beside.width * beside.cell, 2 * BETWEEN) + BETWEEN
    return beside, [(0.0, CAPTION), (second, CAPTION)]


class _Map:
    """One map of a picture, from a corner in inches on."""

    def __init__(self, axes: Axes, layout: Layout, x: float, y: float) -> None:
        self.axes, self.layout, self.x, self.y = axes, layout, x, y
        self.cell = layout.cell
        self.points = self.cell * POINTS

    def draw(self, occupancy: Occupancy, bars: Bars) -> None:
        """Draw the cells with their marks, and the names."""
        x, y = self.layout.x[bars.cell], self.layout.y[bars.cell]
        left, right = joined(bars, self.layout)
        # The bars of a job go on over the line between its cells.
        seam = min(SEAM / self.cell, GAP / 2)
        boxes = _boxes(
            self.x + self.cell * (x + _inset(bars.left) - (GAP - seam) / 2 * left),
            self.x + self.cell * (x + _inset(bars.right) + (GAP - seam) / 2 * right),
            self.y + self.cell * (y + 1 - _inset(bars.low)),
            self.y + self.cell * (y + 1 - _inset(bars.high) + seam * (bars.high < 1)),
        )
        for style in np.unique(bars.style).tolist():
            self._fill(boxes[bars.style == style], bars.styles[style])
        self._outline(occupancy.gpu_condition)
        self._write(bars)

    def _fill(self, boxes: Floats, style: Style) -> None:
        from matplotlib.collections import PolyCollection

        self.axes.add_collection(
            PolyCollection(
                list(boxes),
                facecolors=style.colour,
                edgecolors=style.edge,
                hatch=style.hatch,
                linewidths=0,
            )
        )

    def _outline(self, conditions: Ints) -> None:
        """Frame the cells on no GPU of which anything may arrive, whoever holds them."""
        from matplotlib.collections import PolyCollection

        lowest = np.full(self.layout.x.size, max(Condition))
        np.minimum.at(lowest, self.layout.cell_of_gpu, conditions)
        for condition, line in OUTLINES.items():
            found = np.flatnonzero(lowest == condition)
            x, y = self.layout.x[found], self.layout.y[found]
            boxes = _boxes(
                self.x + self.cell * (x + GAP / 4),
                self.x + self.cell * (x + 1 - GAP / 4),
                self.y + self.cell * (y + GAP / 4),
                self.y + self.cell * (y + 1 - GAP / 4),
            )
            self.axes.add_collection(
                PolyCollection(
                    list(boxes),
                    facecolors="none",
                    edgecolors=SHADE,
                    linestyles=line,
                    linewidths=0.8,
                )
            )

    def _write(self, bars: Bars) -> None:
        """Write the marks of jobs where there is space, and the names of rows and tiles."""
        marks = marks_of(bars, self.layout)
        for mark in marks[:MAX_MARKS]:
            style = bars.styles[mark.style]
            space = min(0.75 * mark.height, 0.9 * mark.width)
            size = min(space * self.points, MARK_POINTS)
            if size >= LEAST_POINTS:
                self._text(
                    mark.x + _inset(mark.across),
                    mark.y + _inset(mark.down),
                    style.mark,
                    size,
                    _ink(style),
                    ha="center",
                    va="center",
                    behind=style.colour if style.hatch else None,
                )
        size = NAME_SIZE * self.points * self.layout.letters
        for label in self.layout.names:
            self._text(label.x, label.y, label.text, size, GREY, ha="right", va="center")
        if len(self.layout.titles) <= MAX_TITLES:
            for label in self.layout.titles:
                self._text(label.x, label.y - 0.2 * self.layout.letters, label.text, size, INK)
        for label in self.layout.headings:
            y = label.y - 0.3 * self.layout.letters
            self._text(label.x, y, label.text, 1.2 * size, INK, weight="bold")

    def _text(
        self,
        x: float,
        y: float,
        text: str,
        size: float,
        colour: str,
        *,
        ha: str = "left",
        va: str = "baseline",
        weight: str = "normal",
        behind: str | None = None,
    ) -> None:
        self.axes.text(
            self.x + self.cell * x,
            self.y + self.cell * y,
            text,
            size=size,
            color=colour,
            ha=ha,
            va=va,
            weight=weight,
            clip_on=False,
            bbox=_patch(behind),
        )


def _inset(side: Place) -> Place:
    """Return where a place in a cell is once there is a line around the cell."""
    return GAP / 2 + side * (1 - GAP)


def _boxes(left: Floats, right: Floats, lower: Floats, upper: Floats) -> Floats:
    """Return the corners of rectangles (boxes, 4, 2)."""
    corners = [(left, lower), (right, lower), (right, upper), (left, upper)]
    return np.stack([np.stack(corner, axis=-1) for corner in corners], axis=1)


def _patch(colour: str | None) -> dict[str, Any] | None:
    """Return what lies behind a letter, so that it is read on a hatch."""
    return None if colour is None else {"facecolor": colour, "linewidth": 0, "pad": 0.6}


def _ink(style: Style) -> str:
    """Return the colour of a letter that is read on this one."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(style.colour)
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else LIGHT


def columns_of(entries: list[Entry], lines: int) -> list[list[Entry]]:
    """Divide a legend into columns of so many lines, none of which ends with a mere heading."""
    columns: list[list[Entry]] = [[]]
    for entry, below in zip(entries, [*entries[1:], Entry("")], strict=True):
        alone = entry.style is None and below.style is not None
        if len(columns[-1]) + alone >= lines:
            columns.append([])
        columns[-1].append(entry)
    return columns


def _add_legend(axes: Axes, entries: list[Entry], left: float, lines: int) -> None:
    """Write the legend in columns of so many lines, to the right of what the figure shows."""
    from matplotlib.patches import Rectangle

    outlines = {CONDITIONS[condition]: line for condition, line in OUTLINES.items()}
    for column in columns_of(entries, lines):
        for number, (text, style, _) in enumerate(column):
            middle = LINE * (number + 0.5)
            if style is None:
                axes.text(left, middle, text, size=8, va="center", color=GREY, clip_on=False)
                continue
            axes.add_patch(
                Rectangle(
                    (left, middle - 0.4 * LINE),
                    SWATCH,
                    0.8 * LINE,
                    facecolor=style.colour,
                    edgecolor=style.edge,
                    hatch=style.hatch,
                    linestyle=outlines.get(style, "-"),
                    linewidth=0.8 if style in outlines else 0,
                    clip_on=False,
                )
            )
            if style.mark:
                axes.text(
                    left + SWATCH / 2,
                    middle,
                    style.mark,
                    size=7,
                    color=_ink(style),
                    ha="center",
                    va="center",
                    clip_on=False,
                    bbox=_patch(style.colour if style.hatch else None),
                )
            axes.text(left + SWATCH + 0.07, middle, text, size=8, va="center", clip_on=False)
        left += SWATCH + LEGEND_GAP + LETTER * max(len(entry.text) for entry in column)
