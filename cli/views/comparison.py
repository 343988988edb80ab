"""Two plans side by side: of one round, or of a round and its edited copy."""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from placewright.cli.format.console import print_rest, print_table, table
from placewright.cli.views.gang.tables import DEFAULT, Selection, certificate_line
from placewright.cli.views.tables import print_plan
from placewright.explain.comparison import conclusions, quota_text
from placewright.instances.derived.phrases import several
from placewright.instances.derived.reason_text import MEANINGS, reason_text
from placewright.instances.derived.source_words import OF_ROUNDS, Words
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.edits.sentences import sentence_of
from placewright.instances.io.files import json_text
from placewright.report.facts.jobs import OUTCOMES
from placewright.report.text import NONE, after, gpus, number, place, term_name, term_text

if TYPE_CHECKING:
    from placewright.explain.comparison import Change, Comparison, JobChange, TermDifference
    from placewright.explain.whatif import WhatIf
    from placewright.instances.documents.edits import Edits
    from placewright.instances.documents.plan import Decision, Plan, TermResult
    from placewright.instances.documents.round import Round


QUIET: tuple[Change, ...] = ("other place", "other facts")
"""Changes that are counted only, unless everything is asked for."""

MAX_JOBS = 3


def print_comparison(
    console: Console,
    comparison: Comparison,
    now: int,
    selection: Selection = DEFAULT,
    words: Words = OF_ROUNDS,
) -> None:
    """Print what the comparison comes to, and what differs in jobs, terms and free domains."""
    for sentence in conclusions(comparison):
        console.print(words.say(sentence), soft_wrap=True)
    console.print()
    if comparison.is_empty:
        return
    shown = [one for one in comparison.jobs if selection.everything or one.change not in QUIET]
    if shown:
        print_table(console, _job_table(shown[: selection.rows], now, words))
        print_rest(console, len(shown), "more job", selection.rows)
    print_table(console, _term_table(comparison))
    if any(one.before != one.after or one.added for one in comparison.free):
        print_table(console, _free_table(comparison))
    if comparison.waiting:
        print_table(console, _waiting_table(comparison))


def comparison_object(comparison: Comparison, words: Words = OF_ROUNDS) -> dict[str, Any]:
    """Return what `--format json` prints of a comparison (docs/cli.md)."""
    return {
        "empty": comparison.is_empty,
        "conclusions": [words.say(one) for one in conclusions(comparison)],
        "jobs": [_job_object(one) for one in comparison.jobs],
        "terms": [_term_object(one) for one in comparison.terms],
        "free": [one._asdict() for one in comparison.free],
        "waiting": [
            {name: value for name, value in one._asdict().items() if value is not None}
            for one in comparison.waiting
        ],
        "sections": list(comparison.sections),
    }


def _job_table(changes: list[JobChange], now: int, words: Words) -> Table:
    columns = ("job", "GPUs", "change", "before", "after")
    made = table("Jobs decided otherwise", *columns, right=("GPUs",))
    for one in changes:
        made.add_row(
            one.job.name,
            gpus(one.milli_gpu),
            one.change,
            words.say(_side(one, one.before)),
            words.say(_side(one, one.after, now)),
        )
    return made


def _side(change: JobChange, decision: Decision | None, now: int | None = None) -> str:
    """Say what one of the two plans decides; with `now` a reason has its facts."""
    if decision is None:
        return "not in the round"
    if decision.decision is DecisionKind.WAIT:
        if decision.reason is None:
            return "waits"
        if now is None:
            return f"waits, {decision.reason}"
        facts = reason_text(decision.reason, decision.detail, lambda at: f"at {after(at, now)}")
        return f"waits, {decision.reason}: {facts}"
    said = OUTCOMES[decision.decision]
    if decision.displaced_by:
        said += f", displaced by {several(decision.displaced_by, MAX_JOBS)}"
    if decision.tasks:
        to = "to" if decision.decision.moves else "on"
        said += f" {to} {place(decision.tasks)}"
    options = change.job.options
    if change.change == "other option" and decision.option is not None:
        known = decision.option < len(options)
        said += f", option {options[decision.option].name if known else decision.option}"
    return said


def _term_table(comparison: Comparison) -> Table:
    right = ("before", "after", "difference")
    made = table(
        "Objective, most important first", "term", "before", "after", "difference", "is",
        right=right,
    )  # fmt: skip
    for one in comparison.terms:
        name = one.term.name
        made.add_row(
            term_name(one.term),
            _value(one.before),
            _value(one.after),
            NONE if one.difference is None else _signed(name, one.difference),
            _verdict(one),
        )
    return made


def _value(term: TermResult | None) -> str:
    """Write the value of a term, and its bound where that is another."""
    if term is None:
        return NONE
    text = term_text(term.name, term.value)
    if term.status == "optimal":
        return text
    if term.bound is None:
        return f"{text}, no bound"
    most = "at most" if term.sense == "max" else "at least"
    return f"{text}, {most} {term_text(term.name, term.bound)}"


def _signed(name: str, difference: int) -> str:
    text = term_text(name, difference)
    return f"+{text}" if difference > 0 else text


def _verdict(one: TermDifference) -> str:
    """Say what is known of the difference between the best plans."""
    return "a term of one round only" if one.difference is None else one.verdict


def _free_table(comparison: Comparison) -> Table:
    right = ("before", "after", "added")
    made = table("Whole domains free", "level", "before", "after", "added", right=right)
    for one in comparison.free:
        added = f"{one.added:+,}" if one.added else NONE
        made.add_row(one.level, number(one.before), number(one.after), added)
    return made


def _waiting_table(comparison: Comparison) -> Table:
    made = table(
        "Why jobs wait after", "reason", "jobs", "GPUs", "which", "meaning", right=("jobs", "GPUs")
    )
    made.columns[0].no_wrap = True  # a reason is searched for as it is spelled
    for one in comparison.waiting:
        meaning = MEANINGS[one.reason] if one.reason else "the plan gives no reason"
        meaning = quota_text(one) or meaning
        made.add_row(
            one.reason or NONE,
            number(len(one.jobs)),
            gpus(one.milli_gpu),
            several(one.jobs, MAX_JOBS),
            meaning,
        )
    return made


def _job_object(one: JobChange) -> dict[str, Any]:
    return {
        "job": one.job.name,
        "change": one.change,
        "before": _decision_object(one.before),
        "after": _decision_object(one.after),
    }


def _decision_object(decision: Decision | None) -> dict[str, Any] | None:
    if decision is None:
        return None
    return decision.model_dump(mode="json", exclude_none=True)


def _term_object(one: TermDifference) -> dict[str, Any]:
    return {
        "name": one.term.name,
        "before": None if one.before is None else one.before.model_dump(mode="json"),
        "after": None if one.after is None else one.after.model_dump(mode="json"),
        "difference": one.difference,
        "verdict": one.verdict,
        "at_least": one.at_least if isfinite(one.at_least) else None,
        "at_most": one.at_most if isfinite(one.at_most) else None,
    }


INTERRUPTED = "The second search was interrupted: its plan may not be finished."
UNFINISHED = (
    "The second search was interrupted before it had a plan. The plan of the round as it is:"
)


def print_whatif(
    console: Console, answer: WhatIf, edits: Edits, selection: Selection = DEFAULT
) -> None:
    """Print the edits as sentences, and the difference that they make."""
    _print_edits(console, answer.round, edits)
    if answer.interrupted:
        console.print(INTERRUPTED, soft_wrap=True)
    print_comparison(console, answer.comparison, answer.round_after.now, selection)
    for when, plan in (("before", answer.before), ("after", answer.after)):
        if plan.certificate is not None:
            console.print(f"{when}: {certificate_line(plan.certificate)}", soft_wrap=True)


def print_unfinished(console: Console, round_: Round, first: Plan, edits: Edits) -> None:
    """Print the plan of the round as it is, where the edited round has none."""
    _print_edits(console, round_, edits)
    console.print(UNFINISHED, soft_wrap=True)
    console.print()
    print_plan(console, round_, first)


def whatif_object(answer: WhatIf, edits: Edits) -> dict[str, Any]:
    """Return what `whatif --format json` prints (docs/cli.md)."""
    return {
        **_edits_object(edits),
        "interrupted": answer.interrupted,
        **comparison_object(answer.comparison),
    }


def unfinished_object(first: Plan, edits: Edits) -> dict[str, Any]:
    """Return what `whatif --format json` prints where the edited round has none yet."""
    before = json.loads(json_text(first))
    return {**_edits_object(edits), "interrupted": True, "before": before}


def _edits_object(edits: Edits) -> dict[str, Any]:
    return {
        "edits": edits.model_dump(mode="json", exclude_unset=True)["edits"],
        "sentences": [sentence_of(edit) for edit in edits.edits],
    }


def _print_edits(console: Console, round_: Round, edits: Edits) -> None:
    console.print(f"What if, in round {round_.name}:")
    for edit in edits.edits:
        console.print(f"  {sentence_of(edit)}", soft_wrap=True)
    console.print()
