"""Displacement: pending jobs start where stopping running jobs costs least."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.disaggregation import (
    StartCounts,
    domain_masks,
    gangs_of,
    single_jobs,
)
from placewright.formulations.gang.heuristics.displacement import (
    NO_QUOTA,
    NO_QUOTA_PRICES,
    DisplacementCost,
    Quota,
    QuotaPrices,
    keep_within_quotas,
    net_value,
)
from placewright.formulations.gang.heuristics.gang_insertion import insert_gangs
from placewright.formulations.gang.heuristics.search import close_enough
from placewright.formulations.gang.models.aggregate.accounts import budget_prices
from placewright.formulations.gang.models.aggregate.host_columns import HostPatterns
from placewright.formulations.gang.models.aggregate.variables import AggregateModel
from placewright.formulations.gang.placement.disruption_budget import (
    disruption_of,
    repair_disruptions,
)
from placewright.formulations.gang.placement.gang_tree import (
    ChooseHosts,
    cheapest_hosts,
    cheapest_hosts_of_tree,
    compact_hosts,
)
from placewright.formulations.gang.placement.greedy import fill_by_policy, greedy_order
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import (
    NO_LABEL,
    NO_LEVEL,
    Choice,
    Group,
    TaskPlacement,
)
from placewright.formulations.gang.problem.limits import (
    NO_BUDGET_PRICES,
    NOTHING,
    BudgetPrices,
    DisruptionBudget,
    QuotaKey,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.session import Session

# Preemptive insertion: tasks arrive on hosts in use, where the cheapest victims stop for them.


class PreemptiveInsertion:
    """Preemptive insertion on hosts in use.

    Parameters
    ----------
    cost
        What victims cost on each host of its placement.
    starts
        Counts the waiting jobs to start per (class, choice).
    choose_hosts
        Chooses the hosts of gangs.
    prices
        What a unit of each quota or cap is worth.
    """

    def __init__(
        self,
        cost: DisplacementCost,
        starts: StartCounts,
        choose_hosts: ChooseHosts,
        prices: QuotaPrices = NO_QUOTA_PRICES,
    ) -> None:
        self.cost, self.placement, self.starts = cost, cost.placement, starts
        self.problem = self.placement.problem
        self.choose_hosts, self.prices = choose_hosts, prices
        self.quota = self.placement.quota_left()

    def insert_gang(self, c: int, o: int, within: NDArray[np.bool_] | None) -> bool:
        """Start a gang of one group on hosts of least displacement cost, if that gains value."""
        choice = self.problem.classes[c].choices[o]
        placed = len(choice.groups) == 1 and self._try_gang(c, o, choice, within)
        self.starts[c, o] -= placed
        return placed

    def _try_gang(self, c: int, o: int, choice: Choice, within: NDArray[np.bool_] | None) -> bool:
        group = choice.groups[0]
        accounts = self.problem.classes[c].accounts
        may = bool(self.prices) or self.problem.within_quota(self.quota, accounts, choice)
        quota = NO_QUOTA if may else self._quota_use(accounts, group.shape)
        loss, each = self.cost.of_count(group.shape, group.count, quota)
        if within is not None:
            loss = np.where(within, loss, np.inf)
        if choice.label != NO_LABEL:
            loss = np.where(self.placement.open_to(choice.label), loss, np.inf)
        if choice.uses:
            open_ = self.placement.pools.open_to(choice, len(loss))
            loss = np.where(open_, loss, np.inf)
        worth = self._net_value(c, o)
        for _ in range(parameters.PARAMETERS.insertion.max_hosts_short_of_pools):
            chosen = self._chosen(group, loss, each)
            if not chosen or worth <= sum(loss[h] for h, _ in chosen):
                return False
            asked = [self._asked(group.shape, *place, quota) for place in chosen]
            short = self.cost.beyond_pools(asked)
            if short is None:
                break
            loss = np.where(np.arange(len(loss)) == short, np.inf, loss)
        else:
            return False
        if not self.cost.within_budget(asked):
            return False
        tasks = []
        for host, count in chosen:
            self._release_quota(self.cost.preempt_for_count(host, group.shape, count, quota))
            tasks.append(
                TaskPlacement(0, host, count, self.placement.put(group.shape, host, count))
            )
        self._start(c, o, tasks)
        return True

    def _chosen(self, group: Group, loss: NDArray[np.float64], each: Ints) -> list[tuple[int, int]]:
        """Return hosts of a group, with the tasks on each; [] if it does not fit."""
        if group.is_arranged:
            return cheapest_hosts_of_tree(self.problem.cluster, group, loss, each)
        if group.required != NO_LEVEL:
            loss = self._cheapest_domain(group, loss, each)
        return self.choose_hosts(self.problem.cluster, group, loss, each)

    def _asked(self, shape: int, host: int, count: int, quota: Quota) -> tuple[int, Ints, Quota]:
        """Return a host, tasks of a shape as (shapes,), and what these must free of quotas."""
        wanted = np.zeros(len(self.problem.shape_gpu), dtype=np.int64)
        wanted[shape] = count
        return host, wanted, {key: count * amount for key, amount in quota.items()}

    def _start(self, c: int, o: int, tasks: list[TaskPlacement]) -> None:
        self.placement.start(c, o, tasks)
        started = self.problem.classes[c]
        self.problem.charge_quota(self.quota, started.accounts, started.choices[o])

    def _quota_use(self, accounts: tuple[int, ...], shape: int) -> Quota:
        """Return what one task takes of the quotas and caps of its job."""
        keys = self.problem.quota_keys.get(accounts, ())
        return {key: self.problem.task_amount(shape, key[1]) for key in keys}

    def _release_quota(self, jobs: list[int]) -> None:
        """Give back what stopped jobs took of quotas and caps."""
        for job in jobs if self.quota else ():
            stopped = self.problem.classes[self.problem.running[job].job_class]
            self.problem.charge_quota(self.quota, stopped.accounts, stopped.choices[0], -1)

    def _cheapest_domain(
        self, group: Group, loss: NDArray[np.float64], each: Ints
    ) -> NDArray[np.float64]:
        """Return the loss (hosts,), inf outside the cheapest domain of the required level."""
        domain = self.problem.cluster.domain[group.required]
        hosts = np.flatnonzero(np.isfinite(loss) & (each > 0))
        hosts = hosts[np.lexsort((loss[hosts], domain[hosts]))]
        best, least = -1, np.inf
        for part in np.split(hosts, np.flatnonzero(np.diff(domain[hosts])) + 1):
            needed = int(np.searchsorted(np.cumsum(each[part]), group.count)) + 1
            if needed <= len(part) and (cost := float(loss[part[:needed]].sum())) < least:
                best, least = int(domain[part[0]]), cost
        return np.where(domain == best, loss, np.inf)

    def insert_columns(
        self, session: Session, counts: AggregateModel, patterns: HostPatterns, number: Ints
    ) -> None:
        """Insert patterns of one-task jobs, the fullest first, on the hosts of least cost."""
        if not len(counts.host_classes):
            return
        waiting = self._waiting_by_shape()
        of_host = counts.host_classes.of_host
        same_hosts = np.where(of_host >= 0, patterns.same_key[of_host], -1)
        for kind, cut, times in patterns.in_use(number):
            while times and not session.expired():
                wanted = np.minimum(cut, [len(w) for w in waiting])
                wanted[self.problem.shape_rank == 0] = 0
                if not wanted.any():
                    break
                # As many hosts as all these tasks can fill.
                some = np.flatnonzero(wanted)
                most = min(times, *(len(waiting[s]) // int(wanted[s]) for s in some.tolist()))
                loss = np.where(
                    same_hosts == patterns.same_key[kind],
                    self.cost.of(wanted),
                    np.inf,
                )
                for host in _cheapest_hosts(loss, most):
                    self._insert_on_host(host, wanted, waiting)
                    times -= 1
                    most -= 1
                if most:
                    break

    def insert_remaining(self) -> None:
        """Insert one-task jobs that no pattern took, in the order of value per GPU."""
        waiting = self._waiting_by_shape()
        worth = {
            s: max(self._net_value(c, o) for c, o in jobs)
            for s, jobs in enumerate(waiting)
            if jobs and self.problem.shape_rank[s]
        }
        for s in sorted(worth, key=lambda s: -worth[s] / max(int(self.problem.shape_gpu[s]), 1)):
            wanted = np.zeros(len(waiting), dtype=np.int64)
            wanted[s] = 1
            loss = self.cost.of(wanted)
            for host in _cheapest_hosts(loss, self._most(len(waiting[s]))):
                if loss[host] >= worth[s] or not waiting[s]:
                    break
                self._insert_on_host(host, wanted, waiting)

    def insert_singles(self, c: int, o: int) -> None:
        """Insert one-task jobs of a class; beyond a quota or cap they displace others in it."""
        job_class = self.problem.classes[c]
        choice, shape = job_class.choices[o], job_class.choices[o].groups[0].shape
        wanted = np.zeros(len(self.problem.shape_gpu), dtype=np.int64)
        wanted[shape] = 1
        used = self._quota_use(job_class.accounts, shape)
        for quota in (NO_QUOTA, used):
            loss = self.cost.of(wanted, quota)
            for host in _cheapest_hosts(loss, self._most(self.starts[c, o])):
                if loss[host] >= choice.value or not self.starts[c, o]:
                    break
                may = self.problem.within_quota(self.quota, job_class.accounts, choice)
                if not quota and not may:
                    break
                asked = [(host, wanted, quota)]
                if not self.cost.within_budget(asked) or self.cost.beyond_pools(asked) is not None:
                    continue
                self._release_quota(self.cost.preempt_for(host, wanted, quota))
                self._start(c, o, [TaskPlacement(0, host, 1, self.placement.put(shape, host))])
                self.starts[c, o] -= 1
            if not used:
                break

    def _most(self, starts: int) -> int:
        """Return how many hosts so many starts may look at: in pools some find too little."""
        return len(self.placement.whole) if self.problem.pools else starts

    def _net_value(self, c: int, o: int) -> float:
        job_class = self.problem.classes[c]
        return net_value(self.problem, job_class, job_class.choices[o], self.prices)

    def _waiting_by_shape(self) -> list[list[tuple[int, int]]]:
        """(class, choice) of the one-task jobs still to start, by shape, least valuable first."""
        by_shape = single_jobs(self.problem, self.starts)
        waiting = [by_shape[s] for s in range(len(self.problem.shape_gpu))]
        for jobs in waiting:
            jobs.sort(key=lambda job: self._net_value(*job))
        return waiting

    def _insert_on_host(
        self, host: int, wanted: Ints, waiting: list[list[tuple[int, int]]]
    ) -> None:
        asked = [(host, wanted, NO_QUOTA)]
        if not self.cost.within_budget(asked) or self.cost.beyond_pools(asked) is not None:
            return
        self._release_quota(self.cost.preempt_for(host, wanted))
        for s in np.flatnonzero(wanted).tolist():
            for _ in range(int(wanted[s])):
                c, o = waiting[s].pop()
                self._start(c, o, [TaskPlacement(0, host, 1, self.placement.put(s, host))])
                self.starts[c, o] -= 1


def _cheapest_hosts(loss: NDArray[np.float64], most: int) -> Iterator[int]:
    """Yield at most `most` hosts of finite loss, the least first."""
    order = np.argsort(loss, kind="stable")[:most]
    yield from order[np.isfinite(loss[order])].tolist()


# `displace_by_counts` disaggregates the counts of an aggregate model: gangs go first, into the
# domains that the counts chose, then each pattern of one-task jobs goes to the hosts of least
# displacement cost. `displace_greedily` inserts jobs in the order of value per GPU without a
# model. The displacement cost of a host is that of its cheapest victim set: value first, then
# what stopping costs (`displacement.py`). In the end the greedy places stopped and pending
# jobs that fit.


def displace_by_counts(
    session: Session,
    counts: AggregateModel,
    patterns: HostPatterns,
    values: NDArray[np.float64],
    prices: QuotaPrices = NO_QUOTA_PRICES,
    budget_prices: BudgetPrices = NO_BUDGET_PRICES,
) -> Placement:
    """Return a placement that starts the integer counts `values`, maybe beyond quotas.

    Jobs that find no time are left to the greedy. `prices` are what a unit of a quota is worth,
    `budget_prices` of the disruption budget.
    """
    number = np.rint(values).astype(np.int64)
    starts = counted_starts(counts, values)
    cost = DisplacementCost(Placement(counts.problem), prices, budget_prices)
    insertion = PreemptiveInsertion(cost, starts, compact_hosts, prices)
    for c, o, inside in gangs_of(counts, number, starts):
        if session.expired():
            break
        insertion.insert_gang(c, o, domain_masks(counts, inside).get(0))
    insertion.insert_columns(session, counts, patterns, number)
    if not session.expired():
        insertion.insert_remaining()
    return insertion.placement


def counted_starts(counts: AggregateModel, values: NDArray[np.float64]) -> StartCounts:
    """Return how many pending jobs of each class and choice the integer counts `values` start."""
    number = np.rint(values).astype(np.int64)
    starts: StartCounts = defaultdict(int)
    for c, o, n in zip(counts.y_class, counts.y_choice, number[counts.y], strict=True):
        if n and not counts.problem.classes[c].running:
            starts[int(c), int(o)] += int(n)
    return starts


def displace_greedily(
    placement: Placement,
    budget_prices: BudgetPrices = NO_BUDGET_PRICES,
    *,
    beyond_budget: bool = False,
) -> None:
    """Start waiting jobs where their displacement cost is below their value, then run the greedy.

    Jobs start in the order of their value per GPU.

    Parameters
    ----------
    budget_prices
        What a unit of each limit of the disruption budget is worth.
    beyond_budget
        Whether victims may exceed the disruption budget.
    """
    cost = DisplacementCost(placement, budget_prices=budget_prices, beyond_budget=beyond_budget)
    insertion = PreemptiveInsertion(cost, defaultdict(int), cheapest_hosts)
    before = placement.value
    for _ in range(parameters.PARAMETERS.insertion.max_displacement_passes):
        _displacement_pass(placement, insertion)
        if placement.value <= before:
            break
        before = placement.value
        insertion.cost.refresh()
    fill_by_policy(placement)


def _displacement_pass(placement: Placement, insertion: PreemptiveInsertion) -> None:
    """Insert waiting jobs; on each host tasks arrive at most once."""
    problem = placement.problem
    for c, o in greedy_order(problem):
        choice, waiting = problem.classes[c].choices[o], placement.waiting[c]
        if not waiting or not problem.shape_rank[choice.groups[0].shape]:
            continue
        insertion.starts[c, o] = waiting
        if choice.is_single_task:
            insertion.insert_singles(c, o)
        else:
            while insertion.starts[c, o] and insertion.insert_gang(c, o, None):
                pass
        insertion.starts[c, o] = 0


# Prices of quotas: those of which the victims belong to tenants that need their quota back.
#
# A program over counts keeps within all quotas, but it does not say where jobs are. So the jobs
# that stop on the hosts of least displacement cost may be those of other tenants than it counts
# on. The displacement is repeated at higher prices of quotas that it exceeds, and lower ones of
# those of which it leaves some: a subgradient step from the duals of the relaxation (Held and
# Karp 1971). At a higher price the jobs of a tenant cost less to stop.


def displace_within_quotas(
    session: Session,
    counts: AggregateModel,
    patterns: HostPatterns,
    values: NDArray[np.float64],
    duals: Floats | None,
) -> Placement:
    """Return the best placement that starts what it can of the integer counts `values`.

    `duals` are those of the rows of the relaxation.
    """
    tuning = parameters.PARAMETERS.insertion
    problem, until = counts.problem, session.part(tuning.quota_price_share)
    prices, worth = _dual_prices(counts, duals), _worth_of_running(problem)
    of_budget = budget_prices(counts, duals)
    tried: list[Placement] = []
    while len(tried) < tuning.max_quota_price_steps:
        found = displace_by_counts(session, counts, patterns, values, prices, of_budget)
        excess = {
            key: -left / max(problem.quota[key], 1) for key, left in found.quota_left().items()
        }
        if problem.quota:
            keep_within_quotas(session, found)
        fill_by_policy(found)
        tried.append(found)
        within = max(excess.values(), default=0.0) <= 0
        if within or close_enough(problem, session, found) or until.expired():
            break
        for key, part in excess.items():
            prices[key] = max(0.0, prices.get(key, 0.0) + worth.get(key, 0.0) * part)
    return max(tried, key=lambda placement: placement.value)


def _dual_prices(counts: AggregateModel, duals: Floats | None) -> dict[QuotaKey, float]:
    """Return the dual prices of the rows of quotas and caps."""
    if duals is None:
        return {}
    dual = duals[counts.quota_row].clip(min=0.0).tolist()
    return {key: each for key, each in zip(counts.problem.quota, dual, strict=True) if each}


def _worth_of_running(problem: Problem) -> dict[QuotaKey, float]:
    """Return what running jobs are worth per unit that they hold of each quota or cap."""
    value: defaultdict[QuotaKey, int] = defaultdict(int)
    held: defaultdict[QuotaKey, int] = defaultdict(int)
    for job_class in problem.classes:
        choice = job_class.choices[0]
        for key in problem.quota_keys.get(job_class.accounts, ()) if job_class.running else ():
            value[key] += len(job_class.jobs) * choice.value
            held[key] += len(job_class.jobs) * problem.demand_of(choice, key[1])
    return {key: value[key] / held[key] for key in held if held[key]}


# Displacement by the scarce limit of a disruption budget: a Lagrangian search for its price.
#
# The limit that displacement would exceed most gets a price per unit, which victims cost on top of
# their value (`moves.py`): where work lost is scarce those stop that lose little. While the
# limit is used up at a price, it is raised, and lowered otherwise; each time, what is left of the
# budget then serves displacement without a price. The best placement of all is returned, among them
# the one without prices, and the one beyond the budget once it is repaired.


def displaced(problem: Problem, session: Session) -> Placement:
    """Return a placement after greedy displacement; unlawful preemptions are undone."""
    best = _displaced(problem, NO_BUDGET_PRICES)
    if problem.budget is None:
        return best
    beyond = Placement(problem)
    displace_greedily(beyond, beyond_budget=True)
    scarce = _scarce_limit(problem.budget, beyond)
    repair_disruptions(beyond)
    if scarce < 0 or session.expired():
        return max(best, beyond, key=lambda placement: placement.value)
    found = _priced(problem, session, problem.budget, scarce, best)
    return max(best, beyond, found, key=lambda placement: placement.value)


def displaced_at(problem: Problem, prices: BudgetPrices) -> Placement:
    """Return a placement after greedy displacement at some prices, then without any."""
    placement = Placement(problem)
    displace_greedily(placement, prices)
    displace_greedily(placement)
    repair_disruptions(placement)
    return placement


def _displaced(problem: Problem, prices: BudgetPrices) -> Placement:
    placement = Placement(problem)
    displace_greedily(placement, prices)
    repair_disruptions(placement)
    return placement


def _scarce_limit(budget: DisruptionBudget, beyond: Placement) -> int:
    """Return the limit that a placement exceeds by most, relative to it; -1 if it exceeds none.

    Limits of 0 need no price, and displacement does not choose who migrates.
    """
    used = disruption_of(beyond, budget)
    over = [
        0.0 if not most or name == "migrated_jobs" else has / most
        for has, most, name in zip(used, budget.limits, NOTHING._fields, strict=True)
    ]
    scarce = max(range(len(over)), key=over.__getitem__)
    return scarce if over[scarce] > 1 else -1


def _priced(
    problem: Problem, session: Session, budget: DisruptionBudget, scarce: int, best: Placement
) -> Placement:
    """Return the best placement of a search for the price of a limit."""
    tuning = parameters.PARAMETERS.insertion
    greedy = Placement(problem)
    fill_by_policy(greedy)
    most = budget.limits[scarce] or 1
    price = max(best.value - greedy.value, 1) / most
    factor, raised = tuning.budget_price_factor, True
    for _ in range(tuning.max_budget_price_steps):
        if session.expired():
            break
        prices = tuple(price if k == scarce else 0.0 for k in range(len(NOTHING)))
        placement = Placement(problem)
        displace_greedily(placement, prices)
        full = disruption_of(placement, budget)[scarce] >= tuning.used_up_share * most
        displace_greedily(placement)
        repair_disruptions(placement)
        best = max(best, placement, key=lambda one: one.value)
        if full != raised:
            factor, raised = sqrt(factor), full
        price = price * factor if full else price / factor
    return best


# Precedence decomposition without a solver, for rounds that are parts of a larger decision.


def plan_without_solver(problem: Problem, session: Session) -> Placement:
    """Return a placement by greedy, gang insertion and displacement.

    If jobs of higher precedence do not all fit, ranks are decided one after the other.
    """
    placement = Placement(problem)
    fill_by_policy(placement)
    if not _any_waiting(placement, rank=1):
        insert_gangs(session, placement)
        return placement
    placement = Placement(problem)
    for rank in range(int(problem.shape_rank.max(initial=0)), -1, -1):
        with placement.only_from_rank(rank):
            _start_by_displacing(session, placement)
    return placement


def _start_by_displacing(session: Session, placement: Placement) -> None:
    """Start waiting jobs, if need be by moving or displacing others that are worth less."""
    fill_by_policy(placement)
    if not _any_waiting(placement):
        return
    insert_gangs(session, placement)
    before = placement.value
    displace_greedily(placement)
    repair_disruptions(placement)
    if placement.value > before:
        insert_gangs(session, placement)
        repair_disruptions(placement)


def _any_waiting(placement: Placement, rank: int = 0) -> bool:
    """Whether some pending job of at least this rank waits."""
    problem = placement.problem
    return any(
        n and not c.running and problem.shape_rank[c.choices[0].groups[0].shape] >= rank
        for c, n in zip(problem.classes, placement.waiting, strict=True)
    )
