"""What an option lacks where it does not fit: the group, the host or domain, the resource."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.feasibility import fits, most_places
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Choice, Group, HostRange
from placewright.instances.documents.arrangement import HostCount
from placewright.instances.documents.option import TaskGroup
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

GPU, GPU_MEMORY, MIG = "gpu", "gpu_memory", "mig"
"""Resources beside those that hosts have; of MIG slices one is asked, and none has a place."""


def shortage(placement: Placement, choice: Choice) -> dict[str, Any]:
    """Return the fields of a `Detail` that say what an option lacks; it does not fit."""
    open_ = placement.open_to(choice.label)
    several = len(choice.groups) > 1
    for k in sorted(range(len(choice.groups)), key=lambda k: -choice.groups[k].milli_gpu):
        lack = _of_group(placement, choice.groups[k], open_)
        if lack:
            return {"group": k, **lack} if several else lack
    return _of_num_hosts(placement, choice) or _of_all_groups(placement, choice, open_)


def unknown_resource(cluster: Cluster, groups: Sequence[TaskGroup]) -> dict[str, Any]:
    """Return what groups ask that no host and no pool of the cluster has, nothing if none."""
    for k, group in enumerate(groups):
        for name, amount in group.resources.items():
            if amount and name not in cluster.resources:
                asked = {"resource": name, "asked": amount * group.count, "free": 0}
                several = {"group": k} if len(groups) > 1 else {}
                return {**several, "tasks": group.count, "places": 0, **asked}
    return {}


def _of_group(placement: Placement, group: Group, open_: Bools) -> dict[str, Any]:
    """Return what a group alone lacks, nothing if it fits."""
    fitting = np.where(open_, placement.fits(group.shape), 0)
    allowed = open_ & placement.problem.shape_hosts[group.shape]
    if not fitting.any():
        return _of_task(placement, group, allowed)
    places, best = most_places(placement, group, fitting, group.required)
    if places == group.count:
        return {}
    inside, where = _inside(placement, group.required, best)
    lack: dict[str, Any] = {**where, "tasks": group.count, "places": places}
    if group.num_hosts is not None:
        free = replace(group, num_hosts=None)
        if most_places(placement, free, fitting, group.required)[0] == group.count:
            return {**lack, "num_hosts": _numbers(group.num_hosts, group.count)}
    if group.domain_limit is not None:
        free = replace(group, domain_limit=None)
        if most_places(placement, free, fitting, group.required)[0] == group.count:
            return {**lack, "apart": placement.problem.cluster.levels[group.domain_limit.level]}
    return lack | scarce(placement, group, allowed & inside)


def _inside(placement: Placement, level: int, domain: int | None) -> tuple[Bools, dict[str, Any]]:
    """Return the hosts of a domain, and its name and level; all hosts without a domain."""
    cluster = placement.problem.cluster
    if domain is None:
        return np.ones(cluster.num_hosts, dtype=np.bool_), {}
    where = {"level": cluster.levels[level], "domain": cluster.names[level][domain]}
    return cluster.domain[level] == domain, where


def _of_task(placement: Placement, group: Group, allowed: Bools) -> dict[str, Any]:
    """Return the host that comes closest to holding a task of a group, and what it lacks."""
    return {"tasks": group.count, "places": 0, **shortage_of_task(placement, group, allowed)}


def shortage_of_task(placement: Placement, group: Group, allowed: Bools) -> dict[str, Any]:
    """Return what the host lacks that comes closest to holding a task, of those that could.

    Nothing without hosts, or for a task that asks for nothing.
    """
    cluster, shape = placement.problem.cluster, group.shape
    able = allowed & (cluster.gpu_count * WHOLE_GPU >= placement.problem.shape_gpu[shape])
    able &= (cluster.capacity >= placement.problem.shape_demand[shape]).all(axis=1)
    hosts = np.flatnonzero(able if able.any() else allowed)
    names, asked, free = _per_task(placement, group, hosts)
    if not len(hosts) or not names:
        return {}
    short = free < asked
    least = np.where(short, free / asked, 2.0).min(axis=1)
    best = int(np.lexsort((-least, short.sum(axis=1)))[0])
    r = int(np.where(short[best], free[best] / asked, 2.0).argmin())
    return {
        "host": cluster.hosts[hosts[best]],
        "resource": names[r],
        "asked": int(asked[r]),
        "free": int(free[best, r]),
    }


def _per_task(placement: Placement, group: Group, hosts: Ints) -> tuple[list[str], Ints, Ints]:
    """Return the resources that a task asks, how much of each, and what is free on each host."""
    problem, shape = placement.problem, group.shape
    gpu, names = int(problem.shape_gpu[shape]), list[str]()
    asked: list[int] = []
    free: list[Ints] = []
    if gpu >= WHOLE_GPU:
        names, asked, free = [GPU], [gpu], [placement.whole[hosts] * WHOLE_GPU]
    elif gpu:
        largest = np.where(placement.whole[hosts] > 0, WHOLE_GPU, 0)
        most = np.maximum(largest, placement.partial_free[hosts].max(axis=1))
        names, asked, free = [GPU], [gpu], [most]
        parts = placement.part_state
        if parts is not None and parts.demands.is_slice[shape]:
            places = (placement.fits_partial_gpus(shape, hosts) > 0).any(axis=1)
            slices = places | (placement.whole[hosts] > 0)
            names, asked, free = [MIG], [1], [slices.astype(np.int64)]
        elif parts is not None and parts.demands.memory[shape]:
            able = np.where(placement.partial_free[hosts] >= gpu, parts.memory[hosts], 0)
            whole = np.where(placement.whole[hosts] > 0, problem.cluster.gpu_memory[hosts], 0)
            memory = np.maximum(able.max(axis=1), whole)
            names.append(GPU_MEMORY)
            asked.append(int(parts.demands.memory[shape]))
            # Where no GPU has the share, its memory is not what is missing.
            free.append(np.where(most >= gpu, memory, asked[-1]))
    for r in problem.shape_demand[shape].nonzero()[0].tolist():
        names.append(problem.cluster.resources[r])
        asked.append(int(problem.shape_demand[shape, r]))
        free.append(placement.free[hosts, r].clip(min=0))
    return names, np.array(asked), np.array(free).T.reshape(len(hosts), len(names))


def scarce(placement: Placement, group: Group, hosts: Bools) -> dict[str, Any]:
    """Return the resource for which alone too few tasks of a group have places, if there is one."""
    problem, shape = placement.problem, group.shape
    gpu, count = int(problem.shape_gpu[shape]), group.count
    places: dict[str, tuple[int, int, int]] = {}
    if gpu >= WHOLE_GPU:
        whole = placement.whole[hosts]
        places[GPU] = int((whole // (gpu // WHOLE_GPU)).sum()), gpu, int(whole.sum()) * WHOLE_GPU
    elif gpu:
        each = placement.partial_free[hosts] // gpu
        number = int(each.sum()) + int(placement.whole[hosts].sum()) * (WHOLE_GPU // gpu)
        free_whole = int(placement.whole[hosts].sum()) * WHOLE_GPU
        places[GPU] = number, gpu, int(placement.partial_free[hosts].sum()) + free_whole
    for r in problem.shape_demand[shape].nonzero()[0].tolist():
        free, asked = placement.free[hosts, r].clip(min=0), int(problem.shape_demand[shape, r])
        places[problem.cluster.resources[r]] = int((free // asked).sum()), asked, int(free.sum())
    short = {name: entry for name, entry in places.items() if entry[0] < count}
    if not short:
        return {}
    name = min(short, key=lambda name: short[name][0])
    _, asked, has = short[name]
    return {"resource": name, "asked": asked * count, "free": has}


def _of_num_hosts(placement: Placement, choice: Choice) -> dict[str, Any]:
    """Return on how many hosts an option has to be that fits any number, nothing if it does not."""
    asked: dict[int | None, HostRange | None] = {None: choice.num_hosts}
    asked |= {k: group.num_hosts for k, group in enumerate(choice.groups)}
    for k, range_ in asked.items():
        tasks = choice.num_tasks if k is None else choice.groups[k].count
        groups = tuple(replace(group, num_hosts=None) for group in choice.groups)
        free = replace(choice, num_hosts=None, groups=groups)
        most = parameters.PARAMETERS.placement.max_feasibility_steps
        if range_ is not None and fits(placement, free, most):
            group = {} if k is None or len(groups) == 1 else {"group": k}
            return {**group, "num_hosts": _numbers(range_, tasks)}
    return {}


def _numbers(asked: HostRange, tasks: int) -> HostCount:
    """Return numbers of hosts as a document has them."""
    return HostCount(min=asked.least, max=asked.most if asked.most < tasks else None)


def _of_all_groups(placement: Placement, choice: Choice, open_: Bools) -> dict[str, Any]:
    """Return the sum that is too large in the domain that comes closest to holding all groups."""
    problem, cluster = placement.problem, placement.problem.cluster
    allowed = open_ & np.any([problem.shape_hosts[g.shape] for g in choice.groups], axis=0)
    shapes = np.array([group.shape for group in choice.groups])
    count = np.array([group.count for group in choice.groups])
    asked = count @ np.column_stack([problem.shape_gpu[shapes], problem.shape_demand[shapes]])
    free = np.column_stack([placement.free_milli_gpu, placement.free.clip(min=0)])
    free[~allowed] = 0
    level = choice.joint_level
    best: int | None = None
    has = free.sum(axis=0)
    if level != NO_LEVEL:
        sums = np.zeros((len(cluster.names[level]), free.shape[1]), dtype=np.int64)
        np.add.at(sums, cluster.domain[level], free)
        has_hosts = np.bincount(cluster.domain[level][allowed], minlength=len(sums)) > 0
        covered = (sums / np.maximum(asked, 1)).min(axis=1, initial=1.0)
        best = int(np.lexsort((-np.arange(len(sums)), covered, has_hosts))[-1])
        has = sums[best]
    _, where = _inside(placement, level, best)
    short = has < asked
    if not short.any():
        return where
    r = int(np.where(short, has / np.maximum(asked, 1), 2.0).argmin())
    name = (GPU, *cluster.resources)[r]
    return {**where, "resource": name, "asked": int(asked[r]), "free": int(has[r])}
