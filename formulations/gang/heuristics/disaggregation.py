"""Disaggregation: from the integer counts of the aggregate model to hosts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.domain_swaps import NOTHING, DomainSwaps
from placewright.formulations.gang.heuristics.search import close_enough
from placewright.formulations.gang.heuristics.vector_packing import (
    best_fit_decreasing,
)
from placewright.formulations.gang.models.aggregate.gpu_columns import GpuPatterns
from placewright.formulations.gang.models.aggregate.host_columns import HostPatterns
from placewright.formulations.gang.models.aggregate.solve import PricedModel
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.placement.greedy import fill_by_policy, place_choice
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Choice, TaskPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.shapes import WHOLE_CLUSTER, taken_by_gang
from placewright.formulations.session import Session
from placewright.solver import Outcome
from placewright.topology.units import WHOLE_GPU

# Vector bin packing by host class: one-task jobs on the hosts of the class the counts chose.


StartCounts: TypeAlias = defaultdict[tuple[int, int], int]
"""Number of jobs still to be started, by (class, choice)."""


def priority_class_of(problem: Problem, entry: tuple[int, int]) -> int:
    """Return the priority class of a (class, choice), the highest 0."""
    job_class, choice = entry
    return problem.classes[job_class].choices[choice].priority_class


def single_jobs(problem: Problem, starts: StartCounts) -> defaultdict[int, list[tuple[int, int]]]:
    """Return (class, choice) of the one-task jobs to start, by shape; one entry per job.

    Those of the highest priority class are the last of each list, to be taken first.
    """
    jobs: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for (c, o), n in sorted(starts.items(), key=lambda s: -priority_class_of(problem, s[0])):
        choice = problem.classes[c].choices[o]
        if choice.is_single_task:
            jobs[choice.groups[0].shape] += [(c, o)] * n
    return jobs


@dataclass(frozen=True, slots=True)
class _Item:
    """An item: one task, or the shares that one pattern puts on a GPU."""

    gpus: int
    demand: Ints
    shapes: tuple[int, ...]


class ClassPacking:
    """Packs the one-task jobs of all host classes."""

    def __init__(
        self,
        counts: AggregateModel,
        patterns: GpuPatterns | None,
        number: Ints,
        placement: Placement,
        starts: StartCounts,
    ) -> None:
        self.counts, self.patterns, self.number = counts, patterns, number
        self.placement, self.starts = placement, starts
        self.problem = counts.problem
        self.jobs_of_shape = single_jobs(self.problem, starts)

    def pack(self) -> None:
        """Pack every host class; jobs that do not fit stay in `starts`."""
        wanted: defaultdict[int, list[int]] = defaultdict(list)  # class -> shapes, one per task
        taken = self._tasks_of_gangs()
        unassigned = {shape: len(jobs) for shape, jobs in self.jobs_of_shape.items()}
        counts = self.counts
        for i in np.flatnonzero(self.number[counts.x]):
            shape, a = int(counts.x_shape[i]), int(counts.x_class[i])
            n = int(self.number[counts.x[i]]) - taken[shape, a]
            n = min(n, unassigned.get(shape, 0))
            if n > 0:
                unassigned[shape] -= n
                wanted[a] += [shape] * n
        for a, shapes in wanted.items():
            hosts = np.flatnonzero(counts.host_classes.of_host == a)
            shares = [s for s in shapes if self.problem.is_share[s]]
            items = [
                _Item(
                    int(self.problem.shape_gpu[s]) // WHOLE_GPU, self.problem.shape_demand[s], (s,)
                )
                for s in shapes
                if not self.problem.is_share[s]
            ]
            if shares and self.patterns is not None:
                shares = self._fill_partial_gpus(self.patterns, a, hosts, shares)
                items += self._shares_per_gpu(self.patterns, a, shares)
            self._pack_items(hosts, items)

    def _tasks_of_gangs(self) -> defaultdict[tuple[int, int], int]:
        """Return the tasks of gangs, by (shape, host class)."""
        taken: defaultdict[tuple[int, int], int] = defaultdict(int)
        for _, start in self.placement.started():
            groups = self.problem.classes[start.job_class].choices[start.choice].groups
            for put in start.tasks:
                key = groups[put.group].shape, int(self.counts.host_classes.of_host[put.host])
                taken[key] += put.count
        return taken

    def _start(self, shape: int, host: int) -> bool:
        if not self.placement.fits_host(shape, host):
            return False
        c, o = self.jobs_of_shape[shape].pop()
        self.placement.start(c, o, [TaskPlacement(0, host, 1, self.placement.put(shape, host))])
        self.starts[c, o] -= 1
        return True

    def _gpu_patterns(self, patterns: GpuPatterns, a: int, *, whole: bool) -> Iterator[list[int]]:
        """Yield the parts on each GPU of the class: of wholly free GPUs, or of partly used ones."""
        for i in np.flatnonzero(self.number[patterns.pool.columns]):
            g = patterns.pool.kind[i]
            if patterns.kind_class[g] == a and (patterns.kind_free[g] == WHOLE_GPU) == whole:
                cut = np.repeat(np.arange(len(self.counts.parts)), patterns.pool.cuts[i]).tolist()
                for _ in range(int(self.number[patterns.pool.columns[i]])):
                    yield cut

    def _fill_partial_gpus(
        self, patterns: GpuPatterns, a: int, hosts: Ints, shares: list[int]
    ) -> list[int]:
        """Start shares on partly used GPUs by their patterns; return the other shares."""
        left = self._shares_by_part(a, shares)
        for cut in self._gpu_patterns(patterns, a, whole=False):
            for part in reversed(cut):
                if left[part]:
                    self._start_on_partial(hosts, left[part])
        return [s for shapes in left.values() for s in shapes]

    def _start_on_partial(self, hosts: Ints, shapes: list[int]) -> None:
        """Start a share of one of some shapes, which demand the same part, by best fit."""
        fitting = self.placement.fits_partial_gpus(shapes[0], hosts) > 0
        tightest = np.where(fitting, self.placement.gpu_free[hosts], WHOLE_GPU + 1).min(axis=1)
        most = parameters.PARAMETERS.packing.max_partial_gpus
        for at in np.argsort(tightest, kind="stable")[:most]:
            if tightest[at] > WHOLE_GPU:
                return
            for k in range(len(shapes) - 1, -1, -1):
                if self._start(shapes[k], int(hosts[at])):
                    del shapes[k]
                    return

    def _shares_per_gpu(self, patterns: GpuPatterns, a: int, shares: list[int]) -> list[_Item]:
        """Deal the shares of a class to the patterns of whole GPUs, heavy with light."""
        demand = self.problem.shape_demand
        left = self._shares_by_part(a, shares)
        for shapes in left.values():
            shapes.sort(key=lambda s: tuple(demand[s]))
        bundles = []
        for cut in self._gpu_patterns(patterns, a, whole=True):
            # From both ends of each list in turn, so that heavy and light share a GPU.
            chosen = [left[f].pop(-(k % 2)) for k, f in enumerate(cut) if left[f]]
            if chosen:
                bundles.append(_Item(1, demand[chosen].sum(axis=0), tuple(chosen)))
        # Other shares were meant for partly used GPUs on which they no longer fit.
        bundles += [_Item(1, demand[s], (s,)) for shapes in left.values() for s in shapes]
        return bundles

    def _pack_items(self, hosts: Ints, items: list[_Item]) -> None:
        """Pack by best fit decreasing."""
        if not items:
            return
        free = np.column_stack([self.placement.whole[hosts], self.placement.free[hosts]])
        sizes = np.array([(item.gpus, *item.demand) for item in items], dtype=np.int64)
        chosen = best_fit_decreasing(sizes, free)
        for item, at in zip(items, chosen, strict=True):
            for shape in item.shapes if at >= 0 else ():
                self._start(shape, int(hosts[at]))

    def _shares_by_part(self, a: int, shares: list[int]) -> defaultdict[int, list[int]]:
        """Return the shares of a host class by the part of a GPU that they demand."""
        left: defaultdict[int, list[int]] = defaultdict(list)
        part = self.counts.part_of(np.array(shares, dtype=np.int64), np.full(len(shares), a))
        for s, f in zip(shares, part.tolist(), strict=True):
            left[f].append(s)
        return left


# Packing by domain: the jobs that counts start, so that GPUs and pools are used up together.
#
# Counts know what the domains of a level have in sums. A search of swaps (domain_swaps.py) finds
# a domain for each job, of the innermost level with pools. A job whose tasks may be anywhere is
# divided into tasks, which begin in one domain if that can hold them. In a domain the hosts with
# the fewest free GPUs come first. Jobs that need several domains at once come before all others.


def pack_domains(placement: Placement, session: Session, starts: StartCounts) -> None:
    """Start jobs by domain, as far as they fit. The problem has pools of some level."""
    jobs = [job for entry, number in starts.items() for job in [_job(placement, *entry)] * number]
    domains = _Domains(placement)
    fits = [job.is_divisible or bool((job.demand <= domains.widest).all()) for job in jobs]
    for job, inside in zip(jobs, fits, strict=True):
        if not inside and _may_start(placement, job):
            puts = place_choice(placement, job.choice)
            if puts is not None:
                placement.start(job.job_class, job.option, puts)
    inside_one = [job for job, inside in zip(jobs, fits, strict=True) if inside]
    if inside_one:
        _Domains(placement).start(inside_one, session)


class _Job(NamedTuple):
    """A job to be started; `demand` is what it takes of a domain that holds all of it.

    It `is_divisible` if its tasks may be in several domains, wherever those are.
    """

    job_class: int
    option: int
    choice: Choice
    accounts: tuple[int, ...]
    demand: Ints
    shapes: tuple[int, ...]
    is_divisible: bool

    @property
    def num_items(self) -> int:
        """How many items it is for the search: its tasks, or the job as a whole."""
        return self.choice.num_tasks if self.is_divisible else 1


def _job(placement: Placement, job_class: int, option: int) -> _Job:
    started = placement.problem.classes[job_class]
    choice, pools = started.choices[option], placement.pools.pools
    taken = [sum(taken_by_gang(pool, group) for group in choice.groups) for pool in pools]
    alone = len(choice.groups) == 1 and not choice.is_tied and not choice.uses
    return _Job(
        job_class,
        option,
        choice,
        started.accounts,
        np.array([sum(group.milli_gpu for group in choice.groups), *taken], dtype=np.int64),
        tuple(sorted({group.shape for group in choice.groups})),
        alone and choice.groups[0].required == NO_LEVEL,
    )


def _may_start(placement: Placement, job: _Job) -> bool:
    """Whether a job of its class still waits, and quotas have room for it."""
    waits = placement.waiting[job.job_class] > 0
    return waits and not placement.quota_excess(job.accounts, job.choice)


class _Domains:
    """The domains of the innermost level with pools, and what they have left.

    Attributes
    ----------
    level : int
    hosts : list of int64
        Hosts of each domain.
    around : list of int64 (domains,)
        For milli-GPU and each pool the domain, of this level or an outer one, that gives it.
    left : list of int64
        For milli-GPU and each pool what those have left.
    unit, widest : (1 + pools,)
        What a domain has left in the mean, and what one has left at most.
    """

    def __init__(self, placement: Placement) -> None:
        self.placement, problem = placement, placement.problem
        cluster, pools = problem.cluster, placement.pools.pools
        self.level = max(pool.level for pool in pools)
        self.domain, size = cluster.domain[self.level], len(cluster.names[self.level])
        order = np.argsort(self.domain, kind="stable")
        self.hosts = np.split(order, np.searchsorted(self.domain[order], np.arange(1, size)))
        host = np.zeros(size, dtype=np.int64)
        host[self.domain] = np.arange(cluster.num_hosts)
        self.around = [np.arange(size), *(pool.domain[host] for pool in pools)]
        gpus = np.zeros(size, dtype=np.int64)
        np.add.at(gpus, self.domain, np.where(problem.open, placement.free_milli_gpu, 0))
        self.left = [gpus, *placement.pools.left]
        some = np.stack([left[d] for left, d in zip(self.left, self.around, strict=True)], axis=1)
        some = some[np.unique(self.domain)]
        self.unit = np.maximum(np.maximum(some, 0).mean(axis=0), 1.0)
        self.widest = some.max(axis=0, initial=0)

    def start(self, jobs: Sequence[_Job], session: Session) -> None:
        """Start jobs where a search finds room for all of them, or for most."""
        items = np.array([job.num_items for job in jobs])
        each = np.stack([job.demand for job in jobs]) // items[:, None]
        of_job = np.repeat(np.arange(len(jobs)), items)
        row = {one: k for k, one in enumerate(dict.fromkeys(job.shapes for job in jobs))}
        swaps = DomainSwaps(
            each[of_job],
            np.array([row[job.shapes] for job in jobs])[of_job],
            np.stack([self._allowed(one) for one in row]),
            (items > 1)[of_job],
            self.around,
            self.left,
            self.unit,
        )
        of_jobs = np.split(np.arange(len(of_job)), np.cumsum(items)[:-1])
        swaps.deal(
            [
                part
                for job, mine in zip(jobs, of_jobs, strict=True)
                for part in ([mine] if (job.demand <= self.widest).all() else mine[:, None])
            ]
        )
        swaps.search(session)
        places = [swaps.domain[mine] for mine in of_jobs]
        last = _least_loss(jobs, places, swaps.lacks())
        size = (each / self.unit).sum(axis=1)
        for k in np.lexsort((-size, last)).tolist():
            self._start(jobs[k], places[k])

    def _allowed(self, shapes: tuple[int, ...]) -> NDArray[np.bool_]:
        """Return the domains with hosts for tasks of each of these shapes, bool (domains,)."""
        may: NDArray[np.bool_] = np.ones(len(self.hosts), dtype=np.bool_)
        for shape in shapes:
            some: NDArray[np.bool_] = np.zeros(len(self.hosts), dtype=np.bool_)
            some[self.domain[self.placement.problem.shape_hosts[shape]]] = True
            may &= some
        return may

    def _start(self, job: _Job, domains: Ints) -> None:
        """Start a job with an item in each of these domains, if it fits there."""
        if (domains == NOTHING).any() or not _may_start(self.placement, job):
            return
        if job.is_divisible:
            puts = self._place_tasks(job.shapes[0], domains)
        else:
            puts = self._place_whole(job.choice, self.hosts[int(domains[0])])
        if puts is not None:
            self.placement.start(job.job_class, job.option, puts)

    def _place_tasks(self, shape: int, domains: Ints) -> list[TaskPlacement] | None:
        """Place a task in each of these domains; None if they do not all fit."""
        puts: list[TaskPlacement] = []
        for d, number in zip(*np.unique(domains, return_counts=True), strict=True):
            some = self._best_fit(shape, int(number), self.hosts[int(d)])
            if some is None:
                for put in puts:
                    self.placement.lift(shape, put)
                return None
            puts += some
        return puts

    def _place_whole(self, choice: Choice, hosts: Ints) -> list[TaskPlacement] | None:
        """Place a job on hosts of one domain; None if it does not fit."""
        group = choice.groups[0]
        if len(choice.groups) == 1 and not choice.is_tied and group.required <= self.level:
            return self._best_fit(group.shape, group.count, hosts)
        mask: NDArray[np.bool_] = np.zeros(self.placement.problem.cluster.num_hosts, dtype=np.bool_)
        mask[hosts] = True
        return place_choice(self.placement, choice, dict.fromkeys(range(len(choice.groups)), mask))

    def _best_fit(self, shape: int, count: int, hosts: Ints) -> list[TaskPlacement] | None:
        """Place tasks on the hosts with the fewest free GPUs that fit them; all or none."""
        placement = self.placement
        puts: list[TaskPlacement] = []
        for host in hosts[np.argsort(placement.whole[hosts], kind="stable")].tolist():
            while len(puts) < count and placement.fits_host(shape, host):
                puts.append(TaskPlacement(0, host, 1, placement.put(shape, host)))
            if len(puts) == count:
                return puts
        for put in puts:
            placement.lift(shape, put)
        return None


def _least_loss(jobs: Sequence[_Job], places: Sequence[Ints], lacks: Ints) -> NDArray[np.bool_]:
    """Return which jobs come last: in a domain that lacks something, of least value.

    Its demand covers what the domain lacks, so that all others fit.
    """
    last: NDArray[np.bool_] = np.zeros(len(jobs), dtype=np.bool_)
    for d in np.flatnonzero(lacks.any(axis=1)).tolist():
        here = [k for k, place in enumerate(places) if (place == d).any()]
        enough = [k for k in here if (jobs[k].demand >= lacks[d]).all()]
        if not last[here].any() and enough:
            last[min(enough, key=lambda k: jobs[k].choice.value)] = True
    return last


# Gangs go to their domains first, then one-task jobs are packed class by class. The counts hold CPU
# and memory as sums per class, so some jobs may not fit there: they are tried on any host, and the
# greedy fills what is still free.


Gang: TypeAlias = tuple[int, int, dict[int, tuple[int, int]]]
"""A job of several tasks: class, choice, and per group index the (level, domain) it is to be in."""


def disaggregate(
    counts: AggregateModel,
    patterns: GpuPatterns | HostPatterns | None,
    values: NDArray[np.float64],
    session: Session,
) -> Placement:
    """Place what the counts start, and fill the rest greedily."""
    problem = counts.problem
    number = np.rint(values).astype(np.int64)
    starts: StartCounts = defaultdict(int)
    for c, o, n in zip(counts.y_class, counts.y_choice, number[counts.y], strict=True):
        if n:
            starts[int(c), int(o)] += int(n)
    packed = None
    if problem.pools and starts:
        # Counts know pools in sums.
        packed = Placement(problem)
        pack_domains(packed, session, starts)
        fill_by_policy(packed)
        if close_enough(problem, session, packed):
            return packed
    placement = Placement(problem)
    _place_by_class(counts, patterns, number, placement, starts)
    fill_by_policy(placement)
    return placement if packed is None else max(packed, placement, key=lambda p: p.value)


def _place_by_class(
    counts: AggregateModel,
    patterns: GpuPatterns | HostPatterns | None,
    number: NDArray[np.int64],
    placement: Placement,
    starts: StartCounts,
) -> None:
    """Place gangs in the domains that the counts chose, and one-task jobs by host class."""
    problem = counts.problem
    _place_gangs(counts, number, placement, starts)
    if isinstance(patterns, HostPatterns):
        _place_columns(counts, patterns, number, placement, starts)
    else:
        ClassPacking(counts, patterns, number, placement, starts).pack()
    for (c, o), n in sorted(starts.items(), key=lambda s: priority_class_of(problem, s[0])):
        choice = problem.classes[c].choices[o]
        for _ in range(n):
            puts = place_choice(placement, choice)
            if puts is None:
                break
            placement.start(c, o, puts)


def gangs_of(counts: AggregateModel, number: NDArray[np.int64], starts: StartCounts) -> list[Gang]:
    """Jobs of several tasks, one by one, as (class, choice, domain of each group that has one).

    Those bound to the innermost domains come first, large before small.
    """
    problem = counts.problem
    domains: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # by kind
    for i in np.flatnonzero(number[counts.u]):
        place = (int(counts.gangs.level[i]), int(counts.gangs.domain[i]))
        domains[int(counts.gangs.kind[i])] += [place] * int(number[counts.u[i]])
    work = []
    for (c, o), n in starts.items():
        choice = problem.classes[c].choices[o]
        for _ in range(0 if choice.is_single_task else n):
            inside: dict[int, tuple[int, int]] = {}
            for k, group in enumerate(choice.groups):
                if group in counts.gang_kind_of and domains[counts.gang_kind_of[group]]:
                    inside[k] = domains[counts.gang_kind_of[group]].pop()
            level = max((place[0] for place in inside.values()), default=WHOLE_CLUSTER)
            work.append((-level, -problem.demand_of(choice, -1), c, o, inside))
    work.sort(key=lambda w: w[:4])
    return [(c, o, inside) for _, _, c, o, inside in work]


def _place_gangs(
    counts: AggregateModel, number: NDArray[np.int64], placement: Placement, starts: StartCounts
) -> None:
    for c, o, inside in gangs_of(counts, number, starts):
        puts = place_choice(
            placement, counts.problem.classes[c].choices[o], domain_masks(counts, inside)
        )
        if puts is not None:
            placement.start(c, o, puts)
            starts[c, o] -= 1


def _place_columns(
    counts: AggregateModel,
    patterns: HostPatterns,
    number: NDArray[np.int64],
    placement: Placement,
    starts: StartCounts,
) -> None:
    """One-task jobs: each host that no gang took gets a pattern of its class, fullest first.

    A pattern may hold more tasks than are started, and tasks of gangs; those places stay empty.
    """
    waiting = single_jobs(counts.problem, starts)
    taken = {put.host for _, start in placement.started() for put in start.tasks}
    hosts: list[list[int]] = [[] for _ in range(len(counts.host_classes))]
    for host in np.flatnonzero(counts.host_classes.of_host >= 0)[::-1].tolist():
        if host not in taken:
            hosts[counts.host_classes.of_host[host]].append(host)
    for kind, cut, times in patterns.in_use(number):
        shapes = np.flatnonzero(cut).tolist()
        free = hosts[kind]
        for _ in range(times):
            if not free or not any(waiting[s] for s in shapes):
                break
            host = free.pop()
            for s in shapes:
                if not counts.problem.shape_hosts[s, host]:
                    continue  # hosts of a class may differ in who may be there by name
                for _ in range(min(int(cut[s]), len(waiting[s]))):
                    if not placement.pools.fits_host(s, host):
                        break
                    c, o = waiting[s].pop()
                    placement.start(c, o, [TaskPlacement(0, host, 1, placement.put(s, host))])
                    starts[c, o] -= 1


def domain_masks(
    counts: AggregateModel, inside: Mapping[int, tuple[int, int]]
) -> dict[int, NDArray[np.bool_]]:
    """Hosts of the domains that groups, by index, are to be in; none where that is anywhere."""
    domain = counts.problem.cluster.domain
    return {k: domain[level] == d for k, (level, d) in inside.items() if level != WHOLE_CLUSTER}


# LP rounding: the relaxation's counts are rounded up and disaggregated, without a search.
#
# For rounds with GPU memory and MIG, where GPUs differ so much that branch and bound takes long to
# find any point. Jobs that do not fit are left to the greedy.


TOLERANCE = 1e-6


def round_relaxation(
    session: Session, model: PricedModel, relaxed: Outcome | None
) -> Placement | None:
    """Return a placement of about what the relaxation starts.

    None if there is no relaxation, and in rounds where tasks ask of GPUs for milli-GPU alone.
    """
    counts, patterns = model
    if counts.problem.part_demands is None or relaxed is None or relaxed.values is None:
        return None
    # Patterns found since the relaxation was solved are not in its point.
    values = np.pad(relaxed.values, (0, counts.model.columns - len(relaxed.values)))
    up = np.ceil(values - TOLERANCE)
    up[counts.y] = np.rint(values[counts.y])
    return disaggregate(counts, patterns, up, session)
