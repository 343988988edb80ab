"""The gang formulation: greedy at once, then exact on small rounds, counts on large ones.

`exact/`, `counts.py` and `hostpatterns.py` say what each model is exact for. Bounds are those of
docs/bounds.md: the first term over a relaxation, every later term with the earlier ones held no
worse than the best plan's verified values.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.classes import host_classes
from placewright.formulations.gang.counts import Counts, build
from placewright.formulations.gang.exact.model import size_of
from placewright.formulations.gang.exact.run import run as run_exact
from placewright.formulations.gang.expand import expand
from placewright.formulations.gang.freeing import Freeing
from placewright.formulations.gang.greedy import fill
from placewright.formulations.gang.hostpatterns import (
    Grid,
    HostPatterns,
    applies,
    pattern_classes,
)
from placewright.formulations.gang.landing import land
from placewright.formulations.gang.naming import candidate
from placewright.formulations.gang.patterns import Patterns
from placewright.formulations.gang.placement import Placement
from placewright.formulations.gang.problem import SENSE, Problem
from placewright.formulations.gang.repair import repair
from placewright.formulations.session import HOLD_SLACK, Bound, Candidate, Session, tighter
from placewright.solver import Arrays, Outcome, certified_bound, multipliers

SEARCH_SECONDS = 10.0
"""Most time of one branch and bound: what it gains later, packing and repair gain sooner."""

LANDING_SECONDS = 6.0
TINY = 1e-9
BEST_PATTERNS = 600
"""Patterns of least loss at the relaxation's prices that the search for a landing may use."""

VALUE = "value"
MODELLED = ("value", "disruption", "spread", "opened")
"""Terms that the count model has."""

MAX_EXACT_CELLS = 6_000
"""Most task variables of a host-indexed model that is still solved whole."""


def run(problem: Problem, session: Session) -> Iterator[Candidate | Bound]:
    """Yield the greedy plan and the bounds that need no solver, then better ones of both."""
    placement = Placement(problem)
    fill(placement)
    yield candidate(placement, "greedy")
    yield from trivial_bounds(problem)
    if session.proven or session.expired():
        return
    if len(problem.running) <= MAX_EXACT_CELLS and size_of(problem) <= MAX_EXACT_CELLS:
        yield from run_exact(problem, session)
    else:
        yield from _run_counts(problem, session, placement)


def trivial_bounds(problem: Problem) -> Iterator[Bound]:
    """Bounds that need no solver.

    Every pending job with its best option, all free at no cost; no spread, no pair apart, no host
    opened, nothing moved.
    """
    known = {"remaining": problem.pinned_remaining}
    for term in problem.terms:
        if term == "value":
            pending = [c for c in problem.classes if not c.running]
            known[term] = sum(len(c.jobs) * max(o.value for o in c.choices) for c in pending)
        if term == "freed":
            freeing = Freeing(problem)
            known[term] = int(freeing.worth[freeing.clearable].sum())
        yield Bound(term, known.get(term, 0), certified=True)


def _run_counts(
    problem: Problem, session: Session, greedy: Placement
) -> Iterator[Candidate | Bound]:
    """Bound the first term over the tightest model, look for plans, bound the later terms."""
    first = problem.terms[0]
    models = _models(problem, greedy)
    tightest = next(models)
    relaxed = None
    if first in MODELLED:
        relaxed = yield from relaxation(session, *tightest, first)
    if problem.running:
        yield from _moving(session, problem, tightest, relaxed)
    else:
        yield from _plans(session, problem, greedy, tightest, models)
    yield from _later_bounds(session, *tightest)


def _moving(
    session: Session, problem: Problem, tightest: CountModel, relaxed: Outcome | None
) -> Iterator[Candidate]:
    """Let the running jobs move or stop where that pays; else keep them all."""
    first = problem.terms[0]
    landed = _landed(session, tightest, relaxed) if first == VALUE else None
    if landed is not None:
        yield candidate(landed, "displacing")
    if session.best is not None and session.close_enough(session.best[first]):
        return
    if landed is not None and any(landed.stopped):
        yield from repair(problem, session, landed)
        return
    frozen = problem.frozen()
    placement = Placement(frozen)
    fill(placement)
    models = _models(frozen, placement)
    steps = _plans(session, frozen, placement, next(models), models)
    # With every running job in place a bound says nothing of this round.
    yield from (step for step in steps if isinstance(step, Candidate))


def _landed(session: Session, model: CountModel, relaxed: Outcome | None) -> Placement | None:
    """Plan on hosts that are cleared of running jobs, and land that plan where they run."""
    counts, patterns = model
    if not isinstance(patterns, HostPatterns) or relaxed is None:
        return None
    arrays = counts.model.arrays(VALUE)
    poor = _unlikely(arrays, counts, patterns.pool.columns, relaxed)
    outcome = session.optimise(arrays.without_columns(poor), share=0.4, most=LANDING_SECONDS)
    if outcome is None or outcome.values is None:
        return None
    return land(counts, patterns, outcome.values)


def _unlikely(
    arrays: Arrays, counts: Counts, patterns: NDArray[np.int64], relaxed: Outcome
) -> NDArray[np.bool_]:
    """Mark the columns that a search need not try: of all patterns it gets a few hundred.

    Those that the relaxation uses come first, then those that lose least at its prices.
    """
    poor = counts.inner
    if relaxed.values is None or relaxed.row_duals is None:
        return poor
    used = np.zeros(arrays.columns)
    used[: len(relaxed.values)] = relaxed.values
    worth = arrays.reduced_costs(relaxed.row_duals)
    order = np.lexsort((-worth[patterns], used[patterns] <= TINY))
    poor[patterns[order[BEST_PATTERNS:]]] = True
    return poor


def _plans(
    session: Session,
    problem: Problem,
    greedy: Placement,
    tightest: CountModel,
    models: Iterator[CountModel],
) -> Iterator[Candidate | Bound]:
    """Try the models in turn until a plan is close enough to the tightest bound; then repair."""
    first, best = problem.terms[0], greedy
    for model in chain([tightest], models):
        values = yield from _search(session, *model)
        if values is not None:
            placement = expand(*model, values, session)
            yield candidate(placement, "counts")
            best = max(best, placement, key=lambda p: p.value)
            if isinstance(tightest.patterns, HostPatterns):
                tightest.patterns.learn(placement)
        if session.best is not None and session.close_enough(session.best[first]):
            break
    else:
        yield from repair(problem, session, best)


class CountModel(NamedTuple):
    """A count model, and the patterns that it draws columns from."""

    counts: Counts
    patterns: Patterns | HostPatterns | None


def _models(problem: Problem, greedy: Placement) -> Iterator[CountModel]:
    """Yield the models to try, the one with the tightest relaxation first.

    Host patterns are exact for a host, but a search over those at hand may miss what it needs; a
    plan by sums shows it more of them.
    """
    empty = Placement(problem, cleared=True)
    room = np.stack([empty.fits(s) for s in range(len(problem.shape_gpu))])
    grid = Grid(problem, empty)
    by_patterns = applies(problem, grid)
    if by_patterns:
        classes = pattern_classes(empty, room, grid)
        counts = build(problem, classes, room, empty.whole, sums=False)
        patterns = HostPatterns(counts, grid)
        patterns.learn(greedy)
        tightest = CountModel(counts, patterns)
        yield tightest
    sums = build(problem, host_classes(problem, room), room, empty.whole)
    yield CountModel(sums, Patterns(sums) if len(sums.fractions) else None)
    if by_patterns:
        yield tightest


def _search(
    session: Session, counts: Counts, patterns: Patterns | HostPatterns | None
) -> Generator[Bound, None, NDArray[np.float64] | None]:
    """Branch and bound term by term, each held before the next; return the last point found.

    Later terms get less time and a looser gap.
    """
    problem, model = counts.problem, counts.model
    values: NDArray[np.float64] | None = None
    holds: list[tuple[str, int]] = []
    pending = set(model.held)
    for term in _modelled(problem):
        arrays = model.arrays(term, without=pending)
        if values is None:
            outcome = session.optimise(arrays, share=0.5, most=SEARCH_SECONDS)
        else:
            outcome = session.optimise(
                arrays, share=0.2, most=SEARCH_SECONDS, gap=1e-2, start=values
            )
        if outcome is None or outcome.values is None or outcome.objective is None:
            break
        # A model that lacks patterns proves nothing by its search.
        if patterns is None and outcome.bound is not None:
            yield Bound(term, problem.rounded(term, outcome.bound), tuple(holds))
        values = outcome.values
        model.hold(term, round(outcome.objective), HOLD_SLACK)
        pending -= {f"hold:{term}"}
        holds.append((term, round(outcome.objective)))
    return values


def _modelled(problem: Problem) -> list[str]:
    """Terms that the count model has; the others keep their trivial bound."""
    return [t for t in problem.terms if t in MODELLED]


def _later_bounds(
    session: Session, counts: Counts, patterns: Patterns | HostPatterns | None
) -> Iterator[Bound]:
    """Bound each later term over the relaxation, earlier ones held at the best plan's values."""
    problem = counts.problem
    pending = set(counts.model.held)
    holds: list[tuple[str, int]] = []
    for term in problem.terms:
        if session.best is None:
            return
        if term in MODELLED:
            if holds:
                without = tuple(pending)
                yield from relaxation(session, counts, patterns, term, tuple(holds), without)
            counts.model.hold(term, session.best[term], HOLD_SLACK)
            pending -= {f"hold:{term}"}
        holds.append((term, session.best[term]))


def relaxation(
    session: Session,
    counts: Counts,
    patterns: Patterns | HostPatterns | None,
    term: str,
    holds: tuple[tuple[str, int], ...] = (),
    without: tuple[str, ...] = (),
) -> Generator[Bound, None, Outcome | None]:
    """Bound a term over the linear relaxation with all patterns, by column generation.

    Each round of it gives a valid bound: the optimum over the patterns so far plus the most that
    the missing ones can add. The last round's duals certify one; its outcome is returned. `without`
    names row blocks to leave out; they must be the last rows.
    """
    claimed: float | None = None
    last: Outcome | None = None
    spread = "spread" in (term, *(held for held, _ in holds))
    while True:
        arrays = counts.model.arrays(term, relax=True, without=without)
        if not spread:
            arrays = arrays.without_columns(counts.inner)
        outcome = session.optimise(arrays, share=0.5)
        if outcome is None or outcome.bound is None or outcome.row_duals is None:
            break
        last, duals = outcome, outcome.row_duals
        added, missing = False, 0.0
        if patterns is not None:
            added, missing = patterns.improve(duals, SENSE[term])
        claimed = tighter(claimed, outcome.bound + arrays.sign * missing, SENSE[term])
        if not added or missing <= 1e-5 * abs(outcome.bound):
            y = multipliers(arrays, duals)
            certified = certified_bound(arrays, y, patterns.most_missing(y) if patterns else 0)
            if certified is not None:
                value = counts.problem.certified(term, certified)
                yield Bound(term, value, holds, certified=True)
            break
    if claimed is not None:
        yield Bound(term, counts.problem.rounded(term, claimed), holds)
    return last
