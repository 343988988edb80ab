"""HiGHS: mixed-integer and continuous models."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import highspy
import numpy as np

from placewright.array_types import Floats
from placewright.solver.arrays import ALWAYS, Arrays, big_m
from placewright.solver.outcome import Limits, Outcome, Report, Status, Trace, audit, checked_point

NODES_PER_WORK = 200
"""Branch-and-bound nodes that count as one unit of `Limits.work`."""

UNSOUND_PRESOLVE = 1 << 12
"""The presolve rule that is switched off: the aggregator.

With it, HiGHS 1.12 (and 1.13 to 1.15) loses the optimum of some integer programs: it calls them
infeasible, or a worse point optimal (tests/solver/test_known_optima.py holds one). Without it none
of 32,000 random models went wrong.
"""

LARGEST = 1e20
"""Coefficients below this are taken; by default HiGHS refuses those from 10^15 on."""

INTERIOR = 1e-6
"""How near to an optimum an interior-point method stops, relative to the objective."""

PRIMAL = 4
"""The option `simplex_strategy` of the primal simplex method."""

MOST_ITERATIONS = 5
"""Iterations of the simplex method per row and column; linear programs mostly need one to three."""

_STOPPED = "stopped"

# OPTIMAL and INFEASIBLE are claims; _STOPPED becomes FEASIBLE or NO_SOLUTION.
_STATUS: dict[highspy.HighsModelStatus, str] = {
    getattr(highspy.HighsModelStatus, f"k{name}"): status
    for status, names in {
        Status.OPTIMAL: "Optimal ModelEmpty",
        Status.INFEASIBLE: "Infeasible",
        Status.UNBOUNDED: "Unbounded UnboundedOrInfeasible",
        _STOPPED: "TimeLimit IterationLimit SolutionLimit Interrupt HighsInterrupt MemoryLimit "
        "Unknown",
        Status.FAILED: "ObjectiveBound ObjectiveTarget Notset LoadError ModelError PresolveError "
        "SolveError PostsolveError",
    }.items()
    for name in names.split()
}


def solve(
    arrays: Arrays, limits: Limits, start: Floats | None = None, report: Report | None = None
) -> Outcome:
    """Solve with HiGHS; row duals come with continuous models that have no conditional rows.

    Raises UnsupportedModelError if a conditional row has no finite big-M.
    """
    trace = Trace(arrays, report)
    plain = big_m(arrays)
    highs = _run(plain, limits, start, trace)
    if _misled(highs, trace):
        left = max(0.0, limits.seconds - trace.seconds())
        highs = _run(plain, replace(limits, seconds=left), start, trace, again=True)
    code = highs.getModelStatus()
    outcome = _outcome(arrays, highs, code, trace)
    if limits.options.interior and not arrays.integer.any():
        outcome = _interior(arrays, outcome, highs)
    if code == highspy.HighsModelStatus.kUnboundedOrInfeasible:
        outcome = _which(arrays, limits, outcome, trace)
    outcome = replace(
        outcome,
        seconds=trace.seconds(),
        backend="highs",
        version=highs.version(),
        trajectory=tuple(trace.best.trajectory),
        wall_stopped=code == highspy.HighsModelStatus.kTimeLimit,
    )
    return audit(arrays, outcome)


def _run(
    plain: Arrays, limits: Limits, start: Floats | None, trace: Trace, *, again: bool = False
) -> Any:
    highs = _loaded(plain, limits)
    if again:
        _require(highs.setOptionValue("presolve", "off"), "option presolve = off")
        if not plain.integer.any():
            _require(highs.setOptionValue("simplex_strategy", PRIMAL), "the primal simplex")
    elif not plain.integer.any():
        most = MOST_ITERATIONS * (plain.rows + plain.columns) + 1000
        _require(highs.setOptionValue("simplex_iteration_limit", most), "a limit of iterations")
    if plain.integer.any():
        _listen(highs, trace)
        if start is not None:
            columns = np.arange(plain.columns, dtype=np.int32)
            highs.setSolution(plain.columns, columns, start)
    highs.run()
    return highs


def _misled(highs: Any, trace: Trace) -> bool:
    """Whether presolve or the dual simplex may be why there is no answer.

    Presolve can drop a row that no integer point keeps as one that forces its columns: the rest has
    an optimum, which breaks the row, and HiGHS calls that an error instead of infeasible. The dual
    simplex gives up where duals are too large for its ratio test, as with weights of priority
    classes of 10^12 and more, and says "Not Set" or "Unknown", or removes and adds perturbations of
    costs in turn until it is stopped; the primal simplex does not.
    """
    code = highs.getModelStatus()
    stuck = highspy.HighsModelStatus.kUnknown, highspy.HighsModelStatus.kIterationLimit
    failed = _STATUS[code] == Status.FAILED or code in stuck
    return failed and trace.best.values is None


def _loaded(plain: Arrays, limits: Limits) -> Any:
    # The thread pool is global to the process and keeps its first size unless it is reset.
    highspy.Highs.resetGlobalScheduler(True)
    highs = highspy.Highs()
    options: dict[str, bool | int | float | str] = {
        "output_flag": False,
        "threads": limits.threads,
        "random_seed": limits.seed % 2**31,
        "time_limit": limits.seconds,
        "mip_rel_gap": limits.gap,
        "mip_abs_gap": 1e-6,
        "presolve_rule_off": UNSOUND_PRESOLVE,
        "large_matrix_value": LARGEST,
    }
    if limits.options.interior and not plain.integer.any():
        options |= {"solver": "ipm", "run_crossover": "off", "ipm_optimality_tolerance": INTERIOR}
    elif not (limits.options.presolve or plain.integer.any()):
        options["presolve"] = "off"
    if limits.work is not None:
        options["mip_max_nodes"] = max(1, round(min(limits.work * NODES_PER_WORK, 2**31 - 1)))
    for name, value in options.items():
        _require(highs.setOptionValue(name, value), f"option {name} = {value}")
    sense = highspy.ObjSense.kMaximize if plain.sense == "max" else highspy.ObjSense.kMinimize
    loaded = highs.passModel(
        plain.columns,
        plain.rows,
        len(plain.data),
        int(highspy.MatrixFormat.kRowwise),
        int(sense),
        plain.constant,
        plain.cost,
        plain.lower,
        plain.upper,
        plain.row_lower,
        plain.row_upper,
        plain.indptr.astype(np.int32),
        plain.indices.astype(np.int32),
        plain.data,
        plain.integer.astype(np.int32),
    )
    _require(loaded, "the model")
    return highs


def _require(status: highspy.HighsStatus, what: str) -> None:
    # A warning is normal: HiGHS warns of coefficients that it drops as too small.
    if status == highspy.HighsStatus.kError:
        raise RuntimeError(f"HiGHS refused {what}")


def _listen(highs: Any, trace: Trace) -> None:
    def improved(event: Any) -> None:
        out = event.data_out
        trace.add(np.asarray(out.mip_solution, dtype=np.float64), out.mip_dual_bound)

    def logged(event: Any) -> None:
        trace.add(None, event.data_out.mip_dual_bound)

    highs.cbMipImprovingSolution.subscribe(improved)
    highs.cbMipLogging.subscribe(logged)


def _outcome(arrays: Arrays, highs: Any, code: highspy.HighsModelStatus, trace: Trace) -> Outcome:
    status = _STATUS[code]
    message = "" if status == Status.OPTIMAL else highs.modelStatusToString(code)
    if code == highspy.HighsModelStatus.kModelEmpty and not arrays.feasible(arrays.lower):
        return Outcome(Status.INFEASIBLE, message=message)
    if status == Status.FAILED and trace.best.values is not None:
        # HiGHS calls it an error when its last point misses a tolerance; earlier ones still hold.
        return Outcome(
            Status.FEASIBLE,
            values=trace.best.values,
            objective=trace.best.objective,
            bound=trace.best.bound,
            message=message,
        )
    if status in (Status.INFEASIBLE, Status.UNBOUNDED, Status.FAILED):
        return Outcome(Status(status), message=message)

    info, solution = highs.getInfo(), highs.getSolution()
    if arrays.integer.any():
        bound = info.mip_dual_bound
    else:
        bound = info.objective_function_value if status == Status.OPTIMAL else math.inf
    values = None
    if code == highspy.HighsModelStatus.kModelEmpty:
        values, bound = arrays.lower, arrays.constant
    elif solution.value_valid:
        values = checked_point(arrays, np.asarray(solution.col_value, dtype=np.float64))
        if values is None:
            message = f"{message}; its point breaks a row once rounded".lstrip("; ")
            values = trace.best.values
    proven = bound if math.isfinite(bound) else None
    if status == Status.OPTIMAL and proven is None:
        return Outcome(Status.FAILED, message="claims an optimum without a bound")
    if values is None:
        return Outcome(Status.NO_SOLUTION, bound=proven, message=message)
    optimal = status == Status.OPTIMAL and not message
    plain = not arrays.integer.any() and not (arrays.when != ALWAYS).any()
    duals = np.asarray(solution.row_dual) if plain and optimal and solution.dual_valid else None
    return Outcome(
        Status.OPTIMAL if optimal else Status.FEASIBLE,
        values=values,
        objective=arrays.objective_of(values),
        bound=proven,
        row_duals=duals,
        message=message,
    )


def _interior(arrays: Arrays, outcome: Outcome, highs: Any) -> Outcome:
    """Give the multipliers of a method that stops near an optimum, and no bound on its word.

    Its point may miss rows by more than is tolerated; then there is none.
    """
    solution = highs.getSolution()
    if outcome.status in (Status.INFEASIBLE, Status.UNBOUNDED) or not solution.dual_valid:
        return replace(outcome, bound=None)
    duals = np.asarray(solution.row_dual)
    if outcome.values is None or checked_point(arrays, outcome.values) is None:
        return Outcome(Status.NO_SOLUTION, row_duals=duals, message=outcome.message)
    return replace(outcome, bound=None, row_duals=duals)


def _which(arrays: Arrays, limits: Limits, outcome: Outcome, trace: Trace) -> Outcome:
    """Tell infeasible from unbounded: without an objective only the first can remain."""
    left = max(0.0, limits.seconds - trace.seconds())
    question = replace(arrays, cost=np.zeros_like(arrays.cost))
    highs = _loaded(big_m(question), replace(limits, seconds=left))
    highs.run()
    answer = _STATUS[highs.getModelStatus()]
    if answer == Status.OPTIMAL:
        return replace(outcome, status=Status.UNBOUNDED, message="Unbounded")
    if answer == Status.INFEASIBLE:
        return replace(outcome, status=Status.INFEASIBLE, message="Infeasible")
    return replace(outcome, status=Status.NO_SOLUTION)
