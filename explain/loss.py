"""By how much a plan would be worse if it started a job that waits, and at most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, Unpack

from placewright.explain.facts.fact import FACTS, edit_job, named
from placewright.explain.search import SearchOptions
from placewright.instances.checks.round import trusted
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import (
    Certificate,
    Decision,
    DecisionKind,
    Plan,
    Precedence,
    TermResult,
)
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.policies import GANG, sense_of
from placewright.instances.verify import verify
from placewright.rounds import InternalError, solve_round

# By how much a plan would be worse if it started a job that waits.
#
# The round is solved once more with one term above all others, `progress`, which counts the start
# of this job and nothing else. Values, priorities and guarantees stay as they are, so that
# everybody may preempt whom they could before, and all later terms mean what they mean in the
# plan.
#
# Written with V for the value of a term in the plan, V' for that in the plan of the second round,
# and B' for the bound there: starting the job costs at least V - B' and at most V - V' (of a term
# to be minimised B' - V and V' - V), in the first term that differs.


LEVEL_ABOVE = "progress"
"""The term that counts the start of the job; rounds that have it already cannot be asked."""

Proof = Literal["certified", "claimed"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A job that the plan decides otherwise once the waiting job starts."""

    job: str
    before: DecisionKind
    after: DecisionKind


@dataclass(frozen=True, slots=True)
class Loss:
    """What starting a waiting job costs a plan.

    Parameters
    ----------
    job
        The job that waits in the plan.
    startable
        False: no plan starts it, whoever moves or stops. None: not decided within the limit.
    term
        The first term in which the two plans differ; None if they differ in none, or if no plan
        that starts the job is known.
    at_least, at_most
        Bounds on the loss in the unit of the term. `at_most` is None if no plan that starts the
        job is known. `at_most` 0 means that a plan starts it which is as good or better.
    proof
        What `startable` is False by, or `at_least` above 0; None for all other answers.
    precedences
        Of a term that is the value of one priority class, those whose jobs count.
    instead
        Who starts, moves, stops or waits otherwise than in the plan.
    plan
        The plan of the round of `level_above` that starts the job, without its certificate. It is
        a verified plan of the given round.
    """

    job: str
    startable: bool | None
    term: str | None = None
    at_least: float = 0
    at_most: float | None = None
    proof: Proof | None = None
    precedences: tuple[Precedence, ...] = ()
    instead: tuple[Exchange, ...] = ()
    plan: Plan | None = None

    @property
    def is_tie(self) -> bool:
        """Whether a plan that is equally good in every term starts the job."""
        return self.startable is True and self.term is None


def can_be_asked(round_: Round) -> bool:
    """Whether a round has a term to spare above all others, and bounds that speak of all plans.

    Rounds of `gang` do; not if `progress` is a term of theirs, nor with cells or backfilling, where
    rules place some jobs and bounds speak of the plans that agree with these.
    """
    return (
        round_.policy.spec is GANG
        and LEVEL_ABOVE not in round_.policy.terms
        and round_.policy.backfill is None
        and not any(tenant.cells for tenant in round_.tenants)
    )


def level_above(round_: Round, job: str) -> Round:
    """Return the round in which starting one job comes before all other terms.

    Raises
    ------
    InvalidInputError
        If the job is not one of the pending jobs of the round, or `can_be_asked` says no.
    """
    if not can_be_asked(round_):
        raise InvalidInputError(
            "expected a round of gangs without the term progress, cells and backfilling",
            path=("policy",),
            value=round_.policy.formulation,
        )
    pending = [one.name for one in round_.jobs if one.running is None]
    if job not in pending or job in round_.invalid:
        raise InvalidInputError("expected a pending job", path=("job",), value=job)
    jobs = tuple(_with_progress(one, int(one.name == job)) for one in round_.jobs)
    policy = round_.policy.model_copy(update={"terms": (LEVEL_ABOVE, *round_.policy.terms)})
    return round_.model_copy(update={"jobs": jobs, "policy": policy}).with_invalid(round_.invalid)


def _with_progress(job: Job, progress: int) -> Job:
    options = tuple(o.model_copy(update={"progress": progress}) for o in job.options)
    return job.model_copy(update={"options": options})


def loss_of_starting(
    round_: Round,
    plan: Plan,
    job: str,
    **search: Unpack[SearchOptions],
) -> Loss:
    """Return what it costs to start a job that a plan of `solve_round` lets wait.

    Parameters
    ----------
    round_
        A round that `check_round` accepts and `can_be_asked`.
    plan
        A verified plan of the round with its certificate, in which the job waits.
    job
        Name of the job.
    search
        As of `solve_round`.

    Raises
    ------
    InvalidInputError
        If the round cannot be asked, the job is not pending, or the plan has no certificate or
        starts the job.
    """
    above = level_above(round_, job)
    if plan.certificate is None:
        raise InvalidInputError("expected a plan with its certificate", ("certificate",), None)
    if any(d.job == job and d.decision is not DecisionKind.WAIT for d in plan.decisions):
        raise InvalidInputError("expected a job that waits in the plan", path=("job",), value=job)
    # A gap of 0: the first term counts one start, so any other would end with the first plan.
    other = solve_round(
        trusted(above),
        gap=0.0,
        **search,
    )
    if other.certificate is None:
        raise InternalError("a plan without certificate", other)
    start, *_ = other.certificate.terms
    if start.value:
        found = other.model_copy(update={"certificate": None, "round": None})
        return _with_plan(job, plan, plan.certificate, found, other.certificate)
    if start.bound == 0:
        return Loss(job, startable=False, proof=start.proof)
    # Bounds of the first term behind it speak of all plans.
    first, before = other.certificate.terms[1], plan.certificate.terms[0]
    least, proof = _least(before, first)
    if least <= 0:
        return Loss(job, startable=None)
    return Loss(job, None, first.name, at_least=least, proof=proof, precedences=first.precedences)


def _with_plan(
    job: str, plan: Plan, certificate: Certificate, found: Plan, found_certificate: Certificate
) -> Loss:
    """Return the loss by a plan that starts the job, in the first term that differs."""
    instead = tuple(exchanges(job, plan.decisions, found.decisions))
    # Whether every plan that is best with the job has the plan's values so far, and by what proof.
    even, claimed = True, False
    for before, after in zip(certificate.terms, found_certificate.terms[1:], strict=True):
        least, proof = _least(before, after)
        if before.value == after.value:
            even, claimed = even and least == 0, claimed or proof == "claimed"
            continue
        most = max(0, _loss(before, after.value))
        at_least = max(0, least) if even else 0
        proof = "claimed" if claimed else proof
        return Loss(
            job,
            startable=True,
            term=before.name,
            at_least=at_least,
            at_most=most,
            proof=proof if at_least else None,
            precedences=before.precedences,
            instead=instead,
            plan=found,
        )
    return Loss(job, startable=True, at_most=0, instead=instead, plan=found)


def _loss(before: TermResult, after: float) -> float:
    """Return by how much a value is worse than that of the plan; below 0 if it is better."""
    return before.value - after if before.sense == "max" else after - before.value


def _least(before: TermResult, after: TermResult) -> tuple[float, Proof | None]:
    """Return a bound on the loss in a term, below 0 for a gain, and its proof; -inf for none.

    It is the tighter of both rounds' bounds: where all earlier terms are even, each holds.
    """
    bounds = [one for one in (after, before) if one.bound is not None]
    if not bounds:
        return -inf, None
    losses = [(_loss(before, one.bound or 0), one.proof) for one in bounds]
    return max(losses, key=lambda one: one[0])


def exchanges(
    job: str, before: tuple[Decision, ...], after: tuple[Decision, ...]
) -> Iterator[Exchange]:
    """Yield the other jobs that two plans decide differently."""
    for old, new in zip(before, after, strict=True):
        if old.job != job and old.decision is not new.decision:
            yield Exchange(old.job, old.decision, new.decision)


# What starting a waiting job costs a plan at most, under every policy: one plan that starts it.
#
# The round is solved once more with the job worth more than others can be. The plan, if it starts
# the job, is one of the given round as well, where `verify` says so; by how much it is worse than
# the given plan is what starting the job costs at most. Whether it may cost less is not known.


MUCH = 1000
"""By which factor the job is worth more."""
MAX_SECONDS = 5.0
"""Wall-clock seconds of the search for the plan."""
MAX_WEIGHT, MAX_VALUE = 10**6, 10**9


def loss_at_most(
    round_: Round,
    plan: Plan,
    job: str,
    **search: Unpack[SearchOptions],
) -> Loss | None:
    """Return what it costs at most to start a job that a plan lets wait; None if that is not known.

    Parameters
    ----------
    round_
        A round that `check_round` accepts, of a policy that places jobs.
    plan
        A plan of it that `verify` accepts, in which the job waits.
    job
        Name of a pending job.
    search
        As of `solve_round`.
    """
    before = verify(round_, plan)
    made = solve_round(
        trusted(edit_job(job, _worth_more)(round_)),
        start=plan,
        **search,
    )
    if not before.ok or job not in FACTS[round_.policy.formulation].started(made):
        return None
    found = made.model_copy(
        update={
            "certificate": None,
            "round": None,
            "decisions": tuple(map(_without_reason, made.decisions)),
            "sections": tuple(_as_promised(one, named(job, round_)) for one in made.sections),
        }
    )
    after = verify(round_, found)
    if not after.ok:
        return None
    instead = tuple(exchanges(job, plan.decisions, found.decisions))
    for name, value in before.terms.items():
        lost = value - after.terms[name] if sense_of(name) == "max" else after.terms[name] - value
        if lost:
            return Loss(
                job,
                startable=True,
                term=name,
                at_most=max(0, lost),
                precedences=_precedences(plan, name),
                instead=instead,
                plan=found,
            )
    return Loss(job, startable=True, at_most=0, instead=instead, plan=found)


def _worth_more(job: Job) -> Job:
    options = tuple(
        one if one.value is None else one.model_copy(update={"value": _more(one.value, MAX_VALUE)})
        for one in job.options
    )
    update: dict[str, object] = {
        "weight": _more(max(1, job.weight), MAX_WEIGHT),
        "options": options,
    }
    if job.deadline is not None:
        due = tuple(
            one.model_copy(update={"value": _more(one.value, MAX_VALUE)})
            for one in job.deadline.due
        )
        update["deadline"] = job.deadline.model_copy(update={"due": due})
    return job.model_copy(update=update)


def _as_promised(section: Mapping[str, Any], job: Job) -> Mapping[str, Any]:
    """Return a section in which the promise of a job is worth what it is worth in the round."""
    if section["kind"] != "leases" or job.deadline is None:
        return section
    promises = (job.deadline.promise, *job.deadline.due)
    worth = {one.at: one.value for one in promises if one is not None}

    def of_entry(entry: Mapping[str, Any]) -> Mapping[str, Any]:
        promise = entry["promise"]
        if entry["job"] != job.name or promise is None:
            return entry
        return {**entry, "promise": {**promise, "value": worth[promise["at"]]}}

    return {**section, "jobs": [of_entry(entry) for entry in section["jobs"]]}


def _precedences(plan: Plan, term: str) -> tuple[Precedence, ...]:
    terms = () if plan.certificate is None else plan.certificate.terms
    return next((one.precedences for one in terms if one.name == term), ())


def _more(worth: int, most: int) -> int:
    return max(worth, min(worth * MUCH, most))


def _without_reason(decision: Decision) -> Decision:
    return decision.model_copy(update={"reason": None, "detail": None})
