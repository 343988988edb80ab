"""Monolithic model: a small round as one gang round in which each option is copied per region.

Scores distinguish the regions (lexicographic_weights.py). They are the options' values; under
strict priority, which decides `value` class by class, their `progress`, a term that follows it.
Quotas of tenants in a region become quotas of a resource that only tasks in that region request.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

from placewright.formulations.bound_arithmetic import proven_whole
from placewright.formulations.common.inner_rounds import InnerRound
from placewright.formulations.common.priority_classes import PriorityClass, class_terms
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.problem import Problem as Gangs
from placewright.formulations.gang.problem.terms import PROGRESS, VALUE
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
from placewright.formulations.plan_messages import Bound
from placewright.formulations.session import Session
from placewright.instances.documents.geo import Geo
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.topology.units import WHOLE_GPU

PLACEMENT_TERMS = ("disruption", "spread", "proximity", "opened")
"""Terms of the policy that its gang rounds have, too."""


@dataclass(frozen=True, eq=False)
class MonolithicRound(InnerRound):
    """The gang round, and how its plans and bounds translate to the round of policy `geo`.

    Attributes
    ----------
    round : Round
        The gang round.
    weights : LexicographicWeights
        How scores are composed.
    classes : tuple of PriorityClass
        Those of the geo round.
    """

    round: Round
    weights: LexicographicWeights
    classes: tuple[PriorityClass, ...]

    @property
    def scored(self) -> str:
        """The term of the gang round that has the scores."""
        return PROGRESS if self.classes else VALUE

    def problem(self) -> Gangs:
        """Return the gang problem of the round, with the priority classes of the geo round."""
        return compile_round(self.round, classes=self.classes)

    def lift_bound(self, found: Bound, best: Mapping[str, int] | None) -> Iterator[Bound]:
        """Yield the bounds of the geo round that a bound of the gang round implies."""
        if found.term == self.scored:
            score = floor(found.value) if found.certified else proven_whole(found.value, "max")
            if self.classes:
                yield from self._cost_bounds(score, found, best)
                return
            for bound in self.weights.bounds(score, best):
                yield Bound(bound.term, bound.value, bound.holds, found.certified)
            return
        of_class = found.term in class_terms(VALUE, len(self.classes))
        if self.weights.num_bounded < len(self.weights.terms) and not of_class:
            return
        holds: list[tuple[str, int]] = []
        for term, value in found.holds:
            holds += self._terms_of(value) if term == self.scored else [(term, value)]
        yield Bound(found.term, found.value, tuple(holds), found.certified)

    def _terms_of(self, score: int) -> Sequence[tuple[str, int]]:
        """Return the terms of plans with this score; of priority classes the costs alone."""
        return self.weights.terms_of(score)[bool(self.classes) :]

    def _cost_bounds(
        self, score: int, found: Bound, best: Mapping[str, int] | None
    ) -> Iterator[Bound]:
        """Yield bounds of the costs over plans no worse than the best in all priority classes."""
        if best is None or any(best[term] < value for term, value in found.holds):
            return
        held = tuple((term, best[term]) for term in class_terms(VALUE, len(self.classes)))
        total = {**best, VALUE: sum(value for _, value in held)}
        for bound in self.weights.bounds(score, total):
            if bound.term != VALUE:
                yield Bound(bound.term, bound.value, held + bound.holds[1:], found.certified)


def monolithic_round(problem: Problem) -> MonolithicRound:
    """Return the monolithic model of a round; jobs without an eligible region are left out."""
    builder = _Builder(problem)
    for j, job in enumerate(problem.round.jobs):
        builder.add(j, job)
    return builder.monolithic_round()


def monolithic_round_in_time(problem: Problem, session: Session) -> MonolithicRound | None:
    """Return the monolithic model, or None once half of the time left has been used to build it.

    Solving it takes longer than listing region options, of which there may be millions.
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
        """Add the region options of a job."""
        self._options_of_job[j] = list(self.region_options.of(j, job))

    def monolithic_round(self) -> MonolithicRound:
        """Return the gang round of the jobs that were added."""
        region_options = self._options_of_job
        weights = choose_weights(self.region_options, region_options, self.region_options.terms)
        if any(
            weights.score(option.value, option.costs) < 0
            for mine in region_options.values()
            for option in mine
        ):
            # Options of a gang round may not have negative values.
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
                option.option.model_copy(update=self._amounts(option, weights)) for option in mine
            )
            update: dict[str, Any] = {"options": options, "reads": (), "regions": None}
            if job.running:
                update["running"] = job.running.model_copy(update={"option": 0})
            gangs[j] = job.model_copy(update=update)
            numbers.append(tuple(option.number for option in mine))
        scored = (PROGRESS,) if self.problem.priority_classes and len(weights.terms) > 1 else ()
        placement = (t for t in self.round.policy.terms if t in PLACEMENT_TERMS)
        terms = (VALUE, *scored, *placement)
        policy = self.round.policy.model_copy(update={"formulation": "gang", "terms": terms})
        fields = {"jobs": tuple(gangs.values()), "policy": policy, "geo": Geo()}
        inner = self.round.model_copy(update=fields | self._regional_quotas())
        return MonolithicRound(
            inner,
            weights,
            self.problem.priority_classes,
            jobs=tuple(gangs),
            options=tuple(numbers),
        )

    def _amounts(self, option: RegionOption, weights: LexicographicWeights) -> dict[str, int]:
        """Return what an option of the gang round adds to its terms."""
        score = weights.score(option.value, option.costs)
        if not self.problem.priority_classes:
            return {"value": score}
        return {"value": option.value, "progress": score}

    def _regional_quotas(self) -> dict[str, Any]:
        """Return tenants with quotas of regional resources, and hosts that supply these."""
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
