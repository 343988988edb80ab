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
from heapq import heappop, heappush

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.stages.problem import MAKESPAN, Problem, Schedule

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

    Those that suit the first term come first, should there be time for one alone. Of a pipeline the
    work counts, or that of one job that nobody waits for and of all before it, divided by the
    weight; a job goes with the first that it leads to.
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
    by_work = [
        (path, whole[pipeline]),
        (path, each),
        (submitted, whole[pipeline]),
        (submitted, each),
        (path, each, whole[pipeline]),
    ]
    by_path = [(submitted, path), (path, -behind)]
    is_makespan = problem.round.policy.terms[0] == MAKESPAN
    for keys in (*by_path, *by_work) if is_makespan else (*by_work, *by_path):
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
    return Parallel(problem, order, preferences, begun).schedule()


class Parallel:
    """The parallel scheme: what is free now, units that run, and jobs that are ready.

    Attributes
    ----------
    asks
        What a unit of each mode asks, where that is not 0: pairs of row and amount.
    ready
        Jobs that could begin more, in the order of the list: rank and job.
    running
        How many units of each job run.
    unfinished
        Whether each job is not done yet.
    """

    def __init__(
        self,
        problem: Problem,
        order: Ints | Sequence[int],
        preferences: list[list[int]] | None = None,
        begun: Begun = NOTHING,
    ) -> None:
        jobs = len(problem.jobs)
        self.problem, self._begun = problem, begun
        self.asks = [[(r, d) for r, d in enumerate(row) if d] for row in problem.demand.tolist()]
        self.ready: list[tuple[int, int]] = []
        self.running, self.unfinished = [0] * jobs, [True] * jobs
        self._preferences = preferences or next(_preferences(problem))
        self._rank = np.argsort(np.asarray(order, dtype=np.int64)).tolist()
        self._seconds, self._units = problem.seconds.tolist(), problem.units.tolist()
        self._left: dict[int, int] = {}  # Units of each job that has begun and not all begun
        self._mode = [-1] * jobs
        self._waits = np.bincount(problem.after, minlength=jobs).tolist()
        self._free: list[int] = problem.free[0].tolist()
        self._waves: list[Wave] = []
        # A time, and what is more free from then on (-1), a job that is ready, or units that end.
        more = np.diff(problem.free, axis=0).tolist()
        times = problem.times[1:].tolist()
        self._events = [(at, -1, k, 0) for k, at in enumerate(times)]
        self._more = [[(r, d) for r, d in enumerate(row) if d] for row in more]
        for j in range(jobs):
            if not self._waits[j]:
                self._becomes_ready(j, 0)
        for j, (mode, units) in begun.units.items():
            self._mode[j], self._left[j] = mode, self._units[mode]
            self._begin(j, 0, units)

    def schedule(self) -> Schedule:
        """Return the schedule."""
        events = self._events
        while events:
            now = events[0][0]
            while events and events[0][0] == now:
                self._happens(*heappop(events))
            self.begin_ready(now)
        return Schedule(np.array(self._mode, dtype=np.int64), *_columns(self._waves))

    def begin_ready(self, now: int) -> None:
        """Begin of the jobs that are ready what fits."""
        self.ready = [(rank, j) for rank, j in self.ready if not self.start(j, now)]

    def start(self, job: int, now: int, most: int = 2**62) -> bool:
        """Begin as many units of a job as fit, up to so many; whether that is all that it has."""
        for mode in self._preferences[job] if job not in self._left else [self._mode[job]]:
            left = self._left.get(job, self._units[mode])
            for r, amount in self.asks[mode]:
                left = min(left, self._free[r] // amount)
            left = min(left, most)
            if left > 0:
                self._mode[job] = mode
                self._left.setdefault(job, self._units[mode])
                self._begin(job, now, left)
                return not self._left[job]
        return False

    def _becomes_ready(self, job: int, at: int) -> None:
        at = max(at, int(self.problem.release[job]))
        at = max(at, self._begun.until) if job in self._begun.barred else at
        heappush(self._events, (at, 0, job, 0))

    def _happens(self, now: int, kind: int, j: int, units: int) -> None:
        if kind == 0:
            if self._left.get(j) != 0:
                insort(self.ready, (self._rank[j], j))
            return
        for r, amount in self._more[j] if kind < 0 else self.asks[self._mode[j]]:
            self._free[r] += amount * max(1, units)
        if kind < 0:
            return
        self.running[j] -= units
        if not self.running[j] and not self._left[j]:
            self.unfinished[j] = False
            for k in self.problem.successors[j]:
                self._waits[k] -= 1
                if not self._waits[k]:
                    self._becomes_ready(k, now)

    def _begin(self, job: int, now: int, units: int) -> None:
        mode = self._mode[job]
        for r, amount in self.asks[mode]:
            self._free[r] -= units * amount
        self._left[job] -= units
        self.running[job] += units
        self._waves.append((job, now, units))
        heappush(self._events, (now + self._seconds[mode], 1, job, units))


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
