"""CP-SAT: integer models only, every number scaled to an integer here."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import version
from itertools import pairwise
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from placewright.array_types import Floats, Ints
from placewright.solver.arrays import ALWAYS, Arrays, UnsupportedModelError
from placewright.solver.intervals import Intervals
from placewright.solver.outcome import Limits, Outcome, Report, Status, Trace, audit

LARGEST_SCALE = 10**6
"""The largest factor by which a row or the objective is multiplied."""

LARGEST_NUMBER = 2.0**53
"""Bounds and coefficients beyond this are not exact as floats."""

LARGEST_ACTIVITY = 2.0**61
"""CP-SAT refuses rows whose activity can overflow 64 bits."""

_UNREACHED = 2**62
"""Beyond every activity."""

_SLACK = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """The integers of a model; `cost` is to be minimised and is `objective_scale` times ours."""

    lower: Ints
    upper: Ints
    row_lower: Ints
    row_upper: Ints
    data: Ints
    cost: Ints
    objective_scale: int


def scaled(arrays: Arrays) -> Scaled:
    """Scale rows and objective to integers; row bounds go to the next integer inside.

    A row bound may be missed by a relative 1e-9 before it is rounded, so that 2.9999999999 is read
    as 3. Unbounded columns take the bounds that the rows imply. Raises UnsupportedModelError if a
    column is continuous, or unbounded after a look at the rows, when a number has no denominator up
    to `LARGEST_SCALE`, or when the integers grow too large.
    """
    if not arrays.integer.all():
        column = int(np.flatnonzero(~arrays.integer)[0])
        raise UnsupportedModelError(f"column {column} is continuous; CP-SAT needs integers")
    lower, upper = _implied_bounds(arrays)
    unbounded = ~((np.abs(lower) <= LARGEST_NUMBER) & (np.abs(upper) <= LARGEST_NUMBER))
    if unbounded.any():
        column = int(np.flatnonzero(unbounded)[0])
        raise UnsupportedModelError(
            f"column {column} has bounds {lower[column]} to {upper[column]}; finite bounds within "
            f"{LARGEST_NUMBER:g} were expected"
        )
    rows = arrays.entry_rows()
    row_scale = np.ones(arrays.rows)
    for row in np.unique(rows[arrays.data != np.rint(arrays.data)]).tolist():
        numbers = arrays.data[arrays.indptr[row] : arrays.indptr[row + 1]]
        row_scale[row] = _scale(numbers, arrays.row_name(row))
    data = arrays.data * row_scale[rows]
    objective_scale = _scale(arrays.cost, "the objective")
    cost = -arrays.sign * arrays.cost * objective_scale

    reach = np.maximum(np.abs(lower), np.abs(upper))
    activity = np.zeros(arrays.rows)
    np.add.at(activity, rows, np.abs(data) * reach[arrays.indices])
    wide = np.flatnonzero(activity > LARGEST_ACTIVITY)
    if wide.size:
        raise UnsupportedModelError(
            f"{arrays.row_name(int(wide[0]))} reaches {activity[wide[0]]:g} in integers; at most "
            f"{LARGEST_ACTIVITY:g} was expected"
        )
    if np.abs(cost) @ reach > LARGEST_ACTIVITY:
        raise UnsupportedModelError(
            f"the objective reaches {np.abs(cost) @ reach:g} in integers; at most "
            f"{LARGEST_ACTIVITY:g} was expected"
        )
    row_lower = _inside(arrays.row_lower * row_scale, -1)
    row_upper = _inside(arrays.row_upper * row_scale, +1)
    # An interval without an integer is not a domain; a place that no activity reaches is.
    empty = row_lower > row_upper
    row_lower[empty] = row_upper[empty] = _UNREACHED
    return Scaled(
        lower=lower.astype(np.int64),
        upper=upper.astype(np.int64),
        row_lower=row_lower,
        row_upper=row_upper,
        data=np.rint(data).astype(np.int64),
        cost=np.rint(cost).astype(np.int64),
        objective_scale=objective_scale,
    )


def _scale(numbers: Floats, where: str) -> int:
    """Find the smallest factor that makes all these numbers whole."""
    factor = 1
    for number in np.unique(np.abs(numbers[numbers != np.rint(numbers)])).tolist():
        fraction = Fraction(number).limit_denominator(LARGEST_SCALE)
        if abs(float(fraction) - number) > 1e-14 * number:
            raise UnsupportedModelError(
                f"coefficient {number} of {where} is not a fraction with a denominator up to "
                f"{LARGEST_SCALE}; a number that scales to an integer was expected"
            )
        factor = math.lcm(factor, fraction.denominator)
        if factor > LARGEST_SCALE:
            raise UnsupportedModelError(
                f"coefficients of {where} need the common denominator {factor}; at most "
                f"{LARGEST_SCALE} was expected"
            )
    return factor


def _inside(bounds: Floats, direction: int) -> Ints:
    finite = np.abs(bounds) < LARGEST_ACTIVITY
    close = np.where(finite, bounds, 0.0)
    close = close + direction * _SLACK * np.maximum(1.0, np.abs(close))
    rounded = np.floor(close) if direction > 0 else np.ceil(close)
    infinite = np.where(bounds > 0, _UNREACHED, -_UNREACHED)
    return np.where(finite, rounded.astype(np.int64), infinite)


def _implied_bounds(arrays: Arrays) -> tuple[Floats, Floats]:
    """Bound the infinite columns by the rows that always count, as often as that helps."""
    lower, upper = arrays.lower.copy(), arrays.upper.copy()
    rows = arrays.entry_rows()
    counts = arrays.when[rows] == ALWAYS
    rows, columns, data = rows[counts], arrays.indices[counts], arrays.data[counts]
    open_columns = ~(np.isfinite(lower) & np.isfinite(upper))
    while open_columns.any():
        for sign, limit in ((1.0, arrays.row_upper), (-1.0, -arrays.row_lower)):
            _tighten(lower, upper, (rows, columns, sign * data), limit)
        still = ~(np.isfinite(lower) & np.isfinite(upper))
        if still.sum() == open_columns.sum():
            break
        open_columns = still
    return lower, upper


def _tighten(
    lower: Floats, upper: Floats, entries: tuple[Ints, Ints, Floats], limit: Floats
) -> None:
    """Use rows ``a x <= limit``: a column takes what the others leave at their least."""
    rows, columns, data = entries
    least = np.minimum(data * lower[columns], data * upper[columns])
    endless = np.isinf(least)
    finite_sum, endless_count = np.zeros(len(limit)), np.zeros(len(limit))
    np.add.at(finite_sum, rows, np.where(endless, 0.0, least))
    np.add.at(endless_count, rows, endless)
    others_finite = endless_count[rows] - endless == 0
    left = limit[rows] - finite_sum[rows] + np.where(endless, 0.0, least)
    usable = others_finite & np.isfinite(left)
    # Only infinite ends move: a finite bound is the model's own and stays what it is.
    quotient = left[usable] / data[usable]
    up, down = data[usable] > 0, data[usable] < 0
    was_open_up, was_open_down = np.isinf(upper), np.isinf(lower)
    ceiling, floor = np.full(len(upper), np.inf), np.full(len(lower), -np.inf)
    np.minimum.at(ceiling, columns[usable][up], np.floor(quotient[up] + _SLACK))
    np.maximum.at(floor, columns[usable][down], np.ceil(quotient[down] - _SLACK))
    # Ends that cross would mean an infeasible model: that is for the rows to say.
    upper[was_open_up] = np.maximum(ceiling, lower)[was_open_up]
    lower[was_open_down] = np.minimum(floor, upper)[was_open_down]


_STATUS = {
    cp_model.OPTIMAL: Status.OPTIMAL,
    cp_model.FEASIBLE: Status.FEASIBLE,
    cp_model.INFEASIBLE: Status.INFEASIBLE,
    cp_model.UNKNOWN: Status.NO_SOLUTION,
    cp_model.MODEL_INVALID: Status.FAILED,
}


def solve(
    arrays: Arrays, limits: Limits, start: Floats | None = None, report: Report | None = None
) -> Outcome:
    """Solve with CP-SAT, one worker unless `Limits.threads` says more.

    Raises UnsupportedModelError if a column is continuous or unbounded, or a number cannot be
    scaled to an integer.
    """
    trace = Trace(arrays, report)
    whole = scaled(arrays)
    model = _model(arrays, whole, start)

    def to_bound(claimed: float) -> float:
        return arrays.sign * -claimed / whole.objective_scale + arrays.constant

    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers = limits.threads
    parameters.linearization_level = 2 if arrays.intervals is None else 1
    parameters.random_seed = limits.seed % 2**31
    parameters.relative_gap_limit = limits.gap
    parameters.max_time_in_seconds = max(0.0, limits.seconds - trace.seconds())
    # The caller has to notice Ctrl-C; CP-SAT would keep it to itself.
    parameters.catch_sigint_signal = False
    if limits.work is not None:
        parameters.max_deterministic_time = limits.work
    optimising = bool(whole.cost.any())
    if optimising:
        solver.best_bound_callback = lambda claimed: trace.add(None, to_bound(claimed))
    status = _STATUS[solver.solve(model, _Listener(trace, to_bound if optimising else None))]

    # Without a solution the objective and the bound read 0: look at the status first.
    response = solver.response_proto
    values = objective = bound = None
    if status in (Status.OPTIMAL, Status.FEASIBLE):
        values = np.array(list(response.solution), dtype=np.float64)
        objective = arrays.objective_of(values)
    if status in (Status.OPTIMAL, Status.FEASIBLE, Status.NO_SOLUTION):
        bound = to_bound(response.best_objective_bound) if optimising else arrays.constant
    if status is Status.NO_SOLUTION and optimising:
        bound = trace.best.bound
    by_work = limits.work is not None and response.deterministic_time >= limits.work
    stopped = status in (Status.FEASIBLE, Status.NO_SOLUTION)
    outcome = Outcome(
        status,
        values=values,
        objective=objective,
        bound=bound,
        message="" if status is Status.OPTIMAL else solver.status_name(response.status),
        seconds=trace.seconds(),
        backend="cp-sat",
        version=version("ortools"),
        trajectory=tuple(trace.best.trajectory),
        wall_stopped=stopped and not by_work,
    )
    return audit(arrays, outcome)


class _Listener(cp_model.CpSolverSolutionCallback):
    def __init__(self, trace: Trace, to_bound: Callable[[float], float] | None) -> None:
        super().__init__()
        self._trace = trace
        self._to_bound = to_bound

    def on_solution_callback(self) -> None:
        response = self.response_proto
        bound = self._to_bound(response.best_objective_bound) if self._to_bound else None
        self._trace.add(np.array(list(response.solution), dtype=np.float64), bound)


def _model(arrays: Arrays, whole: Scaled, start: Floats | None) -> cp_model.CpModel:
    """Write the proto row by row: the bulk setters take one list per row."""
    model = cp_model.CpModel()
    proto = model.proto
    for bounds in np.stack([whole.lower, whole.upper], axis=1).tolist():
        proto.variables.add().domain.extend(bounds)

    columns, data = arrays.indices.tolist(), whole.data.tolist()
    starts = arrays.indptr.tolist()
    domains = np.stack([whole.row_lower, whole.row_upper], axis=1).tolist()
    literals = arrays.when.tolist()
    for row, (first, last) in enumerate(pairwise(starts)):
        constraint = proto.constraints.add()
        if literals[row] != ALWAYS:
            constraint.enforcement_literal.append(literals[row])
        linear = constraint.linear
        linear.vars.extend(columns[first:last])
        linear.coeffs.extend(data[first:last])
        linear.domain.extend(domains[row])

    if arrays.intervals is not None:
        _add_intervals(proto, arrays.intervals)
    used = np.flatnonzero(whole.cost)
    if used.size:
        proto.objective.vars.extend(used.tolist())
        proto.objective.coeffs.extend(whole.cost[used].tolist())
    if start is not None:
        proto.solution_hint.vars.extend(range(arrays.columns))
        proto.solution_hint.values.extend(np.rint(start).astype(np.int64).tolist())
    return model


def _add_intervals(proto: Any, intervals: Intervals) -> None:
    """Write each interval, and a cumulative constraint for each resource."""
    first = len(proto.constraints)
    columns = (intervals.start, intervals.size, intervals.present)
    for start, size, present in np.stack(columns, axis=1).tolist():
        constraint = proto.constraints.add()
        if present >= 0:
            constraint.enforcement_literal.append(present)
        interval = constraint.interval
        for expression, offset in ((interval.start, 0), (interval.end, size)):
            expression.vars.append(start)
            expression.coeffs.append(1)
            expression.offset = offset
        interval.size.offset = size
    for demand, capacity in zip(intervals.demand.T, intervals.capacity.tolist(), strict=True):
        asking = np.flatnonzero(demand)
        cumulative = proto.constraints.add().cumulative
        cumulative.capacity.offset = capacity
        cumulative.intervals.extend((first + asking).tolist())
        for amount in demand[asking].tolist():
            cumulative.demands.add().offset = amount
