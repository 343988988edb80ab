"""Pods that arrive one after the other on the openb cluster: what `packing` decides about."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from placewright.array_types import Ints
from placewright.instances.converters import convert_openb
from placewright.instances.converters.support.csv_table import read_table
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.documents.quantities import MAX_GPU
from placewright.rounds.benchmark.packing_rules import Kind, Kinds
from placewright.topology.units import WHOLE_GPU

__all__ = ["ARRIVED", "Arrivals", "Pods", "arrivals", "read_pods"]

ARRIVED = 1.3
"""Milli-GPU asked by all that arrive, over those of the cluster."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Pods(Kinds):
    """A cluster, and the pods of a list.

    Attributes
    ----------
    kind_of : int64 (pods,)
        The kind of each pod, in the order of the list, which is that of the kinds.
    """

    cluster: ClusterDocument
    kind_of: Ints


@dataclass(frozen=True, eq=False, slots=True)
class Arrivals:
    """The kinds of the pods that arrive, in their order."""

    pods: Pods
    kinds: Ints


def read_pods(nodes_csv: Path, pods_csv: Path, *, part: int = 1) -> Pods:
    """Read a node list and a pod list of the trace; of the nodes one in `part`.

    A pod of one GPU asks `gpu_milli` of it, one of several asks them whole.
    """
    cluster = convert_openb(nodes_csv, pods_csv).cluster
    cluster = cluster.model_copy(update={"hosts": cluster.hosts[::part]})
    built = build_cluster(cluster)
    table = read_table(pods_csv)
    cpu, memory = table.integers("cpu_milli", MAX_AMOUNT), table.integers("memory_mib", MAX_AMOUNT)
    gpus = table.integers("num_gpu", MAX_GPU // WHOLE_GPU)
    share = table.integers("gpu_milli", WHOLE_GPU)
    milli = np.where(gpus == 1, share, gpus * WHOLE_GPU)
    specs = table.columns["gpu_spec"] if table.has("gpu_spec") else [""] * len(milli)
    pods = [
        Kind(g, c, m, tuple(spec.split("|")) if spec else None)
        for g, c, m, spec in zip(milli.tolist(), cpu.tolist(), memory.tolist(), specs, strict=True)
    ]
    counts = Counter(pods)
    number = {kind: i for i, kind in enumerate(counts)}
    names = np.array([built.gpu_models[i] for i in built.gpu_model])
    return Pods(
        cluster=cluster,
        kinds=tuple(counts),
        counts=np.array(list(counts.values()), dtype=np.int64),
        kind_of=np.array([number[pod] for pod in pods], dtype=np.int64),
        gpus=built.gpu_count.astype(np.int64),
        capacity=built.capacity[:, :2],
        allowed=np.array(
            [
                np.ones(len(names), dtype=np.bool_)
                if kind.models is None
                else np.isin(names, kind.models)
                for kind in counts
            ]
        ),
    )


def arrivals(pods: Pods, seed: int, asked: float = ARRIVED) -> Arrivals:
    """Draw pods with replacement until they ask so many times the cluster's GPUs."""
    rng = np.random.Generator(np.random.PCG64(seed))
    drawn: list[int] = []
    milli, goal = 0, asked * pods.total
    while milli < goal:
        drawn.append(int(pods.kind_of[rng.integers(len(pods.kind_of))]))
        milli += int(pods.milli[drawn[-1]])
    return Arrivals(pods, np.array(drawn, dtype=np.int64))
