"""Leases as a picture, and what policy `deadline` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from placewright.cli.format.console import EFFORT, FREE, LIGHT, UNHEALTHY, band_colour
from placewright.cli.views.deadline.chart import (
    KINDS,
    Chart,
    Kind,
    band_text,
    chart_of,
    heading,
    print_leases,
    ticks,
)
from placewright.cli.views.deadline.tables import (
    deadlines_text,
    print_broken,
    print_deadlines,
    print_promises,
)
from placewright.cli.views.policies import PolicyViews
from placewright.report.facts.promises import promises_of
from placewright.report.text import after, count_gpus, gpus, shortened

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.round import Round

MAX_JOBS = 60
LEGEND_COLUMNS = 4

WIDTH = 8.0
ROW, LINE, STACK, HISTOGRAM = 0.17, 0.24, 2.6, 0.5
NAME = 0.075
"""Space for a character of a job's name."""
TOP = 0.5
BETWEEN = 0.1
"""All in inches."""
BAR = 0.8
"""Height of a bar, as a fraction of its row."""
TICKS = 10
"""Labels of times at most."""
HATCH = "//////"
HATCHES = {Kind.LATER: "...", Kind.EFFORT: "|||"}
AWAY: dict[str, Any] = {
    "facecolor": "none",
    "edgecolor": "#999999",
    "hatch": "\\\\\\",
    "linewidth": 0,
}
GREY = "#555555"


def add_leases(figure: Figure, chart: Chart) -> None:
    """Draw the leases below all that the figure shows: jobs if at most `MAX_JOBS`, else GPUs."""
    from matplotlib.transforms import Bbox

    width, height = figure.get_size_inches()
    few = len(chart.rows) <= MAX_JOBS
    left = NAME * max((len(_label(chart, i)) for i in range(len(chart.rows))), default=0)
    left = left if few else NAME * len(gpus(chart.total)) + 2 * NAME
    patches = _job_legend(chart) if few else _stack_legend(chart)
    top = TOP + LINE + ROW * -(-len(patches) // LEGEND_COLUMNS) + BETWEEN
    tall = ROW * max(len(chart.rows), 1) if few else STACK
    figure.text(0, -TOP / height, _title(chart), size=9, weight="bold", va="top")
    figure.legend(
        handles=patches,
        loc="upper left",
        bbox_to_anchor=(0, -(TOP + LINE) / height),
        ncols=LEGEND_COLUMNS,
        frameon=False,
        fontsize=8,
        borderaxespad=0,
        borderpad=0,
    )

    def below(start: float, size: float) -> Axes:
        """Add axes from this depth on, of this height, to the right of the labels."""
        box = Bbox.from_bounds(left / width, -(start + size) / height, WIDTH / width, size / height)
        axes = figure.add_axes(box.bounds)
        axes.set_xlim(0, chart.leases)
        axes.tick_params(labelsize=7, length=2, color=GREY)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        return axes

    axes = below(top, tall)
    if few:
        _add_jobs(axes, chart)
    else:
        _add_stack(axes, chart)
        axes.set_xticks([])
        axes = below(top + tall + LINE, HISTOGRAM)
        axes.bar(np.arange(chart.leases) + 0.5, chart.due, width=1, color=GREY)
        axes.set_yticks([int(chart.due.max(initial=0))])
        axes.text(0, 1.02, "promises due", size=7, va="bottom", transform=axes.transAxes)
    seconds = ticks(chart, chart.leases / TICKS)
    axes.set_xticks(
        [second / chart.length_s for second in seconds], [after(second, 0) for second in seconds]
    )


def _title(chart: Chart) -> str:
    return f"{heading(chart)}; the cluster has {count_gpus(chart.total)}"


def _label(chart: Chart, index: int) -> str:
    row = chart.rows[index]
    return f"{shortened(row.name)}  {gpus(row.milli_gpu)}"


def _add_jobs(axes: Axes, chart: Chart) -> None:
    """Draw a bar for each time that a job runs, and a line where it is due."""
    rows = max(len(chart.rows), 1)
    axes.set_ylim(rows, 0)
    gone = np.where(chart.away > 0, rows, 0)
    axes.stairs(gone, np.arange(chart.leases + 1), fill=True, **AWAY)
    for index, row in enumerate(chart.rows):
        y = index + (1 - BAR) / 2
        until = chart.leases if row.due is None else min(max(row.due, 0), chart.leases)
        if row.kind is not Kind.EFFORT:
            axes.broken_barh([(0, until)], (y, BAR), facecolors=FREE[0])
        spans = [(first, end - first) for first, end in row.times]
        axes.broken_barh(spans, (y, BAR), **_style(row.kind))
    marks = [(row.due, i) for i, row in enumerate(chart.rows) if row.due is not None]
    marks = [(due, i) for due, i in marks if 0 <= due <= chart.leases]
    axes.vlines(
        [due for due, _ in marks],
        [i for _, i in marks],
        [i + 1 for _, i in marks],
        colors="black",
        linewidths=1.2,
        clip_on=False,
    )
    axes.set_yticks(
        np.arange(len(chart.rows)) + 0.5, [_label(chart, i) for i in range(len(chart.rows))]
    )
    axes.tick_params(axis="y", length=0)


def _style(kind: Kind) -> dict[str, Any]:
    """Return how a bar is filled; what is only offered is hatched."""
    if kind is Kind.OFFER:
        return {"facecolor": "none", "edgecolor": KINDS[kind], "hatch": HATCH, "linewidth": 0.5}
    return {
        "facecolor": KINDS[kind],
        "edgecolor": LIGHT,
        "hatch": HATCHES.get(kind),
        "linewidth": 0,
    }


def _add_stack(axes: Axes, chart: Chart) -> None:
    """Stack GPUs: promises of most value below, best effort of this lease, and what is away."""
    edges = np.arange(chart.leases + 1)
    effort = np.zeros(chart.leases, dtype=np.int64)
    effort[0] = chart.effort
    layers = [(band.milli_gpu, band_colour(i)) for i, band in enumerate(chart.bands)]
    bottom = np.zeros(chart.leases, dtype=np.int64)
    for milli, colour in (*layers, (effort, EFFORT)):
        axes.stairs(bottom + milli, edges, baseline=bottom, fill=True, color=colour, linewidth=0)
        bottom = bottom + milli
    whole = np.full(chart.leases, chart.total)
    there = whole - chart.away
    axes.stairs(there, edges, baseline=bottom, fill=True, color=FREE[0], linewidth=0)
    axes.stairs(whole, edges, baseline=there, fill=True, color=UNHEALTHY, linewidth=0)
    axes.set_ylim(0, chart.total)
    heights = np.linspace(0, chart.total, 5)
    axes.set_yticks(heights, [gpus(height) for height in heights])


def _job_legend(chart: Chart) -> list[Artist]:
    """Name the colours of jobs."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    used = {row.kind for row in chart.rows}
    return [
        *(Patch(**_style(kind), label=f" {kind}") for kind in Kind if kind in used),
        Patch(color=FREE[0], label=" waits"),
        *([Patch(**AWAY, label=" hosts away")] if chart.away.any() else []),
        Line2D([], [], color="black", label=" due"),
    ]


def _stack_legend(chart: Chart) -> list[Artist]:
    """Name the colours of a stack."""
    from matplotlib.patches import Patch

    return [
        *(
            Patch(color=band_colour(index), label=f" promised, {band_text(band)}")
            for index, band in enumerate(chart.bands)
        ),
        *([Patch(color=EFFORT, label=f" {Kind.EFFORT}")] if chart.effort else []),
        Patch(color=FREE[0], label=" not promised"),
        *([Patch(color=UNHEALTHY, label=" away")] if chart.away.any() else []),
    ]


def _alert(console: Console, round_: Round, plan: Plan) -> None:
    promises = promises_of(round_, plan)
    if promises is not None:
        print_broken(console, promises)


def _tables(console: Console, round_: Round, plan: Plan) -> None:
    promises = promises_of(round_, plan)
    if promises is not None:
        print_promises(console, promises)


def _charts(console: Console, round_: Round, plan: Plan) -> None:
    """Print what is promised: what is broken first, the chart of leases, and the tables."""
    promises = promises_of(round_, plan)
    if promises is not None:
        console.print()
        print_broken(console, promises)
        print_leases(console, chart_of(promises))
        console.print()
        print_promises(console, promises)


def _panels(figure: Figure, round_: Round, plan: Plan | None) -> None:
    promises = promises_of(round_, plan)
    if promises is not None:
        add_leases(figure, chart_of(promises))


VIEWS = PolicyViews(
    round_text=deadlines_text,
    round_charts=print_deadlines,
    plan_alert=_alert,
    plan_tables=_tables,
    plan_charts=_charts,
    panels=_panels,
)
