"""What a round cost: wall clock, CPU seconds and peak memory, solver processes included."""

from __future__ import annotations

import resource
import time
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from placewright.instances.documents.plan import Run
from placewright.solver import Worker

_PACKAGES = {"highs": "highspy", "cp-sat": "ortools", "cbc": "pulp", "scip": "ortools"}
"""The package that each backend comes with."""


class Meter:
    """Measures the process and its workers from the meter's creation on."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self._worker: Worker | None = None
        self._cpu = time.process_time()

    def watch(self, worker: Worker) -> None:
        """Count the usage of a worker process from now on."""
        self._worker = worker
        self._cpu += worker.cpu_seconds()

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
