"""Rules of admission lease by lease over a trace, on counted GPUs.

A rule (`lease_rules.py`) decides at the same boundaries as placewright, knows the same jobs and
keeps its promises, but its GPUs are only counted: who has a lease now runs, then jobs without a
deadline and refused ones, the shortest first, then whoever else has a promise; GPUs that come free
between boundaries go to waiting jobs in that order. A job that is stopped pays the overhead of its
GPUs when it goes on, under every method.
"""

from __future__ import annotations

import sys
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.lease_rules import Rule
from placewright.array_types import Ints
from placewright.formulations.deadline.problem.problem import Problem
from placewright.instances.converters.support.trace_jobs import TraceJob, overhead_s
from placewright.rounds.replay.lease_loop import Served

__all__ = ["LENGTH_S", "counted"]

LENGTH_S = 1200
"""Seconds of a lease."""


def counted(
    rule: Rule, jobs: Sequence[TraceJob], gpus: int, *, length_s: int = LENGTH_S
) -> tuple[Served, ...]:
    """Decide lease by lease by a rule, counting GPUs.

    Parameters
    ----------
    jobs
        In the order of submission, times on a clock on which the first lease begins at 0.
    """
    return _Counted(rule, jobs, gpus, length_s).served()


@dataclass(slots=True)
class _Counted:
    rule: Rule
    jobs: Sequence[TraceJob]
    gpus: int
    length: int
    left: list[int] = field(init=False)
    overhead: list[int] = field(init=False)
    stops: list[int] = field(init=False)
    finish: list[int | None] = field(init=False)
    promise: list[tuple[int, int] | None] = field(init=False)
    had: list[bool] = field(init=False)
    running: dict[int, int] = field(init=False, default_factory=dict)
    """When each job that runs is done."""
    waiting: set[int] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        count = len(self.jobs)
        self.left = [job.duration_s for job in self.jobs]
        self.overhead, self.stops = [0] * count, [0] * count
        self.finish, self.promise = [None] * count, [None] * count
        self.had = [False] * count

    def served(self) -> tuple[Served, ...]:
        """Go from boundary to boundary until nobody is left."""
        now, coming = 0, 0
        while self.running or self.waiting or coming < len(self.jobs):
            while coming < len(self.jobs) and self.jobs[coming].submit_s <= now:
                self.waiting.add(coming)
                coming += 1
            self._decide(now)
            coming = self._pass(now, coming)
            now += self.length
        return tuple(self._served(j) for j in range(len(self.jobs)))

    def _decide(self, now: int) -> None:
        """Let the rule promise, and choose who runs from this boundary on."""
        before = dict(self.running)
        alive = sorted(self.waiting | set(before))
        for j in [j for j in alive if self._hopeless(j, now)]:
            alive.remove(j)
            self.waiting.discard(j)
            before.pop(j, None)
        asked = [j for j in alive if self.jobs[j].due]
        problem, due = self._problem(asked, now)
        must: list[int] = []
        if problem is not None:
            made = self.rule(problem)
            for number, j in enumerate(asked):
                alternative = int(made.alternative[number])
                self.promise[j] = None if alternative < 0 else due[alternative]
                self.had[j] |= alternative >= 0
                if alternative >= 0 and made.runs[number, 0]:
                    must.append(j)
        first = set(must)
        rest = sorted((j for j in alive if j not in first), key=self._urgency)
        free, chosen = self.gpus, []
        for j in (*must, *rest):
            if self.jobs[j].gpus <= free:
                free -= self.jobs[j].gpus
                chosen.append(j)
        stay = set(chosen)
        for j in before:
            if j not in stay:
                self.stops[j] += 1
                self.overhead[j] = overhead_s(self.jobs[j].gpus)
        self.running = {j: now + self.overhead[j] + self.left[j] for j in chosen}
        self.waiting = {j for j in alive if j not in stay}

    def _urgency(self, j: int) -> tuple[bool, int, int]:
        return self.promise[j] is not None, self.left[j] * self.jobs[j].gpus, j

    def _hopeless(self, j: int, now: int) -> bool:
        due = self.jobs[j].due
        return bool(due) and now + self.overhead[j] + self.left[j] > due[-1][0]

    def _problem(
        self, asked: Sequence[int], now: int
    ) -> tuple[Problem | None, list[tuple[int, int]]]:
        """Return what a rule decides about, as placewright's rounds count it."""
        numbers: list[tuple[int, int, int, int, int]] = []
        dues: list[tuple[int, int]] = []
        for number, j in enumerate(asked):
            job = self.jobs[j]
            overhead = overhead_s(job.gpus)
            each = self.length - overhead
            need = -(-self.left[j] // each)
            last = now + overhead + self.left[j] - (need - 1) * each
            known: set[int] = set()
            for at, value in job.due:
                end = (at - last) // self.length + 1
                if end >= need and end not in known:
                    known.add(end)
                    numbers.append((number, need, end, value, job.gpus))
                    dues.append((at, value))
        if not numbers:
            return None, dues
        table: Ints = np.array(numbers, dtype=np.int64)
        loss = [0 if (had := self.promise[j]) is None else had[1] for j in asked]
        return Problem(
            capacity=np.full((1, int(table[:, 2].max())), self.gpus, dtype=np.int64),
            loss=np.array(loss, dtype=np.int64),
            job=table[:, 0],
            need=table[:, 1],
            first=np.zeros(len(table), dtype=np.int64),
            end=table[:, 2],
            value=table[:, 3],
            demand=table[:, 4:],
        ), dues

    def _pass(self, now: int, coming: int) -> int:
        """Go to the next boundary; return the first job that is still to come."""
        end, since = now + self.length, dict.fromkeys(self.running, now)
        free = self.gpus - sum(self.jobs[j].gpus for j in self.running)
        waiting = sorted(self._urgency(j) for j in self.waiting)
        while True:
            comes = self.jobs[coming].submit_s if coming < len(self.jobs) else sys.maxsize
            time = min(comes, min(self.running.values(), default=sys.maxsize))
            if time > end:
                break
            for j in [j for j, done in self.running.items() if done == time]:
                del self.running[j]
                self.finish[j] = time
                free += self.jobs[j].gpus
            while coming < len(self.jobs) and self.jobs[coming].submit_s == time:
                self.waiting.add(coming)
                insort(waiting, self._urgency(coming))
                coming += 1
            if time == end:
                continue
            for entry in [one for one in waiting if self.jobs[one[-1]].gpus <= free]:
                j = entry[-1]
                if self.jobs[j].gpus <= free and not self._hopeless(j, time):
                    free -= self.jobs[j].gpus
                    self.running[j] = time + self.overhead[j] + self.left[j]
                    since[j] = time
                    self.waiting.discard(j)
                    waiting.remove(entry)
        for j in self.running:
            spent = end - since[j]
            restarting = min(self.overhead[j], spent)
            self.overhead[j] -= restarting
            self.left[j] -= spent - restarting
        return coming

    def _served(self, j: int) -> Served:
        job, finish, promise = self.jobs[j], self.finish[j], self.promise[j]
        met = [value for at, value in job.due if finish is not None and finish <= at]
        kept = promise is not None and finish is not None and finish <= promise[0]
        return Served(
            job=job.name,
            came=job.submit_s,
            finish=finish,
            value=max(met, default=0),
            most=job.due[0][1] if job.due else 0,
            stops=self.stops[j],
            moves=0,
            broken=self.had[j] and not kept,
        )
