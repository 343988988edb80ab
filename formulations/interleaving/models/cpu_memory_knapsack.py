"""Rounds in which no jobs can share GPUs: only CPU and memory, and places, are decided.

Each job is a gang with its options, and the value of an option is the speed that its cores and
memory give. That is a multiple-choice knapsack over all hosts' CPU and memory,

    max  sum_j sum_o value(j, o) y[j,o]
    s.t. sum_o y[j,o] <= 1                             for each job j
         sum_j sum_o demand(j, o, r) y[j,o] <= total   for each resource r

which the count models of the gang formulation hold, with one integer per job class and option,
and tighten by what one host holds together. So all that they prove is proven with places.

References
----------
Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI'22: the
knapsack is the first of the two programs of Synergy-OPT; the second one places its choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from placewright.formulations.common.priority_classes import class_terms
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.fair_share import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import repair_preemptions
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.quotas import limits_of
from placewright.formulations.gang.problem.terms import VALUE
from placewright.formulations.gang.run import run as run_gangs
from placewright.formulations.interleaving.models.as_gangs import GangRound, build_gang_round
from placewright.formulations.interleaving.problem.compile import Interleaving, compile_interleaving
from placewright.formulations.interleaving.problem.job_groups import job_groups_of, kept_values
from placewright.formulations.interleaving.problem.option_classes import with_one_option
from placewright.formulations.interleaving.problem.packing_problem import ALONE
from placewright.formulations.plan_messages import Bound, Candidate, Group
from placewright.formulations.session import Session
from placewright.instances.documents.round import Round

Number = TypeVar("Number", int, float)


def gangs_without_sharing(round_: Round) -> GangRound | None:
    """Return each job as a gang if no jobs can share GPUs, else None.

    Also None if there are quotas or caps, of which the gang formulation does not report the use.
    """
    problem = compile_interleaving(round_)
    sharing = any(len(mine) > 1 for mine in problem.colocated.values())
    if sharing or limits_of(round_):
        return None
    bucket = problem.packing.bucket[problem.packing.bucket != ALONE]
    if problem.packing.max_members > 1 and int(np.bincount(bucket).max(initial=0)) > 1:
        return None
    staying = job_groups_of(problem, ((j,) for j in sorted(problem.stays)))
    alone = job_groups_of(problem, ((j,) for j in problem.jobs))
    return build_gang_round(problem, alone, staying, by_class=bool(problem.priorities.classes))


def solve_without_sharing(gangs: GangRound, session: Session) -> Iterator[Candidate | Bound]:
    """Yield a plan of first options, then the gang formulation's plans and bounds."""
    proportional = _proportional_plan(gangs)
    if proportional is not None:
        yield proportional
    gang_problem = gangs.compile()
    terms = _Terms(gangs.problem, gang_problem.terms)
    inner = session.inner()
    for step in run_gangs(gang_problem, inner):
        if isinstance(step, Bound):
            yield terms.lift(step)
        elif (lifted := gangs.lift(step)) is not None:
            yield lifted
        inner.best_known.proven = session.proven
        if session.best is not None:
            inner.best_known.values = terms.of_gangs(session.best)
            inner.best_known.bounds = bounds = terms.of_gangs(session.best_known.bounds)
            inner.best_known.first_bound = bounds.get(gang_problem.terms[0])


def _proportional_plan(gangs: GangRound) -> Candidate | None:
    """Return the plan in which each job that starts has its first option, or None.

    None if there is no job of several options.
    """
    jobs = tuple(with_one_option(job, 0) for job in gangs.round.jobs)
    if jobs == gangs.round.jobs:
        return None
    placement = Placement(compile_round(gangs.round.model_copy(update={"jobs": jobs})))
    fill_by_policy(placement)
    repair_preemptions(placement)
    return gangs.lift(assign(placement, "shares"))


class _Terms:
    """Terms of the gang round as those of the round, which count what runs before it, too."""

    def __init__(self, problem: Interleaving, terms: Sequence[str]) -> None:
        priorities = problem.priorities
        values = class_terms(VALUE, len(priorities.classes)) or (VALUE,)
        running = [kept_values(problem, Group((j,), (0,), 0)) for j in problem.colocated]
        self._names = dict(zip(terms, terms, strict=True))
        self._names |= zip(values, priorities.terms, strict=True)
        self._constant = {term: sum(one[k] for one in running) for k, term in enumerate(values)}

    def lift(self, bound: Bound) -> Bound:
        """Return a bound of the gang round as one of the round."""
        holds = tuple((self._names[t], v + self._constant.get(t, 0)) for t, v in bound.holds)
        value = bound.value + self._constant.get(bound.term, 0)
        return Bound(self._names[bound.term], value, holds, bound.certified)

    def of_gangs(self, values: Mapping[str, Number]) -> dict[str, Number]:
        """Return values of the round, or bounds, as those of the gang round."""
        return {
            term: values[name] - self._constant.get(term, 0)
            for term, name in self._names.items()
            if name in values
        }
