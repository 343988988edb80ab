"""`geo`: which region runs which job, and where data lives, placewright beside rules; then both.

docs/benchmarks/results.md has what it found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from benchmarks import region_rules, replica_rules
from benchmarks.baselines import Answer
from benchmarks.geo_answers import answers, placed, placewright, ruled
from benchmarks.geo_chain import as_it_lies, both_paths
from benchmarks.measure import measured
from benchmarks.report import OURS, SKIPPED, Row
from placewright import Round
from placewright.instances.converters import read_itp
from placewright.instances.generators.geo import MixName, PolicyName, generate

__all__ = ["Case", "cases", "run"]

Way: TypeAlias = Literal["fast", "slow", "chain"]

FAST = (
    (10, 100, 1000, 5000),
    (10, 400, 10_000, 50_000),
    (20, 1000, 20_000, 100_000),
    (30, 2000, 50_000, 250_000),
    (30, 2000, 100_000, 250_000),
)
SLOW = ((10, 100, 1000, 5000), (20, 400, 10_000, 50_000), (30, 2000, 50_000, 250_000))
CHAIN = SLOW[:2]
"""Regions, datasets, jobs and GPUs."""

MIXES: tuple[MixName, ...] = ("spare", "scarce")
SEEDS = range(3)

CLUSTERS = Path(__file__).parents[2] / "shared/data/traces/elasticflow/raw"
NUMBERS = ("03", "06", "10")
REGIONS, DATASETS = 10, 100
"""Of the rounds of real clusters."""

FAST_SECONDS, SLOW_SECONDS = (30.0, 60.0), (58.0, 600.0)
"""Of wall clock, for the smallest rounds and for larger ones.

Two less than a minute leave room for processes that start side by side within 60 CPU seconds.
"""

QUICK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Case:
    """A generated round of a path, and the time limit of its solve in seconds."""

    path: Way
    regions: int
    datasets: int
    jobs: int
    gpus: int
    mix: MixName
    seed: int
    seconds: float

    @property
    def name(self) -> str:
        """What rows call it; the seed is named beside it."""
        return f"{self.path}-{self.mix}-{self.regions}-{self.jobs}"

    @property
    def policy(self) -> PolicyName:
        """That of the round."""
        return "geo" if self.path == "fast" else "replicas"

    def make(self) -> Round:
        """Return the round."""
        return generate(
            regions=self.regions,
            datasets=self.datasets,
            jobs=self.jobs,
            gpus=self.gpus,
            mix=self.mix,
            seed=self.seed,
            policy=self.policy,
        )

    def rows(self) -> Iterator[Row]:
        """Yield the rows of all methods."""
        functions: dict[str, Callable[[Round], Answer]] = {OURS: partial(placewright, self.seconds)}
        if self.path == "fast":
            rules = region_rules.RULES.items()
            functions.update((name, partial(ruled, rule)) for name, rule in rules)
        else:
            planners = replica_rules.RULES.items()
            functions.update((name, partial(placed, planner)) for name, planner in planners)
        methods = {
            name: partial(measured, self.make, function, 1) for name, function in functions.items()
        }
        yield from answers(self.name, self.seed, methods)


@dataclass(frozen=True, slots=True)
class Chain(Case):
    """A round of the slow path whose plan is carried out before a round of the fast path."""

    def rows(self) -> Iterator[Row]:
        """Yield the row of both paths, and of the fast one on data as it lies.

        They are not compared: what is proven of jobs holds for the data that they find.
        """
        seconds = min(self.seconds, _limit(FAST_SECONDS, self.jobs))
        functions = {
            OURS: partial(both_paths, self.seconds, seconds),
            "stay": partial(as_it_lies, seconds),
        }
        for name, function in functions.items():
            method = partial(measured, self.make, function, 1)
            yield from answers(self.name, self.seed, {name: method})


@dataclass(frozen=True, slots=True)
class Clusters(Case):
    """Real clusters as regions, and others resampled from them; their jobs are as many as run."""

    @property
    def name(self) -> str:
        """What rows call it."""
        return f"{self.path}-{self.mix}-clusters"

    def make(self) -> Round:
        """Return the round."""
        return read_itp(
            [CLUSTERS / f"cluster{number}.csv" for number in NUMBERS],
            regions=self.regions,
            datasets=self.datasets,
            mix=self.mix,
            seed=self.seed,
            policy=self.policy,
        ).round

    def rows(self) -> Iterator[Row]:
        """Yield the rows of all methods, or that the traces are missing."""
        if CLUSTERS.is_dir():
            yield from Case.rows(self)
            return
        note = f"{CLUSTERS} not found; expected traces of ElasticFlow's clusters"
        yield Row(self.name, OURS, self.seed, SKIPPED, note=note)


def cases(*, quick: bool) -> list[Case]:
    """Return all cases, seeds of one name together; or few that end within a minute."""
    paths: tuple[Way, ...] = ("fast", "slow")
    if quick:
        return [Case(path, *FAST[0], "spare", 0, QUICK_SECONDS) for path in paths]
    fast = [
        Case("fast", *size, mix, seed, _limit(FAST_SECONDS, size[2]))
        for size in FAST
        for mix in MIXES
        for seed in SEEDS
    ]
    slow = [
        Case("slow", *size, mix, seed, _limit(SLOW_SECONDS, size[2]))
        for size in SLOW
        for mix in MIXES
        for seed in SEEDS
    ]
    chain = [
        Chain("chain", *size, mix, seed, _limit(SLOW_SECONDS, size[2]))
        for size in CHAIN
        for mix in MIXES
        for seed in SEEDS
    ]
    real = [
        Clusters(path, REGIONS, DATASETS, 0, 0, mix, seed, FAST_SECONDS[1])
        for path in paths
        for mix in MIXES
        for seed in SEEDS
    ]
    return [*fast, *slow, *chain, *real]


def _limit(seconds: tuple[float, float], jobs: int) -> float:
    return seconds[jobs > FAST[0][2]]


def run(chosen: Iterable[Case], *, quick: bool) -> Iterator[Row]:  # noqa: ARG001
    """Yield the rows of each case."""
    for case in chosen:
        yield from case.rows()
