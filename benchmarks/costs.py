"""Benchmark `costs`: CPU seconds of a solve by stage, of this version and, in turns, of another.

`to value`: CPU seconds from the start until the first term is as good as both versions get it.
`PLACEWRIGHT_BASELINE` names the `src` folder of another checkout. Each solve runs in a process of
its own, whose main thread has a CPU clock on the stages; the innermost stage counts. So the figures
of both versions can be compared on a busy machine, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.report import ERROR, Row

__all__ = ["Case", "cases", "run"]

BASELINE = "PLACEWRIGHT_BASELINE"
OURS = Path(__file__).parents[1]
REPEATS = 3


@dataclass(frozen=True, slots=True)
class Case:
    """A generated round, and the time limit of its solve in seconds."""

    gpus: int
    jobs: int
    mix: Any
    seconds: float = 200.0
    strict: bool = False

    @property
    def name(self) -> str:
        """Name of the case."""
        return f"{'strict' if self.strict else self.mix}-{self.gpus}-{self.jobs}"

    def write(self, file: Path) -> None:
        """Write the round."""
        from placewright.instances.generators.gang import generate_round
        from placewright.instances.io.files import write

        round_ = generate_round(self.gpus, self.jobs, mix=self.mix, seed=31)
        if self.strict:
            jobs = (j.model_copy(update={"priority": i % 3}) for i, j in enumerate(round_.jobs))
            policy = round_.policy.model_copy(update={"priority": "strict"})
            round_ = round_.model_copy(update={"jobs": tuple(jobs), "policy": policy})
        write(round_, file)


def cases(*, quick: bool) -> list[Case]:
    """Return the rounds; a small one with `quick`."""
    if quick:
        return [Case(512, 150, "tight", 5.0)]
    sizes = ((4096, 1000), (16_384, 4000), (100_000, 10_000))
    found = [Case(*size, mix) for size in sizes for mix in ("easy", "hard", "tight")]
    return [*found, Case(16_384, 4000, "easy", 60.0, strict=True)]


def run(chosen: Iterable[Case], *, quick: bool) -> Iterator[Row]:
    """Yield a row per version and case, of the run with the median CPU seconds."""
    versions = {"now": OURS / "src"}
    if BASELINE in os.environ:
        versions = {"before": Path(os.environ[BASELINE])} | versions
    for case in chosen:
        with TemporaryDirectory() as folder:
            file = Path(folder) / "round.json"
            case.write(file)
            found: dict[str, list[dict[str, Any]]] = {name: [] for name in versions}
            for _ in range(1 if quick else REPEATS):
                for name, path in versions.items():
                    found[name].append(_solved(path, file, case.seconds))
        medians = {name: _median(runs) for name, runs in found.items()}
        least = min(
            (made["terms"][0]["value"] for made in medians.values() if "terms" in made), default=0
        )
        for name, made in medians.items():
            yield _row(case, name, made, least)


def _median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return sorted(runs, key=lambda one: one.get("all", 0.0))[len(runs) // 2]


def _row(case: Case, method: str, made: dict[str, Any], least: int) -> Row:
    if "error" in made:
        return Row(case.name, method, 31, ERROR, note=made["error"])
    term = made["terms"][0]
    return Row(
        case.name,
        method,
        31,
        made["status"],
        term["name"],
        term["sense"],
        term["value"],
        term["bound"],
        term["gap"],
        seconds=made["wall"],
        cpu_seconds=made["all"],
        peak_mib=made["mib"],
        figures={stage: round(seconds, 2) for stage, seconds in made["stages"].items()}
        | {
            "to value": round(min(cpu for cpu, value in made["values"] if (value or 0) >= least), 2)
        },
    )


def _solved(path: Path, file: Path, seconds: float) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{OURS}"}
    arguments = [sys.executable, "-m", "benchmarks.cost_clock", str(file), str(seconds)]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": (done.stderr.splitlines() or ["nothing on stderr"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found
