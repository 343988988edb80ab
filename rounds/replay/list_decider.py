"""List scheduling: the jobs in an order, walked; who fits runs. No solver takes part."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from typing import Any

import numpy as np

from placewright.array_types import Ints
from placewright.instances.traces.trace import NEVER
from placewright.rounds.policies.base import Columns, ListPolicy, Queues
from placewright.rounds.replay.ledger import Place, Places
from placewright.rounds.replay.loop import Decider, Loop


def list_decider(policy: ListPolicy, jobs: int, places: Places = "kept") -> Decider:
    """Return the decider of a list policy for a trace of so many jobs."""
    if policy.preempts:
        return PreemptiveList(policy, jobs, places)
    return WaitingList(policy)


class WaitingList(Decider):
    """A list of the waiting jobs; who runs stays until its end.

    Keys that do not change keep the list sorted; else it is sorted at every decision.
    """

    def __init__(self, policy: ListPolicy) -> None:
        super().__init__()
        self._policy = policy
        self._waiting: list[tuple[float, int]] = []

    def state(self) -> Any:
        """Return the list."""
        return self._waiting

    def restore(self, state: Any) -> None:
        """Take a list over."""
        self._waiting = [(key, job) for key, job in state]

    def arrive(self, loop: Loop, job: int) -> None:
        """Insert a job behind those of its key."""
        key = self._keys(loop, [job])[0] if self._policy.is_static else 0.0
        insort(self._waiting, (key, job))

    def decide(self, loop: Loop) -> None:
        """Walk the list and start who fits."""
        if not self._waiting:
            return
        if not self._policy.is_static:
            jobs = [job for _, job in self._waiting]
            self._waiting = sorted(zip(self._keys(loop, jobs), jobs, strict=True))
        if self._policy.skips:
            self._walk(loop)
        else:
            self._walk_until_misfit(loop)

    def _keys(self, loop: Loop, jobs: list[int]) -> list[float]:
        policy = self._policy
        columns = Columns(loop, np.array(jobs, dtype=np.int64), policy.sees)
        keys: list[float] = policy.order(columns).tolist()
        return keys

    def _walk_until_misfit(self, loop: Loop) -> None:
        for number, (_, job) in enumerate(self._waiting):
            place = loop.ledger.find(loop.gpus[job])
            if place is None:
                del self._waiting[:number]
                return
            loop.start(job, place)
        self._waiting.clear()

    def _walk(self, loop: Loop) -> None:
        """Walk on behind misfits: a job at least as large as one that did not fit does not fit."""
        gpus, least_misfit = loop.gpus, loop.ledger.total + 1
        head: int | None = None
        admits: Callable[[int, Place], bool] | None = None
        position = 0
        while position < len(self._waiting) and loop.ledger.free_total and least_misfit > 1:
            job = self._waiting[position][1]
            position += 1
            if gpus[job] >= least_misfit:
                continue
            place = loop.ledger.find(gpus[job])
            if place is None:
                least_misfit = gpus[job]
                if self._policy.reserves and head is None:
                    head = job
                continue
            if head is not None and admits is None:
                admits = _reservation(loop, head)
            if admits is None or admits(job, place):
                loop.start(job, place)
                position -= 1
                del self._waiting[position]


def _reservation(loop: Loop, head: int) -> Callable[[int, Place], bool]:
    """EASY: reserve the earliest place of the first job that does not fit.

    Running jobs are expected to end when they have run as long as predicted, and at once if they
    run longer. Returns a function that says whether a job may start in a place: it ends before
    the reservation begins, or the reserved job still fits beside it then.
    """
    now, predicted = loop.now, loop.trace.predicted_ms
    ends = sorted((max(now, int(loop.started[job] + predicted[job])), job) for job in loop.place)
    then = loop.ledger.copy()
    begin = NEVER
    for end, job in ends:
        if end > begin:
            break
        then.release(loop.place[job])
        if begin == NEVER and then.find(loop.gpus[head]) is not None:
            begin = end

    def admits(job: int, place: Place) -> bool:
        if begin == NEVER or now + int(predicted[job]) <= begin:
            return True
        then.take(place)
        if then.find(loop.gpus[head]) is not None:
            return True
        then.release(place)
        return False

    return admits


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

    def leave(self, loop: Loop, job: int) -> None:  # noqa: ARG002
        """Note that the list has a job that has ended."""
        self._left = True

    def wakes_ms(self, loop: Loop) -> int:
        """Return when a running job changes its queue."""
        if self._queues is None:
            return NEVER
        return self._queues.wakes_ms(self._columns(loop))

    def decide(self, loop: Loop) -> None:
        """Sort the list, walk it, and start and stop jobs accordingly."""
        self._update(loop)
        jobs = self._list
        if not len(jobs):
            return
        if self._places == "free":
            self._place_all(loop)
        else:
            self._keep_places(loop)
        if self._queues is not None:
            keys = self._queues.keys_after(self._columns(loop))
            self._list = jobs[np.argsort(keys, kind="stable")]

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
        ledger, gpus = loop.ledger, loop.gpus
        ledger.clear()
        places: dict[int, Place] = {}
        least_misfit = ledger.total + 1
        for job in self._list.tolist():
            if gpus[job] >= least_misfit:
                continue
            place = ledger.find(gpus[job])
            if place is not None:
                ledger.take(place)
                places[job] = place
            elif self._policy.skips:
                least_misfit = gpus[job]
            else:
                break
            if not ledger.free_total:
                break
        loop.replace_all(places)

    def _keep_places(self, loop: Loop) -> None:
        gpus, free, chosen = loop.gpus, loop.ledger.open_total, []
        for job in self._list.tolist():
            asked = gpus[job]
            if asked <= free:
                free -= asked
                chosen.append(job)
                if not free:
                    break
            elif not self._policy.skips:
                break
        stay = set(chosen)
        for job in [job for job in loop.place if job not in stay]:
            loop.stop(job)
        for job in chosen:
            if job not in loop.place:
                place = loop.ledger.find(gpus[job])
                if place is not None:
                    loop.start(job, place)
