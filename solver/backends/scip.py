"""SCIP, as OR-Tools brings it: mixed-integer and continuous models; no progress is reported.

It keeps `Arrays.priority` and `Limits.cutoff`, which makes trees small where a few columns decide
most. Heuristics that solve programs of their own are off, and so are restarts: where relaxations
are large they take most of the time.

MathOpt is called with its protocol buffers, below its Python classes: those build an object per
column, and raise where a search ends at a cut-off. It gives SCIP no callbacks, so whoever kills a
search is left with nothing; and time spent on the way in and out of SCIP is not part of SCIP's own
limit.
"""

from __future__ import annotations

from importlib.metadata import version
from math import isfinite
from typing import Any

import numpy as np
from ortools.math_opt import model_parameters_pb2, model_pb2, parameters_pb2, result_pb2
from ortools.math_opt.core.python import solver as math_opt
from ortools.math_opt.python.callback import CallbackRegistration
from ortools.math_opt.python.init_arguments import StreamableSolverInitArguments

from placewright.array_types import Floats
from placewright.solver.arrays import Arrays, big_m
from placewright.solver.outcome import Limits, Outcome, Report, Status, Trace, audit, checked_point

NODES_PER_WORK = 20
"""Branch-and-bound nodes that count as one unit of `Limits.work`."""

SLACK = 1e-6
"""How much smaller than a cut-off, relative to it, is what a search without a point proves."""

OFF = ("alns", "crossover", "feaspump", "rens", "rins")
"""Heuristics that solve many relaxations, or programs of their own."""

_UNKNOWN = "unknown"

_STATUS: dict[int, str] = {
    result_pb2.TERMINATION_REASON_OPTIMAL: Status.OPTIMAL,
    result_pb2.TERMINATION_REASON_FEASIBLE: Status.FEASIBLE,
    result_pb2.TERMINATION_REASON_NO_SOLUTION_FOUND: Status.NO_SOLUTION,
    result_pb2.TERMINATION_REASON_INFEASIBLE: Status.INFEASIBLE,
    result_pb2.TERMINATION_REASON_UNBOUNDED: Status.UNBOUNDED,
    result_pb2.TERMINATION_REASON_INFEASIBLE_OR_UNBOUNDED: _UNKNOWN,
    result_pb2.TERMINATION_REASON_IMPRECISE: Status.FAILED,
    result_pb2.TERMINATION_REASON_NUMERICAL_ERROR: Status.FAILED,
    result_pb2.TERMINATION_REASON_OTHER_ERROR: Status.FAILED,
    result_pb2.TERMINATION_REASON_UNSPECIFIED: Status.FAILED,
}


def solve(
    arrays: Arrays, limits: Limits, start: Floats | None = None, report: Report | None = None
) -> Outcome:
    """Solve with SCIP in one thread.

    Raises UnsupportedModelError if a conditional row has no finite big-M.
    """
    trace = Trace(arrays, report)
    plain = big_m(arrays)
    result = _run(plain, plain.cost, limits, limits.seconds - trace.seconds(), start)
    status = _STATUS[result.termination.reason]
    if status in (_UNKNOWN, Status.UNBOUNDED) and limits.options.cutoff is None:
        # Without an objective only one of both can remain.
        left = limits.seconds - trace.seconds()
        other = _run(plain, np.zeros(plain.columns), limits, left, None)
        status = {
            Status.OPTIMAL.value: Status.UNBOUNDED,
            Status.INFEASIBLE.value: Status.INFEASIBLE,
        }.get(_STATUS[other.termination.reason], Status.NO_SOLUTION)
    bound: float | None = result.termination.objective_bounds.dual_bound
    if limits.options.cutoff is not None:
        over = result.termination.limit == result_pb2.LIMIT_CUTOFF
        if over or status in (Status.INFEASIBLE, _UNKNOWN):
            status, bound = Status.NO_SOLUTION, limits.options.cutoff
        if bound is not None and isfinite(bound):
            least = limits.options.cutoff
            most = least + arrays.sign * SLACK * max(1.0, abs(least))
            bound = max(bound, most) if arrays.sign > 0 else min(bound, most)

    values, message = None, result.termination.detail if status != Status.OPTIMAL else ""
    if status in (Status.OPTIMAL, Status.FEASIBLE):
        values = _point(arrays, result)
        if values is None:
            status, message = Status.NO_SOLUTION, "its point breaks a row once rounded"
    if status in (Status.INFEASIBLE, Status.UNBOUNDED, Status.FAILED):
        bound = None
    outcome = Outcome(
        Status(status),
        values=values,
        objective=None if values is None else arrays.objective_of(values),
        bound=bound if bound is not None and isfinite(bound) else None,
        message=message,
        seconds=trace.seconds(),
        backend="scip",
        version=version("ortools"),
        wall_stopped=result.termination.limit == result_pb2.LIMIT_TIME,
    )
    return audit(arrays, outcome)


def _point(arrays: Arrays, result: Any) -> Floats | None:
    """Return the best point; columns without a reported value are 0."""
    if not result.solutions:
        return None
    found = result.solutions[0].primal_solution.variable_values
    values = np.zeros(arrays.columns)
    values[np.array(found.ids, dtype=np.int64)] = found.values
    return checked_point(arrays, values)


def _run(plain: Arrays, cost: Floats, limits: Limits, seconds: float, start: Floats | None) -> Any:
    parameters = parameters_pb2.SolveParametersProto(
        threads=1,
        random_seed=limits.seed % 2**31,
        relative_gap_tolerance=limits.gap,
        absolute_gap_tolerance=1e-6,
    )
    parameters.time_limit.FromMilliseconds(max(0, int(1000 * seconds)))
    if limits.options.cutoff is not None:
        parameters.cutoff_limit = limits.options.cutoff
    if limits.work is not None:
        parameters.node_limit = max(1, round(limits.work * NODES_PER_WORK))
    if limits.options.proving or plain.priority is not None:
        parameters.heuristics = parameters_pb2.EMPHASIS_OFF
    if limits.options.proving:
        # Best first: a bound is the least of all open nodes.
        parameters.gscip.int_params["nodeselection/bfs/stdpriority"] = 1_000_000
        parameters.gscip.int_params["nodeselection/bfs/maxplungedepth"] = 0
    for name in OFF:
        parameters.gscip.int_params[f"heuristics/{name}/freq"] = -1
    parameters.gscip.int_params["presolving/maxrestarts"] = 0
    # Devex: nodes of the programs that come here take half as long as with steepest edges.
    parameters.gscip.char_params["lp/pricing"] = "d"
    # It goes on from a node to its children until that is of no use: so come points.
    parameters.gscip.int_params["nodeselection/estimate/maxplungedepth"] = 500
    parameters.gscip.real_params["nodeselection/estimate/maxplungequot"] = 1.0
    hints = model_parameters_pb2.ModelSolveParametersProto()
    if plain.priority is not None:
        first = np.flatnonzero(plain.priority)
        # Ranks: MathOpt keeps 32 bits of a number.
        _, rank = np.unique(plain.priority[first], return_inverse=True)
        hints.branching_priorities.ids.extend(first.tolist())
        hints.branching_priorities.values.extend((rank.reshape(-1) + 1).tolist())
    if start is not None:
        hint = hints.solution_hints.add().variable_values
        hint.ids.extend(range(plain.columns))
        hint.values.extend(start.tolist())
    return math_opt.solve(
        _model(plain, cost),
        parameters_pb2.SOLVER_TYPE_GSCIP,
        StreamableSolverInitArguments().to_proto(),
        parameters,
        hints,
        None,
        CallbackRegistration().to_proto(),
        None,
        None,
    )


def _model(plain: Arrays, cost: Floats) -> Any:
    model = model_pb2.ModelProto()
    columns = model.variables
    columns.ids.extend(range(plain.columns))
    columns.lower_bounds.extend(plain.lower.tolist())
    columns.upper_bounds.extend(plain.upper.tolist())
    columns.integers.extend(plain.integer.tolist())
    used = np.flatnonzero(cost)
    model.objective.maximize = plain.sense == "max"
    model.objective.offset = plain.constant
    model.objective.linear_coefficients.ids.extend(used.tolist())
    model.objective.linear_coefficients.values.extend(cost[used].tolist())
    rows = model.linear_constraints
    rows.ids.extend(range(plain.rows))
    rows.lower_bounds.extend(plain.row_lower.tolist())
    rows.upper_bounds.extend(plain.row_upper.tolist())
    matrix = model.linear_constraint_matrix
    matrix.row_ids.extend(plain.entry_rows().tolist())
    matrix.column_ids.extend(plain.indices.tolist())
    matrix.coefficients.extend(plain.data.tolist())
    return model
