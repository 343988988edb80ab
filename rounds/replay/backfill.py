"""Backfilling within a lease: as jobs arrive and end, waiting jobs start on idle GPUs.

Jobs without a promise go first, shortest GPU time first. Two kinds of running jobs may be
preempted: one without a deadline, for an arrival that asks for a promise and would miss its
deadline if it waited for the next lease; and a backfilled one whose promise later leases keep
anyway, for a job without a deadline.

References
----------
Gao et al., "Chronus: a novel deadline-aware scheduler for deep learning training jobs", SoCC'21:
backfilling between the boundaries of leases.
"""

from __future__ import annotations

import sys
from bisect import insort
from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from placewright.instances.documents.job import Running
from placewright.instances.documents.round import Round
from placewright.rounds.replay.idle_gpus import IdleGpus
from placewright.rounds.replay.records import Record


class Backfill:
    """One lease, from its boundary to the next: who runs, who waits, and the idle GPUs.

    Parameters
    ----------
    round_
        The round, whose clock is at the boundary.
    records
        The jobs of the round, running and waiting.
    end
        The next boundary.
    """

    def __init__(self, round_: Round, records: Iterable[Record], end: int) -> None:
        self._limited = frozenset(tenant.name for tenant in round_.tenants)
        self._records: dict[str, Record] = {}
        self._idle = IdleGpus(round_)
        self._end = end
        self._ends: list[tuple[int, str]] = []
        self._waiting: list[tuple[bool, int, str]] = []
        self._backfilled: set[str] = set()
        for record in records:
            self._records[record.job.name] = record
            if record.running is None:
                self._waiting.append(record.backfill_key)
            else:
                self._run(record, round_.now)
        self._waiting.sort()

    @property
    def next_end(self) -> int:
        """Completion time of the running job that ends first; `sys.maxsize` if none runs."""
        return self._ends[0][0] if self._ends else sys.maxsize

    def finished(self, now: int) -> list[Record]:
        """Release the GPUs of the jobs that are done now, and return these jobs."""
        found = []
        while self.next_end == now:
            record = self._records.pop(heappop(self._ends)[1])
            self._idle.release(() if record.running is None else record.running.tasks)
            record.finish = now
            self._backfilled.discard(record.job.name)
            found.append(record)
        return found

    def arrive(self, record: Record) -> None:
        """Add an arrival to the waiting jobs."""
        self._records[record.job.name] = record
        insort(self._waiting, record.backfill_key)

    def serve(self, now: int) -> None:
        """Start waiting jobs, in order of `backfill_key`, on idle GPUs or by preemption."""
        for entry in list(self._waiting):
            record = self._records[entry[-1]]
            if record.hopeless(now) or record.job.tenant in self._limited or record.job.caps:
                continue
            for number in range(len(record.job.options)):
                if self._start(record, number, now):
                    break

    def run_to_boundary(self) -> None:
        """Advance all running jobs to the next boundary."""
        for record in self._records.values():
            if record.running is not None:
                record.work(self._end - record.since)

    def _start(self, record: Record, number: int, now: int) -> bool:
        """Start a waiting job with an option if it fits; return whether it started."""
        option = record.job.options[number]
        tasks = self._idle.find(option)
        if tasks is None:
            self._preempt_for(record, option.milli_gpu, now)
            tasks = self._idle.find(option)
        if tasks is None:
            return False
        self._waiting.remove(record.backfill_key)
        record.running = Running(option=number, tasks=tasks)
        self._run(record, now)
        if record.asked.due and not record.hopeless(self._end):
            self._backfilled.add(record.job.name)
        return True

    def _preempt_for(self, record: Record, milli_gpu: int, now: int) -> None:
        """Preempt the preemptible job with the fewest GPUs, at least `milli_gpu`, if there is one.

        Among equals, the one with the most work left.
        """
        able = [
            (self._milli_gpu_of(other), -other.left, other.job.name)
            for other in self._preemptible_for(record)
        ]
        chosen = min((one for one in able if one[0] >= milli_gpu), default=None)
        if chosen is not None:
            self._stop(self._records[chosen[-1]], now)

    def _preemptible_for(self, record: Record) -> list[Record]:
        """Return the running jobs that may be preempted for a waiting one."""
        if not record.asked.due:
            return [self._records[name] for name in sorted(self._backfilled)]
        if record.known or not record.hopeless(self._end):
            return []
        every = self._records.values()
        return [one for one in every if one.running is not None and not one.asked.due]

    def _milli_gpu_of(self, record: Record) -> int:
        return 0 if record.running is None else record.job.options[record.running.option].milli_gpu

    def _stop(self, record: Record, now: int) -> None:
        self._idle.release(() if record.running is None else record.running.tasks)
        self._backfilled.discard(record.job.name)
        self._ends = [one for one in self._ends if one[1] != record.job.name]
        heapify(self._ends)
        record.work(now - record.since)
        record.stop()
        insort(self._waiting, record.backfill_key)

    def _run(self, record: Record, now: int) -> None:
        self._idle.hold(() if record.running is None else record.running.tasks)
        record.since = now
        heappush(self._ends, (record.end(now), record.job.name))
