"""From ways that were chosen to leases: who runs when, so that all of them get what they need.

Three orders are tried until one of them loses nothing. `backwards` and `forwards` go from lease to
lease, and each takes those with the least slack: leases that their way can still use less leases
that they still need. `gangs` goes from job to job, the largest gang first and then the least slack;
a job takes the latest leases that have room for it.
Whoever finds no place is inserted by chains of moves at the end; a job that has a promise already
may push out those that have none.

`backwards` is exact where every job asks one GPU of a single row and all may begin at once: seen
from the end of time all jobs are due together, and the longest remaining work first is optimal
whatever the capacity of each lease.

References
----------
McNaughton, "Scheduling with deadlines and loss functions", Management Science 1959.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from placewright.formulations.deadline.heuristics.ejection_chains import Chains
from placewright.formulations.deadline.problem.problem import (
    NONE,
    Bools,
    Ints,
    Problem,
    Schedule,
    parts_of,
)
from placewright.formulations.deadline.problem.schedule import Chart
from placewright.formulations.deadline.problem.slack import Spare

Order = Literal["backwards", "forwards", "gangs"]

ORDERS: tuple[Order, ...] = ("backwards", "forwards", "gangs")
"""The one that loses least, as a rule, first."""

EFFORT = 400_000_000
"""Jobs times leases that a repair may look at: about a CPU second."""


LOOK = 50_000_000
"""Ways times leases that are tried between two looks at the clock: about a CPU second."""


def fill(
    problem: Problem, way: Ints, *, orders: Sequence[Order] = ORDERS, effort: int = EFFORT
) -> Schedule:
    """Give leases to the chosen ways, and drop what does not fit.

    Parameters
    ----------
    way
        (jobs,): the way of each job, or `NONE`.
    orders
        Tried one after the other until nothing is dropped; the best schedule counts: the least
        broken, then the most admitted. One at least.
    effort
        Of chains (`Chains`), for each order.
    """
    chosen = way[way != NONE]
    found = []
    for order in orders:
        chart = Chart(problem)
        lost = _one_by_one(chart, chosen) if order == "gangs" else sweep(chart, chosen, order)
        repair(chart, lost, effort)
        found.append(chart.schedule())
        if (chart.way == way).all():
            break
    return max(found, key=lambda schedule: worth(problem, schedule))


def worth(problem: Problem, schedule: Schedule) -> tuple[int, int]:
    """Return what schedules are compared by: the larger, the better."""
    return -schedule.broken(problem), schedule.admitted(problem)


def complete(
    problem: Problem,
    schedule: Schedule,
    *,
    effort: int = EFFORT,
    expired: Callable[[], bool] = lambda: False,
) -> Schedule:
    """Add jobs without a way as long as they fit: those with promises, then the best value.

    Value counts per GPU and lease. What is promised stays, but may run in other leases. Once time
    is `expired`, which is asked now and then, nobody is added any more.
    """
    chart = Chart.of(problem, schedule)
    chains = Chains(chart, effort)
    spare = Spare(problem, schedule.way)
    waiting = np.flatnonzero(schedule.way[problem.job] == NONE)
    waiting = waiting[spare.have(waiting)]
    between = LOOK // problem.horizon
    for number, way in enumerate(by_worth(problem, waiting).tolist(), 1):
        if number % between == 0 and expired():
            break
        if chart.way[problem.job[way]] == NONE and spare.has(way) and chains.insert(way):
            spare.add(way)
    return chart.schedule()


def by_worth(problem: Problem, ways: Ints) -> Ints:
    """Sort ways: those that save most of a promise first, then most value per GPU and lease."""
    area = np.maximum(1, problem.need[ways]) * problem.demand[ways].max(axis=1, initial=1)
    saved = problem.loss[problem.job[ways]] - problem.lost[ways]
    return ways[np.lexsort((-problem.value[ways] / area, -saved))]


def repair(chart: Chart, ways: Ints, effort: int) -> None:
    """Insert ways that found no place, worthiest first, and push out others to keep promises."""
    chains, spare = Chains(chart, effort), Spare(chart.problem, chart.way)
    loss = chart.problem.loss[chart.problem.job]
    for way in by_worth(chart.problem, ways).tolist():
        if spare.has(way) and chains.insert(way):
            spare.add(way)
        elif loss[way]:
            _push_out(chains, spare, way)


def _push_out(chains: Chains, spare: Spare, way: int) -> None:
    """Insert a way that keeps a promise in the place of jobs that lose less by it, if it can be.

    They leave one by one, those first that lose least for the leases that become free by it, until
    the way fits, and come back where they can. `spare` stays what the chart leaves.
    """
    chart, problem = chains.chart, chains.chart.problem
    saved = problem.loss[problem.job] - problem.lost
    if not (saved[chart.way[chart.way != NONE]] < saved[way]).any():
        return
    before, room, left = chart.copy(), spare.left.copy(), list[int]()
    rivals = _rivals(chart, way)
    for rival in rivals[saved[rivals] < saved[way]].tolist():
        chart.take(int(problem.job[rival]))
        spare.drop(rival)
        chains.forget()
        left.append(rival)
        # Chains are tried after 1, 2, 4, ... jobs have left.
        fits = len(chart.leases(way)) >= problem.need[way]
        due = len(left).bit_count() == 1 and spare.has(way)
        if (fits or due) and chains.insert(way):
            break
    lost = []
    for rival in by_worth(problem, np.array(left, dtype=np.int64)).tolist():
        if chains.insert(rival):
            spare.add(rival)
        else:
            lost.append(rival)
    if chart.way[problem.job[way]] == NONE or saved[lost].sum() >= saved[way]:
        chart.restore(before)
        spare.left = room
        chains.forget()
    else:
        spare.add(way)


def _rivals(chart: Chart, way: int) -> Ints:
    """Return the ways of jobs that keep a way out of leases, those first that should leave first.

    That is, who keeps no promise before who does, and then who is worth least per lease.
    """
    problem = chart.problem
    ask, window = problem.demand[way], slice(problem.first[way], problem.end[way])
    short = np.maximum(0, ask[:, None] - chart.free[:, window])
    jobs = np.flatnonzero(chart.runs[:, window].any(axis=1))
    ways = chart.way[jobs]
    opened = np.zeros(len(ways))
    for row in np.flatnonzero(ask):
        lacking = np.maximum(1, short[row])
        for some in parts_of(len(ways), len(lacking)):
            part = np.minimum(1.0, problem.demand[ways[some], row, None] / lacking)
            part *= short[row] > 0
            opened[some] += (part * chart.runs[jobs[some], window]).sum(axis=1)
    saved = problem.loss[jobs] - problem.lost[ways]
    price = problem.value[ways] / np.maximum(opened, 1e-9)
    order = np.lexsort((price, saved))
    useful: Ints = ways[order[opened[order] > 0]]
    return useful


def _one_by_one(chart: Chart, ways: Ints) -> Ints:
    """Place job by job, the largest gang first, then the least slack; return who found no place."""
    problem = chart.problem
    slack = problem.end[ways] - problem.first[ways] - problem.need[ways]
    size = problem.demand[ways].max(axis=1, initial=0)
    lost = []
    for way in ways[np.lexsort((slack, -size))].tolist():
        leases, need = chart.leases(way), int(problem.need[way])
        if len(leases) < need:
            lost.append(way)
            continue
        chart.put(way, leases[-need:])
    return np.array(lost, dtype=np.int64)


def sweep(chart: Chart, ways: Ints, order: Order) -> Ints:
    """Fill an empty chart lease by lease, the least slack first; return who found no place."""
    problem, leases = chart.problem, np.arange(chart.problem.horizon)
    kinds, kind = np.unique(chart.kind[ways], return_inverse=True)
    rooms = np.array([chart.room(one) for one in kinds.tolist()], dtype=np.bool_)
    able: Bools = rooms.reshape(len(kinds), problem.horizon)[kind.reshape(-1)].T
    able &= (problem.first[ways] <= leases[:, None]) & (leases[:, None] < problem.end[ways])
    demand, need = problem.demand[ways], problem.need[ways].copy()
    size, slack = demand.max(axis=1, initial=0), able.sum(axis=0) - need
    # Worth decides only among those who can no longer wait.
    rank = np.empty(problem.ways, dtype=np.int64)
    rank[by_worth(problem, ways)] = np.arange(len(ways))
    rank = rank[ways]
    runs = np.zeros((problem.horizon, len(ways)), dtype=np.bool_)
    for lease in leases[::-1] if order == "backwards" else leases:
        asking = np.flatnonzero(able[lease] & (need > 0) & (slack >= 0))
        urgent = np.where(slack[asking] == 0, rank[asking], 0)
        asking = asking[np.lexsort((-size[asking], urgent, slack[asking]))]
        chosen = asking[_packed(demand[asking], chart.free[:, lease])]
        slack[asking] -= 1
        slack[chosen] += 1
        need[chosen] -= 1
        runs[lease, chosen] = True
    done = need == 0
    chart.put_all(ways[done], runs[:, done].T)
    lost: Ints = ways[~done]
    return lost


def _packed(asks: Ints, room: Ints) -> Ints:
    """Return which asks (number, rows) are met in turn, those that no longer fit left out."""
    waiting, chosen = np.arange(len(asks)), []
    while len(waiting):
        sums = asks[waiting].cumsum(axis=0)
        met = int((sums <= room).all(axis=1).sum())
        chosen.append(waiting[:met])
        room = room - (sums[met - 1] if met else 0)
        waiting = waiting[met:]
        waiting = waiting[(asks[waiting] <= room).all(axis=1)]
    met_in_turn: Ints = np.concatenate([np.zeros(0, dtype=np.int64), *chosen])
    return met_in_turn
