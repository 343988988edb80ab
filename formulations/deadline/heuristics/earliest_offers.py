"""Offers to refused jobs: the earliest finish that fits beside a plan.

Each job is offered, on its own, the first leases with capacity for it; no other job moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.deadline.problem.alternatives import first_with, hosts_of, options_of
from placewright.formulations.deadline.problem.capacity_rows import CapacityRows, largest_host_gpus
from placewright.formulations.deadline.problem.compile import Admission
from placewright.formulations.deadline.problem.problem import NONE, Schedule, intervals
from placewright.formulations.plan_messages import Promise
from placewright.instances.derived.lease_arithmetic import (
    completion_time,
    leases_needed,
    work_per_lease,
)
from placewright.instances.documents.deadline import Deadline
from placewright.instances.documents.job import Job


@dataclass(frozen=True, slots=True)
class _Request:
    """An option of a job that asks for a promise: its demand, leases needed, and time of the last.

    `need` leases, of which the last one ends `last_s` seconds after it has begun.
    """

    job: int
    option: int
    need: int
    first: int
    last_s: int
    demand: tuple[int, ...]


class Offers:
    """Earliest finishes of the jobs of a round beside a schedule, their due times left aside.

    Parameters
    ----------
    admission
        Its jobs with due times may be refused, and are made offers then. The current lease is not
        offered in a round in which something runs where nothing new may arrive.
    """

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        jobs = admission.round.jobs
        rows = CapacityRows(admission.round, (jobs[j] for j in admission.jobs))
        largest = largest_host_gpus(admission.round)
        # Capacity that only jobs already there may use is not offered to others.
        self._earliest = 1 if rows.has_closed_running_gpus() else 0
        self._requests = [
            request
            for number, j in enumerate(admission.jobs)
            if (deadline := jobs[j].deadline) is not None and deadline.due
            for request in self._of(number, jobs[j], deadline, rows, largest)
        ]
        demands = np.array([request.demand for request in self._requests], dtype=np.int64)
        self._class_demand, class_of = np.unique(
            demands.reshape(len(self._requests), rows.count), axis=0, return_inverse=True
        )
        self._class_of: Ints = class_of.reshape(-1)
        self._job = np.array([request.job for request in self._requests], dtype=np.int64)
        self._need = np.array([request.need for request in self._requests], dtype=np.int64)
        self._first = np.array([request.first for request in self._requests], dtype=np.int64)
        self._last_s = np.array([request.last_s for request in self._requests], dtype=np.int64)

    def _of(
        self,
        number: int,
        job: Job,
        deadline: Deadline,
        rows: CapacityRows,
        largest: Mapping[str, int],
    ) -> Iterator[_Request]:
        round_, running = self._admission.round, job.running
        length = round_.leases.length_s
        for o in options_of(job):
            option = job.options[o]
            pace, hosts = deadline.pace(o), hosts_of(job, option, largest)
            first = first_with(round_, job, o)
            if running is None or not running.pinned:
                first = max(first, self._earliest)
            count = leases_needed(deadline.work, pace, length, hosts)
            if count is None:
                continue
            left = deadline.work - (count - 1) * work_per_lease(pace, length, hosts)
            yield _Request(
                job=number,
                option=o,
                need=count,
                first=first,
                last_s=completion_time(0, left, pace, hosts),
                demand=tuple(rows.demand(job, o)),
            )

    def for_refused(self, kept: Schedule) -> tuple[Promise, ...]:
        """Return an offer for each refused job that fits before the horizon, in their order."""
        admission = self._admission
        refused = np.flatnonzero(kept.alternative[self._job] == NONE)
        if not len(refused):
            return ()
        residual = admission.problem.capacity - kept.usage(admission.problem)
        fits: Bools = np.ones((len(self._class_demand), residual.shape[1]), dtype=np.bool_)
        for row, have in enumerate(residual):
            fits &= self._class_demand[:, row, None] <= have
        last = _last_lease(fits, self._class_of[refused], self._first[refused], self._need[refused])
        refused, last = refused[last != NONE], last[last != NONE]
        done = last * admission.round.leases.length_s + self._last_s[refused]
        # The earliest finish of each job, and of those the option that needs the fewest leases.
        order = np.lexsort((self._need[refused], done, self._job[refused]))
        _, best = np.unique(self._job[refused[order]], return_index=True)
        offers = []
        for position in order[best].tolist():
            number = int(refused[position])
            request, at = self._requests[number], admission.round.now + int(done[position])
            usable = fits[self._class_of[number], request.first : int(last[position]) + 1]
            leases = intervals(np.flatnonzero(usable) + request.first)
            offers.append(Promise(admission.jobs[request.job], request.option, at, 0, at, leases))
        return tuple(offers)


def _last_lease(fits: Bools, class_of: Ints, first: Ints, need: Ints) -> Ints:
    """Return the lease by which each request has had as many fitting leases as it needs, or `NONE`.

    Parameters
    ----------
    fits
        (classes, horizon): the leases in which a request of each demand class fits.
    class_of, first, need
        (requests,): its demand class, the first lease that it can use, the leases that it needs.
    """
    horizon = fits.shape[1]
    last = np.full(len(class_of), NONE, dtype=np.int64)
    for one in np.unique(class_of):
        mine = np.flatnonzero((class_of == one) & (first < horizon))
        counted = np.concatenate([[0], np.cumsum(fits[one])])
        end = np.searchsorted(counted, counted[first[mine]] + need[mine])
        last[mine] = np.where(end <= horizon, end - 1, NONE)
    return last
