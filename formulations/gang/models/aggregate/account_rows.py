"""Accounts of the aggregate model: quotas, caps and pools, and precedence within them.

    quota        sum d[c] y[c]                               <= left[a]     classes c of account a
    precedence   sum_{running c: level >= k} d[c] jobs of c
                 + sum_{running c: level < k} d[c] y[c]
                 + sum_{pending o: rank <= k} d[o] y[o]      <= left[a]     for each level k

with left[a] what jobs of the account hold that are not pinned, or what its limit leaves for them
if that is more, and d > 0 what a job takes. Of those that precede it nobody makes room for a job.

Every plan satisfies the rows of precedence. Let k' be the lowest level from k on of a victim of the
account. It may be preempted only if nothing breaks with all victims from k' on back and all starts
of a rank above k' taken away (docs/plans.md, who may be preempted). As nobody of the account stops
at a level from k to k' - 1, all that ran from level k on then counts in the account, beside who is
left below k and all starts of a rank up to k'. Who has moved holds what it held. If no victim is of
a level from k on, all of these run, and the row follows from `quota`. It needs no rows of other
levels: with the next level above, at which the account has a running job, the row says no less.

Where pinned jobs start (`Problem.fixed_rank`) nobody takes these away, so rows of levels below are
left out; with limits of reservations, which no victim has to keep, all are.

Options that alone exceed a row have no job: y <= floor(left / d) says more than the row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import NamedTuple

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.models.aggregate.variables import AccountRow, AggregateModel
from placewright.formulations.gang.problem.problem import Problem


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
                most = left - int(each[stay] @ running[mine[stay]])
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
    m.quota_row[:] = rows[: len(m.quota_row)]
    for row, limit in zip(rows, limits, strict=True):
        # The y of an option stand in a row.
        begin = np.searchsorted(m.y_option, limit.options)
        number = np.searchsorted(m.y_option, limit.options, side="right") - begin
        end = np.cumsum(number)
        y = np.arange(number.sum()) + np.repeat(begin - end + number, number)
        amounts = np.repeat(limit.amounts, number)
        m.model.add(row, m.y[y], amounts.astype(np.float64))
        m.account_rows.append(AccountRow(y, amounts, limit.most))
