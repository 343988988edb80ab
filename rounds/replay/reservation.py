"""EASY backfilling: the reservation of the first job that does not fit, and who delays it.

References
----------
Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np

from placewright.array_types import Ints
from placewright.instances.traces.trace import NEVER
from placewright.rounds.replay.ledger import HostLedger, Place


class ExpectedEnds:
    """When running jobs are expected to end, by host.

    A job whose expected end has passed is expected to end at once.

    Parameters
    ----------
    ledger
        What is free now.
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

    Parameters
    ----------
    ends
        When running jobs are expected to end.
    ledger
        What is free now.
    gpus
        GPUs of the job.
    now
        The clock.

    Attributes
    ----------
    begin : int
        When the reservation begins, `NEVER` if the job does not fit whoever ends.
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
