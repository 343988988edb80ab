"""A round compiled to arrays: shapes, job classes, quotas and the free state of the hosts.

A **shape** is what a task asks of one host: milli-GPU, other resources, allowed GPU models.
A **job class** holds the pending jobs that no constraint or term can tell apart: equal options
(groups, values) and tenant. Everything downstream counts jobs per class.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, gcd
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.instances.arrays import build_cluster, build_state
from placewright.instances.documents import WHOLE_GPU
from placewright.instances.round import Job, Round, TaskGroup
from placewright.topology import Cluster, State

NO_LEVEL = -1
SENSE: dict[str, Literal["max", "min"]] = {
    "value": "max",
    "spread": "min",
    "proximity": "min",
    "opened": "min",
    "leftover": "min",
}


@dataclass(frozen=True, slots=True)
class Group:
    """A task group: `count` tasks of one shape.

    `required` is the index of the level that must hold all tasks (`NO_LEVEL`: none), `weights` the
    (level index, spread weight) pairs that count for it, outermost first.
    """

    shape: int
    count: int
    milli_gpu: int
    required: int
    weights: tuple[tuple[int, int], ...]

    @property
    def bound_to_levels(self) -> bool:
        """Whether the place of one task matters to where the others may or should go."""
        return self.count > 1 and (self.required != NO_LEVEL or bool(self.weights))


@dataclass(frozen=True, slots=True)
class Choice:
    """An option of a job class: its groups, its value, and its index in the jobs' options."""

    index: int
    value: int
    groups: tuple[Group, ...]

    @property
    def single(self) -> bool:
        """Whether the option is one task."""
        return len(self.groups) == 1 and self.groups[0].count == 1


@dataclass(frozen=True, slots=True)
class JobClass:
    """Interchangeable pending jobs (indices in `round.jobs`, highest priority first)."""

    jobs: tuple[int, ...]
    tenant: int
    choices: tuple[Choice, ...]


@dataclass(frozen=True, eq=False)
class Problem:
    """What a gang formulation sees of a round.

    Attributes
    ----------
    shape_gpu : int64 (shapes,)
        Milli-GPU of a task: below 1000 a share of one GPU, else whole GPUs.
    shape_demand : int64 (shapes, resources)
        Other demands, in the cluster's order of resources.
    shape_allowed : bool (shapes, hosts)
        Hosts whose GPU model the shape allows and that have what it asks for at all.
    quota : dict of (tenant, resource index or -1 for milli-GPU) to int
        What pending jobs of a tenant may still take.
    terms : tuple of str
        Objective terms, in lexicographic order.
    """

    round: Round
    cluster: Cluster
    state: State
    classes: tuple[JobClass, ...]
    shape_gpu: NDArray[np.int64]
    shape_demand: NDArray[np.int64]
    shape_allowed: NDArray[np.bool_]
    quota: dict[tuple[int, int], int]
    terms: tuple[str, ...]

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of jobs in each class."""
        return np.array([len(c.jobs) for c in self.classes], dtype=np.int64)

    @cached_property
    def shape_hosts(self) -> NDArray[np.bool_]:
        """Healthy hosts that a shape may use, (shapes, hosts)."""
        return self.shape_allowed & self.state.healthy

    @cached_property
    def shared(self) -> NDArray[np.bool_]:
        """Which shapes ask for a share of one GPU."""
        return (self.shape_gpu > 0) & (self.shape_gpu < WHOLE_GPU)

    @cached_property
    def _steps(self) -> dict[str, int]:
        """Per term a number that divides every value that it can take."""
        choices = [choice for job_class in self.classes for choice in job_class.choices]
        groups = [group for choice in choices for group in choice.groups]
        return {
            "value": gcd(*(choice.value for choice in choices)),
            "spread": gcd(*(g.milli_gpu * weight for g in groups for _, weight in g.weights)),
        }

    def rounded(self, term: str, bound: float) -> float:
        """Round a bound outward to a value that the term can take, within solver tolerances.

        Solvers stop within tolerances: for a minimum, 7.0000004 does not prove 8.
        """
        step = max(self._steps.get(term, 1), 1)
        slack = 1e-6 * max(1.0, abs(bound))
        if SENSE[term] == "max":
            return float(floor((bound + slack) / step) * step)
        return float(ceil((bound - slack) / step) * step)

    def certified(self, term: str, bound: Fraction) -> float:
        """Round an exact bound outward to a value that the term can take."""
        step = max(self._steps.get(term, 1), 1)
        return float((floor if SENSE[term] == "max" else ceil)(bound / step) * step)

    def demand_of(self, choice: Choice, resource: int) -> int:
        """Return what an option takes of a resource in all (-1: milli-GPU)."""
        if resource < 0:
            return sum(g.milli_gpu for g in choice.groups)
        return sum(int(self.shape_demand[g.shape, resource]) * g.count for g in choice.groups)

    def within_quota(
        self, left: Mapping[tuple[int, int], int], tenant: int, choice: Choice
    ) -> bool:
        """Whether one more job of a tenant fits what is left of its quota."""
        return all(
            self.demand_of(choice, resource) <= amount
            for (owner, resource), amount in left.items()
            if owner == tenant
        )

    def charge_quota(self, left: dict[tuple[int, int], int], tenant: int, choice: Choice) -> None:
        """Take what one more job of a tenant needs from what is left of its quota."""
        for owner, resource in left:
            if owner == tenant:
                left[owner, resource] -= self.demand_of(choice, resource)


ShapeKey: TypeAlias = tuple[int, tuple[tuple[str, int], ...], tuple[str, ...] | None]
"""Milli-GPU, the other demands by name, the allowed GPU models."""


class _Shapes:
    """Numbers the distinct shapes as they are met."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.index: dict[ShapeKey, int] = {}
        self.levels = {name: i for i, name in enumerate(cluster.levels)}

    def group(self, group: TaskGroup, weights: dict[str, int]) -> Group:
        demand = {"cpu": group.cpu, "memory": group.memory, **group.resources}
        models = None if group.gpu_models is None else tuple(sorted(set(group.gpu_models)))
        key: ShapeKey = (
            group.gpu,
            tuple(sorted((k, v) for k, v in demand.items() if v)),
            models,
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
        cluster = self.cluster
        resources = {name: i for i, name in enumerate(cluster.resources)}
        model_of = {name: i for i, name in enumerate(cluster.gpu_models)}
        gpu = np.zeros(len(self.index), dtype=np.int64)
        demand = np.zeros((len(self.index), len(resources)), dtype=np.int64)
        hosts = np.ones((len(self.index), cluster.num_hosts), dtype=np.bool_)
        for (milli, wanted, models), s in self.index.items():
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


def compile_round(round_: Round) -> Problem:
    """Compile a checked round into arrays and classes."""
    cluster = build_cluster(round_.cluster)
    state = build_state(round_, cluster)
    shapes = _Shapes(cluster)
    weights = round_.spread_weights()
    tenants = {t.name: i for i, t in enumerate(round_.tenants)}
    members: defaultdict[tuple[int, tuple[Choice, ...]], list[int]] = defaultdict(list)
    for index, job in enumerate(round_.jobs):
        if job.running is None:
            choices = tuple(
                Choice(o, job.value_of(o), tuple(shapes.group(g, weights) for g in option.groups))
                for o, option in enumerate(job.options)
            )
            members[tenants.get(job.tenant or "", -1), choices].append(index)
    jobs = round_.jobs
    classes = tuple(
        JobClass(tuple(sorted(indices, key=lambda j: (-jobs[j].priority, j))), tenant, choices)
        for (tenant, choices), indices in members.items()
    )
    gpu, demand, hosts = shapes.arrays()
    return Problem(
        round=round_,
        cluster=cluster,
        state=state,
        classes=classes,
        shape_gpu=gpu,
        shape_demand=demand,
        shape_allowed=hosts,
        quota=remaining_quota(round_, cluster),
        terms=tuple(round_.policy.terms),
    )


def held_by(job: Job) -> dict[str, int]:
    """Return what a running job holds, by resource name (`gpu` in milli-GPU)."""
    held: defaultdict[str, int] = defaultdict(int)
    if job.running is not None:
        for group in job.options[job.running.option].groups:
            wanted = {"gpu": group.gpu, "cpu": group.cpu, "memory": group.memory}
            for name, amount in (wanted | group.resources).items():
                held[name] += amount * group.count
    return held


def remaining_quota(round_: Round, cluster: Cluster) -> dict[tuple[int, int], int]:
    """Return what pending jobs may take per (tenant, resource): quota less running jobs."""
    index = {name: i for i, name in enumerate(cluster.resources)} | {"gpu": -1}
    tenants = {t.name: i for i, t in enumerate(round_.tenants)}
    left = {
        (tenants[t.name], index[name]): amount
        for t in round_.tenants
        for name, amount in t.quota.items()
        if name in index
    }
    for job in round_.jobs:
        if job.running is not None and job.tenant is not None:
            for name, amount in held_by(job).items():
                key = (tenants[job.tenant], index.get(name, -2))
                if key in left:
                    left[key] = max(0, left[key] - amount)
    return left
