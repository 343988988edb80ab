"""Gantt facts of the leases: a row per job where they are few, else GPUs by use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import NamedTuple

import numpy as np

from placewright.array_types import Ints
from placewright.cli.views.deadline.unavailable_capacity import unavailable_capacity
from placewright.report.facts.promises import Interval, Promise, Promises

MAX_CLASSES = 4
BEYOND = 1.25
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
    drawn = min(max(last, ceil(min(furthest, BEYOND * last))), leases.horizon)
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
            _times(promises, promise.leases, promise.finish),
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
            _times(promises, refused.leases, refused.finish),
            _leases_until(promises, refused.dues[-1].at),
        )
        for refused in promises.refused
        if refused.finish is not None
    ]


def _times(
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
