"""CBC through PuLP: mixed-integer and continuous models; nothing is reported on the way."""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pulp

from placewright.array_types import Floats
from placewright.solver.arrays import ALWAYS, Arrays, BackendUnavailableError, big_m
from placewright.solver.outcome import Limits, Outcome, Report, Status, audit, checked_point

NODES_PER_WORK = 200
"""Branch-and-bound nodes that count as one unit of `Limits.work`."""

_STATUS = {
    (pulp.LpStatusOptimal, pulp.LpSolutionOptimal): Status.OPTIMAL,
    (pulp.LpStatusOptimal, pulp.LpSolutionIntegerFeasible): Status.FEASIBLE,
    (pulp.LpStatusNotSolved, pulp.LpSolutionNoSolutionFound): Status.NO_SOLUTION,
    (pulp.LpStatusInfeasible, pulp.LpSolutionInfeasible): Status.INFEASIBLE,
    (pulp.LpStatusInfeasible, pulp.LpSolutionNoSolutionFound): Status.INFEASIBLE,
    (pulp.LpStatusUnbounded, pulp.LpSolutionUnbounded): Status.UNBOUNDED,
    (pulp.LpStatusUndefined, pulp.LpSolutionNoSolutionFound): Status.FAILED,
}

_BOUND = re.compile(r"(?:best possible|Lower bound:) *(-?[0-9.]+(?:e[+-]?[0-9]+)?)")
_VERSION = re.compile(r"^Version: *(\S+)", re.MULTILINE)


def solve(
    arrays: Arrays,
    limits: Limits,
    start: Floats | None = None,  # noqa: ARG001
    report: Report | None = None,  # noqa: ARG001
) -> Outcome:
    """Solve with the CBC program that PuLP brings; the start is of no use to it.

    Raises UnsupportedModelError if a conditional row has no finite big-M. Raises
    BackendUnavailableError if PuLP brings no CBC for this machine.
    """
    began = time.monotonic()
    problem, variables, constraints = _problem(big_m(arrays))
    with tempfile.TemporaryDirectory(prefix="placewright-") as folder:
        log = Path(folder, "cbc.log")
        _run(problem, limits, log, began)
        status = _STATUS[problem.status, problem.sol_status]
        words = log.read_text()
    seconds = time.monotonic() - began
    message = "" if status is Status.OPTIMAL else pulp.LpSolution[problem.sol_status]
    wall_stopped = "Stopped on time" in words
    if status is Status.INFEASIBLE and seconds >= limits.seconds:
        # CBC can call a model infeasible when the time runs out while it is preprocessed.
        status, wall_stopped = Status.NO_SOLUTION, True

    values = duals = None
    if status in (Status.OPTIMAL, Status.FEASIBLE):
        values = checked_point(arrays, np.array([float(v.varValue or 0.0) for v in variables]))
        if values is None:
            status, message = Status.NO_SOLUTION, "its point breaks a row once rounded"
    plain = not arrays.integer.any() and not (arrays.when != ALWAYS).any()
    if plain and status is Status.OPTIMAL:
        duals = np.zeros(arrays.rows)
        for row, constraint in constraints:
            duals[row] -= arrays.sign * float(constraint.pi or 0.0)
    outcome = Outcome(
        status,
        values=values,
        objective=None if values is None else arrays.objective_of(values),
        bound=_bound(arrays, status, values, words),
        row_duals=duals,
        message=message,
        seconds=seconds,
        backend="cbc",
        version=_version(words),
        wall_stopped=wall_stopped,
    )
    return audit(arrays, outcome)


def _problem(plain: Arrays) -> tuple[Any, list[Any], list[tuple[int, Any]]]:
    """Write the PuLP problem, always minimising and without the constant.

    Rows with two finite bounds become two constraints; each comes with the row it is from.
    """
    problem = pulp.LpProblem("model", pulp.LpMinimize)
    kinds = (pulp.LpContinuous, pulp.LpInteger)
    variables = [
        problem.add_variable(f"x{i}", _finite(low), _finite(high), kinds[whole])
        for i, (low, high, whole) in enumerate(
            zip(plain.lower.tolist(), plain.upper.tolist(), plain.integer.tolist(), strict=True)
        )
    ]
    cost = (-plain.sign * plain.cost).tolist()
    problem.setObjective(pulp.LpAffineExpression(zip(variables, cost, strict=True)))
    constraints = []
    starts, data = plain.indptr.tolist(), plain.data.tolist()
    terms = list(zip((variables[column] for column in plain.indices.tolist()), data, strict=True))
    bounds = zip(plain.row_lower.tolist(), plain.row_upper.tolist(), strict=True)
    for row, (low, high) in enumerate(bounds):
        if low == high:
            sides = [(pulp.LpConstraintEQ, low)]
        else:
            sides = [(pulp.LpConstraintGE, low), (pulp.LpConstraintLE, high)]
        for sense, side in sides:
            if _finite(side) is not None:
                left = pulp.LpAffineExpression(terms[starts[row] : starts[row + 1]])
                constraint = pulp.LpConstraint(left, sense, rhs=side)
                problem.addConstraint(constraint)
                constraints.append((row, constraint))
    return problem, variables, constraints


def _finite(number: float) -> float | None:
    return number if np.isfinite(number) else None


def _run(problem: Any, limits: Limits, log: Path, began: float) -> None:
    """Solve without integer preprocessing, which returns wrong optima in CBC 2.10.3.

    One in 250 random tiny mixed-integer programs came back with a wrong optimum or a wrong
    "infeasible" while it was on. Without it CBC crashes on some infeasible models as it writes its
    answer; such a model is called infeasible only when preprocessing then finds the same.
    """
    try:
        problem.solve(_solver(limits, log, began, "off"))
    except pulp.PulpSolverError:
        problem.solve(_solver(limits, log, began, "on"))
        if problem.status != pulp.LpStatusInfeasible:
            raise


def _solver(limits: Limits, log: Path, began: float, preprocess: str) -> Any:
    # CBC takes a seed of 0 from the time of day.
    seed = 1 + limits.seed % (2**31 - 1)
    solver = pulp.COIN_CMD(
        path=pulp.PULP_CBC_CMD.pulp_cbc_path,
        msg=False,
        timeLimit=max(0.01, limits.seconds - (time.monotonic() - began)),
        gapRel=limits.gap,
        # One thread of CBC's thread pool is slower and less repeatable than no pool.
        threads=limits.threads if limits.threads > 1 else None,
        maxNodes=None if limits.work is None else max(1, round(limits.work * NODES_PER_WORK)),
        options=[f"preprocess {preprocess}", f"randomSeed {seed}", f"randomCbcSeed {seed}"],
        logPath=str(log),
    )
    if not solver.available():
        raise BackendUnavailableError(
            f"backend 'cbc' has no program at {solver.path}; install a pulp that brings CBC"
        )
    solver.tmpDir = str(log.parent)
    return solver


def _bound(arrays: Arrays, status: Status, values: Floats | None, log: str) -> float | None:
    """Give the bound that CBC's log supports, loosened by what its printing rounds away."""
    if status not in (Status.OPTIMAL, Status.FEASIBLE, Status.NO_SOLUTION):
        return None
    if values is not None and status is Status.OPTIMAL and "within gap tolerance" not in log:
        objective = arrays.objective_of(values)
        if not arrays.integer.any():
            return objective
        # The search is complete up to CBC's smallest improvement.
        return objective + arrays.sign * max(1e-5, 1e-6 * abs(objective))
    claims = _BOUND.findall(log)
    if not claims or abs(float(claims[-1])) >= 1e30:
        return None
    claim = float(claims[-1])
    claim -= 1e-3 + 1e-6 * abs(claim)
    return -arrays.sign * claim + arrays.constant


def _version(log: str) -> str:
    found = _VERSION.search(log)
    return f"{found[1] if found else 'unknown'} (pulp {pulp.__version__})"
