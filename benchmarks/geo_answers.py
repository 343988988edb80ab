"""What methods answer to a round with regions: the terms of verified plans, and what they cost.

A row's value is of the first term. Whoever is better than ours without a bound, term by term, makes
an error of it, and so does whoever beats a bound of ours that holds for its plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import inf

from benchmarks import region_plans, region_rules, replica_plans, replica_rules
from benchmarks.baselines import Answer, of_certificate
from benchmarks.compare import Runs, compared
from benchmarks.geo_figures import LATER, TITLES, at_least, cpu_seconds, figures_of, proven_of
from benchmarks.report import ERROR, OURS, Row
from placewright import Plan, Round, solve_round
from placewright.formulations.gang.problem.limits import SENSE

__all__ = ["answers", "placed", "placewright", "ruled"]

DECIDED = "own CPU s"


def placewright(seconds: float, round_: Round) -> Answer:
    """Decide as `placewright solve` does; the plan is verified once more."""
    began = cpu_seconds()
    plan = solve_round(round_, time_limit=seconds)
    decided = cpu_seconds() - began
    _, figures = figures_of(round_, plan)
    assert plan.certificate is not None
    figures.update(proven_of(plan.certificate))
    return replace(of_certificate(plan.certificate), figures={**figures, DECIDED: decided})


def ruled(rule: region_rules.Rule, round_: Round) -> Answer:
    """Decide where jobs run with a rule."""
    return _unproven(round_, lambda: region_plans.plan_of(rule, round_))


def placed(planner: replica_rules.Planner, round_: Round) -> Answer:
    """Decide where data lives with a rule."""
    return _unproven(round_, lambda: replica_plans.plan_of(planner, round_))


def answers(
    case: str, seed: int | None, methods: Mapping[str, Callable[[], Runs]]
) -> Iterator[Row]:
    """Yield the rows of `compared`, and an error for each method that is better than it can be.

    No rule may be better than ours in the first of the terms in which they differ, nor beat a bound
    of a later term with a plan that is as good as ours in the terms before it.
    """
    rows = list(compared(case, seed, methods))
    yield from rows
    ours = next((row for row in rows if row.method == OURS and row.status != ERROR), None)
    if ours is None:
        return
    for row in rows:
        if row.method == OURS or row.status == ERROR:
            continue
        if _standing(row) < _standing(ours):
            note = f"{row.method} is better by its rule alone"
            yield Row(case, OURS, seed, ERROR, note=note)
        for term in _beaten(ours, row):
            note = f"{row.method} beats the bound of {term}"
            yield Row(case, OURS, seed, ERROR, note=note)


def _standing(row: Row) -> list[float]:
    """Return what is compared, the less the better."""
    if row.term is None or row.value is None:
        return [inf]
    later = (row.figures[TITLES[term]] for term in LATER if TITLES[term] in row.figures)
    return [-row.value if SENSE[row.term] == "max" else row.value, *later]


def _beaten(ours: Row, row: Row) -> Iterator[str]:
    """Yield the later terms whose bound a plan beats as good in those before."""
    mine, theirs = _standing(ours), _standing(row)
    for number, term in enumerate(LATER, 1):
        bound = ours.figures.get(at_least(term))
        if bound is None or number >= len(theirs):
            continue
        as_good = all(a <= b for a, b in zip(theirs[:number], mine[:number], strict=True))
        if as_good and theirs[number] < bound:
            yield term


def _unproven(round_: Round, decide: Callable[[], Plan]) -> Answer:
    began = cpu_seconds()
    plan = decide()
    decided = cpu_seconds() - began
    value, figures = figures_of(round_, plan)
    first = round_.policy.terms[0]
    return Answer("feasible", first, value, figures={**figures, DECIDED: decided})
