"""Pictures of rows; matplotlib draws them and is imported only then.

Each function raises ImportError without matplotlib, and OSError or ValueError if the file cannot be
written or its ending names no kind of picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

from benchmarks.report import OURS, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["figure_bars", "over_cost", "over_size"]

PERCENT_FLOOR = 0.001
"""Gaps of at most this many percent share the bottom line."""

_MARKS = ("o", "s", "^", "D", "v", "P")
_COLOURS = ("#0f5ea8", "#7f7f7f", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")
_LINE_COLOURS = (_COLOURS[0], _COLOURS[5], _COLOURS[3])
_GAP = f"gap to the best bound, % (at least {PERCENT_FLOOR})"


def over_cost(benchmark: str, rows: Sequence[Row], target: Path) -> None:
    """Draw the gap to the best bound over CPU seconds, a mark per row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    axes = figure.subplots()
    for i, method in enumerate(dict.fromkeys(row.method for row in rows)):
        points = [
            (row.cpu_seconds, percent)
            for row in rows
            if row.method == method
            and row.cpu_seconds is not None
            and (percent := _best_percent(row)) is not None
        ]
        axes.scatter(
            [x for x, _ in points],
            [y for _, y in points],
            label=method,
            marker=_MARKS[i % len(_MARKS)],
            color=_COLOURS[i % len(_COLOURS)],
            alpha=0.75,
            linewidths=0,
        )
    axes.set(title=f"{benchmark}: down and to the left is better", xlabel="CPU seconds")
    _finish(axes, ylabel=_GAP)
    axes.legend(frameon=False)
    figure.savefig(target, dpi=150)


def over_size(
    benchmark: str,
    rows: Sequence[Row],
    target: Path,
    *,
    line_of: Callable[[Row], str],
    gpus_of: Callable[[Row], int],
) -> None:
    """Draw gap and seconds over GPUs: a mark per row, a line through the medians per size.

    Lines of placewright are solid, those of any other method dashed.

    Parameters
    ----------
    line_of
        Rows of the same method and of equal text share a line; the text is its label.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = list(dict.fromkeys(line_of(row) for row in rows))
    for axes, read in ((left, _best_percent), (right, _seconds)):
        for method in dict.fromkeys(row.method for row in rows):
            for i, name in enumerate(names):
                mine = [row for row in rows if row.method == method and line_of(row) == name]
                points: dict[int, list[float]] = {}
                for row in mine:
                    if (y := read(row)) is not None:
                        points.setdefault(gpus_of(row), []).append(y)
                if not points:
                    continue
                colour, solid = _LINE_COLOURS[i % len(_LINE_COLOURS)], method == OURS
                axes.plot(
                    sorted(points),
                    [median(points[x]) for x in sorted(points)],
                    label=name if solid else f"{name}, {method}",
                    color=colour,
                    linestyle="-" if solid else "--",
                )
                axes.scatter(
                    [x for x, ys in points.items() for _ in ys],
                    [y for ys in points.values() for y in ys],
                    color=colour,
                    marker="o" if solid else "x",
                    s=14,
                    alpha=0.6,
                )
        _finish(axes, ylabel=_GAP if axes is left else "seconds from file to plan")
        sizes = sorted({gpus_of(row) for row in rows})
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.set_xticks([], minor=True)
        axes.set(xlabel="GPUs")
    figure.legend(*right.get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.suptitle(f"{benchmark}: lines are medians per size, marks are rounds")
    figure.savefig(target, dpi=150)


def figure_bars(rows: Sequence[Row], target: Path, panels: Mapping[str, Mapping[str, str]]) -> None:
    """Draw figures as bars: a line of panels per case, a bar per method, the mean over the seeds.

    A thin line goes from the least to the most of the seeds.

    Parameters
    ----------
    panels
        By the label of its axis, the groups of bars of a panel: their labels, by the figure.
    """
    from matplotlib.figure import Figure

    cases = list(dict.fromkeys(row.case for row in rows))
    methods = list(dict.fromkeys(row.method for row in rows))
    figure = Figure(figsize=(4.5 * len(panels), 3.5 * len(cases)), layout="constrained")
    grid = figure.subplots(len(cases), len(panels), squeeze=False)
    width = 0.8 / len(methods)
    for case, line in zip(cases, grid, strict=True):
        for (label, titles), axes in zip(panels.items(), line, strict=True):
            for i, method in enumerate(methods):
                mine = [row for row in rows if (row.case, row.method) == (case, method)]
                for x, title in enumerate(titles):
                    found = [row.figures[title] for row in mine if title in row.figures]
                    if not found:
                        continue
                    at, mean = x + (i - (len(methods) - 1) / 2) * width, fmean(found)
                    around = [[mean - min(found)], [max(found) - mean]]
                    named = {"label": method} if x == 0 else {}
                    colour = _COLOURS[i % len(_COLOURS)]
                    axes.bar(at, mean, width, yerr=around, color=colour, ecolor="0.3", **named)
            axes.set_xticks(range(len(titles)), list(titles.values()))
            axes.set(title=case, ylabel=label)
            axes.grid(axis="y", alpha=0.3, linewidth=0.5)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False)
    figure.savefig(target, dpi=150)


def _finish(axes: Axes, ylabel: str) -> None:
    from matplotlib.ticker import LogFormatter

    axes.set(ylabel=ylabel, xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(LogFormatter())
    axes.grid(alpha=0.3, linewidth=0.5)


def _best_percent(row: Row) -> float | None:
    return None if row.best_gap is None else max(100 * row.best_gap, PERCENT_FLOOR)


def _seconds(row: Row) -> float | None:
    return row.seconds
