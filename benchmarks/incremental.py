"""`incremental`: round after round with an engine, beside `solve_round` on the very same rounds.

docs/benchmarks/incremental.md says what is measured.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import NamedTuple

from benchmarks.baselines import Answer, of_plan
from benchmarks.measure import Measured, RunError, measured
from benchmarks.report import ERROR, OURS, Row
from placewright import Changes, Engine, Plan, Round, solve_round
from placewright.formulations.gang.problem.terms import SENSE
from placewright.instances.documents.job import Job
from placewright.instances.generators.gang import generate_round
from placewright.instances.generators.mixes import MixName
from placewright.rounds.certificate import gap_of
from placewright.solver.usage import usage
from placewright.topology.units import WHOLE_GPU

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
COLD_SEEDS = (0, 1)
"""Of the two solves from scratch, whose distance says how far chance decides."""

TOLERANCE = 0.1
"""By how many % of the cluster's GPUs an engine's round may be below the solves from scratch."""

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
    seed: int
    rounds: int
    seconds: float

    @property
    def kind(self) -> str:
        """What rows call it, beside its seed."""
        return f"{self.mix}-{self.gpus}-{self.jobs}"

    @property
    def name(self) -> str:
        """What chooses it."""
        return f"{self.kind}-{self.seed}"

    def make(self) -> tuple[Round, list[Job]]:
        """Generate the first round, and the jobs that arrive later."""
        first = generate_round(self.gpus, self.jobs, mix=self.mix, seed=self.seed)
        number = self.rounds * (len(first.jobs) // SHARE + 1)
        later = generate_round(self.gpus, number, mix=self.mix, seed=self.seed + 1).jobs
        return first, [job for job in later if job.running is None]


class Call(NamedTuple):
    """An answer, and the seconds and CPU seconds that it took."""

    answer: Answer
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Played:
    """One round, decided by the engine, and from scratch with each of the seeds."""

    gpus: int
    engine: Call
    alone: tuple[Call, ...]

    @property
    def ratio(self) -> float:
        """CPU seconds of the engine's round over the mean of those from scratch."""
        mean = sum(call.cpu_seconds for call in self.alone) / len(self.alone)
        return self.engine.cpu_seconds / max(mean, 1e-9)

    @property
    def below(self) -> float:
        """By how much the engine is below the best from scratch, in % of the cluster's GPUs.

        A GPU counts as its 1,000 milli-GPU of value; negative if the engine is better.
        """
        return self._percent(max(self._values) - (self.engine.answer.value or 0))

    @property
    def spread(self) -> float:
        """How far the values from scratch are apart, in % of the cluster's GPUs."""
        return self._percent(max(self._values) - min(self._values))

    @property
    def behind(self) -> bool:
        """Whether the engine is below all from scratch by more than is allowed."""
        return self.below - self.spread > TOLERANCE

    @property
    def _values(self) -> list[int]:
        return [call.answer.value or 0 for call in self.alone]

    def _percent(self, value: int) -> float:
        return 100 * value / (WHOLE_GPU * self.gpus)

    @property
    def calls(self) -> Iterator[tuple[str, Call]]:
        """All calls by their methods, the engine's first."""
        yield ENGINE, self.engine
        for call in self.alone:
            yield OURS, call

    @property
    def bound(self) -> float | None:
        """The tightest bound that any of them proves; the term is to be large."""
        bounds = [call.answer.bound for _, call in self.calls if call.answer.bound is not None]
        return min(bounds, default=None)


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


def play(case: Case, made: tuple[Round, list[Job]]) -> list[Played]:
    """Decide a first round, then each changed one by the engine and twice from scratch."""
    first, later = made
    rng = random.Random(case.seed)
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
            alone = []
            for seed in COLD_SEEDS:
                solve = partial(solve_round, round_, time_limit=case.seconds, seed=seed)
                other, *theirs = _timed(solve)
                alone.append(Call(of_plan(round_, other), *theirs))
            played.append(Played(case.gpus, Call(of_plan(round_, plan), *ours), tuple(alone)))
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
