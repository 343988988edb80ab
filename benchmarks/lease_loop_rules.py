"""Rules of admission lease by lease over a trace, on counted GPUs.

A rule (`lease_rules.py`) decides at the same boundaries as placewright, knows the same jobs and
keeps its promises, but its GPUs are only counted: who has a lease now runs, then jobs without a
deadline and refused ones, the shortest first, then whoever else has a promise; GPUs that come free
between boundaries go to waiting jobs in that order. A job that is stopped pays the overhead of its
GPUs when it goes on, under every method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.lease_rules import Rule
from placewright.array_types import Ints
from placewright.formulations.deadline.problem.problem import Problem
from placewright.instances.converters.support.trace_rounds import TraceJob, overhead_s
from placewright.instances.traces.trace import NEVER, Trace
from placewright.rounds.policies.base import Columns, Keys, ListPolicy
from placewright.rounds.replay.book import Costs, HostLedger
from placewright.rounds.replay.lease_decider import Served
from placewright.rounds.replay.list_decider import PreemptiveList
from placewright.rounds.replay.loop import Loop, Trigger

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
    rows = [(1000 * job.submit_s, job.gpus, 1000 * job.duration_s) for job in jobs]
    table: Ints = np.array(rows, dtype=np.int64)
    trace = replace(Trace.of(*table.T), submit_us=table[:, 0])
    stop_us: Ints = np.array([1000 * overhead_s(job.gpus) for job in jobs], dtype=np.int64)
    admission = _Admission(rule, jobs, gpus, length_s)
    loop = Loop(
        trace,
        HostLedger([gpus], "counting"),
        admission,
        costs=Costs(stop_us=stop_us),
        trigger=Trigger(1000 * length_s, leases=True),
    )
    loop.run()
    return tuple(admission.served(loop, j) for j in range(len(jobs)))


class _Admission(PreemptiveList):
    """A list that a rule orders at each boundary; who cannot be in time any more leaves it."""

    def __init__(self, rule: Rule, jobs: Sequence[TraceJob], gpus: int, length_s: int) -> None:
        policy = ListPolicy(
            "admission", self._order, frozenset({"remaining_us"}), preempts=True, skips=True
        )
        super().__init__(policy, len(jobs), "kept")
        self._rule, self._jobs, self._gpus, self._length = rule, jobs, gpus, length_s
        self._last_us: Ints = np.array(
            [1000 * job.due[-1][0] if job.due else NEVER for job in jobs], dtype=np.int64
        )
        self._promise: list[tuple[int, int] | None] = [None] * len(jobs)
        self._promised = np.zeros(len(jobs), dtype=np.bool_)
        self._must = np.zeros(len(jobs), dtype=np.bool_)
        self._had = np.zeros(len(jobs), dtype=np.bool_)

    def decide(self, loop: Loop) -> None:
        """Let the rule promise, and choose who runs from this boundary on."""
        self._withdraw(loop)
        self._promise_leases(loop)
        super().decide(loop)

    def between(self, loop: Loop) -> None:
        """Start who fits and can be in time."""
        self._withdraw(loop)
        super().between(loop)

    def _order(self, jobs: Columns) -> Keys:
        """Who has a lease now, then who has no promise, by GPU time that is left."""
        numbers, left = jobs.numbers, jobs.remaining_us * jobs.gpus
        rank = np.where(self._must[numbers], 0, 1 + self._promised[numbers])
        order = np.lexsort((numbers, left, rank))
        keys: Ints = np.empty_like(order)
        keys[order] = np.arange(len(order))
        return keys

    def _withdraw(self, loop: Loop) -> None:
        """Let jobs leave that can meet none of their deadlines."""
        alive = np.fromiter(loop.alive, dtype=np.int64, count=len(loop.alive))
        ends = loop.now + loop.overhead_due[alive] + loop.left[alive]
        ends = np.where(loop.running[alive] > 0, loop.due[alive], ends)
        gone = alive[ends > self._last_us[alive]]
        for job in gone.tolist():
            loop.withdraw(job)
        self._list = self._list[~np.isin(self._list, gone)]
        self._came = [job for job in self._came if job in loop.alive]

    def _promise_leases(self, loop: Loop) -> None:
        asked = [j for j in sorted(loop.alive) if self._jobs[j].due]
        left_s = loop.column("remaining_us", np.array(asked, dtype=np.int64)) // 1000
        problem, due = self._problem(asked, left_s.tolist(), loop.now // 1000)
        self._must[:] = False
        if problem is None:
            return
        made = self._rule(problem)
        for number, j in enumerate(asked):
            alternative = int(made.alternative[number])
            self._promise[j] = None if alternative < 0 else due[alternative]
            self._promised[j] = alternative >= 0
            self._must[j] = alternative >= 0 and made.runs[number, 0]
        self._had |= self._promised

    def _problem(
        self, asked: Sequence[int], left_s: Sequence[int], now: int
    ) -> tuple[Problem | None, list[tuple[int, int]]]:
        """Return what a rule decides about, as placewright's rounds count it."""
        numbers: list[tuple[int, int, int, int, int]] = []
        dues: list[tuple[int, int]] = []
        for number, (j, left) in enumerate(zip(asked, left_s, strict=True)):
            job = self._jobs[j]
            overhead = overhead_s(job.gpus)
            each = self._length - overhead
            need = -(-left // each)
            last = now + overhead + left - (need - 1) * each
            known: set[int] = set()
            for at, value in job.due:
                end = (at - last) // self._length + 1
                if end >= need and end not in known:
                    known.add(end)
                    numbers.append((number, need, end, value, job.gpus))
                    dues.append((at, value))
        if not numbers:
            return None, dues
        table: Ints = np.array(numbers, dtype=np.int64)
        loss = [0 if (had := self._promise[j]) is None else had[1] for j in asked]
        return Problem(
            capacity=np.full((1, int(table[:, 2].max())), self._gpus, dtype=np.int64),
            loss=np.array(loss, dtype=np.int64),
            job=table[:, 0],
            need=table[:, 1],
            first=np.zeros(len(table), dtype=np.int64),
            end=table[:, 2],
            value=table[:, 3],
            demand=table[:, 4:],
        ), dues

    def served(self, loop: Loop, j: int) -> Served:
        """Return what became of a job."""
        job, promise = self._jobs[j], self._promise[j]
        finish = None if loop.end[j] == NEVER else int(loop.end[j]) // 1000
        met = [value for at, value in job.due if finish is not None and finish <= at]
        kept = promise is not None and finish is not None and finish <= promise[0]
        return Served(
            job=job.name,
            came=job.submit_s,
            finish=finish,
            value=max(met, default=0),
            most=job.due[0][1] if job.due else 0,
            stops=int(loop.stops[j]),
            moves=0,
            broken=bool(self._had[j]) and not kept,
        )
