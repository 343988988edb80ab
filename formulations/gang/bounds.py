"""Bounds that are not those of a model: without a solver, by prices, by packing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.freed import evacuation_cost
from placewright.formulations.gang.models.aggregate.host_classes import ResourceGrid
from placewright.formulations.gang.models.aggregate.host_columns import knapsack
from placewright.formulations.gang.models.aggregate.solve import (
    aggregate_models,
    bound_by_relaxation,
)
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.models.link_patterns import DomainKind, GangKind, LinkPatterns
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.gpu_links import GPU_LINKS
from placewright.formulations.gang.problem.jobs import Choice, Group, JobClass, JobPlacement
from placewright.formulations.gang.problem.limits import (
    CLASS_VALUES,
    CONTENTION,
    NO_BUDGET_PRICES,
    OPTION_SUMS,
    PACKED,
    SENSE,
    SHARE_TERMS,
    VALUE,
    BudgetPrices,
    sum_of_smallest,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import (
    STRANDED,
    FreeableDomains,
    TaskMix,
    pinned_loads,
)
from placewright.formulations.plan_messages import Bound
from placewright.formulations.session import Session
from placewright.topology.collectives import uplinks_of
from placewright.topology.units import WHOLE_GPU

# Dual bound: prices of tasks prove a bound on `value` without a linear program.
#
# Whatever prices the tasks of each shape get, a plan is worth no more than what jobs are worth
# above the prices of their tasks, plus the most that hosts can hold at these prices:
#
#     value  <=  sum_c jobs of c * max(0, max_o value(o) - sum_s price[s] tasks of s in o)
#              + sum_h best set of tasks that host h holds, at these prices
#              - value of the running jobs
#
# With a disruption budget, prices of its limits count, too: a running job that stops pays for
# what it uses of them, and all of each limit is paid for. Then of each running job the larger
# counts of its value above prices and minus what it pays, in place of 0, and the limits come on
# top.
#
# This is the Lagrangian dual of the model by host patterns (host_columns.py) without gangs and
# quotas, so the duals of its last relaxation give a bound as tight as that, as long as the round
# changes little.


SCALE = 1 << 10
"""Prices are whole multiples of this part of a unit of value, so that sums are exact."""

MAX_PRICE = 1 << 38

BUDGET_SCALE = 1 << 30
"""Prices of a disruption budget are multiples of this part of a part: a unit of work is small."""


@dataclass(frozen=True, eq=False)
class DualPrices:
    """Prices of a problem's shapes, and the most that its hosts can hold at them."""

    problem: Problem
    price: Ints  # (shapes,): In `SCALE` parts of a unit of value
    # (hosts,): Largest total price on each host, cleared of all that may move; 0 where nothing may
    # arrive
    best_of_host: Ints
    # Price of a unit of each limit of the disruption budget, in `SCALE * BUDGET_SCALE` parts
    budget_price: tuple[int, ...] = (0,) * len(NO_BUDGET_PRICES)

    @classmethod
    def of(
        cls,
        problem: Problem,
        grid: ResourceGrid,
        price: Floats,
        budget_prices: BudgetPrices = NO_BUDGET_PRICES,
    ) -> Self:
        """Take the prices of the first shapes, and price the others at what they displace.

        `price`, (first shapes,), in units of value, and `budget_prices`, of a unit of each limit of
        the disruption budget, may be any numbers, the latter from 0 on.

        Raises `ValueError` if running jobs that may move hold something in the grid: the bound
        would be too low.
        """
        if not np.array_equal(grid.free[:, 0], problem.cleared.whole_free(problem.cluster)):
            raise ValueError("the grid is not one of cleared hosts: prices would prove too much")
        model = problem.host_kind
        of_model = [np.flatnonzero(problem.open & (model == m)) for m in np.unique(model)]
        parts: list[tuple[Ints, Bools]] = [
            (mine, np.any(problem.shape_allowed[:, mine], axis=1)) for mine in of_model if len(mine)
        ]
        top = [grid.free[mine].max(axis=0) for mine, _ in parts]
        known = len(price)
        whole = np.zeros(len(grid.sizes), dtype=np.int64)
        whole[:known] = np.rint(price * SCALE).clip(0, MAX_PRICE).astype(np.int64)
        # Shapes of equal demand and hosts compete: the highest price counts.
        key = np.column_stack([grid.sizes, *(allowed for _, allowed in parts)])
        kind = np.unique(key, axis=0, return_inverse=True)[1].reshape(-1)
        highest = np.full(len(whole), -1, dtype=np.int64)
        np.maximum.at(highest, kind[:known], whole[:known])
        new = np.flatnonzero(highest[kind] < 0)
        whole = highest[kind].clip(min=0)
        if len(new):
            displaced = np.full((len(parts), len(whole)), MAX_PRICE, dtype=np.int64)
            for i, (_, allowed) in enumerate(parts):
                best, _ = knapsack(grid, whole, allowed, top[i])
                fits = new[allowed[new] & (grid.sizes[new] <= top[i]).all(axis=1)]
                displaced[i, fits] = (
                    best[tuple(top[i])] - best[tuple((top[i] - grid.sizes[fits]).T)]
                )
            least = displaced.min(axis=0, initial=MAX_PRICE)[new]
            whole[new] = np.where(least < MAX_PRICE, least, 0)
        most = np.zeros(len(grid.free), dtype=np.int64)
        for i, (mine, allowed) in enumerate(parts):
            best, _ = knapsack(grid, whole, allowed, top[i])
            most[mine] = best[tuple(grid.free[mine].T)]
        paid = (round(max(one, 0.0) * SCALE * BUDGET_SCALE) for one in budget_prices)
        return cls(problem, whole, most, tuple(paid))

    def bound(self) -> float:
        """Return an exact upper bound on the term `value`."""
        problem = self.problem
        total = BUDGET_SCALE * int(self.best_of_host.sum()) + self._limits()
        total += problem.free_gain(VALUE) * SCALE * BUDGET_SCALE
        for c, number in zip(problem.classes, problem.num_competing.tolist(), strict=True):
            margin = BUDGET_SCALE * max(self._margin(choice) for choice in c.choices)
            if not c.running:
                total += number * max(0, margin)
                continue
            total -= number * c.choices[0].value * SCALE * BUDGET_SCALE
            if margin >= 0 or not any(self.budget_price):
                total += number * max(0, margin)
            else:
                competing = (j for j in c.jobs if j not in problem.not_competing)
                total += sum(max(margin, -self._paid(j)) for j in competing)
        return problem.round_certified("value", Fraction(total, SCALE * BUDGET_SCALE))

    def _limits(self) -> int:
        """Return what all limits of the disruption budget cost together."""
        budget = self.problem.budget
        limits = () if budget is None else zip(self.budget_price, budget.limits, strict=True)
        return sum(price * most for price, most in limits if most is not None)

    def _paid(self, job: int) -> int:
        """Return what a running job pays if it is preempted."""
        budget = self.problem.budget
        if budget is None:
            return 0
        used = zip(self.budget_price, budget.used([job], ()), budget.limits, strict=True)
        return sum(price * amount for price, amount, most in used if most is not None)

    def may_pay(self, choice: Choice) -> bool:
        """Whether it may be worth displacing others for an option.

        Its value exceeds the prices of its tasks; or it equals them, if the option needs whole
        hosts together: the GPUs may be free, but scattered.
        """
        margin = self._margin(choice)
        return margin > 0 or (margin == 0 and not choice.is_single_task)

    def _margin(self, choice: Choice) -> int:
        """Return the value of an option above the prices of its tasks, in `SCALE` parts."""
        tasks = sum(g.count * int(self.price[g.shape]) for g in choice.groups)
        return choice.value * SCALE - tasks

    def loss_per_host(self, placement: Placement) -> Floats:
        """Return how much less value each host holds than it could, float64 (hosts,)."""
        held = np.zeros(len(self.best_of_host), dtype=np.int64)
        _, _, host, shape = self.problem.running_tasks.T
        np.add.at(held, host, self.price[shape])
        classes = self.problem.classes

        def add(start: JobPlacement, times: int) -> None:
            groups = classes[start.job_class].choices[start.choice].groups
            for put in start.tasks:
                held[put.host] += times * put.count * int(self.price[groups[put.group].shape])

        for job in placement.displaced_jobs():
            add(self.problem.running_placement_of[job], -1)
        for _, start in placement.changed():
            add(start, 1)
        return (self.best_of_host - held) / SCALE


# A bound on `contention` where all jobs start, by the cutting stock of `models/link_patterns.py`.
#
# If each job has one option, of some value, and the best plan starts them all, so does every plan
# that is no worse in `value`. In each, tasks of one size fill the domains of a level somehow: gangs
# are cut, and domains filled, in ways that are columns of the integer program. What it leaves out
# only costs more: tasks of other sizes, links of other levels, rules on places, CPU and memory.
# Jobs that run and may move would be free not to count, so there is no bound beside them.


def contention_bounds(problem: Problem, session: Session) -> Iterator[Bound]:
    """Yield a bound for each level of links and each size of tasks, if the best plan starts all."""
    best = session.best
    earlier = problem.terms[: problem.terms.index(CONTENTION)]
    if best is None or not _all_start(problem, {term: best[term] for term in earlier}):
        return
    holds = tuple((term, best[term]) for term in earlier)
    most_spread = best["spread"] if "spread" in earlier else None
    links = uplinks_of(problem.cluster)
    for one, load in zip(links, pinned_loads(problem, links), strict=True):
        spare = one.spare_beside(load).tolist()
        for gpu, groups in _groups_by_size(problem).items():
            if session.expired():
                return
            if not any(group.rate_mbps for group in groups):
                continue
            room = np.bincount(one.domain, _places(problem, gpu), minlength=len(spare)).astype(int)
            program = LinkPatterns(
                Counter(_kind(group, one.level) for group in groups.elements()),
                Counter(map(DomainKind, room.tolist(), spare)),
                most_spread,
            )
            outcome = program.solve(session) if program.enumerate_columns() else None
            if outcome is not None and outcome.bound is not None and outcome.bound > 0:
                bound = problem.round_bound(CONTENTION, outcome.bound)
                yield Bound(CONTENTION, bound, holds, certified=False)


def _all_start(problem: Problem, values: Mapping[str, int]) -> bool:
    """Whether plans of such values start every job, each in the same way."""
    if any(c.running or len(c.choices) != 1 for c in problem.classes):
        return False
    counted = [term for term in values if term in (VALUE, *CLASS_VALUES)]
    # A class has one choice, so the amounts are by class.
    worth = np.array([problem.options.amounts(term) for term in counted])
    number = np.array([len(c.jobs) for c in problem.classes])
    return (
        bool((worth > 0).any(axis=0).all())
        and [values[t] for t in counted] == (worth @ number).tolist()
    )


def _groups_by_size(problem: Problem) -> dict[int, Counter[Group]]:
    """Return the groups of all jobs whose tasks take whole GPUs, by the milli-GPU of a task."""
    found: dict[int, Counter[Group]] = {}
    parts = problem.part_demands
    for job_class in problem.classes:
        for group in job_class.choices[0].groups:
            gpu = int(problem.shape_gpu[group.shape])
            if gpu >= WHOLE_GPU and (parts is None or not parts.is_slice[group.shape]):
                found.setdefault(gpu, Counter())[group] += len(job_class.jobs)
    return found


def _places(problem: Problem, gpu: int) -> Ints:
    """Return how many tasks of a size each host has room for when it is empty."""
    shapes = np.flatnonzero(problem.shape_gpu == gpu)
    places: Ints = Placement(problem).whole // (gpu // WHOLE_GPU)
    return places * problem.shape_hosts[shapes].any(axis=0)


def _kind(group: Group, level: int) -> GangKind:
    step = group.milli_gpu * dict(group.weights).get(level, 0)
    return GangKind(group.count, outside=False, rate=group.rate_mbps, step=step)


# A lower bound on `stranded` (fragmentation) without a solver.
#
# Arrivals never increase what is useful to a kind, so on a host where a milli-GPU arrive what is
# stranded for kind k falls by no more than a, nor below zero:
#
#     fall of h   <=   sum_k weight[k] min(a, stranded(k, h))          concave in a
#     stranded    >=   stranded before - max { sum_h fall of h : sum_h a[h] <= all that may arrive }
#
# The maximum takes the steepest pieces first (fractional knapsack). Where running jobs may move,
# "before" is without them, and all of them arrive.


LARGEST = 1 << 62
"""Fragmentation of all kinds together is summed in 64 bits; beyond that the bound is 0."""


def stranded_lower_bound(problem: Problem) -> int:
    """Return a lower bound on `stranded` over all plans."""
    tuning = parameters.PARAMETERS.bounds
    mix = TaskMix.of(problem)
    before = Placement(problem, cleared=True)
    gpus = before.arrivable_milli_gpu()
    model = problem.cluster.gpu_model.astype(np.int64)
    free_milli = before.free_milli_gpu
    if mix.total * max(int(free_milli.sum()), 1 << 9) > LARGEST:
        return 0
    hosts = np.flatnonzero(problem.open & (free_milli > 0))
    entered = np.zeros(problem.cluster.num_hosts, dtype=np.bool_)
    entered |= problem.shape_hosts[problem.shape_gpu > 0].any(axis=0)
    entered[problem.running_tasks[:, 2]] = True
    total, slopes, lengths = 0, [np.zeros(0)], [np.zeros(0)]
    weight = np.append(mix.weight, mix.total - mix.weight.sum())
    for first in range(0, len(hosts), tuning.hosts_per_chunk):
        some = hosts[first : first + tuning.hosts_per_chunk]
        free = free_milli[some]
        useful = mix.useful(before.free[some], gpus[some], model[some])
        stranded = np.column_stack([free[:, None] - useful, free])
        total += int((stranded @ weight).sum())
        stranded = stranded[entered[some]]
        order = np.argsort(stranded, axis=1)
        ascending = np.take_along_axis(stranded, order, axis=1)
        # Beyond what is stranded for a kind, it falls no further.
        behind = np.cumsum(weight[order][:, ::-1], axis=1)[:, ::-1]
        slopes.append(behind.ravel().astype(np.float64))
        lengths.append(np.diff(ascending, axis=1, prepend=0).ravel().astype(np.float64))
    return max(total - _steepest(np.concatenate(slopes), np.concatenate(lengths), problem), 0)


def _steepest(slopes: np.ndarray, lengths: np.ndarray, problem: Problem) -> int:
    """Return the largest fall within the milli-GPU that may arrive."""
    arriving = sum(
        len(c.jobs) * max(problem.demand_of(choice, -1) for choice in c.choices)
        for c in problem.classes
    )
    order = np.argsort(-slopes, kind="stable")
    taken = np.diff(np.minimum(np.cumsum(lengths[order]), arriving), prepend=0.0)
    # Whole numbers up to 2 ** 53, exact as floats: their products are summed as integers.
    return int(taken.astype(np.int64) @ slopes[order].astype(np.int64))


# Upper bound on `freed`: a packing bound, and the cost of moving what the freed domains hold.
#
# All running jobs are packed anew on hosts worth as little as possible. Hosts that every packing
# uses cannot become free, and a freed domain costs at least the moves of what it holds:
#
#     slack  =   worth of hosts that no packing needs  -  worth of the domains free before
#     freed  <=  max sum_d (worth[d] - least cost of emptying d) f[d]
#                sum_d worth[d] f[d]  <=  slack,     0 <= f <= 1


def freed_bounds(problem: Problem, session: Session) -> Iterator[Bound]:
    """Bound `freed` by the count model in which all running jobs are packed anew."""
    freeing = FreeableDomains(problem)
    state = problem.cleared.copy()
    state.busy[:] = problem.pinned_hosts  # as if the other hosts were free
    packing = replace(problem, state=state, cleared=state)
    # What runs is a point of the model as it is now.
    counts, patterns = next(aggregate_models(packing, Placement(problem)))
    _the_highest_run(counts)
    worth = freeing.worth_of_host
    of_host = counts.host_classes.of_host
    idle = np.flatnonzero(counts.host_classes.idle)
    each = np.array([worth[of_host == a].min() for a in idle], dtype=np.float64)
    counts.model.term(PACKED, counts.opened[idle], each, sense="min")
    most = int(worth[~problem.pinned_hosts].sum()) - int(
        freeing.worth_of_domain[~freeing.busy].sum()
    )
    gain = freeing.worth_of_domain - _least_cost(problem, freeing)
    gain[~freeing.freeable] = 0
    for bound in bound_by_relaxation(session, counts, patterns, PACKED):
        budget = most - int(bound.value)
        yield Bound(
            "freed", _knapsack(gain, freeing.worth_of_domain, budget), certified=bound.certified
        )


def _least_cost(problem: Problem, freeing: FreeableDomains) -> Ints:
    """Disruption of emptying each domain at least; a job in several counts in each by its part."""
    cost = np.zeros(len(freeing.worth_of_domain), dtype=np.int64)
    for running in problem.running.values():
        job_class = problem.classes[running.job_class]
        groups = job_class.choices[0].groups
        domains = {int(freeing.domain[host]) for _, _, host, _ in running.places}
        stop = running.migrate_cost
        if not _is_highest(problem, job_class):
            stop = min(stop, running.preempt_cost)
        sizes = problem.resize_costs(running)
        cost[list(domains)] += min([stop, *sizes]) // len(domains)
        if sizes:
            continue  # one that shrinks takes no GPU
        for group, _, host, _ in running.places:
            cost[freeing.domain[host]] += problem.shape_gpu[groups[group].shape]
    return cost


def _knapsack(gain: Ints, worth: Ints, budget: int) -> int:
    """Fractional knapsack: the largest gain of domains whose worth adds up to at most `budget`.

    At any price per unit of worth, the price of `budget` and what domains gain beyond their price
    bound it; the price is that of the first domain that is not there whole.
    """
    useful = np.flatnonzero((gain > 0) & (worth > 0))
    useful = useful[np.argsort(-(gain / np.maximum(worth, 1))[useful], kind="stable")]
    first = int(np.searchsorted(np.cumsum(worth[useful]), budget, side="right"))
    each, size = (gain[useful].astype(object), worth[useful].astype(object))
    if first == len(useful):
        return int(sum(each))
    paid, per = each[first], size[first]
    beyond = sum((each * per - paid * size).clip(min=0))
    return int(-(-(paid * max(budget, 0) + beyond) // per))


def _the_highest_run(counts: AggregateModel) -> None:
    """Let no running job stop that no other outranks: no job can take its place."""
    problem = counts.problem
    stays = np.array([c.running and _is_highest(problem, c) for c in problem.classes], dtype=bool)
    for mine in counts.steps:
        if stays[counts.y_class[mine[0]]]:
            counts.model.row("all run", counts.y[mine], lower=float(counts.y_most[mine[0]]))


def _is_highest(problem: Problem, job_class: JobClass) -> bool:
    """Whether no other job outranks those of a class."""
    rank = problem.shape_rank[job_class.choices[0].groups[0].shape]
    return bool(rank == problem.shape_rank.max(initial=0))


# Trivial bounds, without a solver.
#
# Every pending job with its best option, all free at no cost; no spread, no pair apart, no host
# opened, nothing moved but what the hosts to vacate hold; what arrives takes what is stranded for
# most kinds.


def most_link_mbps(problem: Problem) -> int:
    """Return what all jobs could count in `gpu_links`, each task with the best GPUs of any host."""
    links, total = problem.link_demands, problem.pinned_link_mbps
    if links is None:
        return total
    most = np.array([links.most_mbps(shape) for shape in range(len(links.asked))], dtype=np.int64)
    each = problem.options.sum_over_tasks(most[problem.options.group_shape])
    start = problem.options.class_start.tolist()
    for k, job_class in enumerate(problem.classes):
        if job_class.running:
            total += sum(map(problem.most_link_mbps, job_class.jobs))
        else:
            total += len(job_class.jobs) * int(each[start[k] : start[k + 1]].max())
    return total


def trivial_bounds(problem: Problem) -> Iterator[Bound]:
    """Yield a certified bound of each term."""
    known = {"remaining": problem.pinned_remaining}
    shares = [t.upper_bound for t in problem.shares_with_jobs(problem.num_jobs.tolist())]
    for term in problem.terms:
        if term in OPTION_SUMS:
            each = problem.options.amounts(term).tolist()
            start = problem.options.class_start.tolist()
            known[term] = sum(
                len(c.jobs) * (max(each[start[k] : start[k + 1]]) - each[start[k]] * c.running)
                for k, c in enumerate(problem.classes)
            )
        if term in SHARE_TERMS:
            known[term] = sum_of_smallest(term, shares)
        if term == "freed":
            freeing = FreeableDomains(problem)
            known[term] = int(freeing.worth_of_domain[freeing.freeable].sum())
        if term == GPU_LINKS:
            known[term] = most_link_mbps(problem)
        if term == STRANDED:
            known[term] = stranded_lower_bound(problem)
        if term in known or SENSE[term] == "min":  # none that is minimised is less than 0
            yield Bound(term, known.get(term, 0), certified=True)
    earlier = problem.terms[
        : problem.terms.index("disruption") if "disruption" in problem.terms else 0
    ]
    if "remaining" in earlier:
        emptied = (("remaining", problem.pinned_remaining),)
        yield Bound("disruption", evacuation_cost(problem), emptied, certified=True)
