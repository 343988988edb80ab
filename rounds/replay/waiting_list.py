"""Lists of waiting jobs: who runs stays until its end."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from placewright.rounds.policies.base import Columns, ListPolicy
from placewright.rounds.replay.loop import Decider, Loop
from placewright.rounds.replay.reservation import ExpectedEnds, Reservation

_Entry = tuple[float, int]
"""Key and number of a job."""


class BlockingList(Decider):
    """A list of the waiting jobs; the first that does not fit ends the walk.

    Keys that do not change keep the list sorted; else it is sorted at every decision.
    """

    def __init__(self, policy: ListPolicy) -> None:
        super().__init__()
        self._policy = policy
        self._waiting: list[_Entry] = []

    def state(self) -> Any:
        """Return the list."""
        return self._waiting

    def restore(self, state: Any) -> None:
        """Take a list over."""
        self._waiting = [(key, job) for key, job in state]

    def arrive(self, loop: Loop, job: int) -> None:
        """Insert a job behind those of its key."""
        insort(self._waiting, (_key_of_arrival(self._policy, loop, job), job))

    def decide(self, loop: Loop) -> None:
        """Walk the list and start who fits."""
        if not self._policy.is_static:
            self._waiting = _sorted(self._policy, loop, [job for _, job in self._waiting])
        for number, (_, job) in enumerate(self._waiting):
            place = loop.ledger.find(loop.gpus[job])
            if place is None:
                del self._waiting[:number]
                return
            loop.start(job, place)
        self._waiting.clear()

    def between(self, loop: Loop) -> None:
        """Start who fits, as at any other time: no decision stops a job."""
        self.decide(loop)


class SkippingList(Decider):
    """A list of the waiting jobs; the walk goes on behind those that do not fit.

    A job at least as large as one that did not fit does not fit. So jobs of a size are in a queue
    of their own, and the walk leaves out whole queues.
    """

    def __init__(self, policy: ListPolicy) -> None:
        super().__init__()
        self._policy = policy
        self._came: list[_Entry] = []
        self._queues: dict[int, _Queue] = {}
        self._ends: ExpectedEnds | None = None

    def state(self) -> Any:
        """Return the list."""
        return sorted(self._came + self._entries())

    def restore(self, state: Any) -> None:
        """Take a list over."""
        self._came = [(key, job) for key, job in state]
        self._queues.clear()
        self._ends = None

    def arrive(self, loop: Loop, job: int) -> None:
        """Insert a job behind those of its key."""
        self._came.append((self.key_of(loop, job), job))
        self._forget(job)

    def key_of(self, loop: Loop, job: int) -> float:
        """Return the sort key of a job that comes."""
        return _key_of_arrival(self._policy, loop, job)

    def leave(self, loop: Loop, job: int) -> None:  # noqa: ARG002
        """Take note of an end."""
        self._forget(job)

    def _forget(self, job: int) -> None:
        if self._ends is not None and job in self._ends:
            self._ends.remove(job)

    def _entries(self) -> list[_Entry]:
        return [entry for queue in self._queues.values() for entry in queue.jobs]

    def decide(self, loop: Loop) -> None:
        """Walk the list and start who fits."""
        if not self._policy.is_static:
            jobs = [job for _, job in self._came + self._entries()]
            self._came = _sorted(self._policy, loop, jobs)
            self._queues.clear()
        predicted = loop.trace.predicted_us
        for entry in self._came:
            gpus = loop.gpus[entry[1]]
            if gpus not in self._queues:
                self._queues[gpus] = _Queue()
            self._queues[gpus].insert(entry, int(predicted[entry[1]]))
        self._came = []
        if self._policy.reserves and self._ends is None:
            self._ends = ExpectedEnds(loop.ledger)
            for job, place in loop.place.items():
                self._ends.add(job, place, int(loop.started[job] + predicted[job]))
        self._walk(loop)

    def between(self, loop: Loop) -> None:
        """Start who fits, as at any other time: no decision stops a job."""
        self.decide(loop)

    def _walk(self, loop: Loop) -> None:
        ledger, ends, queues = loop.ledger, self._ends, self._queues
        least_misfit = ledger.total + 1
        head: int | None = None
        reservation: Reservation | None = None
        passed = False
        heads = [(*queue.jobs[0], gpus) for gpus, queue in queues.items() if queue.jobs]
        heapify(heads)
        while heads and ledger.free_total and least_misfit > 1:
            key, job, gpus = heappop(heads)
            if gpus >= least_misfit:
                continue
            queue = queues[gpus]
            place = ledger.find(gpus)
            if place is None:
                least_misfit = gpus
                head = gpus if head is None else head
                continue
            index = bisect_left(queue.jobs, (key, job))
            if ends is not None:
                predicted = queue.predicted[index]
                if head is not None:
                    if reservation is None:
                        reservation = Reservation(ends, ledger, head, loop.now)
                    begin = reservation.begin
                    if loop.now + predicted > begin and not reservation.admits(place):
                        passed = True
                        index = queue.next_within(index + 1, begin - loop.now)
                        if index < len(queue.jobs):
                            heappush(heads, (*queue.jobs[index], gpus))
                        continue
                ends.add(job, place, loop.now + predicted)
            loop.start(job, place)
            queue.remove(index)
            if passed:
                heads = [
                    (*queues[size].jobs[at], size)
                    for size in queues
                    if size < least_misfit
                    and (at := bisect_right(queues[size].jobs, (key, job))) < len(queues[size].jobs)
                ]
                heapify(heads)
                passed = False
            elif index < len(queue.jobs):
                heappush(heads, (*queue.jobs[index], gpus))


class _Queue:
    """Waiting jobs of one size in the order of the list, and how long they are predicted to run."""

    def __init__(self) -> None:
        self.jobs: list[_Entry] = []
        self.predicted = array("q")

    def insert(self, entry: _Entry, predicted: int) -> None:
        index = bisect_right(self.jobs, entry)
        self.jobs.insert(index, entry)
        self.predicted.insert(index, predicted)

    def remove(self, index: int) -> None:
        del self.jobs[index], self.predicted[index]

    def next_within(self, index: int, limit: int) -> int:
        """Return the first at or behind an index that runs no longer than that; else the end."""
        if index == len(self.jobs):
            return index
        short = np.frombuffer(self.predicted, dtype=np.int64)[index:] <= limit
        first = int(short.argmax())
        return index + first if short[first] else len(self.jobs)


def _key_of_arrival(policy: ListPolicy, loop: Loop, job: int) -> float:
    return _keys(policy, loop, [job])[0] if policy.is_static else 0.0


def _sorted(policy: ListPolicy, loop: Loop, jobs: list[int]) -> list[_Entry]:
    return sorted(zip(_keys(policy, loop, jobs), jobs, strict=True)) if jobs else []


def _keys(policy: ListPolicy, loop: Loop, jobs: list[int]) -> list[float]:
    columns = Columns(loop, np.array(jobs, dtype=np.int64), policy.sees)
    keys: list[float] = policy.order(columns).tolist()
    return keys
