"""The map of a cluster, round or plan as a matplotlib figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from placewright.array_types import Floats
from placewright.cli.format.colours import (
    LARGE,
    PLACED,
    RUNNING,
    UNHEALTHY,
    free_colour,
    job_colour,
)
from placewright.cli.format.text import count, count_gpus, shortened
from placewright.cli.views.gang.facts import Occupancy
from placewright.cli.views.gang.layout import GPU_LEVEL, Layout, layout_of
from placewright.topology.units import WHOLE_GPU

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

MAX_TITLES = 400
CELL_INCHES = 0.15
MIN_INCHES, MAX_INCHES = 3.0, 14.0
GAP = 0.14
"""Width of the line between cells, as a fraction of a cell."""


def draw_map(occupancy: Occupancy) -> Figure:
    """Return a figure that is filled by the cluster, with a legend at its side."""
    from matplotlib.figure import Figure

    layout = layout_of(occupancy.cluster)
    width = min(max(CELL_INCHES * layout.width, MIN_INCHES), MAX_INCHES)
    figure = Figure(figsize=(width, layout.height * width / layout.width))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, layout.width)
    axes.set_ylim(layout.height, 0)
    axes.set_axis_off()
    if layout.level == GPU_LEVEL:
        _add_gpus(axes, occupancy, layout)
    else:
        _add_mixtures(axes, occupancy, layout)
    _add_labels(axes, layout)
    figure.legend(
        handles=_legend(occupancy, layout.level),
        title=f"a cell is one {layout.level}",
        loc="upper left",
        bbox_to_anchor=(1 + 0.2 / width, 1),
        frameon=False,
        fontsize=8,
        title_fontsize=8,
        alignment="left",
        borderaxespad=0,
    )
    return figure


def _add_gpus(axes: Axes, occupancy: Occupancy, layout: Layout) -> None:
    """Draw GPUs one by one, kept work at the bottom of a cell and placed work above it."""
    running = occupancy.running / WHOLE_GPU
    placed = occupancy.placed / WHOLE_GPU
    unused = np.zeros_like(running)
    palette = _rgb(*(job_colour(index) for index in range(max(len(occupancy.jobs), 1))))
    _add_bars(axes, layout, unused, unused + 1, _resting(occupancy))
    _add_bars(axes, layout, unused, running, np.broadcast_to(_rgb(RUNNING), (running.size, 3)))
    _add_bars(axes, layout, running, running + placed, palette[occupancy.owner])


def _add_bars(axes: Axes, layout: Layout, low: Floats, high: Floats, colours: Floats) -> None:
    """Fill each cell from one height to another, as fractions of the cell from below."""
    from matplotlib.collections import PolyCollection

    some = high > low
    left, right = layout.x[some] + GAP / 2, layout.x[some] + 1 - GAP / 2
    bottom = layout.y[some] + 1 - GAP / 2
    lower, upper = bottom - low[some] * (1 - GAP), bottom - high[some] * (1 - GAP)
    corners = [(left, lower), (right, lower), (right, upper), (left, upper)]
    boxes = np.stack([np.stack(corner, axis=-1) for corner in corners], axis=1)
    axes.add_collection(PolyCollection(list(boxes), facecolors=colours[some], linewidths=0))


def _add_mixtures(axes: Axes, occupancy: Occupancy, layout: Layout) -> None:
    """Draw cells of many GPUs, each in the mean colour of what they do."""
    running = occupancy.running[:, None] / WHOLE_GPU
    placed = occupancy.placed[:, None] / WHOLE_GPU
    colours = (
        running * _rgb(RUNNING)
        + placed * _rgb(PLACED)
        + (1 - running - placed) * _resting(occupancy)
    )
    cells = layout.x.size
    gpus = np.bincount(layout.cell_of_gpu, minlength=cells)
    sums = [np.bincount(layout.cell_of_gpu, weights=band, minlength=cells) for band in colours.T]
    # A cell without GPUs stays white.
    means = np.where(gpus > 0, np.stack(sums) / np.maximum(gpus, 1), 1.0).T
    _add_bars(axes, layout, np.zeros(cells), np.ones(cells), means)


def _resting(occupancy: Occupancy) -> Floats:
    """Colour of each GPU where nobody uses it: by model, or that of unhealthy hosts."""
    cluster = occupancy.cluster
    models = _rgb(*(free_colour(model) for model in range(len(cluster.gpu_models))))
    by_host = np.where(occupancy.healthy[:, None], models[cluster.gpu_model], _rgb(UNHEALTHY))
    return np.repeat(by_host, cluster.gpu_count, axis=0)


def _rgb(*colours: str) -> Floats:
    """Red, green and blue of each colour, 0 to 1."""
    from matplotlib.colors import to_rgb

    return np.array([to_rgb(colour) for colour in colours])


def _add_labels(axes: Axes, layout: Layout) -> None:
    """Name tiles, if they are few enough to be read, and what holds them, if it is not alone."""
    if len(layout.titles) <= MAX_TITLES:
        for label in layout.titles:
            axes.text(label.x, label.y, label.text, size=6, va="bottom", color="#555555")
    if len(layout.headings) > 1:
        for label in layout.headings:
            axes.text(label.x, label.y, label.text, size=9, va="bottom", weight="bold")


def _legend(occupancy: Occupancy, level: str) -> list[Patch]:
    """Name the colours: what is free, broken or running, then the placed jobs, largest first."""
    from matplotlib.patches import Patch

    patches = [
        Patch(color=free_colour(index), label=f"free {model}")
        for index, model in enumerate(occupancy.cluster.gpu_models)
    ]
    if not occupancy.healthy.all():
        patches.append(Patch(color=UNHEALTHY, label=occupancy.unusable))
    if occupancy.running.any():
        patches.append(Patch(color=RUNNING, label="running"))
    named = occupancy.jobs[: len(LARGE)] if level == GPU_LEVEL else ()
    # The size comes first: matplotlib leaves out labels that begin with an underscore.
    patches += [
        Patch(
            color=job_colour(index),
            label=f"{count_gpus(job.milli_gpu)}: {shortened(job.name)}"
            + (", migrated" if job.migrated else ""),
        )
        for index, job in enumerate(named)
    ]
    others = occupancy.jobs[len(named) :]
    if others:
        word = "started or migrated" if any(job.migrated for job in others) else "started"
        label = count(len(others), "other job") if named else word
        patches.append(Patch(color=PLACED, label=label))
    return patches
