"""Charts of replays as paths of an SVG: distributions on a logarithmic axis, and time series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np

from placewright.array_types import Floats
from placewright.instances.derived.durations import DAY, HOUR, MINUTE

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 10, 28
MAX_POINTS = 400
LEAST_S = 1.0
"""Where a logarithmic axis begins."""

NAMED_TIMES = (
    (1, "1 s"),
    (10, "10 s"),
    (MINUTE, "1 min"),
    (10 * MINUTE, "10 min"),
    (HOUR, "1 h"),
    (10 * HOUR, "10 h"),
    (4 * DAY, "4 d"),
    (40 * DAY, "40 d"),
    (365 * DAY, "1 y"),
    (3650 * DAY, "10 y"),
)
"""Ticks of a logarithmic axis of times."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of an axis: where it is on the picture, and what it says."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A curve with the number of what it shows, and the path of it."""

    number: int
    path: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over two axes.

    Parameters
    ----------
    title, note
        What it shows, and how it is to be read.
    across, up
        Ticks of the axes.
    lines
        One per policy that has something to show.
    """

    title: str
    note: str
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    lines: tuple[Line, ...]


def distributions(title: str, note: str, times: Sequence[Floats], counts: Sequence[int]) -> Chart:
    """Draw which part of all jobs took up to a time; jobs without a time stay above the curve."""
    most = max((float(one.max()) for one in times if len(one)), default=LEAST_S)
    end = log10(max(most, 10 * LEAST_S))

    def x(seconds: Floats) -> Floats:
        scaled: Floats = _across(np.log10(np.maximum(seconds, LEAST_S)) / end)
        return scaled

    lines = []
    for number, (one, count) in enumerate(zip(times, counts, strict=True)):
        if not len(one):
            continue
        ranks = np.unique(np.linspace(0, len(one) - 1, MAX_POINTS).astype(np.int64))
        steps = np.sort(one)[ranks]
        lines.append(Line(number, _path(x(steps), _up((ranks + 1) / count), first=_up(0.0))))
    across = tuple(
        _tick(_across(log10(seconds) / end), text)
        for seconds, text in NAMED_TIMES
        if log10(seconds) <= end
    )
    up = tuple(_tick(_up(part / 4), f"{25 * part} %") for part in range(5))
    return Chart(title, note, across, up, tuple(lines))


def series(title: str, note: str, times: Sequence[Floats], values: Sequence[Floats]) -> Chart:
    """Draw values over time in seconds, means of neighbours where there are many."""
    end = max((float(one[-1]) for one in times if len(one)), default=1.0) or 1.0
    top = nice_step(max((float(one.max()) for one in values if len(one)), default=1.0) / 4) * 4
    lines = []
    for number, (at, value) in enumerate(zip(times, values, strict=True)):
        if len(at):
            short, means = _thinned(at), _thinned(value)
            lines.append(Line(number, _path(_across(short / end), _up(means / top))))
    unit, name = (DAY, "d") if end >= 2 * DAY else (HOUR, "h")
    step = nice_step(end / unit / 6)
    across = tuple(
        _tick(_across(part * step * unit / end), f"{part * step:,.12g} {name}")
        for part in range(floor(end / unit / step) + 1)
    )
    up = tuple(_tick(_up(part / 4), f"{top * part / 4:,.12g}") for part in range(5))
    return Chart(title, note, across, up, tuple(lines))


def nice_step(least: float) -> float:
    """Return the least of 1, 2, 2.5, 5 times a power of ten that is not below a number."""
    if least <= 0:
        return 1.0
    power = 10.0 ** floor(log10(least))
    return next(power * lead for lead in (1, 2, 2.5, 5, 10) if power * lead >= least * (1 - 1e-9))


def _tick(at: Floats, text: str) -> Tick:
    return Tick(round(float(at), 1), text)


def _across(part: Floats | float) -> Floats:
    return np.asarray(LEFT + (WIDTH - LEFT - RIGHT) * np.asarray(part, dtype=np.float64))


def _up(part: Floats | float) -> Floats:
    return np.asarray(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * np.asarray(part))


def _thinned(values: Floats) -> Floats:
    """Return at most `MAX_POINTS` means of neighbours."""
    each = ceil(len(values) / MAX_POINTS)
    starts = np.arange(0, len(values), each)
    means: Floats = np.add.reduceat(values, starts) / np.diff(np.append(starts, len(values)))
    return means


def _path(across: Floats, up: Floats, first: Floats | None = None) -> str:
    """Return a path through points; from `first`, a step at each of them."""
    points = [f"{x:.1f},{y:.1f}" for x, y in zip(across.tolist(), up.tolist(), strict=True)]
    if first is None:
        return "M" + "L".join(points)
    steps = [f"H{x:.1f}V{y:.1f}" for x, y in zip(across.tolist(), up.tolist(), strict=True)]
    return f"M{LEFT},{float(first):.1f}" + "".join(steps)
