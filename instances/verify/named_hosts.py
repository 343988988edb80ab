"""Hosts that task groups name: in their lists, and by the host sets of the round."""

from __future__ import annotations

from collections.abc import Collection, Hashable

import numpy as np

from placewright.array_types import Bools
from placewright.instances.derived.ranges import expand_all
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.round import Round


class NamedHosts:
    """Which hosts task groups of a round may arrive on, as far as they name any.

    Parameters
    ----------
    round_
        The round.
    hosts
        The names of its hosts, in the order of masks.
    """

    def __init__(self, round_: Round, hosts: Collection[str]) -> None:
        self._sets = round_.host_sets
        self._index = {host: i for i, host in enumerate(hosts)}
        self._of_set: dict[str, Bools] = {}
        self._of_list: dict[tuple[str, ...], Bools] = {}

    def include(self, group: TaskGroup, host: str) -> bool:
        """Whether a host is in the list of a group, if it has one, and in each of its sets."""
        at = self._index[host]
        return all(mask[at] for mask in self._masks(group))

    def mask(self, group: TaskGroup) -> Bools:
        """Return for which hosts `include` holds, (hosts,)."""
        every: Bools = np.ones(len(self._index), dtype=np.bool_)
        for mask in self._masks(group):
            every &= mask
        return every

    def text(self, group: TaskGroup) -> str:
        """Return the names that a host has to have, or the sets that it has to be in."""
        parts = [] if group.hosts is None else [f"one of {', '.join(group.hosts)}"]
        parts += [f"one of host set {name}" for name in group.host_sets]
        return ", and ".join(parts)

    @staticmethod
    def key(group: TaskGroup) -> Hashable:
        """Return what is equal for groups that name the same hosts in the same way."""
        return group.hosts, group.host_sets

    def _masks(self, group: TaskGroup) -> list[Bools]:
        masks = []
        if group.hosts is not None:
            if group.hosts not in self._of_list:
                self._of_list[group.hosts] = self._marked(group.hosts)
            masks.append(self._of_list[group.hosts])
        for name in group.host_sets:
            if name not in self._of_set:
                self._of_set[name] = self._marked(self._sets[name])
            masks.append(self._of_set[name])
        return masks

    def _marked(self, names: tuple[str, ...]) -> Bools:
        marked = np.zeros(len(self._index), dtype=np.bool_)
        marked[[self._index[host] for host in expand_all(names)]] = True
        return marked
