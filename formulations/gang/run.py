"""The gang formulation: greedy at once, then exact on small rounds, counts on large ones.

`exact/`, `models/aggregate/model.py` and `models/aggregate/host_columns.py` say what each model is
exact for. Bounds are those of docs/bounds.md: the first term over a relaxation, every later term
with the earlier ones held no worse than the best plan's verified values.
"""

from __future__ import annotations

from collections.abc import Iterator

from placewright.formulations.gang.bounds.fragmentation import stranded_lower_bound
from placewright.formulations.gang.heuristics.count_search import search_counts
from placewright.formulations.gang.heuristics.disaggregate import disaggregate
from placewright.formulations.gang.heuristics.empty_domains import freed_bounds
from placewright.formulations.gang.heuristics.evacuate import evacuation_cost
from placewright.formulations.gang.heuristics.fragmentation_search import search_fragmentation
from placewright.formulations.gang.heuristics.migration import (
    displacing_at_once,
    moving,
    moving_at_once,
)
from placewright.formulations.gang.heuristics.repack import repack_tasks
from placewright.formulations.gang.models.aggregate.column_generation import (
    MODELLED_TERMS,
    PricedModel,
    aggregate_models,
    bound_by_relaxation,
    later_bounds,
    search_term_by_term,
)
from placewright.formulations.gang.models.aggregate.host_columns import HostPatterns
from placewright.formulations.gang.models.aggregate.powers_of_two import only_powers_of_two
from placewright.formulations.gang.models.host.model import num_task_variables
from placewright.formulations.gang.models.host.solve import solve_exactly as run_exact
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.fair_share import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import repair_preemptions
from placewright.formulations.gang.placement.upgrade import upgrade_options
from placewright.formulations.gang.problem.dominant_shares import SHARE_TERMS, sum_of_smallest
from placewright.formulations.gang.problem.freeable_domains import FreeableDomains
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.task_mix import STRANDED
from placewright.formulations.gang.problem.terms import ENTITLED, PROGRESS, VALUE
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session

MAX_EXACT_CELLS = 6_000
"""Most task variables of a host-indexed model that is still solved whole."""

MIN_PATTERN_CELLS = 100
"""Least task variables of such a model for which host patterns are tried before."""

PATTERN_SHARE = 0.1
"""Part of the time left for a search over host patterns whose round the exact model can solve."""


def run(problem: Problem, session: Session) -> Iterator[Candidate | Bound]:
    """Yield the greedy plan and the bounds that need no solver, then better ones of both."""
    placement = Placement(problem)
    fill_by_policy(placement)
    repair_preemptions(placement)
    yield assign(placement, "greedy")
    yield from trivial_bounds(problem)
    if PROGRESS in problem.terms:
        upgrade_options(placement)
        repair_preemptions(placement)
        yield assign(placement, "growth")
    if problem.running and not session.proven:
        yield from moving_at_once(problem)
    if session.proven or session.expired():
        return
    if STRANDED in problem.terms:
        yield from search_fragmentation(problem, session)
        if session.proven or _nothing_to_model(problem, session):
            return
    if not small(problem):
        yield from _run_counts(problem, session, placement)
        return
    if problem.terms[0] in (VALUE, PROGRESS) and not problem.running:
        model = _counted_first(problem, placement)
        if model is not None:
            yield from _run_counted(problem, session, model)
        if session.proven or session.expired():
            return
    yield from run_exact(problem, session)


def _nothing_to_model(problem: Problem, session: Session) -> bool:
    """Whether the first term is proven as far as asked, and no model knows any of the others."""
    first, *others = problem.terms
    proven = session.best is not None and session.close_enough(session.best[first])
    return proven and not small(problem) and not set(others) & set(MODELLED_TERMS)


def small(problem: Problem) -> bool:
    """Whether a host-indexed model of the whole round is small enough to solve."""
    return (
        len(problem.running) <= MAX_EXACT_CELLS and num_task_variables(problem) <= MAX_EXACT_CELLS
    )


def trivial_bounds(problem: Problem) -> Iterator[Bound]:
    """Bounds that need no solver.

    Every pending job with its best option, all free at no cost; no spread, no pair apart, no host
    opened, nothing moved but what the hosts to vacate hold; what arrives takes what is stranded for
    most kinds.
    """
    known = {"remaining": problem.pinned_remaining}
    pending = [c for c in problem.classes if not c.running]
    shares = [t.upper_bound for t in problem.shares_with_jobs(problem.num_jobs.tolist())]
    for term in problem.terms:
        if term == VALUE:
            known[term] = sum(len(c.jobs) * max(o.value for o in c.choices) for c in pending)
        if term == ENTITLED:
            known[term] = sum(
                len(c.jobs) * max(o.entitled_value for o in c.choices) for c in pending
            )
        if term == PROGRESS:
            known[term] = sum(len(c.jobs) * max(o.progress for o in c.choices) for c in pending)
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


def _counted_first(problem: Problem, greedy: Placement) -> PricedModel | None:
    """Return the count model of a small round that may prove it sooner than the exact one.

    The sums of a plain round are exact for it, but for the tree. Host patterns do not tell equal
    hosts apart, in whose many orders a branch and bound loses itself.
    """
    if not only_powers_of_two(problem) and num_task_variables(problem) < MIN_PATTERN_CELLS:
        return None
    model = next(aggregate_models(problem, greedy))
    exact = only_powers_of_two(problem) or isinstance(model.patterns, HostPatterns)
    return model if exact else None


def _run_counted(
    problem: Problem, session: Session, model: PricedModel
) -> Iterator[Candidate | Bound]:
    """Search a small round by counts: to the end by sums, by host patterns for a while."""
    relaxed = yield from bound_by_relaxation(session, *model, problem.terms[0])
    if model.patterns is None:
        values = yield from search_term_by_term(session, *model, relaxed, gap=0.0)
    else:
        values = yield from search_term_by_term(session, *model, gap=0.0, share=PATTERN_SHARE)
    if values is not None:
        placement = disaggregate(*model, values, session)
        upgrade_options(placement)
        done = problem.terms == (VALUE,) and session.settled(placement.value)
        repair_preemptions(placement)
        yield assign(placement, "counts", final=done)
    if not session.proven:
        yield from later_bounds(session, *model)


def _run_counts(
    problem: Problem, session: Session, greedy: Placement
) -> Iterator[Candidate | Bound]:
    """Bound the first term over the tightest model, look for plans, bound the later terms."""
    first = problem.terms[0]
    known = yield from displacing_at_once(session, problem)
    models = aggregate_models(problem, greedy)
    tightest = next(models)
    relaxed = None
    if first == "freed":
        yield from freed_bounds(problem, session)
    if first in MODELLED_TERMS:
        relaxed = yield from bound_by_relaxation(session, *tightest, first)
    if problem.running:
        yield from moving(session, problem, tightest, relaxed, known)
    else:
        crowded = first == VALUE and not only_powers_of_two(problem)
        packed = repack_tasks(session, tightest, relaxed, greedy) if crowded else None
        if packed is not None:
            repair_preemptions(packed)
            yield assign(packed, "making room")
            greedy = max(greedy, packed, key=lambda p: p.value)
        # A packing looks at the first term alone.
        alone = PROGRESS not in problem.terms
        if packed is None or not (alone and session.close_enough(packed.value)):
            yield from search_counts(session, problem, greedy, tightest, models, relaxed)
    yield from later_bounds(session, *tightest)
