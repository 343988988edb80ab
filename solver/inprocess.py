"""Solve in this process: no isolation, for tests, tiny models and inside executor workers."""

from __future__ import annotations

import time
from typing import Self

from placewright.array_types import Floats
from placewright.solver.arrays import Arrays
from placewright.solver.audit import audit, known_objective
from placewright.solver.backends import Report, get_backend
from placewright.solver.errors import BackendUnavailableError, UnsupportedModelError
from placewright.solver.outcome import Limits, Outcome, Status

__all__ = ["InProcess", "attempt"]


def attempt(
    backend: str, arrays: Arrays, limits: Limits, start: Floats | None, report: Report | None
) -> Outcome:
    """Call a backend by name; whatever it raises becomes status FAILED.

    Raises
    ------
    BackendUnavailableError, UnsupportedModelError
        These two are for the caller.
    """
    call = get_backend(backend)
    began = time.monotonic()
    try:
        outcome = call(arrays, limits, start, report)
        if not isinstance(outcome, Outcome):
            raise TypeError(f"answer {type(outcome).__name__} is no outcome; Outcome was expected")
    except (BackendUnavailableError, UnsupportedModelError):
        raise
    # A backend may raise anything, and that must not end the round.
    except Exception as error:  # noqa: BLE001
        return Outcome(
            Status.FAILED,
            message=f"backend {backend!r} raised {type(error).__name__}: {error}",
            seconds=time.monotonic() - began,
            backend=backend,
        )
    return outcome


class InProcess:
    """The same methods as `Worker`, but nothing stops a backend that ignores its limits."""

    def solve(
        self,
        backend: str,
        arrays: Arrays,
        limits: Limits,
        start: Floats | None = None,
        report: Report | None = None,
    ) -> Outcome:
        """Solve and check, as `Worker.solve`; `Limits.memory_mib` is not kept."""
        outcome = attempt(backend, arrays, limits, start, report)
        return audit(arrays, outcome, known_objective(arrays, start))

    def warm(self, backend: str) -> None:
        """Load a backend now, so that the first solve does not pay for it."""
        get_backend(backend)

    def close(self) -> None:
        """Do nothing: there is no process to end."""

    def cpu_seconds(self) -> float:
        """Give 0.0: there is no child process."""
        return 0.0

    def peak_mib(self) -> float:
        """Give 0.0: there is no child process."""
        return 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
