"""A runner of the command line, rounds on disk, and plans made without a solver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from placewright.cli.app import main
from placewright.instances.derived.arrays import build_cluster, build_state
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import (
    Certificate,
    Decision,
    DecisionKind,
    Plan,
    Run,
    Task,
    TermResult,
)
from placewright.instances.documents.round import Round
from placewright.instances.generators.gang import generate_round
from placewright.instances.io.digest import round_digest
from placewright.instances.io.files import load_round, parse_round, write
from placewright.instances.policies import sense_of
from placewright.instances.verify import verify
from placewright.topology import Cluster, State


class Result(NamedTuple):
    """What a run of the command line left behind."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """What `err` says, its spaces and line ends as one space each."""
        return " ".join(self.err.split())


Runner = Callable[..., Result]
Place = tuple[str | int, ...]
"""A host's name, then indices of its GPUs."""

HEAD = {"apiVersion": "placewright/v1alpha2"}


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


@pytest.fixture
def moving(tmp_path: Path) -> tuple[Path, Path]:
    """A round and a valid plan of it in which one job is preempted and three migrate."""
    cluster = {"hosts": [{"name": "a[0-3]", "gpus": 4, "gpu_model": "H100"}]}
    jobs = [
        _job("low", 4000, [("a0", 0, 1, 2, 3)], checkpoint=400, restart_s=60),
        _job("train", 1000, [("a1", 0), ("a1", 1)], restart_s=30),
        _job("left", 2000, [("a1", 2, 3)], migrate_cost=20_000_000),
        _job("right", 2000, [("a2", 2, 3)], restart_s=30),
        _job("serve", 1000, [("a3", 0)], pinned=True),
        {"name": "gang", "priority": 5, "options": [{"groups": [{"gpu": 4}]}]},
    ]
    round_ = parse_round(
        {
            **HEAD,
            "kind": "Round",
            "now": 1000,
            "cluster": cluster,
            "jobs": jobs,
            "policy": {"priority": "preemption"},
        }
    )
    kept = round_.jobs[4].running
    bare = Plan(
        round=round_digest(round_),
        decisions=(
            Decision(job="low", decision=DecisionKind.PREEMPT, displaced_by=("gang",)),
            _placed("train", DecisionKind.MIGRATE, [("a1", 0), ("a2", 0)]),
            _placed("left", DecisionKind.MIGRATE, [("a2", 2, 3)]),
            _placed("right", DecisionKind.MIGRATE, [("a1", 2, 3)]),
            Decision(job="serve", decision=DecisionKind.KEEP, option=0, tasks=kept.tasks),
            _placed("gang", DecisionKind.START, [("a0", 0, 1, 2, 3)]),
        ),
        sections=({"kind": "moves", "steps": ["low", "train", "left"], "needs_spare": ["right"]},),
    )
    paths = tmp_path / "moving.json", tmp_path / "moves.json"
    write(round_, paths[0])
    write(certified(round_, bare), paths[1])
    return paths


def _job(name: str, gpu: int, places: Sequence[Place], **running: object) -> dict[str, object]:
    """Return a running job with one task group and its tasks' places."""
    tasks = [{"index": i, "host": host, "gpus": gpus} for i, (host, *gpus) in enumerate(places)]
    option = {"groups": [{"count": len(places), "gpu": f"{gpu}m"}]}
    return {"name": name, "options": [option], "running": {**running, "tasks": tasks}}


def _placed(name: str, kind: DecisionKind, places: Sequence[Place]) -> Decision:
    tasks = tuple(Task(index=i, host=host, gpus=gpus) for i, (host, *gpus) in enumerate(places))
    return Decision(job=name, decision=kind, option=0, tasks=tasks)


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
    return certified(round_, Plan(round=round_digest(round_), decisions=tuple(decisions)))


def certified(round_: Round, bare: Plan) -> Plan:
    """Add a certificate without bounds."""
    terms = tuple(
        TermResult(name=name, sense=sense_of(name), value=value)
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
    return Decision(job=job.name, decision=DecisionKind.WAIT)


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
