"""The distinct shapes of a round's tasks, as they are met, and what they are as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.problem import NO_LEVEL, Apart, Group, Slices
from placewright.instances.job import TaskGroup
from placewright.instances.ranges import expand
from placewright.topology import Cluster

Names: TypeAlias = tuple[str, ...]
ShapeKey: TypeAlias = tuple[int, tuple[tuple[str, int], ...], Names | None, Names | None, int]
"""Milli-GPU, the other demands by name, the allowed GPU models, the allowed hosts, rank."""

MAX_KINDS = 64
"""Most kinds of hosts; with more, hosts that only some tasks name are not told apart."""


class Shapes:
    """Numbers the distinct shapes as they are met."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.index: dict[ShapeKey, int] = {}
        self.levels = {name: i for i, name in enumerate(cluster.levels)}
        self._masks: dict[Names, NDArray[np.bool_]] = {}

    def group(
        self, group: TaskGroup, weights: dict[str, int], rank: int, joint: int = NO_LEVEL
    ) -> Group:
        """Return a task group with its shape; `weights` are the spread weights by level.

        `joint` is the level (an index) of which one domain holds all groups of the option.
        """
        demand = {"cpu": group.cpu, "memory": group.memory, **group.resources}
        models = None if group.gpu_models is None else tuple(sorted(set(group.gpu_models)))
        key: ShapeKey = (
            group.gpu,
            tuple(sorted((k, v) for k, v in demand.items() if v)),
            models,
            None if group.hosts is None else tuple(sorted(set(group.hosts))),
            rank,
        )
        preferred = weights if group.preferred is None else group.preferred
        charged = sorted((self.levels[n], weights[n]) for n in preferred if weights.get(n))
        # All groups in one domain: each of them in one.
        required = max(joint, NO_LEVEL if group.required is None else self.levels[group.required])
        alone = group.count == 1
        return Group(
            shape=self.index.setdefault(key, len(self.index)),
            count=group.count,
            milli_gpu=group.milli_gpu,
            required=NO_LEVEL if alone else required,
            # A level that contains the required one cannot hold the group in two domains.
            weights=() if alone else tuple(c for c in charged if c[0] > required),
            slices=self._slices(group, required),
            apart=self._apart(group),
        )

    def _slices(self, group: TaskGroup, required: int) -> Slices | None:
        """Return what slices ask beyond the level that the whole group requires."""
        asked = group.slices
        if asked is None or asked.size == 1 or self.levels[asked.required] <= required:
            return None
        return Slices(asked.size, self.levels[asked.required])

    def _apart(self, group: TaskGroup) -> Apart | None:
        asked = group.apart
        if asked is None or asked.most >= group.count:
            return None
        return Apart(self.levels[asked.level], asked.most)

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
        for (milli, wanted, models, named, _), s in self.index.items():
            gpu[s] = milli
            for name, amount in wanted:
                if name in resources:
                    demand[s, resources[name]] = amount
                else:
                    hosts[s] = False  # no host has any of it
            if models is not None:
                allowed = [model_of[m] for m in models if m in model_of]
                hosts[s] &= np.isin(cluster.gpu_model, allowed)
            if named is not None:
                hosts[s] &= self._mask(named)
        return gpu, demand, hosts

    def _mask(self, names: Names) -> NDArray[np.bool_]:
        """Mark the hosts that names and ranges stand for."""
        if names not in self._masks:
            self._masks[names] = hosts_named(self.cluster, names)
        return self._masks[names]

    def host_kinds(self) -> NDArray[np.int64]:
        """Return a number per host that tells its GPU model and the lists of hosts it is in."""
        model: NDArray[np.int64] = self.cluster.gpu_model.astype(np.int64)
        lists = {named for _, _, _, named, _ in self.index if named is not None}
        if not lists:
            return model
        key = np.column_stack([model, *(self._mask(named) for named in sorted(lists))])
        kinds = np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)
        return kinds if kinds.max(initial=0) < MAX_KINDS else model

    def ranks(self) -> NDArray[np.int64]:
        """Return the rank of each shape."""
        return np.array([rank for *_, rank in self.index], dtype=np.int64)


def hosts_named(cluster: Cluster, names: Sequence[str]) -> NDArray[np.bool_]:
    """Mark the hosts that names and ranges stand for, (hosts,)."""
    marked = np.zeros(cluster.num_hosts, dtype=np.bool_)
    if names:
        index = cluster.host_index
        marked[[index[host] for name in names for host in expand(name)]] = True
    return marked
