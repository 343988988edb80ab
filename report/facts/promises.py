"""Facts about the promises of a plan: given, broken and refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from placewright.instances.documents.plan_leases import LeaseSection

if TYPE_CHECKING:
    from placewright.instances.documents.deadline import Deadline, Due
    from placewright.instances.documents.job import Job
    from placewright.instances.documents.plan import Plan
    from placewright.instances.documents.plan_leases import Promised
    from placewright.instances.documents.plan_leases import Refused as RefusedEntry
    from placewright.instances.documents.round import Round

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


class BestEffort(NamedTuple):
    """A job without a promise that holds GPUs in the current lease; `asked` for one or not."""

    job: str
    milli_gpu: int
    asked: bool


class Promises:
    """What a valid plan promises in its section `leases`.

    `given` has the earliest promise first, `broken` the one of most value, `refused` the earliest
    offer and those without one last, `best_effort` the largest job.
    """

    def __init__(self, round_: Round, plan: Plan, section: LeaseSection) -> None:
        jobs = {job.name: job for job in round_.jobs}
        holding = {
            decision.job: jobs[decision.job].options[decision.option].milli_gpu
            for decision in plan.decisions
            if decision.option is not None
        }
        given = [_promise(jobs[entry.job], entry) for entry in section.jobs]
        after = {promise.job: promise.due for promise in given}
        refused = [_refused(jobs[entry.job], entry) for entry in section.refused]
        asked = {entry.job for entry in refused}
        self.round, self.plan = round_, plan
        self.given = sorted(given, key=lambda p: (p.due.at, p.finish))
        self.broken = sorted(
            (Broken(entry.job, entry.promise, after.get(entry.job)) for entry in section.broken),
            key=lambda broken: -broken.before.value,
        )
        self.refused = sorted(refused, key=lambda r: (r.finish is None, r.finish))
        self.best_effort = sorted(
            (
                BestEffort(name, milli, name in asked)
                for name, milli in holding.items()
                if name not in after
            ),
            key=lambda effort: -effort.milli_gpu,
        )


def promises_of(round_: Round, plan: Plan | None) -> Promises | None:
    """Return what a valid plan promises; None if it has no section `leases`."""
    section = None if plan is None else promised_in(plan)
    return None if plan is None or section is None else Promises(round_, plan, section)


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


def deadline_of(job: Job) -> Deadline:
    """Return the deadline of a job that asked for a promise."""
    if job.deadline is None:
        raise ValueError(f"job {job.name} in the section leases has no deadline")
    return job.deadline


def _promise(job: Job, entry: Promised) -> Promise:
    deadline, option = deadline_of(job), job.options[entry.option]
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
    offer, dues = entry.offer, deadline_of(job).due
    if offer is None:
        return Refused(job.name, dues, None, job.options[0].milli_gpu, None, ())
    option = job.options[offer.option]
    name = option.name if len(job.options) > 1 else None
    return Refused(job.name, dues, name, option.milli_gpu, offer.at, offer.leases)
