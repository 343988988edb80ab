"""Variables of the aggregate model: its columns, gangs per kind and domain, kinds of GPU parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.models.aggregate.host_classes import HostClasses
from placewright.formulations.gang.placement.gang_tree import host_steps, tasks_on_hosts
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Group
from placewright.formulations.gang.problem.limits import TenantShare
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.shapes import WHOLE_CLUSTER, taken_by_gang
from placewright.formulations.gang.problem.terms import LinkBandwidths, least_time_us_within
from placewright.solver import Model
from placewright.topology.mig import COMPUTE_SLICES, NO_MIG, PRODUCTS, SLICES
from placewright.topology.units import WHOLE_GPU

# The kinds of GPU parts in the aggregate model: shares by milli-GPU and memory, MIG slices.


A_SHARE = -1
"""Instead of a kind of slice."""


@dataclass(frozen=True, eq=False, slots=True)
class GpuPartTypes:
    """The kinds of GPU parts that shapes ask for: shares first, then slices."""

    # milli, memory (parts,): Milli-GPU, and MiB of GPU memory (0 for slices)
    milli: Ints
    memory: Ints
    # (parts,): Kind of slice (an index into `topology.mig.SLICES`), `A_SHARE` for shares
    kind: Ints
    # (shapes, products + 1): Part that a shape asks for on GPUs of a product (last: without MIG),
    # -1 if none
    of: Ints

    def __len__(self) -> int:
        return len(self.milli)

    @classmethod
    def of_problem(cls, problem: Problem) -> Self:
        """Return the kinds of parts that the shapes of a problem ask for."""
        sharing = problem.part_demands
        of = np.full((len(problem.shape_gpu), len(PRODUCTS) + 1), -1, dtype=np.int64)
        memory = np.zeros_like(problem.shape_gpu) if sharing is None else sharing.memory
        shares = np.flatnonzero(problem.is_share)
        if sharing is not None:
            shares = shares[~sharing.is_slice[shares]]
        asked = np.column_stack([problem.shape_gpu[shares], memory[shares]])
        distinct, part = np.unique(asked, axis=0, return_inverse=True)
        of[shares] = part.reshape(-1, 1)
        kinds = np.zeros(0, dtype=np.int64)
        if sharing is not None:
            sliced = sharing.is_slice[:, None] & (sharing.slice_kind != NO_MIG)
            kinds = np.unique(sharing.slice_kind[sliced])
            of[sliced] = len(distinct) + np.searchsorted(kinds, sharing.slice_kind[sliced])
        compute = np.array([one.compute for one in SLICES], dtype=np.int64)
        return cls(
            np.append(distinct[:, 0], WHOLE_GPU * compute[kinds] // COMPUTE_SLICES),
            np.append(distinct[:, 1], np.zeros_like(kinds)),
            np.append(np.full(len(distinct), A_SHARE), kinds),
            of,
        )


# Gangs per kind and domain: where groups with required or weighted levels may be.
#
#     u[q, d]   gangs of kind q whose tasks all lie in domain d, in no relevant domain inside d
#
# Domains of the levels form a tree, so gangs fit their domains together exactly if, for every
# domain, the gangs in it or below fit (Hall's condition on a laminar family). "Fits" is counted
# in tasks of t GPUs: sum of floor(g/t) n u  <=  sum over hosts of floor(free/t), for every gang
# task size t.


@dataclass(frozen=True, eq=False, slots=True)
class GangKind:
    """Gangs that are equal for the tree: in task GPUs, capacity per host, count and levels."""

    gpu: int
    count: int
    milli_gpu: int
    required: int
    weights: tuple[tuple[int, int], ...]
    capacity: Ints  # (hosts,): How many tasks of any one of the `shapes` fit each host
    shapes: set[int]
    # One of the groups, if the time of their collectives counts; then all levels down to the host
    # matter
    timed: Group | None
    depth: int  # Levels of the cluster
    # What a gang takes of each pool at least, if all its tasks are in one domain or in several
    taken: tuple[int, ...]
    on_hosts: Group | None  # One of the groups, if these are on so many hosts

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

    kind: Ints
    level: Ints
    domain: Ints
    most: Ints
    spread: Ints
    time_us: Ints


def gang_kinds(problem: Problem, capacity: Ints) -> tuple[list[GangKind], dict[Group, int]]:
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
    with pools that is found for all jobs together (`heuristics/disaggregation.py`).
    """
    more = group.required != NO_LEVEL or group.is_arranged or group.counts_all_levels
    return group.depends_on_levels and (more or "spread" in problem.terms or not problem.pools)


def gang_columns(problem: Problem, kinds: list[GangKind]) -> GangColumns:
    """Return all (kind, domain) pairs in which at least one gang of the kind fits."""
    columns: list[Ints] = [np.zeros((6, 0), dtype=np.int64)]
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


def _capacity(problem: Problem, level: int, amount: Ints) -> Ints:
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


def _least_spread(problem: Problem, kind: GangKind, level: int, domains: Ints) -> Ints:
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
    problem: Problem, kinds: list[GangKind], columns: GangColumns, whole: Ints
) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
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


def _ancestor(problem: Problem, columns: GangColumns, entries: Ints, level: int) -> Ints:
    """Return the domain of `level` that contains the domain of each entry."""
    domain = columns.domain[entries].copy()
    depth = columns.level[entries]
    for below in range(int(depth.max(initial=level)), level, -1):
        deeper = depth >= below
        domain[deeper] = problem.cluster.parent[below][domain[deeper]]
    return domain


# The variables of the aggregate model: its columns, and the rows that patterns are priced by.


class AccountRow(NamedTuple):
    """A row of an account: numbers of y, what a job takes of each, and the most of all together."""

    y: Ints
    amounts: Ints
    most: int


@dataclass(eq=False)
class AggregateModel:
    """The aggregate model (model.py says what it is), and where its variables and rows are."""

    problem: Problem
    host_classes: HostClasses
    model: Model
    y: Ints
    y_option: Ints
    y_most: Ints  # most jobs of each y
    y_cost: Ints  # least cost of stopping one of them, 0 for pending jobs
    x: Ints
    x_shape: Ints
    x_class: Ints  # host class
    opened: Ints  # column of o per host class, -1 for classes in use
    u: Ints
    gangs: GangColumns  # what each u stands for
    gang_kinds: list[GangKind]
    gang_kind_of: dict[Group, int]
    parts: GpuPartTypes  # the kinds of GPU parts that shapes ask for
    # what a job of each y uses less of the disruption budget than one that stops, (y, limits)
    y_use: Ints
    y_least: Ints  # jobs of each y that have to run on
    option_row: Ints = field(init=False)  # row per job class, its jobs with any option
    task_row: Ints = field(init=False)  # row per shape, tasks placed less tasks started
    gpu_row: Ints = field(init=False)  # row per host class, -1 for none
    share_row: Ints = field(init=False)  # row per (part, host class), -1 for none
    quota_row: Ints = field(init=False)  # row per quota of the problem
    budget_row: Ints = field(init=False)  # row per limit of the disruption budget, -1 for none
    # rows of quotas and caps, and of precedence within them
    account_rows: list[AccountRow] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.gpu_row = np.full(len(self.host_classes), -1, dtype=np.int64)
        self.share_row = np.full((len(self.parts), len(self.host_classes)), -1, dtype=np.int64)
        self.budget_row = np.full(self.y_use.shape[1], -1, dtype=np.int64)

    def part_of(self, shape: Ints, host_class: Ints) -> Ints:
        """Return the parts that shapes ask for on hosts of some classes, -1 for whole GPUs."""
        known, first = np.unique(self.host_classes.of_host, return_index=True)
        product = self.problem.cluster.product[first[known >= 0]]
        parts: Ints = self.parts.of[shape, product[host_class]]
        return parts

    @property
    def y_class(self) -> Ints:
        """Job class of each y."""
        return self.problem.options.job_class[self.y_option]

    @property
    def y_choice(self) -> Ints:
        """Choice of each y."""
        return self.problem.options.choice[self.y_option]

    @property
    def steps(self) -> list[Ints]:
        """The y of each step of the classes of running jobs, a y for each of their options."""
        found: list[Ints] = []
        for c, job_class in enumerate(self.problem.classes):
            if job_class.running:
                mine = np.flatnonzero(self.y_class == c)
                found += list(mine.reshape(len(job_class.choices), -1).T)
        return found

    @property
    def sifted(self) -> Ints:
        """The y that sifting may leave out: not those that a disruption budget has run on."""
        if self.problem.budget is None:
            return np.arange(len(self.y))
        return np.flatnonzero(self.problem.num_pending[self.y_class])

    @property
    def y_columns(self) -> tuple[Ints, Ints, Ints]:
        """The columns y, and the job class and choice of each."""
        return self.y, self.y_class, self.y_choice

    @property
    def left_out_shares(self) -> tuple[TenantShare, ...]:
        """The tenants, holding what running jobs may keep that the model leaves out."""
        return self.problem.shares_with_jobs(
            (self.problem.num_jobs - self.problem.num_competing).tolist()
        )

    @property
    def inner_gang_columns(self) -> Bools:
        """Marks columns of gangs inside the domain that they require; only `spread` needs them."""
        outermost = np.array([kind.levels[0] for kind in self.gang_kinds], dtype=np.int64)
        mask = np.zeros(self.model.columns, dtype=np.bool_)
        mask[self.u] = self.gangs.level > outermost[self.gangs.kind]
        return mask
