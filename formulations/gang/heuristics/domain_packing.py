"""Packing by domain: the jobs that counts start, so that GPUs and pools are used up together.

Counts know what the domains of a level have in sums. A search of swaps (domain_swaps.py) finds a
domain for each job, of the innermost level with pools. A job whose tasks may be anywhere is divided
into tasks, which begin in one domain if that can hold them. In a domain the hosts with the fewest
free GPUs come first. Jobs that need several domains at once come before all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang.heuristics.class_packing import StartCounts
from placewright.formulations.gang.heuristics.domain_swaps import NOTHING, DomainSwaps
from placewright.formulations.gang.placement.greedy import place_choice
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Choice, TaskPlacement
from placewright.formulations.gang.problem.pools import taken_by_gang
from placewright.formulations.session import Session


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
