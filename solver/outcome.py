"""The types of a solve: limits and options, progress, and the outcome."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from placewright.array_types import Floats

__all__ = ["Limits", "Outcome", "Progress", "Status"]


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

    Parameters
    ----------
    interior
        Of continuous models only the multipliers are asked, and they need only be nearly optimal:
        an interior-point method finds them for models whose vertices are far to seek.
    cutoff
        Only points that are better are of use. A search that ends without one is NO_SOLUTION, with
        this as its bound. A backend may ignore it; SCIP keeps it.
    proving
        Only the bound is of use: SCIP does not look for points.
    presolve
        Whether HiGHS simplifies a continuous model first, which may take longer than to solve it.
    """

    interior: bool = False
    cutoff: float | None = None
    proving: bool = False
    presolve: bool = True


@dataclass(frozen=True, slots=True)
class Limits:
    """When a backend has to stop.

    Parameters
    ----------
    seconds
        Wall clock.
    gap
        Relative gap at which a point counts as optimal.
    seed, threads
        Passed to the solver.
    work
        A deterministic limit in units of about one second: CP-SAT's deterministic time, nodes for
        HiGHS and CBC. With it, `seconds` is only a backstop. None: no such limit.
    memory_mib
        Resident memory of the worker process and its children; None: no limit.
    options
        What the solution is for.

    Raises
    ------
    ValueError
        When a limit is not a usable number.
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

    Parameters
    ----------
    seconds
        Since the backend started.
    values
        A point of shape (columns,) whose integer columns are integral, or None.
    objective
        Its objective, computed from the values; None exactly when values is None.
    bound
        The bound proven so far in the objective's own sense, or None.
    """

    seconds: float
    values: Floats | None
    objective: float | None
    bound: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """How a solve ended and what is known then.

    Parameters
    ----------
    status
        See `Status`.
    values
        The best point, shape (columns,), integer columns exactly integral; present exactly when
        the status is OPTIMAL or FEASIBLE.
    objective
        The objective at `values`, computed from them and never the solver's own number.
    bound
        A proven bound in the objective's own sense (upper for max, lower for min), or None.
    row_duals
        Only for continuous models without conditional rows, shape (rows,), else None: the change
        of the objective, in its own sense, per unit by which the row's binding bound is raised.
    message
        Empty, or why the solve ended as it did.
    seconds
        Wall clock of the backend.
    backend, version
        Who solved it.
    trajectory
        The improving (seconds, objective, bound), NaN where one was not known yet.
    wall_stopped
        Whether the wall clock ended the search, so that a repetition may differ.
    fault
        Whether the search broke off by a fault although there is a point.

    Raises
    ------
    ValueError
        When values and objective are present with another status, or missing with these two.
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
