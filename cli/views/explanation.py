"""Why a job waits, in words: facts, proof, corrections, costs, nearest places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from placewright.cli.format.console import table
from placewright.explain.corrections.change import Who
from placewright.explain.corrections.find import try_first
from placewright.explain.explanation import Verdict
from placewright.explain.facts.fact import Stratum
from placewright.instances.derived.doubts import so_far
from placewright.instances.derived.phrases import count, duration, several
from placewright.instances.derived.reason_text import reason_text
from placewright.instances.derived.source_words import LeftOut, by_reason, whys, words_of
from placewright.instances.documents.bookkeeping import unsaid_of
from placewright.instances.documents.caveats import caveats_of, hard_caveats
from placewright.instances.documents.plan import DecisionKind, Reason
from placewright.instances.documents.quantities import amount_text
from placewright.instances.policies import term_of
from placewright.report.text import count_gpus, gpus, priorities, shortened, term_text
from placewright.report.verdicts import (
    LEFT_OUT,
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

    from placewright.explain.corrections.find import Correction, Corrections
    from placewright.explain.explanation import Explanation
    from placewright.explain.kinds import WaitingKind
    from placewright.explain.loss import Loss
    from placewright.explain.places import GroupPlaces, Occupants, Place
    from placewright.instances.documents.job import Job
    from placewright.instances.documents.option import TaskGroup
    from placewright.instances.documents.plan import Plan
    from placewright.report.verdicts import Words


# The nearest places of a waiting job as text: what would hold it, and what is in the way there.


MAX_KINDS, MAX_NAMES = 6, 3
NO_GPU = "no GPU"
"""The kind of hosts without GPUs."""

_RELATION = {
    "pinned": "pinned",
    "higher": "of higher priority",
    "equal": "of the same priority",
    "lower": "of lower priority",
}


def places_text(
    places: GroupPlaces, groups: Sequence[TaskGroup], option: str = "", *, after_plan: bool = False
) -> Iterator[str]:
    """Yield the lines of the nearest places of one of the groups; `after_plan`, or as it is now.

    `option` is the name of theirs, where there are several.
    """
    now = "after this plan" if after_plan else "now"
    tasks = f"{places.tasks:,} tasks" if places.tasks > 1 else "task"
    whose = f"its {tasks}" if len(groups) == 1 else f"the {tasks} of {groups[places.group].name}"
    fit = f"how many of {whose} fit" if places.tasks > 1 else f"whether {whose} fits"
    where = "Where" if places.when is None else f"Where, in {places.when}"
    if option:
        where += f", option {option}"
    yield ""
    if places.level is None:
        yield f"  {where}: {fit}, by kind of host"
    else:
        whole, total = f"{places.whole:,}", count(places.total, places.level)
        empty = "empty and repaired" if any(one.away for one in places.places) else "empty"
        yield f"  {where}: {fit}, by {places.level}; {whole} of {total} would hold all, if {empty}"
    width = max((len(_name(places, place)) for place in places.places), default=0)
    for place in places.places:
        yield f"    {_name(places, place):{width}}  {_place(places, place, now)}"
    # What this option does not ask, another one may.
    rows = (one for one in places.unfit if not (option and one[2].get("resource") == "gpu_model"))
    unfit = [one for one in rows if one[2]]
    unfit = unfit if places.places or unfit else list(places.unfit)
    for name, hosts, lack in unfit[:MAX_KINDS]:
        yield f"    {_hosts(hosts, name)}: none, {_lack(lack)}"
    if places.partners:
        whom = several(places.partners, conjunction="or")
        yield f"    or in turns with {whom}, where stages, load and memory suit"
    elif places.partners is not None:
        yield "    no running job or group of its size could take turns with it"


def _name(places: GroupPlaces, place: Place) -> str:
    return place.name if places.level else _hosts(place.hosts, place.name)


def _hosts(hosts: int, kind: str) -> str:
    return f"{count(hosts, 'host')} {'without GPUs' if kind == NO_GPU else f'of {kind}'}"


def _place(places: GroupPlaces, place: Place, now: str) -> str:
    empty = "empty and repaired" if place.away else "empty"
    said = [f"{place.now:,} {now}, {place.empty:,} if {empty}"]
    if place.away:
        said.append(f"{count(place.away, 'host')} away")
    text = ", ".join(said)
    if place.now < places.tasks and place.occupants:
        noun = "job" if places.partners is None else "job or group"
        who = (
            f"{count(one.jobs, noun)} {_RELATION[one.relation]} ({_held(place, one)})"
            for one in place.occupants
        )
        text += f"; in the way: {', '.join(who)}"
    if place.why_not:
        text += f"; not there: {', '.join(place.why_not)}"
    return text


def _held(place: Place, one: Occupants) -> str:
    """Say what jobs hold of what is scarce: GPUs, or cores."""
    if one.milli_cpu and (not one.milli_gpu or place.lack.get("resource") == "cpu"):
        return amount_text("cpu", one.milli_cpu)
    return count_gpus(one.milli_gpu)


def _lack(lack: Mapping[str, Any]) -> str:
    resource = lack.get("resource")
    if resource is None:
        return "not among its hosts"
    if resource == "pool":
        return "a pool has too little"
    if lack["resource"] == "num_hosts":
        return "fewer than the job has to be on"
    if resource == "gpu_links":
        return "its GPUs are not joined so"
    if resource == "gpu_model":
        return "another GPU model"
    if resource == "gpu" and not lack["free"]:
        return "no GPU"
    if resource == "mig":
        return "no such MIG slice"
    return f"at most {amount_text(resource, lack['free'])}"


# What starting a job all the same would cost a plan, as one sentence.


_WOULD: Mapping[tuple[str, str], str] = {
    ("start", "wait"): "would wait",
    ("wait", "start"): "would start",
    ("keep", "preempt"): "would stop",
    ("keep", "migrate"): "would move",
    ("migrate", "keep"): "would stay",
    ("migrate", "preempt"): "would stop",
    ("preempt", "keep"): "would go on",
    ("preempt", "migrate"): "would move and go on",
    ("keep", "resize"): "would change its size",
    ("migrate", "resize"): "would change its size",
    ("preempt", "resize"): "would go on at another size",
    ("resize", "keep"): "would keep its size",
    ("resize", "migrate"): "would keep its size and move",
    ("resize", "preempt"): "would stop",
}
"""What becomes of a job, by its decision in the plan and in the one that starts the other job."""


def cost_text(cost: Loss, doing: str = "Starting it") -> str:
    """Say what it costs to start a job, whether that is proven, and who gives way."""
    it = f"{doing} all the same would cost"
    if cost.startable is False:
        return f"Moving or preempting others cannot start it ({PROOF[cost.proof]})"
    if cost.is_tie:
        return f"{it} nothing: an equally good plan starts it{_instead(cost)}"
    if cost.term is None:
        return "What starting it all the same would cost is not known: no plan that does was found"
    least = term_text(cost.term, cost.at_least)
    if cost.at_most is None:
        return f"{it} at least {least} of {_term(cost)} ({PROOF[cost.proof]})"
    most = term_text(cost.term, cost.at_most)
    if cost.at_most == 0:
        return f"{it} nothing: a better plan starts it{_instead(cost)}"
    if cost.at_least == cost.at_most:
        return f"{it} {most} of {_term(cost)} ({PROOF[cost.proof]}){_instead(cost)}"
    if cost.at_least == 0:
        return f"{it} at most {most} of {_term(cost)}{_instead(cost)}"
    return f"{it} {least} to {most} of {_term(cost)}{_instead(cost)}"


def _term(cost: Loss) -> str:
    """Return the term as people know it: of `value_4` the value of its priorities."""
    name = term_of(cost.term or "")
    return f"the {name} of {priorities(cost.precedences)}" if cost.precedences else name


def _instead(cost: Loss) -> str:
    if not cost.instead:
        return ""
    said = [
        f"job {one.job} {_WOULD.get((one.before, one.after), f'would {one.after}')}"
        for one in cost.instead
    ]
    return f"; {several(said, MAX_NAMES)}"


NOT_BESIDE = " *"


def first_text(found: Corrections, said: Words, started: Sequence[str]) -> Iterator[str]:
    """Yield one line: what to try first, who does it, and what may still be in the way.

    `started` are the jobs that the plan starts where this one could be.
    """
    first = try_first(found)
    if first is None:
        return
    text = f"  Try first: {first.text}"
    if first.who != (Who.TIME,):
        text += f" ({_who(first)})"
    if first.beside_plan is False:
        text += f"; not beside {_plan(said, started)}, which takes the room"
    elif first not in found.now:
        text += f"; it could then {said.run} here, though not at once"
    yield text


def corrections_text(
    found: Corrections, said: Words, started: Sequence[str], most: int
) -> Iterator[str]:
    """Yield the lines of both lists, or of one where they are the same.

    `started` are the jobs that the plan starts where this one could be, and `most` is how many
    corrections of a list were looked for.
    """
    if found.left_out:
        yield ""
        yield f"  {LEFT_OUT} {several(found.left_out)}"
    some_day = found.some_day or ()
    if [one.text for one in some_day] == [one.text for one in found.now]:
        some_day = ()
    for title, some in (
        (f"Any one of these would let it {said.run} here, some day", some_day),
        (f"Any one of these would let it {said.start} beside {said.beside}", found.now),
    ):
        if not some:
            continue
        yield ""
        yield f"  {title}"
        width = max(len(_who(one)) for one in some)
        for one in some:
            yield f"    {_who(one):{width}}  {one.text}{NOT_BESIDE * (one.beside_plan is False)}"
        if len(some) >= most:
            yield f"    these are the {most} cheapest; --corrections finds more"
        if any(one.beside_plan is False for one in some):
            yield f"   {NOT_BESIDE} not beside {_plan(said, started)}, which takes the room"


def _plan(said: Words, started: Sequence[str]) -> str:
    """Return what the plan gives others, with some names."""
    return f"what this plan {said.gives}{f' ({several(started)})' if started else ''}"


def _who(correction: Correction) -> str:
    return " + ".join(map(str, correction.who))


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
    if told := [*(one.text for one in hard_caveats(job.annotations)), *explanation.of_hosts]:
        yield f"  As far as the round knows: {several(told)}"
    if soft := [one.text for one in caveats_of(job.annotations) if not one.hard]:
        yield f"  Besides: {several(soft)}"
    if short := _short(job, explanation, plan):
        yield f"  In short: {short}"
    if (wait := explanation.wait) is not None:
        now = explanation.world.base.now
        yield f"  In the schedule: begins {_left(now, wait.scheduled.start)}, {wait.text(now)}"
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
    if decided is None or decided.reason in (None, Reason.HELD_FOR_RESERVATION, Reason.LATER):
        return ""  # the verdict says more of a reservation, and a schedule what it waits for
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
        which = several([shortened(name) for name in kind.jobs], MAX_NAMES)
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
    sizes = " and ".join(parts) if len(parts) <= MAX_NAMES else count_gpus(job.options[0].milli_gpu)
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
