"""A verdict in words: what an explanation says of a waiting job, and how far a proof goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from placewright.explain.explanation import Verdict
from placewright.explain.facts.fact import Stratum
from placewright.explain.facts.replicas import stands_for_replica
from placewright.instances.derived.doubts import SO_FAR, doubts_of
from placewright.instances.derived.phrases import duration
from placewright.report.text import percent, term_name

if TYPE_CHECKING:
    from placewright.explain.explanation import Explanation
    from placewright.explain.facts.fact import Fact
    from placewright.instances.documents.plan import TermResult
    from placewright.instances.documents.round import Round


# How far a proof goes: by which terms no plan is better, and of which plans that holds.


PROOF: Mapping[str | None, str] = {
    "certified": "certified",
    "claimed": "as a solver claims",
    None: "not proven",
}
GOING_ON = "no plan that goes on from it, each job with its option,"
"""Of which plans the bounds of a round speak that a plan leads to."""


def covered(round_: Round) -> str:
    """Say of which plans the bounds of a plan of a round speak: rules may place some jobs first."""
    if round_.policy.backfill is not None:
        return "no plan with the same starts in turn and reservations"
    if any(tenant.cells for tenant in round_.tenants):
        return "no plan with guaranteed jobs in the same places"
    return "no plan"


def proven(results: Sequence[TermResult]) -> tuple[TermResult, ...]:
    """Return the first terms at their bounds: no plan is better by them, in their order."""
    return tuple(takewhile(lambda one: one.gap == 0, results))


def best_text(results: Sequence[TermResult], plans: str) -> str:
    """Say by which terms, in their order, none of some plans is better, and by which one may be."""
    known = proven(results)
    if not known:
        return "no better plan was found"
    names = ", then ".join(map(term_name, known))
    weakest = "claimed" if any(one.proof == "claimed" for one in known) else "certified"
    text = f"{plans} is better by {names} ({PROOF[weakest]})"
    if len(known) == len(results):
        return text
    left = results[len(known)]
    within = "" if left.gap is None else f", by at most {percent(left.gap)}"
    return f"{text}; by {term_name(left)} one may be{within}"


# A verdict in words: what an explanation says of a waiting job, and of what kind its facts are.


RULES: Mapping[str, str] = {
    "quota": "its tenant's quota",
    "cap": "a cap",
    "pool": "what pools have",
    "region_quota": "its tenant's quota",
    "cells": "its tenant's cells",
    "residency": "the residency of its data",
    "conflict": "its conflicts with others",
    "most": "the limit of jobs that take turns",
    "as_needed": "the rule that jobs take turns as needed",
    "window": "the window of copies",
    "storage": "the storage of regions",
    "budget": "the budgets of links",
}
AWAY: Mapping[str, str] = {
    "hosts": "hosts are back",
    "link": "links are back",
    "outage": "hosts are back",
}
LABELS: Mapping[Stratum, str] = {
    Stratum.ASKS: "asks",
    Stratum.RULES: "rule",
    Stratum.AWAY: "away",
    Stratum.HELD: "runs",
    Stratum.TAKEN: "plan",
}
LEFT_OUT = "Left out, as they could not be tried:"
FOR_NOW = "held", "not_before", "ready", "copying", "data", "after"
"""Kinds of facts that hold for now and speak of no running job."""


class Words(NamedTuple):
    """What it is that a job waits for, as verbs, and where."""

    run: str = "run"
    start: str = "start"
    started: str = "started"
    running: str = "running"
    starting: str = "starting"
    here: str = "here"
    gives: str = "starts"
    beside: str = "all that runs"
    doing: str = "Starting it"


HOME = Words("have a home", "have a home", "had a home", "having a home", "having a home")
PROMISE = Words(
    *("be promised its time", "be promised its time", "been promised its time"),
    *("being promised its time", "being promised its time"),
    gives="promises",
    beside="all that is promised",
    doing="Promising it its time",
)
REPLICA = Words("come", "come", "come", "coming", "coming", "there")
DOUBTFUL = {Verdict.NEVER, Verdict.NEVER_WITHIN_RULES, Verdict.COULD_START}
"""Verdicts that hold only as far as all of a job is known."""

LASTING = {Verdict.NEVER, Verdict.NEVER_WITHIN_RULES, Verdict.NOT_UNTIL_HOSTS_ARE_BACK}


def words(explanation: Explanation) -> Words:
    """Return what the job of an explanation waits for."""
    round_ = explanation.world.base
    job = next(one for one in round_.jobs if one.name == explanation.job)
    if not round_.policy.spec.places_jobs:
        return REPLICA if stands_for_replica(job) else HOME
    deadline = job.deadline
    asks_promise = deadline is not None and (deadline.due or deadline.promise is not None)
    return PROMISE if asks_promise else Words()


def beside_words(explanation: Explanation) -> Words:
    """Return the same words, of what a plan gives others beside all that it may reserve."""
    said = words(explanation)
    reserves = explanation.world.base.policy.backfill is not None
    return said._replace(gives=f"{said.gives} or reserves") if reserves else said


def verdict_text(explanation: Explanation, *, beside: bool) -> str:
    """Return what the verdict says; `beside` a plan, or of a round alone."""
    text, proof = _verdict(explanation, beside), explanation.proof
    if explanation.verdict in DOUBTFUL and doubts(explanation):
        text = f"{SO_FAR}, {text}"
    if proof is None or proof.blocked == "certified":
        return text
    return f"{text} ({PROOF[proof.blocked]})"


def doubts(explanation: Explanation) -> list[str]:
    """Return rules that the job of an explanation has and that are not obeyed, and guesses."""
    base = explanation.world.base
    job = next(one for one in base.jobs if one.name == explanation.job)
    return [*doubts_of(base, job), *explanation.of_hosts]


def _verdict(explanation: Explanation, beside: bool) -> str:
    said = words(explanation)
    run, start = said.run, said.start
    match explanation.verdict:
        case Verdict.NEVER:
            return f"can never {run} {said.here}"
        case Verdict.NEVER_WITHIN_RULES:
            return f"can never {run} within {_kinds(explanation, Stratum.RULES, RULES)}"
        case Verdict.NOT_UNTIL_HOSTS_ARE_BACK:
            return f"cannot {run} until {_kinds(explanation, Stratum.AWAY, AWAY)}"
        case Verdict.NOT_NOW:
            return f"cannot {start} now"
        case Verdict.OTHERS_INSTEAD:
            return f"could have {said.started}, but for what the plan {said.gives} instead"
        case Verdict.HELD_FOR_RESERVATION:
            return f"could start, but would delay {_reservation(explanation)}"
        case Verdict.COULD_START:
            if beside:
                return f"could {start} beside all that the plan starts"
            before = explanation.in_turn is False
            return f"could {start} now{', but for jobs before it in the queue' if before else ''}"
        case Verdict.UNDECIDED:
            return "could not be decided within the limit"


def _reservation(explanation: Explanation) -> str:
    """Say which reservation a job would delay: whose it is, and from when until when."""
    held, now = explanation.held_by, explanation.world.base.now
    if held is None:
        return "a reservation of the plan"
    when = f"from {duration(max(0, held.at - now))}"
    until = " from now on" if held.end is None else f" to {duration(held.end - now)} from now"
    return f"the reservation of job {held.job}, {when}{until}"


def because_text(explanation: Explanation) -> str:
    """Return what the facts of a conflict do, as a sentence that they end."""
    said = words(explanation)
    minimal = explanation.proof is not None and explanation.proof.minimal
    it = said.running if explanation.verdict in LASTING else said.starting
    needed = ", and fewer of them would not" if minimal else ""
    return f"these facts alone keep it from {it}{needed}"


def _kinds(explanation: Explanation, stratum: Stratum, words: Mapping[str, str]) -> str:
    """Say of what kinds the facts of a stratum in the conflict are."""
    said = (words[fact.kind] for fact in explanation.conflict if fact.stratum is stratum)
    return " and ".join(dict.fromkeys(said))


def label(fact: Fact) -> str:
    """Return the word of a fact's stratum; what else holds for now is no running job."""
    return "now " if fact.stratum is Stratum.HELD and fact.kind in FOR_NOW else LABELS[fact.stratum]
