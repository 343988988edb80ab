"""How far the jobs of a replay have come, and what that has cost.

Work is counted in microseconds at speed 1 and millionths of one, so that speeds of a millionth are
exact, and a job ends at the first microsecond at which all its work is done.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, TypeVar

import numpy as np

from placewright.array_types import Ints
from placewright.instances.traces.trace import FULL_SPEED, NEVER, Trace
from placewright.rounds.replay.costs import Costs
from placewright.rounds.replay.ledger import HostLedger, Place

Number = TypeVar("Number", int, Ints)
"""A number, or a column of them."""


class Progress:
    """The columns of the jobs of a replay, at the time `now`.

    Parameters
    ----------
    trace, ledger, costs
        Whose jobs, on which hosts, and what starting, stopping and moving them costs.

    Attributes
    ----------
    now : int
        The clock, in microseconds.
    place : dict of int to Place
        The running jobs and where they are, in the order in which they started.
    alive : dict of int to None
        The jobs that have come and not ended, in order of arrival.
    left : int64 (jobs,)
        Work that is left as of `since`, in microseconds at speed 1, rounded up.
    spare : int64 (jobs,)
        By how many millionths of a microsecond less is left than that.
    speed : int64 (jobs,)
        Speed in millionths, where the job runs now.
    other_speed : int64 (jobs,)
        1 for a job that has ever run at another speed than 1.
    together : dict of int to tuple of int
        The jobs that share one place, for each of them; the first counts as the one that holds it.
    shared_us : int64 (jobs,)
        How much of `run_us` a job ran in a place that another one held.
    """

    def __init__(self, trace: Trace, ledger: HostLedger, costs: Costs | None) -> None:
        costs = Costs() if costs is None else costs
        jobs = len(trace)
        self.trace, self.ledger = trace, ledger
        self.costs = costs
        self.charges_events = costs.charge == "event"
        self._start_us = costs.column("start_us", jobs)
        self._stop_us = costs.column("stop_us", jobs)
        self._move_us = costs.column("move_us", jobs)
        self.now = 0
        self.place: dict[int, Place] = {}
        self.alive: dict[int, None] = {}
        self.left = trace.work_us.copy()
        self.spare = np.zeros(jobs, dtype=np.int64)
        self.speed = np.full(jobs, FULL_SPEED, dtype=np.int64)
        self.since = np.zeros(jobs, dtype=np.int64)
        self.overhead_due = np.zeros(jobs, dtype=np.int64)
        self.running = np.zeros(jobs, dtype=np.int64)
        self.other_speed = np.zeros(jobs, dtype=np.int64)
        self.started = np.zeros(jobs, dtype=np.int64)
        self.first_start = np.full(jobs, NEVER, dtype=np.int64)
        self.end = np.full(jobs, NEVER, dtype=np.int64)
        self.stops = np.zeros(jobs, dtype=np.int64)
        self.moves = np.zeros(jobs, dtype=np.int64)
        self.run_us = np.zeros(jobs, dtype=np.int64)
        self.overhead_us = np.zeros(jobs, dtype=np.int64)
        self.lost_us = np.zeros(jobs, dtype=np.int64)
        self.unsaved_us = np.zeros(jobs, dtype=np.int64)
        self.together: dict[int, tuple[int, ...]] = {}
        self.shared_us = np.zeros(jobs, dtype=np.int64)
        self.due = np.zeros(jobs, dtype=np.int64)
        self.ends: list[tuple[int, int]] = []
        self.gpus: list[int] = trace.gpus.tolist()
        self.busy_gpus = 0

    def column(self, name: str, jobs: Ints) -> Ints:
        """Return a column for some jobs: one of the trace, or one that changes."""
        if name == "now_us":
            return np.full(len(jobs), self.now, dtype=np.int64)
        if name == "running":
            return self.running[jobs]
        if name == "remaining_us":
            return self._left(jobs)
        if name == "service_us":
            return self.run_us[jobs] + self.running[jobs] * (self.now - self.since[jobs])
        rows = self.trace.extra.get(name)
        taken: Any = getattr(self.trace, name) if rows is None else rows
        chosen: Ints = taken[jobs]
        return chosen

    def _left(self, jobs: Ints) -> Ints:
        elapsed = self.running[jobs] * (self.now - self.since[jobs])
        works = elapsed - np.minimum(elapsed, self.overhead_due[jobs])
        left: Ints = self.left[jobs] - worked(works, self.speed[jobs], self.spare[jobs])[0]
        return left

    def settle(self) -> None:
        """Account for what all running jobs have done so far."""
        for job in self.place:
            self._settle(job)

    def _settle(self, job: int) -> None:
        """Account for what a running job did since it was last looked at."""
        elapsed = self.now - int(self.since[job])
        if not elapsed:
            return
        overhead = min(int(self.overhead_due[job]), elapsed)
        self.overhead_due[job] -= overhead
        self.overhead_us[job] += overhead
        self._ran(job, elapsed)
        self._work(job, elapsed - overhead)
        self.unsaved_us[job] += elapsed - overhead
        self.since[job] = self.now

    def _ran(self, job: int, elapsed: int) -> None:
        self.run_us[job] += elapsed
        if job in self.together and self.together[job][0] != job:
            self.shared_us[job] += elapsed

    def _work(self, job: int, elapsed: int) -> None:
        done, self.spare[job] = worked(elapsed, int(self.speed[job]), int(self.spare[job]))
        self.left[job] -= done

    def time_left(self, job: int, speed: int) -> int:
        """Return how long the work that was left at `since` takes at a speed, in microseconds."""
        return time_needed(int(self.left[job]), speed, int(self.spare[job]))

    def _predict(self, job: int) -> None:
        left = self.time_left(job, int(self.speed[job]))
        due = min(self.now + int(self.overhead_due[job]) + left, NEVER)
        self.due[job] = due
        if not self.charges_events:
            heappush(self.ends, (due, job))

    def _charge_event(self, ended: list[int]) -> None:
        """Muri's costs: every running job pays its start at every event that is not its end.

        Those that share a place wait for each other's starts.
        """
        goes_on = self.place.keys() - set(ended)
        jobs = np.fromiter(goes_on, dtype=np.int64, count=len(goes_on))
        elapsed = self.now - self.since[jobs]
        overhead = np.minimum(elapsed, self._charges(jobs))
        self.overhead_us[jobs] += overhead
        self.run_us[jobs] += elapsed
        if self.together:
            follows = [self.together.get(job, (job,))[0] != job for job in jobs.tolist()]
            self.shared_us[jobs] += elapsed * np.array(follows, dtype=np.int64)
        done, self.spare[jobs] = worked(elapsed - overhead, self.speed[jobs], self.spare[jobs])
        self.left[jobs] -= done
        self.unsaved_us[jobs] += elapsed - overhead
        self.since[jobs] = self.now
        left = time_needed(self.left[jobs], self.speed[jobs], self.spare[jobs])
        self.due[jobs] = self.now + left

    def _charges(self, jobs: Ints) -> Ints:
        charges: Ints = self._start_us[jobs]
        for row, job in enumerate(jobs.tolist() if self.together else ()):
            if job in self.together:
                charges[row] = self._start_us[list(self.together[job])].sum()
        return charges

    def _next_end(self) -> int:
        if self.charges_events:
            jobs = np.fromiter(self.place, dtype=np.int64, count=len(self.place))
            return int(self.due[jobs].min()) if len(jobs) else NEVER
        ends = self.ends
        while ends and self.due[ends[0][1]] != ends[0][0]:
            heappop(ends)
        return ends[0][0] if ends else NEVER

    def _ended(self) -> list[int]:
        if self.charges_events:
            return sorted(job for job in self.place if self.due[job] == self.now)
        found = []
        while self._next_end() == self.now:
            found.append(heappop(self.ends)[1])
            self.due[found[-1]] = NEVER
        return sorted(found)


def worked(elapsed: Number, speed: Number, spare: Number) -> tuple[Number, Number]:
    """Return by how much less work is left after that time, and what is spare then.

    Time is taken apart so that no product of two columns exceeds 64 bits.
    """
    seconds, rest = elapsed // FULL_SPEED, elapsed % FULL_SPEED
    done = rest * speed + spare
    return seconds * speed + done // FULL_SPEED, done % FULL_SPEED


def time_needed(left: Number, speed: Number, spare: Number) -> Number:
    """Return how long work takes at a speed, rounded up; taken apart as in `worked`."""
    whole, rest = left // speed, left % speed
    return whole * FULL_SPEED + (rest * FULL_SPEED - spare + speed - 1) // speed
