"""Bars: the rectangles that fill the cells of a picture.

A cell of one GPU shows its parts. A cell of many GPUs stacks what its jobs hold of them, in
proportion: those with a mark one by one, the others by what is done with them. What nobody holds
lies above, and where nothing may arrive at the top.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.cli.views.gang.facts import Occupancy
from placewright.cli.views.gang.layout import GPU_LEVEL, Layout
from placewright.cli.views.gang.parts import Parts
from placewright.cli.views.gang.styles import CONDITIONS, Style, free_style, job_style
from placewright.report.facts.jobs import Condition
from placewright.topology.units import WHOLE_GPU


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
