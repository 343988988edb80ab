"""What the source of a round said: what of it the round has, what it leaves out and cannot say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placewright.instances.derived.doubts import told_of
from placewright.instances.documents.bookkeeping import Book, book_of
from placewright.instances.documents.source_keys import BOOKKEEPING, SOURCE
from placewright.report.panels.subject import Subject
from placewright.report.table import Table, table
from placewright.report.text import number

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
