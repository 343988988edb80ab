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
    """Leave out whatever the first failure does not need; return the round and its failures."""
    kind = played.failures[0].kind
    going = True
    while going:
        going = False
        for smaller in _smaller(raw):
            try:
                now = play(policy, smaller, seed)
            except (TooManyPlansError, KeyError, IndexError, ValueError, TypeError):
                continue
            if any(failure.kind == kind for failure in now.failures):
                raw, played, going = smaller, now, True
                break
    return raw, played


def _smaller(raw: Raw) -> Iterator[Raw]:
    """Yield the document without each entry of a list and each field, large parts first."""
    paths = sorted(_paths(raw, ()), key=len)
    for path in paths:
        copy = deepcopy(raw)
        here: Any = copy
        for step in path[:-1]:
            here = here[step]
        del here[path[-1]]
        yield copy


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
