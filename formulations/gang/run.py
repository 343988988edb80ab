"""The gang formulation: a greedy plan, then exact models of small rounds, aggregate ones of large.

`models/host/`, `models/aggregate/model.py` and `models/aggregate/host_columns.py` say what each
model is exact for. The first term is bounded over a relaxation. Every later one is bounded with the
earlier terms held at the verified values of the best plan (docs/bounds.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import TypeAlias

from placewright.formulations.common.phases import Phase, run_phases
from placewright.formulations.gang import parameters
from placewright.formulations.gang.bounds.freed import freed_bounds
from placewright.formulations.gang.bounds.trivial import trivial_bounds
from placewright.formulations.gang.heuristics.count_search import search_counts
from placewright.formulations.gang.heuristics.disaggregate import disaggregate
from placewright.formulations.gang.heuristics.fragmentation_search import search_fragmentation
from placewright.formulations.gang.heuristics.migration import (
    DISPLACEMENT,
    decide_by_precedence,
    decides_by_precedence,
    evacuate_at_once,
    migrate,
)
from placewright.formulations.gang.heuristics.repack import repack_tasks
from placewright.formulations.gang.heuristics.search import Search, Steps
from placewright.formulations.gang.heuristics.stopping import close_enough
from placewright.formulations.gang.models.aggregate.column_generation import (
    MODELLED_TERMS,
    PricedModel,
    aggregate_models,
    bound_by_relaxation,
    collect_bounds,
)
from placewright.formulations.gang.models.aggregate.host_columns import HostPatterns
from placewright.formulations.gang.models.aggregate.powers_of_two import only_powers_of_two
from placewright.formulations.gang.models.aggregate.term_by_term import (
    later_bounds,
    search_term_by_term,
)
from placewright.formulations.gang.models.host.model import num_task_variables
from placewright.formulations.gang.models.host.solve import solve_exactly as run_exact
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.completion import complete
from placewright.formulations.gang.placement.disruption_budget import repair_disruptions
from placewright.formulations.gang.placement.fair_share import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.upgrade import upgrade_options
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.task_mix import STRANDED
from placewright.formulations.gang.problem.terms import PROGRESS, VALUE
from placewright.formulations.gang.relieved_plan import with_relieved_links
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session

Applies: TypeAlias = Callable[[Search], bool]
FREED = "freed"


def run(
    problem: Problem, session: Session, without: Collection[str] = ()
) -> Iterator[Candidate | Bound]:
    """Run the phases of `PHASES`: the greedy plan and bounds without a solver, then better ones.

    Parameters
    ----------
    without
        Names of phases to leave out, also of those in `migration.py` and `count_search.py`.
    """

    def phases(problem: Problem, session: Session) -> Steps:
        yield from run_phases(PHASES, Search(session, problem, without=without))

    yield from with_relieved_links(problem, session, phases)


def _greedy(search: Search) -> Steps:
    search.greedy = Placement(search.problem)
    fill_by_policy(search.greedy)
    yield from search.report(search.greedy, "greedy")


def _bound_trivially(search: Search) -> Steps:
    yield from trivial_bounds(search.problem)


def _upgrade(search: Search) -> Steps:
    if search.greedy is not None:
        upgrade_options(search.greedy)
        yield from search.report(search.greedy, "upgrade")


def _search_fragmentation(search: Search) -> Steps:
    yield from search_fragmentation(search.problem, search.session)
    # Later phases serve a first term that is not proven within the gap, and terms in a model.
    others = set(search.problem.terms[1:])
    modelled = small(search.problem) or others & set(MODELLED_TERMS)
    search.finished = search.close_enough() and not modelled


def _search_small_counts(search: Search) -> Steps:
    model = _aggregate_model_of_small(search.problem, search.greedy) if search.greedy else None
    if model is not None:
        yield from _search_aggregate_model(search.problem, search.session, model)


def _solve_exactly(search: Search) -> Steps:
    yield from run_exact(search.problem, search.session)


def _bound_freed(search: Search) -> Steps:
    yield from freed_bounds(search.problem, search.session)


def _relax(search: Search) -> Steps:
    """Build the aggregate models, and bound the first term by the relaxation of the tightest.

    Heuristics start from the relaxation of `value`, the weighted sum of priority classes.
    """
    if search.greedy is None:
        return
    search.models = aggregate_models(search.problem, search.greedy)
    search.tightest = next(search.models)
    if search.first in MODELLED_TERMS:
        search.relaxation = search.first_relaxation = yield from bound_by_relaxation(
            search.session, *search.tightest, search.problem.terms[0]
        )
    if search.problem.terms[0] != search.first:
        _, search.relaxation = collect_bounds(
            bound_by_relaxation(search.session, *search.tightest, search.first)
        )


def _migrate(search: Search) -> Steps:
    if search.tightest is not None:
        yield from migrate(
            search.session,
            search.problem,
            search.tightest,
            search.relaxation,
            search.incumbent,
            search.without,
        )


def _repack(search: Search) -> Steps:
    """Repack one-task jobs for the first term, whatever the later ones are."""
    if search.tightest is None or search.greedy is None:
        return
    packed = repack_tasks(search.session, search.tightest, search.relaxation, search.greedy)
    if packed is not None:
        yield from search.report(packed, "repacking")
        search.repacked = True
        search.incumbent = packed
        search.greedy = max(search.greedy, packed, key=lambda p: p.value)


def _search_counts(search: Search) -> Steps:
    if search.tightest is not None and search.greedy is not None:
        yield from search_counts(
            search.session,
            search.problem,
            search.greedy,
            search.tightest,
            search.models,
            search.relaxation,
            search.first_relaxation,
            search.without,
        )


def _bound_later_terms(search: Search) -> Steps:
    if search.tightest is not None:
        yield from later_bounds(search.session, *search.tightest)


def _evacuates(search: Search) -> bool:
    problem = search.problem
    return bool(problem.running) and (search.first == FREED or bool(problem.vacate.any()))


def _counts_may_prove(search: Search) -> bool:
    """Whether the aggregate model of a small round may prove its first term."""
    problem = search.problem
    return small(problem) and search.first in (VALUE, PROGRESS) and not problem.running


def _small(search: Search) -> bool:
    return small(search.problem)


def _large(search: Search) -> bool:
    return not small(search.problem)


def _relaxed(search: Search) -> bool:
    return search.tightest is not None


def _migrates(search: Search) -> bool:
    return _relaxed(search) and bool(search.problem.running)


def _both(first: Applies, second: Applies) -> Applies:
    return lambda search: first(search) and second(search)


def _repacks(search: Search) -> bool:
    problem = search.problem
    return (
        _relaxed(search)
        and not problem.running
        and not problem.pools  # host by host it would fill domains beyond them
        and search.first == VALUE
        and not only_powers_of_two(problem)
    )


def _counts_may_gain(search: Search) -> bool:
    """Whether a search of counts may improve the plan of a round in which no job runs.

    Not if the only term is proven within the gap, nor if the repacked plan is within the gap and
    `progress` is no term.
    """
    if search.problem.running or not _relaxed(search):
        return False
    if len(search.problem.weighted_terms) == 1 and search.close_enough():
        return False
    packed = search.incumbent if search.repacked else None
    if packed is None or PROGRESS in search.problem.terms:
        return True
    return not close_enough(search.problem, search.session, packed)


def small(problem: Problem) -> bool:
    """Whether the host-indexed model of the whole round is small enough to solve."""
    limit = parameters.PARAMETERS.run.max_exact_variables
    return len(problem.running) <= limit and num_task_variables(problem, limit) <= limit


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


def _search_aggregate_model(
    problem: Problem, session: Session, model: PricedModel
) -> Iterator[Candidate | Bound]:
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


PHASES = (
    Phase("greedy", _greedy),
    Phase("trivial bounds", _bound_trivially),
    Phase("upgrade", _upgrade, lambda s: PROGRESS in s.problem.terms),
    Phase("evacuation", evacuate_at_once, _evacuates),
    Phase(
        "fragmentation search",
        _search_fragmentation,
        lambda s: STRANDED in s.problem.terms,
        needs_time=True,
    ),
    # Small rounds.
    Phase("counts of a small round", _search_small_counts, _counts_may_prove, needs_time=True),
    Phase("host-indexed model", _solve_exactly, _small, needs_time=True),
    # Large rounds.
    *(replace(phase, applies=_both(_large, phase.applies)) for phase in DISPLACEMENT),
    Phase(
        "bound of freed", _bound_freed, lambda s: _large(s) and s.first == FREED, needs_time=True
    ),
    Phase("relaxation", _relax, _large, needs_time=True),
    Phase(
        "precedence",
        decide_by_precedence,
        lambda s: _migrates(s) and decides_by_precedence(s),
        needs_time=True,
        needs_gap=True,
    ),
    Phase("migration", _migrate, _migrates),
    Phase("repacking", _repack, _repacks, needs_time=True, needs_gap=True),
    Phase("counts", _search_counts, _counts_may_gain),
    Phase("bounds of later terms", _bound_later_terms, _relaxed),
)
"""The portfolio. Shares of the time of single solves stand in `parameters.py`."""
