"""Solution of an LP relaxation: a certified bound by weak duality, a point, and dual prices."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from placewright.array_types import Floats
from placewright.formulations.replicas import parameters
from placewright.formulations.session import Session
from placewright.solver import Arrays, SolveOptions, Status, certified_bound, multipliers


@dataclass(frozen=True, slots=True, eq=False)
class RelaxationResult:
    """Result of an LP relaxation: a certified bound, a primal point, and dual prices.

    `point` is None if the solver has none; `prices` (rows,) are the savings per unit of a row's
    limit.
    """

    bound: int
    point: Floats | None
    prices: Floats


def solve_relaxation(
    arrays: Arrays, session: Session, share: float = 1.0
) -> RelaxationResult | None:
    """Return the result of an LP relaxation, None without time, a solver or a proven bound.

    Large LPs are solved by an interior-point method, small ones by simplex: an interior-point
    method may not converge on those, and its prices then prove little.

    Parameters
    ----------
    share
        Largest share of the time left.

    Raises
    ------
    ArithmeticError
        If the solver claims that the LP is infeasible.
    """
    interior = arrays.columns > parameters.PARAMETERS.simplex_max_columns
    outcome = session.optimise(arrays, share=share, options=SolveOptions(interior=interior))
    if outcome is not None and outcome.status is Status.INFEASIBLE:
        raise ArithmeticError("no point")
    if outcome is None or outcome.row_duals is None:
        return None
    bound = certified_bound(arrays, multipliers(arrays, outcome.row_duals))
    return (
        None if bound is None else RelaxationResult(ceil(bound), outcome.values, -outcome.row_duals)
    )


def try_relaxation(arrays: Arrays, session: Session, share: float = 1.0) -> RelaxationResult | None:
    """Like `solve_relaxation`, but None also where the solver finds the relaxation infeasible."""
    try:
        return solve_relaxation(arrays, session, share)
    except ArithmeticError:
        return None
