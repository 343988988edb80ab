"""An explanation as text: verdict, because, where, cost, and what is proven."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from placewright.cli.format.table import table
from placewright.cli.views.cost_of_starting import PROOF, cost_text
from placewright.explain.explanation import Verdict
from placewright.instances.documents.quantities import amount_text
from placewright.report.text import count, count_gpus, gpus, several, shortened
from placewright.report.verdicts import Words, label, verdict_text, words

if TYPE_CHECKING:
    from rich.table import Table

    from placewright.explain.corrections.find import Correction, Corrections
    from placewright.explain.explanation import Explanation
    from placewright.explain.kinds import WaitingKind
    from placewright.explain.places import GroupPlaces, Place
    from placewright.instances.documents.job import Job
    from placewright.instances.documents.option import TaskGroup

MAX_KINDS, MAX_JOBS = 6, 3
NOT_BESIDE = " *"


def lines(job: Job, explanation: Explanation, *, beside: bool) -> Iterator[str]:
    """Yield the lines of an explanation; `beside` a plan, or of a round alone."""
    yield f"{job.name} ({asked(job)}): {verdict_text(explanation, beside=beside)}"
    if explanation.conflict:
        yield from _because(explanation)
    elif explanation.proof is not None:
        yield ""
        yield "  Whatever it asks: there is no GPU for any job"
    if not any(fact.kind == "quota" for fact in explanation.conflict):
        for places in explanation.places:
            yield from _where(places, job.options[0].groups)
    if explanation.corrections is not None:
        yield from _corrections(explanation.corrections, words(explanation))
    if explanation.cost is not None:
        yield ""
        yield f"  {cost_text(explanation.cost)}"
    yield ""
    yield f"  {_proven(explanation)}"


def kinds_table(kinds: Sequence[WaitingKind], *, beside: bool) -> Table:
    """Return a row for all jobs that wait for the same facts, those with most GPUs first."""
    made = table("Waiting jobs", "jobs", "GPUs", "which", "why", right=("jobs", "GPUs"))
    for kind in kinds:
        why = [verdict_text(kind.explanation, beside=beside)]
        why += [f"  {label(fact)}  {fact.text}" for fact in kind.explanation.conflict]
        which = several([shortened(name) for name in kind.jobs], MAX_JOBS)
        made.add_row(f"{len(kind.jobs):,}", gpus(kind.milli_gpu), which, "\n".join(why))
    return made


def asked(job: Job) -> str:
    """Say what a job asks in its first option, whose it is, and its priority."""
    groups = job.options[0].groups
    parts = [
        f"{group.count} x {count_gpus(group.gpu)}" if group.count > 1 else count_gpus(group.gpu)
        for group in groups
    ]
    sizes = " and ".join(parts) if len(parts) <= MAX_JOBS else count_gpus(job.options[0].milli_gpu)
    words = [sizes]
    if len(job.options) > 1:
        words.append(f"or {count(len(job.options) - 1, 'other option')}")
    if job.tenant is not None:
        words.append(f"tenant {job.tenant}")
    return ", ".join([*words, f"priority {job.priority}"])


def _because(explanation: Explanation) -> Iterator[str]:
    lasting = explanation.verdict in (
        Verdict.NEVER,
        Verdict.NEVER_WITHIN_RULES,
        Verdict.NOT_UNTIL_HOSTS_ARE_BACK,
    )
    minimal = explanation.proof is not None and explanation.proof.minimal
    it = "running" if lasting else "starting"
    said = ", and each of them is needed for that" if minimal else ""
    yield ""
    yield f"  Because: these facts alone keep it from {it}{said}"
    for fact in explanation.conflict:
        yield f"    {label(fact)}   {fact.text}"


def _where(places: GroupPlaces, groups: Sequence[TaskGroup]) -> Iterator[str]:
    tasks = f"{places.tasks:,} tasks" if places.tasks > 1 else "task"
    whose = f"its {tasks}" if len(groups) == 1 else f"the {tasks} of {groups[places.group].name}"
    most = "most of " if places.tasks > 1 else ""
    yield ""
    if places.level is None:
        yield f"  Where: hosts that have room for {most}{whose}"
    else:
        yield (
            f"  Where: {places.level}s that have room for {most}{whose}; "
            f"were they empty, {places.whole:,} of {places.total:,} would have it for all"
        )
    width = max((len(_name(places, place)) for place in places.places), default=0)
    for place in places.places:
        yield f"    {_name(places, place):{width}}  {_place(places, place)}"
    for name, hosts, lack in places.unfit[:MAX_KINDS]:
        yield f"    {count(hosts, 'host')} of {name}: none, {_lack(lack)}"


def _corrections(found: Corrections, said: Words) -> Iterator[str]:
    some_day = None if found.some_day == found.now else found.some_day
    for title, some in (
        (f"Could {said.run} here, some day, if any one of these were so", some_day),
        (f"Would {said.start} beside all that runs, if any one of these were so", found.now),
    ):
        if not some:
            continue
        yield ""
        yield f"  {title}"
        width = max(len(_who(one)) for one in some)
        for one in some:
            yield f"    {_who(one):{width}}  {one.text}{NOT_BESIDE * (one.beside_plan is False)}"
        if any(one.beside_plan is False for one in some):
            yield f"   {NOT_BESIDE} not beside what this plan starts, which takes the room"


def _who(correction: Correction) -> str:
    return " + ".join(map(str, correction.who))


def _name(places: GroupPlaces, place: Place) -> str:
    return place.name if places.level else f"{count(place.hosts, 'host')} of {place.name}"


def _place(places: GroupPlaces, place: Place) -> str:
    said = [f"{place.now:,} now, {place.empty:,} if empty"]
    if place.away:
        said.append(f"{count(place.away, 'host')} away")
    text = ", ".join(said)
    if place.now < places.tasks and place.occupants:
        who = (
            f"{count(one.jobs, 'job')} {_RELATION[one.relation]} ({count_gpus(one.milli_gpu)})"
            for one in place.occupants
        )
        text += f"; in the way: {', '.join(who)}"
    return text


_RELATION = {
    "pinned": "pinned",
    "higher": "of higher priority",
    "equal": "of the same priority",
    "lower": "of lower priority",
}


def _lack(lack: Mapping[str, Any]) -> str:
    resource = lack.get("resource")
    if resource is None:
        return "not among its hosts"
    if resource == "gpu_model":
        return "another GPU model"
    if resource == "mig":
        return "no such MIG slice"
    return f"at most {amount_text(resource, lack['free'])}"


def _proven(explanation: Explanation) -> str:
    asked_ = f"{count(explanation.facts, 'fact')}, {count(explanation.questions, 'question')}"
    proof = explanation.proof
    if proof is None:
        return asked_
    unproven = [
        fact.text
        for fact, witness in zip(explanation.conflict, proof.witnesses, strict=True)
        if witness.plan is None
    ]
    bound = "not within the limit" if proof.blocked is None else PROOF[proof.blocked]
    plans = count(len(proof.witnesses) - len(unproven), "verified plan")
    text = f"Proof: that these facts suffice: {bound}; that each is needed: {plans}; {asked_}"
    return text if not unproven else f"{text}; not proven to be needed: {'; '.join(unproven)}"
