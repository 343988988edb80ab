"""Host ranges: `h[000-127]` stands for `h000` to `h127`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from placewright.instances.documents.cluster import expand, size

__all__ = ["expand", "expand_all", "of_size", "size"]


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
