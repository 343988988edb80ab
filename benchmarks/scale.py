"""`scale`: from a file to a verified plan by the command line, with 64 to 1,000,000 GPUs.

docs/benchmarks/results.md has what it found.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.baselines import Answer, greedy_preemption, literal, of_certificate
from benchmarks.compare import Runs, compared
from benchmarks.measure import REPEATS, Measured, RunError, command, measured
from benchmarks.plots import over_size
from benchmarks.report import ERROR, OURS, Row
from placewright import Round, load_round
from placewright.instances.documents.plan import Certificate
from placewright.instances.generators.gang import MixName

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
COMMON_SIZES = (64, 128, 256, 512, 1024)
"""GPUs of the clusters that most people have; two pending jobs for five of them."""

COMMON_MIXES: tuple[tuple[MixName, int], ...] = (
    ("easy", 0), ("hard", 0), ("tight", 0), ("shared", 0), ("tight", 3), ("tight", 6),
)  # fmt: skip
"""Their mixes, and how many tenants have quotas."""

COMMON_SEEDS = range(10)
COMMON_SECONDS = (2.0, 10.0, 60.0)
RIVALS = ("cp-sat", "highs")
"""Solvers that get the literal program of a common size."""

MIXES: tuple[MixName, ...] = ("easy", "hard", "tight")
SEEDS = range(3)

CLI = "placewright.cli.app"

SECONDS, HUGE_SECONDS, QUICK_SECONDS = 15.0, 120.0, 1.5
"""Time limits of a solve, which does not count reading the round and writing the plan."""


@dataclass(frozen=True, slots=True)
class Case:
    """A round of a mix of the generator, with tenants if any, and the seconds that a solve has.

    The other methods of baselines.py are asked, too, if it is one of a `common` size.
    """

    gpus: int
    jobs: int
    mix: MixName
    seed: int
    seconds: float = SECONDS
    tenants: int = 0
    common: bool = False

    @property
    def name(self) -> str:
        """What rows call it; the seed is named beside it."""
        name = f"{self.mix}-{self.gpus}-{self.jobs}"
        if self.tenants:
            name += f"-{self.tenants}-tenants"
        return f"common-{name}-{self.seconds:g}s" if self.common else name


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
    common = [
        Case(gpus, gpus * 2 // 5, mix, seed, seconds, tenants, common=True)
        for gpus in COMMON_SIZES
        for mix, tenants in COMMON_MIXES
        for seed in COMMON_SEEDS
        for seconds in COMMON_SECONDS
    ]
    return [*every, Case(*HUGE, "easy", SEEDS[0], HUGE_SECONDS), *common]


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
            methods: dict[str, Callable[[], Runs]] = {
                name: partial(_runs, file, limit, repeats) for name, limit in limits.items()
            }
            if case.common:
                methods = {
                    name: partial(_once, file, limit) for name, limit in limits.items()
                } | _rivals(file, case.seconds)
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


def _rivals(file: Path, seconds: float) -> dict[str, Callable[[], Runs]]:
    """Return the literal program with each solver, and greedy preemption, one call each."""
    ways: dict[str, Callable[[Round], Answer]] = {
        name: partial(literal, name, seconds) for name in RIVALS
    }
    ways["greedy preemption"] = greedy_preemption
    return {
        name: partial(measured, partial(load_round, file), way, 1) for name, way in ways.items()
    }


def _generate(case: Case, file: Path) -> None:
    """Write the round in a process that ends before anything is measured."""
    size = ("--gpus", case.gpus, "--jobs", case.jobs)
    tenants = ("--tenants", case.tenants) if case.tenants else ()
    _placewright(
        "generate", "round", *size, "--mix", case.mix, "--seed", case.seed, *tenants, "-o", file
    )


def _runs(file: Path, limit: float, repeats: int) -> Runs:
    """Run the command as users do, several times, and once more with a clock on its stages."""
    stages = _solve(file, limit, "benchmarks.clocked").result.splitlines()[-1]
    figures = {f"{stage} s": seconds for stage, seconds in json.loads(stages).items()}
    runs = [_verified(file, limit, figures) for _ in range(repeats)]
    return sorted(runs, key=lambda run: run.cpu_seconds)


def _once(file: Path, limit: float) -> Runs:
    return [_verified(file, limit, {})]


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
