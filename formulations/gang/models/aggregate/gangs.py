"""Gangs per kind and domain: where groups with required or weighted levels may be.

    u[q, d]   gangs of kind q whose tasks all lie in domain d, in no relevant domain inside d

Domains of the levels form a tree, so gangs fit their domains together exactly if, for every domain,
the gangs in it or below fit (Hall's condition on a laminar family). "Fits" is counted in tasks of
t GPUs: sum of floor(g/t) n u  <=  sum over hosts of floor(free/t), for every gang task size t.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang.placement.host_ranges import host_steps, tasks_on_hosts
from placewright.formulations.gang.problem.collectives import LinkBandwidths, least_time_us_within
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Group
from placewright.formulations.gang.problem.pools import WHOLE_CLUSTER, taken_by_gang
from placewright.formulations.gang.problem.problem import Problem
from placewright.topology.units import WHOLE_GPU


@dataclass(frozen=True, eq=False, slots=True)
class GangKind:
    """Gangs that are equal for the tree: in task GPUs, capacity per host, count and levels.

    Attributes
    ----------
    capacity : int64 (hosts,)
        How many tasks of any one of the `shapes` fit each host.
    timed : Group or None
        One of the groups, if the time of their collectives counts; then all levels down to the host
        matter.
    depth : int
        Levels of the cluster.
    taken : tuple of int
        What a gang takes of each pool at least, if all its tasks are in one domain or in several.
    on_hosts : Group or None
        One of the groups, if these are on so many hosts.
    """

    gpu: int
    count: int
    milli_gpu: int
    required: int
    weights: tuple[tuple[int, int], ...]
    capacity: NDArray[np.int64]
    shapes: set[int]
    timed: Group | None
    depth: int
    taken: tuple[int, ...]
    on_hosts: Group | None

    @property
    def levels(self) -> list[int]:
        """Levels whose domains count gangs of this kind, outermost first."""
        own = {level for level, _ in self.weights}
        if self.timed is not None:
            own |= set(range(self.required + 1, self.depth))
        return sorted(own | {self.required if self.required != NO_LEVEL else WHOLE_CLUSTER})


@dataclass(frozen=True, eq=False, slots=True)
class GangColumns:
    """The variables u: kind, level, domain, most gangs and least spread of each, int64 (columns,).

    `time_us` is the least microseconds of one gang's collective.
    """

    kind: NDArray[np.int64]
    level: NDArray[np.int64]
    domain: NDArray[np.int64]
    most: NDArray[np.int64]
    spread: NDArray[np.int64]
    time_us: NDArray[np.int64]


def gang_kinds(
    problem: Problem, capacity: NDArray[np.int64]
) -> tuple[list[GangKind], dict[Group, int]]:
    """Return the kinds of the groups whose levels matter, and the kind of each such group."""
    kinds: list[GangKind] = []
    known: dict[tuple[object, ...], int] = {}
    kind_of: dict[Group, int] = {}
    for job_class in problem.classes:
        # Running jobs may stay, and then no level matters.
        for choice in () if job_class.running else job_class.choices:
            for group in choice.groups:
                if group in kind_of or not _levels_matter(problem, group):
                    continue
                fits = capacity[group.shape]
                gpu = int(problem.shape_gpu[group.shape])
                timed = group if group.timed else None
                traffic = group.traffic if group.timed else None
                taken = tuple(taken_by_gang(pool, group) for pool in problem.pools)
                where = group.required, group.weights, fits.tobytes()
                on = None if group.num_hosts is None else group
                key = (gpu, group.count, traffic, taken, group.num_hosts, *where)
                if key not in known:
                    known[key] = len(kinds)
                    kinds.append(
                        GangKind(
                            gpu,
                            group.count,
                            group.milli_gpu,
                            group.required,
                            group.weights,
                            fits,
                            set(),
                            timed,
                            len(problem.cluster.levels),
                            taken,
                            on,
                        )
                    )
                kinds[known[key]].shapes.add(group.shape)
                kind_of[group] = known[key]
    return kinds, kind_of


def _levels_matter(problem: Problem, group: Group) -> bool:
    """Whether it matters in which domains a group is.

    Weights of levels count in `spread` alone. Without it they still tell where jobs are placed, but
    with pools that is found for all jobs together (`heuristics/domain_packing.py`).
    """
    more = group.required != NO_LEVEL or group.is_arranged or group.counts_all_levels
    return group.depends_on_levels and (more or "spread" in problem.terms or not problem.pools)


def gang_columns(problem: Problem, kinds: list[GangKind]) -> GangColumns:
    """Return all (kind, domain) pairs in which at least one gang of the kind fits."""
    columns: list[NDArray[np.int64]] = [np.zeros((6, 0), dtype=np.int64)]
    speeds = LinkBandwidths.of(problem.cluster) if any(kind.timed for kind in kinds) else None
    for q, kind in enumerate(kinds):
        for level in kind.levels:
            held = _capacity(problem, level, kind.capacity)
            domains = np.flatnonzero(_on_hosts(problem, level, kind, held) >= kind.count)
            time = 0
            if speeds is not None and kind.timed is not None:
                time = least_time_us_within(speeds, kind.timed, level, kind.capacity > 0)
            columns.append(
                np.stack(
                    [
                        np.full(len(domains), q),
                        np.full(len(domains), level),
                        domains,
                        # One shape may fit where another has filled the host.
                        held[domains] // kind.count * len(kind.shapes),
                        _least_spread(problem, kind, level, domains),
                        np.full(len(domains), time),
                    ]
                )
            )
    return GangColumns(*np.concatenate(columns, axis=1))


def _capacity(problem: Problem, level: int, amount: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum a per-host amount over the domains of a level."""
    if level == WHOLE_CLUSTER:
        return np.array([amount.sum()], dtype=np.int64)
    cluster = problem.cluster
    total = np.zeros(len(cluster.names[level]), dtype=np.int64)
    np.add.at(total, cluster.domain[level], amount)
    return total


def _on_hosts(problem: Problem, level: int, kind: GangKind, held: Ints) -> Ints:
    """Return what each domain of a level holds of one gang, on as many hosts as it may be on."""
    if kind.on_hosts is None:
        return held
    cluster, group = problem.cluster, kind.on_hosts
    free = replace(group, slices=None, domain_limit=None)
    steps = host_steps(cluster, free, kind.capacity, {})
    if level == WHOLE_CLUSTER:
        return tasks_on_hosts(free, steps, np.zeros_like(kind.capacity), 1)
    return tasks_on_hosts(free, steps, cluster.domain[level], len(held))


def _least_spread(
    problem: Problem, kind: GangKind, level: int, domains: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the least spread of a gang that needs all of a domain: two parts per level below.

    More parts are needed where even the largest ones together are too small.
    """
    cluster = problem.cluster
    result = np.zeros(len(domains), dtype=np.int64)
    for below, weight in kind.weights:
        if below <= level:
            continue
        part_capacity = _capacity(problem, below, kind.capacity)
        parts = np.flatnonzero(part_capacity)
        # The domain of `level` that holds each part, through any host of the part.
        host_of_part = np.zeros(len(part_capacity), dtype=np.int64)
        host_of_part[cluster.domain[below]] = np.arange(cluster.num_hosts)
        holder = (
            np.zeros(len(parts), dtype=np.int64)
            if level == WHOLE_CLUSTER
            else cluster.domain[level][host_of_part[parts]].astype(np.int64)
        )
        order = np.lexsort((-part_capacity[parts], holder))
        holder, sizes = holder[order], part_capacity[parts][order]
        starts = np.searchsorted(holder, domains)
        ends = np.searchsorted(holder, domains, side="right")
        for i, (a, b) in enumerate(zip(starts, ends, strict=True)):
            needed = int(np.searchsorted(np.cumsum(sizes[a:b]), kind.count)) + 1
            result[i] += kind.milli_gpu * weight * (max(needed, 2) - 1)
    return result


def domain_rows(
    problem: Problem, kinds: list[GangKind], columns: GangColumns, whole: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the rows of Hall's condition, per level, set of hosts and task size t.

    Each item is (capacity per domain, and per entry the domain, the column, tasks of t GPUs).
    """
    cluster = problem.cluster
    masks = {(k.capacity > 0).tobytes(): k.capacity > 0 for k in kinds}
    sizes = sorted({k.gpu // WHOLE_GPU for k in kinds if k.gpu >= WHOLE_GPU})
    anywhere = np.zeros(cluster.num_hosts, dtype=np.bool_)
    for mask in masks.values():
        anywhere |= mask
    masks.setdefault(anywhere.tobytes(), anywhere)
    levels = sorted({int(level) for level in np.unique(columns.level)} - {WHOLE_CLUSTER})
    for level in levels:
        for mask in masks.values():
            inside = np.array([not (k.capacity[~mask] > 0).any() for k in kinds])
            for t in sizes:
                per_gang = np.array([k.count * (k.gpu // WHOLE_GPU // t) for k in kinds])
                entries = np.flatnonzero(
                    (columns.level >= level) & (inside & (per_gang > 0))[columns.kind]
                )
                if len(entries):
                    capacity = _capacity(problem, level, np.where(mask, whole // t, 0))
                    yield (
                        capacity,
                        _ancestor(problem, columns, entries, level),
                        entries,
                        per_gang[columns.kind[entries]],
                    )


def pool_rows(
    problem: Problem, kinds: list[GangKind], columns: GangColumns
) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
    """Yield the rows of pools, per pool and level: gangs in a domain or below take what it has.

    Each item is (what its pools have together, per domain; and per entry the domain, the column,
    and what a gang takes at least).
    """
    cluster = problem.cluster
    levels = {int(level) for level in np.unique(columns.level)} - {WHOLE_CLUSTER}
    for k, pool in enumerate(problem.pools):
        each = np.array([kind.taken[k] for kind in kinds], dtype=np.int64)
        for level in sorted({level for level in levels if level < pool.level} | {pool.level}):
            entries = np.flatnonzero((columns.level >= level) & (each > 0)[columns.kind])
            if len(entries):
                held = np.zeros(len(cluster.names[level]), dtype=np.int64)
                host = np.zeros(len(pool.limit), dtype=np.int64)
                host[pool.domain] = np.arange(cluster.num_hosts)
                some = np.unique(pool.domain)
                np.add.at(held, cluster.domain[level][host[some]], pool.limit[some])
                at = _ancestor(problem, columns, entries, level)
                yield held, at, entries, each[columns.kind[entries]]


def _ancestor(
    problem: Problem, columns: GangColumns, entries: NDArray[np.int64], level: int
) -> NDArray[np.int64]:
    """Return the domain of `level` that contains the domain of each entry."""
    domain = columns.domain[entries].copy()
    depth = columns.level[entries]
    for below in range(int(depth.max(initial=level)), level, -1):
        deeper = depth >= below
        domain[deeper] = problem.cluster.parent[below][domain[deeper]]
    return domain
