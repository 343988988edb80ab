"""Backends that misbehave.

Those that stream a point or return `OPTIMUM` know the model of `tiny` only; the others take any.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from placewright.solver import Arrays, Limits, Model, Outcome, Progress, Status
from placewright.solver.backends import get_backend

OPTIMUM = np.array([3.0, 1.0])


def tiny() -> Arrays:
    """Maximise 2 x + y with x + y <= 4 and both at most 3: 7, at (3, 1)."""
    model = Model()
    columns = model.variables("x", 2, upper=3)
    model.add(model.rows("cap", 1, upper=4), columns, 1)
    model.term("value", columns, [2, 1], sense="max")
    return model.arrays("value")


def hard() -> Arrays:
    """Five sums of fifty columns in 0..1 that are to be a half of their weights: a market split."""
    weights = np.random.default_rng(0).integers(0, 100, (5, 50)).astype(float)
    half = weights.sum(axis=1) // 2
    model = Model()
    columns = model.variables("x", 50, upper=1)
    rows = model.rows("half", 5, lower=half, upper=half)
    for row, weight in zip(rows, weights, strict=True):
        model.add(row, columns, weight)
    model.term("value", columns, 1, sense="max")
    return model.arrays("value")


def outcome(arrays, values=OPTIMUM, bound=7.0, objective=None, row_duals=None):
    return Outcome(
        Status.OPTIMAL,
        values=values,
        objective=arrays.objective_of(values) if objective is None else objective,
        bound=bound,
        row_duals=row_duals,
        backend="planted",
        message=str(os.getpid()),
    )


def raises(arrays, limits, start=None, report=None):
    raise ValueError("no luck")


def answers_nothing(arrays, limits, start=None, report=None):
    return None


def hangs(arrays, limits, start=None, report=None):
    time.sleep(60)


def hangs_with_a_point(arrays, limits, start=None, report=None):
    report(Progress(0.0, np.array([2.0, 1.0]), 5.0, 7.5))
    time.sleep(60)


def hangs_with_a_lie(arrays, limits, start=None, report=None):
    report(Progress(0.0, np.array([3.0, 3.0]), 9.0, None))
    time.sleep(60)


def hangs_with_a_program(arrays, limits, start=None, report=None):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    Path(os.environ["PLANTED_FILE"]).write_text(str(child.pid))
    time.sleep(60)


def exits(arrays, limits, start=None, report=None):
    sys.stderr.write("last words\n")
    sys.stderr.flush()
    os._exit(7)


def exits_with_a_point(arrays, limits, start=None, report=None):
    report(Progress(0.0, np.array([2.0, 1.0]), 5.0, 7.5))
    os._exit(7)


def is_killed(arrays, limits, start=None, report=None):
    os.kill(os.getpid(), signal.SIGKILL)


def takes_memory(arrays, limits, start=None, report=None):
    hoard = []
    while True:
        hoard.append(np.ones(1 << 20))
        time.sleep(0.01)


def interrupts_the_round(arrays, limits, start=None, report=None):
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(60)


def lies_about_the_point(arrays, limits, start=None, report=None):
    return outcome(arrays, values=arrays.upper)


def lies_with_a_fraction(arrays, limits, start=None, report=None):
    return outcome(arrays, values=np.array([3.0, 0.5]))


def lies_about_the_shape(arrays, limits, start=None, report=None):
    return outcome(arrays, values=np.ones(3), objective=7.0)


def lies_about_the_bound(arrays, limits, start=None, report=None):
    honest = get_backend("highs")(arrays, limits, start, report)
    return replace(honest, bound=honest.objective - arrays.sign * 0.5)


def lies_with_nan(arrays, limits, start=None, report=None):
    return outcome(arrays, bound=float("nan"))


def lies_about_the_objective(arrays, limits, start=None, report=None):
    honest = get_backend("highs")(arrays, limits, start, report)
    return replace(honest, objective=1000.0)


def lies_about_the_duals(arrays, limits, start=None, report=None):
    honest = get_backend("highs")(arrays, limits, start, report)
    return replace(honest, row_duals=np.full(arrays.rows, np.inf))


def claims_the_bound_zero(arrays, limits, start=None, report=None):
    """Call the least of everything an optimum."""
    duals = None if arrays.integer.any() else np.zeros(arrays.rows)
    bound = arrays.objective_of(arrays.lower)
    return outcome(arrays, values=arrays.lower, bound=bound, row_duals=duals)


def denies(arrays, limits, start=None, report=None):
    return Outcome(Status.INFEASIBLE, backend="planted")


def denies_its_own_point(arrays, limits, start=None, report=None):
    report(Progress(0.0, OPTIMUM, 7.0, None))
    return Outcome(Status.INFEASIBLE, backend="planted")


def underbids_its_own_point(arrays, limits, start=None, report=None):
    report(Progress(0.0, OPTIMUM, 7.0, None))
    return outcome(arrays, values=np.array([2.0, 1.0]), bound=6.0)


def prints(arrays, limits, start=None, report=None):
    sys.stdout.write("noise " * 1000)
    sys.stdout.flush()
    os.write(1, b"more noise")
    os.system("echo noise of a child")
    return outcome(arrays)


def hears_an_interrupt(arrays, limits, start=None, report=None):
    os.kill(os.getpid(), signal.SIGINT)
    return outcome(arrays)


def seconds_left(arrays, limits: Limits, start=None, report=None):
    return Outcome(Status.NO_SOLUTION, message=str(limits.seconds))


def almost_integral(arrays, limits, start=None, report=None):
    return outcome(arrays, values=np.array([3.0 - 1e-7, 1.0 + 1e-7]))
