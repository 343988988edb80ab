"""The map of the cluster as a picture: bars of GPUs, marks, legend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.cli.format.console import LIGHT, SHADE
from placewright.cli.views.gang.chart import (
    CONDITIONS,
    Entry,
    Style,
    free_style,
    job_style,
    legend_of,
)
from placewright.cli.views.gang.facts import LETTERS, Occupancy, Parts, SharingKind
from placewright.cli.views.gang.layout import GPU_LEVEL, Layout, layout_of
from placewright.report.facts.jobs import Condition
from placewright.topology.units import WHOLE_GPU

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Bars: the rectangles that fill the cells of a picture.
#
# A cell of one GPU shows its parts. A cell of many GPUs stacks what its jobs hold of them, in
# proportion: those with a mark one by one, the others by what is done with them. What nobody holds
# lies above, and where nothing may arrive at the top.


@dataclass(frozen=True, eq=False, slots=True)
class Bars:
    """Rectangles in cells, each with the index of its style.

    Parameters
    ----------
    styles : tuple of Style
        Those of free GPUs by model, of conditions, and of jobs.
    cell, style : int64 arrays (bars,)
        The cell of each bar, and its entry of `styles`.
    job : int64 array (bars,)
        The job that the bar is of, or -1.
    left, right, low, high : float64 arrays (bars,)
        Sides as fractions of the cell, `low` and `high` from below.
    """

    styles: tuple[Style, ...]
    cell: Ints
    style: Ints
    job: Ints
    left: Floats
    right: Floats
    low: Floats
    high: Floats


class _Rows(NamedTuple):
    cell: Ints
    style: Ints
    job: Ints
    left: Floats
    right: Floats
    low: Floats
    high: Floats


NOBODY = -1


def bars_of(occupancy: Occupancy, parts: Parts, layout: Layout) -> Bars:
    """Return what fills the cells when jobs hold these parts, what lies below others first."""
    cluster = occupancy.cluster
    styles = (
        *(free_style(model) for model in range(len(cluster.gpu_models))),
        *CONDITIONS.values(),
        *(job_style(job) for job in occupancy.jobs),
    )
    first_job = len(styles) - len(occupancy.jobs)
    resting = np.where(
        occupancy.gpu_condition == Condition.AVAILABLE,
        np.repeat(cluster.gpu_model, cluster.gpu_count),
        len(cluster.gpu_models) - 1 + occupancy.gpu_condition,
    )
    if layout.level == GPU_LEVEL:
        whole, none = np.ones(cluster.num_gpus), np.zeros(cluster.num_gpus)
        nobody = np.full(cluster.num_gpus, NOBODY)
        back = _Rows(layout.cell_of_gpu, resting, nobody, none, whole, none, whole)
        front = _Rows(
            parts.gpu,
            parts.job + first_job,
            parts.job,
            parts.left,
            parts.right,
            parts.low,
            parts.high,
        )
        rows = _Rows(*(np.concatenate(pair) for pair in zip(back, front, strict=True)))
    else:
        rows = _stacked(occupancy, parts, layout, resting, first_job)
    return Bars(styles, *rows)


def _stacked(
    occupancy: Occupancy, parts: Parts, layout: Layout, resting: Ints, first_job: int
) -> _Rows:
    """Return the bars of cells of many GPUs: from below jobs in their order, then what is free."""
    cells = layout.x.size
    gpus = np.bincount(layout.cell_of_gpu, minlength=cells)
    like = _representatives(occupancy)
    unused = WHOLE_GPU - parts.used(layout.cell_of_gpu.size)
    # What stays lies below what arrives, and what is free in the order of models and conditions.
    stays = np.array([not job.use.arrives for job in occupancy.jobs], dtype=np.bool_)
    cell = np.concatenate([layout.cell_of_gpu[parts.gpu], layout.cell_of_gpu])
    job = np.concatenate([like[parts.job], np.full(unused.size, NOBODY)])
    style = np.concatenate([like[parts.job] + first_job, resting])
    layer = np.concatenate([np.where(stays[parts.job], 0, 1), np.full(unused.size, 2)])
    amount = np.concatenate([parts.milli, unused])
    keys, where = np.unique(
        np.stack([cell, layer, style, job], axis=1), axis=0, return_inverse=True
    )
    heights = np.bincount(where.ravel(), weights=amount) / (
        WHOLE_GPU * np.maximum(gpus[keys[:, 0]], 1)
    )
    tops = heights.cumsum()
    start = np.searchsorted(keys[:, 0], keys[:, 0])
    high = tops - (tops - heights)[start]
    low = high - heights
    some = heights > 0
    edges = np.zeros(int(some.sum()))
    return _Rows(
        keys[some, 0], keys[some, 2], keys[some, 3], edges, edges + 1, low[some], high[some]
    )


def _representatives(occupancy: Occupancy) -> Ints:
    """Return of each job the one as which it is drawn: itself if it has a mark."""
    first: dict[str, int] = {}
    return np.array(
        [i if job.mark else first.setdefault(job.use, i) for i, job in enumerate(occupancy.jobs)],
        dtype=np.int64,
    )


class Mark(NamedTuple):
    """A letter of a job in what it fills of a row.

    Parameters
    ----------
    style
        Index in `Bars.styles`.
    x, y
        Upper left corner of the cell that it stands in.
    across, down
        Where it stands in the cell, as fractions.
    width, height
        Of what the job fills, in cells.
    """

    style: int
    x: float
    y: float
    across: float
    down: float
    width: float
    height: float


def joined(bars: Bars, layout: Layout) -> tuple[Bools, Bools]:
    """Return whether each bar touches one of its job to the left, and to the right (bars,).

    Only bars that fill their cells do.
    """
    order, starts, ends = _along_rows(bars, layout)
    full = (bars.job != NOBODY) & np.isclose(bars.high - bars.low, 1)
    touches = full[order[1:]] & np.isclose(starts[order[1:]], ends[order[:-1]])
    for values in (layout.row[bars.cell], bars.style, bars.low, bars.high):
        touches &= values[order[1:]] == values[order[:-1]]
    left, right = np.zeros((2, order.size), dtype=np.bool_)
    left[order[1:]], right[order[:-1]] = touches, touches
    return left, right


def marks_of(bars: Bars, layout: Layout) -> list[Mark]:
    """Return where the marks of jobs stand: once in the bars of a job that touch in a row."""
    order, starts, ends = _along_rows(bars, layout)
    left, _ = joined(bars, layout)
    marks: list[Mark] = []
    run: list[int] = []
    for i in order[bars.job[order] != NOBODY].tolist():
        if not bars.styles[int(bars.style[i])].mark:
            continue
        if left[i]:
            marks.pop()
            run.append(i)
        else:
            run = [i]
        # In the middle cell, rather than on the line between two.
        middle = run[(len(run) - 1) // 2]
        cell = bars.cell[middle]
        marks.append(
            Mark(
                style=int(bars.style[i]),
                x=float(layout.x[cell]),
                y=float(layout.y[cell]),
                across=float(bars.left[middle] + bars.right[middle]) / 2,
                down=1 - float(bars.low[middle] + bars.high[middle]) / 2,
                width=float(ends[i] - starts[run[0]]),
                height=float(bars.high[middle] - bars.low[middle]),
            )
        )
    return marks


def _along_rows(bars: Bars, layout: Layout) -> tuple[Ints, Floats, Floats]:
    """Return the order by row, style, height and place, and where each bar begins and ends."""
    x = layout.x[bars.cell]
    starts, ends = x + bars.left, x + bars.right
    order = np.lexsort((starts, bars.high, bars.low, bars.style, layout.row[bars.cell]))
    return order, starts, ends


# The map of a cluster, round or plan as a matplotlib figure, with its legend.


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
    add_legend(axes, entries, width + LEGEND_GAP, int(lines))
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
                    ink_on(style),
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


def ink_on(style: Style) -> str:
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


def add_legend(axes: Axes, entries: list[Entry], left: float, lines: int) -> None:
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
                    color=ink_on(style),
                    ha="center",
                    va="center",
                    clip_on=False,
                    bbox=_patch(style.colour if style.hatch else None),
                )
            axes.text(left + SWATCH + 0.07, middle, text, size=8, va="center", clip_on=False)
        left += SWATCH + LEGEND_GAP + LETTER * max(len(entry.text) for entry in column)
