"""What stands in the way of a promise: leases that come too late, or have no room.

GPUs are counted by model and quota, as the verifier counts them in leases to come; where the tasks
would lie on hosts is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placewright.instances.documents.deadline import Deadline, finish, gain, least_hosts, need
from placewright.instances.verify.rules.deadline.lease_capacity import Room
from placewright.instances.verify.rules.deadline.lease_work import first_usable

if TYPE_CHECKING:
    from placewright.cli.views.deadline.facts import Interval, Promise
    from placewright.instances.documents.job import Job
    from placewright.instances.verify.reading import Reading

Ints = NDArray[np.int64]


class Obstacle(NamedTuple):
    """What a promise by some time needs, and what there is of it.

    Parameters
    ----------
    milli_gpu
        GPUs of the option that comes closest.
    needs
        Leases of work; None if no lease is long enough for any.
    alone
        When the work would be done in the first leases that it may use, if nobody held any.
    window
        Leases that it may use: the last of them ends its work in time.
    has
        Of these, leases with so many GPUs of the models that it may use, whoever holds them.
    fits
        Of these, leases that have so many left beside the promises of the plan.
    holders
        Who holds promises in the window, most GPU time first.
    """

    milli_gpu: int
    needs: int | None
    alone: int
    window: Interval
    has: int
    fits: int
    holders: tuple[str, ...]

    @property
    def lacks(self) -> int:
        """Leases that are not there."""
        return max(0, (self.needs or 0) - self.fits)


class Obstacles:
    """What stands in the way of the jobs of a round, beside the promises of a plan."""

    def __init__(self, reading: Reading, given: Sequence[Promise]) -> None:
        self._reading, self._given = reading, given

    def of(self, name: str, by: int, offered: str | None = None) -> Obstacle:
        """Return what stands in the way of ending a job by some time.

        Of its options it is one that only the promises are in the way of, if there is any; then
        the one that lacks the fewest leases, then the one that is offered.
        """
        job = self._reading.jobs[name]
        found = [self._of(job, option, by) for option in range(len(job.options))]

        def far(option: int) -> tuple[bool, bool, int, bool]:
            """Say how far an option is from being promised."""
            it, other = found[option], job.options[option].name != offered
            return it.needs is None, it.alone > by or it.has < (it.needs or 0), it.lacks, other

        return found[min(range(len(found)), key=far)]

    def _of(self, job: Job, index: int, by: int) -> Obstacle:
        leases, now = self._reading.round.leases, self._reading.round.now
        option, deadline = job.options[index], deadline_of(job)
        pace, hosts = deadline.pace(index), least_hosts(option, self._largest)
        needs = need(deadline.work, pace, leases.length_s, hosts)
        if needs is None:
            return Obstacle(option.milli_gpu, None, by, (0, 0), 0, 0, ())
        rest = deadline.work - (needs - 1) * gain(pace, leases.length_s, hosts)
        last = (by - finish(now, rest, pace, hosts)) // leases.length_s
        usable = first_usable(self._reading, job, index)
        first = min(usable, leases.horizon)
        end = min(max(last + 1, first), leases.horizon)
        demand = self._room.demand([(job, index)])[0]
        asks = demand > 0

        def fits(rows: Ints) -> int:
            """Count the leases of the window in which each row has what the option asks of it."""
            return int((rows[asks, first:end] >= demand[asks, None]).all(axis=0).sum())

        return Obstacle(
            option.milli_gpu,
            needs,
            finish(leases.start(now, usable + needs - 1), rest, pace, hosts),
            (first, end),
            fits(self._room.free),
            fits(self._left),
            self._holders(job.name, first, end),
        )

    def _holders(self, name: str, first: int, end: int) -> tuple[str, ...]:
        """Return who else holds promises in a window, most GPU time first."""
        held = {
            promise.job: promise.milli_gpu
            * sum(max(0, min(b, end) - max(a, first)) for a, b in promise.leases)
            for promise in self._given
            if promise.job != name
        }
        return tuple(sorted((job for job in held if held[job]), key=lambda job: -held[job]))

    @cached_property
    def _largest(self) -> dict[str, int]:
        """The most GPUs of a host, by model."""
        largest: dict[str, int] = {}
        for host in self._reading.cluster.hosts.values():
            model, gpus = host.hardware.gpu_model, host.hardware.gpus
            if model is not None:
                largest[model] = max(gpus, largest.get(model, 0))
        return largest

    @cached_property
    def _room(self) -> Room:
        """What the leases have, in the rows that some option of a job asks of."""
        jobs = (job for job in self._reading.round.jobs if job.deadline is not None)
        asking = ((job, o) for job in jobs for o in range(len(job.options)))
        return Room(self._reading, asking)

    @cached_property
    def _left(self) -> Ints:
        """What promises leave of each row in each lease (rows, horizon), milli-GPU."""
        promises = self._reading.promises
        if promises is None:
            raise ValueError("the plan has no section leases")
        return self._room.free - self._room.taken(promises)


def deadline_of(job: Job) -> Deadline:
    """Return the deadline of a job that asked for a promise."""
    if job.deadline is None:
        raise ValueError(f"job {job.name} in the section leases has no deadline")
    return job.deadline
