"""`first-round`: a round of `replicas` with machine code there and without, at the same limits.

Each solve is a process of its own, with a cache of machine code of its own: empty, or filled by the
documented command.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from benchmarks import geo
from benchmarks.measure import RunError, command
from benchmarks.report import ERROR, Row
from benchmarks.scale import CLI
from placewright.instances.io.files import json_text

PREPARE = (sys.executable, "-m", "placewright.formulations.replicas.machine_code")
LIMITS_S, QUICK_LIMITS_S = (20, 60), (20,)


@dataclass(frozen=True, slots=True)
class Case:
    """A time limit, and whether machine code is there."""

    limit_s: int
    warm: bool

    @property
    def name(self) -> str:
        """What rows call it."""
        return f"{self.limit_s}s-{'warm' if self.warm else 'cold'}"


def cases(*, quick: bool) -> list[Case]:
    """Return all cases."""
    limits = QUICK_LIMITS_S if quick else LIMITS_S
    return [Case(limit, warm) for limit in limits for warm in (False, True)]


def run(chosen: Sequence[Case], *, quick: bool) -> Iterator[Row]:  # noqa: ARG001
    """Yield a row per case: the terms of the plan, and what went wrong on the way."""
    with TemporaryDirectory() as folder:
        round_file = Path(folder, "round.json")
        made = geo.Case("slow", 10, 100, 1000, 5000, "spare", 0, 0.0).make()
        round_file.write_text(json_text(made))
        for case in chosen:
            cache, plan = Path(folder, case.name), Path(folder, f"{case.name}.json")
            cache.mkdir()
            try:
                with patch.dict(os.environ, {"NUMBA_CACHE_DIR": str(cache)}):
                    if case.warm:
                        command(PREPARE)
                    words = ("solve", str(round_file), "-o", str(plan))
                    limit = ("--time-limit", str(case.limit_s))
                    found = command((sys.executable, "-m", CLI, *words, *limit))
            except RunError as error:
                yield Row(case.name, "placewright", None, ERROR, note=str(error))
                continue
            certificate = json.loads(plan.read_text())["certificate"]
            yield Row(
                case.name,
                "placewright",
                0,
                "done",
                seconds=found.seconds,
                cpu_seconds=found.cpu_seconds,
                peak_mib=found.peak_mib,
                figures={term["name"]: term["value"] for term in certificate["terms"]},
                note="; ".join(certificate.get("degraded", ())),
            )
