"""Numbers of documents, replaced by extreme ones."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

Place = tuple[str | int, ...]
SUFFIXES = {**dict.fromkeys(("gpu", "cpu", "cores"), "m"), "memory": "Mi", "gpu_memory": "Mi"}


def numbers(value: Any, place: Place = ()) -> Iterator[Place]:
    """Every place in a document that holds a number or quantity, or may: null stands for some."""
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(child, (*place, key))
    elif isinstance(value, str):
        if suffix(place):
            yield place
    elif value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield place


def suffix(place: Place) -> str:
    """Return the suffix of the small unit of a quantity, empty for other fields."""
    return SUFFIXES.get(str([part for part in place if isinstance(part, str)][-1]), "")


def with_number(document: Any, place: Place, number: float) -> Any:
    """Return a copy of a document with a number, of the small unit of a quantity, in its place."""
    changed = copy.deepcopy(document)
    here = changed
    for key in place[:-1]:
        here = here[key]
    here[place[-1]] = f"{number}{suffix(place)}" if suffix(place) else number
    return changed
