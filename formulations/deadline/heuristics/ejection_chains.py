"""Room for one more job: others move some of their leases, along chains where one step will not do.

A job that lacks a lease takes one that is full; whoever must leave that lease goes to another one
in which it may run and does not, from which, if that is full too, somebody leaves in turn. With
gangs of one size these are the augmenting paths of a flow of leases to jobs: a job is turned down
only where no schedule of the same promises has room for it. With unlike gangs a lease is emptied by
several chains one after the other, and within a chain one job makes way for another: a heuristic.

References
----------
Ford and Fulkerson, "Maximal flow through a network", Canadian Journal of Mathematics 8, 1956.
"""

from __future__ import annotations

import numpy as np

from placewright.formulations.deadline.problem.problem import Bools, Ints
from placewright.formulations.deadline.problem.schedule import Chart

Move = tuple[int, int, int]
"""A job, the lease that it leaves, or `NOWHERE`, and the lease that it enters."""

NOWHERE = -1

PATIENCE = 6
"""How often a job may try leases that can be emptied in part only, before it is turned down."""

LOOK = 100
"""What it costs to look into a lease, as if so many jobs more could leave it."""


class Chains:
    """Inserts jobs into a chart; it remembers what cannot work as long as nobody leaves.

    Parameters
    ----------
    effort
        How many jobs times leases may be looked at for ways out, in all that is done together.
    """

    def __init__(self, chart: Chart, effort: int) -> None:
        self.chart = chart
        self.effort = effort
        self._turned_down: list[tuple[int, int, int, int]] = []

    def forget(self) -> None:
        """Say that somebody left the chart, so that what was turned down may fit now."""
        self._turned_down.clear()

    def insert(self, way: int) -> bool:
        """Put the way's job, which has none, into the chart; where that fails, nothing changes."""
        chart, problem = self.chart, self.chart.problem
        job, need, leases = int(problem.job[way]), int(problem.need[way]), chart.leases(way)
        if len(leases) >= need:
            chart.put(way, leases[-need:])
            return True
        if self._hopeless(way):
            return False
        chart.put(way, leases)
        dead = np.zeros(problem.horizon, dtype=np.bool_)
        if self.extend(job, need - len(leases), dead) is not None:
            return True
        chart.take(job)
        if self.effort > 0:
            self._turned_down.append(self._question(way))
        return False

    def extend(self, job: int, number: int, dead: Bools) -> list[Move] | None:
        """Let a job that has a way run in so many more leases, and return all moves, in order.

        Where that fails, nothing changes, and None is returned. Leases that are `dead` (horizon,)
        are neither taken nor entered; those out of which there is no way are dead afterwards.
        """
        chart, moves, left = self.chart, list[Move](), number
        ask = chart.asks[chart.kind[chart.way[job]]]
        could = (chart.problem.capacity >= ask[:, None]).all(axis=0)
        untried = np.flatnonzero(chart.open[job] & could & ~dead)
        short = np.maximum(0, ask[:, None] - chart.free[:, untried]).sum(axis=0)
        # Those that lack least first, of them the latest.
        order = np.lexsort((-untried, short))
        patience = PATIENCE
        for position, lease in enumerate(untried[order].tolist()):
            if not left or len(untried) - position < left or self.effort <= 0 or not patience:
                break
            if dead[lease] or not chart.open[job, lease]:
                continue
            if self._empty(lease, ask, dead, moves):
                chart.run(job, lease)
                moves.append((job, NOWHERE, lease))
                left -= 1
            elif not dead[lease]:
                patience -= 1
        if left:
            self.undo(moves, 0)
            return None
        return moves

    def undo(self, moves: list[Move], number: int) -> None:
        """Take back all moves but the first `number`, the last one first."""
        while len(moves) > number:
            job, left, entered = moves.pop()
            self.chart.pause(job, entered)
            if left != NOWHERE:
                self.chart.run(job, left)

    def _question(self, way: int) -> tuple[int, int, int, int]:
        problem = self.chart.problem
        first, end, need = int(problem.first[way]), int(problem.end[way]), int(problem.need[way])
        return int(self.chart.kind[way]), first, end, need

    def _hopeless(self, way: int) -> bool:
        """Whether a job that asks no more, in no smaller a window, was turned down."""
        kind, first, end, need = self._question(way)
        ask = self.chart.asks[kind]
        return any(
            first >= other_first
            and end <= other_end
            and need >= other_need
            and (ask >= self.chart.asks[other]).all()
            for other, other_first, other_end, other_need in self._turned_down
        )

    def _empty(self, lease: int, ask: Ints, dead: Bools, moves: list[Move]) -> bool:
        """Move jobs out of the lease until it has room for `ask`; else leave it as it was."""
        chart, before = self.chart, len(moves)
        while ((short := ask - chart.free[:, lease])[ask > 0] > 0).any():
            # After moves that are taken back again nothing is known of other leases.
            reached = dead if len(moves) == before else dead.copy()
            chain = self._chain(lease, np.where(ask > 0, short, 0), reached)
            if chain is None:
                self.undo(moves, before)
                return False
            # The last step first: it enters a lease that has room.
            for job, left, entered in chain:
                chart.pause(job, left)
                chart.run(job, entered)
            moves.extend(chain)
        return True

    def _chain(self, lease: int, short: Ints, dead: Bools) -> list[Move] | None:
        """Find moves, last step first, that take somebody out of a lease that is short.

        `short` (rows,) is what must be freed there; where no single job holds as much, one that
        holds part of it leaves. Leases that are `dead` are not entered; where there is no way out,
        all that were reached are dead afterwards.
        """
        chart, seen = self.chart, dead.copy()
        rooms, row = chart.rooms()
        seen[lease] = True
        came: dict[int, Move] = {}
        queue = [(lease, np.maximum(0, short))]
        for at, lacking in queue:
            if self.effort <= 0:
                return None
            movers = self._movers(at, lacking, partly=at == lease)
            self.effort -= (len(movers) + LOOK) * chart.problem.horizon
            if not len(movers):
                continue
            allowed = chart.open[movers]
            allowed &= ~seen
            kinds = chart.kind[chart.way[movers]]
            exits = allowed & rooms[row[kinds]]
            if len(out := np.flatnonzero(exits.any(axis=1))):
                job, to = int(movers[out[0]]), int(np.flatnonzero(exits[out[0]])[-1])
                chain = [(job, at, to)]
                while chain[-1][1] != lease:
                    chain.append(came[chain[-1][1]])
                return chain
            reached = np.flatnonzero(allowed.any(axis=0))
            seen[reached] = True
            smallest = allowed[:, reached].argmax(axis=0)
            for to, by in zip(reached.tolist(), smallest.tolist(), strict=True):
                came[to] = (int(movers[by]), at, to)
                lacks = np.maximum(0, chart.asks[kinds[by]] - chart.free[:, to])
                queue.append((to, np.where(chart.asks[kinds[by]] > 0, lacks, 0)))
        dead |= seen
        return None

    def _movers(self, lease: int, lacking: Ints, *, partly: bool) -> Ints:
        """Return who could leave the lease: smallest first of those that free all that lacks.

        Those that free some of it follow if `partly`, largest first.
        """
        chart = self.chart
        jobs = np.flatnonzero(chart.runs[:, lease])
        asks = chart.asks[chart.kind[chart.way[jobs]]]
        enough: Bools = np.all(asks >= lacking, axis=1)
        size: Ints = asks.sum(axis=1)
        if partly:
            some = (asks[:, lacking > 0] > 0).any(axis=1)
            jobs, enough, size = jobs[some], enough[some], size[some]
        else:
            jobs, enough, size = jobs[enough], enough[enough], size[enough]
        return jobs[np.lexsort((np.where(enough, size, -size), ~enough))]
