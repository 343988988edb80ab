"""Constraints on the features of nodes: `h100&ib`, `a100|h100`, `ib&(a100|h100)`."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

_TOKEN = re.compile(r"[A-Za-z0-9_.:+=/@-]+|[&|(),]")
MAX_TOKENS = 200


def matches(text: str, features: Collection[str]) -> bool | None:
    """Say whether a node with these features satisfies a constraint; None: it cannot be read.

    Counts (`h100*4`) and choices for all nodes alike (`[rack1|rack2]`) are not read. As Slurm
    does, operators of one level are applied from left to right.
    """
    tokens = _tokens(text)
    if tokens is None:
        return None
    value, at = _expression(tokens, 0, frozenset(features))
    return value if at == len(tokens) else None


@lru_cache(maxsize=4096)
def _tokens(text: str) -> tuple[str, ...] | None:
    tokens = tuple(_TOKEN.findall(text))
    whole = "".join(tokens) == "".join(text.split())
    return tokens if whole and len(tokens) <= MAX_TOKENS else None


def _expression(
    tokens: tuple[str, ...], at: int, features: frozenset[str]
) -> tuple[bool | None, int]:
    """Return the value of an expression and where it ends."""
    value, at = _operand(tokens, at, features)
    while value is not None and at < len(tokens) and tokens[at] in "&|,":
        operator = tokens[at]
        other, at = _operand(tokens, at + 1, features)
        if other is None:
            return None, at
        value = (value or other) if operator == "|" else (value and other)
    return value, at


def _operand(tokens: tuple[str, ...], at: int, features: frozenset[str]) -> tuple[bool | None, int]:
    if at >= len(tokens) or tokens[at] in "&|,)":
        return None, at
    if tokens[at] != "(":
        return tokens[at] in features, at + 1
    value, at = _expression(tokens, at + 1, features)
    closed = at < len(tokens) and tokens[at] == ")"
    return (value, at + 1) if closed else (None, at)
