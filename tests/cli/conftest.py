"""A runner of the command line, rounds on disk, and plans made without a solver."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from placewright.cli.app import main
from placewright.instances.arrays import build_cluster, build_state
from placewright.instances.digest import round_digest
from placewright.instances.files import load_round, write
from placewright.instances.generator import generate_round
from placewright.instances.plan import (
    Certificate,
    Decision,
    DecisionKind,
    Plan,
    Reason,
    Run,
    Task,
    TermResult,
)
from placewright.instances.round import Job, Option, Round
from placewright.instances.verify import verify
from placewright.topology import Cluster, State


class Result(NamedTuple):
    """What a run of the command line left behind."""

    code: int
    out: str
    err: str


Runner = Callable[..., Result]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Run the command line in this process."""
    monkeypatch.setenv("COLUMNS", "100")

    def call(*args: str | Path) -> Result:
        code = main([str(arg) for arg in args])
        captured = capfd.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def round_file(tmp_path: Path) -> Path:
    """A generated round of 64 GPUs."""
    path = tmp_path / "round.json"
    write(generate_round(64, 30, seed=1), path)
    return path


@pytest.fixture
def plan_file(tmp_path: Path, round_file: Path) -> Path:
    """A valid plan of `round_file`."""
    path = tmp_path / "plan.json"
    write(first_fit(load_round(round_file)), path)
    return path


@pytest.fixture(name="first_fit")
def first_fit_fixture() -> Callable[[Round], Plan]:
    """Make plans without a solver."""
    return first_fit


def first_fit(round_: Round) -> Plan:
    """Keep what runs and start what fits, host by host in file order; levels are ignored."""
    cluster = build_cluster(round_.cluster)
    state = build_state(round_, cluster)
    decisions = []
    for job in round_.jobs:
        if job.running is None:
            decisions.append(_decide(job, cluster, state))
        else:
            decisions.append(
                Decision(
                    job=job.name,
                    decision=DecisionKind.KEEP,
                    option=job.running.option,
                    tasks=job.running.tasks,
                )
            )
    bare = Plan(round=round_digest(round_), decisions=tuple(decisions))
    terms = tuple(
        TermResult(name=name, sense="max" if name == "value" else "min", value=value)
        for name, value in verify(round_, bare).terms.items()
    )
    certificate = Certificate(
        status="feasible",
        gap=None,
        terms=terms,
        backend="greedy",
        versions={"placewright": "0.0", "packer": "1.0"},
        seed=0,
        run=Run(wall_s=0.5, cpu_s=0.25, peak_mib=100.0),
    )
    return bare.model_copy(update={"certificate": certificate})


def _decide(job: Job, cluster: Cluster, state: State) -> Decision:
    for index, option in enumerate(job.options):
        trial = state.copy()
        tasks = _fit(option, cluster, trial)
        if tasks is not None:
            state.free[:], state.gpu_free[:] = trial.free, trial.gpu_free
            return Decision(job=job.name, decision=DecisionKind.START, option=index, tasks=tasks)
    return Decision(job=job.name, decision=DecisionKind.WAIT, reason=Reason.NOT_CHOSEN)


def _fit(option: Option, cluster: Cluster, state: State) -> tuple[Task, ...] | None:
    tasks = []
    for g, group in enumerate(option.groups):
        amounts = {"cpu": group.cpu, "memory": group.memory, **group.resources}
        need = [amounts.get(name, 0) for name in cluster.resources]
        share, wanted = min(group.gpu, 1000), -(-group.gpu // 1000)
        for t in range(group.count):
            for host in range(cluster.num_hosts):
                start, stop = cluster.gpu_start[host : host + 2].tolist()
                free = [gpu for gpu in range(start, stop) if state.gpu_free[gpu] >= share]
                model = cluster.gpu_models[cluster.gpu_model[host]]
                if (
                    state.healthy[host]
                    and len(free) >= wanted
                    and (state.free[host] >= need).all()
                    and (group.gpu_models is None or model in group.gpu_models)
                ):
                    break
            else:
                return None
            state.free[host] -= need
            state.gpu_free[free[:wanted]] -= share
            gpus = tuple(gpu - start for gpu in free[:wanted])
            tasks.append(Task(group=g, index=t, host=cluster.hosts[host], gpus=gpus))
    return tuple(tasks)
