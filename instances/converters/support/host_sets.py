"""Host sets of a round that is made: each condition on hosts is named once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from placewright.instances.documents.base import NAME
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import MAX_HOST_SETS

MAX_MEMBERS = 10_000_000
"""Hosts of all sets together; conditions beyond are lists of hosts."""

_MAX_NAME = 200
_MAX_REMEMBERED = 1024
_NAME = re.compile(NAME)


class Condition(NamedTuple):
    """Hosts that meet a condition of a job, and what it is called: `partition/main`."""

    name: str
    hosts: frozenset[str]


class HostSets:
    """The host sets of a round.

    Parameters
    ----------
    everywhere
        How many hosts there are.
    compress
        Returns names and ranges of hosts.

    Attributes
    ----------
    sets : dict of str to tuple of str
        Those that some task group refers to.
    """

    def __init__(
        self, everywhere: int, compress: Callable[[frozenset[str]], tuple[str, ...]]
    ) -> None:
        self.sets: dict[str, tuple[str, ...]] = {}
        self._everywhere, self._compress = everywhere, compress
        self._known: dict[tuple[str, tuple[str, ...]], str] = {}
        self._ranges: dict[frozenset[str], tuple[str, ...]] = {}
        self._members = 0

    def fields(self, conditions: Iterable[Condition], allowed: frozenset[str]) -> dict[str, Any]:
        """Return the fields of a task group that may go to the hosts that meet all conditions.

        `allowed` are these hosts: a list of them where no more sets may be named.
        """
        names: list[str] = []
        for condition in conditions:
            if len(condition.hosts) < self._everywhere:
                name = self._name(condition)
                if name is None:
                    return {"hosts": self._compress(allowed)}
                names.append(name)
        return {"host_sets": tuple(dict.fromkeys(names))}

    def used_by(self, jobs: Iterable[Job]) -> dict[str, tuple[str, ...]]:
        """Return the sets that jobs refer to: others are of jobs that were left out."""
        used = {
            name
            for job in jobs
            for option in job.options
            for group in option.groups
            for name in group.host_sets
        }
        return {name: self.sets[name] for name in sorted(used)}

    def _name(self, condition: Condition) -> str | None:
        """Return the name of a set, None if there are too many."""
        if condition.hosts not in self._ranges:
            if len(self._ranges) >= _MAX_REMEMBERED:
                self._ranges.clear()
            self._ranges[condition.hosts] = self._compress(condition.hosts)
        hosts = self._ranges[condition.hosts]
        key = condition.name, hosts
        if key not in self._known:
            full = len(self.sets) == MAX_HOST_SETS
            if full or self._members + len(condition.hosts) > MAX_MEMBERS:
                return None
            self._members += len(condition.hosts)
            self._known[key] = self._free_name(condition.name)
            self.sets[self._known[key]] = hosts
        return self._known[key]

    def _free_name(self, wanted: str) -> str:
        """Return a name that is free: the wanted one, or one with a number."""
        base = wanted
        if len(wanted) > _MAX_NAME or not _NAME.fullmatch(wanted):
            base = wanted.partition("/")[0]
        elif wanted not in self.sets:
            return wanted
        number = 1
        while f"{base}:{number}" in self.sets:
            number += 1
        return f"{base}:{number}"


def either(kind: str, names: Sequence[str]) -> str:
    """Return what hosts of one of several things are called: `partition/a+b`."""
    return f"{kind}/{'+'.join(sorted(names))}"
