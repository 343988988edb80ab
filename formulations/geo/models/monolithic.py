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

from placewright.formulations.geo.models.lexicographic_weights import (
    LexicographicWeights,
    choose_weights,
)
from placewright.formulations.geo.models.region_options import (
    RegionOption,
    RegionOptions,
    quota_resource,
)
from placewright.formulations.geo.problem.compile import Problem
from placewright.formulations.session import Bound, Candidate, Session, proven_whole
from placewright.instances.documents.base import WHOLE_GPU
from placewright.instances.documents.geo import Geo
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round

PLACEMENT_TERMS = ("disruption", "spread", "proximity", "opened")
"""Terms that rounds of gangs have from the policy."""


@dataclass(frozen=True, slots=True, eq=False)
class MonolithicRound:
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
    weights: LexicographicWeights

    def lift(self, found: Candidate) -> Candidate:
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

    def lift_bound(self, found: Bound, best: Mapping[str, int] | None) -> Iterator[Bound]:
        """Tell a bound for the gangs as bounds for the whole round, at the best plan's values."""
        if found.term == "value":
            score = floor(found.value) if found.certified else proven_whole(found.value, "max")
            for bound in self.weights.bounds(score, best):
                yield Bound(bound.term, bound.value, bound.holds, found.certified)
            return
        if self.weights.num_bounded < len(self.weights.terms):
            return
        holds: list[tuple[str, int]] = []
        for term, value in found.holds:
            holds += self.weights.terms_of(value) if term == "value" else [(term, value)]
        yield Bound(found.term, found.value, tuple(holds), found.certified)


def monolithic_round(problem: Problem) -> MonolithicRound:
    """Return the gangs of a whole round; jobs that can run nowhere now are left out."""
    builder = _Builder(problem)
    for j, job in enumerate(problem.round.jobs):
        builder.add(j, job)
    return builder.monolithic_round()


def monolithic_round_in_time(problem: Problem, session: Session) -> MonolithicRound | None:
    """Return the gangs of a whole round, None if it could not be decided in the time left.

    To decide one takes longer than to list the ways of its jobs, which may be many millions.
    """
    began, builder = time.monotonic(), _Builder(problem)
    for j, job in enumerate(problem.round.jobs):
        if session.expired(time.monotonic() - began):
            return None
        builder.add(j, job)
    return builder.monolithic_round()


class _Builder:
    def __init__(self, problem: Problem) -> None:
        self.problem, self.round, self.region_options = (
            problem,
            problem.round,
            RegionOptions(problem),
        )
        self._options_of_job: dict[int, list[RegionOption]] = {}

    def add(self, j: int, job: Job) -> None:
        """List the ways of a job."""
        self._options_of_job[j] = list(self.region_options.of(j, job))

    def monolithic_round(self) -> MonolithicRound:
        """Return the gangs of the jobs that were added."""
        region_options = self._options_of_job
        weights = choose_weights(self.region_options, region_options, self.region_options.terms)
        if any(
            weights.score(option.value, option.costs) < 0
            for mine in region_options.values()
            for option in mine
        ):
            # Rounds of gangs have no options that are worth less than nothing.
            weights = choose_weights(
                self.region_options, region_options, self.region_options.terms[:1]
            )
        gangs: dict[int, Job] = {}
        numbers: list[tuple[int, ...]] = []
        for j, mine in region_options.items():
            job = self.round.jobs[j]
            if not mine:
                continue
            options = tuple(
                option.option.model_copy(
                    update={"value": weights.score(option.value, option.costs)}
                )
                for option in mine
            )
            update: dict[str, Any] = {"options": options, "reads": (), "regions": None}
            if job.running:
                update["running"] = job.running.model_copy(update={"option": 0})
            gangs[j] = job.model_copy(update=update)
            numbers.append(tuple(option.number for option in mine))
        terms = ("value", *(t for t in self.round.policy.terms if t in PLACEMENT_TERMS))
        policy = self.round.policy.model_copy(update={"formulation": "gang", "terms": terms})
        fields = {"jobs": tuple(gangs.values()), "policy": policy, "geo": Geo()}
        inner = self.round.model_copy(update=fields | self._regional_quotas())
        return MonolithicRound(inner, tuple(gangs), tuple(numbers), weights)

    def _regional_quotas(self) -> dict[str, Any]:
        """Return tenants whose quotas in regions are of resources, and hosts that have these."""
        quota = self.problem.quota
        if not quota:
            return {}
        tenants = tuple(
            tenant.model_copy(
                update={
                    "quota": tenant.quota
                    | {
                        quota_resource(r): most
                        for (r, name), most in quota.items()
                        if name == tenant.name
                    }
                }
            )
            for tenant in self.round.tenants
        )
        # As much as the GPUs of a host: only quotas limit it.
        most = WHOLE_GPU * int(self.problem.cluster.gpu_count.max(initial=0))
        supply = {quota_resource(r): most for r in self.region_options.regions_with_quotas}
        hosts = tuple(
            entry.model_copy(update={"resources": entry.resources | supply})
            for entry in self.round.cluster.hosts
        )
        return {
            "tenants": tenants,
            "cluster": self.round.cluster.model_copy(update={"hosts": hosts}),
        }
