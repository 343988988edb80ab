"""Slurm's host lists: `h[0-3,7],a[00-17]` stands for 23 hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from placewright.instances.checks.cluster import MAX_HOSTS

MAX_NAMES = 5_000_000

_PART = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})\Z", re.DOTALL)
_NOTHING = ("", "(null)", "None")
_MAX_BRACKETS = 8


def expand(text: str) -> tuple[str, ...]:
    """Return the hosts that a list stands for, in order.

    Raises
    ------
    ValueError
        It is no list of hosts, or one of more than `MAX_HOSTS`.
    """
    if text in _NOTHING:
        return ()
    names: list[str] = []
    for part in _parts(text):
        for name in _expanded(part):
            names.append(name)
            if len(names) > MAX_HOSTS:
                raise ValueError(f"expected a list of at most {MAX_HOSTS:,} hosts")
    return tuple(names)


class HostLists:
    """Expands the host lists of a file, each text once, up to `MAX_NAMES` names in all."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, ...]] = {}
        self._left = MAX_NAMES

    def expand(self, text: str) -> tuple[str, ...]:
        """Return the hosts that a list stands for, in order.

        Raises
        ------
        ValueError
            It is no list of hosts, or one of more than `MAX_HOSTS`, or the lists before it name
            too many.
        """
        if text not in self._known:
            names = expand(text)
            self._left -= len(names)
            if self._left < 0:
                raise ValueError(f"expected lists of at most {MAX_NAMES:,} hosts in all")
            self._known[text] = names
        return self._known[text]


def compress(names: Iterable[str]) -> tuple[str, ...]:
    """Return hosts as names and ranges of a document, sorted: `h[0-3]`, `h7`."""
    plain: list[str] = []
    numbered: dict[tuple[str, int], list[int]] = {}
    for name in names:
        numbers = _numbered(name)
        if numbers is None:
            plain.append(name)
        else:
            prefix, width, number = numbers
            numbered.setdefault((prefix, width), []).append(number)
    for (prefix, width), found in numbered.items():
        plain += (_range(prefix, width, first, last) for first, last in _runs(sorted(found)))
    return tuple(sorted(plain))


@lru_cache(maxsize=MAX_HOSTS)
def _numbered(name: str) -> tuple[str, int, int] | None:
    """Return the prefix, the width (0: no zeros) and the number of a name that ends in one."""
    match = _NUMBERED.fullmatch(name)
    if match is None:
        return None
    digits = match[2]
    return match[1], len(digits) if digits[0] == "0" and len(digits) > 1 else 0, int(digits)


def _parts(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None or (match.end() < len(text) and text[match.end()] != ","):
            raise ValueError("expected a list of hosts, such as h[0-3,7],a1")
        if match[0].count("[") > _MAX_BRACKETS:
            raise ValueError(f"expected at most {_MAX_BRACKETS} brackets in a name")
        yield match[0].strip()
        at = match.end() + 1


def _expanded(part: str) -> Iterator[str]:
    """Yield the names of a part, of which each bracket stands for one of its numbers."""
    match = _BRACKET.search(part)
    if match is None:
        yield part
        return
    head, tail = part[: match.start()], part[match.end() :]
    for piece in match[1].split(","):
        bounds = _RANGE.fullmatch(piece.strip())
        if bounds is None:
            raise ValueError("expected numbers and ranges between brackets, such as [0-3,7]")
        first, last = bounds[1], bounds[2] or bounds[1]
        if not 0 <= int(last) - int(first) < MAX_HOSTS:
            raise ValueError(f"expected ranges of 1 to {MAX_HOSTS:,} hosts, such as [0-3]")
        for number in range(int(first), int(last) + 1):
            yield from _expanded(f"{head}{number:0{len(first)}d}{tail}")


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of each run of consecutive numbers."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number > last + 1:
            yield first, last
            first = number
        last = number
    yield first, last


def _range(prefix: str, width: int, first: int, last: int) -> str:
    low = f"{first:0{width}d}"
    return f"{prefix}{low}" if first == last else f"{prefix}[{low}-{last:0{width}d}]"
