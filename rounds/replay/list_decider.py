"""List scheduling: the jobs in an order, walked; who fits runs. No solver takes part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from placewright.array_types import Ints
from placewright.instances.traces.trace import NEVER
from placewright.rounds.policies.base import Columns, ListPolicy, Queues
from placewright.rounds.replay.estimating_list import EstimatingList
from placewright.rounds.replay.ledger import Place, Places
from placewright.rounds.replay.loop import Decider, Loop
from placewright.rounds.replay.waiting_list import BlockingList, SkippingList


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

    Parameters
    ----------
    policy
        A policy that preempts.
    jobs
        Jobs of the trace.
    places
        `free`: all GPUs are free at each decision, and jobs are placed anew in the order of the
        list. `kept`: GPUs are counted in the order of the list; who runs stays where it is, and who
        starts waits if the GPUs are there but no host has them.
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
