"""The leases that a job can use, and its completion time in the leases of a plan.

The current lease is placed: its speed is that of where the job is. Later leases are counted: their
speed is that on the fewest hosts that can hold the job. A pinned job stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from placewright.instances.documents.deadline import Deadline
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan_leases import Interval
from placewright.instances.verify.reading import Reading, Spans
from placewright.instances.verify.rules.deadline.lease_arithmetic import (
    completion,
    fewest_hosts,
    lease_work,
)


def first_usable(reading: Reading, job: Job, option: int) -> int:
    """Return the first lease that a job can use with an option.

    No lease begins before the job is ready. A running job goes on with the option that it runs; any
    other has to wait for the next lease.
    """
    leases = reading.round.leases
    ready = job.deadline.ready if job.deadline is not None else None
    late = 0 if ready is None else max(0, ready - reading.round.now)
    first = -(-late // leases.length_s)
    other = job.running is not None and job.running.option != option
    return max(first, 1) if other else first


def in_order(spans: Spans, earliest: Sequence[int], horizon: int) -> npt.NDArray[np.bool_]:
    """Return which intervals are non-empty, within reach, and apart from the one before."""
    same = np.zeros(len(spans.owner), dtype=np.bool_)
    same[1:] = spans.owner[1:] == spans.owner[:-1]
    least = np.array(earliest, dtype=np.int64)[spans.owner]
    least[same] = spans.end[:-1][same[1:]] + 1
    ordered: npt.NDArray[np.bool_] = (
        (least <= spans.first) & (spans.first < spans.end) & (spans.end <= horizon)
    )
    return ordered


def largest_hosts(reading: Reading) -> dict[str, int]:
    """Return the most GPUs of a host, by GPU model."""
    largest: dict[str, int] = {}
    for host in reading.cluster.hosts.values():
        model, gpus = host.hardware.gpu_model, host.hardware.gpus
        if model is not None:
            largest[model] = max(gpus, largest.get(model, 0))
    return largest


class LeaseProgress:
    """The work that jobs do in their leases, and their completion times."""

    def __init__(self, reading: Reading) -> None:
        self._leases, self._now = reading.round.leases, reading.round.now
        self._largest = largest_hosts(reading)
        self._here = {
            placed.job.name: len({task.host.name for task in placed.tasks})
            for placed in reading.placed
        }

    def gained(self, job: Job, option: int) -> int:
        """Return the work of a job in the current lease, where it is placed.

        Without a deadline the pace is the usual one.
        """
        pace = (job.deadline or _USUAL).pace(option)
        return lease_work(pace, self._leases.length_s, self._here.get(job.name, 1))

    def finish(
        self, job: Job, option: int, intervals: Sequence[Interval], *, placed: bool
    ) -> int | str:
        """Return the completion time of a job in these leases, or what is wrong with them.

        The intervals are in order. `placed`: in the current lease it is where the plan says, and
        not only counted.
        """
        deadline = job.deadline or _USUAL
        pace, length = deadline.pace(option), self._leases.length_s
        later = fewest_hosts(job.options[option], self._largest)
        if job.running is not None and job.running.pinned:
            later = len({task.host for task in job.running.tasks})
        now = self._here.get(job.name, later) if placed else later
        begins, last = intervals[0][0] == 0, intervals[-1][1] - 1
        hosts = later if last else now
        count = sum(end - first for first, end in intervals)
        before = lease_work(pace, length, later) * (count - 1)
        if begins and last:
            before += lease_work(pace, length, now) - lease_work(pace, length, later)
        left = deadline.work - before
        if left > lease_work(pace, length, hosts):
            done = before + lease_work(pace, length, hosts)
            return (
                f"leases of job {job.name!r} do {done} thousandths of a second of its work; "
                f"expected {deadline.work}"
            )
        if left <= 0:
            return (
                f"job {job.name!r} is done before its last lease, {last}; "
                "expected no lease that it does not need"
            )
        return completion(self._leases.start(self._now, last), left, pace, hosts)


_USUAL = Deadline(work_s=1)
