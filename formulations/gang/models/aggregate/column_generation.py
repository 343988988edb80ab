"""The count models of a round: which there are, their relaxation, their search, their bounds."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.models.aggregate.core_search import (
    SEARCH_SECONDS,
    doubt_in,
    search_core,
    still_in_doubt,
)
from placewright.formulations.gang.models.aggregate.gpu_columns import Patterns
from placewright.formulations.gang.models.aggregate.gpu_part_columns import PartPatterns
from placewright.formulations.gang.models.aggregate.host_classes import host_classes
from placewright.formulations.gang.models.aggregate.host_columns import (
    HostPatterns,
    applies,
    pattern_classes,
)
from placewright.formulations.gang.models.aggregate.model import Counts, build
from placewright.formulations.gang.models.aggregate.powers_of_two import plain
from placewright.formulations.gang.models.aggregate.resource_grid import Grid
from placewright.formulations.gang.models.aggregate.sifting import relax
from placewright.formulations.gang.models.tenant_share_rows import raised
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.dominant_shares import SHARE_TERMS
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import BOTTLENECK, ENTITLED, PROGRESS, SENSE, VALUE
from placewright.formulations.session import HOLD_SLACK, Bound, Session, tighter
from placewright.solver import Arrays, Doubt, Model, Outcome, certified_bound, multipliers

OF_PLACES = ("disruption", "spread", "opened", BOTTLENECK)
"""Terms of the count model that look at where jobs are, and not only at which of them run."""

MODELLED = (VALUE, ENTITLED, PROGRESS, *SHARE_TERMS, *OF_PLACES)
"""Terms that the count model has."""


class CountModel(NamedTuple):
    """A count model, and the patterns that it draws columns from."""

    counts: Counts
    patterns: Patterns | HostPatterns | None


class PatternModel(NamedTuple):
    """A count model of host patterns."""

    counts: Counts
    patterns: HostPatterns


def models_of(problem: Problem, greedy: Placement) -> Iterator[CountModel]:
    """Yield the models to try, the one with the tightest relaxation first.

    Host patterns are exact for a host, but a search over those at hand may miss what it needs; a
    plan by sums shows it more of them.
    """
    empty = Placement(problem, cleared=True)
    room = room_of(empty)
    tightest = None if plain(problem) else pattern_model(problem, empty, room)
    if tightest is not None:
        tightest.patterns.learn(greedy)
        yield CountModel(*tightest)
    sums = build(problem, host_classes(problem, room), room, empty.whole)
    shares = Patterns if problem.sharing is None else PartPatterns
    yield CountModel(sums, shares(sums) if len(sums.parts) else None)
    if tightest is not None:
        yield CountModel(*tightest)


def room_of(empty: Placement) -> NDArray[np.int64]:
    """Return how many tasks fit each host of a cleared placement, (shapes, hosts)."""
    return np.stack([empty.fits(s) for s in range(len(empty.problem.shape_gpu))])


def pattern_model(
    problem: Problem, empty: Placement, room: NDArray[np.int64]
) -> PatternModel | None:
    """Return the model of host patterns, none of them known yet, if it applies."""
    grid = Grid(problem, empty)
    if not applies(problem, grid):
        return None
    classes = pattern_classes(empty, room, grid)
    counts = build(problem, classes, room, empty.whole, sums=False)
    return PatternModel(counts, HostPatterns(counts, grid))


def search(
    session: Session,
    counts: Counts,
    patterns: Patterns | HostPatterns | None,
    relaxed: Outcome | None = None,
    *,
    gap: float | None = None,
    share: float = 0.5,
) -> Generator[Bound, None, NDArray[np.float64] | None]:
    """Branch and bound term by term, each held before the next; return the last point found.

    The first term gets `share` of the time left, later ones get less, and those of places a looser
    gap than `gap`, by default half the session's. If `relaxed` is the relaxation's outcome for the
    first term, with the same columns, only those that it leaves in doubt are searched.
    """
    problem, model = counts.problem, counts.model
    values: NDArray[np.float64] | None = None
    holds: list[tuple[str, int]] = []
    pending = set(model.held)
    doubt: Doubt | None = None
    for term in _modelled(problem):
        arrays = model.arrays(term, without=pending)
        if values is None:
            doubt = doubt_in(arrays, relaxed, counts.y, counts.option_row[counts.y_class])
            first_gap = session.gap / 2 if gap is None else gap
            outcome = search_core(session, arrays, doubt, first_gap, share)
        else:
            outcome = _search_later(session, term, arrays, values, doubt, holds[0][1])
        if outcome is None or outcome.values is None or outcome.objective is None:
            break
        # A model that lacks patterns proves nothing by its search.
        if patterns is None and outcome.bound is not None:
            yield Bound(term, problem.rounded(term, outcome.bound), tuple(holds))
        values = outcome.values
        if problem.shares:
            values = raised(model, problem, *counts.offered, counts.left_out, values)
        model.hold(term, round(outcome.objective), HOLD_SLACK)
        pending -= {f"hold:{term}"}
        holds.append((term, round(outcome.objective)))
    return values


def _search_later(
    session: Session,
    term: str,
    arrays: Arrays,
    values: NDArray[np.float64],
    doubt: Doubt | None,
    first: int,
) -> Outcome | None:
    """Search from the last point; only what may vary with the first term held at its value."""
    core = None if doubt is None else still_in_doubt(arrays, doubt, first)
    inside, start = (arrays, values) if core is None else (core.arrays, core.inside(values))
    gap = 1e-2 if term in OF_PLACES else None
    outcome = session.optimise(inside, share=0.2, most=SEARCH_SECONDS, gap=gap, start=start)
    if core is None or outcome is None or outcome.values is None:
        return outcome
    return replace(outcome, values=core.whole(outcome.values))


def _modelled(problem: Problem) -> list[str]:
    """Terms that the count model has; the others keep their trivial bound."""
    return [t for t in problem.terms if t in MODELLED]


def later_bounds(
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
    the missing ones can add. The last round's duals certify one; its outcome is returned.

    Parameters
    ----------
    holds
        What the bound is conditional on: the terms that rows of the model hold are among them.
    without
        Row blocks to leave out. They are the last rows, since patterns find prices by row.

    Raises
    ------
    ValueError
        If rows hold another term, or rows that stay come after one that is left out.
    """
    _check_rows(counts.model, holds, without)
    claimed: float | None = None
    last: Outcome | None = None
    mean: NDArray[np.float64] | None = None
    inner = bool({"spread", BOTTLENECK} & {term, *(held for held, _ in holds)})
    while True:
        arrays = counts.model.arrays(term, relax=True, without=without)
        if not inner:
            arrays = arrays.without_columns(counts.inner)
        if patterns is None:
            outcome = relax(session, arrays, counts.y, counts.option_row[counts.y_class], share=0.5)
        else:
            outcome = session.optimise(arrays, share=0.5)
        if outcome is None or outcome.bound is None or outcome.row_duals is None:
            break
        last, duals = outcome, outcome.row_duals
        added, missing = False, 0.0
        if patterns is not None:
            # Prices jump from one optimum to the next; their running mean leads faster to the last.
            mean = duals if mean is None else 0.5 * (mean + duals)
            ahead = mean is not duals and patterns.improve(mean, SENSE[term])[0]
            added, missing = patterns.improve(duals, SENSE[term])
            added |= ahead
        claimed = tighter(claimed, outcome.bound + arrays.sign * missing, SENSE[term])
        most = outcome.bound + arrays.sign * missing
        done = counts.problem.rounded(term, most) == counts.problem.rounded(term, outcome.bound)
        if not added or done or missing <= max(1e-5, session.gap / 2) * abs(outcome.bound):
            y = multipliers(arrays, duals)
            certified = certified_bound(arrays, y, patterns.most_missing(y) if patterns else 0)
            if certified is not None:
                value = counts.problem.certified(term, certified)
                yield Bound(term, value, holds, certified=True)
            break
    if claimed is not None:
        yield Bound(term, counts.problem.rounded(term, claimed), holds)
    return last


def _check_rows(model: Model, holds: tuple[tuple[str, int], ...], without: tuple[str, ...]) -> None:
    """Raise ValueError unless duals of the rows prove what a relaxation says of them."""
    held = {f"hold:{term}" for term, _ in holds}
    left_out = False
    for block in model.row_blocks:
        left_out |= block.name in without and block.size > 0
        if block.name not in without and block.size > 0 and left_out:
            raise ValueError(f"rows {block.name!r} come after rows that are left out: {without}")
        if block.name in set(model.held) - held - set(without):
            raise ValueError(f"rows {block.name!r} are not among what a bound holds: {holds}")


def drained(steps: Generator[Bound, None, Outcome | None]) -> tuple[list[Bound], Outcome | None]:
    """Return what a generator yields and returns: bounds wait for the plan that they speak of."""
    bounds: list[Bound] = []
    while True:
        try:
            bounds.append(next(steps))
        except StopIteration as end:
            return bounds, end.value
