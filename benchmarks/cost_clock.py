"""A solve with a CPU clock on its stages, in this process; for `costs`.

It imports nothing of the benchmarks but the clock, so that another version of the package can be
timed.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from importlib import import_module
from pathlib import Path

from benchmarks.clocked import Clock, watch

STAGES = {
    "compile": ("placewright.formulations.gang.problem.compile:Compiler.__call__",),
    "lawful": ("placewright.rounds.displacement.victims:lawful",),
    "names": ("placewright.rounds.displacement.victims:displacers",),
    "reasons": ("placewright.rounds.sections.reasons:reasons_of",),
    "verify": ("placewright.instances.verify:verify",),
}
"""Functions whose time is told apart, by stage; the rest of a solve is `search`."""


def _main(file: str, seconds: str) -> None:
    from placewright import load_round, solve_round
    from placewright.solver.process import usage

    stages = {"import": time.process_time()}
    round_ = load_round(Path(file))
    stages["load"] = time.process_time() - stages["import"]
    import_module("placewright.rounds.deciders.gang")
    clock = Clock(STAGES, "search", time.thread_time)
    watch(clock, STAGES)
    began, clock_began = time.monotonic(), time.process_time()
    values: list[tuple[float, float | None]] = []

    def note(value: float | None, _: float | None) -> None:
        if not values or values[-1][1] != value:
            values.append((usage(os.getpid()).cpu_seconds, value))

    plan = solve_round(round_, time_limit=float(seconds), progress=note)
    counted = clock.read()
    certificate = plan.certificate
    assert certificate is not None and certificate.run is not None
    stages |= {name: counted[name] for name in ("search", *STAGES)}
    stages["solver"] = certificate.run.cpu_s - (time.process_time() - clock_began)
    found = {
        "all": sum(stages.values()),
        "wall": time.monotonic() - began,
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "status": certificate.status,
        "terms": [term.model_dump() for term in certificate.terms],
        "stages": stages,
        "values": values,
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    _main(*sys.argv[1:])
