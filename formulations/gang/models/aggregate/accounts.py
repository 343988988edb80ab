"""Rows of the aggregate model: accounts with their cuts, the disruption budget, failure domains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby
from typing import NamedTuple

import numpy as np

from placewright.array_types import Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.aggregate.variables import AccountRow, AggregateModel
from placewright.formulations.gang.problem.jobs import DomainLimit, Group, JobClass
from placewright.formulations.gang.problem.limits import (
    NO_BUDGET_PRICES,
    NOTHING,
    BudgetPrices,
    Disruption,
    DisruptionBudget,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.solver import Arrays, Outcome
from placewright.topology.units import WHOLE_GPU

# Accounts of the aggregate model: quotas, caps and pools, and precedence within them.
#
#     quota        sum d[c] y[c]                               <= left[a]     classes c of account a
#     precedence   sum_{running c: level >= k} min d[c] jobs of c
#                  + sum_{running c: level < k} d[c] y[c]
#                  + sum_{pending o: rank <= k} d[o] y[o]      <= left[a]     for each level k
#
# with left[a] what jobs of the account hold that are not pinned, or what its limit leaves for them
# if that is more, and d > 0 what a job takes. Of those that precede it nobody makes room for a job.
#
# Every plan satisfies the rows of precedence. Let k' be the lowest level from k on of a victim of
# the account. It may be preempted only if nothing breaks with all victims from k' on back and all
# starts of a rank above k' taken away (docs/plans.md, who may be preempted). As nobody of the
# account stops at a level from k to k' - 1, all that ran from level k on then counts in the
# account, beside who is left below k and all starts of a rank up to k'. Who has moved holds what
# it held, who has resized what one of its options asks. If no victim is of a level from k on, all
# of these run, and the row follows from `quota`. It needs no rows of other levels: with the next
# level above, at which the account has a running job, the row says no less.
#
# Where pinned jobs start (`Problem.fixed_rank`) nobody takes these away, so rows of levels below
# are left out; with limits of reservations, which no victim has to keep, all are.
#
# Options that alone exceed a row have no job: y <= floor(left / d) says more than the row.


class AccountLimit(NamedTuple):
    """What jobs with some options take together at most, int64 (options,)."""

    options: Ints
    amounts: Ints
    most: int


def account_limits(problem: Problem) -> list[AccountLimit]:
    """Return the limits of all accounts, in their order, and then those of precedence."""
    if not problem.quota:
        return []
    options = problem.options
    members: defaultdict[int, list[int]] = defaultdict(list)
    for number, job_class in enumerate(problem.classes):
        for account in job_class.accounts:
            members[account] += range(*options.class_start[number : number + 2].tolist())
    total = {a: problem.option_amounts(a) for a in {amount for _, amount in problem.quota}}
    limits, within = list[AccountLimit](), list[AccountLimit]()
    rank = problem.shape_rank[options.group_shape[options.group_start[:-1]]]
    running = (problem.num_jobs - problem.num_pending)[options.job_class]
    # A class of running jobs has one level, that of its first option.
    rank = np.where(running > 0, rank[options.class_start[options.job_class]], rank)
    for (account, amount), left in problem.quota.items():
        mine = np.array(members[account], dtype=np.int64)
        mine = mine[total[amount][mine] > 0]
        each = total[amount][mine]
        limits.append(AccountLimit(mine, each, left))
        if problem.has_reservations or account in problem.totals_of_pools:
            continue
        runs, ranks = running[mine] > 0, rank[mine]
        levels = np.unique(ranks[runs])
        for level in levels[levels >= problem.fixed_rank].tolist():
            stay, take = runs & (ranks >= level), np.where(runs, ranks < level, ranks <= level)
            if (take & ~runs).any():
                least = np.minimum.reduceat(total[amount], options.class_start[:-1])
                held = mine[stay & (options.choice[mine] == 0)]
                most = left - int(least[options.job_class[held]] @ running[held])
                within.append(AccountLimit(mine[take], each[take], most))
    return limits + within


def most_started(problem: Problem, limits: Iterable[AccountLimit]) -> Ints:
    """Return how many pending jobs may start with each option, by each limit alone, (options,)."""
    most = problem.num_pending[problem.options.job_class]
    for limit in limits:
        most[limit.options] = np.minimum(most[limit.options], max(limit.most, 0) // limit.amounts)
    return most


def add_account_rows(m: AggregateModel, limits: list[AccountLimit]) -> None:
    """Append the rows, and record those of the accounts and what all of them limit."""
    keys: list[Hashable] = [*m.problem.quota]
    keys += [("precedence", n) for n in range(len(limits) - len(keys))]
    rows = m.model.rows("quota", len(limits), upper=[float(x.most) for x in limits], keys=keys)
    m.quota_row = rows[: len(m.problem.quota)]
    for row, limit in zip(rows, limits, strict=True):
        # The y of an option stand in a row.
        begin = np.searchsorted(m.y_option, limit.options)
        number = np.searchsorted(m.y_option, limit.options, side="right") - begin
        end = np.cumsum(number)
        y = np.arange(number.sum()) + np.repeat(begin - end + number, number)
        amounts = np.repeat(limit.amounts, number)
        m.model.add(row, m.y[y], amounts.astype(np.float64))
        m.account_rows.append(AccountRow(y, amounts, limit.most))


# Cuts of accounts: rounded and lifted, exact by dynamic programming (Balas 1975; Wolsey 1975).
#
# A quota is a knapsack: a relaxation starts 0.4 of a large gang of a tenant, where a plan has
# none of it and other jobs in its place. Let the row of an account be sum a[j] y[j] <= b, with
# whole numbers 0 <= y[j] <= u[j], and y* a point of the relaxation. With the jobs of y* = u in
# place, b' is left for the others. For the size d of an option of which a part runs,
#
#     sum floor(a[j] / d) y[j]  <=  best(b')        over j with 0 < y*[j] < u[j]
#
# where best(c) is the most that whole numbers of these reach within c. That is a cut while the jobs
# of y* = u are in place. It is lifted: g[j] is the least number with which it also holds when fewer
# of j run, and then the largest with which it holds when some run of which y* has none. best(c) is
# exact for all j so far, and its last value, at c = b, is the right-hand side. All is in whole
# numbers, so a cut holds for all plans, whatever y* is.


CUTS = "account cut"


@dataclass
class AccountCuts:
    """The cuts of one relaxation: added as long as they improve its bound."""

    closed: bool  # Whether no more are added
    _bounds: list[float] = field(default_factory=list)

    def add(self, m: AggregateModel, relaxed: Outcome, *, ignored: bool) -> bool:
        """Append the cuts that the point of a relaxation violates; return whether there are any.

        Not if it ignores rows, nor if the last cuts have gained next to nothing.
        """
        tuning = parameters.PARAMETERS.models
        if self.closed or ignored or relaxed.values is None or relaxed.bound is None:
            return False
        self._bounds.append(relaxed.bound)
        before = self._bounds[-1 - tuning.num_idle_cut_rounds :][0]
        idle = len(self._bounds) > tuning.num_idle_cut_rounds
        if idle and abs(before - relaxed.bound) <= tuning.min_cut_gain_rel * abs(before):
            return False
        rows = m.model.row_count
        point = relaxed.values[m.y]
        for row in m.account_rows:
            for weights, most in _cuts(row, m.y_most[row.y], point[row.y]):
                mine = np.flatnonzero(weights)
                m.model.row(CUTS, m.y[row.y[mine]], weights[mine], upper=most)
        return m.model.row_count > rows

    def priced(self, m: AggregateModel, relaxed: Outcome) -> Outcome:
        """Return the outcome with a dual of 0 for cuts that were added after it."""
        if self.closed or relaxed.row_duals is None:
            return relaxed
        later = m.model.row_count - len(relaxed.row_duals)
        return replace(relaxed, row_duals=np.pad(relaxed.row_duals, (0, later)))


def _cuts(row: AccountRow, upper: Ints, point: Floats) -> list[tuple[Ints, int]]:
    """Return the violated cuts of a row: a weight per y, and the most that they may sum up to."""
    tuning = parameters.PARAMETERS.models
    part = np.abs(point - np.rint(point)) > tuning.min_cut_fraction
    if not part.any():
        return []
    if row.most < 0:
        return []
    # In coarser units, rounded down, the row holds for whole numbers all the same.
    coarse = -(-row.most * len(row.amounts) // tuning.max_account_table_entries)
    unit = max(int(np.gcd.reduce(row.amounts)), coarse)
    size, room = row.amounts // unit, row.most // unit
    upper = np.where(size > 0, np.minimum(upper, room // size.clip(min=1)), upper)
    full = ~part & (np.rint(point) == upper)
    if size[full] @ upper[full] > room:
        return []
    some = ~full & (part | (np.rint(point) > 0))
    found = [
        _lifted(size, upper, room, np.where(some, size // d, 0), full, some)
        for d in np.unique(size[part & (size > 0)]).tolist()
    ]
    none = np.zeros_like(full)
    for j in np.flatnonzero(part & (size > 0)).tolist():
        others = point > upper * (1 - min(point[j], 1)) + tuning.min_cut_fraction
        others[j] = False
        found.append(_lifted(size, upper, room, np.where(others, size, 0), none, others))
    return [cut for cut in found if cut[0] @ point > cut[1] + tuning.min_cut_fraction]


def _lifted(
    size: Ints, upper: Ints, room: int, weights: Ints, full: Ints, some: Ints
) -> tuple[Ints, int]:
    """Lift a cut of the jobs of which `some` run to those that are `full`, then to all others."""
    weights = weights.copy()
    best = np.zeros(room + 1, dtype=np.int64)
    for j in np.flatnonzero(weights).tolist():
        best = _with_item(best, int(size[j]), int(weights[j]), int(upper[j]))
    left = room - int(size[full] @ upper[full])
    most = int(best[left])
    order = np.argsort(-size, kind="stable")
    for j in order[full[order]].tolist():
        times = np.arange(1, upper[j] + 1)
        gain = best[left + times * size[j]] - most
        weights[j] = int((-(-gain // times)).max(initial=0))
        best = _with_item(best, int(size[j]), int(weights[j]), int(upper[j]))
        left += int(size[j] * upper[j])
        most = int(best[left])
    for j in order[~(full | some)[order]].tolist():
        times = np.arange(1, upper[j] + 1)
        if len(times):
            weights[j] = int(((most - best[room - times * size[j]]) // times).min())
        best = _with_item(best, int(size[j]), int(weights[j]), int(upper[j]))
    return weights, int(best[room])


def _with_item(best: Ints, size: int, worth: int, number: int) -> Ints:
    """Return the most that is reached within each room with up to a number of a further item."""
    times = 1
    while number > 0 and worth > 0:
        many = min(times, number)
        better = best.copy()
        if many * size < len(best):
            better[many * size :] = np.maximum(
                best[many * size :], best[: len(best) - many * size] + many * worth
            )
        best, number, times = better, number - many, 2 * times
    return best


# Disruption budget of the aggregate model: which running jobs a y counts, and rows over them.
#
# The running jobs of a class that compete for hosts are divided into steps, each with a y of its
# own for each option: how many of its n jobs run afterwards, y0 of them with the option that they
# had and y in all. Each of them costs and loses at least what the step says, so a plan satisfies
#
#     preempted_jobs   sum (n - y)              <= limit        over steps of jobs that count
#     preempted_gpus   sum milli-GPU (n - y)    <= limit
#     lost_gpu_s       sum lost (n - y0)        <= limit
#     resized_jobs     sum (y - y0)             <= limit
#     min_run_s        y >= n                                   steps of protected jobs
#
# Which jobs migrate a count does not tell: what they lose, and the limit on them, are left out,
# as is what running jobs lose that do not compete.


PROTECTED, BUDGET = "protected", "disruption budget"


class Step(NamedTuple):
    """Running jobs of a class: how many, the least that stopping one costs and uses of the budget.

    `protected`: none of them is preempted.
    """

    jobs: int
    cost: int
    use: Disruption = NOTHING
    protected: bool = False

    @property
    def spared_by_resize(self) -> Disruption:
        """What one uses less that resizes than one that stops."""
        return self.use._replace(lost_gpu_s=0, resized_jobs=-self.use.preempted_jobs)


def steps_of(problem: Problem, number: int) -> Iterator[Step]:
    """Yield the steps of a class of running jobs."""
    tuning, budget = parameters.PARAMETERS.models, problem.budget
    job_class = problem.classes[number]
    if budget is None:
        costs = sorted(problem.running[j].preempt_cost for j in job_class.jobs)
        # Jobs that do not compete may be those of highest cost: leaving these out relaxes it.
        costs = costs[: problem.num_competing[number]]
        for part in np.array_split(np.array(costs), tuning.num_stop_cost_steps):
            if len(part):
                yield Step(len(part), int(part[0]))
        return
    for jobs in _parts(problem, budget, job_class):
        uses = [budget.stops[j].preempted for j in jobs if j in budget.stops]
        yield Step(
            len(jobs),
            min(problem.running[j].preempt_cost for j in jobs),
            Disruption(*map(min, zip(*uses, strict=True))) if uses else NOTHING,
            budget.is_protected(jobs[0]),
        )


def _parts(problem: Problem, budget: DisruptionBudget, job_class: JobClass) -> Iterator[list[int]]:
    """Yield the jobs of each step: those that count apart, and of these the protected ones."""
    tuning = parameters.PARAMETERS.models
    key = {
        j: (j in budget.stops, budget.is_protected(j))
        for j in job_class.jobs
        if j not in problem.not_competing
    }
    lost = {j: budget.used([j], []).lost_gpu_s for j in key}
    order = sorted(key, key=lambda j: (key[j], lost[j], problem.running[j].preempt_cost, j))
    for _, group in groupby(order, key.__getitem__):
        jobs, most = list(group), budget.limits[Disruption._fields.index("lost_gpu_s")]
        few = len(jobs)
        if most is not None:
            # Those that lose so much that they cannot stop beside all that lose less.
            few = sum(total <= most for total in accumulate(lost[j] for j in jobs))
        steps = tuning.num_stop_cost_steps if most is None else tuning.num_lost_work_steps
        for part in np.array_split(np.array(jobs[:few]), steps):
            if len(part):
                yield part.tolist()
        if few < len(jobs):
            yield jobs[few:]


def add_disruption_budget(m: AggregateModel) -> None:
    """Append the rows, and record those of the limits; none without a budget."""
    budget = m.problem.budget
    if budget is None:
        return
    for mine in m.steps:
        if most := m.y_least[mine[0]]:
            m.model.row(PROTECTED, m.y[mine], lower=float(most))
    for number, most in enumerate(budget.limits):
        use = m.y_use[:, number]
        if most is None or not use.any():
            continue
        # Divided by what all uses share.
        counted, unit = np.flatnonzero(use), _unit(use)
        each = use[counted] // unit
        all_stop = int(each @ (m.y_most * (m.y_choice == 0))[counted])
        row = m.model.row(BUDGET, m.y[counted], each, lower=all_stop - most // unit)
        m.budget_row[number] = row[0]


def without_budget(m: AggregateModel, arrays: Arrays) -> Arrays:
    """Return the arrays with the rows of the budget open: for patterns that do not fit them yet."""
    lower = arrays.row_lower.copy()
    for block in m.model.row_blocks:
        if block.name in (PROTECTED, BUDGET):
            lower[block.start : block.start + block.size] = -np.inf
    return replace(arrays, row_lower=lower)


def budget_prices(m: AggregateModel, row_duals: Floats | None) -> BudgetPrices:
    """Return what a unit of each limit is worth, by the duals of its row."""
    if row_duals is None:
        return NO_BUDGET_PRICES
    duals = np.append(row_duals, 0.0)[m.budget_row]
    prices = -duals.clip(max=0.0) / [_unit(use) for use in m.y_use.T]
    return tuple(prices.tolist())


def _unit(use: Ints) -> int:
    """Return the greatest common divisor of some uses, 1 if there are none."""
    return int(np.gcd.reduce(use, initial=0)) or 1


# Rows of the aggregate model for failure domains: what is left outside the fullest of them.
#
# A gang of n tasks, at most q of them in one domain, has at least n - k q tasks outside any k
# domains. So, for the k domains that hold most,
#
#     sum over jobs of max(0, n - k q) * what a task takes * y  <=  what all other domains hold
#
# whatever jobs there are. For gangs of one kind the least of these rows over k is exact, and taking
# the tasks of each gang from the fullest domains reaches it (placement/gang_tree.py).


def add_failure_domains(m: AggregateModel, capacity: Ints, whole: Ints) -> None:
    """Append the rows of pending jobs whose groups have a domain limit.

    `capacity` and `whole` are as in `build_aggregate_model`.
    """
    problem, options = m.problem, m.problem.options
    limits = [_limit(group, len(problem.cluster.levels) - 1) for group in options.groups]
    level_of = np.array([-1 if limit is None else limit.level for limit in limits], dtype=np.int64)
    most_of = np.array(
        [0 if limit is None else limit.max_tasks for limit in limits], dtype=np.int64
    )
    # Running jobs may stay where they are.
    pending = np.flatnonzero(problem.num_pending[m.y_class])
    which, group = options.groups_of(m.y_option[pending])
    for level in np.unique(level_of[level_of >= 0]).tolist():
        mine = np.flatnonzero(level_of[group] == level)
        column, of = m.y[pending[which[mine]]], group[mine]
        count, most = options.group_count[of], most_of[of]
        domain = problem.cluster.domain[level]
        number = len(problem.cluster.names[level])
        for takes, holds in _measures(m, options.group_shape[of], capacity, whole):
            total = np.zeros(number, dtype=np.int64)
            np.add.at(total, domain, holds)
            outside = np.concatenate([[0], np.cumsum(np.sort(total))])[::-1]
            for k in _tightest(outside, count[takes > 0], most[takes > 0]):
                coefficient = np.maximum(count - k * most, 0) * takes
                some = np.flatnonzero(coefficient)
                m.model.row("failure domains", column[some], coefficient[some], upper=outside[k])


def _limit(group: Group, host_level: int) -> DomainLimit | None:
    """Return the domain limit of a group: on several hosts one does not hold all its tasks."""
    number = group.num_hosts
    if group.domain_limit is not None or number is None or number.least == 1:
        return group.domain_limit
    return DomainLimit(host_level, group.count - number.least + 1)


def _measures(
    m: AggregateModel, shape: Ints, capacity: Ints, whole: Ints
) -> Iterator[tuple[Ints, Ints]]:
    """Yield what a task of each entry takes, and what each host holds, in units of their own.

    Tasks of one shape; of several shapes whole GPUs, in tasks of each size, and other resources.
    """
    shapes = np.unique(shape)
    for s in shapes.tolist():
        yield (shape == s).astype(np.int64), capacity[s]
    if len(shapes) == 1:
        return
    usable = (capacity[shapes] > 0).any(axis=0)
    gpus = m.problem.shape_gpu[shape] // WHOLE_GPU
    for size in np.unique(gpus[gpus > 0]).tolist():
        yield gpus // size, np.where(usable, whole // size, 0)
    free = m.problem.within_asked(m.problem.cleared.free)
    for r in np.flatnonzero(m.problem.limited).tolist():
        demand = m.problem.shape_demand[shape, r]
        if demand.any():
            yield demand, np.where(usable, free[:, r], 0)


def _tightest(outside: Ints, count: Ints, most: Ints) -> list[int]:
    """Return, for each kind of gang, how many domains to leave out for the least gangs of it."""
    found: set[int] = set()
    for n, q in np.unique(np.column_stack([count, most]), axis=0).tolist():
        k = np.arange(min(-(-n // q), len(outside)))
        found.add(int((outside[k] / (n - k * q)).argmin()))
    return sorted(found)
