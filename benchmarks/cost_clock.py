"""A solve with a CPU clock on its stages, in this process; for `costs`.

It imports nothing else of the benchmarks, so that another version of the package can be timed.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

STAGES = {
    "compile": ("placewright.formulations.gang.problem.compile", "Compiler.__call__"),
    "lawful": ("placewright.rounds.displacement.victims", "lawful"),
    "names": ("placewright.rounds.displacement.victims", "displacers"),
    "reasons": ("placewright.rounds.sections.reasons", "reasons_of"),
    "verify": ("placewright.instances.verify", "verify"),
}
"""Functions whose time is told apart, by stage; the rest of a solve is `search`."""


class _Clock:
    """CPU seconds of the main thread by stage; the innermost one counts."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._running, self._since = ["search"], time.thread_time()

    def settle(self) -> None:
        """Count the time since it was last settled."""
        now = time.thread_time()
        self.seconds[self._running[-1]] += now - self._since
        self._since = now

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, with its time counted."""

        @wraps(function)
        def counted(*args: Any, **more: Any) -> Any:
            self.settle()
            self._running.append(stage)
            try:
                return function(*args, **more)
            finally:
                self.settle()
                self._running.pop()

        return counted

    def watch(self, stage: str, module: str, name: str) -> None:
        """Count a function wherever a module that is loaded has it."""
        owner: Any = import_module(module)
        if "." in name:
            kind, name = name.split(".")
            owner = getattr(owner, kind)
            setattr(owner, name, self.timed(stage, getattr(owner, name)))
            return
        honest = getattr(owner, name)
        counted = self.timed(stage, honest)
        for one in [m for key, m in sys.modules.items() if key.startswith("placewright")]:
            if getattr(one, name, None) is honest:
                setattr(one, name, counted)


def _main(file: str, seconds: str) -> None:
    from placewright import load_round, solve_round

    stages = {"import": time.process_time()}
    round_ = load_round(Path(file))
    stages["load"] = time.process_time() - stages["import"]
    import_module("placewright.rounds.deciders.gang")
    clock = _Clock()
    for stage, (module, name) in STAGES.items():
        clock.watch(stage, module, name)
    began, clock_began = time.monotonic(), time.process_time()
    plan = solve_round(round_, time_limit=float(seconds))
    clock.settle()
    certificate = plan.certificate
    assert certificate is not None and certificate.run is not None
    stages |= {name: clock.seconds[name] for name in ("search", *STAGES)}
    stages["solver"] = certificate.run.cpu_s - (time.process_time() - clock_began)
    found = {
        "all": sum(stages.values()),
        "wall": time.monotonic() - began,
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "status": certificate.status,
        "terms": [term.model_dump() for term in certificate.terms],
        "stages": stages,
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    _main(*sys.argv[1:])
