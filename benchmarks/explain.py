"""`explain`: what the answer to "why is it pending?" costs, on openb and on 100,000 GPUs.

docs/benchmarks/results.md has what it found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks.explain_rounds import JOBS, openb_round
from benchmarks.measure import RunError, measured
from benchmarks.presets import NODES, PODS, TRACE
from benchmarks.report import ERROR, OURS, SKIPPED, Row
from placewright import Plan, Round, solve_round
from placewright.explain.conflict import SolvingOracle
from placewright.explain.explain_job import explained
from placewright.explain.explanation import Verdict
from placewright.explain.gang import ArrayOracle
from placewright.explain.job_corrections import JobCorrections
from placewright.explain.kinds import explain_all
from placewright.explain.situations import Situations
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.generators.gang import generate_round

__all__ = ["Case", "cases", "draw", "run"]

PODS_OF = "default"
SIZES = ((100_000, 10_000), (4096, 1500))
"""GPUs and pending jobs of the generated rounds, of the mix `tight`; the last one is quick."""

SEED = 0
PLAN_SECONDS, PLAN_GAP = 30.0, 0.001
"""Limits of the search for the plan beside which jobs are explained."""

SECONDS = 600.0
"""Time limit of an explanation: none of those here comes near it."""

CORRECTIONS = 6
QUICK_JOBS = ("big-rack", "v100-pair")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Case:
    """A round, and what is asked of it: one job, or all."""

    name: str
    seed: int | None
    make: Callable[[], tuple[Round, Plan | None]]
    answer: Callable[[tuple[Round, Plan | None]], Answer]
    needs: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """How an explanation ended, and its figures."""

    status: str
    figures: Mapping[str, float]


def cases(*, quick: bool) -> list[Case]:
    """Return all cases, or the few that end within a minute."""
    files = TRACE / NODES, TRACE / PODS.format(PODS_OF)
    names = QUICK_JOBS if quick else [job.name for job in JOBS]
    openb = partial(_openb, *files)
    found = [Case(f"openb-{job}", None, openb, partial(_one, job), files) for job in names]
    for gpus, jobs in SIZES[1:] if quick else SIZES[:1]:
        make, name = partial(_generated, gpus, jobs), f"tight-{gpus}"
        found.append(Case(f"{name}-largest", SEED, make, partial(_one, None)))
        found.append(Case(f"{name}-all", SEED, make, _all))
    return found


def run(chosen: Iterable[Case], *, quick: bool) -> Iterator[Row]:  # noqa: ARG001
    """Yield a row per explanation, or one that says which file is missing."""
    for case in chosen:
        if missing := [str(file) for file in case.needs if not file.is_file()]:
            note = f"{', '.join(missing)} not found; expected the openb trace (see README.md)"
            yield Row(case.name, OURS, case.seed, SKIPPED, note=note)
            continue
        try:
            (made,) = measured(case.make, case.answer, repeats=1)
        except RunError as error:
            yield Row(case.name, OURS, case.seed, ERROR, note=str(error))
            continue
        yield Row(
            case.name,
            OURS,
            case.seed,
            made.result.status,
            seconds=made.seconds,
            cpu_seconds=made.cpu_seconds,
            peak_mib=made.peak_mib,
            figures=made.result.figures,
        )


def draw(rows: Sequence[Row], target: Path) -> None:
    """Draw the CPU seconds of each stage, a bar per job."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    axes = figure.subplots()
    shown = [row for row in rows if "conflict s" in row.figures]
    names, left = [row.case for row in shown], [0.0] * len(shown)
    for stage in ("conflict s", "proof s", "corrections s"):
        seconds = [row.figures.get(stage, 0.0) for row in shown]
        axes.barh(names, seconds, left=left, label=stage.removesuffix(" s"))
        left = [a + b for a, b in zip(left, seconds, strict=True)]
    axes.invert_yaxis()
    axes.set(xlabel="CPU seconds", title="Why is it pending?")
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(target, dpi=150)


def _openb(nodes: Path, pods: Path) -> tuple[Round, Plan | None]:
    return openb_round(nodes, pods), None


def _generated(gpus: int, jobs: int) -> tuple[Round, Plan | None]:
    round_ = generate_round(gpus, jobs, mix="tight", seed=SEED)
    return round_, solve_round(round_, time_limit=PLAN_SECONDS, gap=PLAN_GAP)


def _one(name: str | None, asked: tuple[Round, Plan | None]) -> Answer:
    """Explain one job stage by stage; without a name that which asks most of those that wait."""
    situations = Situations.checked(*asked)
    name = _largest(situations) if name is None else name
    with SolvingOracle.opened(situations.round, time_limit=SECONDS, isolation="none") as solving:
        oracle = ArrayOracle(solving)
        ask = partial(explained, situations, name, oracle, solving)
        _, first = _timed(partial(ask, in_full=False))
        _, conflict = _timed(partial(ask, in_full=False))
        found, full = _timed(partial(ask, in_full=True))
        figures = {"arrays s": first - conflict, "conflict s": conflict, "proof s": full - conflict}
        figures |= {"facts": len(found.conflict), "of": found.facts, "questions": found.questions}
        if found.proof is not None:
            figures["proven"] = float(found.proof.minimal and found.proof.blocked is not None)
        if situations.plan is None:
            search = JobCorrections(situations, found, oracle, solving)
            helps, seconds = _timed(partial(search.found, CORRECTIONS))
            told = [*(helps.some_day or ()), *helps.now]
            figures |= {"corrections s": seconds, "corrections": len(told)}
            figures["least"] = sum(one.minimal for one in told)
    return Answer(str(found.verdict), figures)


def _largest(situations: Situations) -> str:
    """Return the job that asks most GPUs of those that wait in the plan."""
    decisions = () if situations.plan is None else situations.plan.decisions
    waits = {one.job for one in decisions if one.decision is DecisionKind.WAIT}
    jobs = [job for job in situations.round.jobs if job.name in waits]
    return max(jobs, key=lambda job: job.options[0].milli_gpu).name


def _all(asked: tuple[Round, Plan | None]) -> Answer:
    """Explain all jobs that wait."""
    kinds, seconds = _timed(partial(explain_all, *asked, time_limit=SECONDS, isolation="none"))
    undecided = [kind for kind in kinds if kind.explanation.verdict is Verdict.UNDECIDED]
    figures = {"table s": seconds, "jobs": sum(len(kind.jobs) for kind in kinds)}
    return Answer("undecided" if undecided else "decided", figures | {"causes": len(kinds)})


def _timed(ask: Callable[[], T]) -> tuple[T, float]:
    """Return an answer and its CPU seconds; solvers run in this process."""
    began = time.process_time()
    answer = ask()
    return answer, time.process_time() - began
