"""The bookkeeping of a converter as a document: what a source has that the round has not, and why.

It is an annotation of the round (`BOOKKEEPING`), as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from pydantic import BaseModel, ConfigDict, ValidationError

from placewright.instances.documents.source_keys import BOOKKEEPING, SOURCE


class _Part(BaseModel):
    model_config = ConfigDict(defer_build=True)


class LeftOut(_Part):
    """Objects of one kind that are not in the round for one reason: how many, and the first."""

    kind: str
    reason: str
    count: int
    names: list[str]


class Unsaid(_Part):
    """What the source says of some objects, and the round cannot say."""

    what: str
    count: int
    names: list[str]


class Book(_Part):
    """What is in the round by kind, what is left out, and what is not said.

    `also` are other names of objects that are left out: of their owners, groups, arrays. `why` is
    more about the reason of one; or all of it, of parts of an object that itself is in the round.
    """

    taken: dict[str, int]
    left_out: list[LeftOut]
    unsaid: list[Unsaid]
    fields: list[str] = []
    also: dict[str, list[str]] = {}
    why: dict[str, str] = {}


def book_of(annotations: Mapping[str, str]) -> Book | None:
    """Return the bookkeeping among the annotations of a round, None if there is none."""
    return _read(annotations.get(BOOKKEEPING, ""))


def unsaid_of(annotations: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return what the source says of an object and the round does not: it was read without that.

    What Slurm says of an array it says of each of its tasks.
    """
    found = _unsaid(annotations.get(BOOKKEEPING, ""))
    array = name.partition("_")[0] if annotations.get(SOURCE) == "slurm" else name
    return found.get(name) or found.get(array, ())


@lru_cache(maxsize=4)
def _unsaid(text: str) -> dict[str, tuple[str, ...]]:
    book = _read(text)
    found: dict[str, tuple[str, ...]] = {}
    for one in () if book is None else book.unsaid:
        found |= {name: (*found.get(name, ()), one.what) for name in one.names}
    return found


@lru_cache(maxsize=4)
def _read(text: str) -> Book | None:
    try:
        return Book.model_validate_json(text)
    except (ValidationError, RecursionError):
        return None
