"""The objective: each term with value, bound, gap and proof; of two plans, what is better."""

from __future__ import annotations

from placewright.explain.comparison import Comparison
from placewright.explain.term_differences import TermDifference
from placewright.instances.documents.plan import Plan, TermResult
from placewright.instances.policies import sense_of
from placewright.instances.verify import verify
from placewright.report.panels.subject import Subject
from placewright.report.table import Cell, Table, table
from placewright.report.text import NONE, percent, term_name, term_text

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
