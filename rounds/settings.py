"""How a round is searched: limits and solver, and the session that follows from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

from placewright.formulations.session import Session
from placewright.instances.round import Round
from placewright.rounds.usage import Meter
from placewright.solver import InProcess, Worker

BACKENDS = ("auto", "highs", "cp-sat", "cbc", "scip")
DEFAULT_BACKEND = "highs"

Isolation: TypeAlias = Literal["process", "none"]
Solver: TypeAlias = Worker | InProcess


@dataclass(frozen=True, slots=True)
class Settings:
    """What the caller asked for; the round's own limits stand in for what was left out."""

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
        """Fill in the round's limits; ValueError for an unknown backend."""
        if backend not in BACKENDS:
            raise ValueError(f"backend {backend!r} is unknown; expected one of {BACKENDS}")
        limits = round_.limits
        return cls(
            seconds=limits.time_s if time_limit is None else time_limit,
            gap=limits.gap if gap is None else gap,
            backend=DEFAULT_BACKEND if backend == "auto" else backend,
            seed=limits.seed if seed is None else seed,
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
        """Open a session whose clock started with the meter; a solver not given ends with it."""
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
