"""`deadline`: which deadlines to promise, placewright beside rules and time-indexed programs.

`lease_rounds.py` says how rounds are drawn; without Chronus's trace all are skipped.
docs/benchmarks/results.md has what it found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from benchmarks.baselines import Answer
from benchmarks.elastic_deadlines import Elastic
from benchmarks.elastic_deadlines import cases as elastic_cases
from benchmarks.lease_answers import answers, placewright, ruled
from benchmarks.lease_loops import Loop, loop_cases
from benchmarks.lease_programs import Program, artifact, indexed
from benchmarks.lease_rounds import GPUS_PER_HOST, TRACE, Drawn, draw, few, round_of
from benchmarks.lease_rules import RULES
from benchmarks.measure import Measured, measured
from benchmarks.report import OURS, SKIPPED, Row
from placewright import Round
from placewright.formulations.deadline.problem.compile import compile_admission

__all__ = ["Case", "cases", "run"]

Kind: TypeAlias = Literal["tight", "loose", "arriving", "maintained", "promised", "few"]
Method: TypeAlias = Callable[[Round], Answer]
Run: TypeAlias = Callable[[], list[Measured[Answer]]]

SEEDS = range(3)
SIZES = (100, 400, 1000, 5000)
HORIZONS = (250, 500)
VARIED = ((400, 250), (5000, 500))
"""Jobs and horizon of the rounds with arrivals, maintenance and promises, all tight."""

FEW, FEW_HORIZON = (135, 140, 145, 150, 155, 160), 360
PROGRAMMED = 400
"""Jobs up to which time-indexed programs are solved, of the first seed."""

SECONDS, FEW_SECONDS = 10.0, 2.0
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
        return round_of(self.name, self.drawn())

    def methods(self, drawn: Drawn, *, quick: bool) -> Mapping[str, Run]:
        """Return the methods by name, ours first; each makes its document of what was drawn."""
        limit = FEW_SECONDS if self.kind == "few" else SECONDS
        programs: Mapping[str, Program] = {}
        if self.jobs <= PROGRAMMED and self.seed == SEEDS[0]:
            programs = {"indexed": indexed}
            if self.kind != "promised":
                programs = {**programs, "artifact": artifact}
        seconds = QUICK_SECONDS if quick else PROGRAM_SECONDS
        functions: dict[str, Method] = {
            OURS: partial(placewright, limit),
            **{name: partial(ruled, rule) for name, rule in RULES.items()},
            **{
                f"{name}, {backend}": partial(_programmed, program, backend, seconds)
                for name, program in programs.items()
                for backend in ("highs", "cbc")
            },
        }
        make = partial(round_of, self.name, drawn)
        return {name: partial(measured, make, function, 1) for name, function in functions.items()}


def _programmed(program: Program, backend: str, seconds: float, round_: Round) -> Answer:
    return program(backend, seconds, compile_admission(round_).problem)


def cases(*, quick: bool) -> list[Case | Elastic | Loop]:
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
    return [*every, *small, *elastic_cases(quick=False), *loop_cases()]


def run(chosen: Iterable[Case | Elastic | Loop], *, quick: bool) -> Iterator[Row]:
    """Yield the rows of each case, as `answers` says."""
    for case in chosen:
        if not isinstance(case, Case):
            yield from case.rows()
            continue
        if not TRACE.is_file():
            note = f"{TRACE} not found; expected what cases are drawn from (see README.md)"
            yield Row(case.name, OURS, case.seed, SKIPPED, note=note)
            continue
        drawn = case.drawn()
        figures = {"GPUs": GPUS_PER_HOST * drawn.hosts, "load": drawn.load}
        yield from answers(case.name, case.seed, case.methods(drawn, quick=quick), figures)
