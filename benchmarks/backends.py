"""`backends`: placewright, its greedy, and the literal model given to HiGHS, CP-SAT and CBC.

All methods get the same rounds, the same wall-clock limit, one thread and the same gap to stop at.
docs/benchmarks/results.md has what it found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from benchmarks.baselines import GAP, Answer, greedy, literal, of_plan
from benchmarks.compare import compared
from benchmarks.measure import REPEATS, measured
from benchmarks.report import Row
from placewright import Round, load_round, solve_round
from placewright.instances.generators.gang import MixName, generate_round

__all__ = ["METHODS", "Case", "cases", "generated", "library", "run", "seconds_of"]

Method: TypeAlias = Callable[[float, Round], Answer]

LIBRARY = Path(__file__).parents[1] / "instances" / "library"
SIZES = ((64, 50), (512, 400), (4096, 1000))
MIXES: tuple[MixName, ...] = ("easy", "hard", "tight")
SEEDS = range(3)


@dataclass(frozen=True, slots=True)
class Case:
    """One round: its name, the seed that it was drawn from (None: a file) and how to get it."""

    name: str
    seed: int | None
    make: Callable[[], Round]


def placewright(seconds: float, round: Round) -> Answer:  # noqa: A002
    """Decide as `placewright solve` does: all terms of the policy, the solver chosen by itself."""
    return of_plan(round, solve_round(round, time_limit=seconds, gap=GAP))


METHODS: Mapping[str, Method] = {
    "placewright": placewright,
    "greedy": greedy,
    "highs": partial(literal, "highs"),
    "cp-sat": partial(literal, "cp-sat"),
    "cbc": partial(literal, "cbc"),
}


def library(name: str) -> Case:
    """Return the bundled round of this name."""
    return Case(name, None, partial(load_round, LIBRARY / f"{name}.yaml"))


def generated(gpus: int, jobs: int, mix: MixName, seed: int) -> Case:
    """Return a round of a mix of the generator."""
    return Case(
        f"{mix}-{gpus}-{jobs}", seed, partial(generate_round, gpus, jobs, mix=mix, seed=seed)
    )


def cases(*, quick: bool) -> list[Case]:
    """Return all cases, or the few that end within a minute."""
    if quick:
        drawn = [generated(gpus, jobs, "hard", SEEDS[0]) for gpus, jobs in SIZES[1:]]
        return [library("quickstart"), *drawn]
    rounds = {path.stem: load_round(path) for path in sorted(LIBRARY.glob("*.yaml"))}
    bundled = [library(n) for n, round_ in rounds.items() if round_.policy.formulation == "gang"]
    return bundled + [
        generated(gpus, jobs, mix, seed) for gpus, jobs in SIZES for mix in MIXES for seed in SEEDS
    ]


def seconds_of(*, quick: bool) -> float:
    """Return the wall-clock limit of one call of a method."""
    return 1.5 if quick else 10.0


def run(
    chosen: Iterable[Case],
    seconds: float,
    methods: Mapping[str, Method] = METHODS,
    repeats: int = REPEATS,
) -> Iterator[Row]:
    """Yield the rows of each case, as `compared` says.

    Parameters
    ----------
    seconds
        Wall-clock limit of one call; a method is called `repeats` times in a process of its own.
    """
    for case in chosen:
        runs = {
            name: partial(measured, case.make, partial(method, seconds), repeats)
            for name, method in methods.items()
        }
        yield from compared(case.name, case.seed, runs)
