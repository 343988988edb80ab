"""Search of the aggregate models: plans for jobs that start around the running ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from placewright.formulations.common.phases import Phase, run_phases
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.disaggregate import disaggregate
from placewright.formulations.gang.heuristics.lns import large_neighbourhood_search
from placewright.formulations.gang.heuristics.lp_rounding import round_relaxation
from placewright.formulations.gang.heuristics.search import Search, Steps
from placewright.formulations.gang.models.aggregate.column_generation import (
    PricedModel,
    aggregate_models,
    bound_by_relaxation,
)
from placewright.formulations.gang.models.aggregate.host_columns import HostPatterns
from placewright.formulations.gang.models.aggregate.powers_of_two import only_powers_of_two
from placewright.formulations.gang.models.aggregate.term_by_term import (
    later_bounds,
    search_term_by_term,
)
from placewright.formulations.gang.models.host.model import num_task_variables
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.completion import complete
from placewright.formulations.gang.placement.disruption_budget import repair_disruptions
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.upgrade import upgrade_options
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import VALUE
from placewright.formulations.session import Session
from placewright.solver import Outcome


def search_counts(
    session: Session,
    problem: Problem,
    greedy: Placement,
    tightest: PricedModel,
    models: Iterator[PricedModel],
    relaxation: Outcome | None = None,
    first_relaxation: Outcome | None = None,
) -> Steps:
    """Run the phases of `COUNT_SEARCH`, starting from a greedy placement.

    Parameters
    ----------
    tightest, models
        The aggregate model to try first, and the others.
    relaxation, first_relaxation
        The linear relaxation of the first one, solved for `value` and for the first term.
    """
    search = Search(session, problem)
    search.greedy = search.incumbent = greedy
    search.tightest, search.models = tightest, models
    search.relaxation, search.first_relaxation = relaxation, first_relaxation
    yield from run_phases(COUNT_SEARCH, search)


def _round(search: Search) -> Steps:
    if search.tightest is None:
        return
    placement = round_relaxation(search.session, search.tightest, search.relaxation)
    if placement is not None:
        yield from _take(search, placement, "rounding")


def _search_models(search: Search) -> Steps:
    """Search the models in turn until a plan is close enough to the tightest bound."""
    tightest = search.tightest
    if tightest is None:
        return
    for model in chain([tightest], search.models):
        # The optimum of a relaxation covers only the patterns that the model had then.
        same = model is tightest and model.patterns is None
        known = search.first_relaxation if same else None
        values = yield from search_term_by_term(search.session, *model, known)
        if values is not None:
            placement = disaggregate(*model, values, search.session)
            yield from _take(search, placement, "counts")
            if isinstance(tightest.patterns, HostPatterns):
                tightest.patterns.add_patterns_of(placement)
        if search.close_enough():
            break


def _take(search: Search, placement: Placement, source: str) -> Steps:
    """Yield a placement with its options upgraded; it becomes the incumbent if worth more."""
    upgrade_options(placement)
    yield from search.report(placement, source)
    if search.incumbent is None or placement.value > search.incumbent.value:
        search.incumbent = placement


def _improve(search: Search) -> Steps:
    if (placement := search.best_placement()) is not None:
        yield from large_neighbourhood_search(search.problem, search.session, placement)


def search_small_counts(search: Search) -> Steps:
    """Search the counts of a small round where the host-indexed model does not do as well."""
    model = _aggregate_model_of_small(search.problem, search.greedy) if search.greedy else None
    if model is not None:
        yield from _search_aggregate_model(search.problem, search.session, model)


def _aggregate_model_of_small(problem: Problem, greedy: Placement) -> PricedModel | None:
    """Return the aggregate model of a small round; None if the host-indexed one does as well.

    Where all sizes are powers of two, its sums are exact, but for the tree. With host patterns, it
    has no symmetry of equal hosts; in the host-indexed model that costs branch and bound many
    nodes.
    """
    powers_of_two = only_powers_of_two(problem)
    if (
        not powers_of_two
        and num_task_variables(problem) < parameters.PARAMETERS.run.min_pattern_variables
    ):
        return None
    model = next(aggregate_models(problem, greedy))
    return model if powers_of_two or isinstance(model.patterns, HostPatterns) else None


def _search_aggregate_model(problem: Problem, session: Session, model: PricedModel) -> Steps:
    """Search the counts of a small round: sums to the end, host patterns for part of the time."""
    relaxed = yield from bound_by_relaxation(session, *model, problem.terms[0])
    if model.patterns is None:
        values = yield from search_term_by_term(session, *model, relaxed, gap=0.0)
    else:
        share = parameters.PARAMETERS.run.pattern_search_share
        values = yield from search_term_by_term(session, *model, gap=0.0, share=share)
    if values is not None:
        placement = disaggregate(*model, values, session)
        upgrade_options(placement)
        done = problem.terms == (VALUE,) and session.settled(placement.value)
        repair_disruptions(placement)
        complete(placement)
        yield assign(placement, "counts", final=done)
    if not session.proven:
        yield from later_bounds(session, *model)


COUNT_SEARCH = (
    Phase("LP rounding", _round),
    Phase("relaxation of classes", Search.relax_classes, Search.has_classes, needs_time=True),
    Phase("count search", _search_models),
    Phase("bounds of classes", Search.bound_classes, Search.has_classes, needs_time=True),
    Phase("LNS of counts", _improve, needs_gap=True),
)
"""Phases over the aggregate models; disaggregation needs no time that a solver would."""
