"""Reads a solution of the host-indexed model: starts its jobs, on the GPUs that it names."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang.models.host.gpus import ANY_FREE, GpuSlots
from placewright.formulations.gang.models.host.model import HostModel
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import TaskPlacement

FreePlaces = defaultdict[tuple[int, int], list[int]]
"""Per host and key of a part the GPUs that have a place for it."""


def start_jobs(
    m: HostModel, slots: GpuSlots, values: NDArray[np.float64], placement: Placement
) -> None:
    """Start in `placement`, which must be as when the model was built, what a solution starts."""
    number = np.rint(values).astype(np.int64)
    staying = _charge_stays(m, number, placement)
    free_places = _free_places(m, slots, number, placement)
    hosts: list[list[int]] = [[] for _ in m.task_sets]  # one per task
    for i in np.flatnonzero(number[m.x]):
        hosts[m.x_set[i]] += [int(m.hosts[m.x_host[i]])] * int(number[m.x[i]])
    set_of = m.set_of
    for e, entry in enumerate(m.entries):
        for _ in range(int(number[m.y[e]])):
            puts = staying.get(e, [])
            for k, group in enumerate(m.choice(entry).groups):
                for _ in range(group.count - sum(put.group == k for put in puts)):
                    host = hosts[set_of[e, k]].pop()
                    puts.append(
                        _charge_arrival(m, slots, placement, group.shape, k, host, free_places)
                    )
            placement.start(entry.job_class, entry.choice, puts, entry.job)


def _charge_stays(
    m: HostModel, number: Ints, placement: Placement
) -> dict[int, list[TaskPlacement]]:
    """Charge the places that running jobs keep; return them per entry."""
    staying: defaultdict[int, list[TaskPlacement]] = defaultdict(list)
    for p in np.flatnonzero(number[m.stays.s]).tolist():
        e, (_, group, _) = int(m.stays.entry[p]), m.task_sets[m.stays.set[p]].users[0]
        host, gpus = int(m.hosts[m.stays.host[p]]), m.stays.gpus[p]
        placement.hold(m.task_sets[m.stays.set[p]].shape, host, gpus, m.stays.slot[p])
        staying[e].append(TaskPlacement(group, host, 1, gpus, True, m.stays.slot[p]))
    return staying


def _free_places(m: HostModel, slots: GpuSlots, number: Ints, placement: Placement) -> FreePlaces:
    """Return the GPUs that have a place for each kind of part, per host."""
    free_places: FreePlaces = defaultdict(list)
    free: dict[int, list[int]] = {}
    gpu_of: dict[int, int] = {}
    for i in np.flatnonzero(number[slots.b]).tolist():
        slot = int(slots.b_slot[i])
        host = int(m.hosts[slots.host[slot]])
        if slot not in gpu_of:
            gpu_of[slot] = int(slots.gpu[slot])
            if gpu_of[slot] == ANY_FREE:
                if host not in free:
                    named = set(slots.gpu[slots.host == slots.host[slot]].tolist())
                    free[host] = [g for g in placement.free_gpu_ids(host) if g not in named]
                gpu_of[slot] = free[host].pop(0)
        key = (host, int(slots.b_key[i]))
        free_places[key] += [gpu_of[slot]] * int(number[slots.b[i]])
    return free_places


def _charge_arrival(
    m: HostModel,
    slots: GpuSlots,
    placement: Placement,
    shape: int,
    group: int,
    host: int,
    free_places: FreePlaces,
) -> TaskPlacement:
    """Charge a task to a host, a share to a GPU with a place for it."""
    problem = placement.problem
    if not problem.is_share[shape]:
        return TaskPlacement(group, host, 1, placement.put(shape, host))
    gpu = free_places[host, slots.parts.key(m, shape, host)].pop()
    placement.hold(shape, host, (gpu,))
    placement.arrivals[host, problem.shape_rank[shape]] += 1
    return TaskPlacement(group, host, 1, (gpu,))
