"""From a checked round to a Problem."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.problem import (
    NO_LEVEL,
    Choice,
    Group,
    JobClass,
    Problem,
    RunningJob,
)
from placewright.instances.arrays import build_cluster, build_state
from placewright.instances.ranges import expand
from placewright.instances.round import Job, Option, Round, TaskGroup
from placewright.topology import Cluster, State

ShapeKey: TypeAlias = tuple[int, tuple[tuple[str, int], ...], tuple[str, ...] | None, int]
"""Milli-GPU, the other demands by name, the allowed GPU models, rank."""


class _Shapes:
    """Numbers the distinct shapes as they are met."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.index: dict[ShapeKey, int] = {}
        self.levels = {name: i for i, name in enumerate(cluster.levels)}

    def group(self, group: TaskGroup, weights: dict[str, int], rank: int) -> Group:
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
        return np.array([rank for _, _, _, rank in self.index], dtype=np.int64)


def compile_round(round_: Round) -> Problem:
    """Compile a checked round into arrays and classes."""
    cluster = build_cluster(round_.cluster)
    state = build_state(round_, cluster)
    usable, open_ = _usable(round_, cluster, state)
    vacate = _hosts(cluster, round_.policy.vacate)
    shapes = _Shapes(cluster)
    weights = round_.spread_weights()
    tenants = {t.name: i for i, t in enumerate(round_.tenants)}
    jobs = round_.jobs
    movable = [j for j, job in enumerate(jobs) if job.running and not job.running.pinned]
    levels = sorted({jobs[j].priority for j in movable})
    members: defaultdict[tuple[bool, int, tuple[Choice, ...]], list[int]] = defaultdict(list)
    for index, job in enumerate(jobs):
        if job.running is not None and job.running.pinned:
            continue
        rank = bisect_left(levels, job.priority)
        offered = range(len(job.options)) if job.running is None else (job.running.option,)
        choices = tuple(
            Choice(
                o,
                job.value_of(o),
                tuple(shapes.group(g, weights, rank) for g in job.options[o].groups),
            )
            for o in offered
        )
        key = (job.running is not None, tenants.get(job.tenant or "", -1), choices)
        members[key].append(index)
    # Running jobs of different levels are of different classes: their shapes differ in rank.
    classes = tuple(
        JobClass(
            tuple(sorted(indices, key=lambda j: (-jobs[j].priority, j))), tenant, choices, running
        )
        for (running, tenant, choices), indices in sorted(members.items(), key=lambda m: m[0][0])
    )
    class_of = {j: c for c, k in enumerate(classes) if k.running for j in k.jobs}
    pinned = [job for job in jobs if job.running is not None and job.running.pinned]
    cleared = build_state(round_.model_copy(update={"jobs": tuple(pinned)}), cluster)
    pinned_hosts = cleared.busy.copy()
    cleared.busy[:] = state.busy
    reserved_free = np.zeros(cluster.num_hosts, dtype=np.int64)
    host_of_gpu = np.repeat(np.arange(cluster.num_hosts), cluster.gpu_count)
    np.add.at(reserved_free, host_of_gpu[~usable], cleared.gpu_free[~usable])
    state.gpu_free[~usable] = 0
    cleared.gpu_free[~usable] = 0
    running = {j: _running_job(round_, cluster, j, class_of[j], levels) for j in movable}
    gpu, demand, hosts = shapes.arrays()
    return Problem(
        round=round_,
        cluster=cluster,
        state=state,
        cleared=cleared,
        classes=classes,
        shape_gpu=gpu,
        shape_demand=demand,
        shape_allowed=hosts,
        shape_rank=shapes.ranks(),
        open=open_ & ~vacate,
        usable=usable,
        vacate=vacate,
        pinned_hosts=pinned_hosts,
        pinned_remaining=_remaining(pinned, set(np.array(cluster.hosts)[vacate].tolist())),
        reserved_free=reserved_free,
        running=running,
        quota=_quota(round_, cluster),
        terms=tuple(round_.policy.terms),
    )


def _usable(
    round_: Round, cluster: Cluster, state: State
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """GPUs that are not reserved, and healthy hosts that are not reserved as a whole."""
    usable = np.ones(cluster.num_gpus, dtype=np.bool_)
    open_ = state.healthy.copy()
    for reservation in round_.reservations:
        for host in np.flatnonzero(_hosts(cluster, [reservation.host])).tolist():
            if reservation.gpus is None:
                open_[host] = False
            else:
                usable[int(cluster.gpu_start[host]) + np.array(reservation.gpus)] = False
    return usable, open_


def _hosts(cluster: Cluster, names: Sequence[str]) -> NDArray[np.bool_]:
    """Mark the hosts that names and ranges stand for."""
    marked = np.zeros(cluster.num_hosts, dtype=np.bool_)
    if names:
        index = cluster.host_index
        marked[[index[host] for name in names for host in expand(name)]] = True
    return marked


def _running_job(
    round_: Round, cluster: Cluster, index: int, job_class: int, levels: list[int]
) -> RunningJob:
    job, host_of = round_.jobs[index], cluster.host_index
    running = job.running
    if running is None:
        raise ValueError(f"job {job.name!r} is pending; expected a running one")
    lost = 0 if running.checkpoint is None else round_.now - running.checkpoint
    default = job.options[running.option].milli_gpu * (lost + running.restart_s)
    return RunningJob(
        job_class=job_class,
        level=bisect_left(levels, job.priority),
        places=tuple((t.group, t.index, host_of[t.host], t.gpus) for t in running.tasks),
        migrate_cost=default if running.migrate_cost is None else running.migrate_cost,
        preempt_cost=default if running.preempt_cost is None else running.preempt_cost,
    )


def _remaining(jobs: Sequence[Job], hosts: set[str]) -> int:
    """Milli-GPU that running jobs hold on some hosts."""
    return sum(
        job.options[job.running.option].groups[task.group].gpu
        for job in jobs
        if job.running is not None
        for task in job.running.tasks
        if task.host in hosts
    )


def held_by(option: Option) -> dict[str, int]:
    """Return what a job holds with an option, by resource name (`gpu` in milli-GPU)."""
    held: defaultdict[str, int] = defaultdict(int)
    for group in option.groups:
        wanted = {"gpu": group.gpu, "cpu": group.cpu, "memory": group.memory}
        for name, amount in (wanted | group.resources).items():
            held[name] += amount * group.count
    return held


def _quota(round_: Round, cluster: Cluster) -> dict[tuple[int, int], int]:
    """Return what jobs that are not pinned may hold per (tenant, resource).

    A tenant that holds more than a quota which was lowered meanwhile may go on holding that.
    """
    index = {name: i for i, name in enumerate(cluster.resources)} | {"gpu": -1}
    tenants = {t.name: i for i, t in enumerate(round_.tenants)}
    quota = {
        (tenants[t.name], index[name]): amount
        for t in round_.tenants
        for name, amount in t.quota.items()
        if name in index
    }
    held = dict.fromkeys(quota, 0)
    pinned = dict.fromkeys(quota, 0)
    for job in round_.jobs if quota else ():
        if job.running is not None and job.tenant is not None:
            for name, amount in held_by(job.options[job.running.option]).items():
                key = (tenants[job.tenant], index.get(name, -2))
                if key in quota:
                    held[key] += amount
                    pinned[key] += amount * job.running.pinned
    return {key: max(amount, held[key]) - pinned[key] for key, amount in quota.items()}
