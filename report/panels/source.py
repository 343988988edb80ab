"""What the source of a round said: what of it the round has, what it leaves out and cannot say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import BOOKKEEPING, SOURCE
from placewright.report.panels.subject import Subject
from placewright.report.table import Table, table
from placewright.report.text import number


class _LeftOut(BaseModel):
    kind: str
    reason: str
    count: int
    names: list[str]


class _Unsaid(BaseModel):
    what: str
    count: int
    names: list[str]


class _Book(BaseModel):
    """The bookkeeping of a converter, as the annotation of a round has it."""

    taken: dict[str, int]
    left_out: list[_LeftOut]
    unsaid: list[_Unsaid]
    fields: list[str] = []


def source(subject: Subject) -> Iterator[Table]:
    """Yield what a converter noted, and the other annotations of the round."""
    notes = dict(subject.round.annotations)
    book = _book(notes.get(BOOKKEEPING, ""))
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


def unsaid_of(round_: Round, job: str) -> list[str]:
    """Return what its source said of a job, and the round does not: it was read without that."""
    book = _book(round_.annotations.get(BOOKKEEPING, ""))
    return [one.what for one in book.unsaid if job in one.names] if book is not None else []


def _taken(book: _Book, name: str) -> Table:
    def row(kind: str, taken: int) -> tuple[str, str, str]:
        left = sum(one.count for one in book.left_out if one.kind == kind)
        return kind, number(taken + left), number(taken)

    return table(
        f"Read from {name}",
        ("what", ">there", ">in the round"),
        (row(kind, taken) for kind, taken in book.taken.items()),
    )


def _names(names: list[str], count: int) -> str:
    more = count - len(names)
    return ", ".join(names) + (f" and {more:,} more" if names and more > 0 else "")


def _book(text: str) -> _Book | None:
    """Return the bookkeeping in an annotation, None if it is no such thing."""
    try:
        raw: Any = json.loads(text)
        return _Book.model_validate(raw)
    except (ValueError, RecursionError, ValidationError):
        return None
