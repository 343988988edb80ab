"""`incremental`: round after round with an engine, beside `solve_round` on the very same rounds.

README.md says what is measured, and what the columns mean.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from benchmarks.baselines import Answer, of_plan
from benchmarks.measure import Measured, RunError, measured
from benchmarks.report import ERROR, OURS, Row
from placewright import Changes, Engine, Plan, Round, solve_round
from placewright.formulations.gang.terms import SENSE
from placewright.instances.generator import generate_round
from placewright.instances.job import Job
from placewright.instances.mixes import MixName
from placewright.rounds.certificate import gap_of
from placewright.solver.usage import usage

__all__ = ["Case", "Played", "cases", "play", "run"]

SIZES = ((16_384, 3_000), (100_000, 10_000))
QUICK_SIZE = (4_096, 1_000)
MIXES: tuple[MixName, ...] = ("easy", "hard", "tight")
ROUNDS, QUICK_ROUNDS = 50, 5
SECONDS, QUICK_SECONDS = 15.0, 4.0
"""Time limits of a round."""

SEED = 0
SHARE = 200
"""Per round one in so many jobs leaves, and as many arrive."""

STEP_S = 60
"""From one round to the next, on the rounds' clock."""

ENGINE = "engine"


@dataclass(frozen=True, slots=True)
class Case:
    """A first round of the generator, and how many rounds follow it."""

    gpus: int
    jobs: int
    mix: MixName
    rounds: int
    seconds: float

    @property
    def name(self) -> str:
        """What rows call it."""
        return f"{self.mix}-{self.gpus}-{self.jobs}"

    def make(self) -> tuple[Round, list[Job]]:
        """Generate the first round, and the jobs that arrive later."""
        first = generate_round(self.gpus, self.jobs, mix=self.mix, seed=SEED)
        number = self.rounds * (len(first.jobs) // SHARE + 1)
        later = generate_round(self.gpus, number, mix=self.mix, seed=SEED + 1).jobs
        return first, [job for job in later if job.running is None]


@dataclass(frozen=True, slots=True)
class Played:
    """One round, decided by the engine and from scratch: answer, seconds, CPU seconds of each."""

    engine: tuple[Answer, float, float]
    alone: tuple[Answer, float, float]

    @property
    def ratio(self) -> float:
        """CPU seconds of the engine's round over those of `solve_round`."""
        return self.engine[2] / max(self.alone[2], 1e-9)

    @property
    def worse_by(self) -> float:
        """By how many percentage points the engine's gap is worse; negative if it is better."""
        gaps = [
            gap_of(answer.value or 0, answer.bound) for answer in (self.engine[0], self.alone[0])
        ]
        ours, theirs = (1.0 if gap is None else gap for gap in gaps)
        return 100 * (ours - theirs)


def cases(*, quick: bool) -> list[Case]:
    """Return all cases, or the one that ends within a minute."""
    if quick:
        return [Case(*QUICK_SIZE, "tight", QUICK_ROUNDS, QUICK_SECONDS)]
    return [Case(*size, mix, ROUNDS, SECONDS) for size in SIZES for mix in MIXES]


def run(chosen: Iterable[Case], *, quick: bool) -> Iterator[Row]:  # noqa: ARG001
    """Yield two rows per case, of the round whose ratio is the median, and one per wrong bound."""
    for case in chosen:
        try:
            (done,) = measured(case.make, partial(play, case), 1)
        except RunError as error:
            yield Row(case.name, ENGINE, SEED, ERROR, note=str(error))
            continue
        yield from _rows(case, done)


def play(case: Case, made: tuple[Round, list[Job]]) -> list[Played]:
    """Decide a first round, then each changed round twice: by the engine, then from scratch."""
    first, later = made
    rng = random.Random(SEED)
    played = []
    with Engine(first, time_limit=case.seconds) as engine:
        engine.round()
        for number in range(case.rounds):
            names = [job.name for job in engine.state.jobs]
            count = max(1, len(names) // SHARE)
            arriving = [later.pop() for _ in range(min(count, len(later)))]
            changes = Changes(
                removed=rng.sample(names, count),
                added=[
                    job.model_copy(update={"name": f"new-{number}-{i}"})
                    for i, job in enumerate(arriving)
                ],
                now=engine.state.now + STEP_S,
            )
            plan, *ours = _timed(partial(engine.round, changes))
            round_ = engine.round_solved
            if round_ is None:
                raise RunError("the engine solved no round")
            other, *theirs = _timed(partial(solve_round, round_, time_limit=case.seconds))
            played.append(
                Played(
                    (of_plan(round_, plan), ours[0], ours[1]),
                    (of_plan(round_, other), theirs[0], theirs[1]),
                )
            )
    return played


def _timed(decide: Callable[[], Plan]) -> tuple[Plan, float, float]:
    """Return a plan, its seconds, and CPU seconds of this process and its children."""
    began, cpu = time.perf_counter(), usage(os.getpid()).cpu_seconds
    plan = decide()
    return plan, time.perf_counter() - began, usage(os.getpid()).cpu_seconds - cpu


def _rows(case: Case, done: Measured[list[Played]]) -> Iterator[Row]:
    played = done.result
    middle = sorted(played, key=lambda one: one.ratio)[len(played) // 2]
    figures = {
        "rounds": len(played),
        "median ratio": median(one.ratio for one in played),
        "worst ratio": max(one.ratio for one in played),
        "median CPU s": median(one.engine[2] for one in played),
        "worst CPU s": max(one.engine[2] for one in played),
        "gap worse by pp, median": median(one.worse_by for one in played),
        "worst": max(one.worse_by for one in played),
    }
    bound = _tightest([middle.engine[0], middle.alone[0]])
    for method, (answer, seconds, cpu) in ((ENGINE, middle.engine), (OURS, middle.alone)):
        value = answer.value or 0
        yield Row(
            case.name,
            method,
            SEED,
            answer.status,
            term=answer.term,
            sense=SENSE[answer.term],
            value=answer.value,
            bound=answer.bound,
            gap=gap_of(value, answer.bound),
            best_gap=gap_of(value, bound),
            seconds=seconds,
            cpu_seconds=cpu,
            peak_mib=done.peak_mib,
            figures=figures if method == ENGINE else {},
            note=answer.note,
        )
    for number, one in enumerate(played):
        bound = _tightest([one.engine[0], one.alone[0]])
        for method, (answer, _, _) in ((ENGINE, one.engine), (OURS, one.alone)):
            if bound is not None and answer.value is not None and answer.value > bound:
                note = f"round {number}: verified {answer.term} {answer.value} beats {bound}"
                yield Row(case.name, method, SEED, ERROR, note=note)


def _tightest(answers: Sequence[Answer]) -> float | None:
    """Return the least bound of a term that is to be large."""
    return min((answer.bound for answer in answers if answer.bound is not None), default=None)
