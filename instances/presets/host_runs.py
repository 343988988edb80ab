"""Runs of hosts: an entry for a range of hosts that are to differ is split, in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import TypeVar

from placewright.instances.derived import ranges
from placewright.instances.documents.cluster import HostEntry

Key = TypeVar("Key")


def runs_of(entry: HostEntry, key_of: Callable[[str], Key]) -> Iterator[tuple[HostEntry, Key]]:
    """Yield a host entry as runs of hosts, by name, that have one key each."""
    names = ranges.expand(entry.name)
    keys = [key_of(name) for name in names]
    if all(key == keys[0] for key in keys):
        yield entry, keys[0]
        return
    prefix = entry.name.partition("[")[0]
    for key, group in groupby(zip(keys, names, strict=True), lambda pair: pair[0]):
        run = [name for _, name in group]
        first, last = run[0], run[-1]
        name = f"{prefix}[{first.removeprefix(prefix)}-{last.removeprefix(prefix)}]"
        yield entry.model_copy(update={"name": name if len(run) > 1 else first}), key
