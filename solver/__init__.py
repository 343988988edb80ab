"""Linear models as arrays, and the solvers behind one small protocol; no solver is imported here.

Build a `Model`, take its `arrays` and give them to a `Worker` (a process that can be killed) or,
for tiny models, to `InProcess`.
"""

from __future__ import annotations

from placewright.solver.arrays import (
    ALWAYS,
    Arrays,
    BackendUnavailableError,
    Sense,
    UnsupportedModelError,
    big_m,
)
from placewright.solver.backends import BACKENDS, Backend, available, get_backend
from placewright.solver.certify import (
    Core,
    ReducedCosts,
    certified_bound,
    multipliers,
    reduced_costs_of,
)
from placewright.solver.intervals import Intervals
from placewright.solver.model import Block, Model
from placewright.solver.outcome import Limits, Outcome, Progress, Report, SolveOptions, Status
from placewright.solver.process import InProcess, Worker

__all__ = [
    "ALWAYS",
    "BACKENDS",
    "Arrays",
    "Backend",
    "BackendUnavailableError",
    "Block",
    "Core",
    "InProcess",
    "Intervals",
    "Limits",
    "Model",
    "Outcome",
    "Progress",
    "ReducedCosts",
    "Report",
    "Sense",
    "SolveOptions",
    "Status",
    "UnsupportedModelError",
    "Worker",
    "available",
    "big_m",
    "certified_bound",
    "get_backend",
    "multipliers",
    "reduced_costs_of",
]
