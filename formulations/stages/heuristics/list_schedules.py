"""List schedules of tasks: parallel and serial schedule generation.

The parallel scheme begins whatever fits, in the order of a list, whenever something is free; the
serial one inserts one wave after the other at its earliest time, so that no job of a schedule ends
later (Kolisch, "Serial and parallel resource-constrained project scheduling methods revisited",
EJOR 90, 1996).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.stages.problem import Problem, Schedule

Wave = tuple[int, int, int]
"""A job, when some of its units begin, and how many."""


@dataclass(frozen=True, slots=True)
class Begun:
    """What is decided of now: mode and units of jobs that begin, and who has to wait.

    Of jobs that are `barred` nothing, or nothing more, begins before `until`.
    """

    units: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    barred: frozenset[int] = frozenset()
    until: int = 0


NOTHING = Begun()


def list_schedules(problem: Problem, begun: Begun = NOTHING) -> Iterator[Schedule]:
    """Yield a schedule per rule and way to choose modes."""
    choices = 3 if len(problem.job) > len(problem.jobs) else 1
    for order in orders(problem):
        for preferences in list(_preferences(problem))[:choices]:
            yield parallel(problem, order, preferences, begun)


def orders(problem: Problem) -> Iterator[Ints]:
    """Yield lists of the jobs: by work left, critical path, work behind, submission.

    Of a pipeline the work counts, or that of one job that nobody waits for and of all before it,
    divided by the weight; a job goes with the first that it leads to.
    """
    if not problem.jobs:
        yield np.zeros(0, dtype=np.int64)
        return
    path, share = -(problem.tail + problem.shortest), work_shares(problem)
    led, weight = problem.led, np.maximum(problem.weight[problem.last], 1e-9)
    pipeline = problem.pipeline[led.argmax(axis=1)]
    whole = np.bincount(pipeline, weights=share) / np.bincount(problem.pipeline, weights=weight)
    each = np.where(led, (share @ led) / weight, np.inf).min(axis=1)
    behind = share.copy()
    for j in reversed(problem.order):
        behind[j] += behind[list(problem.successors[j])].sum()
    submitted = np.arange(len(path))
    for keys in (
        (path, whole[pipeline]),
        (path, each),
        (submitted, whole[pipeline]),
        (submitted, each),
        (path, each, whole[pipeline]),
        (submitted, path),
        (path, -behind),
    ):
        yield np.lexsort((submitted, *keys))
    yield submitted


def work_shares(problem: Problem) -> Floats:
    """Return the work of each job as seconds of all that there is, of its scarcest row (jobs,)."""
    have = np.maximum(1, problem.free[-1])
    share: Floats = (problem.work / have).max(axis=1, initial=0.0)
    return share


def _preferences(problem: Problem) -> Iterator[list[list[int]]]:
    """Yield the modes that each job takes: the fastest, that of least work, or what fits."""
    area = (problem.demand / np.maximum(1, problem.free[-1])).max(axis=1, initial=0.0)
    area = area * problem.units * problem.seconds
    fast = [sorted(modes, key=lambda m: problem.least[m]) for modes in problem.modes]
    yield [modes[:1] for modes in fast]
    yield [sorted(modes, key=lambda m: area[m])[:1] for modes in problem.modes]
    yield fast


def parallel(
    problem: Problem,
    order: Ints | Sequence[int],
    preferences: list[list[int]] | None = None,
    begun: Begun = NOTHING,
) -> Schedule:
    """Return the schedule that begins what fits, in the order of the list, event by event.

    `preferences`: the modes of each job, the best first; None: the fastest alone.
    """
    state = _Parallel(problem, begun)
    return state.run(order, preferences or next(_preferences(problem)))


class _Parallel:
    """Residual capacity now, waves that run, and jobs that are ready."""

    def __init__(self, problem: Problem, begun: Begun) -> None:
        self._problem, self._begun = problem, begun
        self._asks = [[(r, d) for r, d in enumerate(row) if d] for row in problem.demand.tolist()]
        self._seconds, self._units = problem.seconds.tolist(), problem.units.tolist()
        self._left: dict[int, int] = {}  # Units of each job that has begun and not all begun
        self._running = [0] * len(problem.jobs)
        self._mode = [-1] * len(problem.jobs)
        self._waits = np.bincount(problem.after, minlength=len(problem.jobs)).tolist()
        self._residual: list[int] = []
        self._waves: list[Wave] = []

    def run(self, order: Ints | Sequence[int], preferences: list[list[int]]) -> Schedule:
        problem, begun = self._problem, self._begun
        rank = np.empty(len(problem.jobs), dtype=np.int64)
        rank[np.asarray(order, dtype=np.int64)] = np.arange(len(problem.jobs))
        ranks, free = rank.tolist(), problem.free.tolist()
        self._residual = list(free[0])
        # Events: a time, and a job that becomes ready (-1: more is free) or ends units.
        events = [(int(t), -1, k, 0) for k, t in enumerate(problem.times.tolist()) if k]
        for j, at in enumerate(problem.release.tolist()):
            if not self._waits[j]:
                events.append((self._from(j, at), 0, j, 0))
        ready: list[tuple[int, int]] = []
        for j, (mode, units) in begun.units.items():
            self._mode[j], self._left[j] = mode, self._units[mode]
            self._begin(events, j, 0, units)
        heapify(events)
        while events:
            now = events[0][0]
            while events and events[0][0] == now:
                self._happen(heappop(events), free, ranks, ready, events)
            for entry in list(ready):
                j = entry[1]
                if self._start(events, j, now, preferences[j]):
                    ready.remove(entry)
        return Schedule(np.array(self._mode, dtype=np.int64), *_columns(self._waves))

    def _from(self, job: int, at: int) -> int:
        return max(at, self._begun.until) if job in self._begun.barred else at

    def _happen(
        self,
        event: tuple[int, int, int, int],
        free: list[list[int]],
        ranks: list[int],
        ready: list[tuple[int, int]],
        events: list[tuple[int, int, int, int]],
    ) -> None:
        now, kind, j, units = event
        if kind == -1:
            for r, amount in enumerate(free[j]):
                self._residual[r] += amount - free[j - 1][r]
        elif kind == 0:
            if self._left.get(j) != 0:
                insort(ready, (ranks[j], j))
        else:
            for r, amount in self._asks[self._mode[j]]:
                self._residual[r] += units * amount
            self._running[j] -= units
            if not self._running[j] and not self._left[j]:
                for k in self._problem.successors[j]:
                    self._waits[k] -= 1
                    if not self._waits[k]:
                        at = self._from(k, max(now, int(self._problem.release[k])))
                        heappush(events, (at, 0, k, 0))

    def _start(
        self, events: list[tuple[int, int, int, int]], job: int, now: int, modes: list[int]
    ) -> bool:
        """Begin as many units of a job as fit; whether that is all that it has."""
        for mode in modes if job not in self._left else [self._mode[job]]:
            left = self._left.get(job, self._units[mode])
            for r, amount in self._asks[mode]:
                left = min(left, self._residual[r] // amount)
            if left > 0:
                self._mode[job] = mode
                self._left.setdefault(job, self._units[mode])
                self._begin(events, job, now, left)
                return not self._left[job]
        return False

    def _begin(
        self, events: list[tuple[int, int, int, int]], job: int, now: int, units: int
    ) -> None:
        mode = self._mode[job]
        for r, amount in self._asks[mode]:
            self._residual[r] -= units * amount
        self._left[job] -= units
        self._running[job] += units
        self._waves.append((job, now, units))
        heappush(events, (now + self._seconds[mode], 1, job, units))


def serial(problem: Problem, schedule: Schedule, begun: Begun = NOTHING) -> Schedule:
    """Return a schedule shifted left: its waves, by when they begin, each at its earliest time."""
    profile = _Profile(problem)
    mode, waves = schedule.mode.copy(), list[Wave]()
    ends, left = problem.release.copy(), problem.units[schedule.mode].tolist()
    for j, (chosen, units) in begun.units.items():
        mode[j] = chosen
        left[j] = int(problem.units[chosen]) - units
        profile.take(chosen, 0, units)
        waves.append((j, 0, units))
        ends[j] = problem.seconds[chosen]
    position = np.empty(len(problem.jobs), dtype=np.int64)
    position[list(problem.order)] = np.arange(len(problem.jobs))
    awaited: list[list[int]] = [[] for _ in problem.jobs]
    for before, after in zip(problem.before.tolist(), problem.after.tolist(), strict=True):
        awaited[after].append(before)
    for w in np.lexsort((position[schedule.job], schedule.begin)).tolist():
        j = int(schedule.job[w])
        at = max([int(problem.release[j]), *(int(ends[k]) for k in awaited[j])])
        at = max(at, begun.until) if j in begun.barred else at
        # What began already of a job comes off its first waves.
        units = min(int(schedule.units[w]), left[j])
        left[j] -= units
        while units:
            at, most = profile.earliest(int(mode[j]), at)
            now = min(units, most)
            profile.take(int(mode[j]), at, now)
            waves.append((j, at, now))
            ends[j] = max(int(ends[j]), at + int(problem.seconds[mode[j]]))
            units -= now
    return Schedule(mode, *_columns(waves))


def _columns(waves: list[Wave]) -> tuple[Ints, Ints, Ints]:
    job, begin, units = np.array(waves, dtype=np.int64).reshape(-1, 3).T
    return job, begin, units


class _Profile:
    """What is free of each row over time, as steps."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._times, self._free = problem.times.tolist(), [row.copy() for row in problem.free]

    def earliest(self, mode: int, at: int) -> tuple[int, int]:
        """Return the earliest time, not before `at`, from which a unit fits, and how many do."""
        demand, seconds = self._problem.demand[mode], int(self._problem.seconds[mode])
        asked = demand > 0
        step = bisect_right(self._times, at) - 1
        begin, most = at, 2**31
        while step < len(self._times) and self._times[step] < begin + seconds:
            fit = int((self._free[step][asked] // demand[asked]).min(initial=2**31))
            most = min(most, fit)
            step += 1
            if not most:
                begin, most = self._times[step], 2**31
        return begin, most

    def take(self, mode: int, begin: int, units: int) -> None:
        """Take what units of a mode ask."""
        end, asked = begin + int(self._problem.seconds[mode]), units * self._problem.demand[mode]
        first, last = self._split(begin), self._split(end)
        for step in range(first, last):
            self._free[step] = self._free[step] - asked

    def _split(self, at: int) -> int:
        step = bisect_right(self._times, at) - 1
        if self._times[step] == at:
            return step
        self._times.insert(step + 1, at)
        self._free.insert(step + 1, self._free[step])
        return step + 1
