"""Amounts that change with time: the rate that a link leaves, the room that a region leaves."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MEGABITS = 2**33 / 10**6
"""Of one GiB."""

_TOLERANCE = 1e-6
"""Mbit/s, or a share of a second: less is an error of rounding."""


@dataclass(slots=True, eq=False)
class StepFunction:
    """An amount that is `amounts[i]` from `times[i]` to the next time, the last one for ever."""

    times: list[int]
    amounts: list[float]

    def value_at(self, time: int) -> float:
        """Return the amount at a time; the first one before it begins."""
        return self.amounts[max(bisect_right(self.times, time) - 1, 0)]

    def add(self, amount: float, start: int, end: int | None = None) -> None:
        """Add an amount from a start, which is no earlier than the first time, to an end or on."""
        first = self._insert_breakpoint(start)
        last = len(self.times) if end is None else self._insert_breakpoint(end)
        for i in range(first, last):
            self.amounts[i] += amount

    def available_from(self, amount: float) -> int | None:
        """Return the earliest time from which there is always as much, or None."""
        if self.amounts[-1] < amount:
            return None
        i = len(self.times) - 1
        while i and self.amounts[i - 1] >= amount:
            i -= 1
        return self.times[i]

    def _insert_breakpoint(self, time: int) -> int:
        """Make sure that a step begins at a time, and return which one does."""
        i = bisect_left(self.times, time)
        if i == len(self.times) or self.times[i] != time:
            self.times.insert(i, time)
            self.amounts.insert(i, self.amounts[i - 1])
        return i


def earliest_finish(
    free: Sequence[StepFunction], gib: int, begin: int, end: int
) -> tuple[int, int] | None:
    """Return when so many GiB can pass at an even rate so that they are through soonest.

    Parameters
    ----------
    free
        The rate that each link of the path leaves, in Mbit/s.
    gib
        What passes, GiB.
    begin, end
        The flow lies between these whole seconds.

    Returns
    -------
    tuple of int or None
        Start and end, the end as early as can be.
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
    """Return the whole time if so many GiB can pass at an even rate all that time, else None."""
    fits = (
        begin < end
        and gib * MEGABITS <= min(_bottleneck(free, begin, end)[1]) * (end - begin) + _TOLERANCE
    )
    return (begin, end) if fits else None


def split_into_flows(
    free: Sequence[StepFunction], gib: int, begin: int, end: int
) -> list[tuple[int, int, int]]:
    """Return so many GiB in pieces (GiB, start, end) that fill what links leave, soonest first.

    Returns [] when they leave too little between begin and end.
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
    """Take the even rate of so many GiB from what links leave."""
    rate = gib * MEGABITS / (end - start)
    for steps in links:
        steps.add(-rate, start, end)


def _bottleneck(
    free: Sequence[StepFunction], begin: int, end: int
) -> tuple[list[int], list[float]]:
    """Return moments between begin and end, and what all links leave from each on."""
    between = {time for steps in free for time in steps.times if begin < time < end}
    times = [begin, *sorted(between)]
    return times, [min(steps.value_at(time) for steps in free) for time in times]


def _finish_time(
    times: Sequence[int], rates: Sequence[float], first: int, gib: int, end: int
) -> int | None:
    """Return when a flow that starts at a moment can be through, None if not by the end."""
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
    """Return the whole seconds that so many GiB take at a rate."""
    return max(1, math.ceil(gib * MEGABITS / rate - _TOLERANCE))
