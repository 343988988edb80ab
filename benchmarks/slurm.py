"""`slurm`: a real Slurm on loopback, its own backfill beside ours on the same state and queue.

`queue` cases: a fragmented cluster of 64 hosts and a queue, decided once. `arrivals` cases: jobs
come and end on 16 hosts; `starving`: a gang with many jobs behind it.
docs/benchmarks/results.md has what it found.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.plots import figure_bars
from benchmarks.report import ERROR, OURS, SKIPPED, Row
from benchmarks.slurm_arrivals import arrivals, play, starving
from benchmarks.slurm_lab import CTLD, SLURMD, Lab
from benchmarks.slurm_queue import GPUS_PER_HOST, Asked, asked, fragment, submit_held
from benchmarks.slurm_trip import Depth, apply, differences, read, with_order
from placewright import Plan, solve_round
from placewright.instances.derived.reason_text import reason_text
from placewright.instances.documents.plan import Decision, DecisionKind

__all__ = ["Case", "cases", "draw", "run"]

SLURM = "Slurm backfill"
SEEDS, LOADS = range(1, 7), (0.5, 0.8)
ARRIVAL_SEEDS = range(1, 6)
CLASSES = 3
WATCH = f"{OURS} watch"
CARRIED_OUT = f"{OURS} depth all"
DEPTHS: Mapping[str, Depth] = {CARRIED_OUT: "all", f"{OURS} depth 1": 1, f"{OURS} without": None}
"""Methods by the depth of their reservations."""

PARTITION = "partitionname=gpu"


@dataclass(frozen=True, slots=True)
class Case:
    """A queue of a seed and a load, arrivals of a seed (`load` None), or the gang (0, None)."""

    seed: int
    load: float | None

    @property
    def name(self) -> str:
        """By which it is chosen."""
        if self.load is not None:
            return f"queue-{self.seed}-{self.load}"
        return f"arrivals-{self.seed}" if self.seed else "starving"


def cases(*, quick: bool) -> list[Case]:
    """Return all cases; `quick`: one queue."""
    if quick:
        return [Case(1, 0.5)]
    queues = [Case(seed, load) for seed in SEEDS for load in LOADS]
    return queues + [Case(seed, None) for seed in (*ARRIVAL_SEEDS, 0)]


def run(chosen: Iterable[Case], *, quick: bool) -> Iterator[Row]:
    """Yield a row per method and case."""
    del quick
    for case in chosen:
        if not all(Path(program).exists() for program in (CTLD, SLURMD)):
            yield Row(case.name, SLURM, None, SKIPPED, note=f"needs {CTLD} and {SLURMD}")
            continue
        with TemporaryDirectory() as folder:
            if case.load is None:
                yield from _arrivals(case, Path(folder))
            else:
                with Lab(Path(folder)) as lab:
                    yield from _queue(case, lab, case.load)


def draw(rows: Sequence[Row], target: Path) -> None:
    """Draw the GPUs that are started, per queue."""
    figure_bars(rows, target, {"GPUs started": {"GPUs started": "all"}})


def classes(seed: int, number: int) -> list[int]:
    """Draw the class of each job of a queue: the higher, the more urgent."""
    chosen = random.Random(seed)
    return [chosen.randrange(CLASSES) for _ in range(number)]


def _queue(case: Case, lab: Lab, load: float) -> Iterator[Row]:
    """Decide a queue by each method, ours by plans, of which the first is carried out."""
    fragment(lab, case.seed)
    jobs = list(asked(case.seed, round(load * lab.size.hosts * GPUS_PER_HOST)))
    urgent = classes(case.seed, len(jobs))
    numbers = list(submit_held(lab, jobs))
    rank = {str(number): of for number, of in zip(numbers, urgent, strict=True)}
    round_ = read(lab)
    rounds = {method: with_order(round_, rank, depth) for method, depth in DEPTHS.items()}
    plans = {method: solve_round(one) for method, one in rounds.items()}
    for method, plan in plans.items():
        made = plan.certificate
        wrong: list[str] | None = None
        if method == CARRIED_OUT:
            wrong = differences(plan, apply(lab, rounds[method], plan))
        yield Row(
            case.name,
            method,
            None,
            ERROR if wrong or made is None else made.status,
            cpu_seconds=made.run.cpu_s if made is not None and made.run is not None else None,
            figures=_figures(jobs, urgent, [_starts(plan, number) for number in numbers]),
            note="" if wrong is None else "; ".join(wrong) or "carried out",
        )
    lab.cancel(*numbers)
    by_slurm = _as_slurm_decides(lab, jobs, urgent)
    ours = plans[CARRIED_OUT]
    more = [n for n, yes in zip(numbers, by_slurm, strict=True) if yes and not _starts(ours, n)]
    yield Row(
        case.name,
        SLURM,
        None,
        "done",
        figures=_figures(jobs, urgent, by_slurm),
        note="; ".join(_why(ours, number, jobs[numbers.index(number)]) for number in more),
    )


def _starts(plan: Plan, number: int) -> bool:
    return _decision(plan, number).decision is DecisionKind.START


def _decision(plan: Plan, number: int) -> Decision:
    return next(one for one in plan.decisions if one.job == str(number))


def _why(plan: Plan, number: int, job: Asked) -> str:
    """Say why our plan does not start a job that Slurm does."""
    decision = _decision(plan, number)
    why = "" if decision.reason is None else reason_text(decision.reason, decision.detail)
    return f"{job.hosts} x {job.gpus} GPUs, {job.minutes // 60} h: {why}"


def _as_slurm_decides(lab: Lab, jobs: list[Asked], urgent: list[int]) -> list[bool]:
    """Let Slurm see a whole queue at one moment, and return which of its jobs it starts."""
    lab.run("scontrol", "update", PARTITION, "State=DOWN")
    numbers = [
        lab.submit(*job.options(), f"--priority={(urgent[i] + 1) * 1_000_000 - i}")
        for i, job in enumerate(jobs)
    ]
    lab.run("scontrol", "update", PARTITION, "State=UP")
    after = lab.settle(quiet_s=10)
    return [after[number].state == "RUNNING" for number in numbers]


def _figures(
    jobs: Sequence[Asked], urgent: Sequence[int], started: Sequence[bool]
) -> dict[str, float]:
    figures: dict[str, float] = {
        "jobs": len(jobs),
        "GPUs asked": sum(job.total for job in jobs),
        "jobs started": sum(started),
        "GPUs started": sum(job.total for job, yes in zip(jobs, started, strict=True) if yes),
    }
    for rank in reversed(range(CLASSES)):
        figures[f"GPUs, class {rank}"] = sum(
            job.total
            for job, of, yes in zip(jobs, urgent, started, strict=True)
            if yes and of == rank
        )
    return figures


def _arrivals(case: Case, folder: Path) -> Iterator[Row]:
    """Play a stream twice at the same time: what the machine does besides delays both."""
    stream = arrivals(case.seed, classes(case.seed, 1000)) if case.seed else starving()
    with ThreadPoolExecutor(2) as pool:
        made = {
            method: pool.submit(play, folder / str(watched), stream, watched=watched)
            for method, watched in ((WATCH, True), (SLURM, False))
        }
        for method, figures in made.items():
            yield Row(case.name, method, None, "done", figures=figures.result())
