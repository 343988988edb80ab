"""`incremental`: round after round with an engine, beside `solve_round` on the very same rounds.

docs/benchmarks/results.md has what it found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from statistics import median

from benchmarks.incremental_rounds import ENGINE, TOLERANCE, Call, Case, Played, play
from benchmarks.measure import Measured, RunError, measured
from benchmarks.report import ERROR, OURS, Row
from placewright.formulations.gang.problem.limits import SENSE
from placewright.instances.generators.gang import MixName
from placewright.rounds.certificate import gap_of

__all__ = ["Call", "Case", "Played", "cases", "play", "run"]

SIZES = (
    (512, 400, 30, 3, 4.0),
    (4_096, 1_000, 30, 3, 10.0),
    (16_384, 3_000, 10, 1, 10.0),
    (100_000, 10_000, 10, 1, 15.0),
)
"""GPUs, pending jobs, rounds, how many seeds, and the time limit of a round in seconds."""

MIXES: tuple[MixName, ...] = ("easy", "hard", "tight")
QUICK_ROUNDS, QUICK_SECONDS = 10, 2.0


def cases(*, quick: bool) -> list[Case]:
    """Return all cases, or the one that ends within a minute."""
    if quick:
        gpus, jobs, *_ = SIZES[0]
        return [Case(gpus, jobs, "hard", 0, QUICK_ROUNDS, QUICK_SECONDS)]
    return [
        Case(gpus, jobs, mix, seed, rounds, seconds)
        for gpus, jobs, rounds, seeds, seconds in SIZES
        for mix in MIXES
        for seed in range(seeds)
    ]


def run(chosen: Iterable[Case], *, quick: bool) -> Iterator[Row]:  # noqa: ARG001
    """Yield two rows per case, of the round whose ratio is the median, and one per error.

    Errors are rounds in which the engine falls behind, and bounds that a plan beats.
    """
    for case in chosen:
        try:
            (done,) = measured(case.make, partial(play, case), 1)
        except RunError as error:
            yield Row(case.kind, ENGINE, case.seed, ERROR, note=str(error))
            continue
        yield from _rows(case, done)


def _rows(case: Case, done: Measured[list[Played]]) -> Iterator[Row]:
    played = done.result
    middle = sorted(played, key=lambda one: one.ratio)[len(played) // 2]
    figures = {
        "rounds": len(played),
        "below % of GPUs, worst": max(one.below for one in played),
        "median": median(one.below for one in played),
        "spread, worst": max(one.spread for one in played),
        "spread, median": median(one.spread for one in played),
        "behind": sum(one.behind for one in played),
        "ratio, median": median(one.ratio for one in played),
        "ratio, worst": max(one.ratio for one in played),
        "CPU s, median": median(one.engine.cpu_seconds for one in played),
        "CPU s, worst": max(one.engine.cpu_seconds for one in played),
    }
    for method, (answer, seconds, cpu) in ((ENGINE, middle.engine), (OURS, middle.alone[0])):
        value = answer.value or 0
        yield Row(
            case.kind,
            method,
            case.seed,
            answer.status,
            term=answer.term,
            sense=SENSE[answer.term],
            value=answer.value,
            bound=answer.bound,
            gap=gap_of(value, answer.bound),
            best_gap=gap_of(value, middle.bound),
            seconds=seconds,
            cpu_seconds=cpu,
            peak_mib=done.peak_mib,
            figures=figures if method == ENGINE else {},
            note=answer.note,
        )
    for number, one in enumerate(played):
        if one.behind:
            note = (
                f"round {number}: {one.below:.3f} % of the GPUs below a solve from scratch; "
                f"expected at most {TOLERANCE} % beyond their spread of {one.spread:.3f} %"
            )
            yield Row(case.kind, ENGINE, case.seed, ERROR, note=note)
        for method, (answer, _, _) in one.calls:
            if one.bound is not None and answer.value is not None and answer.value > one.bound:
                note = f"round {number}: verified {answer.term} {answer.value} beats {one.bound}"
                yield Row(case.kind, method, case.seed, ERROR, note=note)
