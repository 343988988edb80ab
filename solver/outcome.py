"""The types of a solve: limits, progress, outcome, errors; nothing unchecked leaves the package."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

import numpy as np

from placewright.array_types import Floats
from placewright.solver.arrays import Arrays


class Status(StrEnum):
    """How a solve ended.

    OPTIMAL is proven to `Limits.gap`; FEASIBLE and NO_SOLUTION mean that a limit was hit with and
    without a point; FAILED means that the backend raised, crashed, lied or was killed and left no
    point to use.
    """

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    NO_SOLUTION = "no_solution"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SolveOptions:
    """What the caller needs of a solve, where that is not the best point.

    `interior`: of continuous models only the multipliers are asked, and they need only be nearly
    optimal: an interior-point method finds them for models whose vertices are far to seek.
    `cutoff`: only points that are better are of use. A search that ends without one is NO_SOLUTION,
    with this as its bound. A backend may ignore it; SCIP keeps it. `proving`: only the bound is of
    use: SCIP does not look for points. `presolve`: whether HiGHS simplifies a continuous model
    first, which may take longer than to solve it.
    """

    interior: bool = False
    cutoff: float | None = None
    proving: bool = False
    presolve: bool = True


@dataclass(frozen=True, slots=True)
class Limits:
    """When a backend has to stop.

    - `seconds`: wall clock.
    - `gap`: relative gap at which a point counts as optimal.
    - `seed`, `threads`: passed to the solver.
    - `work`: a deterministic limit in units of about one second: CP-SAT's deterministic time, nodes
      for HiGHS and CBC. With it, `seconds` is only a backstop. None: no such limit.
    - `memory_mib`: resident memory of the worker process and its children; None: no limit.
    - `options`: what the solution is for.

    Raises ValueError if a limit is not a usable number.
    """

    seconds: float
    gap: float = 1e-4
    seed: int = 0
    threads: int = 1
    work: float | None = None
    memory_mib: int | None = None
    options: SolveOptions = SolveOptions()

    def __post_init__(self) -> None:
        for name, value in (("seconds", self.seconds), ("gap", self.gap), ("seed", self.seed)):
            if not 0 <= value < float("inf"):
                raise ValueError(f"{name} {value} is out of range; a number >= 0 was expected")
        for name, value in (
            ("threads", self.threads),
            ("work", 1 if self.work is None else self.work),
            ("memory_mib", 1 if self.memory_mib is None else self.memory_mib),
        ):
            if not 0 < value < float("inf"):
                raise ValueError(f"{name} {value} is out of range; a number > 0 was expected")


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """An improving point, a better bound, or both.

    `seconds`: since the backend started. `values`: a point of shape (columns,) whose integer
    columns are integral, or None. `objective`: its objective, computed from the values; None
    exactly when values is None. `bound`: the bound proven so far in the objective's own sense, or
    None.
    """

    seconds: float
    values: Floats | None
    objective: float | None
    bound: float | None


Report: TypeAlias = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """How a solve ended and what is known then.

    - `status`: see `Status`.
    - `values`: the best point, shape (columns,), integer columns exactly integral; present exactly
      when the status is OPTIMAL or FEASIBLE.
    - `objective`: the objective at `values`, computed from them and never the solver's own number.
    - `bound`: a proven bound in the objective's own sense (upper for max, lower for min), or None.
    - `row_duals`: only for continuous models without conditional rows, shape (rows,), else None:
      the change of the objective, in its own sense, per unit by which the row's binding bound is
      raised.
    - `message`: empty, or why the solve ended as it did.
    - `seconds`: wall clock of the backend.
    - `backend`, `version`: who solved it.
    - `trajectory`: the improving (seconds, objective, bound), NaN where one was not known yet.
    - `wall_stopped`: whether the wall clock ended the search, so that a repetition may differ.
    - `fault`: whether the search broke off by a fault although there is a point.

    Raises ValueError if values and objective are present with another status, or missing with these
    two.
    """

    status: Status
    values: Floats | None = None
    objective: float | None = None
    bound: float | None = None
    row_duals: Floats | None = None
    message: str = ""
    seconds: float = 0.0
    backend: str = ""
    version: str = ""
    trajectory: tuple[tuple[float, float, float], ...] = ()
    wall_stopped: bool = False
    fault: bool = False

    def __post_init__(self) -> None:
        expected = self.status in (Status.OPTIMAL, Status.FEASIBLE)
        for name, present in (
            ("values", self.values is not None),
            ("objective", self.objective is not None),
        ):
            if present != expected:
                rule = "must be given" if expected else "must be None"
                raise ValueError(f"{name} {rule} with status {self.status.value!r}")


TOLERANCE = 1e-6
"""Relative feasibility tolerance, and by how much an objective may pass a bound."""

INTEGRALITY = 1e-5
"""How far from a whole number a solver's value of an integer column may lie."""

ROUNDING = 2.0**-44
"""What floats lose of an objective, relative to the sizes of the numbers that it is the sum of."""

INFINITE = 1e20
"""Solvers take numbers from here on for infinite."""


def checked_point(arrays: Arrays, values: Floats) -> Floats | None:
    """Round a solver's point to exact integers, clip it to its bounds, and check its rows.

    Returns the point, shape (columns,), or None when it is not integral or not feasible.
    """
    if values.shape != arrays.cost.shape or not np.isfinite(values).all():
        return None
    whole = np.rint(values)
    if (np.abs(values - whole)[arrays.integer] > INTEGRALITY).any():
        return None
    point = np.where(arrays.integer, whole, values)
    if not arrays.feasible(point, TOLERANCE):
        return None
    return np.clip(point, arrays.lower, arrays.upper)


def known_objective(arrays: Arrays, start: Floats | None) -> float | None:
    """Give the objective of a start of shape (columns,), or None when it is not feasible."""
    point = None if start is None else checked_point(arrays, start)
    return None if point is None else arrays.objective_of(point)


def audit(arrays: Arrays, outcome: Outcome, known: float | None = None) -> Outcome:
    """Check an outcome that was not verified yet.

    Returns the outcome with a checked point, its objective recomputed and a bound that no known
    point beats; or status FAILED with a message that names the backend and its lie. `arrays`: the
    model that was solved. `outcome`: what the backend returned. `known`: the best objective among
    feasible points known from elsewhere (a start, streamed points).
    """
    objective, values = outcome.objective, outcome.values
    if values is not None:
        values = checked_point(arrays, values)
        if values is None:
            return _failed(outcome, "returned a point that is not feasible")
        objective = arrays.objective_of(values)
        claimed = outcome.objective
        if claimed is None or not abs(claimed - objective) <= _slack(arrays, objective, values):
            return _failed(outcome, f"claimed the objective {claimed} of a point of {objective}")
    duals = outcome.row_duals
    if duals is not None and not (
        duals.shape == arrays.row_lower.shape and (np.abs(duals) < INFINITE).all()
    ):
        return _failed(outcome, "returned duals that are not a finite number per row")
    points = [point for point in (objective, known) if point is not None]
    best = max(points, key=lambda point: arrays.sign * point, default=None)
    if best is not None and outcome.status is Status.INFEASIBLE:
        return _failed(outcome, "claimed infeasibility although a feasible point is known")

    bound = outcome.bound
    if bound is not None:
        if not math.isfinite(bound):
            return _failed(outcome, f"returned the bound {bound}, which is not finite")
        if best is not None and arrays.sign * (best - bound) > _slack(arrays, best, values):
            return _failed(outcome, f"claimed the bound {bound}, which the point {best} beats")
        if best is not None and arrays.sign * (best - bound) > 0:
            bound = best
    return replace(outcome, values=values, objective=objective, bound=bound)


def _failed(outcome: Outcome, lie: str) -> Outcome:
    return replace(
        outcome,
        status=Status.FAILED,
        values=None,
        objective=None,
        bound=None,
        row_duals=None,
        message=f"backend {outcome.backend!r} lied: it {lie}",
    )


def _slack(arrays: Arrays, objective: float, values: Floats | None) -> float:
    """Return by how much two numbers may differ that both stand for this objective.

    Where a constant of 10^12 and costs all but cancel, both are rounded in its last digits.
    """
    parts = abs(arrays.constant)
    if values is not None:
        parts += float(np.abs(arrays.cost) @ np.abs(values))
    return max(TOLERANCE * max(1.0, abs(objective)), ROUNDING * parts)


class Incumbent:
    """Callback of a search: keeps checked points and better bounds.

    `values`, `objective`, `bound`: the best so far, or None. `trajectory`: the improvements, as
    `Outcome.trajectory` has them.
    """

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self.values: Floats | None = None
        self.objective: float | None = None
        self.bound: float | None = None
        self.trajectory: list[tuple[float, float, float]] = []

    def hear(self, seconds: float, values: Floats | None, bound: float | None) -> Progress | None:
        """Take an unchecked point of shape (columns,) and an unchecked bound.

        Returns what is new: an improving point with its objective, if there is one, and the best
        bound; or None when neither got better.
        """
        point = self._improving(values)
        tighter = (
            bound is not None
            and math.isfinite(bound)
            and (self.bound is None or self._arrays.sign * (bound - self.bound) < 0)
        )
        if tighter:
            self.bound = bound
        if point is None and not tighter:
            return None
        self.trajectory.append((seconds, _number(self.objective), _number(self.bound)))
        return Progress(seconds, point, None if point is None else self.objective, self.bound)

    def _improving(self, values: Floats | None) -> Floats | None:
        point = None if values is None else checked_point(self._arrays, values)
        if point is None:
            return None
        objective = self._arrays.objective_of(point)
        if self.objective is not None and self._arrays.sign * (objective - self.objective) <= 0:
            return None
        self.values, self.objective = point, objective
        return point


def _number(value: float | None) -> float:
    return math.nan if value is None else value


class Trace:
    """An `Incumbent` with a clock and a listener."""

    def __init__(self, arrays: Arrays, report: Report | None) -> None:
        self.best = Incumbent(arrays)
        self._report = report
        self._began = time.monotonic()

    def seconds(self) -> float:
        """Give the wall clock since the backend started."""
        return time.monotonic() - self._began

    def add(self, values: Floats | None, bound: float | None) -> None:
        """Take a point of shape (columns,) and a bound; None for what is not known."""
        news = self.best.hear(self.seconds(), values, bound)
        if news is not None and self._report is not None:
            self._report(news)
