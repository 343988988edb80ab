"""Facts about the promises of a plan: given, broken and refused, and what stands in the way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from placewright.instances.deadline import Deadline, finish, gain, least_hosts, need
from placewright.instances.lease_section import LeaseSection
from placewright.instances.verify.lease_room import Room
from placewright.instances.verify.lease_work import first_usable
from placewright.instances.verify.leases import with_promises
from placewright.instances.verify.promises import timely
from placewright.instances.verify.reading import Reading, read

if TYPE_CHECKING:
    from placewright.instances.deadline import Due
    from placewright.instances.job import Job
    from placewright.instances.lease_section import Promised
    from placewright.instances.lease_section import Refused as RefusedEntry
    from placewright.instances.plan import Plan
    from placewright.instances.round import Round

Ints = NDArray[np.int64]
Interval = tuple[int, int]
"""Of leases, half-open."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise after the round.

    Parameters
    ----------
    job, option, milli_gpu
        Who holds what in its leases; `option` is the option's name.
    due
        By when it will be done, and what that is worth.
    rank, ranks
        Which of the job's due times that is, 0 the first, and how many it has; the rank is None
        for an old promise that is none of them.
    before
        The promise that it had before the round.
    finish
        When its leases end its work.
    leases
        Half-open intervals.
    """

    job: str
    option: str
    milli_gpu: int
    due: Due
    rank: int | None
    ranks: int
    before: Due | None
    finish: int
    leases: tuple[Interval, ...]

    @property
    def slack(self) -> int:
        """Seconds between the finish and the promised time."""
        return self.due.at - self.finish

    @property
    def length(self) -> int:
        """The number of its leases."""
        return sum(end - first for first, end in self.leases)

    @property
    def now(self) -> bool:
        """Whether it holds its GPUs in this lease."""
        return self.leases[0][0] == 0


class Broken(NamedTuple):
    """A job whose promise is broken, what it was, and what it has now, if anything."""

    job: str
    before: Due
    after: Due | None


@dataclass(frozen=True, slots=True)
class Refused:
    """A job that asked for a promise and has none.

    Parameters
    ----------
    dues
        The times at which it is due.
    finish, milli_gpu, leases
        The earliest finish that could have been promised, and by what; None, the GPUs of its first
        option, and nothing, if none lies within the horizon.
    option
        The option of these leases, if the job has several.
    """

    job: str
    dues: tuple[Due, ...]
    option: str | None
    milli_gpu: int
    finish: int | None
    leases: tuple[Interval, ...]


class Effort(NamedTuple):
    """A job without a promise that holds GPUs in this lease; whether it asked for one."""

    job: str
    milli_gpu: int
    asked: bool


class Obstacle(NamedTuple):
    """What a promise by some time needs, and what there is of it.

    Parameters
    ----------
    milli_gpu
        GPUs of the option that comes closest.
    needs
        Leases of work; None if no lease is long enough for any.
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
    window: Interval
    has: int
    fits: int
    holders: tuple[str, ...]

    @property
    def lacks(self) -> int:
        """Leases that are not there."""
        return max(0, (self.needs or 0) - self.fits)


class Promises:
    """What a valid plan promises.

    `given` has the earliest promise first, `broken` the one of most value, `refused` the earliest
    offer and those without one last, `best_effort` the largest job.
    """

    def __init__(self, reading: Reading, section: LeaseSection) -> None:
        jobs = reading.jobs
        holding = {placed.job.name: placed.option.milli_gpu for placed in reading.placed}
        given = [_promise(jobs[entry.job], entry) for entry in section.jobs]
        after = {promise.job: promise.due for promise in given}
        refused = [_refused(jobs[entry.job], entry) for entry in section.refused]
        asked = {entry.job for entry in refused}
        self.round = reading.round
        self.given = sorted(given, key=lambda p: (p.due.at, p.finish))
        self.broken = sorted(
            (Broken(entry.job, entry.promise, after.get(entry.job)) for entry in section.broken),
            key=lambda broken: -broken.before.value,
        )
        self.refused = sorted(refused, key=lambda r: (r.finish is None, r.finish))
        self.best_effort = sorted(
            (
                Effort(name, milli, name in asked)
                for name, milli in holding.items()
                if name not in after
            ),
            key=lambda effort: -effort.milli_gpu,
        )
        self._reading = reading

    def obstacle(self, name: str, by: int, offered: str | None = None) -> Obstacle:
        """Return what stands in the way of ending a job by some time.

        It is about the option that lacks the fewest leases; of several, the one that is offered.
        """
        job = self._reading.jobs[name]
        found = [self._obstacle(job, option, by) for option in range(len(job.options))]
        best = min(
            range(len(found)),
            key=lambda o: (found[o].needs is None, found[o].lacks, job.options[o].name != offered),
        )
        return found[best]

    def _obstacle(self, job: Job, index: int, by: int) -> Obstacle:
        leases, now = self.round.leases, self.round.now
        option, deadline = job.options[index], _deadline_of(job)
        pace, hosts = deadline.pace(index), least_hosts(option, self._largest)
        needs = need(deadline.work, pace, leases.length_s, hosts)
        if needs is None:
            return Obstacle(option.milli_gpu, None, (0, 0), 0, 0, ())
        rest = deadline.work - (needs - 1) * gain(pace, leases.length_s, hosts)
        last = (by - finish(now, rest, pace, hosts)) // leases.length_s
        first = min(first_usable(self._reading, job, index), leases.horizon)
        end = min(max(last + 1, first), leases.horizon)
        demand = self._room.demand([(job, index)])[0]
        asks = demand > 0

        def fits(rows: Ints) -> int:
            """Count the leases of the window in which each row has what the option asks of it."""
            return int((rows[asks, first:end] >= demand[asks, None]).all(axis=0).sum())

        return Obstacle(
            option.milli_gpu,
            needs,
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
            for promise in self.given
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
        asking = ((job, o) for job in self.round.jobs for o in range(len(job.options)))
        return Room(self._reading, asking)

    @cached_property
    def _left(self) -> Ints:
        """What promises leave of each row in each lease (rows, horizon), milli-GPU."""
        promises = self._reading.promises
        if promises is None:
            raise ValueError("the plan has no section leases")
        return self._room.free - self._room.taken(promises, timely(self._reading))


def promises_of(round_: Round, plan: Plan | None) -> Promises | None:
    """Return what a valid plan promises; None if it has no section `leases`."""
    if plan is None or promised_in(plan) is None:
        return None
    reading = with_promises(read(round_, plan))
    return None if reading.promises is None else Promises(reading, reading.promises.section)


def promised_in(plan: Plan) -> LeaseSection | None:
    """Return the section `leases` of a plan; None if it has none that can be read."""
    for section in plan.sections:
        if section.get("kind") == "leases":
            try:
                return LeaseSection.model_validate(section)
            except ValidationError:
                return None
    return None


def broken_in(plan: Plan) -> list[str]:
    """Name the jobs whose promises a valid plan breaks."""
    section = promised_in(plan)
    return [entry.job for entry in section.broken] if section else []


def _promise(job: Job, entry: Promised) -> Promise:
    deadline, option = _deadline_of(job), job.options[entry.option]
    return Promise(
        job.name,
        option.name,
        option.milli_gpu,
        entry.promise,
        deadline.due.index(entry.promise) if entry.promise in deadline.due else None,
        len(deadline.due),
        deadline.promise,
        entry.finish,
        entry.leases,
    )


def _refused(job: Job, entry: RefusedEntry) -> Refused:
    offer, dues = entry.offer, _deadline_of(job).due
    if offer is None:
        return Refused(job.name, dues, None, job.options[0].milli_gpu, None, ())
    option = job.options[offer.option]
    name = option.name if len(job.options) > 1 else None
    return Refused(job.name, dues, name, option.milli_gpu, offer.at, offer.leases)


def _deadline_of(job: Job) -> Deadline:
    """Return the deadline of a job that asked for a promise."""
    if job.deadline is None:
        raise ValueError(f"job {job.name} in the section leases has no deadline")
    return job.deadline
