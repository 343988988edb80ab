"""The figures of a page: its objective, differences, source and notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from placewright.explain.comparison import Comparison, TermDifference
from placewright.instances.derived.doubts import told_of
from placewright.instances.documents.bookkeeping import Book, book_of
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, TermResult
from placewright.instances.documents.source_keys import BOOKKEEPING, SOURCE
from placewright.instances.policies import sense_of
from placewright.instances.verify import verify
from placewright.report.facts.jobs import MOVES, OUTCOMES, milli_gpu_of
from placewright.report.facts.usage import gpu_usage
from placewright.report.panels.subject import Subject
from placewright.report.table import Cell, Meter, Table, table
from placewright.report.text import (
    NONE,
    count_gpus,
    gpus,
    number,
    percent,
    place,
    term_name,
    term_text,
)
from placewright.topology.units import WHOLE_GPU

# What two plans decide differently, job by job.


def differences(subject: Subject) -> Iterator[Table]:
    """Yield the jobs that plan B does not decide as plan A does, what costs most first."""
    found = subject.comparison
    if found is None:
        return
    yield table(
        "Jobs that B decides otherwise",
        ("job", ">GPUs", "in B it", "in A", "in B"),
        (
            (
                subject.cell(one.job.name),
                count_gpus(one.milli_gpu),
                one.change,
                _said(one.before),
                _said(one.after),
            )
            for one in found.jobs
        ),
        "" if found.jobs else "None: both decide every job alike.",
    )


def _said(decision: Decision | None) -> str:
    if decision is None:
        return NONE
    said = OUTCOMES[decision.decision]
    if decision.tasks:
        return f"{said} on {place(decision.tasks)}"
    return said if decision.reason is None else f"{said}: {decision.reason.replace('_', ' ')}"


# What else there is to know: how the plan was made, and what the round cannot say.


def notes(subject: Subject) -> Iterator[Table]:
    """Yield tables of what went wrong, of invalid jobs, and of how each plan was made."""
    wrong = [
        (name, text)
        for name, plan in zip(subject.names, subject.plans, strict=True)
        if plan.certificate is not None
        for text in plan.certificate.degraded
    ]
    if wrong:
        yield table("What went wrong in the search", ("plan", "what"), wrong)
    if subject.round.invalid:
        yield table(
            "Jobs that make no sense, and wait",
            ("job", "what is wrong"),
            ((subject.cell(job), text) for job, text in subject.round.invalid.items()),
        )
    made = [dict(_made(plan)) for plan in subject.plans]
    keys = dict.fromkeys(key for one in made for key in one)
    yield table(
        "How it was made",
        ("", *subject.names) if len(made) > 1 else ("", ""),
        ((key, *(one.get(key, NONE) for one in made)) for key in keys),
    )


def _made(plan: Plan) -> Iterator[tuple[str, str]]:
    certificate = plan.certificate
    if certificate is None:
        yield "certificate", "none: made by hand, or by another scheduler"
    else:
        yield "status", certificate.status.replace("_", " ")
        yield "backend", certificate.backend
        yield "versions", ", ".join(f"{name} {v}" for name, v in certificate.versions.items())
        yield "seed", str(certificate.seed)
        if certificate.deterministic:
            yield "repeatable", "yes" if certificate.repeatable else "no"
        if (run := certificate.run) is not None:
            yield "wall clock", f"{run.wall_s:.2f} s"
            yield "CPU", f"{run.cpu_s:.2f} s"
            yield "peak memory", f"{run.peak_mib:,.0f} MiB"
    if plan.round is not None:
        yield "sha256 of the round", plan.round


# The objective: each term with value, bound, gap and proof; of two plans, what is better.


NO_BOUNDS = (
    "The plan has no certificate: these values are recomputed, and nothing is known of the best "
    "ones. placewright verify --bound proves bounds."
)
_STATUS = {"optimal": "✓ optimal", "within_gap": "≈ within the gap", "feasible": "• feasible"}
_SENSES = {"max": "▲ max", "min": "▼ min"}


def objective(subject: Subject) -> Table:
    """Return the terms of one plan, or those of two side by side."""
    if subject.comparison is not None:
        return _both(subject.comparison)
    plan = subject.plans[0]
    return table(
        "Terms, most important first",
        ("term", "sense", ">value", ">bound", ">gap", "proof", "status"),
        (_row(term) for term in terms_of(subject, plan)),
        "" if plan.certificate else NO_BOUNDS,
    )


def terms_of(subject: Subject, plan: Plan) -> list[TermResult]:
    """Return the terms of a plan's certificate, recomputed ones without bounds if it has none."""
    if plan.certificate is not None:
        return list(plan.certificate.terms)
    values = verify(subject.round, plan).terms
    return [TermResult(name=name, sense=sense_of(name), value=v) for name, v in values.items()]


def _row(term: TermResult) -> tuple[Cell, ...]:
    proof = term.proof or NONE
    return (
        term_name(term),
        _SENSES[term.sense],
        term_text(term.name, term.value),
        term_text(term.name, term.bound),
        percent(term.gap),
        f"{proof}, conditional" if term.conditional else proof,
        NONE if term.status is None else _STATUS[term.status],
    )


def _both(found: Comparison) -> Table:
    return table(
        "Terms, most important first",
        ("term", "sense", ">A", ">bound of A", ">gap", ">B", ">bound of B", ">gap", "B against A"),
        (_differences(one) for one in found.terms),
    )


def _differences(one: TermDifference) -> tuple[Cell, ...]:
    return (
        term_name(one.term),
        _SENSES[one.term.sense],
        *_values(one.before),
        *_values(one.after),
        _better(one),
    )


def _values(term: TermResult | None) -> tuple[str, str, str]:
    if term is None:
        return NONE, NONE, NONE
    return term_text(term.name, term.value), term_text(term.name, term.bound), percent(term.gap)


def _better(one: TermDifference) -> str:
    if one.difference is None:
        return NONE
    if one.difference == 0:
        return "equal"
    better = (one.difference > 0) is (one.term.sense == "max")
    return f"{'better' if better else 'worse'} by {term_text(one.term.name, abs(one.difference))}"


# What the source of a round said: what of it the round has, what it leaves out and cannot say.


MAX_NAMES = 5
"""Names that a row shows of those it counts."""


def source(subject: Subject) -> Iterator[Table]:
    """Yield what a converter noted, and the other annotations of the round."""
    told = list(told_of(subject.round))
    if told:
        yield table(
            "Rules that are told, and not obeyed",
            ("rule", "what", "can forbid a plan", "jobs", "hosts"),
            (
                (
                    one.caveat.rule,
                    one.caveat.text,
                    "yes" if one.caveat.hard else "no",
                    _names(one.jobs, len(one.jobs)),
                    _names(one.hosts, len(one.hosts)),
                )
                for one in told
            ),
        )
    notes = dict(subject.round.annotations)
    book = book_of(notes)
    if book is not None:
        del notes[BOOKKEEPING]
        name = notes.pop(SOURCE, "the source")
        yield _taken(book, name)
        if book.left_out:
            yield table(
                f"Of {name}, but not in the round",
                ("what", ">how many", "why not", "which"),
                (
                    (one.kind, number(one.count), one.reason, _names(one.names, one.count))
                    for one in book.left_out
                ),
            )
        if book.unsaid:
            yield table(
                f"What {name} said, and a round cannot say",
                ("what", ">of how many", "which"),
                (
                    (one.what, number(one.count) if one.count else "", _names(one.names, one.count))
                    for one in book.unsaid
                ),
            )
        if book.fields:
            yield table(f"What is read of {name}", ("fields",), ((line,) for line in book.fields))
    if notes:
        yield table("Annotations", ("key", "text"), sorted(notes.items()))


def _taken(book: Book, name: str) -> Table:
    def row(kind: str, taken: int) -> tuple[str, str, str]:
        left = sum(one.count for one in book.left_out if one.kind == kind)
        return kind, number(taken + left), number(taken)

    return table(
        f"Read from {name}",
        ("what", ">there", ">in the round"),
        (row(kind, taken) for kind, taken in book.taken.items()),
    )


def _names(names: Sequence[str], count: int) -> str:
    shown = names[:MAX_NAMES]
    more = count - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if shown and more > 0 else "")


# The figures at the top of a page.


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its name, what it was before, and what it is of.

    `values` has one for each plan; `meter` is drawn below.
    """

    title: str
    values: tuple[str, ...]
    note: str = ""
    meter: Meter | None = None


def summary(subject: Subject) -> list[Figure]:
    """Return the figures of a round and its plans."""
    return list(_figures(subject))


def _figures(subject: Subject) -> Iterator[Figure]:
    plans = subject.plans
    used = [gpu_usage(subject.round, plan, subject.cluster) for plan in plans]
    places_jobs = subject.round.policy.spec.places_jobs
    if used[0] and places_jobs:
        there = sum(model.gpus for model in used[0])
        before = sum(model.before for model in used[0])
        after = [sum(model.after for model in rows) for rows in used]
        part = after[0] / max(1, there * WHOLE_GPU)
        yield Figure(
            "GPUs in use",
            tuple(map(gpus, after)),
            f"of {there:,}, {percent(part)}; before {gpus(before)}",
            Meter("", part),
        )
    milli = [milli_gpu_of(subject.jobs, plan) for plan in plans]
    kinds_shown = [
        ("started", (DecisionKind.START,)),
        ("waiting", (DecisionKind.WAIT,)),
        ("moved or stopped", MOVES),
        ("kept", (DecisionKind.KEEP,)),
    ]
    for word, kinds in kinds_shown if places_jobs else ():
        jobs = [[one.job for one in plan.decisions if one.decision in kinds] for plan in plans]
        asked = [
            gpus(sum(held[job] for job in names)) for held, names in zip(milli, jobs, strict=True)
        ]
        yield Figure(
            f"Jobs {word}",
            tuple(number(len(names)) for names in jobs),
            f"{' / '.join(asked)} GPUs",
        )
    terms = [terms_of(subject, plan) for plan in plans]
    if all(terms):
        heads = [one[0] for one in terms]
        proofs = {one.proof or "no bound" for one in heads}
        yield Figure(
            f"Gap of {term_name(heads[0])}",
            tuple(percent(one.gap) for one in heads),
            f"to the {' / '.join(sorted(proofs))} bound" if proofs != {"no bound"} else "no bound",
        )
    if subject.cluster.num_gpus:
        first, *later = (free["host"] for free, _ in subject.free)
        yield Figure("Whole hosts free", tuple(map(number, later)), f"before {first:,}")
