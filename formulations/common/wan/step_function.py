"""Step functions of time: the residual rate of a link, the free storage of a region."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MEGABITS = 2**33 / 10**6
"""Megabits of one GiB."""

_TOLERANCE = 1e-6
"""Mbit/s, or fraction of a second, below which a difference is a rounding error."""


@dataclass(slots=True, eq=False)
class StepFunction:
    """A function with value `amounts[i]` from `times[i]` on, until the next time."""

    times: list[int]
    amounts: list[float]

    def value_at(self, time: int) -> float:
        """Return the value at a time; before the first time, the first value."""
        return self.amounts[max(bisect_right(self.times, time) - 1, 0)]

    def add(self, amount: float, start: int, end: int | None = None) -> None:
        """Add an amount from `start`, no earlier than the first time, to `end` or forever."""
        first = self._insert_breakpoint(start)
        last = len(self.times) if end is None else self._insert_breakpoint(end)
        for i in range(first, last):
            self.amounts[i] += amount

    def available_from(self, amount: float) -> int | None:
        """Return the earliest time from which the value is always at least `amount`, or None."""
        if self.amounts[-1] < amount:
            return None
        i = len(self.times) - 1
        while i and self.amounts[i - 1] >= amount:
            i -= 1
        return self.times[i]

    def _insert_breakpoint(self, time: int) -> int:
        """Insert a breakpoint at a time if there is none, and return its index."""
        i = bisect_left(self.times, time)
        if i == len(self.times) or self.times[i] != time:
            self.times.insert(i, time)
            self.amounts.insert(i, self.amounts[i - 1])
        return i


def earliest_finish(
    free: Sequence[StepFunction], gib: int, begin: int, end: int
) -> tuple[int, int] | None:
    """Return the interval in which some GiB pass at a constant rate and finish earliest.

    Parameters
    ----------
    free
        Residual rate of each link of the path, in Mbit/s.
    gib
        Amount in GiB.
    begin, end
        Seconds between which the flow must lie.

    Returns
    -------
    tuple of int or None
        Start and end in seconds; None if no interval suffices.
    """
    times, rates = _bottleneck(free, begin, end)
    best: tuple[int, int] | None = None
    for first, start in enumerate(times):
        if start >= end:
            break
        if first and rates[first] <= rates[first - 1]:
            continue  # as well earlier
        finish = _finish_time(times, rates, first, gib, end)
        if finish is not None:
            best = start, finish
            end = finish - 1
    return best


def constant_rate(
    free: Sequence[StepFunction], gib: int, begin: int, end: int
) -> tuple[int, int] | None:
    """Return (begin, end) if some GiB can pass at one rate all that time, otherwise None."""
    fits = (
        begin < end
        and gib * MEGABITS <= min(_bottleneck(free, begin, end)[1]) * (end - begin) + _TOLERANCE
    )
    return (begin, end) if fits else None


def split_into_flows(
    free: Sequence[StepFunction], gib: int, begin: int, end: int
) -> list[tuple[int, int, int]]:
    """Return some GiB as flows (GiB, start, end) that use all residual rate, earliest first.

    Returns [] if the rate between begin and end does not suffice.
    """
    times, rates = _bottleneck(free, begin, end)
    found: list[tuple[int, int, int]] = []
    for start, stop, rate in zip(times, [*times[1:], end], rates, strict=True):
        if rate <= _TOLERANCE:
            continue
        part = min(gib, int(rate * (stop - start) / MEGABITS + _TOLERANCE))
        if part:
            found.append((part, start, start + _transfer_seconds(part, rate)))
            gib -= part
        if not gib:
            return found
    return []


def reserve_rate(links: Iterable[StepFunction], gib: int, start: int, end: int) -> None:
    """Subtract the constant rate of some GiB from the residual rates of links."""
    rate = gib * MEGABITS / (end - start)
    for steps in links:
        steps.add(-rate, start, end)


def _bottleneck(
    free: Sequence[StepFunction], begin: int, end: int
) -> tuple[list[int], list[float]]:
    """Return the breakpoints between begin and end, and the smallest rate from each on."""
    between = {time for steps in free for time in steps.times if begin < time < end}
    times = [begin, *sorted(between)]
    return times, [min(steps.value_at(time) for steps in free) for time in times]


def _finish_time(
    times: Sequence[int], rates: Sequence[float], first: int, gib: int, end: int
) -> int | None:
    """Return when a flow that starts at a breakpoint finishes earliest, None if too late."""
    start, least = times[first], math.inf
    for i in range(first, len(times)):
        least = min(least, rates[i])
        if least <= _TOLERANCE or times[i] >= end:
            return None
        finish = start + _transfer_seconds(gib, least)
        if finish <= (times[i + 1] if i + 1 < len(times) else end):
            return finish if finish <= end else None
    return None


def _transfer_seconds(gib: int, rate: float) -> int:
    """Return the whole seconds that some GiB take at a rate in Mbit/s."""
    return max(1, math.ceil(gib * MEGABITS / rate - _TOLERANCE))
