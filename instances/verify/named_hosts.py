"""Hosts that task groups name: in their lists, and by the host sets of the round."""

from __future__ import annotations

from collections.abc import Hashable

from placewright.instances.derived.ranges import expand
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.round import Round


class NamedHosts:
    """Which hosts task groups of a round may arrive on, as far as they name any."""

    def __init__(self, round_: Round) -> None:
        self._sets = round_.host_sets
        self._members: dict[str, set[str]] = {}
        self._lists: dict[tuple[str, ...], set[str]] = {}

    def include(self, group: TaskGroup, host: str) -> bool:
        """Whether a host is in the list of a group, if it has one, and in each of its sets."""
        listed = group.hosts is None or host in self._listed(group.hosts)
        return listed and all(host in self._members_of(name) for name in group.host_sets)

    def text(self, group: TaskGroup) -> str:
        """Return the names that a host has to have, or the sets that it has to be in."""
        parts = [] if group.hosts is None else [f"one of {', '.join(group.hosts)}"]
        parts += [f"one of host set {name}" for name in group.host_sets]
        return ", and ".join(parts)

    @staticmethod
    def key(group: TaskGroup) -> Hashable:
        """Return what is equal for groups that name the same hosts in the same way."""
        return group.hosts, group.host_sets

    def _listed(self, names: tuple[str, ...]) -> set[str]:
        if names not in self._lists:
            self._lists[names] = {host for name in names for host in expand(name)}
        return self._lists[names]

    def _members_of(self, name: str) -> set[str]:
        if name not in self._members:
            self._members[name] = {host for entry in self._sets[name] for host in expand(entry)}
        return self._members[name]
