"""Tables of a page: texts, jobs that can be picked, and parts of a whole that are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

MAX_ROWS = 200


class JobCell(NamedTuple):
    """A job that can be picked, by its number in the round."""

    name: str
    number: int
    kind: str = "job"


class Meter(NamedTuple):
    """A text with a bar: which part of a whole is filled; `tight`: a full one is no good news."""

    text: str
    part: float
    tight: bool = False
    kind: str = "meter"


class Marked(NamedTuple):
    """A text that stands out, and the word that says why, such as `best`."""

    text: str
    word: str
    kind: str = "marked"


class Bar(NamedTuple):
    """A span of a time line, as fractions of it, with a class of style, in one of its lanes."""

    start: float
    end: float
    style: str = "s0"
    lane: int = 0


class Spans(NamedTuple):
    """A text, and bars on a time line."""

    text: str
    bars: tuple[Bar, ...]
    lanes: int = 1
    kind: str = "spans"


Cell: TypeAlias = str | JobCell | Meter | Marked | Spans


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a page.

    Parameters
    ----------
    title
        What it shows.
    columns
        Their names; one that begins with `>` has numbers.
    rows
        A cell per column.
    more
        How many rows are left out.
    note
        What no row says.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    more: int = 0
    note: str = ""


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]], note: str = ""
) -> Table:
    """Return a table with its first rows."""
    made = [tuple(row) for row in rows]
    return Table(title, tuple(columns), tuple(made[:MAX_ROWS]), max(0, len(made) - MAX_ROWS), note)
