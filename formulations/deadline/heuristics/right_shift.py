"""Who must run now: the same promises, with as little as possible in the current lease.

What later leases can hold need not run now. So leases are given from the end of time backwards,
while as many as possible of those that had better run now (they run already, and would have to
stop) keep the current lease. Then single jobs change: those come into the current lease, where
there is room or in the place of others; and of those that had better not run now the dearest leave
first, for a later lease in which there is room, or in which others make some (`chains`). A
heuristic; each change makes the current lease cheaper.

Headroom is capacity of later leases that is left free for jobs that are yet to come, which pulls
work into the current lease; less of it where promises force more work before some time (`spare`),
and jobs without a promise have a part of what they leave; and less of it everywhere, or none, where
they do not fit beside it all the same.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from placewright.formulations.deadline.heuristics.ejection_chains import Chains
from placewright.formulations.deadline.heuristics.list_scheduling import EFFORT, sweep
from placewright.formulations.deadline.problem.problem import (
    NONE,
    Ints,
    Problem,
    Schedule,
    parts_of,
)
from placewright.formulations.deadline.problem.schedule import Chart
from placewright.formulations.deadline.problem.slack import Spare

THOUSAND = 1000

FEW = 0.02
"""Share of the promises that may be inserted by chains into what is left free."""

KEPT = 0.8
"""Share of what promises leave of the time until each lease that headroom may hold free. The rest
is for jobs without a promise: where many promises are due soon, they would wait for headroom."""

TRIES = 10
"""Fillings that share the effort of one repair."""


def latest(
    problem: Problem, schedule: Schedule, cost: Ints, headroom: int = 0, *, effort: int = EFFORT
) -> Schedule:
    """Return a schedule of the same promises that runs as little as possible now.

    Parameters
    ----------
    schedule
        Fits.
    cost
        (jobs,): of running in the current lease; negative where it is better to run. The sum over
        the jobs that run there is what counts.
    headroom
        Thousandths of the capacity of later leases that are left free where that is possible.
    effort
        Leases that chains may look into, in all.
    """
    for share in (headroom, headroom // 2, headroom // 4):
        chart = _refilled(problem, schedule, cost, _left_free(problem, schedule, share))
        if chart is not None:
            break
    else:
        chart = _refilled(problem, schedule, cost, problem.capacity)
    if chart is None:
        chart = Chart.of(problem, schedule)
    lease = _Now(chart, cost, effort)
    lease.enter()
    lease.leave()
    lease.trade()
    lease.enter()
    dearer = int(cost[chart.runs[:, 0]].sum()) > int(cost[schedule.runs[:, 0]].sum())
    # Headroom is worth what it costs; without it a schedule is changed for the better only.
    return schedule if dearer and not headroom else chart.schedule()


def _left_free(problem: Problem, schedule: Schedule, share: int) -> Ints:
    """Return the capacity without what is left free: of a prefix a part of what promises leave."""
    part = problem.capacity * share // THOUSAND
    part[:, :1] = 0
    wanted = part.cumsum(axis=1)
    spare = np.maximum(0, Spare(problem, schedule.way).left)
    most = np.minimum(wanted, (KEPT * spare).astype(np.int64))
    most = np.minimum.accumulate(most[:, ::-1], axis=1)[:, ::-1]
    # As much as is wanted of each lease, until some prefix has no more to spare.
    total = wanted + np.minimum.accumulate(most - wanted, axis=1)
    return problem.capacity - np.diff(total, prepend=0, axis=1)


def _refilled(problem: Problem, schedule: Schedule, cost: Ints, capacity: Ints) -> Chart | None:
    """Fill all leases anew, with as many as possible staying now that should; None: some are lost.

    They stay in the order of their cost; how many can is found by bisection.
    """
    ways = schedule.way[schedule.way != NONE]
    jobs = problem.job[ways]
    better = np.flatnonzero((cost[jobs] < 0) & (problem.first[ways] == 0))
    better = better[np.argsort(cost[jobs[better]], kind="stable")]
    used = problem.demand[ways[better]].cumsum(axis=0)
    better = better[(used <= capacity[:, 0]).all(axis=1)]
    chart = _around(problem, ways, better[:0], capacity)
    fewest, most = 0, len(better)
    tried = most
    while chart is not None and fewest < most:
        found = _around(problem, ways, better[:tried], capacity)
        if found is None:
            most = tried - 1
        else:
            chart, fewest = found, tried
        tried = (fewest + most + 1) // 2
    return chart


def _around(problem: Problem, ways: Ints, stay: Ints, capacity: Ints) -> Chart | None:
    """Fill all leases around those of the ways, by position, that stay in the current one.

    Where that is needed, less than nothing is free in a lease of the chart.
    """
    need, first, room = problem.need.copy(), problem.first.copy(), capacity.copy()
    need[ways[stay]] -= 1
    first[ways[stay]] = 1
    room[:, 0] -= problem.demand[ways[stay]].sum(axis=0)
    rest = Chart(replace(problem, need=need, first=first), room)
    lost = sweep(rest, ways, "backwards")
    if len(lost) > FEW * len(ways):
        return None
    rest.free += problem.capacity - capacity
    chains = Chains(rest, EFFORT // TRIES)
    if not all(chains.insert(way) for way in lost.tolist()):
        return None
    schedule = rest.schedule()
    schedule.runs[problem.job[ways[stay]], 0] = True
    return Chart.of(problem, schedule, capacity)


class _Now:
    """The current lease of a chart, made cheaper."""

    def __init__(self, chart: Chart, cost: Ints, effort: int) -> None:
        self.chart, self.cost = chart, cost
        self.chains = Chains(chart, effort)

    def enter(self) -> None:
        """Bring those in that had better run now, each for one of its later leases."""
        chart, cost = self.chart, self.cost
        outside = np.flatnonzero((cost < 0) & chart.open[:, 0] & chart.runs.any(axis=1))
        for job in outside[np.argsort(cost[outside], kind="stable")].tolist():
            if chart.room(int(chart.kind[chart.way[job]]))[0]:
                self._move(job, int(np.flatnonzero(chart.runs[job])[-1]), 0)
            elif not self._swap(job):
                self._displace(job)

    def leave(self) -> None:
        """Move those out that had better not run now, the dearest first."""
        chart, cost = self.chart, self.cost
        inside = np.flatnonzero((cost > 0) & chart.runs[:, 0])
        # Nobody comes back, so that out of a lease where there was no way there is none later.
        dead = np.zeros((len(chart.asks), chart.problem.horizon), dtype=np.bool_)
        dead[:, 0] = True
        for job in inside[np.argsort(-cost[inside], kind="stable")].tolist():
            kind = int(chart.kind[chart.way[job]])
            less = (chart.asks <= chart.asks[kind]).all(axis=1)
            dead[kind] = dead[less].any(axis=0)
            chart.pause(job, 0)
            if self.chains.extend(job, 1, dead[kind]) is None:
                chart.run(job, 0)

    def trade(self) -> None:
        """Let cheaper jobs run now in the place of dearer ones, which take a lease of theirs."""
        inside = np.flatnonzero((self.cost > 0) & self.chart.runs[:, 0])
        for job in inside[np.argsort(-self.cost[inside], kind="stable")].tolist():
            if self.chains.effort > 0:
                self._trade(job)

    def _trade(self, job: int) -> None:
        chart, cost = self.chart, self.cost
        ask = chart.asks[chart.kind[chart.way[job]]]
        others = np.flatnonzero(chart.open[:, 0] & (cost < cost[job]) & (chart.way != NONE))
        asks = chart.asks[chart.kind[chart.way[others]]]
        fits = (chart.free[:, 0] + ask >= asks).all(axis=1)
        others, leases = others[fits], np.flatnonzero(chart.open[job])
        self.chains.effort -= len(others) * len(leases)
        found = self._first(others[np.argsort(cost[others], kind="stable")], leases, ask)
        if found is not None:
            other, lease = found
            chart.pause(job, 0)
            self._move(other, lease, 0)
            chart.run(job, lease)

    def _first(self, others: Ints, leases: Ints, ask: Ints) -> tuple[int, int] | None:
        """Return the first of some jobs that leaves room for `ask` in a lease where it runs.

        And the first of those leases.
        """
        chart = self.chart
        for part in parts_of(len(others), len(leases)):
            jobs = others[part]
            room = chart.runs[np.ix_(jobs, leases)]
            asks = chart.asks[chart.kind[chart.way[jobs]]]
            for row, each in enumerate(ask.tolist()):
                room &= chart.free[row, leases] + asks[:, row, None] >= each
            able = np.flatnonzero(room.any(axis=1))
            if len(able):
                return int(jobs[able[0]]), int(leases[room[able[0]].argmax()])
        return None

    def _move(self, job: int, left: int, entered: int) -> None:
        self.chart.pause(job, left)
        self.chart.run(job, entered)

    def _swap(self, job: int) -> bool:
        """Let a job run now in the place of one that costs more, which takes a lease of its own."""
        chart = self.chart
        asks = chart.asks[chart.kind[chart.way]]
        others = np.flatnonzero(chart.runs[:, 0] & (self.cost > self.cost[job]))
        others = others[(chart.free[:, 0] + asks[others] >= asks[job]).all(axis=1)]
        leases = np.flatnonzero(chart.runs[job])
        left = chart.free[:, leases] + asks[job][:, None]
        others = others[np.argsort(-self.cost[others], kind="stable")]
        for part in parts_of(len(others), len(leases)):
            fits = chart.open[np.ix_(others[part], leases)]
            for row, room in enumerate(left):
                fits &= room >= asks[others[part], row, None]
            able = np.flatnonzero(fits.any(axis=1))
            if len(able):
                lease = int(leases[fits[able[0]].argmax()])
                chart.pause(job, lease)
                self._move(int(others[part][able[0]]), 0, lease)
                chart.run(job, 0)
                return True
        return False

    def _displace(self, job: int) -> None:
        """Let a job run now in the place of several, which together cost more than it does."""
        chart, cost = self.chart, self.cost
        kind, lease = int(chart.kind[chart.way[job]]), int(np.flatnonzero(chart.runs[job])[-1])
        chart.pause(job, lease)
        others = np.flatnonzero(chart.runs[:, 0] & (cost > cost[job]))
        others = others[np.argsort(-cost[others], kind="stable")]
        room, row = chart.rooms()
        rooms = chart.open[others] & room[row[chart.kind[chart.way[others]]]]
        moved: list[tuple[int, int]] = []
        change = int(cost[job])
        for other in others[rooms.any(axis=1)].tolist():
            room = chart.open[other] & chart.room(int(chart.kind[chart.way[other]]))
            if change - cost[other] < 0 and room.any():
                change -= int(cost[other])
                moved.append((other, int(np.flatnonzero(room)[-1])))
                self._move(other, 0, moved[-1][1])
            if chart.room(kind)[0]:
                chart.run(job, 0)
                return
        for other, place in reversed(moved):
            self._move(other, place, 0)
        chart.run(job, lease)
