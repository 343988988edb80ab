"""What starting a waiting job costs a plan at most, under every policy: one plan that starts it.

The round is solved once more with the job worth more than others can be. The plan, if it starts the
job, is one of the given round as well, where `verify` says so; by how much it is worse than the
given plan is what starting the job costs at most. Whether it may cost less is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from placewright.explain.facts.fact import edit_job, named
from placewright.explain.facts.policies import FACTS
from placewright.explain.loss import Loss, exchanges
from placewright.explain.search import SearchOptions
from placewright.instances.checks.round import trusted
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision, Plan, Precedence
from placewright.instances.documents.round import Round
from placewright.instances.policies import sense_of
from placewright.instances.verify import verify
from placewright.rounds import solve_round

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
