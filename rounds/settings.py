"""How a round is searched: limits and solver, and the session that follows from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, Self, TypeAlias

from placewright.formulations.session import Session
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.rounds.usage import Meter
from placewright.solver import InProcess, Worker

BACKENDS = ("auto", "highs", "cp-sat", "cbc", "scip")
DEFAULT_BACKEND = "highs"

ISOLATIONS = ("process", "none")
MOST_SECONDS, MOST_SEED = 86_400, 2**31 - 1
"""The largest time limit and seed; `documents/round.py` allows a round's own limits no more."""

Isolation: TypeAlias = Literal["process", "none"]
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
        isolation: Isolation = "process",
    ) -> Self:
        """Fill in the round's limits.

        Raises
        ------
        InvalidInputError
            If an argument is out of its range.
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
        )

    def solver(self) -> Solver:
        """Make what runs the backend; a process is started ahead of its first model."""
        if self.isolation == "none":
            return InProcess()
        worker = Worker()
        if self.seconds > 0:
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
