"""Trivial bounds, without a solver.

Every pending job with its best option, all free at no cost; no spread, no pair apart, no host
opened, nothing moved but what the hosts to vacate hold; what arrives takes what is stranded for
most kinds.
"""

from __future__ import annotations

from collections.abc import Iterator

from placewright.formulations.gang.bounds.fragmentation import stranded_lower_bound
from placewright.formulations.gang.heuristics.evacuate import evacuation_cost
from placewright.formulations.gang.problem.dominant_shares import SHARE_TERMS, sum_of_smallest
from placewright.formulations.gang.problem.freeable_domains import FreeableDomains
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.task_mix import STRANDED
from placewright.formulations.gang.problem.terms import OPTION_SUMS
from placewright.formulations.plan_messages import Bound


def trivial_bounds(problem: Problem) -> Iterator[Bound]:
    """Yield a certified bound of each term."""
    known = {"remaining": problem.pinned_remaining}
    shares = [t.upper_bound for t in problem.shares_with_jobs(problem.num_jobs.tolist())]
    for term in problem.terms:
        if term in OPTION_SUMS:
            each = problem.options.amounts(term).tolist()
            start = problem.options.class_start.tolist()
            known[term] = sum(
                len(c.jobs) * max(each[start[k] : start[k + 1]])
                for k, c in enumerate(problem.classes)
                if not c.running
            )
        if term in SHARE_TERMS:
            known[term] = sum_of_smallest(term, shares)
        if term == "freed":
            freeing = FreeableDomains(problem)
            known[term] = int(freeing.worth_of_domain[freeing.freeable].sum())
        if term == STRANDED:
            known[term] = stranded_lower_bound(problem)
        yield Bound(term, known.get(term, 0), certified=True)
    earlier = problem.terms[
        : problem.terms.index("disruption") if "disruption" in problem.terms else 0
    ]
    if "remaining" in earlier:
        emptied = (("remaining", problem.pinned_remaining),)
        yield Bound("disruption", evacuation_cost(problem), emptied, certified=True)
