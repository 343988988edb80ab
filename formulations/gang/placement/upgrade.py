"""Option upgrades: started jobs change to options of more progress, by marginal gain per GPU.

A greedy for the multiple-choice knapsack. Where all options of a job have the same value, the first
plan gives as many jobs as possible their cheapest option; upgrades then use what is left free, the
change of largest gain per additional GPU first. The policy's order of `value`, `entitled` and
`progress` defines the gain. Running jobs keep their option.
"""

from __future__ import annotations

from collections import defaultdict
from heapq import heapify, heappop, heappush
from math import inf

from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.greedy import place_choice
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import ANY_JOB, Choice
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.quotas import QuotaKey
from placewright.formulations.gang.problem.terms import OPTION_SUMS

Change = tuple[tuple[float, ...], int, int, int]
"""(minus the gain per additional GPU, class, choice before, choice after): a heap entry."""


def upgrade_options(placement: Placement) -> None:
    """Change options of started jobs while that gains."""
    tuning = parameters.PARAMETERS.placement
    problem = placement.problem
    quota = placement.quota_left()
    starts: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for number, start in placement.started():
        if start.job == ANY_JOB:
            starts[start.job_class, start.choice].append(number)
    changes = [change for c, o in starts for change in _changes(problem, c, o)]
    heapify(changes)
    failed: set[tuple[int, int, int]] = set()
    for _ in range(tuning.max_option_changes):
        while changes and (changes[0][1:] in failed or not starts[changes[0][1:3]]):
            heappop(changes)
        if not changes:
            return
        _, c, o, better = changes[0]
        number, changed = _change(placement, quota, starts[c, o].pop(), better)
        if changed and not starts[c, better]:
            for change in _changes(problem, c, better):
                heappush(changes, change)
        if not changed:
            failed.add((c, o, better))
        starts[c, better if changed else o].append(number)


def _changes(problem: Problem, c: int, o: int) -> list[Change]:
    """Return all changes from one option that gain something."""
    choices = problem.classes[c].choices
    found: list[Change] = []
    for better, choice in enumerate(choices):
        gain = _gain(problem, choices[o], choice)
        if gain > (0,) * len(gain):
            more = problem.demand_of(choice, -1) - problem.demand_of(choices[o], -1)
            # What takes no more is free; of such changes the one that gains most comes first.
            per_gpu = (
                tuple(-g / more for g in gain) if more > 0 else (-inf, *(-float(g) for g in gain))
            )
            found.append((per_gpu, c, o, better))
    return found


def _gain(problem: Problem, before: Choice, after: Choice) -> tuple[int, ...]:
    """Return what a change adds to the terms that are sums over options, in the policy's order."""
    return tuple(
        after.amount(term) - before.amount(term) for term in problem.terms if term in OPTION_SUMS
    )


def _change(
    placement: Placement, quota: dict[QuotaKey, int], number: int, better: int
) -> tuple[int, bool]:
    """Start a job with another option if it fits; return its number, and whether it changed."""
    problem = placement.problem
    start = placement.get(number)
    if start is None:
        raise ValueError(f"start {number} was stopped; expected one that holds something")
    accounts = problem.classes[start.job_class].accounts
    choices = problem.classes[start.job_class].choices
    placement.stop(number)
    problem.charge_quota(quota, accounts, choices[start.choice], -1)
    if problem.within_quota(quota, accounts, choices[better]):
        puts = place_choice(placement, choices[better])
        if puts is not None:
            problem.charge_quota(quota, accounts, choices[better])
            return placement.start(start.job_class, better, puts), True
    problem.charge_quota(quota, accounts, choices[start.choice])
    return placement.restart(start), False
