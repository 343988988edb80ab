"""What a run costs: each in a process of its own, so that CPU seconds and memory are its own.

Linux only: a run adopts the solver processes that it leaves behind, and the kernel's accounts of
ended processes are then complete, also for those that were killed.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import resource
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

import numpy as np

from placewright.solver import Arrays, InProcess, Limits, Model, Status
from placewright.solver.process import usage

__all__ = [
    "REPEATS",
    "Measured",
    "RunError",
    "calibration",
    "command",
    "measured",
]

REPEATS = 3
POLL_SECONDS = 0.02
"""How often the memory of a run's processes is read."""

A = TypeVar("A")
T = TypeVar("T")

_SET_CHILD_SUBREAPER = 36
"""Option of prctl(2): processes whose parent ended become children of the caller."""


class RunError(Exception):
    """A run raised, or its process died."""


@dataclass(frozen=True, slots=True)
class Measured(Generic[T]):
    """What a function returned, and what that cost in wall clock, CPU and memory.

    `peak_mib` adds up the peaks of all processes of all repetitions, Python included: an upper
    estimate of what was in use at one time.
    """

    result: T
    seconds: float
    cpu_seconds: float
    peak_mib: float


def measured(
    prepare: Callable[[], A], function: Callable[[A], T], repeats: int = REPEATS
) -> list[Measured[T]]:
    """Call a function several times in one fresh process; the results by rising CPU seconds.

    Parameters
    ----------
    prepare
        Makes the argument, once, outside what is measured.
    function
        Loading what it needs is part of its first call only, so that the median
        (`[repeats // 2]`) does not count it. Both are picklable, as is the result.

    Raises
    ------
    RunError
        If a call raises or the process ends.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_calls, args=(theirs, prepare, function, repeats))
    process.start()
    theirs.close()
    peak = 0.0
    try:
        while not ours.poll(POLL_SECONDS):
            peak = max(peak, usage(process.pid or 0).peak_mib)
        answer = ours.recv()
    except EOFError:
        process.join()
        raise RunError(f"the run's process ended with exit code {process.exitcode}") from None
    finally:
        process.join()
    if isinstance(answer, str):
        raise RunError(answer)
    runs = [Measured(r, wall, cpu, max(peak, own)) for r, wall, cpu, own in answer]
    return sorted(runs, key=lambda run: run.cpu_seconds)


def _calls(
    pipe: Connection, prepare: Callable[[], A], function: Callable[[A], T], repeats: int
) -> None:
    """Call in this process; send the results with seconds, CPU seconds and MiB, or an error."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
    results: list[tuple[T, float, float, float]] = []
    try:
        argument = prepare()
        for _ in range(repeats):
            began, cpu = time.perf_counter(), _cpu_seconds()
            result = function(argument)
            seconds = time.perf_counter() - began
            results.append((result, seconds, _cpu_seconds() - cpu, _peak_mib()))
    except Exception as error:  # noqa: BLE001 - whatever it is, the report names it
        known = isinstance(error, RunError)
        pipe.send(str(error) if known else f"{type(error).__name__}: {error}")
    else:
        pipe.send(results)


def command(arguments: Sequence[str]) -> Measured[str]:
    """Run a command; what it prints to stdout, and what it costs with all that it starts.

    Raises
    ------
    RunError
        If it exits with another code than 0; the message ends with its last words on stderr.
    """
    (run,) = measured(partial(list, arguments), _printed, 1)
    printed, own_mib = run.result
    return Measured(printed, run.seconds, run.cpu_seconds, run.peak_mib - own_mib)


def _printed(arguments: Sequence[str]) -> tuple[str, float]:
    """Return what a command prints, and the peak of this process, which is not the command's."""
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if any(map(str.isalnum, line))]
        last = said[-1].strip("│ ") if said else "nothing on stderr"
        raise RunError(f"exit code {done.returncode}: {last}")
    return done.stdout, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _cpu_seconds() -> float:
    """CPU seconds of this process and its children, once all of these have ended."""
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _peak_mib() -> float:
    """Peak of this process plus that of its largest child; what polling missed if all was brief."""
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(resource.getrusage(who).ru_maxrss for who in whose) / 1024


def calibration() -> float:
    """CPU seconds (median) that HiGHS needs for one fixed linear program on this machine."""
    return measured(_fixed_program, _solve)[REPEATS // 2].cpu_seconds


def _fixed_program() -> Arrays:
    """Return a transport problem with 150 sources and 500 sinks; the same numbers everywhere."""
    sources, sinks = 150, 500
    draw = np.random.Generator(np.random.PCG64(1)).random(sources * sinks)
    model = Model()
    flow = model.variables("flow", sources * sinks, integer=False)
    given = model.rows("given", sources, upper=sinks)
    wanted = model.rows("wanted", sinks, lower=sources * 0.9)
    model.add(np.repeat(given, sinks), flow, 1.0)
    model.add(np.tile(wanted, sources), flow, 1.0)
    model.term("cost", flow, 1 + np.floor(draw * 1000), sense="min")
    return model.arrays("cost")


def _solve(program: Arrays) -> None:
    outcome = InProcess().solve("highs", program, Limits(seconds=600.0))
    if outcome.status is not Status.OPTIMAL:
        raise RunError(f"the fixed program ended as {outcome.status}; an optimum was expected")
