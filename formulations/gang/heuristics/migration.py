"""Rounds in which running jobs may move or stop: who gains by that, and where it costs least."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.heuristics.count_search import search_counts
from placewright.formulations.gang.heuristics.displace import displace_by_counts, displace_greedily
from placewright.formulations.gang.heuristics.empty_domains import empty
from placewright.formulations.gang.heuristics.evacuate import evacuate
from placewright.formulations.gang.heuristics.gang_insertion import insert_gangs
from placewright.formulations.gang.heuristics.lns import large_neighbourhood_search
from placewright.formulations.gang.heuristics.repack import repack_tasks
from placewright.formulations.gang.heuristics.repack_domains import repack_domains
from placewright.formulations.gang.heuristics.scalarise_entitled import scalarise_entitled
from placewright.formulations.gang.heuristics.scalarise_progress import scalarise_progress
from placewright.formulations.gang.models.aggregate.column_generation import (
    HostPatternModel,
    PricedModel,
    aggregate_models,
    bound_by_relaxation,
    collect_bounds,
)
from placewright.formulations.gang.models.aggregate.host_columns import HostPatterns
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.models.host.victims import select_victims
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.fair_share import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import repair_preemptions
from placewright.formulations.gang.placement.upgrade import upgrade_options
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.residual import residual
from placewright.formulations.gang.problem.terms import ENTITLED, VALUE
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.solver import Arrays, Outcome

LANDING_SECONDS = 6.0
TINY = 1e-9
BEST_PATTERNS = 600
"""Patterns of least loss at the relaxation's prices that the search for a landing may use."""

PAIRS = 400_000
"""Pairs of a host and a pending option among which jobs displace others in a tenth of a second."""

CLEARING_SHARE = 0.2
"""Part of the time for clearing before any model."""


def moving_at_once(problem: Problem) -> Iterator[Candidate]:
    """Yield a plan that vacates or frees hosts and needs no solver."""
    if problem.terms[0] != "freed" and not problem.vacate.any():
        return
    placement = Placement(problem)
    evacuate(placement)
    if problem.terms[0] == "freed":
        empty(placement)
    fill_by_policy(placement)
    repair_preemptions(placement)
    yield assign(placement, "moving")


def displacing_at_once(
    session: Session, problem: Problem
) -> Generator[Candidate, None, Placement | None]:
    """Yield plans of more value that need no solver, and return the last.

    A relaxation may take all of the time, and what lands by it may be worth less. None where
    nothing is to be gained, where the round is part of a decision that has a plan, or on rounds so
    large that this would take much of the time itself.
    """
    if problem.terms[0] != VALUE or not problem.running or session.has_plan:
        return None
    options = sum(len(c.choices) for c in problem.classes if not c.running)
    if options * problem.cluster.num_hosts > PAIRS * session.remaining():
        return None
    best = None if session.best is None else session.best[VALUE]
    if best is not None and session.close_enough(best):
        return None
    placement = _displaced(problem)
    upgrade_options(placement)
    if best is None or placement.value > best:
        repair_preemptions(placement)
        yield assign(placement, "displacing")
    told = placement.value
    part = replace(session)
    if not session.deterministic:
        part.deadline -= (1 - CLEARING_SHARE) * session.before_deadline()
    _clear(part, placement)
    session.wall_stopped |= part.wall_stopped
    if placement.value > told:
        repair_preemptions(placement)
        yield assign(placement, "clearing")
    return placement


def _displaced(problem: Problem) -> Placement:
    """Let waiting jobs displace running ones, and who was stopped without right come back."""
    placement = Placement(problem)
    displace_greedily(placement)
    repair_preemptions(placement)
    return placement


def _clear(session: Session, placement: Placement) -> None:
    """Clear hosts as long as that gains: who stopped for one job may start where another left."""
    before = -inf
    while placement.value > before:
        before = placement.value
        insert_gangs(session, placement)


def moving(
    session: Session,
    problem: Problem,
    tightest: PricedModel,
    relaxed: Outcome | None,
    known: Placement | None = None,
) -> Iterator[Candidate | Bound]:
    """Let the running jobs move or stop where that pays; else decide the others around them.

    A plan that is `known` already is what the search goes on from, unless it finds a better one.
    """
    first = problem.terms[0]
    landed = landed_by(session, tightest, relaxed) if first == VALUE else None
    if landed is None and session.expired():
        return
    if first == ENTITLED:
        yield from _as_value(session, scalarise_entitled(problem))
    if landed is not None and problem.quota:
        repair_preemptions(landed)
    if first == VALUE and known is None and (landed is None or problem.quota):
        # Where a quota is used up, who lands has to stop others of the same tenant.
        displaced = _displaced(problem)
        landed = max((p for p in (landed, displaced) if p), key=lambda p: p.value)
    # Of plans that are worth the same, later terms decide.
    packed, told = None, -inf if known is None else known.value
    if landed is None:
        landed = known
    else:
        upgrade_options(landed)
        if landed.value >= told:
            told = landed.value
            repair_preemptions(landed)
            yield assign(landed, "displacing")
    if landed is not None:
        packed = repack_tasks(session, tightest, relaxed, landed)
        if packed is not None and packed.value > landed.value:
            landed = packed
            if landed.value >= told:
                told = landed.value
                repair_preemptions(landed)
                yield assign(landed, "making room")
        before = landed.value
        _clear(session, landed)
        if landed.value > before and landed.value >= told:
            repair_preemptions(landed)
            yield assign(landed, "clearing")
    if known is not None and landed is not None and landed.value < known.value:
        landed = known
    yield from select_victims(problem, session)
    joint = scalarise_progress(problem)
    if joint is not None and not session.proven:
        yield from _as_value(session, joint)
    best = None if session.best is None else session.best[first]
    if first in (VALUE, ENTITLED) and best is not None and session.close_enough(best):
        return
    if landed is not None and (landed is packed or any(landed.stopped)):
        yield from large_neighbourhood_search(problem, session, landed)
        return
    placement = Placement(problem)
    evacuate(placement)
    if first == "freed":
        empty(placement)
    repair_preemptions(placement)
    moved = assign(placement, "vacating")
    yield moved
    packed = repack_domains(problem, session) if first == "freed" else None
    if packed is not None and session.best is not None:
        best = session.best[first]
        repair_preemptions(packed)
        other = assign(packed, "repacking")
        yield other
        moved = other if session.best[first] > best else moved
    frozen = residual(problem, moved.starts, moved.slots)
    if not frozen.terms:
        return
    placement = Placement(frozen)
    fill_by_policy(placement)
    models = aggregate_models(frozen, placement)
    for step in search_counts(session, frozen, placement, next(models), models):
        # With every running job where it is a bound says nothing of this round.
        if isinstance(step, Candidate):
            yield replace(
                step,
                starts={**moved.starts, **step.starts},
                slots={**moved.slots, **step.slots},
            )


def _as_value(session: Session, other: Problem) -> Iterator[Candidate]:
    """Yield the plans of a round that has other values and no other term.

    In it entitled jobs take back what others borrow (reclaiming.py), or jobs of more progress take
    the places of others (joining.py).
    """
    # What is best and bound in the round asked is neither in this one.
    inner = replace(session, best=None, first_bound=None)
    placement = Placement(other)
    fill_by_policy(placement)
    known = yield from displacing_at_once(inner, other)
    tightest = next(aggregate_models(other, placement))
    _, relaxed = collect_bounds(bound_by_relaxation(inner, *tightest, VALUE))
    for step in moving(inner, other, tightest, relaxed, known):
        # With other values a bound says nothing of this round.
        if isinstance(step, Candidate):
            yield step
    session.wall_stopped |= inner.wall_stopped


def landed_by(
    session: Session,
    model: PricedModel | HostPatternModel,
    relaxed: Outcome | None,
    seconds: float = LANDING_SECONDS,
) -> Placement | None:
    """Plan on hosts that are cleared of running jobs, and land that plan where they run."""
    counts, patterns = model
    if not isinstance(patterns, HostPatterns) or relaxed is None:
        return None
    arrays = counts.model.arrays(VALUE)
    poor = _unlikely(arrays, counts, patterns.pool.columns, relaxed)
    outcome = session.optimise(arrays.without_columns(poor), share=0.4, most=seconds)
    if outcome is None or outcome.values is None:
        return None
    return displace_by_counts(
        session, counts, patterns, outcome.values, _quota_prices(counts, relaxed)
    )


def _quota_prices(counts: AggregateModel, relaxed: Outcome) -> dict[tuple[int, int], float]:
    """Return what a unit more of each quota would be worth."""
    if relaxed.row_duals is None:
        return {}
    duals = relaxed.row_duals[counts.quota_row].clip(min=0.0).tolist()
    return {key: dual for key, dual in zip(counts.problem.quota, duals, strict=True) if dual}


def _unlikely(
    arrays: Arrays, counts: AggregateModel, patterns: NDArray[np.int64], relaxed: Outcome
) -> NDArray[np.bool_]:
    """Mark the columns that a search need not try: of all patterns it gets a few hundred.

    Those that the relaxation uses come first, then those that lose least at its prices.
    """
    poor = counts.inner_gang_columns
    if relaxed.values is None or relaxed.row_duals is None:
        return poor
    used = np.zeros(arrays.columns)
    used[: len(relaxed.values)] = relaxed.values
    worth = arrays.reduced_costs(relaxed.row_duals)
    order = np.lexsort((-worth[patterns], used[patterns] <= TINY))
    poor[patterns[order[BEST_PATTERNS:]]] = True
    return poor
