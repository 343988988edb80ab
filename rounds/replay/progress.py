"""How far the jobs of a replay have come, and what that has cost.

A job works `PER_MS` units a millisecond at speed 1, so that it ends at the first millisecond at
which all its work is done.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np

from placewright.array_types import Ints
from placewright.instances.traces.trace import NEVER, PER_MS, Trace
from placewright.rounds.replay.costs import Costs
from placewright.rounds.replay.ledger import HostLedger, Place


class Progress:
    """The columns of the jobs of a replay, at the time `now`.

    Parameters
    ----------
    trace, ledger, costs
        Whose jobs, on which hosts, and what starting, stopping and moving them costs.

    Attributes
    ----------
    now : int
        The clock, in milliseconds.
    place : dict of int to Place
        The running jobs and where they are, in the order in which they started.
    alive : dict of int to None
        The jobs that have come and not ended, in order of arrival.
    left : int64 (jobs,)
        Work that is left, in units of `PER_MS`, as of `since`.
    speed : int64 (jobs,)
        Units of work per millisecond, where the job runs now.
    other_speed : int64 (jobs,)
        1 for a job that has ever run at another speed than 1.
    together : dict of int to tuple of int
        The jobs that share one place, for each of them; the first counts as the one that holds it.
    shared_ms : int64 (jobs,)
        How much of `run_ms` a job ran in a place that another one held.
    """

    def __init__(self, trace: Trace, ledger: HostLedger, costs: Costs | None) -> None:
        costs = Costs() if costs is None else costs
        jobs = len(trace)
        self.trace, self.ledger = trace, ledger
        self.costs = costs
        self.charges_events = costs.charge == "event"
        self._start_ms = costs.column("start_ms", jobs)
        self._stop_ms = costs.column("stop_ms", jobs)
        self._move_ms = costs.column("move_ms", jobs)
        self.now = 0
        self.place: dict[int, Place] = {}
        self.alive: dict[int, None] = {}
        self.left = trace.work_ms * PER_MS
        self.speed = np.full(jobs, PER_MS, dtype=np.int64)
        self.since = np.zeros(jobs, dtype=np.int64)
        self.overhead_due = np.zeros(jobs, dtype=np.int64)
        self.running = np.zeros(jobs, dtype=np.int64)
        self.other_speed = np.zeros(jobs, dtype=np.int64)
        self.started = np.zeros(jobs, dtype=np.int64)
        self.first_start = np.full(jobs, NEVER, dtype=np.int64)
        self.end = np.full(jobs, NEVER, dtype=np.int64)
        self.stops = np.zeros(jobs, dtype=np.int64)
        self.moves = np.zeros(jobs, dtype=np.int64)
        self.run_ms = np.zeros(jobs, dtype=np.int64)
        self.overhead_ms = np.zeros(jobs, dtype=np.int64)
        self.lost_ms = np.zeros(jobs, dtype=np.int64)
        self.unsaved_ms = np.zeros(jobs, dtype=np.int64)
        self.together: dict[int, tuple[int, ...]] = {}
        self.shared_ms = np.zeros(jobs, dtype=np.int64)
        self.due = np.zeros(jobs, dtype=np.int64)
        self.ends: list[tuple[int, int]] = []
        self.gpus: list[int] = trace.gpus.tolist()
        self.busy_gpus = 0

    def column(self, name: str, jobs: Ints) -> Ints:
        """Return a column for some jobs: one of the trace, or one that changes."""
        if name == "now_ms":
            return np.full(len(jobs), self.now, dtype=np.int64)
        if name == "running":
            return self.running[jobs]
        if name == "remaining_ms":
            return self._left(jobs) // PER_MS
        if name == "service_ms":
            return self.run_ms[jobs] + self.running[jobs] * (self.now - self.since[jobs])
        rows = self.trace.extra.get(name)
        taken: Any = getattr(self.trace, name) if rows is None else rows
        chosen: Ints = taken[jobs]
        return chosen

    def _left(self, jobs: Ints) -> Ints:
        elapsed = self.running[jobs] * (self.now - self.since[jobs])
        works = elapsed - np.minimum(elapsed, self.overhead_due[jobs])
        left: Ints = self.left[jobs] - works * self.speed[jobs]
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
        self.overhead_ms[job] += overhead
        self._ran(job, elapsed)
        self.left[job] -= (elapsed - overhead) * int(self.speed[job])
        self.unsaved_ms[job] += elapsed - overhead
        self.since[job] = self.now

    def _ran(self, job: int, elapsed: int) -> None:
        self.run_ms[job] += elapsed
        if job in self.together and self.together[job][0] != job:
            self.shared_ms[job] += elapsed

    def _predict(self, job: int) -> None:
        due = (
            self.now + int(self.overhead_due[job]) - (-int(self.left[job]) // int(self.speed[job]))
        )
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
        self.overhead_ms[jobs] += overhead
        self.run_ms[jobs] += elapsed
        if self.together:
            follows = [self.together.get(job, (job,))[0] != job for job in jobs.tolist()]
            self.shared_ms[jobs] += elapsed * np.array(follows, dtype=np.int64)
        self.left[jobs] -= (elapsed - overhead) * self.speed[jobs]
        self.unsaved_ms[jobs] += elapsed - overhead
        self.since[jobs] = self.now
        self.due[jobs] = self.now - (-self.left[jobs] // self.speed[jobs])

    def _charges(self, jobs: Ints) -> Ints:
        charges: Ints = self._start_ms[jobs]
        for row, job in enumerate(jobs.tolist() if self.together else ()):
            if job in self.together:
                charges[row] = self._start_ms[list(self.together[job])].sum()
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
