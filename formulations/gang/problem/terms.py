"""What objective terms are made of: expected tasks, times of collectives, domains to be freed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.problem.jobs import Group
from placewright.formulations.gang.problem.problem import Problem
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.policy import TaskKind
from placewright.instances.documents.round import Round
from placewright.topology import Cluster
from placewright.topology.collectives import (
    Uplinks,
    most_inside_mbps,
    nvlink_domains,
    outermost_link,
    time_us,
)
from placewright.topology.units import WHOLE_GPU

# Lower bounds on the time of a gang's collective, by the domains that its tasks are in.
#
# Ranks go along the tree of domains (placement.py), so a ring enters and leaves each domain that
# it uses once. Its bottleneck is the slowest link that it has to cross, each link with one
# message. For trees, and where GPUs form a mesh, that is the best that any order of ranks could
# reach.


UNLIMITED = 1 << 60


@dataclass(frozen=True, eq=False, slots=True)
class LinkBandwidths:
    """Mbit/s of one message over the links of a cluster; `UNLIMITED` where nothing is known."""

    leaving_level: list[Ints]  # (levels above the host,): Out of each domain, at most
    nvlink_domain: Ints  # (hosts,): NVLink domain of each host
    # leaving_nvlink_domain, inside_nvlink_domain (hosts,): Out of that domain, and between two of
    # its GPUs, at most
    leaving_nvlink_domain: Ints
    inside_nvlink_domain: Ints

    @classmethod
    def of(cls, cluster: Cluster) -> Self:
        """Look up the links of a cluster."""
        links = [cluster.links.get(name) for name in cluster.levels]
        links[0] = outermost_link(cluster)
        level = [
            np.full(len(cluster.names[depth]), UNLIMITED, dtype=np.int64)
            if link is None
            else cluster.uplink_mbps(depth)
            for depth, link in enumerate(links)
        ]
        outermost = len(cluster.names[0])
        if len(cluster.wan) == outermost * (outermost - 1) // 2 and cluster.wan:
            level[0][:] = max(link.bandwidth_mbps for link in cluster.wan.values())
        leaving, inside = level[-1].copy(), [*map(most_inside_mbps, cluster.host_models)]
        for index, model in enumerate(cluster.host_models):
            if model.nic_rails:
                nic = min(model.nic_link.bandwidth_mbps, model.pcie_link.bandwidth_mbps)
                leaving[cluster.host_model == index] = nic
        inside.append(UNLIMITED)  # of unknown hardware, whose index is -1
        return cls(
            level[:-1],
            nvlink_domains(cluster),
            leaving,
            np.array(inside, dtype=np.int64)[cluster.host_model],
        )


def partitions_apart(cluster: Cluster) -> tuple[list[Ints], Ints]:
    """Return what the term `proximity` counts of two hosts: partitions, and what is beyond these.

    By partition, int64 (hosts,), the part of each host; two are as far apart as there are
    partitions with the two in different parts. In a graph of switches that is the largest
    ultrametric below the distance (single linkage); int64 (innermost domains, innermost domains)
    is what the distance has beyond, nothing in a tree.
    """
    if cluster.network is None:
        return [row.astype(np.int64) for row in cluster.domain], np.zeros((0, 0), dtype=np.int64)
    hops, leaf = cluster.network.hops, cluster.domain[-2]
    found, beyond = [cluster.domain[-1].astype(np.int64)], hops.copy()
    for most in range(int(hops.max())):
        near = hops <= most
        while (wider := near @ near).sum() > near.sum():
            near = wider
        part = near.argmax(axis=1)  # the first domain in reach names the part
        beyond -= part[:, None] != part
        found.append(part[leaf])
    return found, beyond


def num_ranks(group: Group) -> int:
    """Return the number of ranks of a group's collective: its GPUs."""
    return group.milli_gpu // 1000


def least_time_us(group: Group, mbps: int) -> int:
    """Return the microseconds of a group's collective at a bottleneck of `mbps`, rounded up."""
    traffic = group.traffic
    if traffic is None or mbps >= UNLIMITED:
        return 0
    return time_us(traffic.pattern, num_ranks(group), traffic.data_mib, mbps)


def least_time_us_within(speeds: LinkBandwidths, group: Group, level: int, hosts: Bools) -> int:
    """Return the least microseconds of a gang's collective if the gang spans a whole domain.

    `level` is that of the smallest domain that holds all tasks, -1 if only the whole cluster does;
    `hosts`, bool (hosts,), are those that the gang may use.
    """
    last = len(speeds.leaving_level)
    widths = [UNLIMITED, *(int(mbps.max()) for mbps in speeds.leaving_level[level + 1 :])]
    if not hosts.any():
        return 0
    alone = np.unique(speeds.nvlink_domain[hosts]).size == int(hosts.sum())
    if level < last - 1 or (level < last and alone):
        widths.append(int(speeds.leaving_nvlink_domain[hosts].max()))
    if num_ranks(group) > group.count or level == last:
        widths.append(int(speeds.inside_nvlink_domain[hosts].max()))
    return least_time_us(group, min(widths))


# The mix of expected tasks, and fragmentation: how much free GPU is useful to them (`stranded`).
#
# Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
# Gradient Descent", USENIX ATC 2023, section 4. With free milli-GPU r[i] of the GPUs i of a host
# h, and kinds k of tasks that take n[k] GPUs, m[k] milli-GPU of each,
#
#     useful(k, h)  =  sum of the r[i] >= m[k], if a task of k fits h;  0 if not
#     stranded      =  sum_h sum_k weight[k] (sum_i r[i] - useful(k, h))
#
# over the open hosts. A GPU that holds MIG slices is useful to no kind. Arrivals only take from a
# host, so they never increase `useful`.


STRANDED = "stranded"
_Key = tuple[int, tuple[tuple[str, int], ...], tuple[str, ...] | None]


@dataclass(frozen=True, eq=False, slots=True)
class TaskMix:
    """The kinds of expected tasks that some host could be useful to, as arrays."""

    # gpus, milli (kinds,): GPUs that a task takes, and milli-GPU of each
    gpus: Ints
    milli: Ints
    # sizes, size_of: (sizes,), int64 (kinds,): The distinct `milli`, ascending, and the index of
    # each kind's
    sizes: Ints
    size_of: Ints
    demand: Ints  # (kinds, resources): Other resources, in the cluster's order
    # (GPU models + 1, kinds): Whether the kind may use the model; the last row is for hosts without
    # one
    allowed: Bools
    weight: Ints  # (kinds,)
    total: int  # Weight of all kinds, including those that no host could be useful to

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
        """Return the milli-GPU of hosts that are useful to each kind, int64 (hosts, kinds).

        `free`, int64 (hosts, resources), is what they have left, `gpus`, int64 (hosts, GPUs), the
        free milli-GPU of each GPU, `model`, int64 (hosts,), their GPU models.
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


# The term `freed`: which domains of the policy's level count, and what each is worth empty.


class FreeableDomains:
    """The domains of the level that `policy.freeing` names.

    `domain`, int64 (hosts,), is that of each host; `worth_of_gpu`, `worth_of_host` and
    `worth_of_domain` what each is worth empty, in milli-GPU-seconds. Of a domain, bool (domains,),
    `busy` says whether something ran there before the round, `freeable` that no pinned job did.
    """

    def __init__(self, problem: Problem) -> None:
        cluster, goal = problem.cluster, problem.round.policy.freeing
        if goal is None:
            raise ValueError("the term 'freed' has no policy.freeing; expected one")
        level = cluster.levels.index(goal.level)
        self.domain = cluster.domain[level].astype(np.int64)
        count = len(cluster.names[level])
        self.worth_of_gpu = WHOLE_GPU * goal.gpu_worth_s
        self.worth_of_host = cluster.gpu_count.astype(np.int64) * self.worth_of_gpu
        self.worth_of_domain = np.zeros(count, dtype=np.int64)
        np.add.at(self.worth_of_domain, self.domain, self.worth_of_host)
        self.busy = self._any(problem.state.busy, count)
        self.freeable = self.busy & ~self._any(problem.pinned_hosts, count)

    def _any(self, hosts: Bools, count: int) -> Bools:
        return np.bincount(self.domain, weights=hosts, minlength=count) > 0


# What running jobs send over the links from domains to those that hold them.


def pinned_loads(problem: Problem, links: Sequence[Uplinks]) -> list[Ints]:
    """Return what pinned jobs send over each link, per level int64 (domains,)."""
    loads = [np.zeros(len(one.exists), dtype=np.int64) for one in links]
    host = problem.cluster.host_index
    for number, job in enumerate(problem.round.jobs):
        if job.running is None or problem.class_of[number] >= 0:
            continue
        for g, group in enumerate(job.options[job.running.option].groups):
            asked = group.communication
            if asked is None or not asked.rate_mbps:
                continue
            hosts = np.array([host[t.host] for t in job.running.tasks if t.group == g])
            for one, load in zip(links, loads, strict=True):
                load[one.crossed_from(hosts)] += asked.rate_mbps
    return loads


def rates_in_place(problem: Problem, job: int) -> Iterator[tuple[int, Ints]]:
    """Yield rate and hosts of each group of a running job that counts, where it runs."""
    running = problem.running[job]
    for g, group in enumerate(problem.classes[running.job_class].choices[0].groups):
        if group.rate_mbps:
            hosts = [host for k, _, host, _ in running.places if k == g]
            yield group.rate_mbps, np.array(hosts, dtype=np.int64)
