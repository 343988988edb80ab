"""Host ranges: `h[000-127]` stands for `h000` to `h127`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_RANGE = re.compile(r"(.*)\[(\d{1,9})-(\d{1,9})\]\Z")


def size(name: str) -> int:
    """Return the number of hosts of a name or range: 1 for a name, below 1 for a reversed range."""
    match = _RANGE.match(name) if name.endswith("]") else None
    return int(match[3]) - int(match[2]) + 1 if match else 1


def expand(name: str) -> list[str]:
    """Return the names that `name` stands for, in order; numbers keep the first one's zeros.

    A range's `size` should have been checked before it is expanded.
    """
    match = _RANGE.match(name) if name.endswith("]") else None
    if match is None:
        return [name]
    prefix, first, last = match.groups()
    width = len(first)
    return [f"{prefix}{number:0{width}d}" for number in range(int(first), int(last) + 1)]


def expand_all(names: Iterable[str]) -> Iterator[str]:
    """Yield the names that names and ranges stand for, in order."""
    for name in names:
        if name.endswith("]"):
            yield from expand(name)
        else:
            yield name


def of_size(prefix: str, number: int) -> str:
    """Return the name or range of `number` hosts: `h[0-7]`, or `h0` for one."""
    return f"{prefix}[0-{number - 1}]" if number > 1 else f"{prefix}0"
