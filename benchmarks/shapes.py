"""`shapes`: many options per job, placewright beside one 0/1 variable per job and option.

Without the tables of `speeds.FILES` all are skipped. docs/benchmarks/results.md has what it found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from benchmarks.baselines import Answer, of_certificate
from benchmarks.compare import compared
from benchmarks.measure import REPEATS, measured
from benchmarks.report import OURS, SKIPPED, Row
from benchmarks.speeds import FILES, HOSTS, Application, applications
from placewright import Round, solve_round
from placewright.instances.checks.round import check_round
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.cluster import ClusterDocument, HostEntry
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.policy import Policy
from placewright.instances.speed_models.sia import sizes
from placewright.solver import Limits, Model, Status, Worker
from placewright.topology.units import WHOLE_GPU

__all__ = ["METHODS", "Case", "cases", "literal", "placewright", "program", "run", "shapes_round"]

Method: TypeAlias = Callable[[float, Round], Answer]

SIZES = (64, 128, 256, 512, 1024, 2048)
QUICK_SIZES = (64, 256)
SEEDS = range(20)
UNIT = 64
"""GPUs of the cluster that all are multiples of."""

HOSTS_PER_UNIT = {"k80": 6, "p100": 3, "v100": 2}
MOST_GPUS = 64
"""Largest option."""

WAITING = 1.1
"""What waiting costs, when the smallest goodput of a job costs 1."""

VALUE_OF_ONE = 1_000_000
"""Values are whole numbers: this many are one."""

RUNNING = 0.5
"""Share of the jobs that run already, in Sia's sense: any other option begins with a restart."""

AGE_S, RESTART_S, MOST_RESTARTS = 7200.0, 30.0, 3
LEAST_AGE_S = 120.0
LEAST_LEFT = 0.1
"""Least share of its goodput that a job keeps after a restart."""

SECONDS, QUICK_SECONDS = 30.0, 5.0
"""Time limits of a method."""


@dataclass(frozen=True, slots=True)
class Case:
    """One round, by the GPUs of its cluster and its seed."""

    gpus: int
    seed: int

    @property
    def name(self) -> str:
        """What rows call it."""
        return f"shapes-{self.gpus}-{self.gpus // 2}"

    @property
    def options(self) -> int:
        """How many options all jobs have together."""
        return sum(len(job.options) for job in self.make().jobs)

    def make(self) -> Round:
        """Draw the round."""
        return shapes_round(self.gpus, self.seed, applications())


def shapes_round(gpus: int, seed: int, known: tuple[Application, ...]) -> Round:
    """Draw a round of half a job per GPU; it is the same on every machine.

    Parameters
    ----------
    gpus
        A multiple of `UNIT`.
    known
        The applications that jobs are drawn from.
    """
    units = gpus // UNIT
    hosts = [
        HostEntry(name=f"{model}-[0-{number * units - 1}]", gpus=HOSTS[model], gpu_model=model)
        for model, number in HOSTS_PER_UNIT.items()
    ]
    shapes = [
        (model, size)
        for model, number in HOSTS_PER_UNIT.items()
        for size in sizes(HOSTS[model], number * units, MOST_GPUS)
    ]
    draws = np.random.Generator(np.random.PCG64(seed)).random((gpus // 2, 5))
    jobs = [
        Job(name=f"job{i}", options=_options(shapes, known, drawn))
        for i, drawn in enumerate(draws.tolist())
    ]
    made = Round(
        name=f"shapes-{gpus}-{seed}",
        cluster=ClusterDocument(hosts=tuple(hosts)),
        jobs=tuple(jobs),
        policy=Policy(terms=("value",)),
    )
    check_round(made)
    return made


def _options(
    shapes: list[tuple[str, int]], known: tuple[Application, ...], drawn: list[float]
) -> tuple[Option, ...]:
    """Return what a job is offered; five draws say which job it is and what it did so far."""
    which, noise, ran, present, restarts = drawn
    application = known[int(which * len(known))]
    scale = application.first_batch * 100**noise
    goodput = np.array([application.goodput(model, size, scale) for model, size in shapes])
    goodput /= goodput[goodput > 0].min()
    if ran < RUNNING:
        share = np.cumsum([1 / size for _, size in shapes])
        kept = int(np.searchsorted(share, present * share[-1]))
        age, times = LEAST_AGE_S + AGE_S * ran / RUNNING, int(restarts * (MOST_RESTARTS + 1))
        left = max((age - times * RESTART_S) / (age + RESTART_S), LEAST_LEFT)
        goodput[np.arange(len(shapes)) != kept] *= left
    values = [
        round(VALUE_OF_ONE * (WAITING - speed**-0.5)) if speed else 0 for speed in goodput.tolist()
    ]
    return tuple(
        Option(
            name=f"{model}-{size}",
            value=value,
            groups=(
                TaskGroup(
                    count=max(1, size // HOSTS[model]),
                    gpu=min(size, HOSTS[model]),
                    gpu_models=(model,),
                ),
            ),
        )
        for (model, size), value in zip(shapes, values, strict=True)
        if value > 0
    )


def placewright(seconds: float, round: Round) -> Answer:  # noqa: A002
    """Decide as `placewright solve` does, as far as it can prove."""
    certificate = solve_round(round, time_limit=seconds, gap=0.0).certificate
    assert certificate is not None
    return of_certificate(certificate)


def program(round: Round) -> Model:  # noqa: A002
    """Return the program of one 0/1 variable per job and option; GPUs are sums per model."""
    room: dict[str, int] = {}
    for host in round.cluster.hosts:
        milli = len(expand(host.name)) * (host.gpus or 0) * WHOLE_GPU
        room[str(host.gpu_model)] = room.get(str(host.gpu_model), 0) + milli
    row_of = {model: i for i, model in enumerate(room)}
    pairs = [(j, option) for j, job in enumerate(round.jobs) for option in job.options]
    made = Model()
    x = made.variables("x", len(pairs), upper=1.0)
    one = made.rows("one option", len(round.jobs), upper=1.0)
    made.add(one[[j for j, _ in pairs]], x, 1.0)
    gpus = made.rows("gpus", len(room), upper=list(room.values()))
    models = [(option.groups[0].gpu_models or ("",))[0] for _, option in pairs]
    asked = np.array([option.milli_gpu for _, option in pairs], dtype=np.float64)
    made.add(gpus[[row_of[model] for model in models]], x, asked)
    made.term("value", x, [float(option.value or 0) for _, option in pairs], sense="max")
    return made


def literal(backend: str, seconds: float, round: Round) -> Answer:  # noqa: A002
    """Solve the literal program with one solver to the end; its value is that of no plan."""
    arrays = program(round).arrays("value")
    with Worker() as worker:
        outcome = worker.solve(backend, arrays, Limits(seconds=seconds, gap=0.0))
    if outcome.objective is None:
        return Answer(outcome.status.value, "value", note=outcome.message)
    value = int(np.rint(outcome.objective))
    if outcome.status is Status.OPTIMAL:
        return Answer("optimal", "value", value, value)
    bound = None if outcome.bound is None else max(value, math.ceil(outcome.bound))
    return Answer(outcome.status.value, "value", value, bound, outcome.message)


METHODS: Mapping[str, Method] = {
    OURS: placewright,
    "highs": partial(literal, "highs"),
    "cbc": partial(literal, "cbc"),
}


def cases(*, quick: bool) -> list[Case]:
    """Return all sizes and seeds, or few that end within a minute."""
    if quick:
        return [Case(gpus, SEEDS[0]) for gpus in QUICK_SIZES]
    return [Case(gpus, seed) for gpus in SIZES for seed in SEEDS]


def run(chosen: Iterable[Case], *, quick: bool) -> Iterator[Row]:
    """Yield the rows of each case, as `compared` says, or one that says which file is missing.

    A literal program is solved once; a worker loads its solver in each call, as it does for
    placewright.
    """
    seconds = QUICK_SECONDS if quick else SECONDS
    missing = [str(file) for file in FILES if not file.is_file()]
    for case in chosen:
        if missing:
            note = f"{', '.join(missing)} not found; expected the speed tables (see README.md)"
            yield Row(case.name, OURS, case.seed, SKIPPED, note=note)
            continue
        runs = {
            name: partial(
                measured,
                case.make,
                partial(method, seconds),
                REPEATS if name == OURS and not quick else 1,
            )
            for name, method in METHODS.items()
        }
        for row in compared(case.name, case.seed, runs):
            figures = {"jobs": case.gpus // 2, "options": case.options}
            yield replace(row, figures=figures) if row.method == OURS else row
