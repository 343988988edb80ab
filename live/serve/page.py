"""The page at `/`: the last round and its plan, without a request to anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from placewright.instances.derived.reason_text import reason_text
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round

MAX_ROWS = 1000

EMPTY = "<!doctype html><title>Placewright</title><p>No round has been solved yet.</p>"


def page_of(round_: Round, plan: Plan) -> str:
    """Return the page of a round and its plan; every text in it is escaped."""
    terms = () if plan.certificate is None else plan.certificate.terms
    term_rows = [(term.name, term.value, term.bound, term.gap) for term in terms]
    waiting = [one for one in plan.decisions if one.decision is DecisionKind.WAIT]
    why = [
        (one.job, one.reason, "" if one.reason is None else reason_text(one.reason, one.detail))
        for one in waiting[:MAX_ROWS]
    ]
    title = escape(f"Placewright: {round_.name}")
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><h1>{title}</h1>",
        _table("Terms", ("term", "value", "bound", "gap"), term_rows),
        _table(f"Waiting jobs: {len(waiting):,}", ("job", "reason", "why"), why),
    ]
    return "".join(parts)


def _table(title: str, heads: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> str:
    head = "".join(f"<th>{escape(one)}" for one in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}" for cell in row) for row in rows)
    return f"<h2>{escape(title)}</h2><table><tr>{head}{body}</table>"
