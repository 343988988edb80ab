"""Task shapes: each distinct demand of a task, numbered, and as arrays; and pools of domains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.problem.gpu_links import (
    LinkDemands,
    LinkTables,
)
from placewright.formulations.gang.problem.gpu_parts import GpuPartDemands, Layouts, slice_kinds
from placewright.formulations.gang.problem.jobs import (
    NO_LEVEL,
    Choice,
    DomainLimit,
    Group,
    HostRange,
    JobClass,
    Over,
    TaskSlices,
    Traffic,
)
from placewright.formulations.gang.problem.limits import (
    BOTTLENECK,
    CONTENTION,
    QuotaKey,
    account_numbers,
    of_use,
    use_numbers,
)
from placewright.instances.derived.arrays import pools_of, running_places
from placewright.instances.derived.names import is_anywhere
from placewright.instances.derived.ranges import expand_all
from placewright.instances.documents.arrangement import GpuLinkRequest, HostCount
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.round import Round
from placewright.topology import Cluster
from placewright.topology.units import UNLIMITED, WHOLE_GPU

# The table of task shapes: each distinct demand of a task, numbered, and as arrays.


Names: TypeAlias = tuple[str, ...]
Demands: TypeAlias = tuple[tuple[str, int], ...]


class ShapeKey(NamedTuple):
    """What makes shapes differ: demands, allowed GPU models and hosts (None: any), rank, leave.

    `hosts` is the number of a set of hosts: whatever allows the same hosts has the same.
    `gpu` is milli-GPU, `gpu_memory` MiB, `mig` a profile; `demand` has other resources by name,
    `uses` what a job of one task takes of pools that are counted per job, `links` what a task asks
    of the links between its GPUs.
    """

    gpu: int
    demand: Demands
    models: Names | None
    hosts: int | None
    mig: str | None
    gpu_memory: int
    rank: int
    uses: Demands = ()
    leave: int = 0
    links: GpuLinkRequest | None = None


_FIELDS = attrgetter(*(TaskGroup.model_fields.keys() - {"name", "resources", "hosts", "host_sets"}))
"""Fields that distinguish task groups, but for resources, which come as a dict, and hosts."""


class ShapeTable:
    """The distinct shapes of a round, numbered as they are met.

    `link_terms` are the terms of the policy that count links that groups cross.
    """

    def __init__(
        self, cluster: Cluster, host_sets: Mapping[str, Names], *, link_terms: Collection[str] = ()
    ) -> None:
        self.cluster, self.host_sets = cluster, host_sets
        self._timed, self._rated = BOTTLENECK in link_terms, CONTENTION in link_terms
        self.index: dict[ShapeKey, int] = {}
        self.levels = {name: i for i, name in enumerate(cluster.levels)}
        self._groups: dict[tuple[object, ...], Group] = {}
        self._masks: list[Bools] = []
        self._mask_numbers: dict[bytes, int] = {}
        self._of_names: dict[Names, Bools] = {}
        self._allowed: dict[tuple[Names | None, Names], int | None] = {}
        self._layouts = Layouts()
        self._link_tables = tuple(LinkTables(links) for links in cluster.gpu_links)

    def group(
        self,
        group: TaskGroup,
        weights: dict[str, int],
        rank: int,
        joint: int = NO_LEVEL,
        uses: Demands = (),
        leave: int = 0,
        num_hosts: HostCount | None = None,
    ) -> Group:
        """Return a task group with its shape; equal groups are one object.

        `weights` are spread weights by level, always those of the first call, `rank` that of the
        job's precedence, `joint` the level of which one domain holds all groups of the option,
        `leave` the number of the set of running jobs that it may preempt (jobs.py). `uses` and
        `num_hosts` are those of the job, if this is its only group.
        """
        hosts = self._hosts(group)
        own = (rank, leave, joint, hosts, num_hosts)
        key = (*own, *_FIELDS(group), *group.resources.items(), *uses)
        known = self._groups.get(key)
        if known is None:
            made = self._group(group, hosts, weights, rank, joint, uses, leave)
            on = host_range(group.count, group.num_hosts, num_hosts)
            known = self._groups[key] = replace(made, num_hosts=on)
        return known

    def _group(
        self,
        group: TaskGroup,
        hosts: int | None,
        weights: dict[str, int],
        rank: int,
        joint: int,
        uses: Demands,
        leave: int,
    ) -> Group:
        demand = {"cpu": group.cpu, "memory": group.memory, **group.resources}
        models = None if group.gpu_models is None else tuple(sorted(set(group.gpu_models)))
        key = ShapeKey(
            group.gpu,
            tuple(sorted((k, v) for k, v in demand.items() if v)),
            models,
            hosts,
            group.mig,
            group.gpu_memory,
            rank,
            uses if group.count == 1 else (),
            leave,
            group.gpu_links,
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
            domain_limit=self._domain_limit(group),
            traffic=self._traffic(group),
            rate_mbps=0 if alone else self._rate(group),
            uses=() if alone else uses,
        )

    def _slices(self, group: TaskGroup, required: int) -> TaskSlices | None:
        """Return the slices of a group, None where its required level or size 1 implies them."""
        asked = group.slices
        if asked is None or asked.size == 1 or self.levels[asked.required] <= required:
            return None
        return TaskSlices(asked.size, self.levels[asked.required])

    def _traffic(self, group: TaskGroup) -> Traffic | None:
        asked = group.communication
        if asked is None or asked.data_mib is None:
            return None
        return Traffic(asked.pattern, asked.data_mib, self._timed)

    def _rate(self, group: TaskGroup) -> int:
        asked = group.communication
        return (asked.rate_mbps or 0) if asked is not None and self._rated else 0

    def _domain_limit(self, group: TaskGroup) -> DomainLimit | None:
        asked = group.apart
        if asked is None or asked.most >= group.count:
            return None
        return DomainLimit(self.levels[asked.level], asked.most)

    def fields(self, sets: Bools | None) -> dict[str, Any]:
        """Return the fields of `Problem` that say something of each shape.

        `sets` has the kinds of jobs in each set that a shape may preempt (jobs.py).
        """
        cluster = self.cluster
        resources = {name: i for i, name in enumerate(cluster.resources)}
        model_of = {name: i for i, name in enumerate(cluster.gpu_models)}
        demand = np.zeros((len(self.index), len(resources)), dtype=np.int64)
        only = np.full(len(self.index), -1, dtype=np.int64)
        hosts = np.ones((len(self.index), cluster.num_hosts), dtype=np.bool_)
        for key, s in self.index.items():
            for name, amount in key.demand:
                if name in resources:
                    demand[s, resources[name]] = amount
                else:
                    hosts[s] = False  # no host has any of it
            if key.models is not None:
                allowed = [model_of[m] for m in key.models if m in model_of]
                hosts[s] &= np.isin(cluster.gpu_model, allowed)
                only[s] = model_of.get(key.models[0], -1) if len(key.models) == 1 else -1
            if key.hosts is not None:
                hosts[s] &= self._masks[key.hosts]
            if key.gpu_memory:
                hosts[s] &= cluster.gpu_memory >= key.gpu_memory
            if key.mig is not None:
                hosts[s] &= np.array(slice_kinds(key.mig))[cluster.product] >= 0
        rank = np.array([key.rank for key in self.index], dtype=np.int64)
        leave = np.array([key.leave for key in self.index], dtype=np.int64)
        return {
            "shape_gpu": self.gpus,
            "shape_demand": demand,
            "shape_allowed": hosts,
            "shape_rank": rank,
            "over": Over(rank, leave, sets),
            "shape_model": only,
            "host_kind": self._host_kinds(),
        }

    @property
    def gpus(self) -> Ints:
        """Milli-GPU of a task of each shape, (shapes,)."""
        return np.array([key.gpu for key in self.index], dtype=np.int64)

    def demand_of_pool(self, resource: str) -> Ints:
        """Return what a task of each shape takes of the pools of a resource, int64 (shapes,)."""
        found = [dict((*key.demand, *key.uses)).get(resource, 0) for key in self.index]
        return np.array(found, dtype=np.int64)

    def _hosts(self, group: TaskGroup) -> int | None:
        """Return the number of the set of hosts that a group allows by name, None for all."""
        if is_anywhere(group):
            return None
        key = group.hosts, group.host_sets
        if key not in self._allowed:
            lists = [self.host_sets[name] for name in group.host_sets]
            lists += [] if group.hosts is None else [group.hosts]
            mask = np.logical_and.reduce([self._mask(names) for names in lists])
            number = self._mask_numbers.setdefault(mask.tobytes(), len(self._masks))
            if number == len(self._masks):
                self._masks.append(mask)
            self._allowed[key] = None if mask.all() else number
        return self._allowed[key]

    def _mask(self, names: Names) -> Bools:
        """Mark the hosts that names and ranges stand for, bool (hosts,)."""
        if names not in self._of_names:
            self._of_names[names] = host_mask(self.cluster, names)
        return self._of_names[names]

    def _host_kinds(self) -> Ints:
        """Return the kind of each host, (hosts,): its GPU model and the lists of hosts it is in."""
        tuning = parameters.PARAMETERS.problem
        model: Ints = self.cluster.gpu_model.astype(np.int64)
        if self.has_gpu_parts:
            key = np.column_stack([model, self.cluster.gpu_memory, self.cluster.product])
            model = np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)
        sets = {key.hosts for key in self.index if key.hosts is not None}
        if not sets:
            return model
        masks = sorted((self._masks[number] for number in sets), key=lambda mask: mask.tobytes())
        member = np.packbits(masks, axis=0).T
        key = np.column_stack([model, member])
        kinds = np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)
        return kinds if kinds.max(initial=0) < tuning.max_host_kinds else model

    @property
    def has_gpu_parts(self) -> bool:
        """Whether some shape asks for a MIG slice or for GPU memory."""
        return any(key.mig is not None or key.gpu_memory for key in self.index)

    def gpu_part_demands(self) -> GpuPartDemands:
        """Return the GPU memory and MIG slices that shapes ask for."""
        kinds = [slice_kinds(key.mig) for key in self.index]
        return GpuPartDemands(
            memory=np.array([key.gpu_memory for key in self.index], dtype=np.int64),
            slice_kind=np.array(kinds, dtype=np.int64).reshape(-1, len(slice_kinds(None))),
            is_slice=np.array([k.mig is not None and k.gpu < WHOLE_GPU for k in self.index], bool),
            product=self.cluster.product,
            layouts=self._layouts,
        )

    def gpu_link_demands(self) -> LinkDemands | None:
        """Return what shapes ask of links; None if they ask nothing and nothing is known of any."""
        asked, of_host = tuple(key.links for key in self.index), self.cluster.gpu_links_of
        if not self._link_tables and not any(asked):
            return None
        return LinkDemands(asked, self.gpus // WHOLE_GPU, self._link_tables, of_host)


def host_range(num_tasks: int, *asked: HostCount | None) -> HostRange | None:
    """Return on how many hosts tasks have to be, None where they are anyway."""
    least = max((one.min for one in asked if one is not None), default=1)
    most = min((one.max for one in asked if one is not None and one.max), default=num_tasks)
    return None if least == 1 and most >= num_tasks else HostRange(least, min(most, num_tasks))


def host_mask(cluster: Cluster, names: Sequence[str]) -> Bools:
    """Mark the hosts that names and ranges stand for, bool (hosts,)."""
    marked = np.zeros(cluster.num_hosts, dtype=np.bool_)
    if names:
        index = cluster.host_index
        marked[[index[host] for host in expand_all(names)]] = True
    return marked


# Pools: what the domains of a level, or the whole cluster, have of a resource.
#
# A task takes its `demand` from the pools around its host. Where a resource is counted per job, a
# job of several tasks takes its use once from each domain in which it has one (`Choice.uses`); a
# job of one task takes it like any other demand.
#
# What the whole cluster has, and what all domains can give together, are accounts (limits.py): rows
# over the options of all jobs.


WHOLE_CLUSTER = -1
"""Level index of the whole cluster, which holds the outermost domains."""

PER_TASK = -1


@dataclass(frozen=True, eq=False, slots=True)
class Pool:
    """A pool of each domain of a level."""

    resource: str
    level: int  # Index of the level; `WHOLE_CLUSTER` where all hosts share one pool
    domain: Ints  # (hosts,): The domain of each host
    # (domains,): What jobs that are not pinned may take. A domain that holds more than it has may
    # keep it.
    limit: Ints
    demand: Ints  # (shapes,): What a task takes of the pools around its host
    use: int  # Number of the resource in `Choice.uses`, `PER_TASK` if it is counted per task

    def used_by(self, uses: Iterable[tuple[int, int]]) -> int:
        """Return what a job of several tasks takes of each domain in which it has one."""
        return 0 if self.use == PER_TASK else dict(uses).get(self.use, 0)

    def taken(self, choice: Choice, tasks: Iterable[tuple[int, int, int]]) -> dict[int, int]:
        """Return what a job takes of each domain of which it takes something.

        `tasks` are (group, host, number).
        """
        amount = self.used_by(choice.uses) if choice.num_tasks > 1 else 0
        each = [int(self.demand[group.shape]) for group in choice.groups]
        found: dict[int, int] = {}
        for group, host, number in tasks if amount or any(each) else ():
            d = int(self.domain[host])
            found[d] = amount or found.get(d, 0) + number * each[group]
        return found


def compile_pools(round_: Round, cluster: Cluster, shapes: ShapeTable) -> tuple[Pool, ...]:
    """Return the pools of a round, those of the whole cluster among them."""
    if not round_.cluster.pools:
        return ()
    numbers = use_numbers(round_)
    pinned = [job for job in round_.jobs if job.running is not None and job.running.pinned]
    held, fixed = (running_places(jobs, cluster) for jobs in (round_.jobs, pinned))
    return tuple(
        Pool(
            one.pool.resource,
            WHOLE_CLUSTER if one.pool.level is None else cluster.level_index(one.pool.level),
            one.of_host,
            one.limit(held) - one.held(fixed),
            shapes.demand_of_pool(one.pool.resource),
            numbers.get(one.pool.resource, PER_TASK),
        )
        for one in pools_of(round_, cluster)
    )


def taken_by_gang(pool: Pool, group: Group) -> int:
    """Return what the tasks of a group take of the pools of a level together, at least."""
    used = 0 if pool.use == PER_TASK else dict(group.uses).get(pool.resource, 0)
    return group.count * int(pool.demand[group.shape]) + used


def totals_of_pools(
    round_: Round,
    cluster: Cluster,
    pools: Iterable[Pool],
    classes: Iterable[JobClass],
    shape_gpu: Ints,
) -> dict[QuotaKey, int]:
    """Return what jobs that are not pinned may take of each resource of pools in all.

    A domain takes no more than its limit, nor than the domains inside it take together, nor than
    its hosts do with all their GPUs; and only multiples of what divides all demands.
    """
    accounts = account_numbers(round_)
    choices = {id(o): o for job_class in classes for o in job_class.choices}.values()
    of_resource: defaultdict[str, list[Pool]] = defaultdict(list)
    for pool in pools:
        of_resource[pool.resource].append(pool)
    totals: dict[QuotaKey, int] = {}
    for resource, mine in of_resource.items():
        amount = (
            cluster.resources.index(resource) if mine[0].use == PER_TASK else of_use(mine[0].use)
        )
        used = [mine[0].used_by(choice.uses) for choice in choices]
        divisor = max(gcd(*mine[0].demand.tolist(), *used), 1)
        host = np.arange(cluster.num_hosts)
        most = _most_of_hosts(cluster, mine[0], used, shape_gpu)
        for pool in sorted(mine, key=lambda pool: -pool.level):
            inside = np.zeros(len(pool.limit), dtype=np.int64)
            np.add.at(inside, pool.domain[host], most)
            domains, first = np.unique(pool.domain, return_index=True)
            most = np.minimum(pool.limit - pool.limit % divisor, inside)[domains]
            host = first
        total, key = int(most.sum()), (accounts["pool", resource], amount)
        for pool in mine:
            if pool.level == WHOLE_CLUSTER:
                totals[key] = int(pool.limit[0])
        if total < totals.get(key, UNLIMITED):
            totals[accounts["total", resource], amount] = total
    return totals


def _most_of_hosts(cluster: Cluster, pool: Pool, used: list[int], shape_gpu: Ints) -> Ints:
    """Return how much tasks can take on each host with all its GPUs, int64 (hosts,)."""
    takes = pool.demand > 0
    if any(used) or (shape_gpu[takes] == 0).any():
        return np.full(cluster.num_hosts, UNLIMITED, dtype=np.int64)
    milli = cluster.gpu_count.astype(np.int64) * WHOLE_GPU
    each = [milli * d // g for d, g in zip(pool.demand[takes], shape_gpu[takes], strict=True)]
    most = np.zeros(cluster.num_hosts, dtype=np.int64)
    for one in each:
        np.maximum(most, one, out=most)
    return most
