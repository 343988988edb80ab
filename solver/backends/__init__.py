"""The backends: one small protocol, one file each, loaded only when asked for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

from placewright.array_types import Floats
from placewright.solver.arrays import Arrays, BackendUnavailableError
from placewright.solver.outcome import Limits, Outcome, Report

__all__ = ["BACKENDS", "Backend", "Entry", "Report", "available", "get_backend"]


class Backend(Protocol):
    """Solve arrays within limits.

    `start` is a hint: a feasible point of shape (columns,), ignored where it is of no use.
    `report` hears of every improving point and bound while the search runs, where the solver
    tells. Infeasible and out of time are statuses; an `UnsupportedModelError` says that this
    backend cannot take the model at all.
    """

    def __call__(
        self,
        arrays: Arrays,
        limits: Limits,
        start: Floats | None = None,
        report: Report | None = None,
    ) -> Outcome:
        """Solve the arrays within the limits."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a backend lives, which package it needs and what to install when it is missing."""

    address: str
    needs: str
    install: str


_HERE = "placewright.solver.backends"

BACKENDS = {
    "highs": Entry(f"{_HERE}.highs:solve", "highspy", "highspy"),
    "cp-sat": Entry(f"{_HERE}.cpsat:solve", "ortools", "ortools"),
    "cbc": Entry(f"{_HERE}.cbc:solve", "pulp", "pulp"),
    "scip": Entry(f"{_HERE}.scip:solve", "ortools", "ortools"),
    "enumeration": Entry(f"{_HERE}.enumeration:solve", "numpy", "numpy"),
}


WITH_INTERVALS = ("cp-sat", "enumeration")
"""Backends that take interval variables."""


def available() -> tuple[str, ...]:
    """Give the names of the backends whose package is installed; nothing is imported."""
    return tuple(name for name, entry in BACKENDS.items() if find_spec(entry.needs) is not None)


def get_backend(name: str) -> Backend:
    """Load a backend by its name, or by ``module:attribute`` for one that is not ours.

    Raises BackendUnavailableError if the name is unknown or its package cannot be imported.
    """
    entry = BACKENDS.get(name)
    if entry is None and ":" not in name:
        raise BackendUnavailableError(
            f"backend {name!r} is unknown; one of {', '.join(BACKENDS)} or module:attribute "
            "was expected"
        )
    module, _, attribute = (name if entry is None else entry.address).partition(":")
    try:
        return cast(Backend, getattr(import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        advice = f"; install {entry.install}" if entry else ""
        raise BackendUnavailableError(
            f"backend {name!r} cannot be loaded: {error}{advice}"
        ) from error
