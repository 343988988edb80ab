"""Leases over time in text: a row for each job, or GPUs stacked by use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from placewright.array_types import Floats, Ints
from placewright.cli.format.console import EFFORT as EFFORT_COLOUR
from placewright.cli.format.console import LATER, OFFERED, PROMISED, band_colour
from placewright.instances.derived.hardware import hardware
from placewright.instances.derived.phrases import count, duration
from placewright.instances.derived.ranges import expand
from placewright.report.facts.promises import Interval, Promise, Promises
from placewright.report.text import after, count_gpus, gpus, number
from placewright.topology.units import WHOLE_GPU

if TYPE_CHECKING:
    from placewright.instances.documents.round import Round


# Unavailable capacity: GPUs on unhealthy hosts and in outages, by lease.


def unavailable_capacity(round_: Round) -> tuple[int, Ints]:
    """Return the milli-GPU of all hosts, and of the unavailable ones in each lease (horizon,)."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for outage in round_.leases.outages:
        for name in expand(outage.host):
            spans.setdefault(name, []).append(round_.leases.overlapped(outage, round_.now))
    total = 0
    change = np.zeros(round_.leases.horizon + 1, dtype=np.int64)
    for entry in round_.cluster.hosts:
        milli, names = WHOLE_GPU * hardware(entry).gpus, expand(entry.name)
        total += milli * len(names)
        if not entry.healthy:
            change[0] += milli * len(names)
            continue
        for name in names:
            done = 0
            for first, end in sorted(spans.get(name, ())):
                if end > done:
                    change[max(first, done)] += milli
                    change[end] -= milli
                    done = end
    return total, change[:-1].cumsum()


# Gantt facts of the leases: a row per job where they are few, else GPUs by use.


MAX_CLASSES = 4
MAX_STRETCH = 1.25
"""How far due times may stretch a chart beyond the last lease that is used."""
STEPS = (60, 300, 600, 1200, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)


class Kind(StrEnum):
    """What a row of a chart shows."""

    PROMISED = "promised"
    LATER = "a later due time"
    EFFORT = "best effort"
    OFFER = "offered, but refused"


class Row(NamedTuple):
    """A job: its GPUs, the times at which it runs until it is done, and its due time.

    Times are in leases from now.
    """

    name: str
    milli_gpu: int
    kind: Kind
    times: tuple[tuple[float, float], ...]
    due: float | None


class Band(NamedTuple):
    """Promises of some values: the least and the largest of them, and milli-GPU (leases,)."""

    least: int
    most: int
    milli_gpu: Ints


@dataclass(frozen=True, eq=False, slots=True)
class Chart:
    """The leases of a plan, up to the last one that matters.

    Parameters
    ----------
    length_s
        Of a lease.
    rows
        A row per job: promises by due time, then best effort, then offers to refused jobs.
    bands
        Promises by value, the most valuable ones first.
    effort
        milli-GPU that jobs without a promise hold in this lease.
    away
        (leases,): milli-GPU on hosts that are away or unhealthy.
    total
        milli-GPU of all hosts.
    due
        (leases,): how many promises are for a time in each lease.
    """

    length_s: int
    rows: tuple[Row, ...]
    bands: tuple[Band, ...]
    effort: int
    away: Ints
    total: int
    due: Ints

    @property
    def leases(self) -> int:
        """The number of leases drawn, at least 1."""
        return len(self.away)


def chart_of(promises: Promises) -> Chart:
    """Lay out the leases of a plan."""
    round_, leases = promises.round, promises.round.leases
    rows = (*_promised(promises), *_efforts(promises), *_offers(promises))
    last = max((ceil(row.times[-1][1]) for row in rows), default=1)
    furthest = max((row.due for row in rows if row.due is not None), default=0.0)
    drawn = min(max(last, ceil(min(furthest, MAX_STRETCH * last))), leases.horizon)
    # A promise for the end of a lease is due in it.
    due = [ceil(_leases_until(promises, promise.due.at)) - 1 for promise in promises.given]
    total, away = unavailable_capacity(round_)
    return Chart(
        leases.length_s,
        rows,
        _bands(promises.given, drawn),
        sum(effort.milli_gpu for effort in promises.best_effort),
        away[:drawn],
        total,
        np.bincount([lease for lease in due if 0 <= lease < drawn], minlength=drawn),
    )


def ticks(chart: Chart, apart: float) -> list[int]:
    """Return round times from now, in seconds and at least `apart` leases from each other."""
    least = apart * chart.length_s
    step = next((s for s in STEPS if s >= least), None)
    if step is None:
        step = -int(-least // STEPS[-1]) * STEPS[-1]
    return list(range(0, chart.leases * chart.length_s, step))


def _promised(promises: Promises) -> list[Row]:
    return [
        Row(
            promise.job,
            promise.milli_gpu,
            Kind.LATER if promise.rank else Kind.PROMISED,
            _intervals(promises, promise.leases, promise.finish),
            _leases_until(promises, promise.due.at),
        )
        for promise in promises.given
    ]


def _efforts(promises: Promises) -> list[Row]:
    return [Row(e.job, e.milli_gpu, Kind.EFFORT, ((0, 1),), None) for e in promises.best_effort]


def _offers(promises: Promises) -> list[Row]:
    return [
        Row(
            refused.job,
            refused.milli_gpu,
            Kind.OFFER,
            _intervals(promises, refused.leases, refused.finish),
            _leases_until(promises, refused.dues[-1].at),
        )
        for refused in promises.refused
        if refused.finish is not None
    ]


def _intervals(
    promises: Promises, leases: tuple[Interval, ...], finish: int
) -> tuple[tuple[float, float], ...]:
    """Return the intervals of a job, the last one until it is done."""
    *others, (first, _) = leases
    return *others, (first, _leases_until(promises, finish))


def _leases_until(promises: Promises, at: int) -> float:
    return (at - promises.round.now) / promises.round.leases.length_s


def _bands(given: Sequence[Promise], leases: int) -> tuple[Band, ...]:
    """Divide promises by value into `MAX_CLASSES` bands, of equally many jobs where they can."""
    if not given:
        return ()
    values = np.array([p.due.value for p in given])
    distinct = np.unique(values)
    starts = distinct
    if len(distinct) > MAX_CLASSES:
        ranks = np.arange(MAX_CLASSES) * len(values) // MAX_CLASSES
        starts = np.unique(np.sort(values)[ranks])
    band = np.searchsorted(starts, values, side="right") - 1
    change = np.zeros((len(starts), leases + 1), dtype=np.int64)
    for index, promise in zip(band.tolist(), given, strict=True):
        for first, end in promise.leases:
            change[index, first] += promise.milli_gpu
            change[index, min(end, leases)] -= promise.milli_gpu
    used = change[:, :-1].cumsum(axis=1)
    return tuple(
        Band(int(values[band == index].min()), int(values[band == index].max()), used[index])
        for index in range(len(starts) - 1, -1, -1)
    )


MAX_JOBS = 40
HEIGHT, LABELLED = 12, 3
"""Rows of a stack, and of how many one says its GPUs."""
MIN_CELLS, MAX_CELLS = 24, 120
MOST_PER_LEASE = 4
MIN_NAME = 8
INDENT = 2
TICK = 10
"""Columns that the label of a time takes."""
WAITS, DUE, BEYOND = "·", "│", "›"
MARKS = {Kind.PROMISED: "█", Kind.LATER: "▓", Kind.EFFORT: "▒", Kind.OFFER: "░"}
KINDS = {
    Kind.PROMISED: PROMISED,
    Kind.LATER: LATER,
    Kind.EFFORT: EFFORT_COLOUR,
    Kind.OFFER: OFFERED,
}
BANDS = "█▓▒░"
EFFORT, FREE, AWAY = "+", "·", "×"
LEVELS = " ▁▂▃▄▅▆▇█"


def heading(chart: Chart) -> str:
    """Say what is drawn."""
    return f"{count(chart.leases, 'lease')} of {duration(chart.length_s)} from now"


def band_text(band: Band) -> str:
    """Name the promises of a band by their value."""
    span = number(band.most)
    return f"value {span}" if band.least == band.most else f"value {number(band.least)} to {span}"


def print_leases(console: Console, chart: Chart) -> None:
    """Print the leases of a plan: jobs if there are at most `MAX_JOBS`, else GPUs by their use."""
    if len(chart.rows) <= MAX_JOBS:
        _print_jobs(console, chart)
    else:
        _print_stack(console, chart)


class _Scale:
    """Where leases lie in a line of cells: several cells for one, or several leases in one."""

    def __init__(self, chart: Chart, space: int) -> None:
        space = min(max(space, MIN_CELLS), MAX_CELLS)
        self.leases = chart.leases
        self.cells = min(space // chart.leases, MOST_PER_LEASE) * chart.leases or space

    def at(self, lease: float) -> int:
        """Return the cell at whose left edge a lease begins."""
        return round(lease * self.cells / self.leases)

    def means(self, values: NDArray[np.int64]) -> Floats:
        """Return the mean of the leases of each cell (cells,)."""
        edges = np.linspace(0, self.leases, self.cells + 1)
        sums = np.interp(edges, np.arange(self.leases + 1), np.append(0, values.cumsum()))
        return np.asarray(np.diff(sums) / np.diff(edges))

    def sums(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add values up by the cell in which their lease begins (cells,)."""
        cell = np.arange(self.leases) * self.cells // self.leases
        return np.bincount(cell, weights=values, minlength=self.cells).astype(np.int64)


def _print_jobs(console: Console, chart: Chart) -> None:
    """Print a row per job, the GPUs in use, and a line of times."""
    sizes = [gpus(row.milli_gpu) for row in chart.rows]
    size = max(map(len, ("GPUs", *sizes)))
    longest = max((len(row.name) for row in chart.rows), default=0)
    space = console.width - INDENT - size - 3
    name = max(min(longest, space - MIN_CELLS, space // 3), MIN_NAME)
    scale = _Scale(chart, space - name)
    _print_title(console, chart, scale)
    legend = Text()
    for kind in Kind:
        if any(row.kind is kind for row in chart.rows):
            legend.append(MARKS[kind] * 2, KINDS[kind]).append(f" {kind}   ")
    console.print(legend.append(f"{DUE} due   {WAITS} waits"))
    console.print()
    margin = INDENT + name + size + 2
    _print_line(console, Text(" " * margin + _times(chart, scale), "dim"))
    for row, text in zip(chart.rows, sizes, strict=True):
        label = Text(" " * INDENT + row.name)
        label.truncate(INDENT + name, overflow="ellipsis", pad=True)
        _print_line(console, label.append(f" {text:>{size}} ").append(_cells(row, scale)))
    for word, milli in (("in use", _used(chart)), ("away", chart.away)):
        if milli.any():
            label = Text(f"{'':{INDENT}}{word:<{name}} {gpus(int(milli.max())):>{size}} ", "dim")
            _print_line(console, label.append(_levels(scale.means(milli), chart.total)))


def _cells(row: Row, scale: _Scale) -> Text:
    """Draw when a job runs, and when it is due; each time that it runs has a cell at least."""
    line = [" "] * (scale.cells + 1)
    due = scale.cells if row.due is None else min(max(scale.at(row.due), 0), scale.cells)
    if row.kind is not Kind.EFFORT:
        line[:due] = WAITS * due
    right = 0
    for first, end in row.times:
        left = min(scale.at(first), scale.cells - 1)
        right = max(scale.at(end), left + 1)
        line[left:right] = MARKS[row.kind] * (right - left)
    if row.due is not None and row.due >= 0:
        # No promise is late, though its last cell may be.
        mark = due if row.kind is Kind.OFFER else max(due, right)
        line[mark] = DUE if row.due <= scale.leases else BEYOND
    text = Text()
    for cell in line:
        text.append(cell, "dim" if cell == WAITS else KINDS[row.kind])
    return text


def _print_stack(console: Console, chart: Chart) -> None:
    """Print the GPUs by what they do, promises of most value below, and when promises are due."""
    labels = [
        "" if row % LABELLED else gpus(chart.total * (HEIGHT - row) / HEIGHT)
        for row in range(HEIGHT)
    ]
    size = max(map(len, (*labels, "due")))
    scale = _Scale(chart, console.width - INDENT - size - 1)
    _print_title(console, chart, scale)
    legend = Text()
    for index, band in enumerate(chart.bands):
        legend.append(BANDS[index] * 2, band_colour(index)).append(f" {band_text(band)}   ")
    if chart.effort:
        legend.append(EFFORT * 2, EFFORT_COLOUR).append(f" {Kind.EFFORT}   ")
    legend.append(f"{FREE * 2} not promised   ")
    if chart.away.any():
        legend.append(AWAY * 2, "red").append(" away")
    console.print(legend)
    console.print()
    # Jobs that ask no GPU can be promised something where there is none to stack.
    grid = _grid(chart, scale) if chart.total else ()
    for row, label in zip(grid, labels, strict=False):
        line = Text(f"{'':{INDENT}}{label:>{size}} ", "dim")
        for mark, style in (_STACK[int(code)] for code in row):
            line.append(mark, style)
        _print_line(console, line)
    margin = " " * (INDENT + size + 1)
    _print_line(console, Text(margin + _times(chart, scale), "dim"))
    due = scale.sums(chart.due)
    if due.any():
        line = Text(f"{'':{INDENT}}{'due':>{size}} ", "dim")
        _print_line(console, line.append(_levels(due, int(due.max()))))
        console.print(
            Text(f"{margin}promises due by time, at most {int(due.max()):,} in a cell", "dim")
        )


_STACK = (
    *((mark, band_colour(index)) for index, mark in enumerate(BANDS)),
    (EFFORT, EFFORT_COLOUR),
    (FREE, "dim"),
    (AWAY, "red"),
)
"""Marks and styles of a stack from below: bands, best effort, free, away."""


def _grid(chart: Chart, scale: _Scale) -> NDArray[np.int64]:
    """Return which entry of `_STACK` each cell shows (rows, cells), the top row first."""
    effort = np.zeros(chart.leases, dtype=np.int64)
    effort[0] = chart.effort
    none = np.zeros(chart.leases, dtype=np.int64)
    bands = [band.milli_gpu for band in chart.bands]
    held = [*bands, *[none] * (len(BANDS) - len(bands)), effort]
    free = chart.total - chart.away - sum(held)
    tops = np.cumsum([scale.means(milli) for milli in (*held, free)], axis=0)
    middles = chart.total * (np.arange(HEIGHT)[::-1] + 0.5) / HEIGHT
    return np.asarray((tops[:, None, :] <= middles[None, :, None]).sum(axis=0))


def _print_title(console: Console, chart: Chart, scale: _Scale) -> None:
    cell = scale.leases / scale.cells
    part = f"; a cell is {cell:.3g} leases" if cell > 1 else ""
    console.print(
        Text(f"{heading(chart)}{part}; the cluster has {count_gpus(chart.total)}", "bold")
    )


def _times(chart: Chart, scale: _Scale) -> str:
    """Write a line of times from now below or above the cells."""
    line = ""
    for second in ticks(chart, TICK * scale.leases / scale.cells):
        label, at = after(second, 0), scale.at(second / chart.length_s)
        if at + len(label) <= scale.cells:
            line = line.ljust(at) + label
    return line


def _levels(values: Sequence[float] | NDArray[np.generic], most: int) -> str:
    """Draw values as the heights of blocks; none but 0 is blank."""
    top = len(LEVELS) - 1
    return "".join(
        LEVELS[min(max(round(float(value) * top / most), 1), top) if value else 0]
        for value in values
    )


def _used(chart: Chart) -> NDArray[np.int64]:
    """Return milli-GPU held in each lease (leases,)."""
    used = np.zeros(chart.leases, dtype=np.int64)
    for band in chart.bands:
        used += band.milli_gpu
    used[0] += chart.effort
    return used


def _print_line(console: Console, line: Text) -> None:
    """Print a line that a terminal too narrow for it cuts instead of folding it."""
    console.print(line, no_wrap=True, overflow="crop")
