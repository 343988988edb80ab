"""Packing by domain: jobs that take from pools, so that GPUs and pools are used up together.

Each resource, GPUs and pools, has a price: the dual of its row in the linear knapsack of all
waiting jobs over what all domains have together. Jobs that are worth more than what they take come
first, the largest of them at the front, as those fit last; then all others by value per price. Each
goes to the domain, of the innermost level with pools, whose GPUs and pools are then left in the
most equal shares of what domains have on average. (Panigrahy, Talwar, Uyeda and Wieder compare such
rules in Heuristics for Vector Bin Packing, 2011.) In a domain the hosts with the fewest free GPUs
come first. Jobs that fit no domain are divided into their tasks, if those may be in several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.class_packing import StartCounts
from placewright.formulations.gang.heuristics.domain_swaps import NOTHING, DomainSwaps
from placewright.formulations.gang.placement.greedy import place_choice
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Choice, TaskPlacement
from placewright.formulations.gang.problem.pools import taken_by_gang
from placewright.formulations.gang.problem.terms import OPTION_SUMS, VALUE
from placewright.formulations.session import Session
from placewright.solver import Model

Floats = NDArray[np.float64]

TOLERANCE = 1e-6


def pack_domains(placement: Placement, session: Session, starts: StartCounts) -> bool:
    """Start waiting jobs by domain, as far as they fit; return whether a pool is scarce.

    `starts` come first. Nothing starts if no pool is scarce: then where jobs are matters no more
    than without pools.
    """
    if not placement.pools.pools or not any(placement.waiting):
        return False
    return _Packing(placement).pack(session, starts)


class _Counted(NamedTuple):
    """A job that counts start; `demand` is what it takes of a domain that holds all of it."""

    job_class: int
    option: int
    choice: Choice
    demand: Ints
    divisible: bool
    shapes: tuple[int, ...]


class _Packing:
    """Options that wait, and what the domains have left of GPUs and pools.

    Attributes
    ----------
    left : int64 (domains, 1 + pools)
        Milli-GPU, and what pools have around each domain.
    """

    def __init__(self, placement: Placement) -> None:
        self.placement, problem = placement, placement.problem
        cluster, pools = problem.cluster, placement.pools.pools
        self.level = max(pool.level for pool in pools)
        self.domain = cluster.domain[self.level]
        order = np.argsort(self.domain, kind="stable")
        size = len(cluster.names[self.level])
        self.hosts = np.split(order, np.searchsorted(self.domain[order], np.arange(1, size)))
        host = np.zeros(size, dtype=np.int64)
        host[self.domain] = np.arange(cluster.num_hosts)
        # The domain of each pool that is around each of these domains.
        self.around = [pool.domain[host] for pool in pools]
        self.left = np.zeros((size, 1 + len(pools)), dtype=np.int64)
        np.add.at(self.left[:, 0], self.domain, np.where(problem.open, placement.free_milli_gpu, 0))
        self._look_up_pools()
        some = self.left[np.unique(self.domain)]
        self.unit = np.maximum(np.maximum(some, 0).mean(axis=0), 1.0)
        self.widest = some.max(axis=0, initial=0)

    def _look_up_pools(self) -> None:
        for k, left in enumerate(self.placement.pools.left):
            self.left[:, 1 + k] = left[self.around[k]]

    def pack(self, session: Session, starts: StartCounts) -> bool:
        """Start counted jobs, then others by value per price; return whether a pool has a price."""
        problem, options = self.placement.problem, self.placement.problem.options
        waiting = np.array(self.placement.waiting, dtype=np.int64)[options.job_class]
        mine = np.flatnonzero(waiting)
        choices = [
            problem.classes[c].choices[o]
            for c, o in zip(
                options.job_class[mine].tolist(), options.choice[mine].tolist(), strict=True
            )
        ]
        demand = np.array([self._demand(choice) for choice in choices], dtype=np.int64)
        first = problem.weighted_terms[0]
        worth = options.amounts(first if first in OPTION_SUMS else VALUE)[mine].astype(np.float64)
        price = prices(session, worth, demand / self.unit, waiting[mine], self._has())
        if price is None or not price[1:].any():
            return False
        cost = (demand / self.unit) @ price
        density = worth / np.maximum(cost, 1e-9)
        size = (demand / self.unit).sum(axis=1)
        self._start_counted(session, starts)
        # What is worth its price comes in any case: so the largest first, which fit last.
        worth_it = density > 1 + TOLERANCE
        later = np.where(worth_it, np.inf, density)
        for k in np.lexsort((-density, -size, -later)).tolist():
            self._start_all(int(options.job_class[mine[k]]), choices[k], demand[k])
        return True

    def _start_counted(self, session: Session, starts: StartCounts) -> None:
        """Start the jobs of counts where a search finds room for all of them, or for most."""
        jobs = self._counted(starts)
        if not jobs:
            return
        # An item is a task if tasks may be in several domains, else a job.
        items = [max(job.choice.num_tasks if job.divisible else 1, 1) for job in jobs]
        each = np.array(
            [job.demand // n for job, n in zip(jobs, items, strict=True)], dtype=np.int64
        )
        of_job = np.repeat(np.arange(len(jobs)), items)
        kinds = sorted({job.shapes for job in jobs})
        allowed = np.stack([self._allowed(shapes) for shapes in kinds])
        kind = np.array([kinds.index(job.shapes) for job in jobs])[of_job]
        around = [np.arange(len(self.left)), *self.around]
        left = [self.left[:, 0], *self.placement.pools.left]
        swaps = DomainSwaps(each[of_job], kind, allowed, around, left, self.unit)
        ends = np.cumsum(items)
        together: list[Ints] = []
        for job, n, end in zip(jobs, items, ends.tolist(), strict=True):
            mine = np.arange(end - n, end)
            whole = n == 1 or bool((job.demand <= self.widest).all())
            together += [mine] if whole else np.split(mine, n)
        swaps.deal(together)
        swaps.search(session)
        places = np.split(swaps.domain, ends[:-1])
        last = self._least_loss(jobs, places, swaps.lacks())
        size = (each / self.unit).sum(axis=1)
        for k in np.lexsort((-size, last)).tolist():
            self._start_at(jobs[k], places[k])
        self._look_up_pools()

    def _counted(self, starts: StartCounts) -> list[_Counted]:
        """Return the jobs that are to start and fit one domain, or may be divided."""
        jobs = list[_Counted]()
        for (c, o), number in starts.items():
            choice = self.placement.problem.classes[c].choices[o]
            demand = np.array(self._demand(choice), dtype=np.int64)
            divisible = self._is_divisible(choice)
            if divisible or (demand <= self.widest).all():
                shapes = tuple(sorted({group.shape for group in choice.groups}))
                jobs += [_Counted(c, o, choice, demand, divisible, shapes)] * number
        return jobs

    def _allowed(self, shapes: tuple[int, ...]) -> NDArray[np.bool_]:
        """Return the domains with hosts for tasks of each of these shapes, bool (domains,)."""
        may: NDArray[np.bool_] = np.ones(len(self.left), dtype=np.bool_)
        for shape in shapes:
            some: NDArray[np.bool_] = np.zeros(len(self.left), dtype=np.bool_)
            some[self.domain[self.placement.problem.shape_hosts[shape]]] = True
            may &= some
        return may

    def _least_loss(
        self, jobs: Sequence[_Counted], places: Sequence[Ints], lacks: Ints
    ) -> NDArray[np.bool_]:
        """Return which jobs come last: the least value that leaves no domain with an excess."""
        last: NDArray[np.bool_] = np.zeros(len(jobs), dtype=np.bool_)
        for d in np.flatnonzero(lacks.any(axis=1)).tolist():
            here = [k for k, place in enumerate(places) if (place == d).any()]
            enough = [k for k in here if (jobs[k].demand >= lacks[d]).all()]
            if not last[here].any() and enough:
                last[min(enough, key=lambda k: jobs[k].choice.value)] = True
        return last

    def _start_at(self, job: _Counted, domains: Ints) -> None:
        """Start a job with a task in each of these domains, if it fits there."""
        placement, puts = self.placement, list[TaskPlacement]()
        accounts = placement.problem.classes[job.job_class].accounts
        if domains[0] == NOTHING or placement.quota_excess(accounts, job.choice):
            return
        if not job.divisible:
            one = self._place(job.choice, self.hosts[int(domains[0])])
            if one is None:
                return
            puts = one
        else:
            shape = job.choice.groups[0].shape
            for d, number in zip(*np.unique(domains, return_counts=True), strict=True):
                some = self._best_fit(shape, int(number), self.hosts[int(d)])
                if some is None:
                    for put in puts:
                        placement.lift(shape, put)
                    return
                puts += some
        placement.start(job.job_class, job.option, puts)
        np.subtract.at(self.left[:, 0], domains, job.demand[0] // len(domains))

    def _has(self) -> Floats:
        """Return what all domains have together, in units of a domain's mean."""
        pools = [np.maximum(left, 0).sum() for left in self.placement.pools.left]
        has: Floats = np.array([self.left[:, 0].sum(), *pools]) / self.unit
        return has

    def _demand(self, choice: Choice) -> list[int]:
        """Return what a job takes of the domain that holds it, as `left` has it."""
        pools = self.placement.pools.pools
        taken = [sum(taken_by_gang(pool, group) for group in choice.groups) for pool in pools]
        return [sum(group.milli_gpu for group in choice.groups), *taken]

    def _start_all(self, c: int, choice: Choice, demand: Ints) -> None:
        """Start the waiting jobs of a class with an option, as far as they fit."""
        placement, accounts = self.placement, self.placement.problem.classes[c].accounts
        o = placement.problem.classes[c].choices.index(choice)
        whole, divisible = bool((demand <= self.widest).all()), self._is_divisible(choice)
        while placement.waiting[c] and not placement.quota_excess(accounts, choice):
            puts = self._whole(choice, demand) if whole else None
            if puts is None and divisible:
                whole, puts = False, self._divided(choice, demand)
            if puts is None:
                return
            placement.start(c, o, puts)
            self._look_up_pools()

    def _is_divisible(self, choice: Choice) -> bool:
        """Whether the tasks of a job may be in several domains, wherever those are."""
        alone = len(choice.groups) == 1 and not choice.is_tied and not choice.uses
        return alone and choice.groups[0].required == NO_LEVEL

    def _whole(self, choice: Choice, demand: Ints) -> list[TaskPlacement] | None:
        """Place a job in one domain; None if it fits none of the best."""
        for d in self._best(demand):
            puts = self._place(choice, self.hosts[d])
            if puts is not None:
                self.left[d, 0] -= demand[0]
                return puts
        return None

    def _divided(self, choice: Choice, demand: Ints) -> list[TaskPlacement] | None:
        """Place a job task by task; None if it does not fit."""
        group, puts = choice.groups[0], list[TaskPlacement]()
        each = demand // group.count
        for _ in range(group.count):
            for d in self._best(each):
                one = self._best_fit(group.shape, 1, self.hosts[d])
                if one is not None:
                    puts += one
                    self._charge(d, each, 1)
                    break
            else:
                for put in puts:
                    self.placement.lift(group.shape, put)
                    self._charge(int(self.domain[put.host]), each, -1)
                return None
        return puts

    def _charge(self, d: int, demand: Ints, times: int) -> None:
        self.left[d, 0] -= times * demand[0]
        self._look_up_pools()

    def _best(self, demand: Ints) -> list[int]:
        """Return the best domains with room for a demand."""
        fits = np.flatnonzero((self.left >= demand).all(axis=1))
        rest = (self.left[fits] - demand) / self.unit
        order = np.lexsort((rest.sum(axis=1), rest.max(axis=1) - rest.min(axis=1)))
        most = parameters.PARAMETERS.packing.max_domains
        best: list[int] = fits[order[:most]].tolist()
        return best

    def _place(self, choice: Choice, hosts: Ints) -> list[TaskPlacement] | None:
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


def prices(
    session: Session, worth: Floats, demand: Floats, number: Ints, has: Floats
) -> Floats | None:
    """Return the duals of the knapsack of all jobs over some resources; None without time.

    Parameters
    ----------
    worth : float64 (options,)
    demand : float64 (options, resources)
    number : int64 (options,)
        How many jobs there are with each.
    has : float64 (resources,)
    """
    model = Model()
    y = model.variables("y", len(worth), upper=number)
    model.term(VALUE, y, worth, sense="max")
    rows = model.rows("has", len(has), upper=has)
    for r, row in enumerate(rows.tolist()):
        some = np.flatnonzero(demand[:, r])
        model.add([row] * len(some), y[some], demand[some, r])
    outcome = session.optimise(model.arrays(VALUE, relax=True))
    if outcome is None or outcome.row_duals is None:
        return None
    return np.abs(outcome.row_duals)
