"""Plans from the count models, for jobs that start around what runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from placewright.formulations.gang.heuristics.disaggregate import disaggregate
from placewright.formulations.gang.heuristics.lns import large_neighbourhood_search
from placewright.formulations.gang.heuristics.lp_rounding import round_relaxation
from placewright.formulations.gang.models.aggregate.column_generation import (
    PricedModel,
    search_term_by_term,
)
from placewright.formulations.gang.models.aggregate.host_columns import HostPatterns
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import repair_preemptions
from placewright.formulations.gang.placement.upgrade import upgrade_options
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.solver import Outcome


def search_counts(
    session: Session,
    problem: Problem,
    greedy: Placement,
    tightest: PricedModel,
    models: Iterator[PricedModel],
    relaxed: Outcome | None = None,
) -> Iterator[Candidate | Bound]:
    """Try the models in turn until a plan is close enough to the tightest bound; then repair.

    `relaxed` is what the relaxation of the tightest one found for the first term.
    """
    first, best = problem.terms[0], greedy
    placement = round_relaxation(session, tightest, relaxed)
    if placement is not None:
        upgrade_options(placement)
        repair_preemptions(placement)
        yield assign(placement, "rounding")
        best = max(best, placement, key=lambda p: p.value)
    for model in chain([tightest], models):
        # What a relaxation says of the columns is said of the patterns that it had.
        known = relaxed if model is tightest and model.patterns is None else None
        values = yield from search_term_by_term(session, *model, known)
        if values is not None:
            placement = disaggregate(*model, values, session)
            upgrade_options(placement)
            repair_preemptions(placement)
            yield assign(placement, "counts")
            best = max(best, placement, key=lambda p: p.value)
            if isinstance(tightest.patterns, HostPatterns):
                tightest.patterns.add_patterns_of(placement)
        best_values = session.best or {}
        if first in best_values and session.close_enough(best_values[first]):
            break
    else:
        yield from large_neighbourhood_search(problem, session, best)
