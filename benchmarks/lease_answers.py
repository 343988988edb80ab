"""What methods answer to a round of deadlines, and what is compared: less broken, more admitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import inf

from benchmarks.baselines import Answer, InvalidPlanError, of_plan
from benchmarks.compare import Runs, compared
from benchmarks.lease_rules import Rule
from benchmarks.report import ERROR, OURS, Row
from placewright import Round, solve_round
from placewright.formulations.deadline.problem.compile import compile_admission
from placewright.formulations.deadline.problem.problem import NONE

__all__ = ["BETTER", "answers", "placewright", "ruled"]

BETTER = "ours better by %"
BROKEN, ADMITTED = "broken", "admitted"


def placewright(seconds: float, round_: Round) -> Answer:
    """Decide as `placewright solve` does; the plan is verified once more.

    The answer is about `admitted`, or about `broken` where jobs have promises.
    """
    plan = solve_round(round_, time_limit=seconds)
    answer = of_plan(round_, plan)
    assert plan.certificate is not None
    terms = {term.name: term for term in plan.certificate.terms}
    admitted = terms[ADMITTED]
    figures: dict[str, float] = {BROKEN: terms[BROKEN].value, ADMITTED: admitted.value}
    if admitted.bound is not None:
        figures["at most"] = int(admitted.bound)
    if any(job.deadline is not None and job.deadline.promise for job in round_.jobs):
        return replace(answer, figures=figures)
    status = "optimal" if admitted.gap == 0 else "feasible"
    return Answer(status, ADMITTED, admitted.value, admitted.bound, answer.note, figures)


def ruled(rule: Rule, round_: Round) -> Answer:
    """Answer with a rule's schedule; its leases are counted, not placed."""
    problem = compile_admission(round_).problem
    made = rule(problem)
    if not made.fits(problem):
        raise InvalidPlanError("the schedule does not fit; one that does was expected")
    broken, admitted = made.broken(problem), made.admitted(problem)
    figures = {BROKEN: broken, ADMITTED: admitted, "jobs": int((made.alternative != NONE).sum())}
    if problem.loss.any():
        return Answer("feasible", BROKEN, broken, figures=figures)
    return Answer("feasible", ADMITTED, admitted, figures=figures)


def answers(
    case: str,
    seed: int | None,
    methods: Mapping[str, Callable[[], Runs]],
    figures: Mapping[str, float],
) -> Iterator[Row]:
    """Yield the rows of `compared`, and one for each method without a bound that is better.

    A method with a bound may be better, by what our bound allows.

    Parameters
    ----------
    figures
        What our row says of the round.
    """
    rows = list(compared(case, seed, methods))
    ours = next((row for row in rows if row.method == OURS), None)
    for row in rows:
        if ours is None or ours.status == ERROR:
            yield row
        elif row.method == OURS:
            yield replace(row, figures={**figures, **row.figures})
        else:
            yield _beside(row, ours)
            if row.bound is None and _standing(row) > _standing(ours):
                note = f"{row.method} is better by its rule alone"
                yield Row(case, OURS, seed, ERROR, note=note)


def _standing(row: Row) -> tuple[float, float]:
    if row.value is None:
        return (-inf, -inf)
    return (-row.figures[BROKEN], row.figures[ADMITTED])


def _beside(row: Row, ours: Row) -> Row:
    """Add how much more ours admits."""
    if not row.figures.get(ADMITTED) or ADMITTED not in ours.figures:
        return row
    better = 100 * (ours.figures[ADMITTED] / row.figures[ADMITTED] - 1)
    return replace(row, figures={**row.figures, BETTER: better})
