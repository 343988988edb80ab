"""List scheduling of a replay: who of the waiting jobs runs, in an order, with EASY backfilling."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from placewright.array_types import Ints
from placewright.instances.traces.trace import NEVER
from placewright.rounds.policies.base import Columns, Estimator, ListPolicy, Queues
from placewright.rounds.replay.book import HostLedger, Place, Places
from placewright.rounds.replay.loop import Decider, Loop


# EASY backfilling: the reservation of the first job that does not fit, and who delays it.
# Source: Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995.
class ExpectedEnds:
    """When running jobs are expected to end, by host.

    A job whose expected end has passed is expected to end at once.

    `ledger`: what is free now.
    """

    def __init__(self, ledger: HostLedger) -> None:
        self._ledger = ledger
        self._jobs: dict[int, tuple[int, Place]] = {}
        self._hosts: list[list[tuple[int, int, int]]] = [[] for _ in ledger.sizes]
        self._changes = 0
        self._changed: Ints = np.zeros(len(ledger.sizes), dtype=np.int64)
        self._closed = set(ledger.closed)
        self._rows: dict[int, tuple[int, Ints]] = {}

    def add(self, job: int, place: Place, end: int) -> None:
        """Take note of a job that has started in a place."""
        self._jobs[job] = end, place
        self._changes += 1
        for host, gpus in place:
            insort(self._hosts[host], (end, job, gpus))
            self._changed[host] = self._changes

    def remove(self, job: int) -> None:
        """Forget a job that does not run any more."""
        end, place = self._jobs.pop(job)
        self._changes += 1
        for host, gpus in place:
            jobs = self._hosts[host]
            del jobs[bisect_left(jobs, (end, job, gpus))]
            self._changed[host] = self._changes

    def __contains__(self, job: int) -> bool:
        return job in self._jobs

    def times(self, gpus: int) -> Ints:
        """Return when each host has so many free GPUs; 0 if it has them, `NEVER` if it never has.

        Kept from call to call; only hosts that have changed are looked at.
        """
        if self._ledger.closed != self._closed:
            self._closed = set(self._ledger.closed)
            self._rows.clear()
        seen, row = self._rows.get(gpus, (-1, np.zeros_like(self._changed)))
        for host in (self._changed > seen).nonzero()[0].tolist():
            row[host] = self._time(host, gpus)
        self._rows[gpus] = self._changes, row
        return row

    def free_at(self, host: int, time: int) -> int:
        """Return how many GPUs of a host are free then."""
        free = self._ledger.free[host]
        for end, _, gpus in self._hosts[host]:
            if end > time:
                break
            free += gpus
        return free

    def _time(self, host: int, gpus: int) -> int:
        free = self._ledger.free[host]
        if free >= gpus:
            return 0
        for end, _, held in self._hosts[host]:
            free += held
            if free >= gpus:
                return end
        return NEVER


@dataclass(slots=True)
class _Need:
    """A job needs `hosts` hosts with `gpus` free GPUs each; `spare` more have them."""

    gpus: int
    hosts: int
    spare: int = 0


class Reservation:
    """The earliest time at which a job that does not fit now is expected to fit.

    `ends`: when running jobs are expected to end. `ledger`: what is free now. `gpus`: GPUs of the
    job. `now`: the clock. `begin`: when the reservation begins, `NEVER` if the job does not fit
    whoever ends.
    """

    def __init__(self, ends: ExpectedEnds, ledger: HostLedger, gpus: int, now: int) -> None:
        whole, rest = divmod(gpus, ledger.largest) if gpus > ledger.largest else (0, gpus)
        self._ends = ends
        self._needs = [
            _Need(size, hosts)
            for size, hosts in ((ledger.largest, whole), (rest, whole + 1))
            if size and hosts
        ]
        rows = [ends.times(need.gpus) for need in self._needs]
        self.begin = max(
            now,
            *(_nth_least(row, need.hosts) for row, need in zip(rows, self._needs, strict=True)),
        )
        for row, need in zip(rows, self._needs, strict=True):
            need.spare = int(np.count_nonzero(row <= self.begin)) - need.hosts

    def admits(self, place: Place) -> bool:
        """Return whether the job still fits beside one that holds a place then; if so, it does."""
        if self.begin == NEVER:
            return True
        free = [(self._ends.free_at(host, self.begin), held) for host, held in place]
        lost = [sum(has >= n.gpus > has - held for has, held in free) for n in self._needs]
        if any(count > need.spare for count, need in zip(lost, self._needs, strict=True)):
            return False
        for count, need in zip(lost, self._needs, strict=True):
            need.spare -= count
        return True


def _nth_least(row: Ints, number: int) -> int:
    if number == 1:
        return int(row.min())
    return int(np.partition(row, number - 1)[number - 1]) if number <= len(row) else NEVER


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


class EstimatingList(SkippingList):
    """A list whose keys are estimates, made when a job comes."""

    def __init__(self, policy: ListPolicy, estimator: Estimator) -> None:
        super().__init__(policy)
        self._estimator = estimator

    def state(self) -> Any:
        """Return the list, and what is learnt."""
        return [super().state(), self._estimator.state()]

    def restore(self, state: Any) -> None:
        """Take a state over."""
        entries, learnt = state
        super().restore(entries)
        self._estimator.restore(learnt)

    def leave(self, loop: Loop, job: int) -> None:
        """Learn from a job that has ended."""
        super().leave(loop, job)
        self._estimator.end(self._columns(loop, job))

    def key_of(self, loop: Loop, job: int) -> float:
        """Estimate how long a job runs."""
        return self._estimator.key(self._columns(loop, job))

    def _columns(self, loop: Loop, job: int) -> Columns:
        return Columns(loop, np.array([job]), self._policy.sees)


def list_decider(policy: ListPolicy, jobs: int, places: Places = "kept") -> Decider:
    """Return the decider of a list policy for a trace of so many jobs."""
    if policy.preempts:
        return PreemptiveList(policy, jobs, places)
    if policy.estimator is not None:
        return EstimatingList(policy, policy.estimator())
    return SkippingList(policy) if policy.skips else BlockingList(policy)


class PreemptiveList(Decider):
    """A list of all jobs: those that come first run, the others wait or are preempted.

    Equal keys stay in the order of the last decision; jobs that come are behind all others.

    `policy`: a policy that preempts. `jobs`: jobs of the trace. `places`: `free`: all GPUs are free
    at each decision, and jobs are placed anew in the order of the list. `kept`: GPUs are counted in
    the order of the list; who runs stays where it is, and who starts waits if the GPUs are there
    but no host has them.
    """

    def __init__(self, policy: ListPolicy, jobs: int, places: Places) -> None:
        super().__init__()
        self._policy, self._places = policy, places
        self._list: Ints = np.empty(0, dtype=np.int64)
        self._came: list[int] = []
        self._left = False
        self._queues: Queues | None = None if policy.queues is None else policy.queues(jobs)

    def state(self) -> Any:
        """Return the list, who came and whether someone left since, and the queues."""
        queues = None if self._queues is None else self._queues.state()
        return [self._list.tolist(), self._came, self._left, queues]

    def restore(self, state: Any) -> None:
        """Take a state over."""
        jobs, self._came, self._left, queues = state
        self._list = np.array(jobs, dtype=np.int64)
        if self._queues is not None:
            self._queues.restore(queues)

    def arrive(self, loop: Loop, job: int) -> None:
        """Append a job to the list."""
        if not loop.stops[job]:
            self._came.append(job)

    def leave(self, loop: Loop, job: int) -> None:
        """Note that the list has a job that has ended."""
        self._left = True
        if self._queues is not None:
            self._queues.end(Columns(loop, np.array([job]), self._policy.sees))

    def wakes_us(self, loop: Loop) -> int:
        """Return when a running job changes its queue."""
        if self._queues is None:
            return NEVER
        return self._queues.wakes_us(self._columns(loop))

    def decide(self, loop: Loop) -> None:
        """Sort the list, walk it, and start and stop jobs accordingly."""
        self._update(loop)
        if not len(self._list):
            return
        if self._places == "free":
            self._place_all(loop)
        else:
            self._keep_places(loop)
        self._sort_after(loop)

    def between(self, loop: Loop) -> None:
        """Sort the list, walk it past those who run, and start who fits."""
        self._update(loop)
        for job, place in self._fitting(loop, self._list[loop.running[self._list] == 0]):
            loop.start(job, place)
        if len(self._list):
            self._sort_after(loop)

    def _sort_after(self, loop: Loop) -> None:
        if self._queues is not None:
            keys = self._queues.keys_after(self._columns(loop))
            self._list = self._list[np.argsort(keys, kind="stable")]

    def _columns(self, loop: Loop) -> Columns:
        return Columns(loop, self._list, self._policy.sees)

    def _update(self, loop: Loop) -> None:
        if self._left:
            self._list = self._list[loop.end[self._list] == NEVER]
            self._left = False
        if self._came:
            self._list = np.concatenate([self._list, np.array(self._came, dtype=np.int64)])
            self._came = []
        columns = self._columns(loop)
        if self._queues is None:
            keys = self._policy.order(columns)
        else:
            keys = self._queues.keys(columns, loop.running[self._list])
        self._list = self._list[np.argsort(keys, kind="stable")]

    def _place_all(self, loop: Loop) -> None:
        loop.ledger.clear()
        places: dict[int, Place] = {}
        for job, place in self._fitting(loop, self._list):
            loop.ledger.take(place)
            places[job] = place
        loop.replace_all(places)

    def _fitting(self, loop: Loop, jobs: Ints) -> Iterator[tuple[int, Place]]:
        """Walk jobs and yield who fits, and where; each takes its place before the walk goes on."""
        ledger, gpus = loop.ledger, loop.gpus
        least_misfit = ledger.total + 1
        for job in jobs.tolist():
            if not ledger.free_total:
                return
            if gpus[job] >= least_misfit:
                continue
            place = ledger.find(gpus[job])
            if place is not None:
                yield job, place
            elif self._policy.skips:
                least_misfit = gpus[job]
            else:
                return

    def _keep_places(self, loop: Loop) -> None:
        chosen = self._list[
            counted(loop.trace.gpus[self._list], loop.ledger.open_total, skips=self._policy.skips)
        ]
        runs = loop.running[chosen] != 0
        if np.count_nonzero(runs) < len(loop.place):
            stay = set(chosen[runs].tolist())
            for job in [job for job in loop.place if job not in stay]:
                loop.stop(job)
        for job in chosen[~runs].tolist():
            place = loop.ledger.find(loop.gpus[job])
            if place is not None:
                loop.start(job, place)


def counted(gpus: Ints, free: int, *, skips: bool) -> Ints:
    """Return who gets GPUs, by counts, where jobs take them in order: row numbers.

    In each pass those in front of the first that is too large take theirs.
    """
    rows = np.arange(len(gpus))
    chosen = []
    while free and len(rows):
        fits = int(np.cumsum(gpus[rows]).searchsorted(free, side="right"))
        chosen.append(rows[:fits])
        free -= int(gpus[rows[:fits]].sum())
        rows = rows[fits:]
        if not skips:
            break
        rows = rows[gpus[rows] <= free]
    return np.concatenate(chosen) if chosen else rows[:0]
