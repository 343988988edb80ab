"""Pools whose columns are too many to write: generated, rounded, and put together anew."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from placewright.formulations.interleaving.set_packing.column_generation.master import (
    Relaxation,
    generate,
    starting,
)
from placewright.formulations.interleaving.set_packing.columns import valued
from placewright.formulations.interleaving.set_packing.diving import dived
from placewright.formulations.interleaving.set_packing.integer_program import Program, greedy, near
from placewright.formulations.interleaving.set_packing.pairwise_exchange import repacked
from placewright.formulations.interleaving.set_packing.problem import Grouping, GroupingBound, Pool
from placewright.formulations.session import Session

RESERVE = 0.3
"""Of the time: kept for plans, when bounds could still become better."""

SMALL = 4_000
"""Columns of an integer program at most; one of more finds nothing that rounding does not."""

SECONDS = 10.0
"""Most time of the integer program."""

GAP = 1e-3
"""Of the integer program's value: how near to its bound it has to come."""


def pack_distinct(pool: Pool, session: Session) -> Iterator[Grouping | GroupingBound]:
    """Yield groupings, mostly better ones later, and certified bounds, each tighter."""
    start = starting(pool, session.seed)
    program = Program.of(pool, start)
    yield from greedy(program)
    relaxed = None
    for found in generate(pool, start, session, RESERVE * max(session.remaining(), 0.0)):
        if isinstance(found, Relaxation):
            relaxed = found
        else:
            yield found
    if relaxed is None:
        return
    program = Program.of(pool, relaxed.columns)
    duals = np.concatenate([relaxed.job, relaxed.row]) / program.unit
    # Rounding takes no time, so that there is something if diving has too little.
    rounding = list(near(program, relaxed.values, duals))
    yield from rounding
    dive = dived(pool, relaxed, session)
    if dive is not None:
        yield _improved(pool, dive, session)
    if dive is None or len(relaxed.columns) <= SMALL:
        for grouping in rounding:
            yield _improved(pool, grouping, session)
    if len(relaxed.columns) <= SMALL:
        outcome = session.optimise(program.arrays, share=0.5, most=SECONDS, gap=GAP)
        if outcome is not None and outcome.values is not None:
            times = np.rint(outcome.values).astype(np.int64)
            yield _improved(pool, program.grouping(times, "program"), session)


def _improved(pool: Pool, grouping: Grouping, session: Session) -> Grouping:
    """Return a grouping whose groups are put together anew where that helps."""
    better = repacked(pool, valued(pool, grouping.members), session)
    return Grouping(better.members, int(better.worth.sum()), grouping.source)
