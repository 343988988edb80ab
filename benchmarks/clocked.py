"""`python -m benchmarks.clocked ARGUMENTS`: the command line as it is, with a clock on its stages.

The last line that it prints is a JSON object of seconds per stage. The library knows nothing of
this: the functions named here are replaced, in this process, by ones that tell the clock.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pkgutil import resolve_name
from typing import ParamSpec, TypeVar

__all__ = ["OTHER", "STAGES", "Clock", "main", "watch"]

P = ParamSpec("P")
R = TypeVar("R")

STAGES: Mapping[str, tuple[str, ...]] = {
    "reading": ("placewright.instances.io.files:load_round",),
    "building": (
        "placewright.formulations.gang.problem.compile:compile_round",
        "placewright.formulations.gang.models.aggregate.model:build_aggregate_model",
        "placewright.formulations.gang.models.host.model:build_host_model",
        "placewright.solver.model:Model.arrays",
    ),
    "solving": ("placewright.solver.process:Worker.solve",),
    "expanding": (
        "placewright.formulations.gang.heuristics.disaggregation:disaggregate",
        "placewright.formulations.gang.models.host.solve:start_jobs",
    ),
    "verifying": ("placewright.instances.verify:verify",),
}
"""What makes up a stage; within one another they count for the inner one."""

OTHER = "other"
"""Everything else: imports, greedy, pricing, repair, reasons, writing and printing the plan."""


class Clock:
    """Gives each moment since its creation to one stage, the innermost that runs.

    Parameters
    ----------
    stages, other
        Names of the stages, and of what is in none of them.
    now
        The seconds by which it goes: of a wall clock, or of CPU.
    """

    def __init__(self, stages: Iterable[str], other: str, now: Callable[[], float]) -> None:
        self._seconds = dict.fromkeys((*stages, other), 0.0)
        self._running = [other]
        self._now = now
        self._since = now()

    def timed(self, stage: str, function: Callable[P, R]) -> Callable[P, R]:
        """Return a function that does the same, on the time of this stage."""

        @wraps(function)
        def watched(*args: P.args, **kwargs: P.kwargs) -> R:
            self._settle()
            self._running.append(stage)
            try:
                return function(*args, **kwargs)
            finally:
                self._settle()
                self._running.pop()

        return watched

    def read(self) -> dict[str, float]:
        """Return the seconds of each stage so far."""
        self._settle()
        return dict(self._seconds)

    def _settle(self) -> None:
        now = self._now()
        self._seconds[self._running[-1]] += now - self._since
        self._since = now


def watch(clock: Clock, stages: Mapping[str, tuple[str, ...]]) -> None:
    """Replace every function of some stages wherever a module of placewright has it.

    Raises
    ------
    ImportError, AttributeError
        If one does not exist.
    """
    watched = [(stage, name) for stage, names in stages.items() for name in names]
    found = [(stage, name, resolve_name(name)) for stage, name in watched]
    for stage, name, function in found:
        timed = clock.timed(stage, function)
        owner, _, method = name.rpartition(".")
        if ":" in owner:
            setattr(resolve_name(owner), method, timed)
            continue
        for module in [m for n, m in sys.modules.items() if n.split(".")[0] == "placewright"]:
            for key in [k for k, value in vars(module).items() if value is function]:
                setattr(module, key, timed)


def main() -> int:
    """Run the command line and return its exit code."""
    clock = Clock(STAGES, OTHER, time.perf_counter)
    watch(clock, STAGES)
    from placewright.cli.app import main as run

    code = run(sys.argv[1:])
    print(json.dumps(clock.read()))
    return code


if __name__ == "__main__":
    sys.exit(main())
