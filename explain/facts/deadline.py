"""Facts of policy `deadline`: a job with due times starts if it can be promised the last of them.

All promises stay, of jobs that wait as well; their leases may move. A job without due times starts
if it runs in the current lease beside all that runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placewright.explain.facts.asks import asks
from placewright.explain.facts.away import away
from placewright.explain.facts.fact import Edit, Fact, Stratum, World, edit_job, named
from placewright.explain.facts.gang import stays
from placewright.explain.facts.held import Holders
from placewright.explain.facts.policies import PolicyFacts
from placewright.explain.facts.rules import rules
from placewright.explain.facts.taken import held_and_taken, taken_by
from placewright.instances.documents.deadline import Due
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.policy import Policy, TermName
from placewright.instances.documents.round import Round
from placewright.rounds.state.changes import apply_plan
from placewright.rounds.state.promises import promises_in


def base(round_: Round, job: str, plan: Plan | None) -> Round:
    """Return the round in which one job waits beside what runs or is promised, or after a plan."""
    after = round_ if plan is None else apply_plan(round_, plan, {})
    others = {one.name for one in after.jobs if not _holds(one) and one.name != job}
    return after.without_jobs(others)


def _holds(job: Job) -> bool:
    return job.running is not None or _is_promised(job)


def _is_promised(job: Job) -> bool:
    return job.deadline is not None and job.deadline.promise is not None


def facts(round_: Round, job: str, before: Round | None) -> list[Fact]:
    """Return the facts of a base round, in the order of preference."""
    waits = named(job, round_)
    asks_promise = waits.deadline is not None and bool(waits.deadline.due)
    # What runs without a promise has to give way to one.
    holders = Holders(round_, job, _is_promised if asks_promise else _holds)
    holds = ("is promised its time", "are promised their time") if asks_promise else ("runs", "run")
    return [
        *asks(round_, job),
        *_times(round_, waits),
        *rules(round_, job),
        *away(round_, job),
        *_outages(round_),
        *held_and_taken(holders, round_, before, _taken_by, holds),
    ]


def _times(round_: Round, job: Job) -> Iterator[Fact]:
    """Yield the work that is left, by when it is due and from when on it may be done."""
    deadline = job.deadline
    if deadline is None:
        return
    if deadline.due:
        work = f"{deadline.work_s:,} s of work"
        yield Fact(Stratum.ASKS, "work", work, _edit_deadline(job.name, work_s=1))
        last, end = deadline.due[-1], round_.now + round_.leases.length_s * round_.leases.horizon
        text = f"due {last.at - round_.now:,} s from now"
        later = (last.model_copy(update={"at": max(last.at, end)}),)
        edit = _edit_deadline(job.name, due=later)
        yield Fact(Stratum.ASKS, "due", text, edit, {"at": last.at})
    if deadline.ready is not None and deadline.ready > round_.now:
        text = f"ready {deadline.ready - round_.now:,} s from now"
        about = {"at": deadline.ready}
        stratum = Stratum.ASKS if deadline.due else Stratum.HELD
        yield Fact(stratum, "ready", text, _edit_deadline(job.name, ready=None), about)


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
        start = "" if outage.start is None else f" from {outage.start - now:,} s"
        end = " for good" if outage.end is None else f" until {outage.end - now:,} s from now"
        text = f"{outage.host} is away{start}{end}"
        about = {"hosts": [outage.host], "start": outage.start, "end": outage.end}
        yield Fact(Stratum.AWAY, "outage", text, _without_outage(round_, number), about)


def _without_outage(base_round: Round, number: int) -> Edit:
    """Return the edit without an outage, known by the object: equal entries are two facts."""
    outage = base_round.leases.outages[number]

    def edit(round_: Round) -> Round:
        left = tuple(one for one in round_.leases.outages if one is not outage)
        leases = round_.leases.model_copy(update={"outages": left})
        return round_.model_copy(update={"leases": leases})

    return edit


def _taken_by(job: Job, before: Job | None) -> tuple[str, str] | None:
    """Return what a job does by a plan: it gets a promise, starts or moves; None if it is kept."""
    if before is None:
        return None
    if _is_promised(job):
        return None if _is_promised(before) else ("is promised its time", "are promised their time")
    return taken_by(job, before)


def question(world: World) -> Round:
    """Return the round in which a job asks for its last due time, or for the current lease.

    Of all jobs without a promise only this one counts.
    """
    round_ = world.round
    waits = named(world.job, round_)
    asks_promise = waits.deadline is not None and bool(waits.deadline.due)
    terms: tuple[TermName, ...] = ("broken", "admitted")
    policy = Policy(
        formulation="deadline",
        terms=terms if asks_promise else (*terms, "best_effort"),
        priority="preemption",
        vacate=round_.policy.vacate,
    )
    jobs = tuple(
        _asking(one) if one is waits else _beside(one, stay=not asks_promise) for one in round_.jobs
    )
    return round_.model_copy(update={"jobs": jobs, "policy": policy})


def _asking(job: Job) -> Job:
    deadline = job.deadline
    if deadline is None or not deadline.due:
        return job.model_copy(update={"weight": 1})
    last = Due(at=deadline.due[-1].at, value=1)
    return job.model_copy(update={"deadline": deadline.model_copy(update={"due": (last,)})})


def _beside(job: Job, *, stay: bool) -> Job:
    """Return another job: it asks for nothing new, and where all `stay` it is pinned."""
    if job.deadline is not None and job.deadline.due:
        deadline = job.deadline.model_copy(update={"due": ()})
        job = job.model_copy(update={"deadline": deadline})
    return stays(job.model_copy(update={"weight": 0})) if stay else job


def starts(plan: Plan, job: str) -> bool:
    """Whether a plan promises a job its time, or starts it now."""
    if job in promises_in(plan.sections):
        return True
    return any(one.job == job and one.decision is DecisionKind.START for one in plan.decisions)


POLICY = PolicyFacts(base, facts, question, starts)
