"""An explanation as text: verdict, because, where, cost, and what is proven."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from placewright.cli.format.table import table
from placewright.cli.views.corrections import corrections_text, first_text
from placewright.cli.views.cost_of_starting import cost_text
from placewright.cli.views.nearest_places import places_text
from placewright.explain.explanation import Verdict
from placewright.explain.facts.fact import Stratum
from placewright.instances.derived.doubts import so_far
from placewright.instances.derived.phrases import count, duration, several
from placewright.instances.derived.reason_text import reason_text
from placewright.instances.derived.source_words import LeftOut, by_reason, whys, words_of
from placewright.instances.documents.bookkeeping import unsaid_of
from placewright.instances.documents.caveats import hard_caveats
from placewright.instances.documents.plan import DecisionKind, Reason
from placewright.report.text import count_gpus, gpus, shortened
from placewright.report.verdicts import (
    PROOF,
    because_text,
    beside_words,
    doubts,
    label,
    verdict_text,
    words,
)

if TYPE_CHECKING:
    from rich.table import Table

    from placewright.explain.explanation import Explanation
    from placewright.explain.kinds import WaitingKind
    from placewright.instances.documents.job import Job
    from placewright.instances.documents.plan import Plan

MAX_JOBS = 3
MANY = 1000
SHORT = frozenset(Verdict) - {
    *(Verdict.NEVER_WITHIN_RULES, Verdict.OTHERS_INSTEAD, Verdict.COULD_START, Verdict.UNDECIDED)
}
"""Verdicts of which a plan's reason says the same in one sentence."""


def lines(
    job: Job, explanation: Explanation, plan: Plan | None = None, *, most: int = MANY
) -> Iterator[str]:
    """Yield the lines of an explanation, beside a plan, or of a round alone, as its source says it.

    `most` is how many corrections of a list were looked for.
    """
    words = words_of(explanation.world.base)
    for line in _lines(job, explanation, plan, most):
        yield words.say(line, job.name)


def _lines(job: Job, explanation: Explanation, plan: Plan | None, most: int) -> Iterator[str]:
    started = _started(plan)
    beside = plan is not None
    yield f"job {job.name} ({asked(job)}): {verdict_text(explanation, beside=beside)}"
    if unsaid := unsaid_of(explanation.world.base.annotations, job.name):
        yield f"  Not in the round, and so not looked at: {several(unsaid)}"
    if told := [caveat.text for caveat in hard_caveats(job.annotations)]:
        yield f"  As far as the round knows: {several(told)}"
    if short := _short(job, explanation, plan):
        yield f"  In short: {short}"
    yield from (f"  {sentence}" for sentence in explanation.scheduler)
    if explanation.corrections is not None:
        yield from first_text(explanation.corrections, beside_words(explanation), started)
    if explanation.conflict:
        yield from _because(explanation)
    elif explanation.proof is not None:
        yield ""
        yield "  Whatever it asks: there is no GPU for any job"
    if not any(fact.kind in ("quota", "cap") for fact in explanation.conflict):
        several_options = len({places.option for places in explanation.places}) > 1
        for places in explanation.places:
            after = explanation.verdict is Verdict.OTHERS_INSTEAD
            option = job.options[places.option]
            name = option.name if several_options else ""
            yield from places_text(places, option.groups, name, after_plan=after)
    if explanation.corrections is not None:
        said = beside_words(explanation)
        yield from corrections_text(explanation.corrections, said, started, most)
    if explanation.cost is not None:
        yield ""
        yield f"  {cost_text(explanation.cost, words(explanation).doing)}"
    yield ""
    yield f"  {_proven(explanation)}"


def left_out_lines(name: str, left: Sequence[LeftOut]) -> Iterator[str]:
    """Yield the lines of something that is left out of a round: why, and what helps."""
    helps = {one.why: one.help for one in reversed(left)}
    for why, names in by_reason(left).items():
        known = "" if names == [name] else f" ({several(names)})"
        yield f"{name}{known} is not in the round: {why}"
        if helps[why]:
            yield f"  What helps: {helps[why]}"


def called_line(name: str, job: str, called: Sequence[str], left: Sequence[LeftOut]) -> str:
    """Say which jobs a name of the source stands for, "" if it is that of the job alone."""
    said = []
    if len(called) > 1:
        said.append(f"{name} is {count(len(called), 'job')}: {several(called)}; this is {job}")
    if left and job != name:
        said.append(f"not in the round of it: {several([one.name for one in left])} ({whys(left)})")
    return "; ".join(said)


def _started(plan: Plan | None) -> list[str]:
    """Return the jobs that a plan starts."""
    decisions = () if plan is None else plan.decisions
    return [one.job for one in decisions if one.decision is DecisionKind.START]


def _short(job: Job, explanation: Explanation, plan: Plan | None) -> str:
    """Say in one sentence why a job waits, "" if a plan does not."""
    if explanation.verdict is Verdict.OTHERS_INSTEAD:
        taken = [n for f in explanation.universe if f.stratum is Stratum.TAKEN for n in f.names]
        doing = words(explanation).gives
        return f"the plan {doing} {several(taken)} where it could be" if taken else ""
    decisions = () if plan is None or explanation.verdict not in SHORT else plan.decisions
    decided = next((one for one in decisions if one.job == job.name), None)
    if decided is None or decided.reason in (None, Reason.HELD_FOR_RESERVATION):
        return ""  # the verdict says more of a reservation
    left = partial(_left, explanation.world.base.now)
    return reason_text(decided.reason, decided.detail, left)


def _left(now: int, at: int) -> str:
    return f"in {duration(max(0, at - now))}"


def replica_lines(dataset: str, region: str, explanation: Explanation) -> Iterator[str]:
    """Yield the lines of why a dataset has no replica in a region."""
    verdict = verdict_text(explanation, beside=False)
    yield f"a replica of {dataset} in region {region}: {verdict}"
    if explanation.conflict:
        yield from _because(explanation)
    elif explanation.proof is not None:
        yield ""
        yield f"  Whatever the rules: nobody holds {dataset}, or no link leads to {region}"
    yield ""
    yield f"  {_proven(explanation)}"


def kinds_table(kinds: Sequence[WaitingKind], *, beside: bool) -> Table:
    """Return a row for all jobs that wait for the same facts, those with most GPUs first."""
    made = table("Waiting jobs", "jobs", "GPUs", "which", "why", right=("jobs", "GPUs"))
    for kind in kinds:
        why = [verdict_text(kind.explanation, beside=beside)]
        why += [f"  {label(fact)}  {fact.text}" for fact in kind.explanation.conflict]
        if told := doubts(kind.explanation):
            why.append(f"  {so_far(told)}")
        which = several([shortened(name) for name in kind.jobs], MAX_JOBS)
        said = words_of(kind.explanation.world.base).say("\n".join(why), kind.jobs[0])
        made.add_row(f"{len(kind.jobs):,}", gpus(kind.milli_gpu), which, said)
    return made


def asked(job: Job) -> str:
    """Say what a job asks in its first option, whose it is, and its priority."""
    groups = job.options[0].groups
    parts = [
        f"{group.count} x {_gpus(group.gpu)}" if group.count > 1 else _gpus(group.gpu)
        for group in groups
    ]
    if len(groups) > 1:
        parts = [f"{part} ({one.name})" for part, one in zip(parts, groups, strict=True)]
    sizes = " and ".join(parts) if len(parts) <= MAX_JOBS else count_gpus(job.options[0].milli_gpu)
    said = [sizes]
    if len(job.options) > 1:
        said.append(f"or {count(len(job.options) - 1, 'other option')}")
    if job.tenant is not None:
        said.append(f"tenant {job.tenant}")
    return ", ".join([*said, f"priority {job.priority}"])


def _gpus(milli: int) -> str:
    return count_gpus(milli) if milli else "no GPU"


def _because(explanation: Explanation) -> Iterator[str]:
    yield ""
    yield f"  Because: {because_text(explanation)}"
    for fact in explanation.conflict:
        yield f"    {label(fact)}   {fact.text}"


def _proven(explanation: Explanation) -> str:
    proof = explanation.proof
    if proof is None:
        return f"Asked: {count(explanation.questions, 'question')}"
    unproven = [
        fact.text
        for fact, witness in zip(explanation.conflict, proof.witnesses, strict=True)
        if witness.plan is None
    ]
    bound = "not within the limit" if proof.blocked is None else PROOF[proof.blocked]
    plans = count(len(proof.witnesses) - len(unproven), "verified plan")
    text = f"Proof: that these facts suffice: {bound}; that each is needed: {plans}"
    return text if not unproven else f"{text}; not proven to be needed: {'; '.join(unproven)}"
