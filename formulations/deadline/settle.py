"""From the leases of a schedule and what is placed now to promises that the plan keeps.

A job that was to run now and found no place, or one that is slower than expected, takes a later
lease that is free; if there is none, it is promised a later time, or nothing. Whoever runs now
although it need not gives a later lease back. At last everybody runs as early as there is room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from placewright.formulations.deadline.compile import Admission
from placewright.formulations.deadline.problem import NONE, Ints, Schedule
from placewright.formulations.session import Place, Promise


@dataclass(frozen=True, slots=True)
class Now:
    """Where a job is in the current lease: its option, and on how many hosts."""

    option: int
    hosts: int


def holding(
    admission: Admission,
    starts: Mapping[int, tuple[int, tuple[Place, ...]]],
    preempted: Mapping[int, int],
) -> dict[int, Now]:
    """Return where the jobs of an admission are after a plan, by their index in its problem."""
    now: dict[int, Now] = {}
    for number, j in enumerate(admission.jobs):
        running = admission.round.jobs[j].running
        if j in starts:
            option, places = starts[j]
            now[number] = Now(option, len({host for _, _, host, _ in places}))
        elif running is not None and j not in preempted:
            now[number] = Now(running.option, len({task.host for task in running.tasks}))
    return now


def settled(admission: Admission, schedule: Schedule, now: Mapping[int, Now]) -> Schedule:
    """Return the schedule with the current lease as it is placed.

    Jobs whose promise cannot be kept that way have a later one, or none. In the result a job may
    run in fewer leases than its way needs, or in more, if its place now is faster or slower.
    """
    return _Settling(admission, schedule, now).schedule()


@dataclass(frozen=True, slots=True)
class _Window:
    """How many leases are needed of `first .. end - 1`, if that is possible at all."""

    count: int
    first: int
    end: int
    possible: bool


class _Settling:
    def __init__(self, admission: Admission, schedule: Schedule, now: Mapping[int, Now]) -> None:
        self._admission, self._problem, self._now = admission, admission.problem, now
        self._way = schedule.way.copy()
        self._runs = schedule.runs.copy()
        self._runs[:, 0] = False
        later = Schedule(self._way, self._runs)
        self._left = self._problem.capacity - later.used(self._problem)

    def schedule(self) -> Schedule:
        """Settle each job: first those that give leases back, then those that miss some."""
        promised = np.flatnonzero(self._way != NONE)
        missing = []
        for job in promised.tolist():
            way = int(self._way[job])
            window, has = self._window(job, way), np.flatnonzero(self._runs[job])
            inside = has[has < window.end]
            if window.possible and len(inside) >= window.count:
                self._give(way, job, np.concatenate([inside[window.count :], has[len(inside) :]]))
            else:
                missing.append(job)
        # Promises of old come first, and then what is worth most.
        worth = self._problem.loss[missing], self._problem.value[self._way[missing]]
        for position in np.lexsort((-worth[1], -worth[0])):
            self._find(missing[position])
        kept = np.flatnonzero(self._way != NONE)
        for job in kept[np.argsort(self._problem.end[self._way[kept]], kind="stable")].tolist():
            self._early(job)
        for number in self._now:
            self._runs[number, 0] = self._way[number] != NONE
        return Schedule(self._way, self._runs)

    def _window(self, job: int, way: int) -> _Window:
        """Return the later leases that a way needs, beside the current one."""
        problem, now = self._problem, self._now.get(job)
        if now is None:
            first = max(1, int(problem.first[way]))
            return _Window(int(problem.need[way]), first, int(problem.end[way]), possible=True)
        admission = self._admission
        if now.option != admission.option[way]:
            return _Window(0, 1, 1, possible=False)
        return _Window(*admission.after_now(way, now.hosts))

    def _free(self, way: int, window: _Window) -> Ints:
        """Return the leases of a window in which there is room for a way."""
        left = self._left[:, window.first : window.end]
        fits = (left >= self._problem.demand[way][:, None]).all(axis=0)
        return np.flatnonzero(fits) + window.first

    def _give(self, way: int, job: int, leases: Ints) -> None:
        self._runs[job, leases] = False
        self._left[:, leases] += self._problem.demand[way][:, None]

    def _take(self, way: int, job: int, leases: Ints) -> None:
        self._runs[job, leases] = True
        self._left[:, leases] -= self._problem.demand[way][:, None]

    def _find(self, job: int) -> None:
        """Give a job other leases for its way, or the best way that there is room for."""
        before = int(self._way[job])
        self._give(before, job, np.flatnonzero(self._runs[job]))
        self._way[job] = NONE
        ways = np.flatnonzero(self._problem.job == job)
        ways = ways[np.lexsort((-self._problem.value[ways], self._problem.lost[ways]))]
        for way in (before, *ways.tolist()):
            window = self._window(job, way)
            free = self._free(way, window)
            if window.possible and len(free) >= window.count:
                self._way[job] = way
                self._take(way, job, free[: window.count])
                return

    def _early(self, job: int) -> None:
        """Move the later leases of a job to the earliest ones that are free."""
        way = int(self._way[job])
        has = np.flatnonzero(self._runs[job])
        if not len(has):
            return
        self._give(way, job, has)
        self._take(way, job, self._free(way, self._window(job, way))[: len(has)])


def promises(
    admission: Admission, schedule: Schedule, now: Mapping[int, Now]
) -> tuple[Promise, ...]:
    """Return the promises of a settled schedule, in the order of the round."""
    told = []
    for number in np.flatnonzero(schedule.way != NONE):
        way, leases = int(schedule.way[number]), np.flatnonzero(schedule.runs[number])
        here = now.get(int(number))
        hosts = None if here is None else here.hosts
        due = admission.due[way]
        told.append(
            Promise(
                job=admission.jobs[number],
                option=int(admission.option[way]),
                at=due.at,
                value=due.value,
                finish=admission.finish(way, leases, hosts),
                leases=intervals(leases),
            )
        )
    return tuple(told)


def intervals(leases: Ints) -> tuple[tuple[int, int], ...]:
    """Return ascending leases as half-open intervals."""
    breaks = np.flatnonzero(np.diff(leases) > 1)
    first = leases[np.concatenate([[0], breaks + 1])] if len(leases) else leases
    end = leases[np.concatenate([breaks, [-1]])] + 1 if len(leases) else leases
    return tuple(zip(first.tolist(), end.tolist(), strict=True))
