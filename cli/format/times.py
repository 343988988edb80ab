"""Spans of time on the command line: `90`, `90s`, `2m`, `1h30m`, `1d`."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import inf

import typer

_SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_NUMBER = r"\d+(?:\.\d+)?"
_SPAN = re.compile("".join(rf"(?:(?P<{unit}>{_NUMBER}){unit})?" for unit in _SECONDS), re.ASCII)
_BARE = re.compile(_NUMBER, re.ASCII)


def seconds(text: str) -> float | None:
    """Return a span of time in seconds, None if the text is none: `1h30m` is 5400."""
    if _BARE.fullmatch(text):
        return float(text)
    span = _SPAN.fullmatch(text)
    if not text or span is None:
        return None
    return sum(float(n) * _SECONDS[unit] for unit, n in span.groupdict().items() if n is not None)


def read_seconds(least: float = 0, most: float = inf) -> Callable[[object], float]:
    """Return the parser of an option that takes a time of at least and at most these seconds."""

    def time(given: object) -> float:
        found = seconds(str(given))
        if found is None:
            raise _wrong(given, "a time such as 90, 90s, 2m or 1h30m")
        if not least <= found <= most:
            limits = f"at least {least:,.0f}" if most == inf else f"{least:,.0f} to {most:,.0f}"
            raise _wrong(given, f"{limits} seconds")
        return found

    return time


def read_whole_seconds(least: int = 0, most: float = inf) -> Callable[[object], int]:
    """Return the parser of an option that takes a time of whole seconds in this range."""
    read = read_seconds(least, most)

    def time(given: object) -> int:
        found = read(given)
        if not found.is_integer():
            raise _wrong(given, "a time of whole seconds")
        return int(found)

    return time


def _wrong(given: object, expected: str) -> typer.BadParameter:
    return typer.BadParameter(f"{given}: expected {expected}")
