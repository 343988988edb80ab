"""`presets`: what is asked of running jobs, on the openb cluster with 90 % of the demand running.

The trace of Alibaba is not part of this repository: its files (`FILES`) are looked for in `TRACE`,
and without them every case is skipped. docs/benchmarks/results.md has what it found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from benchmarks.baselines import GAP, Answer, of_plan
from benchmarks.compare import compared
from benchmarks.measure import REPEATS, measured
from benchmarks.report import OURS, SKIPPED, Row
from placewright import Round, solve_round
from placewright.instances.checks.round import check_round
from placewright.instances.converters import convert_openb
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.presets import presets

__all__ = ["PRESETS", "Case", "cases", "decide", "run"]

Preset: TypeAlias = Callable[[Round], Round]

TRACE = Path(__file__).parents[2] / "shared" / "data" / "traces" / "openb"
NODES = "openb_node_list_gpu_node.csv"
PODS = "openb_pod_list_{}.csv"
LISTS = ("default", "gpuspec10")
RUNNING = 0.9
SEED = 0

SECONDS, QUICK_SECONDS = 60.0, 5.0
"""Time limits of a solve."""

DRAINED_SHARE, DRAINED_LEAST = 0.01, 4
GPU_WORTH_S = 600
GANG = Job(
    name="gang",
    priority=1,
    options=(Option(groups=(TaskGroup(count=64, gpu=8, cpu=64, memory="256Gi"),)),),
)
"""More whole hosts than are free; a task asks what whole-host pods of the trace ask."""


def _drain(round: Round) -> Round:  # noqa: A002
    hosts = sum(len(expand(entry.name)) for entry in round.cluster.hosts)
    share = int(DRAINED_SHARE * hosts)
    return presets.drain(round, _busy_hosts(round, max(DRAINED_LEAST, share)))


def _hot_swap(number: int, round: Round) -> Round:  # noqa: A002
    return presets.hot_swap(round, _busy_hosts(round, number))


def _defragment(round: Round) -> Round:  # noqa: A002
    return presets.defragment(round, "host", GPU_WORTH_S)


def _minimal_victims(round: Round) -> Round:  # noqa: A002
    asked = round.model_copy(update={"jobs": (*round.jobs, GANG)})
    return presets.minimal_victims(asked, GANG.name)


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "drain": _drain,
        "hot_swap-1": partial(_hot_swap, 1),
        "hot_swap-8": partial(_hot_swap, 8),
        "defragment": _defragment,
        "minimal_victims": _minimal_victims,
    }
)


@dataclass(frozen=True, slots=True)
class Case:
    """A preset on the round of one pod list of the trace."""

    preset: str
    pods: str

    @property
    def name(self) -> str:
        """What rows call it."""
        return f"{self.preset}-{self.pods}"

    @property
    def files(self) -> tuple[Path, Path]:
        """The files of the trace that it needs: nodes and pods."""
        return TRACE / NODES, TRACE / PODS.format(self.pods)

    def make(self) -> Round:
        """Convert the trace and apply the preset."""
        made = PRESETS[self.preset](convert_openb(*self.files, running=RUNNING))
        check_round(made)
        return made


def cases(*, quick: bool) -> list[Case]:
    """Return every preset on every pod list, or all on the first."""
    return [Case(preset, pods) for pods in (LISTS[:1] if quick else LISTS) for preset in PRESETS]


def run(chosen: Iterable[Case], *, quick: bool) -> Iterator[Row]:
    """Yield a row per case, as `compared` says, or one that says which file is missing."""
    seconds, repeats = (QUICK_SECONDS, 1) if quick else (SECONDS, REPEATS)
    for case in chosen:
        if missing := [str(file) for file in case.files if not file.is_file()]:
            note = f"{', '.join(missing)} not found; expected the openb trace (see README.md)"
            yield Row(case.name, OURS, SEED, SKIPPED, note=note)
        else:
            runs = partial(measured, case.make, partial(decide, seconds), repeats)
            yield from compared(case.name, SEED, {OURS: runs})


def decide(seconds: float, round: Round) -> Answer:  # noqa: A002
    """Decide a round, and count the jobs that move and those that stop."""
    plan = solve_round(round, time_limit=seconds, gap=GAP)
    kinds = [decision.decision for decision in plan.decisions]
    figures = {
        "moved": kinds.count(DecisionKind.MIGRATE),
        "preempted": kinds.count(DecisionKind.PREEMPT),
    }
    return replace(of_plan(round, plan), figures=figures)


def _busy_hosts(round: Round, number: int) -> list[str]:  # noqa: A002
    """Draw this many of the hosts that running jobs use; the same ones each time."""
    busy = {task.host for job in round.jobs if job.running for task in job.running.tasks}
    hosts = sorted(busy)
    drawn = np.random.Generator(np.random.PCG64(SEED)).random(len(hosts))
    return [hosts[i] for i in np.argsort(drawn, kind="stable")[:number]]
