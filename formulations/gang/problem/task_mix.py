"""The mix of expected tasks, and fragmentation: how much free GPU is useful to them (`stranded`).

Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", USENIX ATC 2023, section 4. With free milli-GPU r[i] of the GPUs i of a host h, and kinds
k of tasks that take n[k] GPUs, m[k] milli-GPU of each,

    useful(k, h)  =  sum of the r[i] >= m[k], if a task of k fits h;  0 if not
    stranded      =  sum_h sum_k weight[k] (sum_i r[i] - useful(k, h))

over the open hosts. A GPU that holds MIG slices is useful to no kind. Arrivals only take from a
host, so they never increase `useful`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang.problem.problem import Problem
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.policy import TaskKind
from placewright.instances.documents.round import Round
from placewright.topology.units import WHOLE_GPU

STRANDED = "stranded"
_Key = tuple[int, tuple[tuple[str, int], ...], tuple[str, ...] | None]


@dataclass(frozen=True, eq=False, slots=True)
class TaskMix:
    """The kinds of expected tasks that some host could be useful to, as arrays.

    Attributes
    ----------
    gpus, milli : int64 (kinds,)
        GPUs that a task takes, and milli-GPU of each.
    sizes, size_of : int64 (sizes,), int64 (kinds,)
        The distinct `milli`, ascending, and the index of each kind's.
    demand : int64 (kinds, resources)
        Other resources, in the cluster's order.
    allowed : bool (GPU models + 1, kinds)
        Whether the kind may use the model; the last row is for hosts without one.
    weight : int64 (kinds,)
    total : int
        Weight of all kinds, including those that no host could be useful to.
    """

    gpus: Ints
    milli: Ints
    sizes: Ints
    size_of: Ints
    demand: Ints
    allowed: NDArray[np.bool_]
    weight: Ints
    total: int

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Return the mix of the policy, by default that of the round's own jobs."""
        cluster = problem.cluster
        kinds = _kinds(problem.round)
        resource = {name: i for i, name in enumerate(cluster.resources)}
        able = [
            (key, weight)
            for key, weight in kinds.items()
            if key[0] and all(name in resource for name, _ in key[1])
        ]
        gpu = np.array([key[0] for key, _ in able], dtype=np.int64)
        demand = np.zeros((len(able), len(resource)), dtype=np.int64)
        allowed = np.ones((len(cluster.gpu_models) + 1, len(able)), dtype=np.bool_)
        for k, ((_, wanted, models), _) in enumerate(able):
            for name, amount in wanted:
                demand[k, resource[name]] = amount
            if models is not None:
                allowed[:, k] = [*(name in models for name in cluster.gpu_models), False]
        milli = np.minimum(gpu, WHOLE_GPU)
        sizes, size_of = np.unique(milli, return_inverse=True)
        return cls(
            gpus=-(-gpu // WHOLE_GPU),
            milli=milli,
            sizes=sizes,
            size_of=size_of,
            demand=demand,
            allowed=allowed,
            weight=np.array([weight for _, weight in able], dtype=np.int64),
            total=sum(kinds.values()),
        )

    def useful(self, free: Ints, gpus: Ints, model: Ints) -> Ints:
        """Return the milli-GPU of hosts that are useful to each kind.

        Parameters
        ----------
        free : int64 (hosts, resources)
            What they have left.
        gpus : int64 (hosts, GPUs)
            Free milli-GPU of each GPU.
        model : int64 (hosts,)
            Their GPU models.

        Returns
        -------
        int64 (hosts, kinds)
        """
        large = gpus[:, None, :] >= self.sizes[:, None]
        fits = large.sum(axis=2)[:, self.size_of] >= self.gpus
        fits &= self.allowed[model]
        for r in range(free.shape[1]):
            fits &= free[:, r, None] >= self.demand[:, r]
        each = np.where(large, gpus[:, None, :], 0).sum(axis=2)
        return np.where(fits, each[:, self.size_of], 0)


def _kinds(round_: Round) -> dict[_Key, int]:
    """Return the weight of each kind: milli-GPU, other demands by name, allowed GPU models."""
    kinds: Counter[_Key] = Counter()
    known: dict[int, _Key] = {}
    for kind, weight in _tasks(round_):
        key = known.get(id(kind))
        if key is None:
            extra = kind.resources if isinstance(kind, TaskGroup) else {}
            wanted = {"cpu": kind.cpu, "memory": kind.memory, **extra}
            models = None if kind.gpu_models is None else tuple(sorted(set(kind.gpu_models)))
            needed = tuple(sorted((name, amount) for name, amount in wanted.items() if amount))
            key = known[id(kind)] = (kind.gpu, needed, models)
        kinds[key] += weight
    return dict(kinds)


def _tasks(round_: Round) -> Iterator[tuple[TaskKind | TaskGroup, int]]:
    if round_.policy.mix is not None:
        yield from ((kind, kind.weight) for kind in round_.policy.mix)
        return
    for job in round_.jobs:
        option = job.options[0 if job.running is None else job.running.option]
        yield from ((group, group.count) for group in option.groups if group.mig is None)
