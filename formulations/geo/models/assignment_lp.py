"""Assignment model: how many jobs of each class run in which region; exactly if small."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor, gcd, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.common.phases import InnerRound
from placewright.formulations.common.priority_classes import PriorityClass, class_terms
from placewright.formulations.common.wan.arrays import NONE
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.limits import PROGRESS, VALUE
from placewright.formulations.gang.problem.problem import Problem as Gangs
from placewright.formulations.geo import parameters
from placewright.formulations.geo.models.region_options import (
    RegionOption,
    RegionOptions,
    quota_resource,
)
from placewright.formulations.geo.problem.compile import Problem
from placewright.formulations.geo.problem.job_classes import JobClasses
from placewright.formulations.plan_messages import Bound, proven_whole
from placewright.formulations.session import Session
from placewright.instances.documents.geo import Geo
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.solver import Model
from placewright.topology.units import WHOLE_GPU

# Lexicographic weights: one score for value and costs, in which earlier terms decide.
#
# With X_k the largest possible total of term k and W_k = W_(k+1) (X_(k+1) + 1), the score of an
# option in a region is
#
#     score = W_0 value - W_1 remote_reads - W_2 egress_cost - ...
#
# The terms of a plan can be read off its total score. An upper bound of the score bounds each term:
# the first over all plans, and the k-th over plans that are as good in the terms before it,
#
#     term_k  >=  (W_0 value - W_1 term_1 - ... - score - the most that later terms can add) / W_k


@dataclass(frozen=True, slots=True)
class LexicographicWeights:
    """Weights of the terms.

    `terms` are `value` and the costs that are scored, `weights` the W, `max_total` the X of the
    costs; `unit` divides all values. `initial_costs` are the costs of running jobs before the
    round. Bounds are derived for the first `num_bounded` terms: not for `gpu_cost` if it depends on
    more than the option.
    """

    terms: tuple[str, ...]
    weights: tuple[int, ...]
    max_total: tuple[int, ...]
    unit: int
    initial_costs: tuple[int, ...]
    num_bounded: int

    def score(self, value: int, costs: Sequence[int]) -> int:
        """Return the score of a value with these costs."""
        lost = sum(w * c for w, c in zip(self.weights[1:], costs, strict=False))
        return self.weights[0] * (value // self.unit) - lost

    @property
    def _initial_cost(self) -> int:
        return sum(w * c for w, c in zip(self.weights[1:], self.initial_costs, strict=True))

    def terms_of(self, score: int) -> tuple[tuple[str, int], ...]:
        """Return the terms of plans with this total score, as (term, value) pairs."""
        rest = score - self._initial_cost
        value = -(-rest // self.weights[0])
        found, rest = [value * self.unit], value * self.weights[0] - rest
        for weight in self.weights[1:]:
            found.append(rest // weight)
            rest %= weight
        return tuple(zip(self.terms, found, strict=True))

    def bounds(self, score: int, best: Mapping[str, int] | None) -> Iterator[Bound]:
        """Yield the bounds of terms implied by one of the score, at the best plan's terms."""
        rest = score - self._initial_cost
        slack = [0]
        for weight, max_total in zip(self.weights[:0:-1], self.max_total[::-1], strict=True):
            slack.insert(0, slack[0] + weight * max_total)
        yield Bound("value", (rest + slack[0]) // self.weights[0] * self.unit)
        if best is None:
            return
        held = self.weights[0] * (best["value"] // self.unit)
        for k, term in enumerate(self.terms[1 : self.num_bounded], 1):
            least = -(-(held - rest - slack[k]) // self.weights[k])
            holds = tuple((t, best[t]) for t in self.terms[:k])
            yield Bound(term, max(0, least), holds)
            held -= self.weights[k] * best[term]


def choose_weights(
    region_options: RegionOptions,
    options_of_job: Mapping[int, Sequence[RegionOption]],
    terms: tuple[str, ...],
) -> LexicographicWeights:
    """Return weights of as many terms as a solver can distinguish numerically.

    `options_of_job` has the region options of each job, `terms` are `value` and the costs to score.
    """
    values = [option.value for mine in options_of_job.values() for option in mine]
    unit = gcd(*values) or 1
    count = len(terms) - 1
    max_total = [
        sum(max(option.costs[k] for option in mine) for mine in options_of_job.values() if mine)
        for k in range(count)
    ]
    max_value = sum(
        max(option.value for option in mine) // unit for mine in options_of_job.values() if mine
    )
    if max_value * prod(m + 1 for m in max_total) > parameters.PARAMETERS.max_score:
        # With costs too few jobs would be alike, and value comes first.
        max_total = []
    weights = [1]
    for x in reversed(max_total):
        weights.insert(0, weights[0] * (x + 1))
    initial_costs = [
        sum(
            mine[0].costs[k]
            for j, mine in options_of_job.items()
            if region_options.round.jobs[j].running
        )
        for k in range(len(max_total))
    ]
    counted = terms[: len(weights)]
    num_bounded = len(counted)
    if "gpu_cost" in counted and not region_options.costs_are_exact:
        num_bounded = counted.index("gpu_cost")  # nor what comes after it, which holds it
    return LexicographicWeights(
        counted, tuple(weights), tuple(max_total), unit, tuple(initial_costs), num_bounded
    )


# Assignment model: how many jobs of each cost class run in which region, with which option.
#
# A **cost class** holds jobs of one job class with similar read costs: in each region they cost
# the same quarter of the most that the job costs in any region. It has a variable for each
# assignment in a region where it costs less than its most, and one for all other regions
# together. The latter is distributed over assignments by variables that all cost classes with the
# same job class and eligible regions share (a **group**). So the model has one or two variables
# per cost class in place of one per region. The duals of its rows bound the round itself
# (bounds.py), whatever the aggregation loses.


WORD_BYTES = 8
"""Bytes of an int64."""


@dataclass(frozen=True, slots=True, eq=False)
class CostClasses:
    """Cost classes.

    `class_of_job` (jobs,) is the cost class of each job, NONE for pinned jobs. Of each class
    (classes,): `number` of jobs, `job_class` and `group`; (classes, regions): the mean `cost`,
    whether it is `cheap` there (below its most), and whether it is `eligible`.
    """

    class_of_job: Ints
    number: Ints
    job_class: Ints
    cost: Floats
    cheap: Bools
    eligible: Bools
    group: Ints


def build_cost_classes(classes: JobClasses, costs: Ints) -> CostClasses:
    """Return the cost classes of a round, for costs (jobs, regions)."""
    problem = classes.problem
    jobs = np.flatnonzero(classes.class_of_job != NONE)
    eligible = problem.eligible[jobs]
    pending = classes.current_region[classes.class_of_job[jobs]] == NONE
    mine = np.where(eligible & pending[:, None], costs[jobs], 0)
    most = mine.max(axis=1, initial=0)
    level = np.zeros(mine.shape, dtype=np.int8)
    some = most > 0
    level[some] = (
        parameters.PARAMETERS.num_cost_levels * mine[some] + most[some, None] - 1
    ) // most[some, None]
    level[~eligible] = -1
    first, inverse = _distinct(classes.class_of_job[jobs], level)
    number = np.bincount(inverse, minlength=len(first))
    order = np.argsort(inverse, kind="stable")
    total = np.add.reduceat(mine[order], np.cumsum(number) - number, axis=0)
    cost = total / np.maximum(1, number)[:, None]
    class_of_job = np.full(len(classes.class_of_job), NONE, dtype=np.int64)
    class_of_job[jobs] = inverse
    top = level[first].max(axis=1, initial=0)
    cheap = eligible[first] & ((level[first] < top[:, None]) | ~pending[first, None])
    job_class = classes.class_of_job[jobs[first]]
    group = _distinct(job_class, eligible[first].view(np.int8))[1]
    return CostClasses(class_of_job, number, job_class, cost, cheap, eligible[first], group)


def _distinct(job_class: Ints, level: NDArray[np.int8]) -> tuple[Ints, Ints]:
    """Return the distinct pairs of a number (rows,) and a row of bytes (rows, regions).

    The first array is the first row of each pair, the second the pair of each row.
    """
    words = np.zeros((len(level), -(-level.shape[1] // WORD_BYTES) * WORD_BYTES), dtype=np.int8)
    words[:, : level.shape[1]] = level
    # To sort by few words is much faster than to compare rows.
    columns = np.column_stack([job_class, words.view(np.int64)])
    order = np.lexsort(columns.T)
    new = np.ones(len(job_class), dtype=np.bool_)
    new[1:] = (columns[order[1:]] != columns[order[:-1]]).any(axis=1)
    inverse = np.empty(len(job_class), dtype=np.int64)
    inverse[order] = np.cumsum(new) - 1
    return order[new].astype(np.int64), inverse


@dataclass(frozen=True, slots=True, eq=False)
class AssignmentModel:
    """The assignment model and the meaning of its columns.

    `cheap` are the columns of assignments in cheap regions, of cost class `cheap_class` and with
    assignment `cheap_assignment`; `other` are those of all other regions, of cost class
    `other_class`; `shared` distribute these over assignments `shared_assignment` of the group
    `shared_group`. `rows` are the capacity rows. `value` and `cost` are the columns and
    coefficients of the two terms.
    """

    classes: JobClasses
    cost_classes: CostClasses
    model: Model
    cheap: Ints
    cheap_class: Ints
    cheap_assignment: Ints
    other: Ints
    other_class: Ints
    shared: Ints
    shared_group: Ints
    shared_assignment: Ints
    rows: Ints
    value: tuple[Ints, Floats]
    cost: tuple[Ints, Floats]

    def add_value_term(self, name: str, value: Ints) -> None:
        """Add a term, maximised, in which assignments have these values (assignments,)."""
        columns, _ = self.value
        each = np.concatenate([value[self.cheap_assignment], value[self.shared_assignment]])
        job_class = self.cost_classes.job_class
        lost = np.zeros(len(job_class))
        runs = self.classes.current_region[job_class][self.cheap_class] != NONE
        number = self.cost_classes.number[self.cheap_class]
        worth = (value[self.cheap_assignment] * number).astype(np.float64)
        np.maximum.at(lost, self.cheap_class[runs], worth[runs])
        self.model.term(
            name, columns, each.astype(np.float64), sense="max", constant=-float(lost.sum())
        )


def build_assignment_model(classes: JobClasses, cost_classes: CostClasses) -> AssignmentModel:
    """Return the assignment model, with terms `value` (maximised) and `cost` (minimised)."""
    model = Model()
    by_class = np.argsort(classes.assignment_class, kind="stable")
    start = np.searchsorted(
        classes.assignment_class[by_class], np.arange(len(classes.current_region) + 1)
    )

    def assignments(job_class: Ints) -> tuple[Ints, Ints]:
        """Return the assignments of some job classes, and the position of the class of each."""
        count = start[job_class + 1] - start[job_class]
        owner = np.repeat(np.arange(len(job_class)), count)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
        return by_class[start[job_class][owner] + within], owner

    assignment, cost_class = assignments(cost_classes.job_class)
    region = classes.assignment_region[assignment]
    kept = cost_classes.cheap[cost_class, region]
    assignment, cost_class, region = assignment[kept], cost_class[kept], region[kept]
    groups, member = np.unique(cost_classes.group, return_index=True)
    shared_assignment, group = assignments(cost_classes.job_class[member])
    kept = cost_classes.eligible[member[group], classes.assignment_region[shared_assignment]]
    shared_assignment, group = shared_assignment[kept], group[kept]
    pending = classes.current_region[cost_classes.job_class] == NONE
    open_ = pending[member[group]]
    shared_assignment, group = shared_assignment[open_], group[open_]
    other_class = np.flatnonzero(pending & np.isin(cost_classes.group, group))

    number = cost_classes.number[cost_class].astype(float)
    cheap = model.variables("near", len(assignment), upper=number)
    other = model.variables(
        "far", len(other_class), upper=cost_classes.number[other_class].astype(float), integer=False
    )
    most = np.zeros(len(groups))
    np.add.at(most, cost_classes.group[other_class], cost_classes.number[other_class])
    shared = model.variables("shared", len(shared_assignment), upper=most[group])
    rows = model.rows("row", len(classes.capacity), upper=classes.capacity.astype(float))
    by_assignment = np.argsort(classes.entry_assignment, kind="stable")
    entry = np.searchsorted(
        classes.entry_assignment[by_assignment], np.arange(classes.num_assignments + 1)
    )
    for columns, of_column in ((cheap, assignment), (shared, shared_assignment)):
        count = entry[of_column + 1] - entry[of_column]
        owner = np.repeat(np.arange(len(of_column)), count)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
        entry_of_column = by_assignment[entry[of_column][owner] + within]
        model.add(
            rows[classes.entry_row[entry_of_column]],
            columns[owner],
            classes.entry_usage[entry_of_column],
        )
    # Running jobs that cannot be preempted go on.
    must_continue = ~pending & ~classes.preemptible[cost_classes.job_class]
    every = cost_classes.number.astype(float)
    demand = model.rows(
        "cluster", len(every), lower=np.where(must_continue, every, -np.inf), upper=every
    )
    model.add(demand[cost_class], cheap, 1.0)
    model.add(demand[other_class], other, 1.0)
    balance = model.rows("balance", len(groups), lower=0.0, upper=0.0)
    model.add(balance[cost_classes.group[other_class]], other, 1.0)
    model.add(balance[group], shared, -1.0)
    value = (
        np.concatenate([cheap, shared]),
        np.concatenate([classes.value[assignment], classes.value[shared_assignment]]).astype(
            np.float64
        ),
    )
    top = np.where(cost_classes.eligible, cost_classes.cost, 0.0).max(axis=1, initial=0.0)
    each = np.concatenate([cost_classes.cost[cost_class, region], top[other_class]])
    cost = np.concatenate([cheap, other]), each
    model.term("cost", *cost, sense="min")
    found = AssignmentModel(
        classes=classes,
        cost_classes=cost_classes,
        model=model,
        cheap=cheap,
        cheap_class=cost_class,
        cheap_assignment=assignment,
        other=other,
        other_class=other_class,
        shared=shared,
        shared_group=group,
        shared_assignment=shared_assignment,
        rows=rows,
        value=value,
        cost=cost,
    )
    found.add_value_term("value", classes.value)
    return found


# Monolithic model: a small round as one gang round in which each option is copied per region.
#
# Scores distinguish the regions. They are the options' values; under
# strict priority, which decides `value` class by class, their `progress`, a term that follows it.
# Quotas of tenants in a region become quotas of a resource that only tasks in that region request.


PLACEMENT_TERMS = ("disruption", "spread", "proximity", "opened")
"""Terms of the policy that its gang rounds have, too."""


@dataclass(frozen=True, eq=False)
class MonolithicRound(InnerRound):
    """The gang round, and how its plans and bounds translate to the round of policy `geo`."""

    round: Round  # The gang round
    weights: LexicographicWeights  # How scores are composed
    classes: tuple[PriorityClass, ...]  # Those of the geo round

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
        self.problem = problem
        self.round = problem.round
        self.region_options = RegionOptions(problem)
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
        policy = self.round.policy.model_copy(
            update={"formulation": "gang", "terms": terms, "keep_sizes": True}
        )
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
