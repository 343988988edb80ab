"""Column generation, then diving, restricted master MIP and pairwise exchange."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from placewright.formulations.interleaving import parameters
from placewright.formulations.interleaving.problem.packing_problem import (
    Grouping,
    GroupingBound,
    PackingProblem,
)
from placewright.formulations.interleaving.set_packing.column_generation.diving import dive
from placewright.formulations.interleaving.set_packing.column_generation.generate import generate
from placewright.formulations.interleaving.set_packing.column_generation.master import (
    MasterSolution,
    initial_columns,
)
from placewright.formulations.interleaving.set_packing.columns import with_values
from placewright.formulations.interleaving.set_packing.integer_program import (
    SetPackingProgram,
    greedy,
    round_relaxation,
)
from placewright.formulations.interleaving.set_packing.pairwise_exchange import improve_by_exchange
from placewright.formulations.session import Session


def solve_by_column_generation(
    packing: PackingProblem, session: Session
) -> Iterator[Grouping | GroupingBound]:
    """Yield groupings, mostly of more value later, and certified bounds, each tighter."""
    start = initial_columns(packing, session.seed)
    program = SetPackingProgram.of(packing, start)
    yield from greedy(program)
    solution = None
    for found in generate(
        packing, start, session, parameters.PARAMETERS.plan_share * max(session.remaining(), 0.0)
    ):
        if isinstance(found, MasterSolution):
            solution = found
        else:
            yield found
    if solution is None:
        return
    program = SetPackingProgram.of(packing, solution.columns)
    duals = np.concatenate([solution.job, solution.row]) / program.unit
    # Rounding takes no time, so that there is something if diving has too little.
    rounding = list(round_relaxation(program, solution.values, duals))
    yield from rounding
    dived = dive(packing, solution, session)
    if dived is not None:
        yield _improve(packing, dived, session)
    if dived is None or len(solution.columns) <= parameters.PARAMETERS.max_master_mip_columns:
        for grouping in rounding:
            yield _improve(packing, grouping, session)
    if len(solution.columns) <= parameters.PARAMETERS.max_master_mip_columns:
        outcome = session.optimise(
            program.arrays,
            share=parameters.PARAMETERS.master_mip_share,
            most=parameters.PARAMETERS.master_mip_seconds,
            gap=parameters.PARAMETERS.master_mip_gap_rel,
        )
        if outcome is not None and outcome.values is not None:
            times = np.rint(outcome.values).astype(np.int64)
            yield _improve(packing, program.grouping(times, "program"), session)


def _improve(packing: PackingProblem, grouping: Grouping, session: Session) -> Grouping:
    """Return a grouping improved by pairwise exchange."""
    better = improve_by_exchange(packing, with_values(packing, grouping.members), session)
    return Grouping(better.members, int(better.value.sum()), grouping.source)
