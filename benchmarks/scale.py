"""`scale`: from a file to a verified plan by the command line, with 512 to 1,000,000 GPUs.

docs/benchmarks/scale.md says what is measured.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.baselines import Answer, of_certificate
from benchmarks.compare import Runs, compared
from benchmarks.measure import REPEATS, Measured, RunError, command
from benchmarks.plots import over_size
from benchmarks.report import ERROR, OURS, Row
from placewright.instances.documents.plan import Certificate
from placewright.instances.generators.mixes import MixName

__all__ = ["Case", "cases", "draw", "run"]

SIZES = (
    (512, 400),
    (4096, 1000),
    (4096, 2000),
    (16_384, 6000),
    (100_000, 10_000),
    (100_000, 30_000),
)
HUGE = (1_000_000, 100_000)
TENANTS, SIZE_WITH_TENANTS = 6, (1024, 300)
MIXES: tuple[MixName, ...] = ("easy", "hard", "tight")
SEEDS = range(3)

CLI = "placewright.cli.app"

SECONDS, HUGE_SECONDS, QUICK_SECONDS = 15.0, 120.0, 1.5
"""Time limits of a solve, which does not count reading the round and writing the plan."""


@dataclass(frozen=True, slots=True)
class Case:
    """A round of a mix of the generator, with tenants if any, and the seconds that a solve has."""

    gpus: int
    jobs: int
    mix: MixName
    seed: int
    seconds: float = SECONDS
    tenants: int = 0

    @property
    def name(self) -> str:
        """What rows call it; the seed is named beside it."""
        tenants = f"-{self.tenants}-tenants" if self.tenants else ""
        return f"{self.mix}-{self.gpus}-{self.jobs}{tenants}"


def cases(*, quick: bool) -> list[Case]:
    """Return all cases, or the few that end within a minute."""
    if quick:
        return [
            Case(gpus, jobs, mix, SEEDS[0], QUICK_SECONDS)
            for gpus, jobs in SIZES[:2]
            for mix in MIXES
        ]
    every = [Case(gpus, jobs, mix, seed) for gpus, jobs in SIZES for mix in MIXES for seed in SEEDS]
    every += [
        Case(*SIZE_WITH_TENANTS, mix, seed, tenants=TENANTS) for mix in MIXES for seed in SEEDS
    ]
    return [*every, Case(*HUGE, "easy", SEEDS[0], HUGE_SECONDS)]


def run(chosen: Iterable[Case], *, quick: bool) -> Iterator[Row]:
    """Yield the rows of each case, as `compared` says: placewright's, then its greedy's."""
    repeats = 1 if quick else REPEATS
    for case in chosen:
        with TemporaryDirectory() as folder:
            file = Path(folder, "round.json")
            try:
                _generate(case, file)
            except RunError as error:
                yield Row(case.name, OURS, case.seed, ERROR, note=str(error))
                continue
            limits = {OURS: case.seconds, "greedy": 0.0}
            methods = {name: partial(_runs, file, limit, repeats) for name, limit in limits.items()}
            yield from compared(case.name, case.seed, methods)


def draw(rows: Sequence[Row], target: Path) -> None:
    """Draw gap and seconds over GPUs, a line per mix and method; raises as `plots` says."""
    by_name = {case.name: case for quick in (True, False) for case in cases(quick=quick)}
    over_size(
        "scale",
        rows,
        target,
        line_of=lambda row: by_name[row.case].mix,
        gpus_of=lambda row: by_name[row.case].gpus,
    )


def _generate(case: Case, file: Path) -> None:
    """Write the round in a process that ends before anything is measured."""
    size: tuple[object, ...] = ("--gpus", case.gpus, "--jobs", case.jobs)
    if case.tenants:
        size += ("--tenants", case.tenants)
    _placewright("generate", "round", *size, "--mix", case.mix, "--seed", case.seed, "-o", file)


def _runs(file: Path, limit: float, repeats: int) -> Runs:
    """Run the command as users do, several times, and once more with a clock on its stages."""
    stages = _solve(file, limit, "benchmarks.stages").result.splitlines()[-1]
    figures = {f"{stage} s": seconds for stage, seconds in json.loads(stages).items()}
    runs = [_verified(file, limit, figures) for _ in range(repeats)]
    return sorted(runs, key=lambda run: run.cpu_seconds)


def _verified(file: Path, limit: float, figures: dict[str, float]) -> Measured[Answer]:
    """Solve, and check the plan as written by another process before its certificate counts."""
    run = _solve(file, limit)
    plan = _plan_of(file)
    _placewright("verify", file, plan)
    certificate = json.loads(plan.read_text(encoding="utf-8"))["certificate"]
    answer = of_certificate(Certificate.model_validate_json(json.dumps(certificate)))
    answer = replace(answer, figures=figures)
    return Measured(answer, run.seconds, run.cpu_seconds, run.peak_mib)


def _solve(file: Path, limit: float, module: str = CLI) -> Measured[str]:
    return _placewright("solve", file, "-o", _plan_of(file), "--time-limit", limit, module=module)


def _plan_of(file: Path) -> Path:
    return file.with_name("plan.json")


def _placewright(*arguments: object, module: str = CLI) -> Measured[str]:
    return command([sys.executable, "-m", module, *map(str, arguments)])
