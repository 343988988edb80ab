"""How a round is searched: limits, solver, the session that follows; and what it has cost."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from numbers import Integral, Real
from typing import Any, Literal, Self, TypeAlias

from placewright.formulations.session import Session
from placewright.instances.documents.plan import Plan, Run
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.solver import InProcess, Worker


class InternalError(RuntimeError):
    """A bug: no candidate is valid, the last verification fails, or a plan beats a certified bound.

    `plan` is the best verified plan that was known then, if there was one.
    """

    def __init__(self, message: str, plan: Plan | None = None) -> None:
        super().__init__(message)
        self.plan = plan


_PACKAGES = {"highs": "highspy", "cp-sat": "ortools", "cbc": "pulp", "scip": "ortools"}
"""The package that each backend comes with."""


class Meter:
    """Measures the process and its workers from the meter's creation on."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self._worker: Worker | None = None
        self._cpu = self._own = time.process_time()

    def watch(self, worker: Worker) -> None:
        """Count the usage of a worker process from now on."""
        self._worker = worker
        self._cpu += worker.cpu_seconds()

    def seconds(self) -> float:
        """Return the CPU seconds of this process so far."""
        return time.process_time() - self._own

    def read(self) -> Run:
        """Cost so far. Peak memory is that of this process in its life plus the worker's."""
        cpu = time.process_time() - self._cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        if self._worker is not None:
            cpu += self._worker.cpu_seconds()
            peak += self._worker.peak_mib()
        return Run(
            wall_s=round(time.monotonic() - self.started, 3),
            cpu_s=round(cpu, 3),
            peak_mib=round(peak, 1),
        )


def versions(backend: str) -> dict[str, str]:
    """Versions of what made the plan."""
    return {package: _version(package) for package in ("placewright", _PACKAGES[backend])}


@cache
def _version(package: str) -> str:
    """Look a version up once, as that reads files."""
    try:
        return version(package)
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"


BACKENDS = ("auto", "highs", "cp-sat", "cbc", "scip")
DEFAULT_BACKEND = "highs"

ISOLATIONS = ("auto", "process", "none")
SMALL_JOBS = 1000
"""Jobs of a round whose models may be small enough to need no process."""

MOST_SECONDS, MOST_SEED = 86_400, 2**31 - 1
"""The largest time limit and seed; `documents/round.py` allows a round's own limits no more."""

Isolation: TypeAlias = Literal["auto", "process", "none"]
Solver: TypeAlias = Worker | InProcess


@dataclass(frozen=True, slots=True)
class Settings:
    """Search limits and solver; what the caller leaves out comes from the round's own limits."""

    seconds: float
    gap: float
    backend: str
    seed: int
    deterministic: bool
    memory_mib: int | None
    isolation: Isolation
    is_small: bool = False

    @classmethod
    def of(
        cls,
        round_: Round,
        *,
        time_limit: float | None = None,
        gap: float | None = None,
        backend: str = "auto",
        seed: int | None = None,
        deterministic: bool | None = None,
        isolation: Isolation = "auto",
    ) -> Self:
        """Fill in the round's limits.

        Raises InvalidInputError if an argument is out of its range.
        """
        _check_one_of("backend", backend, BACKENDS)
        _check_one_of("isolation", isolation, ISOLATIONS)
        if not isinstance(deterministic, bool | None):
            raise _refused("deterministic", deterministic, "expected true or false")
        limits = round_.limits
        return cls(
            seconds=float(_within("time_limit", time_limit, MOST_SECONDS, limits.time_s)),
            gap=float(_within("gap", gap, 1, limits.gap)),
            backend=DEFAULT_BACKEND if backend == "auto" else backend,
            seed=int(_within("seed", seed, MOST_SEED, limits.seed, whole=True)),
            deterministic=limits.deterministic if deterministic is None else deterministic,
            memory_mib=limits.memory_mib,
            isolation=isolation,
            is_small=len(round_.jobs) <= SMALL_JOBS,
        )

    def solver(self) -> Solver:
        """Make what runs the backend; a process is started ahead of its first model.

        Not in a small round, most of which need none.
        """
        if self.isolation == "none":
            return InProcess()
        tries_here = self.isolation == "auto" and self.is_small
        worker = Worker(tries_here=tries_here)
        if self.seconds > 0 and not tries_here:
            worker.warm(self.backend)
        return worker

    @contextmanager
    def session(self, meter: Meter, solver: Solver | None = None) -> Iterator[Session]:
        """Open a session whose clock began with the meter; it ends a solver that was not given."""
        own = self.solver() if solver is None else solver
        if isinstance(own, Worker):
            meter.watch(own)
        try:
            yield Session(
                solve=own.solve,
                deadline=meter.started + self.seconds,
                backend=self.backend,
                gap=self.gap,
                seed=self.seed,
                deterministic=self.deterministic,
                memory_mib=self.memory_mib,
                budget=self.seconds,
            )
        finally:
            if isinstance(own, Worker) and solver is None:
                own.close()


def _check_one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in known:
        raise _refused(name, value, f"expected one of {', '.join(known)}")


def _within(name: str, value: object, most: int, default: float, *, whole: bool = False) -> Any:
    """Return a number from 0 to `most`, the default for None."""
    if value is None:
        return default
    number: Any = value
    kind = Integral if whole else Real
    if isinstance(value, bool) or not isinstance(value, kind) or not 0 <= number <= most:
        what = "whole number" if whole else "number"
        raise _refused(name, value, f"expected a {what} from 0 to {most}")
    return number


def _refused(name: str, value: object, expected: str) -> InvalidInputError:
    return InvalidInputError(expected, path=(name,), value=value)
