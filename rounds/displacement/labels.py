"""Anti-affinity between jobs that arrive and victims that are back in place."""

from __future__ import annotations

from collections.abc import Iterable

from placewright.rounds.displacement.changes import Changes
from placewright.rounds.displacement.domains import DomainNames


class Labels:
    """Labels of jobs that keep out of each other's domains."""

    def __init__(self, changes: Changes, domains: DomainNames) -> None:
        self._changes, self._domains = changes, domains

    def has_one(self, job: int) -> bool:
        """Whether a job has a label."""
        return self._changes.round.jobs[job].anti_affinity is not None

    def meets(self, job: int, others: Iterable[int]) -> bool:
        """Whether a job arrives in a domain of its label that one of others is in, back home."""
        changes, jobs = self._changes, self._changes.round.jobs
        asked = jobs[job].anti_affinity
        if asked is None:
            return False
        domain = self._domains.of(asked.level)
        come = {domain[task.host] for task in changes.arrivals(job)}
        return any(
            other != job
            and jobs[other].anti_affinity == asked
            and not come.isdisjoint(domain[task.host] for task in changes.home(other))
            for other in others
        )
