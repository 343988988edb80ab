"""Backends that misbehave, for the tests of the worker; the model is always that of `tiny`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from placewright.solver import Arrays, Limits, Model, Outcome, Progress, Status

OPTIMUM = np.array([3.0, 1.0])


def tiny() -> Arrays:
    """Maximise 2 x + y with x + y <= 4 and both at most 3: 7, at (3, 1)."""
    model = Model()
    columns = model.variables("x", 2, upper=3)
    model.add(model.rows("cap", 1, upper=4), columns, 1)
    model.term("value", columns, [2, 1], sense="max")
    return model.arrays("value")


def outcome(arrays, values=OPTIMUM, bound=7.0, objective=None):
    return Outcome(
        Status.OPTIMAL,
        values=values,
        objective=arrays.objective_of(values) if objective is None else objective,
        bound=bound,
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


def lies_about_the_point(arrays, limits, start=None, report=None):
    return outcome(arrays, values=np.array([3.0, 3.0]))


def lies_with_a_fraction(arrays, limits, start=None, report=None):
    return outcome(arrays, values=np.array([3.0, 0.5]))


def lies_about_the_shape(arrays, limits, start=None, report=None):
    return outcome(arrays, values=np.ones(3), objective=7.0)


def lies_about_the_bound(arrays, limits, start=None, report=None):
    return outcome(arrays, bound=6.5)


def lies_with_nan(arrays, limits, start=None, report=None):
    return outcome(arrays, bound=float("nan"))


def lies_about_the_objective(arrays, limits, start=None, report=None):
    return outcome(arrays, objective=1000.0)


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
