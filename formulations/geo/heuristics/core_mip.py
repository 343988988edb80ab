"""Core MIP: integer search over few columns near an LP optimum (Balas and Zemel 1980).

Rounding an LP optimum down would leave one gang per region without a place, and its capacity
unused.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.array_types import Floats
from placewright.formulations.bound_arithmetic import near
from placewright.formulations.geo import parameters
from placewright.formulations.session import Session
from placewright.solver import Arrays, Core, SolveOptions, reduced_costs_of

BASIC_TOLERANCE = 1e-9
"""Value above which a column is counted as used by an LP optimum."""


def solve_core_mip(arrays: Arrays, session: Session, share: float) -> Floats | None:
    """Return a good point of a model (columns,), integer if one was found; None without time.

    Three cores are searched in turn until the gap to the LP is small: the columns in the LP's
    optimum, the columns of zero reduced cost, and all columns. `share` is the share of the
    remaining time for each solve.
    """
    continuous = replace(arrays, integer=np.zeros_like(arrays.integer))
    relaxed = session.optimise(continuous, share=share, options=SolveOptions(presolve=False))
    if relaxed is None or relaxed.values is None or relaxed.row_duals is None:
        return None
    best, best_objective = relaxed.values, -np.inf
    reduced_costs = reduced_costs_of(arrays, relaxed.row_duals, relaxed.values)
    if reduced_costs is None or relaxed.objective is None:
        return best
    basic = relaxed.values > BASIC_TOLERANCE
    cores = (
        (basic, np.zeros(arrays.columns)),
        (reduced_costs.loss == 0, reduced_costs.point),
        (np.ones(arrays.columns, dtype=np.bool_), reduced_costs.point),
    )
    for kept, point in cores:
        if kept is not basic and kept.sum() > parameters.PARAMETERS.max_core_columns:
            break
        core = Core.of(arrays, kept, point)
        found = session.optimise(
            core.arrays,
            share=share,
            most=parameters.PARAMETERS.max_core_seconds,
            gap=parameters.PARAMETERS.core_gap_rel / 2,
        )
        if found is None:
            break
        if found.values is not None and found.objective is not None:
            objective = arrays.sign * found.objective
            if objective > best_objective:
                best, best_objective = core.whole(found.values), objective
            if near(relaxed.objective, found.objective, parameters.PARAMETERS.core_gap_rel):
                break
    return best
