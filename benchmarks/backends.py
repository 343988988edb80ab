"""`backends`: placewright, its greedy, and the literal model given to HiGHS, CP-SAT and CBC.

All methods get the same rounds, the same wall-clock limit, one thread and the same gap to stop at.
README.md says what the columns mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from benchmarks.baselines import GAP, Answer, greedy, literal, of_plan
from benchmarks.measure import REPEATS, Measured, RunError, measured
from benchmarks.report import ERROR, SKIPPED, Row
from placewright import Round, load_round, solve_round
from placewright.formulations.gang.problem import SENSE
from placewright.formulations.session import tighter
from placewright.instances.generator import generate_round
from placewright.instances.mixes import MixName
from placewright.rounds.certificate import gap_of

__all__ = ["METHODS", "Case", "cases", "generated", "library", "run", "seconds_of"]

Method: TypeAlias = Callable[[float, Round], Answer]
Runs: TypeAlias = Sequence[Measured[Answer]]

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
    bundled = [library(path.stem) for path in sorted(LIBRARY.glob("*.yaml"))]
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
    """Yield the rows of each case: one per method, and one per plan that beats a bound.

    Parameters
    ----------
    seconds
        Wall-clock limit of one call; a method is called `repeats` times in a process of its own.
    """
    for case in chosen:
        rows, found = [], {}
        for name, method in methods.items():
            try:
                found[name] = measured(case.make, partial(method, seconds), repeats)
            except RunError as error:
                rows.append(Row(case.name, name, case.seed, ERROR, note=str(error)))
        best = _tightest(run.result for runs in found.values() for run in runs)
        rows += [_row(case, name, runs, best) for name, runs in found.items()]
        yield from sorted(rows, key=lambda row: list(methods).index(row.method))
        yield from _beaten(case, found)


def _row(case: Case, name: str, runs: Runs, best: float | None) -> Row:
    """Report the run with the median CPU seconds, so that all its figures belong together."""
    median = runs[len(runs) // 2]
    answer = median.result
    row = Row(case.name, name, case.seed, answer.status, answer.term, SENSE[answer.term])
    row = replace(row, bound=answer.bound, note=answer.note)
    if answer.status == SKIPPED:
        return row
    if answer.value is not None:
        own, closest = gap_of(answer.value, answer.bound), gap_of(answer.value, best)
        row = replace(row, value=answer.value, gap=own, best_gap=closest)
    return replace(
        row,
        seconds=median.seconds,
        cpu_seconds=median.cpu_seconds,
        peak_mib=median.peak_mib,
    )


def _tightest(answers: Iterable[Answer]) -> float | None:
    best: float | None = None
    for answer in answers:
        best = tighter(best, answer.bound, SENSE[answer.term])
    return best


def _beaten(case: Case, found: Mapping[str, Runs]) -> Iterator[Row]:
    """Compare every verified plan with every bound, over all methods and repetitions."""
    answers = [(name, run.result) for name, runs in found.items() for run in runs]
    wrong = {
        (name, of): f"verified {mine.term} {mine.value} beats the bound {theirs.bound} of {of}"
        for name, mine in answers
        for of, theirs in answers
        if _beats(mine, theirs.bound)
    }
    for (name, _), note in wrong.items():
        yield Row(case.name, name, case.seed, ERROR, note=note)


def _beats(answer: Answer, bound: float | None) -> bool:
    if answer.value is None or bound is None:
        return False
    return answer.value > bound if SENSE[answer.term] == "max" else answer.value < bound
