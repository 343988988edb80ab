"""Whole jobs from an optimum of the program of regions.

Of each share of a variable the whole jobs go where it says: of a cluster those of the highest
priority, and of these the dearest to the regions that cost them least. What rounding leaves over
goes wherever there is room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from placewright.formulations.common.wan.arrays import NONE, Ints
from placewright.formulations.geo.heuristics.residual import Room
from placewright.formulations.geo.models.assignment_lp import Clusters, Floats, Program
from placewright.instances.documents.job import Job

ROUNDING = 1e-6
"""Below this a share of a job is a solver's tolerance."""


def whole_jobs(program: Program, values: Floats, costs: Ints) -> tuple[Ints, Ints]:
    """Return the region and the way of each pending job (jobs,), NONE where there is no room."""
    kinds, clusters, room = program.kinds, program.clusters, Room(program.kinds)
    region = np.full(len(kinds.of_job), NONE, dtype=np.int64)
    taken = region.copy()
    near, far = _whole(values[program.near]), _whole(values[program.far])
    served = np.zeros(len(clusters.kind))
    np.add.at(served, program.near_cluster, values[program.near])
    served[program.far_cluster] += values[program.far]
    elsewhere = np.zeros(len(clusters.kind), dtype=np.int64)
    elsewhere[program.far_cluster] = far
    runs = kinds.at[clusters.kind] != NONE
    places: list[list[tuple[float, int, int]]] = [[] for _ in clusters.kind]
    ways = zip(program.near_cluster.tolist(), program.near_way.tolist(), near.tolist(), strict=True)
    for c, way, share in ways:
        if runs[c]:
            room.take(way, share)
        elif share:
            places[c].append((float(clusters.cost[c, kinds.way_region[way]]), way, share))
    slots = _slots(program, values)
    order, start = _members(kinds.problem.wan.round.jobs, clusters)

    def give(jobs: Ints, way: int) -> int:
        region[jobs], taken[jobs] = kinds.way_region[way], way
        room.take(way, len(jobs))
        return len(jobs)

    for c in np.flatnonzero(~runs).tolist():
        mine = order[start[c] : start[c + 1]]
        mine = mine[: int(np.ceil(served[c] - ROUNDING))]
        mine = mine[np.argsort(-costs[mine].max(axis=1, initial=0), kind="stable")]
        at = 0
        for _, way, share in sorted(places[c]):
            at += give(mine[at : at + share], way)
        pool = slots.get(int(clusters.pool[c]), {})
        for way, jobs in _spread(mine[at : at + int(elsewhere[c])], costs, pool, kinds.way_region):
            give(jobs, way)
    pending = (kinds.of_job != NONE) & (kinds.problem.at == NONE)
    for j, way in room.offer(np.flatnonzero(pending & (region == NONE)).tolist(), costs):
        region[j], taken[j] = kinds.way_region[way], way
    return region, taken


def _whole(shares: Floats) -> Ints:
    return np.floor(shares + ROUNDING).astype(np.int64)


def _spread(
    jobs: Ints, costs: Ints, slots: dict[int, int], way_region: Ints
) -> Iterator[tuple[int, Ints]]:
    """Yield the ways of a pool with jobs that go there, and take as many of its `slots`.

    Those first that save most beside the way where they cost most.
    """
    ways = np.array([way for way, left in slots.items() if left], dtype=np.int64)
    if not len(jobs) or not len(ways):
        return
    cost = costs[jobs][:, way_region[ways]]
    order = np.argsort((cost - cost.max(axis=1)[:, None]).ravel(), kind="stable")
    given: dict[int, list[int]] = {}
    left = set(range(len(jobs)))
    for at in order.tolist():
        j, w = divmod(at, len(ways))
        way = int(ways[w])
        if j in left and slots[way]:
            slots[way] -= 1
            left.remove(j)
            given.setdefault(way, []).append(j)
            if not left:
                break
    for way, mine in given.items():
        yield way, jobs[mine]


def _slots(program: Program, values: Floats) -> dict[int, dict[int, int]]:
    """Return the ways of each pool, each with the whole jobs that go it."""
    slots: dict[int, dict[int, int]] = {}
    shares = _whole(values[program.pool]).tolist()
    ways = zip(program.pool_number.tolist(), program.pool_way.tolist(), shares, strict=True)
    for pool, way, share in ways:
        if share:
            slots.setdefault(pool, {})[way] = share
    return slots


def _members(jobs: Sequence[Job], clusters: Clusters) -> tuple[Ints, Ints]:
    """Return the jobs by cluster, higher priority first, and where each cluster begins."""
    mine = np.flatnonzero(clusters.of_job != NONE)
    priority = np.array([job.priority for job in jobs], dtype=np.int64)
    order = mine[np.lexsort((mine, -priority[mine], clusters.of_job[mine]))]
    start = np.searchsorted(clusters.of_job[order], np.arange(len(clusters.kind) + 1))
    return order, start
