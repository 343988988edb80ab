"""Facts about the promises of a plan: given, broken and refused, and what stands in the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from placewright.cli.lease_room import Interval, Room, room_of
from placewright.instances.deadline import Deadline, Due, finish, gain, least_hosts, need
from placewright.instances.hardware import hardware

if TYPE_CHECKING:
    from placewright.instances.job import Job, Option
    from placewright.instances.plan import Decision, Plan
    from placewright.instances.round import Round


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
    runs
        Whether it holds GPUs in this lease all the same.
    """

    job: str
    dues: tuple[Due, ...]
    option: str | None
    milli_gpu: int
    finish: int | None
    leases: tuple[Interval, ...]
    runs: bool


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


@dataclass(frozen=True, eq=False, slots=True)
class Promises:
    """What a plan promises.

    Parameters
    ----------
    room
        What the leases have.
    given
        Earliest promise first.
    broken
        Most value first.
    refused
        Earliest offer first, then those without one.
    best_effort
        Largest first.
    """

    round: Round
    room: Room
    given: tuple[Promise, ...]
    broken: tuple[Broken, ...]
    refused: tuple[Refused, ...]
    best_effort: tuple[Effort, ...]

    def obstacle(self, name: str, by: int) -> Obstacle:
        """Return what stands in the way of ending a job by some time, of its best option."""
        job = next(job for job in self.round.jobs if job.name == name)
        return min(
            (self._obstacle(job, option, by) for option in range(len(job.options))),
            key=lambda o: (o.needs is None, o.lacks),
        )

    def _obstacle(self, job: Job, index: int, by: int) -> Obstacle:
        leases, now = self.round.leases, self.round.now
        option, deadline = job.options[index], _deadline_of(job)
        pace, hosts = deadline.pace(index), least_hosts(option, _largest(self.round))
        needs = need(deadline.work, pace, leases.length_s, hosts)
        if needs is None:
            return Obstacle(option.milli_gpu, None, (0, 0), 0, 0, ())
        rest = deadline.work - (needs - 1) * gain(pace, leases.length_s, hosts)
        last = (by - finish(now, rest, pace, hosts)) // leases.length_s
        other = job.running is not None and job.running.option != index
        first = max(leases.first_usable(deadline.ready, now), int(other))
        first = min(first, leases.horizon)
        end = min(max(last + 1, first), leases.horizon)
        demand = self.room.demand(job, option)
        return Obstacle(
            option.milli_gpu,
            needs,
            (first, end),
            int(self.room.fits(demand, empty=True)[first:end].sum()),
            int(self.room.fits(demand)[first:end].sum()),
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


def promises_of(round_: Round, plan: Plan | None) -> Promises | None:
    """Return what a valid plan promises; None if it has no section `leases`."""
    section = promised_in(plan)
    if plan is None or section is None:
        return None
    jobs = {job.name: job for job in round_.jobs}
    holding = {d.job: d for d in plan.decisions if d.tasks}
    given = [_promise(jobs[entry["job"]], entry) for entry in section["jobs"]]
    promised = {promise.job: promise for promise in given}
    broken = [
        Broken(
            entry["job"],
            Due.model_validate(entry["promise"]),
            promised[entry["job"]].due if entry["job"] in promised else None,
        )
        for entry in section["broken"]
    ]
    refused = [
        _refused(jobs[entry["job"]], entry, entry["job"] in holding) for entry in section["refused"]
    ]
    asked = {entry.job for entry in refused}
    efforts = [
        Effort(name, _held(jobs[name], decision).milli_gpu, name in asked)
        for name, decision in holding.items()
        if name not in promised
    ]
    far = round_.leases.start(round_.now, round_.leases.horizon) + 1
    return Promises(
        round_,
        room_of(round_, section["jobs"]),
        tuple(sorted(given, key=lambda p: (p.due.at, p.finish))),
        tuple(sorted(broken, key=lambda b: -b.before.value)),
        tuple(sorted(refused, key=lambda r: far if r.finish is None else r.finish)),
        tuple(sorted(efforts, key=lambda e: -e.milli_gpu)),
    )


def promised_in(plan: Plan | None) -> Mapping[str, Any] | None:
    """Return the section `leases` of a valid plan; None if it has none."""
    for section in plan.sections if plan else ():
        if section["kind"] == "leases":
            return section
    return None


def broken_in(plan: Plan) -> list[str]:
    """Name the jobs whose promises a valid plan breaks."""
    section = promised_in(plan)
    return [entry["job"] for entry in section["broken"]] if section else []


def _promise(job: Job, entry: Mapping[str, Any]) -> Promise:
    deadline, option = _deadline_of(job), job.options[entry["option"]]
    due = Due.model_validate(entry["promise"])
    return Promise(
        job.name,
        option.name,
        option.milli_gpu,
        due,
        deadline.due.index(due) if due in deadline.due else None,
        len(deadline.due),
        deadline.promise,
        entry["finish"],
        _intervals(entry),
    )


def _refused(job: Job, entry: Mapping[str, Any], runs: bool) -> Refused:
    offer, dues = entry.get("offer"), _deadline_of(job).due
    if offer is None:
        return Refused(job.name, dues, None, job.options[0].milli_gpu, None, (), runs)
    option = job.options[offer["option"]]
    name = option.name if len(job.options) > 1 else None
    return Refused(job.name, dues, name, option.milli_gpu, offer["at"], _intervals(offer), runs)


def _intervals(entry: Mapping[str, Any]) -> tuple[Interval, ...]:
    return tuple((first, end) for first, end in entry["leases"])


def _held(job: Job, decision: Decision) -> Option:
    return job.options[decision.option or 0]


def _deadline_of(job: Job) -> Deadline:
    """Return the deadline of a job that asked for a promise."""
    if job.deadline is None:
        raise ValueError(f"job {job.name} in the section leases has no deadline")
    return job.deadline


def _largest(round_: Round) -> dict[str, int]:
    """Return the most GPUs of a host by model."""
    largest: dict[str, int] = {}
    for entry in round_.cluster.hosts:
        has = hardware(entry)
        if has.gpu_model is not None:
            largest[has.gpu_model] = max(largest.get(has.gpu_model, 0), has.gpus)
    return largest
