"""The Alibaba openb trace of 2023: a list of nodes and a list of pods become one round.

The trace accompanies Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
Fragmentation Gradient Descent", USENIX ATC 2023. It records no host for any pod: a running pod is
where best fit in file order puts it, not where it was. Nor does it record checkpoints or restart
times: moving or stopping a running pod costs its milli-GPU only.

What is left out, and counted in the summary: nodes without GPUs, pods that ask no GPU, and pods
whose `gpu_spec` names only models that no node has. `qos` and `pod_phase` are not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.instances.converters.support.csv_table import Table, read_table
from placewright.instances.converters.support.trace_rounds import (
    Conversion,
    Hosts,
    tie_rank,
    whole_gpus,
    without_summary,
)
from placewright.instances.derived.arrays import load_of
from placewright.instances.documents.base import MAX_AMOUNT, MAX_NOW
from placewright.instances.documents.cluster import MAX_GPUS_PER_HOST, ClusterDocument, HostEntry
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.quantities import MAX_GPU
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.topology.units import WHOLE_GPU

_NEVER = MAX_AMOUNT + 1


@dataclass(frozen=True, slots=True)
class _Nodes:
    """GPU nodes: names, models, and per node millicores, MiB and GPUs."""

    names: list[str]
    models: list[str]
    cpu: Ints
    memory: Ints
    gpus: Ints
    without_gpu: int


@dataclass(frozen=True, slots=True)
class _Pods:
    """GPU pods in file order.

    `gpus` GPUs of `milli` each, millicores, MiB; `models[i]` are the allowed ones, None: any.
    `row` is the row of each pod in its table.
    """

    names: list[str]
    gpus: Ints
    milli: Ints
    cpu: Ints
    memory: Ints
    models: list[tuple[str, ...] | None]
    row: Ints
    without_gpu: int
    without_model: int


def read_openb(
    nodes_csv: str | Path,
    pods_csv: str | Path,
    *,
    running: float | None = None,
    at: int | None = None,
    seed: int = 0,
) -> Conversion:
    """Turn a node list and a pod list of the openb trace into a round; by default all pods wait.

    One GPU with `gpu_milli` below 1000 is a share of a GPU, everything else whole GPUs; a missing
    column is no constraint. Every pod is a job of one task and weight 1; there are no levels.

    Parameters
    ----------
    nodes_csv
        Columns sn, cpu_milli, memory_mib, gpu, model.
    pods_csv
        Columns name, cpu_milli, memory_mib, num_gpu; optionally gpu_milli, gpu_spec (models with
        `|` between them), and creation_time, deletion_time, scheduled_time, which `at` needs.
    running
        Share of the demand (milli-GPU) that runs: the pods at the head of the file that together
        ask no more than it. Those that fit nowhere are left pending.
    at
        Take the pods alive at this second (creation <= at < deletion); the scheduled ones run.
    seed
        Orders hosts that tie in best fit (equal GPU and CPU left): 0 as in the file, else random.

    Raises
    ------
    InvalidInputError
        For a file that cannot be used (with line and column) or an argument out of its range.
    """
    if running is not None and at is not None:
        raise InvalidInputError("expected running or at, not both", path=("at",), value=at)
    if running is not None and not 0 <= running <= 1:
        raise InvalidInputError("expected a share from 0 to 1", path=("running",), value=running)
    if at is not None and not 0 <= at <= MAX_NOW:
        raise InvalidInputError(f"expected 0 to {MAX_NOW}", path=("at",), value=at)
    if seed < 0:
        raise InvalidInputError("expected 0 or more", path=("seed",), value=seed)

    nodes = _read_nodes(read_table(nodes_csv))
    table = read_table(pods_csv)
    pods = _read_pods(table, frozenset(nodes.models))
    alive = np.ones(len(pods.names), dtype=bool)
    runs = np.zeros(len(pods.names), dtype=bool)
    if at is not None:
        alive, runs = _alive_and_running(table, pods.row, at)
    elif running is not None:
        demand = np.cumsum(pods.gpus * pods.milli)
        runs = demand <= running * demand[-1:]

    places = _place(nodes, pods, runs, seed)
    round_ = Round(
        name="openb",
        now=at or 0,
        cluster=_cluster(nodes),
        jobs=tuple(
            Job(
                name=pods.names[i],
                options=_options(
                    int(pods.gpus[i] * pods.milli[i]),
                    int(pods.cpu[i]),
                    int(pods.memory[i]),
                    pods.models[i],
                ),
                running=places.get(i),
            )
            for i in np.flatnonzero(alive).tolist()
        ),
    )
    return Conversion(round_, _summary(round_, nodes, pods, int(runs.sum()) - len(places)))


convert_openb = without_summary(read_openb)


def _read_nodes(table: Table) -> _Nodes:
    table.require("sn", "cpu_milli", "memory_mib", "gpu", "model")
    names = table.names("sn")
    cpu = table.integers("cpu_milli", MAX_AMOUNT)
    memory = table.integers("memory_mib", MAX_AMOUNT)
    gpus = table.integers("gpu", MAX_GPUS_PER_HOST)
    kept = np.flatnonzero(gpus)
    models = table.columns["model"]
    rows: list[int] = kept.tolist()
    for row in rows:
        table.check_name(row, "model", models[row])
    if not rows:
        raise InvalidInputError(
            "expected at least one node with a GPU", file=table.file, show_value=False
        )
    return _Nodes(
        names=[names[row] for row in rows],
        models=[models[row] for row in rows],
        cpu=cpu[kept],
        memory=memory[kept],
        gpus=gpus[kept],
        without_gpu=gpus.size - kept.size,
    )


def _read_pods(table: Table, models: frozenset[str]) -> _Pods:
    table.require("name", "cpu_milli", "memory_mib", "num_gpu")
    names = table.names("name")
    cpu = table.integers("cpu_milli", MAX_AMOUNT)
    memory = table.integers("memory_mib", MAX_AMOUNT)
    gpus, milli = pod_gpus(table)
    allowed: list[tuple[str, ...] | None] = [None] * gpus.size
    if table.has("gpu_spec"):
        for row, cell in enumerate(table.columns["gpu_spec"]):
            if cell:
                allowed[row] = tuple(m for m in dict.fromkeys(cell.split("|")) if m in models)
    placeable = np.array([spec != () for spec in allowed], dtype=bool)
    kept = np.flatnonzero((gpus > 0) & placeable)
    rows: list[int] = kept.tolist()
    return _Pods(
        names=[names[row] for row in rows],
        gpus=gpus[kept],
        milli=milli[kept],
        cpu=cpu[kept],
        memory=memory[kept],
        models=[allowed[row] for row in rows],
        row=kept,
        without_gpu=int((gpus == 0).sum()),
        without_model=int(((gpus > 0) & ~placeable).sum()),
    )


def pod_gpus(table: Table) -> tuple[Ints, Ints]:
    """Return how many GPUs each pod asks, and thousandths of each: below 1000 only of a single."""
    gpus = table.integers("num_gpu", MAX_GPU // WHOLE_GPU)
    milli = np.full(gpus.size, WHOLE_GPU, dtype=np.int64)
    if table.has("gpu_milli"):
        shares = table.integers("gpu_milli", WHOLE_GPU)
        for row in np.flatnonzero((gpus == 1) & (shares == 0)).tolist():
            raise table.error(row, "gpu_milli", f"expected 1 to {WHOLE_GPU} for a pod of one GPU")
        milli = np.where(gpus == 1, shares, milli)
    return gpus, milli


def _alive_and_running(table: Table, rows: Ints, at: int) -> tuple[Bools, Bools]:
    """Return which pods exist at an instant, and which of them were scheduled by then."""
    table.require("creation_time", "deletion_time", "scheduled_time")
    created = table.integers("creation_time", MAX_AMOUNT)[rows]
    deleted = table.integers("deletion_time", MAX_AMOUNT, blank=_NEVER)[rows]
    scheduled = table.integers("scheduled_time", MAX_AMOUNT, blank=_NEVER)[rows]
    alive = (created <= at) & (at < deleted)
    return alive, alive & (scheduled <= at)


def _place(nodes: _Nodes, pods: _Pods, runs: Bools, seed: int) -> dict[int, Running]:
    """Place running pods by best fit in file order; a pod that fits nowhere has no place."""
    hosts = Hosts(
        gpu_free=whole_gpus(nodes.gpus),
        cpu=nodes.cpu.copy(),
        memory=nodes.memory.copy(),
        rank=tie_rank(nodes.gpus.size, seed),
    )
    model_of = np.array(nodes.models)
    places: dict[int, Running] = {}
    for i in np.flatnonzero(runs).tolist():
        models = pods.models[i]
        allowed = (
            np.ones(model_of.size, dtype=bool) if models is None else np.isin(model_of, models)
        )
        place = hosts.place(
            int(pods.gpus[i]), int(pods.milli[i]), int(pods.cpu[i]), int(pods.memory[i]), allowed
        )
        if place:
            host, gpus = place
            places[i] = Running(tasks=(Task(host=nodes.names[host], gpus=gpus),))
    return places


def _cluster(nodes: _Nodes) -> ClusterDocument:
    return ClusterDocument(
        name="openb",
        hosts=tuple(
            HostEntry(name=name, gpus=gpus, gpu_model=model, cpu=f"{cpu}m", memory=f"{memory}Mi")
            for name, model, gpus, cpu, memory in zip(
                nodes.names,
                nodes.models,
                nodes.gpus.tolist(),
                nodes.cpu.tolist(),
                nodes.memory.tolist(),
                strict=True,
            )
        ),
    )


@lru_cache(maxsize=4096)
def _options(gpu: int, cpu: int, memory: int, models: tuple[str, ...] | None) -> tuple[Option]:
    """Return the one option of a pod; equal pods share it, which saves memory."""
    asked = {"gpu": f"{gpu}m", "cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    return (Option(groups=(TaskGroup(**asked, gpu_models=models),)),)


def _summary(round_: Round, nodes: _Nodes, pods: _Pods, unplaced: int) -> str:
    running = sum(job.running is not None for job in round_.jobs)
    left_out = [f"{pods.without_gpu:,} CPU-only pods"]
    if nodes.without_gpu:
        left_out.append(f"{nodes.without_gpu:,} nodes without GPUs")
    if pods.without_model:
        left_out.append(f"{pods.without_model:,} pods that name no GPU model of the cluster")
    text = (
        f"openb: {len(round_.jobs):,} GPU pods ({len(round_.jobs) - running:,} pending, "
        f"{running:,} running) on {len(nodes.names):,} hosts, {nodes.gpus.sum():,} GPUs; "
        f"load {load_of(round_):.3f}; left out: {', '.join(left_out)}"
    )
    if running or unplaced:
        text += "; the trace records no host: running pods are placed by best fit in file order"
    if unplaced:
        text += f", {unplaced:,} more fit nowhere and wait"
    return text
