"""Waiting jobs by reason, with the facts that keep them waiting and what would let them start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

from placewright.explain.corrections.find import Correction
from placewright.explain.explain_job import explain_job
from placewright.explain.explanation import Verdict
from placewright.explain.kinds import WaitingKind, explain_all
from placewright.instances.derived.doubts import so_far, why_waits
from placewright.instances.derived.phrases import count, several
from placewright.instances.derived.reason_text import MEANINGS
from placewright.instances.derived.source_words import words_of
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Reason
from placewright.report.panels.subject import Subject
from placewright.report.table import JobCell
from placewright.report.text import after, count_gpus, number
from placewright.report.verdicts import LEFT_OUT, doubts, label, verdict_text

MAX_NAMES = 4
MAX_TEXTS = 6
MAX_CORRECTIONS = 3
SHARE_OF_KINDS = 0.5
"""Of the time; the rest is for corrections."""

NOTHING = "No change was found that lets it start."
UNDECIDED = "Of the first the plan says:"
NO_TIME = "No time was left to look for what would let it start."


class Sentence(NamedTuple):
    """A fact with the word of its stratum, or a change with who has to make it."""

    word: str
    text: str


@dataclass(frozen=True, slots=True)
class Kind:
    """Jobs that wait for the same facts.

    Parameters
    ----------
    jobs, more, count, gpus
        The first of them, how many more there are, how many in all, and what they ask.
    verdict, facts
        How lasting it is, and what keeps them from starting.
    changes, note
        What would let the first of them start, the cheapest first, and why there is none.
    """

    jobs: tuple[JobCell, ...]
    more: int
    count: str
    gpus: str
    verdict: str
    facts: tuple[Sentence, ...] = ()
    changes: tuple[Sentence, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs that wait for one reason of the plan."""

    reason: str
    word: str
    meaning: str
    count: str
    gpus: str
    kinds: tuple[Kind, ...]
    more: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """All jobs that wait in a plan; `explained` if facts and changes were looked for."""

    name: str
    groups: tuple[Group, ...]
    count: int
    milli_gpu: int
    explained: bool
    undecided: int


def waiting(subject: Subject, name: str, plan: Plan, time_limit: float) -> Waiting:
    """Return the jobs that wait by reason, those that ask most first.

    Without time, or under a policy that decides nothing about them, with what the plan says alone.
    """
    left = [one for one in plan.decisions if one.decision is DecisionKind.WAIT]
    milli = {one.job: _asked(subject, one.job) for one in left}
    by_reason: dict[Reason | None, list[Decision]] = {}
    for one in left:
        by_reason.setdefault(one.reason, []).append(one)
    kinds = _explained(subject, plan, left, time_limit)
    reason_of = {one.job: one.reason for one in left}
    groups = []
    for reason, decisions in by_reason.items():
        asked = sum(milli[one.job] for one in decisions)
        found = [kind for first, kind in kinds if reason_of.get(first) is reason]
        rest: list[Kind] = found or list(_said(subject, decisions, milli))
        groups.append(
            (
                asked,
                Group(
                    reason=reason.value if reason else "",
                    word=reason.value.replace("_", " ") if reason else "no reason given",
                    meaning=MEANINGS[reason] if reason else "the plan gives no reason",
                    count=count(len(decisions), "job"),
                    gpus=count_gpus(asked),
                    kinds=tuple(rest[:MAX_TEXTS]),
                    more=max(0, len(rest) - MAX_TEXTS),
                ),
            )
        )
    groups.sort(key=lambda pair: -pair[0])
    return Waiting(
        name=name,
        groups=tuple(group for _, group in groups),
        count=len(left),
        milli_gpu=sum(milli.values()),
        explained=bool(kinds),
        undecided=sum(kind.verdict.startswith("could not be decided") for _, kind in kinds),
    )


def _asked(subject: Subject, job: str) -> int:
    return max(option.milli_gpu for option in subject.jobs[job].options)


def _said(subject: Subject, decisions: Sequence[Decision], milli: dict[str, int]) -> Iterator[Kind]:
    """Yield what the plan says, the same sentences together, those of most GPUs first."""
    texts: dict[str, list[str]] = {}
    for one in decisions:
        texts.setdefault(_why(subject, one), []).append(one.job)
    asked = Counter({text: sum(milli[job] for job in jobs) for text, jobs in texts.items()})
    for text, all_ in asked.most_common():
        yield _kind(subject, texts[text], all_, text)


def _why(subject: Subject, decision: Decision) -> str:
    if decision.reason is None:
        return "the plan gives no reason"
    now, job = subject.round.now, subject.jobs[decision.job]
    return why_waits(subject.round, job, decision, lambda at: after(at, now))


def _kind(subject: Subject, jobs: Sequence[str], milli: int, verdict: str) -> Kind:
    return Kind(
        jobs=tuple(map(subject.cell, jobs[:MAX_NAMES])),
        more=max(0, len(jobs) - MAX_NAMES),
        count=number(len(jobs)),
        gpus=count_gpus(milli),
        verdict=verdict,
    )


def _explained(
    subject: Subject, plan: Plan, left: Sequence[Decision], time_limit: float
) -> list[tuple[str, Kind]]:
    """Return what is found in the time, each with the name of its first job."""
    if time_limit <= 0 or not left:
        return []
    end = monotonic() + time_limit
    try:
        found = explain_all(subject.round, plan, time_limit=time_limit * SHARE_OF_KINDS)
    except Exception:  # noqa: BLE001
        return []  # the page is written all the same, with what the plan says of them
    why = {one.job: f"{UNDECIDED} {_why(subject, one)}." for one in left}
    return [(kind.jobs[0], _with_changes(subject, plan, kind, end, why)) for kind in found]


def _with_changes(
    subject: Subject, plan: Plan, kind: WaitingKind, end: float, why: Mapping[str, str]
) -> Kind:
    """Return a kind with what would let its first job start, if there is time left.

    `why` is what the plan says of each job, for those of which nothing could be decided.
    """
    found = kind.explanation
    job, words = kind.jobs[0], words_of(subject.round)
    said = words.say(verdict_text(found, beside=True), job)
    made = _kind(subject, kind.jobs, kind.milli_gpu, said)
    facts = tuple(
        Sentence(label(fact).strip(), words.say(fact.text, job)) for fact in found.conflict
    )
    changes: tuple[Sentence, ...] = ()
    left = end - monotonic()
    if told := doubts(found):
        facts = (*facts, Sentence("so far", so_far(told)))
    note = why[kind.jobs[0]] if found.verdict is Verdict.UNDECIDED else ""
    if found.verdict not in (Verdict.COULD_START, Verdict.UNDECIDED):
        changes, note = _changes(subject, plan, kind.jobs[0], left) if left > 0 else ((), NO_TIME)
    return Kind(
        jobs=made.jobs,
        more=made.more,
        count=made.count,
        gpus=made.gpus,
        verdict=made.verdict,
        facts=facts,
        changes=changes,
        note=note,
    )


def _changes(
    subject: Subject, plan: Plan, job: str, seconds: float
) -> tuple[tuple[Sentence, ...], str]:
    """Return the cheapest changes with which a job starts, or could some day, and a note.

    Whatever fails is said in the note: it takes nothing else of the page with it.
    """
    try:
        found = explain_job(
            subject.round, plan, job, corrections=MAX_CORRECTIONS, time_limit=seconds
        ).corrections
    except Exception as error:  # noqa: BLE001
        return (), f"What would let it start could not be looked for ({type(error).__name__})."
    if found is None:
        return (), NOTHING
    reserves = " or reserves" if subject.round.policy.backfill is not None else ""
    not_beside = f" (not beside what this plan starts{reserves})"
    words = words_of(subject.round)
    changes = [
        Sentence(_who(one), words.say(one.text, job) + not_beside * (one.beside_plan is False))
        for one in found.now[:MAX_CORRECTIONS]
    ] or [
        Sentence(_who(one), f"{words.say(one.text, job)} (some day)")
        for one in (found.some_day or ())[:MAX_CORRECTIONS]
    ]
    note = f"{LEFT_OUT} {several(found.left_out)}." if found.left_out else ""
    return tuple(changes), note or NOTHING * (not changes)


def _who(one: Correction) -> str:
    return " + ".join(map(str, one.who))
