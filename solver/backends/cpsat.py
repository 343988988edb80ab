"""CP-SAT: integer models only, every number scaled to an integer here."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from itertools import pairwise

import numpy as np
from ortools.sat.python import cp_model

from placewright.array_types import Floats
from placewright.solver.arrays import ALWAYS, Arrays
from placewright.solver.audit import audit
from placewright.solver.backends import Report
from placewright.solver.backends.scaling import Scaled, scaled
from placewright.solver.backends.trace import Trace
from placewright.solver.outcome import Limits, Outcome, Status

__all__ = ["solve"]

_STATUS = {
    cp_model.OPTIMAL: Status.OPTIMAL,
    cp_model.FEASIBLE: Status.FEASIBLE,
    cp_model.INFEASIBLE: Status.INFEASIBLE,
    cp_model.UNKNOWN: Status.NO_SOLUTION,
    cp_model.MODEL_INVALID: Status.FAILED,
}


def solve(
    arrays: Arrays,
    limits: Limits,
    start: Floats | None = None,
    report: Report | None = None,
) -> Outcome:
    """Solve with CP-SAT, one worker unless `Limits.threads` says more.

    Raises
    ------
    UnsupportedModelError
        When a column is continuous or unbounded, or a number cannot be scaled to an integer.
    """
    trace = Trace(arrays, report)
    whole = scaled(arrays)
    model = _model(arrays, whole, start)

    def to_bound(claimed: float) -> float:
        return arrays.sign * -claimed / whole.objective_scale + arrays.constant

    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers = limits.threads
    parameters.linearization_level = 2
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

    used = np.flatnonzero(whole.cost)
    if used.size:
        proto.objective.vars.extend(used.tolist())
        proto.objective.coeffs.extend(whole.cost[used].tolist())
    if start is not None:
        proto.solution_hint.vars.extend(range(arrays.columns))
        proto.solution_hint.values.extend(np.rint(start).astype(np.int64).tolist())
    return model
