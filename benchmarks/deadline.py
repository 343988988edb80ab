"""`deadline`: which deadlines to promise, placewright beside rules and time-indexed programs.

README.md and `lease_rounds.py` say how rounds are drawn; without Chronus's trace all are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from benchmarks.baselines import Answer, InvalidPlanError, of_plan
from benchmarks.compare import compared
from benchmarks.elastic_deadlines import Elastic
from benchmarks.elastic_deadlines import cases as elastic_cases
from benchmarks.lease_programs import artifact, indexed
from benchmarks.lease_rounds import GPUS_PER_HOST, TRACE, Drawn, draw, few, problem_of, round_of
from benchmarks.lease_rules import RULES, Rule
from benchmarks.measure import Measured, measured
from benchmarks.report import ERROR, OURS, SKIPPED, Row
from placewright import Round, solve_round
from placewright.formulations.deadline.problem import NONE

__all__ = ["Case", "cases", "placewright", "ruled", "run"]

Kind: TypeAlias = Literal["tight", "loose", "arriving", "maintained", "promised", "few"]
Run: TypeAlias = Callable[[], list[Measured[Answer]]]

SEEDS = range(3)
SIZES = (100, 400, 1000, 5000)
HORIZONS = (250, 500)
VARIED = ((400, 250), (5000, 500))
"""Jobs and horizon of the rounds with arrivals, maintenance and promises, all tight."""

FEW, FEW_HORIZON = (135, 140, 145, 150, 155, 160), 360
PROGRAMMED = 400
"""Jobs up to which time-indexed programs are solved, of the first seed."""

BETTER = "ours better by %"
SECONDS, FEW_SECONDS = 20.0, 2.0
PROGRAM_SECONDS, QUICK_SECONDS = 20.0, 2.0


@dataclass(frozen=True, slots=True)
class Case:
    """A round by its kind, jobs, leases and seed."""

    kind: Kind
    jobs: int
    horizon: int
    seed: int

    @property
    def name(self) -> str:
        """What rows call it."""
        return f"{self.kind}-{self.jobs}-{self.horizon}"

    def drawn(self) -> Drawn:
        """Draw the round."""
        if self.kind == "few":
            return few(self.jobs, self.horizon, self.seed)
        if self.kind == "tight" or self.kind == "loose":
            return draw(self.jobs, self.horizon, self.kind, self.seed)
        return draw(self.jobs, self.horizon, "tight", self.seed, self.kind)

    def make(self) -> Round:
        """Return the round as a document."""
        return round_of(f"{self.name}-{self.seed}", self.drawn())

    def methods(self, *, quick: bool) -> Mapping[str, Run]:
        """Return the methods by name, ours first."""
        limit = FEW_SECONDS if self.kind == "few" else SECONDS
        programs = {}
        if self.jobs <= PROGRAMMED and self.seed == SEEDS[0]:
            seconds = QUICK_SECONDS if quick else PROGRAM_SECONDS
            kinds = {"indexed": indexed}
            if self.kind != "promised":
                kinds["artifact"] = artifact
            programs = {
                f"{name}, {backend}": partial(
                    measured, self.drawn, partial(_programmed, program, backend, seconds), 1
                )
                for name, program in kinds.items()
                for backend in ("highs", "cbc")
            }
        return {
            OURS: partial(measured, self.make, partial(placewright, limit), 1),
            **{
                name: partial(measured, self.drawn, partial(ruled, rule), 1)
                for name, rule in RULES.items()
            },
            **programs,
        }


def placewright(seconds: float, round_: Round) -> Answer:
    """Decide as `placewright solve` does; the plan is verified once more."""
    plan = solve_round(round_, time_limit=seconds)
    answer = of_plan(round_, plan)
    assert plan.certificate is not None
    terms = {term.name: term for term in plan.certificate.terms}
    admitted = terms["admitted"]
    figures: dict[str, float] = {"broken": terms["broken"].value, "admitted": admitted.value}
    if admitted.bound is not None:
        figures["at most"] = int(admitted.bound)
    if any(job.deadline is not None and job.deadline.promise for job in round_.jobs):
        return replace(answer, figures=figures)
    status = "optimal" if admitted.gap == 0 else "feasible"
    return Answer(status, "admitted", admitted.value, admitted.bound, answer.note, figures)


def ruled(rule: Rule, drawn: Drawn) -> Answer:
    """Answer with a rule's schedule; its leases are counted, not placed."""
    problem = problem_of(drawn)
    made = rule(problem)
    if not made.fits(problem):
        raise InvalidPlanError("the schedule does not fit; one that does was expected")
    broken, admitted = made.broken(problem), made.admitted(problem)
    figures = {"broken": broken, "admitted": admitted, "jobs": int((made.way != NONE).sum())}
    if problem.loss.any():
        return Answer("feasible", "broken", broken, figures=figures)
    return Answer("feasible", "admitted", admitted, figures=figures)


def _programmed(
    program: Callable[..., Answer], backend: str, seconds: float, drawn: Drawn
) -> Answer:
    return program(backend, seconds, problem_of(drawn))


def cases(*, quick: bool) -> list[Case | Elastic]:
    """Return all cases, seeds of one name together; or few that end within a minute."""
    if quick:
        return [
            Case("tight", 100, 250, 0),
            Case("loose", 1000, 250, 0),
            Case("maintained", 100, 250, 0),
            Case("few", FEW[0], FEW_HORIZON, 0),
            *elastic_cases(quick=True),
        ]
    loads: tuple[Kind, ...] = ("tight", "loose")
    variants: tuple[Kind, ...] = ("arriving", "maintained", "promised")
    kinds = [
        *((kind, jobs, horizon) for jobs in SIZES for horizon in HORIZONS for kind in loads),
        *((kind, jobs, horizon) for jobs, horizon in VARIED for kind in variants),
    ]
    every = [Case(kind, jobs, horizon, seed) for kind, jobs, horizon in kinds for seed in SEEDS]
    small = [Case("few", jobs, FEW_HORIZON, 0) for jobs in FEW]
    return [*every, *small, *elastic_cases(quick=False)]


def run(chosen: Iterable[Case | Elastic], *, quick: bool) -> Iterator[Row]:
    """Yield the rows of each case, as `compared` says, and one per rule that does better."""
    for case in chosen:
        if isinstance(case, Elastic):
            yield from case.rows(partial(placewright, SECONDS))
            continue
        if not TRACE.is_file():
            note = f"{TRACE} not found; expected what cases are drawn from (see README.md)"
            yield Row(case.name, OURS, case.seed, SKIPPED, note=note)
            continue
        rows = list(compared(case.name, case.seed, case.methods(quick=quick)))
        ours = next((row for row in rows if row.method == OURS), None)
        for row in rows:
            yield row if ours is None else _beside(row, ours, case)
            if ours is None or ours.status == ERROR or row.method not in RULES:
                continue
            if _standing(row) > _standing(ours):
                note = f"{row.method} is better by its rule alone"
                yield Row(case.name, OURS, case.seed, ERROR, note=note)


def _standing(row: Row) -> tuple[float, float]:
    """Return what plans are compared by; nothing is worse than no plan."""
    if row.value is None:
        return (-np.inf, -np.inf)
    return (-row.figures["broken"], row.figures["admitted"])


def _beside(row: Row, ours: Row, case: Case) -> Row:
    """Add to ours what the round is like, and to others how much more ours admits."""
    if row.method == OURS:
        drawn = case.drawn()
        figures = {"GPUs": GPUS_PER_HOST * drawn.hosts, "load": drawn.load, **row.figures}
        return replace(row, figures=figures)
    if not row.figures.get("admitted") or "admitted" not in ours.figures:
        return row
    better = 100 * (ours.figures["admitted"] / row.figures["admitted"] - 1)
    return replace(row, figures={**row.figures, BETTER: better})
