"""A situation: a round as it is or after a plan, with what all jobs that wait in it meet alike."""

from __future__ import annotations

from functools import cached_property

from placewright.explain.facts.holding import Holding, Holds, Takes
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.round import Round
from placewright.topology import Cluster


class Situation:
    """A round in which jobs wait, now or after a plan.

    Parameters
    ----------
    round_
        The round as it is, or as the plan leaves it.
    before
        The round before the plan; None without one.
    """

    def __init__(self, round_: Round, before: Round | None = None) -> None:
        self.round = round_
        self._before = before
        self._holding: dict[tuple[Holds, Takes], Holding] = {}

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster as arrays."""
        return build_cluster(self.round.cluster)

    def holding(self, holds: Holds, takes: Takes) -> Holding:
        """Return who holds what, as told by two functions; made once for the same two."""
        if (holds, takes) not in self._holding:
            held = Holding(self.round, self._before, self.cluster, holds, takes)
            self._holding[holds, takes] = held
        return self._holding[holds, takes]
