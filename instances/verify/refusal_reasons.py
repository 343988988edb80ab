"""Why a promise is refused or broken: its leases come too late, or lack capacity.

GPUs are counted by model and quota, as the verifier counts them in later leases; the topology of
hosts is not considered.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from placewright.array_types import Ints
from placewright.instances.checks.round import checked
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.plan_leases import Interval
from placewright.instances.documents.round import Round
from placewright.instances.verify.reading import read
from placewright.instances.verify.rules.deadline.leases import (
    LeaseCapacity,
    completion,
    fewest_hosts,
    first_usable,
    largest_hosts,
    lease_work,
    with_promises,
)


class RefusalReason(NamedTuple):
    """The leases that a promise by some time needs, and those that there are.

    Parameters
    ----------
    milli_gpu
        GPUs of the option that is closest to a promise.
    needed
        Leases that its work needs; None if the overhead takes the whole of a lease.
    earliest
        Earliest completion time on an empty cluster.
    window
        Leases that it may use to be done in time, as a half-open interval.
    capable
        Leases of the window with enough GPUs of the allowed models, whoever holds them.
    free
        Leases of the window with enough residual capacity beside the promises of the plan.
    holders
        Jobs that hold promises in the window, the largest GPU time first.
    """

    milli_gpu: int
    needed: int | None
    earliest: int
    window: Interval
    capable: int
    free: int
    holders: tuple[str, ...]

    @property
    def missing(self) -> int:
        """Leases that it needs beyond those with residual capacity."""
        return max(0, (self.needed or 0) - self.free)


class RefusalReasons:
    """Why jobs of a round get no promise beside those of a valid plan.

    Raises
    ------
    ValueError
        If the plan has no section `leases`.
    """

    def __init__(self, round_: Round, plan: Plan) -> None:
        self._reading = with_promises(read(checked(round_), plan))
        if self._reading.promises is None:
            raise ValueError("the plan has no section leases")
        self._promises = self._reading.promises

    def of(self, name: str, by: int, offered: str | None = None) -> RefusalReason:
        """Return why a job cannot be promised to be done by some time.

        The reason is that of the option closest to a promise: first one that would be in time on an
        empty cluster, then the one that misses the fewest leases, then the one that is offered.
        """
        job = self._reading.jobs[name]
        found = [self._of(job, option, by) for option in range(len(job.options))]

        def far(option: int) -> tuple[bool, bool, int, bool]:
            """Sort key: how far an option is from a promise."""
            reason, other = found[option], job.options[option].name != offered
            late = reason.earliest > by or reason.capable < (reason.needed or 0)
            return reason.needed is None, late, reason.missing, other

        return found[min(range(len(found)), key=far)]

    def _of(self, job: Job, index: int, by: int) -> RefusalReason:
        leases, now = self._reading.round.leases, self._reading.round.now
        option, deadline = job.options[index], job.deadline
        if deadline is None:
            raise ValueError(f"job {job.name} has no deadline")
        pace, hosts = deadline.pace(index), fewest_hosts(option, self._largest)
        each = lease_work(pace, leases.length_s, hosts)
        if not each:
            return RefusalReason(option.milli_gpu, None, by, (0, 0), 0, 0, ())
        needed = -(-deadline.work // each)
        rest = deadline.work - (needed - 1) * each
        last = (by - completion(now, rest, pace, hosts)) // leases.length_s
        usable = first_usable(self._reading, job, index)
        first = min(usable, leases.horizon)
        end = min(max(last + 1, first), leases.horizon)
        demand = self._capacity.demand([(job, index)])[0]
        asks = demand > 0

        def count(rows: Ints) -> int:
            """Count the leases of the window in which all rows (rows, horizon) cover the demand."""
            return int((rows[asks, first:end] >= demand[asks, None]).all(axis=0).sum())

        return RefusalReason(
            option.milli_gpu,
            needed,
            completion(leases.start(now, usable + needed - 1), rest, pace, hosts),
            (first, end),
            count(self._capacity.free),
            count(self._residual),
            self._holders(job.name, first, end),
        )

    def _holders(self, name: str, first: int, end: int) -> tuple[str, ...]:
        """Return the other jobs that hold promises in a window, the largest GPU time first."""
        jobs = self._reading.jobs
        held = {
            promised.job: jobs[promised.job].options[promised.option].milli_gpu
            * sum(max(0, min(b, end) - max(a, first)) for a, b in promised.leases)
            for promised in self._promises.section.jobs
            if promised.job != name
        }
        return tuple(sorted((job for job in held if held[job]), key=lambda job: -held[job]))

    @cached_property
    def _largest(self) -> dict[str, int]:
        return largest_hosts(self._reading)

    @cached_property
    def _capacity(self) -> LeaseCapacity:
        """The capacity of each lease, in the rows that some option of a job has a demand on."""
        jobs = (job for job in self._reading.round.jobs if job.deadline is not None)
        asking = ((job, o) for job in jobs for o in range(len(job.options)))
        return LeaseCapacity(self._reading, asking)

    @cached_property
    def _residual(self) -> Ints:
        """Residual capacity beside the promises (rows, horizon), milli-GPU."""
        return self._capacity.free - self._capacity.taken(self._promises)
