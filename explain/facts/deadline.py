"""Facts of policy `deadline`: a job with due times starts if it can be promised the last of them.

All promises stay, of jobs that wait as well; their leases may move. A job without due times starts
if it runs in the current lease beside all that runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from placewright.explain.facts import gang
from placewright.explain.facts.asks import asks
from placewright.explain.facts.fact import (
    Edit,
    Fact,
    PolicyFacts,
    Situation,
    Stratum,
    Verb,
    World,
    edit_job,
    named,
    taken_by,
    without_waiting,
)
from placewright.explain.facts.gang import stays
from placewright.explain.facts.held import Holders
from placewright.explain.facts.rules import away, rules
from placewright.explain.places import GroupPlaces
from placewright.instances.derived.leases import unavailable_hosts
from placewright.instances.derived.phrases import span
from placewright.instances.documents.deadline import UNIT, Due, Pace
from placewright.instances.documents.job import Job
from placewright.instances.documents.leases import Leases, Outage
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.plan_leases import promises_in
from placewright.instances.documents.policy import Policy, TermName
from placewright.instances.documents.round import Round
from placewright.instances.policies import DEADLINE, GANG
from placewright.instances.presets.presets import with_health

MAX_SPEED = 10**6
"""The most that a pace may have, in thousandths."""


def given(round_: Round, plan: Plan, job: str) -> Round:
    """Return the round in which other jobs have what its plan puts in place of broken promises."""
    promised = promises_in(plan.sections)
    sections = (one for one in plan.sections if one["kind"] == "leases")
    broken = {one["job"] for section in sections for one in section["broken"]} - {job}
    if not broken:
        return round_

    def of_job(one: Job) -> Job:
        if one.name not in broken or one.deadline is None:
            return one
        update = {"promise": promised.get(one.name)}
        deadline = one.deadline.model_copy(update=update)
        return one.model_copy(update={"deadline": deadline})

    return round_.model_copy(update={"jobs": tuple(map(of_job, round_.jobs))})


def base(round_: Round, job: str) -> Round:
    """Return the round in which one job waits beside what runs or is promised its time."""
    others = {one.name for one in round_.jobs if not _holds(one) and one.name != job}
    return round_.without_jobs(others)


def _holds(job: Job) -> bool:
    return job.running is not None or _is_promised(job)


def _is_promised(job: Job) -> bool:
    return job.deadline is not None and job.deadline.promise is not None


def facts(situation: Situation, round_: Round, job: str) -> list[Fact]:
    """Return the facts of a base round, in the order of preference."""
    waits = named(job, round_)
    asks_promise = _last_due(waits) is not None
    # What runs without a promise has to give way to one.
    holds = _is_promised if asks_promise else _holds
    verb = ("is promised its time", "are promised their time") if asks_promise else ("runs", "run")
    return [
        *asks(round_, job),
        *_times(round_, waits),
        *rules(round_, job),
        *away(round_, job),
        *_outages(round_),
        *Holders(situation, round_, job, holds, _taken_by).facts(verb),
    ]


def _times(round_: Round, job: Job) -> Iterator[Fact]:
    """Yield the work that is left, by when it is due and from when on it may be done."""
    deadline = job.deadline
    if deadline is None:
        return
    last = _last_due(job)
    if last is not None:
        work = f"{span(deadline.work_s)} of work"
        yield Fact(Stratum.ASKS, "work", work, _edit_deadline(job.name, work_s=1))
        due = last - round_.now
        text = f"due {span(due)} from now" if due >= 0 else f"due {span(-due)} ago"
        end = round_.now + round_.leases.length_s * round_.leases.horizon
        later = (Due(at=max(last, end), value=1),)
        edit = _edit_deadline(job.name, due=later)
        yield Fact(Stratum.ASKS, "due", text, edit, {"at": last})
        if any(pace != Pace() for pace in deadline.paces):
            yield Fact(Stratum.ASKS, "pace", _pace(deadline.pace(0)), _at_full_speed(job.name))
    if deadline.ready is not None and deadline.ready > round_.now:
        text = f"ready {span(deadline.ready - round_.now)} from now"
        about = {"at": deadline.ready}
        stratum = Stratum.HELD if last is None else Stratum.ASKS
        yield Fact(stratum, "ready", text, _edit_deadline(job.name, ready=None), about)


def _pace(pace: Pace) -> str:
    said = [f"runs at {pace.speed / UNIT:g} of full speed"] if pace.speed != UNIT else []
    if pace.overhead_s:
        said.append(f"loses {span(pace.overhead_s)} of each lease to checkpoint and resume")
    return " and ".join(said) or "runs at full speed"


def _at_full_speed(name: str) -> Edit:
    """Return the edit by which a job does all its work in no time, as fast as can be."""

    def of_job(job: Job) -> Job:
        if job.deadline is None:
            return job
        paces = tuple(Pace(speed=MAX_SPEED) for _ in job.deadline.paces)
        return job.model_copy(update={"deadline": job.deadline.model_copy(update={"paces": paces})})

    return edit_job(name, of_job)


def _last_due(job: Job) -> int | None:
    """Return the last time by which a job may be promised to be done, its promise of before too."""
    deadline = job.deadline
    if deadline is None:
        return None
    promised = () if deadline.promise is None else (deadline.promise,)
    return max((one.at for one in (*deadline.due, *promised)), default=None)


def _edit_deadline(name: str, **update: Any) -> Edit:
    def of_job(job: Job) -> Job:
        if job.deadline is None:
            return job
        return job.model_copy(update={"deadline": job.deadline.model_copy(update=update)})

    return edit_job(name, of_job)


def _outages(round_: Round) -> Iterator[Fact]:
    """Yield the outages of hosts, each entry for itself."""
    now = round_.now
    for number, outage in enumerate(round_.leases.outages):
        text = f"{outage.host} is away{_span(outage, now)}"
        about = {"hosts": [outage.host], "start": outage.start, "end": outage.end}
        yield Fact(Stratum.AWAY, "outage", text, _without_outage(round_, number), about)


def _span(outage: Outage, now: int) -> str:
    if outage.start is None:
        return " for good" if outage.end is None else f" until {span(outage.end - now)} from now"
    start = span(outage.start - now)
    if outage.end is None:
        return f" for good, {start} from now"
    return f" from {start} to {span(outage.end - now)} from now"


def _without_outage(base_round: Round, number: int) -> Edit:
    """Return the edit without an outage, known by the object: equal entries are two facts."""
    outage = base_round.leases.outages[number]

    def edit(round_: Round) -> Round:
        left = tuple(one for one in round_.leases.outages if one is not outage)
        leases = round_.leases.model_copy(update={"outages": left})
        return round_.model_copy(update={"leases": leases})

    return edit


def _taken_by(job: Job, before: Job | None) -> Verb | None:
    """Return what a job does by a plan: it gets a promise, starts or moves; None if it is kept."""
    if before is None:
        return None
    if _is_promised(job):
        return None if _is_promised(before) else ("is promised its time", "are promised their time")
    return taken_by(job, before)


def question(world: World) -> Round:
    """Return the round in which a job asks for its last due time, or for the current lease.

    Of all jobs without a promise only this one counts. A job without due times, beside which only
    such wait that may do so, is a gang that asks for the current lease.
    """
    round_ = world.round
    waits = named(world.job, round_)
    asks_promise = _last_due(waits) is not None
    if not asks_promise and all(one is waits or one.running is not None for one in round_.jobs):
        return gang.question(World(_now_alone(round_, waits), world.job))
    terms: tuple[TermName, ...] = ("broken", "admitted")
    policy = Policy(
        formulation=DEADLINE.name,
        terms=terms if asks_promise else (*terms, "best_effort"),
        priority="preemption",
    )
    out = unavailable_hosts(round_.leases, round_.now)

    def beside(one: Job) -> Job:
        return _beside(one, stay=_can_stay(one, out) and not asks_promise)

    jobs = tuple(_asking(one) if one is waits else beside(one) for one in round_.jobs)
    return round_.model_copy(update={"jobs": jobs, "policy": policy})


def relaxed(world: World) -> Round | None:
    """Return the question of a job without due times without those that wait with a promise."""
    round_ = world.round
    if _last_due(named(world.job, round_)) is not None:
        return None
    left = without_waiting(round_, world.job)
    return None if len(left.jobs) == len(round_.jobs) else question(World(left, world.job))


def _can_stay(job: Job, out: Collection[str]) -> bool:
    """Whether no host of a job has an outage in the current lease."""
    return job.running is None or all(task.host not in out for task in job.running.tasks)


def _now_alone(round_: Round, waits: Job) -> Round:
    """Return the round of gangs that the current lease is; a job that is not ready does not start.

    Nobody comes to a host with an outage, and who runs there cannot stay and is left out.
    """
    ready = None if waits.deadline is None else waits.deadline.ready
    out = unavailable_hosts(round_.leases, round_.now)
    return round_.model_copy(
        update={
            "cluster": with_health(round_.cluster, dict.fromkeys(out, False)),
            "jobs": tuple(
                one.model_copy(update={"deadline": None, "not_before": ready})
                if one is waits
                else one.model_copy(update={"deadline": None})
                for one in round_.jobs
                if one is waits or _can_stay(one, out)
            ),
            "leases": Leases(),
            "policy": Policy(formulation=GANG.name, keep_sizes=True),
        }
    )


def _asking(job: Job) -> Job:
    deadline, last = job.deadline, _last_due(job)
    if deadline is None or last is None:
        return job.model_copy(update={"weight": 1})
    update = {"due": (Due(at=last, value=1),), "promise": None}
    return job.model_copy(update={"deadline": deadline.model_copy(update=update)})


def _beside(job: Job, *, stay: bool) -> Job:
    """Return another job: it asks for nothing new, and where all `stay` it is pinned."""
    if job.deadline is not None and job.deadline.due:
        deadline = job.deadline.model_copy(update={"due": ()})
        job = job.model_copy(update={"deadline": deadline})
    return stays(job.model_copy(update={"weight": 0})) if stay else job


def started(plan: Plan) -> set[str]:
    """Return the jobs that a plan promises their time, or starts now."""
    return gang.started(plan).union(promises_in(plan.sections))


def places(round_: Round, job: str) -> tuple[GroupPlaces, ...]:
    """Return the nearest places of a job in the current lease, beside what runs there."""
    alone = _now_alone(without_waiting(round_, job), named(job, round_))
    return tuple(replace(one, when="the current lease") for one in gang.places(alone, job))


def answers(question: Round, plan: Plan, job: str) -> bool:
    """Whether a plan breaks no promise and promises a job its time, or starts one without now."""
    if any(one["broken"] for one in plan.sections if one["kind"] == "leases"):
        return False
    if _last_due(named(job, question)) is None:
        return job in gang.started(plan)
    return job in promises_in(plan.sections)


POLICY = PolicyFacts(
    base, facts, question, started, places, answers=answers, relaxed=relaxed, given=given
)
