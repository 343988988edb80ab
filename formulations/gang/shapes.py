"""The distinct shapes of a round's tasks, as they are met, and what they are as arrays."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.problem import NO_LEVEL, Group
from placewright.instances.job import TaskGroup
from placewright.topology import Cluster

ShapeKey: TypeAlias = tuple[int, tuple[tuple[str, int], ...], tuple[str, ...] | None, int]
"""Milli-GPU, the other demands by name, the allowed GPU models, rank."""


class Shapes:
    """Numbers the distinct shapes as they are met."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.index: dict[ShapeKey, int] = {}
        self.levels = {name: i for i, name in enumerate(cluster.levels)}

    def group(self, group: TaskGroup, weights: dict[str, int], rank: int) -> Group:
        """Return a task group with its shape; `weights` are the spread weights by level."""
        demand = {"cpu": group.cpu, "memory": group.memory, **group.resources}
        models = None if group.gpu_models is None else tuple(sorted(set(group.gpu_models)))
        key: ShapeKey = (
            group.gpu,
            tuple(sorted((k, v) for k, v in demand.items() if v)),
            models,
            rank,
        )
        preferred = weights if group.preferred is None else group.preferred
        charged = sorted((self.levels[n], weights[n]) for n in preferred if weights.get(n))
        required = NO_LEVEL if group.required is None else self.levels[group.required]
        return Group(
            shape=self.index.setdefault(key, len(self.index)),
            count=group.count,
            milli_gpu=group.milli_gpu,
            required=required if group.count > 1 else NO_LEVEL,
            # A level that contains the required one cannot hold the group in two domains.
            weights=tuple(c for c in charged if c[0] > required) if group.count > 1 else (),
        )

    def arrays(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return milli-GPU, other demands and allowed hosts, as `Problem` has them."""
        cluster = self.cluster
        resources = {name: i for i, name in enumerate(cluster.resources)}
        model_of = {name: i for i, name in enumerate(cluster.gpu_models)}
        gpu = np.zeros(len(self.index), dtype=np.int64)
        demand = np.zeros((len(self.index), len(resources)), dtype=np.int64)
        hosts = np.ones((len(self.index), cluster.num_hosts), dtype=np.bool_)
        for (milli, wanted, models, _), s in self.index.items():
            gpu[s] = milli
            for name, amount in wanted:
                if name in resources:
                    demand[s, resources[name]] = amount
                else:
                    hosts[s] = False  # no host has any of it
            if models is not None:
                allowed = [model_of[m] for m in models if m in model_of]
                hosts[s] &= np.isin(cluster.gpu_model, allowed)
        return gpu, demand, hosts

    def ranks(self) -> NDArray[np.int64]:
        """Return the rank of each shape."""
        return np.array([rank for _, _, _, rank in self.index], dtype=np.int64)
