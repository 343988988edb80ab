"""Rounds that follow each other, for `incremental`: decided by an engine, and from scratch."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from benchmarks.baselines import Answer, of_plan
from benchmarks.report import OURS
from placewright import Changes, Engine, Plan, Round, solve_round
from placewright.instances.checks.round import hosts_by_name
from placewright.instances.documents.job import Job
from placewright.instances.generators.gang import MixName, generate_round
from placewright.instances.traces.trace import Trace
from placewright.rounds.replay.book import HostLedger
from placewright.rounds.replay.loop import Decider, Loop
from placewright.rounds.replay.round_decider import carry_out, place_of
from placewright.solver.process import usage
from placewright.topology.units import WHOLE_GPU

__all__ = ["ENGINE", "TOLERANCE", "Call", "Case", "Played", "play"]

COLD_SEEDS = (0, 1)
"""Of the two solves from scratch, whose distance says how far chance decides."""

TOLERANCE = 0.1
"""By how many % of the cluster's GPUs an engine's round may be below the solves from scratch."""

SHARE = 200
"""Per round one in so many jobs leaves, and as many arrive."""

STEP_S = 60
"""From one round to the next, on the rounds' clock."""

LONG_US = 10**12
"""Longer than any rounds: jobs leave by chance, not by their work."""

ENGINE = "engine"

Made: TypeAlias = tuple[Round, list[Job]]
"""A first round, and the jobs that arrive later."""


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

    def changing(self, first: Round) -> int:
        """Return how many jobs leave and arrive in a round."""
        return max(1, len(first.jobs) // SHARE)

    def make(self) -> Made:
        """Generate the first round, and the jobs that arrive later, in their order."""
        first = generate_round(self.gpus, self.jobs, mix=self.mix, seed=self.seed)
        number = self.rounds * (len(first.jobs) // SHARE + 1)
        later = generate_round(self.gpus, number, mix=self.mix, seed=self.seed + 1).jobs
        pending = [job for job in reversed(later) if job.running is None]
        count = self.changing(first)
        return first, [
            job.model_copy(update={"name": f"new-{number // count}-{number % count}"})
            for number, job in enumerate(pending[: self.rounds * count])
        ]


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


def play(case: Case, made: Made) -> list[Played]:
    """Decide a first round, then each changed one by the engine and twice from scratch."""
    first, later = made
    jobs = [*first.jobs, *later]
    submit_s = [0] * len(first.jobs) + [
        STEP_S * (1 + number) for number in range(case.rounds) for _ in range(case.changing(first))
    ]
    gpus = [job.options[0].milli_gpu // WHOLE_GPU for job in jobs]
    trace = Trace.of(1000 * np.array(submit_s), np.array(gpus), np.full(len(jobs), LONG_US))
    hosts = hosts_by_name(first.cluster)
    with Engine(first, time_limit=case.seconds) as engine:
        beside = _Beside(case, first, jobs, engine)
        ledger = HostLedger([host.gpus for host in hosts.values()])
        Loop(trace, ledger, beside).run(until_us=1000 * STEP_S * case.rounds + 1)
    return beside.played


class _Beside(Decider):
    """Decides by an engine, and each round but the first from scratch as well."""

    def __init__(self, case: Case, first: Round, jobs: Sequence[Job], engine: Engine) -> None:
        super().__init__()
        self.played: list[Played] = []
        self._case, self._first, self._jobs, self._engine = case, first, jobs, engine
        self._rng = random.Random(case.seed)
        self._numbers = {job.name: number for number, job in enumerate(jobs)}
        self._hosts = {name: number for number, name in enumerate(hosts_by_name(first.cluster))}
        self._came: list[int] = []

    def arrive(self, loop: Loop, job: int) -> None:
        """Note an arrival; a job of the first round may run already."""
        self._came.append(job)
        running = self._jobs[job].running
        if running is not None:
            loop.start(job, place_of(running.tasks, self._hosts))

    def decide(self, loop: Loop) -> None:
        """Let some jobs leave, and decide about the others."""
        came, self._came = self._came, []
        if not loop.now:
            self._carry_out(loop, self._engine.round())
            return
        before = list(loop.alive)[: -len(came)]
        gone = self._rng.sample(before, len(came))
        for job in gone:
            loop.withdraw(job)
        changes = Changes(
            removed=[self._jobs[job].name for job in gone],
            added=[self._jobs[job] for job in came],
            now=self._first.now + loop.now // 1000,
        )
        plan, *ours = _timed(partial(self._engine.round, changes))
        self._carry_out(loop, plan)
        round_ = self._engine.round_solved
        alone = []
        for seed in COLD_SEEDS:
            solve = partial(solve_round, round_, time_limit=self._case.seconds, seed=seed)
            other, *theirs = _timed(solve)
            alone.append(Call(of_plan(round_, other), *theirs))
        self.played.append(
            Played(self._case.gpus, Call(of_plan(round_, plan), *ours), tuple(alone))
        )

    def _carry_out(self, loop: Loop, plan: Plan) -> None:
        carry_out(loop, plan, self._numbers.__getitem__, self._hosts, dict(loop.place))

    def state(self) -> Any:
        """Return nothing: no run goes on after a kill."""

    def restore(self, state: Any) -> None:
        """Take nothing over."""


def _timed(decide: Callable[[], Plan]) -> tuple[Plan, float, float]:
    """Return a plan, its seconds, and CPU seconds of this process and its children."""
    began, cpu = time.perf_counter(), usage(os.getpid()).cpu_seconds
    plan = decide()
    return plan, time.perf_counter() - began, usage(os.getpid()).cpu_seconds - cpu
