"""Allowed hosts: what the lists and named sets of task groups stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placewright.instances.derived.ranges import expand_all
from placewright.instances.documents.option import TaskGroup


class AllowedHosts:
    """The hosts that task groups of a round allow by name; each set is expanded once.

    Parameters
    ----------
    sets
        The host sets of the round, checked: names and ranges of hosts.
    """

    def __init__(self, sets: Mapping[str, Sequence[str]]) -> None:
        self._sets = sets
        self._expanded: dict[str, frozenset[str]] = {}
        self._known: dict[tuple[tuple[str, ...] | None, tuple[str, ...]], frozenset[str]] = {}

    def of(self, group: TaskGroup) -> frozenset[str] | None:
        """Return the hosts that are in the list of a group and in all of its sets; None: any."""
        if is_anywhere(group):
            return None
        key = group.hosts, group.host_sets
        if key not in self._known:
            parts = [self.of_set(name) for name in group.host_sets]
            if group.hosts is not None:
                parts.append(_expanded(group.hosts))
            self._known[key] = frozenset.intersection(*parts)
        return self._known[key]

    def of_set(self, name: str) -> frozenset[str]:
        """Return the hosts of a set."""
        if name not in self._expanded:
            self._expanded[name] = _expanded(self._sets[name])
        return self._expanded[name]


def is_anywhere(group: TaskGroup) -> bool:
    """Whether a group allows all hosts, as far as their names go."""
    return group.hosts is None and not group.host_sets


def _expanded(names: Sequence[str]) -> frozenset[str]:
    return frozenset(expand_all(names))
