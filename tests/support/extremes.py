"""Numbers of documents, replaced by extreme ones."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

Place = tuple[str | int, ...]


def numbers(value: Any, place: Place = ()) -> Iterator[Place]:
    """Every place in a document that holds a number, or may hold one: null stands for some."""
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(child, (*place, key))
    elif value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield place


def with_number(document: Any, place: Place, number: float) -> Any:
    """Return a copy of a document with a number in its place."""
    changed = copy.deepcopy(document)
    here = changed
    for key in place[:-1]:
        here = here[key]
    here[place[-1]] = number
    return changed
