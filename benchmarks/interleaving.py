"""`interleaving`: jobs of Muri's traces share GPUs, placewright beside rounds of matching.

docs/benchmarks/results.md has what it found. The traces are looked for in `TRACES`, and without
them every case of them is skipped. Rounds of Synergy's models, whose jobs share out CPU and memory,
are cases, too (`tuning_rounds.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import mean
from typing import Literal, TypeAlias

import numpy as np

from benchmarks.baselines import Answer, InvalidPlanError, of_plan
from benchmarks.compare import compared
from benchmarks.groups import Group, Queue, measure, plan_of
from benchmarks.matching import PAIRINGS, Settings, all_settings, alone, grouped
from benchmarks.measure import REPEATS, measured
from benchmarks.report import OURS, SKIPPED, Row
from benchmarks.tuning_rounds import Tuning
from benchmarks.tuning_rounds import cases as tuning_cases
from placewright import Plan, Round, solve_round, verify
from placewright.instances.converters import convert_muri
from placewright.instances.documents.policy import Policy

__all__ = ["Case", "cases", "jittered", "placewright", "run", "shared"]

Method: TypeAlias = Callable[[Round], Answer]
Variant: TypeAlias = Literal["", "weighted", "jittered"]

TRACES = Path(__file__).parents[2] / "shared" / "data" / "traces" / "muri"
SEEDS = range(5)
SIZES = (64, 100, 128, 200)
LARGE = 1000
MATCHED = 200
"""Jobs up to which matching is tried: its time grows with their cube."""

JITTER = 0.1
SECONDS, QUICK_SECONDS = 60.0, 10.0
GAP = 1e-4


@dataclass(frozen=True, slots=True)
class Case:
    """Jobs drawn from a trace by a seed, on a quarter of the GPUs that they ask.

    In a weighted case a job counts as often as it asks GPUs. In a jittered one each time in each
    profile has a factor of its own, so that no two jobs are alike.
    """

    trace: str
    jobs: int
    seed: int
    variant: Variant = ""

    @property
    def name(self) -> str:
        """What rows call it."""
        return "-".join(filter(None, (self.trace, str(self.jobs), self.variant)))

    @property
    def file(self) -> Path:
        """The trace."""
        return TRACES / f"{self.trace}.csv"

    def methods(self, seconds: float) -> Mapping[str, Method]:
        """Return the methods by name, ours first."""
        return _methods(seconds, self.jobs)

    def make(self) -> Round:
        """Draw the round."""
        drawn = convert_muri(self.file, jobs=self.jobs, seed=self.seed)
        if self.variant == "jittered":
            drawn = jittered(drawn, self.seed)
        if self.variant != "weighted":
            return _with_term(drawn, "throughput")
        jobs = [
            job.model_copy(update={"weight": job.options[0].milli_gpu // 1000})
            for job in drawn.jobs
        ]
        drawn = drawn.model_copy(update={"jobs": tuple(jobs)})
        return _with_term(drawn, "weighted_throughput")


def _with_term(round_: Round, term: Literal["throughput", "weighted_throughput"]) -> Round:
    policy = Policy(formulation="interleaving", terms=(term,))
    return round_.model_copy(update={"policy": policy})


def jittered(round_: Round, seed: int) -> Round:
    """Return the round with a random factor on each stage and iteration, 10 % up or down."""
    draw = np.random.Generator(np.random.PCG64(seed))
    jobs = []
    for job in round_.jobs:
        assert job.profile is not None
        times = np.array([*job.profile.stages, job.profile.alone])
        *stages, iteration = np.rint(times * draw.uniform(1 - JITTER, 1 + JITTER, len(times)))
        changed = {"stages": tuple(map(int, stages)), "iteration": int(iteration)}
        jobs.append(job.model_copy(update={"profile": job.profile.model_copy(update=changed)}))
    return round_.model_copy(update={"jobs": tuple(jobs)})


def placewright(seconds: float, round_: Round) -> Answer:
    """Decide as `placewright solve` does; the plan is verified once more."""
    plan = solve_round(round_, time_limit=seconds, gap=GAP)
    return replace(of_plan(round_, plan), figures=shared(plan))


def shared(plan: Plan) -> dict[str, float]:
    """Count the jobs that run, and those of them that share GPUs."""
    groups = [
        g for section in plan.sections if section["kind"] == "groups" for g in section["groups"]
    ]
    return {
        "running": sum(bool(decision.tasks) for decision in plan.decisions),
        "in groups": sum(len(group["members"]) for group in groups),
    }


def _best(pairing: str, chosen: Sequence[Settings], round_: Round) -> Answer:
    """Answer with the best of several settings of matching."""
    queue = Queue.of(round_)
    found = [grouped(queue, settings, PAIRINGS[pairing]) for settings in chosen]
    return _answer(round_, queue, max(found, key=lambda groups: _worth(queue, groups)))


def _alone(round_: Round) -> Answer:
    """Answer with jobs that do not share, those that ask the fewest GPUs for their weight first."""
    queue = Queue.of(round_)
    return _answer(round_, queue, alone(queue))


def _worth(queue: Queue, groups: Sequence[Group]) -> int:
    return int(measure(queue, groups).throughput.sum())


def _answer(round_: Round, queue: Queue, groups: Sequence[Group]) -> Answer:
    """Answer with groups as a plan, once it is verified."""
    plan = plan_of(round_, queue, groups)
    verification = verify(round_, plan)
    if not verification.ok:
        raise InvalidPlanError(f"the plan is invalid: {verification.violations[0]}")
    term = round_.policy.terms[0]
    return Answer("feasible", term, verification.terms[term], figures=shared(plan))


def _methods(seconds: float, jobs: int) -> Mapping[str, Method]:
    """Return all methods; each pairing with the described settings, and with the best of all."""
    tried = [name for name in PAIRINGS if name != "matching" or jobs <= MATCHED]
    return {
        OURS: partial(placewright, seconds),
        **{name: partial(_best, name, all_settings(described=True)) for name in tried},
        **{
            f"{name}, best settings": partial(_best, name, all_settings(described=False))
            for name in tried
        },
        "alone": _alone,
    }


def cases(*, quick: bool) -> list[Case | Tuning]:
    """Return all cases, seeds of one name together; or few that end within a minute."""
    if quick:
        return [
            Case("trace1", SIZES[0], 0),
            Case("trace1", LARGE, 0),
            *tuning_cases(quick=True),
        ]
    kinds: list[tuple[str, int, Variant]] = [
        *((trace, jobs, "") for trace in ("trace1", "trace3") for jobs in SIZES),
        ("trace1", LARGE, ""),
        *(("trace1", jobs, "weighted") for jobs in (100, LARGE)),
        *(("trace1", jobs, "jittered") for jobs in (100, LARGE)),
    ]
    drawn = [Case(trace, jobs, seed, kind) for trace, jobs, kind in kinds for seed in SEEDS]
    return [*drawn, *tuning_cases(quick=False)]


def run(chosen: Iterable[Case | Tuning], *, quick: bool) -> Iterator[Row]:
    """Yield the rows of each case, as `compared` says, and after the seeds of one name the means.

    How much better ours is stands beside each other method. Where ours takes up to a minute, in
    jittered cases, it is run once.
    """
    seconds = QUICK_SECONDS if quick else SECONDS
    for name, seeds in groupby(chosen, key=lambda case: case.name):
        rows: list[Row] = []
        for case in seeds:
            if not case.file.is_file():
                note = f"{case.file} not found; expected what cases are drawn from (see README.md)"
                yield Row(name, OURS, case.seed, SKIPPED, note=note)
                continue
            once = quick or name.endswith("jittered")
            runs = {
                method: partial(
                    measured, case.make, function, REPEATS if method == OURS and not once else 1
                )
                for method, function in case.methods(seconds).items()
            }
            these = list(compared(name, case.seed, runs))
            ours = next((row.value for row in these if row.method == OURS), None)
            these = [_beside(row, ours) for row in these]
            yield from these
            rows += these
        yield from _means(name, rows)


BETTER = "ours better by %"


def _beside(row: Row, ours: int | None) -> Row:
    if row.method == OURS or not ours or not row.value:
        return row
    return replace(row, figures={**row.figures, BETTER: 100 * (ours / row.value - 1)})


def _means(name: str, rows: Sequence[Row]) -> Iterator[Row]:
    """Yield a row per method over the seeds: how much better ours is, our worst gap and cost."""
    for method in dict.fromkeys(row.method for row in rows):
        mine = [row for row in rows if row.method == method and row.value is not None]
        if len({row.seed for row in mine}) < 2:
            continue
        figures: dict[str, float] = {"seeds": len(mine)}
        if method == OURS:
            figures["worst gap %"] = max(100 * (1.0 if r.gap is None else r.gap) for r in mine)
        else:
            better = [row.figures[BETTER] for row in mine if BETTER in row.figures]
            if better:
                figures |= {BETTER: mean(better), "at least %": min(better)}
        figures["worst CPU s"] = max(row.cpu_seconds or 0.0 for row in mine)
        yield Row(name, method, None, "mean", term=mine[0].term, figures=figures)
