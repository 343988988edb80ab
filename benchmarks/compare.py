"""Methods compared on one case: gaps to the tightest bound of any, and no plan may beat a bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from benchmarks.baselines import Answer
from benchmarks.measure import Measured, RunError
from benchmarks.report import ERROR, SKIPPED, Row
from placewright.formulations.gang.problem.limits import SENSE
from placewright.formulations.plan_messages import tighter
from placewright.rounds.certificate import gap_of

__all__ = ["Runs", "compared"]

Runs: TypeAlias = Sequence[Measured[Answer]]


def compared(
    case: str, seed: int | None, methods: Mapping[str, Callable[[], Runs]]
) -> Iterator[Row]:
    """Run every method on a case; yield a row of each, and one per plan that beats a bound.

    Parameters
    ----------
    methods
        Each returns its runs by rising CPU seconds, or raises `RunError`, which is a row, too. The
        median run is reported, so that all figures of a row belong together.
    """
    found: dict[str, Runs] = {}
    failures: dict[str, str] = {}
    for name, method in methods.items():
        try:
            found[name] = method()
        except RunError as error:
            failures[name] = str(error)
    best = _tightest(run.result for runs in found.values() for run in runs)
    for name in methods:
        if name in failures:
            yield Row(case, name, seed, ERROR, note=failures[name])
        else:
            yield _row(Row(case, name, seed, ""), found[name], best)
    for name, note in _beaten(found):
        yield Row(case, name, seed, ERROR, note=note)


def _row(row: Row, runs: Runs, best: float | None) -> Row:
    median = runs[len(runs) // 2]
    answer = median.result
    row = replace(
        row,
        status=answer.status,
        term=answer.term,
        sense=SENSE[answer.term],
        bound=answer.bound,
        figures=dict(answer.figures),
        note=answer.note,
    )
    if answer.status == SKIPPED:
        return row
    if answer.value is not None:
        own, closest = gap_of(answer.value, answer.bound), gap_of(answer.value, best)
        row = replace(row, value=answer.value, gap=own, best_gap=closest)
    return replace(
        row, seconds=median.seconds, cpu_seconds=median.cpu_seconds, peak_mib=median.peak_mib
    )


def _tightest(answers: Iterable[Answer]) -> float | None:
    best: float | None = None
    for answer in answers:
        best = tighter(best, answer.bound, SENSE[answer.term])
    return best


def _beaten(found: Mapping[str, Runs]) -> Iterator[tuple[str, str]]:
    """Compare every verified plan with every bound, over all methods and repetitions."""
    answers = [(name, run.result) for name, runs in found.items() for run in runs]
    wrong = {
        (name, of): f"verified {mine.term} {mine.value} beats the bound {theirs.bound} of {of}"
        for name, mine in answers
        for of, theirs in answers
        if _beats(mine, theirs.bound)
    }
    for (name, _), note in wrong.items():
        yield name, note


def _beats(answer: Answer, bound: float | None) -> bool:
    if answer.value is None or bound is None:
        return False
    return answer.value > bound if SENSE[answer.term] == "max" else answer.value < bound
