"""Names of the domains that hold hosts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.round import Round
from placewright.topology import Cluster


class DomainNames:
    """Domain of each host, level by level; the arrays are made once somebody asks."""

    def __init__(self, round_: Round) -> None:
        self._round = round_
        self._known: dict[str, Mapping[str, str]] = {}

    def of(self, level: str) -> Mapping[str, str]:
        """Return the domain of a level of each host, by name."""
        if level not in self._known:
            cluster, depth = self._cluster, self._cluster.level_index(level)
            names = [cluster.names[depth][d] for d in cluster.domain[depth].tolist()]
            self._known[level] = dict(zip(cluster.hosts, names, strict=True))
        return self._known[level]

    @cached_property
    def _cluster(self) -> Cluster:
        return build_cluster(self._round.cluster)
