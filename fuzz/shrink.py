"""Smaller rounds that fail in the same way: parts of the document are left out, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from fuzz.play import Played, play
from fuzz.policy import Policy, Raw, TooManyPlansError

KEPT = {"name", "host", "gpus", "gpu"}
"""Fields that are not left out: without them most documents say nothing."""


def shrunk(policy: Policy, raw: Raw, seed: int, played: Played) -> tuple[Raw, Played]:
    """Leave out whatever the first failure does not need; return the round and its failures.

    Large parts come first. After a part that could go the next one is tried, and all are tried
    again until none can go.
    """
    kind, number, kept = played.failures[0].kind, 0, 0
    while kept < len(paths := sorted(_paths(raw, ()), key=len)):
        number %= len(paths)
        smaller = _without(raw, paths[number])
        try:
            now = play(policy, smaller, seed)
        except (TooManyPlansError, KeyError, IndexError, ValueError, TypeError):
            now = Played()
        if any(failure.kind == kind for failure in now.failures):
            raw, played, kept = smaller, now, 0
        else:
            number, kept = number + 1, kept + 1
    return raw, played


def _without(raw: Raw, path: tuple[str | int, ...]) -> Raw:
    """Return the document without the entry of a list, or the field, at a path."""
    copy = deepcopy(raw)
    here: Any = copy
    for step in path[:-1]:
        here = here[step]
    del here[path[-1]]
    return copy


def _paths(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in KEPT:
                yield (*path, key)
            yield from _paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield (*path, index)
            yield from _paths(inner, (*path, index))
