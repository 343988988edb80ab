"""A list whose running jobs get the CPU and memory that make them fastest, as in Synergy-TUNE."""

from __future__ import annotations

from collections.abc import Sequence

from placewright.array_types import Ints
from placewright.instances.speed_models.synergy import CORES
from placewright.instances.traces.papers import FAIR, POINTS, SPEEDS
from placewright.instances.traces.trace import FULL_SPEED, Trace
from placewright.rounds.policies.shares import TunedPolicy
from placewright.rounds.replay.ledger import Place, Places
from placewright.rounds.replay.list_decider import PreemptiveList, counted
from placewright.rounds.replay.loop import Loop

Point = tuple[int, int, int]
"""Cores and MiB per GPU, and the speed that they give."""

_CORES, _MIB = POINTS[FAIR[0] * (len(POINTS) // len(CORES)) + FAIR[1]]


class TunedList(PreemptiveList):
    """A preemptive list that sets how much CPU and memory each running job has.

    Hosts have the proportional share for each of their GPUs. Everybody who runs first gets the
    smallest share that is no slower than the proportional one; then, in the order of the list, the
    fastest for which there is room on its hosts. Shares change at decisions, at no cost.

    GPUs are counted in the order of the list, and the largest jobs are placed first. With places
    that are free a job goes to the host, of those with room for its fastest share beside those of
    the jobs there, that has the fewest free GPUs; else to the one that lacks the fewest cores. With
    places that are kept free GPUs count more: the fewest, and of equals the most cores left.
    """

    def __init__(self, policy: TunedPolicy, trace: Trace, places: Places) -> None:
        super().__init__(policy.order, len(trace), places)
        known: dict[bytes, tuple[Point, ...]] = {}
        self._points = [
            known.setdefault(row.tobytes(), points_of(row, steps=policy.steps))
            for row in trace.extra[SPEEDS]
        ]

    def decide(self, loop: Loop) -> None:
        """Sort the list, walk it, start and stop jobs, and set their shares."""
        self._update(loop)
        if not len(self._list):
            return
        places = self._placed(loop)
        loop.replace_all(places)
        self._tune(loop, [job for job in self._list.tolist() if job in places])
        self._sort_after(loop)

    def _placed(self, loop: Loop) -> dict[int, Place]:
        """Return who runs where, and take their GPUs."""
        ledger, gpus = loop.ledger, loop.gpus
        chosen = self._list[
            counted(loop.trace.gpus[self._list], ledger.open_total, skips=self._policy.skips)
        ]
        ledger.clear()
        places: dict[int, Place] = {}
        wanted = _free(ledger.sizes)

        def put(job: int, place: Place) -> None:
            ledger.take(place)
            _take(wanted, place, self._points[job][0])
            places[job] = place

        if self._places == "kept":
            for job in chosen[loop.running[chosen] != 0].tolist():
                put(job, loop.place[job])
        for job in sorted(chosen.tolist(), key=gpus.__getitem__, reverse=True):
            place = None if job in places else self._place(loop, job, wanted)
            if place is not None:
                put(job, place)
        return places

    def _place(self, loop: Loop, job: int, wanted: list[list[int]]) -> Place | None:
        free, gpus = loop.ledger.free, loop.gpus[job]
        hosts = [host for host, there in enumerate(free) if there >= gpus]
        if not hosts:
            return loop.ledger.find(gpus)
        if self._places == "kept":
            host = min(hosts, key=lambda host: (free[host], -wanted[host][0]))
            return ((host, gpus),)
        fits = [host for host in hosts if _fits(wanted, ((host, gpus),), self._points[job][0])]
        if fits:
            return ((min(fits, key=free.__getitem__), gpus),)
        return ((max(hosts, key=lambda host: wanted[host][0]), gpus),)

    def _tune(self, loop: Loop, jobs: Sequence[int]) -> None:
        free = _free(loop.ledger.sizes)
        for job in jobs:
            _take(free, loop.place[job], self._points[job][-1])
        for job in jobs:
            place = loop.place[job]
            _take(free, place, self._points[job][-1], -1)
            point = next(point for point in self._points[job] if _fits(free, place, point))
            _take(free, place, point)
            loop.set_speed(job, point[2])


def points_of(speeds: Ints, *, steps: bool = True) -> tuple[Point, ...]:
    """Return the shares of a job that are no slower than the proportional one, the fastest first.

    The last is the one with the fewest cores that is no more than the proportional share; of
    others, those are left out that ask no less of anything than one that is as fast. Without
    `steps` only the first and the last are there.
    """
    every = zip(POINTS, speeds.tolist(), strict=True)
    points = [(c, m, s) for (c, m), s in every if s >= FULL_SPEED]
    least = min(point for point in points if point[0] <= _CORES and point[1] <= _MIB)
    kept = [
        (c, m, s)
        for c, m, s in points
        if s > least[2] and not any(p != (c, m, s) and _no_worse(p, (c, m, s)) for p in points)
    ]
    kept.sort(key=lambda point: (-point[2], point[0], point[1]))
    return (*(kept if steps else kept[:1]), least)


def _no_worse(one: Point, other: Point) -> bool:
    return one[0] <= other[0] and one[1] <= other[1] and one[2] >= other[2]


def _free(sizes: Sequence[int]) -> list[list[int]]:
    return [[_CORES * size, _MIB * size] for size in sizes]


def _take(free: list[list[int]], place: Place, point: Point, times: int = 1) -> None:
    for host, gpus in place:
        free[host][0] -= times * gpus * point[0]
        free[host][1] -= times * gpus * point[1]


def _fits(free: list[list[int]], place: Place, point: Point) -> bool:
    return all(
        free[host][0] >= gpus * point[0] and free[host][1] >= gpus * point[1]
        for host, gpus in place
    )
