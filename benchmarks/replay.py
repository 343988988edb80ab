"""A year of a large cluster, played from the command line: how long replays take.

References
----------
Gu et al., "ElasticFlow: an elastic serverless training platform for distributed deep learning",
ASPLOS 2023: its traces of three Microsoft ITP clusters have the sizes, and the median and spread of
running times, that are drawn here. Mu'alem and Feitelson, "Utilization, predictability, workloads,
and user runtime estimates in scheduling the IBM SP2 with backfilling", IEEE TPDS 2001: the f-model
of estimates.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.measure import RunError, command
from benchmarks.report import ERROR, Row
from benchmarks.scale import CLI
from placewright.array_types import Floats

JOBS, QUICK_JOBS = 1_000_000, 20_000
YEAR_S = 365 * 86_400
HOSTS, GPUS_PER_HOST = 512, 8
LOAD = 0.9
SIZES = {1: 0.402, 2: 0.025, 4: 0.029, 8: 0.504, 16: 0.028, 32: 0.008, 64: 0.004}
"""Shares of jobs by GPUs."""

LOG_SPREAD = 1.5
"""Standard deviation of the logarithm of running times; the median follows from the load."""

OVERESTIMATE = 2.0
"""Estimates are uniform between the running time and this much more than it."""

DAILY, WEEKLY = 0.5, 0.3
"""By which share of its mean the rate of arrivals swings over a day, and over a week."""

ROUND_S = 300
POLICIES = ("fifo", "fit-first", "easy", "srsf", "2d-las")


@dataclass(frozen=True, slots=True)
class Case:
    """A policy, and when it decides: every so many seconds, or None at every event."""

    policy: str
    every_s: int | None

    @property
    def name(self) -> str:
        """What rows call it."""
        return f"{self.policy}-{'event' if self.every_s is None else f'{self.every_s}s'}"


def cases(*, quick: bool) -> list[Case]:  # noqa: ARG001
    """Return all cases; a quick run plays a week of each."""
    return [Case(policy, every) for every in (ROUND_S, None) for policy in POLICIES]


def write_trace(path: Path, jobs: int) -> None:
    """Write a trace of so many jobs at the rate of a year of `JOBS`."""
    rng = np.random.Generator(np.random.PCG64(7))
    seconds = YEAR_S * jobs / JOBS
    submit = _arrivals(np.sort(rng.random(jobs)), seconds)
    gpus = rng.choice(list(SIZES), jobs, p=list(SIZES.values()))
    running = np.exp(rng.normal(0, LOG_SPREAD, jobs))
    running *= LOAD * HOSTS * GPUS_PER_HOST * seconds / (gpus @ running)
    running = np.maximum(np.rint(running), 1)
    estimate = np.ceil(running * (1 + OVERESTIMATE * rng.random(jobs)))
    columns = np.stack([submit.astype(np.int64), gpus, running, estimate], axis=1)
    np.savetxt(
        path,
        columns.astype(np.int64),
        fmt="%d",
        delimiter=",",
        header="submit_s,gpus,duration_s,predicted_s",
        comments="",
    )


def _arrivals(shares: Floats, seconds: float) -> Floats:
    """Return by when these shares of all jobs have come, by a rate that swings."""
    times = np.arange(0.0, seconds + 60, 60)
    day, week = (2 * np.pi * times / period for period in (86_400, 604_800))
    came = np.cumsum(1 + DAILY * np.sin(day) + WEEKLY * np.sin(week))
    found: Floats = np.interp(shares, (came - came[0]) / (came[-1] - came[0]), times)
    return found


def run(chosen: Sequence[Case], *, quick: bool) -> Iterator[Row]:
    """Yield a row per case: one replay in a process of its own, from its start to its summary."""
    jobs = QUICK_JOBS if quick else JOBS
    with TemporaryDirectory() as folder:
        trace = Path(folder, "year.csv")
        write_trace(trace, jobs)
        for case in chosen:
            yield _row(case, trace)


def _row(case: Case, trace: Path) -> Row:
    every = [] if case.every_s is None else ["--every", f"{case.every_s}s"]
    hosts = ["--hosts", f"{HOSTS}x{GPUS_PER_HOST}", "--placer", "best-fit"]
    arguments = ["replay", str(trace), "--policy", case.policy, *hosts, *every]
    try:
        made = command([sys.executable, "-m", CLI, *arguments, "--format", "json"])
    except RunError as error:
        return Row(case.name, case.policy, None, ERROR, note=str(error))
    measures = json.loads(made.result)["measures"]
    return Row(
        case.name,
        case.policy,
        None,
        "done",
        seconds=made.seconds,
        cpu_seconds=made.cpu_seconds,
        peak_mib=made.peak_mib,
        figures={
            "jobs": measures["jobs"],
            "decisions": measures["decisions"],
            "jobs per CPU s": measures["jobs"] / made.cpu_seconds,
            "mean JCT h": measures["jct_mean_s"] / 3600,
            "mean wait h": measures["wait_mean_s"] / 3600,
            "p99 wait h": measures["wait_p99_s"] / 3600,
            "stops per job": measures["stops_per_job"],
            "allocation %": 100 * measures["allocation"],
        },
    )


def draw(rows: Sequence[Row], target: Path) -> None:
    """Draw CPU seconds, a bar per replay."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    axes = figure.subplots()
    done = [row for row in rows if row.cpu_seconds is not None]
    axes.barh([row.case for row in done], [row.cpu_seconds or 0.0 for row in done])
    axes.invert_yaxis()
    axes.set(title="replay: shorter is better", xlabel="CPU seconds")
    figure.savefig(target, dpi=150)
