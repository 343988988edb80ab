"""Maintenance: tasks that would not have ended by then do not come to hosts that it takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from placewright.instances.derived.ranges import expand
from placewright.instances.documents.round import Round
from placewright.instances.verify.reading import Reading
from placewright.instances.verify.result import Finding, Rule
from placewright.instances.verify.rules.gang.waiting import end_of


class Windows:
    """When maintenance takes hosts."""

    def __init__(self, round_: Round) -> None:
        windows = defaultdict[str, list[tuple[float, float]]](list)
        for outage in round_.maintenance:
            end = float("inf") if outage.end is None else outage.end
            for name in expand(outage.host):
                windows[name].append((outage.start or 0, end))
        self._windows: Mapping[str, Sequence[tuple[float, float]]] = windows

    def first(self, host: str, start: float, end: float) -> float | None:
        """Return when a host is away for the first time from `start` to `end`, None for never."""
        found = [max(a, start) for a, b in self._windows.get(host, ()) if a < end and b > start]
        return min(found, default=None)

    def ends(self) -> set[float]:
        """Return the times at which hosts are back."""
        return {end for windows in self._windows.values() for _, end in windows}


def maintenance(reading: Reading) -> Iterator[Finding]:
    """Refuse tasks that come to a host which maintenance takes before they would have ended."""
    if not reading.round.maintenance:
        return
    windows, now = Windows(reading.round), reading.round.now
    for placed in reading.placed:
        end = end_of(placed.job, now)
        for task in placed.arrivals:
            at = windows.first(task.host.name, now, end)
            if at is not None:
                yield Finding(
                    (*task.path, "host"),
                    f"job {placed.job.name!r} comes to host {task.host.name!r}, which is away at "
                    f"{at:.0f}; expected jobs that have ended by then",
                )


RULES_OF_MAINTENANCE: tuple[Rule[Reading], ...] = (Rule("maintenance", maintenance),)
