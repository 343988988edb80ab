"""A small round as one round of gangs, in which each option stands once for each region.

Worth tells regions apart (worth.py). Quotas of tenants in a region are those of a resource of their
own, which only tasks there ask for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import floor
from typing import Any

from placewright.formulations.geo.models.lexicographic_weights import Scale, scale_of
from placewright.formulations.geo.models.region_options import Way, Ways, resource_of
from placewright.formulations.geo.problem.compile import Problem
from placewright.formulations.session import Bound, Candidate, Session, proven_whole
from placewright.instances.documents.base import WHOLE_GPU
from placewright.instances.documents.geo import Geo
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round

PLACES = ("disruption", "spread", "proximity", "opened")
"""Terms that rounds of gangs have from the policy."""


@dataclass(frozen=True, slots=True, eq=False)
class United:
    """The round of gangs.

    Attributes
    ----------
    jobs : tuple of int
        Index in the whole round of each gang.
    options : tuple of tuple of int
        Option in the whole round of each option of each gang.
    """

    round: Round
    jobs: tuple[int, ...]
    options: tuple[tuple[int, ...], ...]
    scale: Scale

    def told(self, found: Candidate) -> Candidate:
        """Tell a plan for the gangs as one for the whole round, without its data."""
        return Candidate(
            {
                self.jobs[gang]: (self.options[gang][option], places)
                for gang, (option, places) in found.starts.items()
            },
            found.source,
            {self.jobs[g]: self.jobs[above] for g, above in found.preempted.items()},
            slots={self.jobs[gang]: slots for gang, slots in found.slots.items()},
        )

    def bounds(self, found: Bound, best: Mapping[str, int] | None) -> Iterator[Bound]:
        """Tell a bound for the gangs as bounds for the whole round, at the best plan's values."""
        if found.term == "value":
            worth = floor(found.value) if found.certified else proven_whole(found.value, "max")
            for bound in self.scale.bounds(worth, best):
                yield Bound(bound.term, bound.value, bound.holds, found.certified)
            return
        if self.scale.proves < len(self.scale.terms):
            return
        holds: list[tuple[str, int]] = []
        for term, value in found.holds:
            holds += self.scale.read(value) if term == "value" else [(term, value)]
        yield Bound(found.term, found.value, tuple(holds), found.certified)


def united(problem: Problem) -> United:
    """Return the gangs of a whole round; jobs that can run nowhere now are left out."""
    uniting = _Uniting(problem)
    for j, job in enumerate(problem.round.jobs):
        uniting.add(j, job)
    return uniting.united()


def united_in_time(problem: Problem, session: Session) -> United | None:
    """Return the gangs of a whole round, None if it could not be decided in the time left.

    To decide one takes longer than to list the ways of its jobs, which may be many millions.
    """
    began, uniting = time.monotonic(), _Uniting(problem)
    for j, job in enumerate(problem.round.jobs):
        if session.expired(time.monotonic() - began):
            return None
        uniting.add(j, job)
    return uniting.united()


class _Uniting:
    def __init__(self, problem: Problem) -> None:
        self.problem, self.round, self.ways = problem, problem.round, Ways(problem)
        self._every: dict[int, list[Way]] = {}

    def add(self, j: int, job: Job) -> None:
        """List the ways of a job."""
        self._every[j] = list(self.ways.of(j, job))

    def united(self) -> United:
        """Return the gangs of the jobs that were added."""
        ways = self._every
        scale = scale_of(self.ways, ways, self.ways.terms)
        if any(scale.worth(way.value, way.costs) < 0 for mine in ways.values() for way in mine):
            # Rounds of gangs have no options that are worth less than nothing.
            scale = scale_of(self.ways, ways, self.ways.terms[:1])
        gangs: dict[int, Job] = {}
        numbers: list[tuple[int, ...]] = []
        for j, mine in ways.items():
            job = self.round.jobs[j]
            if not mine:
                continue
            options = tuple(
                way.option.model_copy(update={"value": scale.worth(way.value, way.costs)})
                for way in mine
            )
            update: dict[str, Any] = {"options": options, "reads": (), "regions": None}
            if job.running:
                update["running"] = job.running.model_copy(update={"option": 0})
            gangs[j] = job.model_copy(update=update)
            numbers.append(tuple(way.number for way in mine))
        terms = ("value", *(t for t in self.round.policy.terms if t in PLACES))
        policy = self.round.policy.model_copy(update={"formulation": "gang", "terms": terms})
        made = {"jobs": tuple(gangs.values()), "policy": policy, "geo": Geo()}
        inner = self.round.model_copy(update=made | self._capped())
        return United(inner, tuple(gangs), tuple(numbers), scale)

    def _capped(self) -> dict[str, Any]:
        """Return tenants whose quotas in regions are of resources, and hosts that have these."""
        quota = self.problem.quota
        if not quota:
            return {}
        tenants = tuple(
            tenant.model_copy(
                update={
                    "quota": tenant.quota
                    | {
                        resource_of(r): most
                        for (r, name), most in quota.items()
                        if name == tenant.name
                    }
                }
            )
            for tenant in self.round.tenants
        )
        # As much as the GPUs of a host: only quotas limit it.
        most = WHOLE_GPU * int(self.problem.cluster.gpu_count.max(initial=0))
        plenty = {resource_of(r): most for r in self.ways.capped}
        hosts = tuple(
            entry.model_copy(update={"resources": entry.resources | plenty})
            for entry in self.round.cluster.hosts
        )
        return {
            "tenants": tenants,
            "cluster": self.round.cluster.model_copy(update={"hosts": hosts}),
        }
