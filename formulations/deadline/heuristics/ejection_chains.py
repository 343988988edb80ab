"""Ejection chains: insert a job by moving other jobs' leases, one after another.

A job that lacks a lease takes a full one; a job that must leave it moves to another lease of its
window, from which, if that is full too, another job is ejected in turn. With gangs of one size the
chains are augmenting paths of a flow of leases to jobs, so that a job is rejected only if no
schedule of the same promises can hold it. With gangs of several sizes a lease is freed by several
chains, and within a chain one job replaces one job: a heuristic.

References
----------
Glover, "Ejection chains, reference structures and alternating path methods for traveling salesman
problems", Discrete Applied Mathematics 65, 1996; Ford and Fulkerson, "Maximal flow through a
network", Canadian Journal of Mathematics 8, 1956.
"""

from __future__ import annotations

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.problem.schedule import ScheduleState

Move = tuple[int, int, int]
"""A job, the lease that it leaves, or `NOWHERE`, and the lease that it enters."""

NOWHERE = -1


class EjectionChains:
    """Inserts jobs into a schedule state; rejected ones are remembered until a job is removed.

    Parameters
    ----------
    work_limit
        Jobs times leases that all insertions together may examine; None: as the parameters say.
    """

    def __init__(self, state: ScheduleState, work_limit: int | None = None) -> None:
        self.state = state
        if work_limit is None:
            work_limit = parameters.PARAMETERS.max_chain_cells
        self.work_left = work_limit
        self._rejected: list[tuple[int, int, int, int]] = []

    def forget_rejected(self) -> None:
        """Forget rejected alternatives, since a job was removed and they may fit now."""
        self._rejected.clear()

    def insert(self, alternative: int) -> bool:
        """Insert a job by an alternative; return whether it fits, else change nothing."""
        state, problem = self.state, self.state.problem
        job, need, leases = (
            int(problem.job[alternative]),
            int(problem.need[alternative]),
            state.free_leases(alternative),
        )
        if len(leases) >= need:
            state.add(alternative, leases[-need:])
            return True
        if self._dominated(alternative):
            return False
        state.add(alternative, leases)
        dead_ends = np.zeros(problem.horizon, dtype=np.bool_)
        if self.extend(job, need - len(leases), dead_ends) is not None:
            return True
        state.remove(job)
        if self.work_left > 0:
            self._rejected.append(self._signature(alternative))
        return False

    def extend(self, job: int, number: int, dead_ends: Bools) -> list[Move] | None:
        """Give a job of the schedule more leases, and return all moves in order; None: no change.

        Leases in `dead_ends` (horizon,) are neither taken nor entered; leases found to have no
        chain are added to it.
        """
        state, moves, left = self.state, list[Move](), number
        demand = state.class_demand[state.demand_class[state.alternative[job]]]
        holds = (state.problem.capacity >= demand[:, None]).all(axis=0)
        untried = np.flatnonzero(state.idle[job] & holds & ~dead_ends)
        shortage = np.maximum(0, demand[:, None] - state.residual[:, untried]).sum(axis=0)
        # Those that lack least first, of them the latest.
        order = np.lexsort((-untried, shortage))
        failures_left = parameters.PARAMETERS.max_failed_leases
        for position, lease in enumerate(untried[order].tolist()):
            if (
                not left
                or len(untried) - position < left
                or self.work_left <= 0
                or not failures_left
            ):
                break
            if dead_ends[lease] or not state.idle[job, lease]:
                continue
            if self._free_lease(lease, demand, dead_ends, moves):
                state.assign(job, lease)
                moves.append((job, NOWHERE, lease))
                left -= 1
            elif not dead_ends[lease]:
                failures_left -= 1
        if left:
            self.undo(moves, 0)
            return None
        return moves

    def undo(self, moves: list[Move], number: int) -> None:
        """Undo all moves but the first `number`, the last one first."""
        while len(moves) > number:
            job, left, entered = moves.pop()
            self.state.unassign(job, entered)
            if left != NOWHERE:
                self.state.assign(job, left)

    def _signature(self, alternative: int) -> tuple[int, int, int, int]:
        problem = self.state.problem
        first, end, need = (
            int(problem.first[alternative]),
            int(problem.end[alternative]),
            int(problem.need[alternative]),
        )
        return int(self.state.demand_class[alternative]), first, end, need

    def _dominated(self, alternative: int) -> bool:
        """Whether an alternative that asks no more, in no smaller a window, was rejected."""
        demand_class, first, end, need = self._signature(alternative)
        demand = self.state.class_demand[demand_class]
        return any(
            first >= other_first
            and end <= other_end
            and need >= other_need
            and (demand >= self.state.class_demand[other]).all()
            for other, other_first, other_end, other_need in self._rejected
        )

    def _free_lease(self, lease: int, demand: Ints, dead_ends: Bools, moves: list[Move]) -> bool:
        """Free the demand in a lease by ejection chains; where that fails, change nothing."""
        state, before = self.state, len(moves)
        while ((shortage := demand - state.residual[:, lease])[demand > 0] > 0).any():
            # After moves that are taken back again nothing is known of other leases.
            reached = dead_ends if len(moves) == before else dead_ends.copy()
            chain = self._find_chain(lease, np.where(demand > 0, shortage, 0), reached)
            if chain is None:
                self.undo(moves, before)
                return False
            # The last step first: it enters a lease with capacity.
            for job, left, entered in chain:
                state.unassign(job, left)
                state.assign(job, entered)
            moves.extend(chain)
        return True

    def _find_chain(self, lease: int, shortage: Ints, dead_ends: Bools) -> list[Move] | None:
        """Return a shortest chain that frees a lease, last first; None if there is none.

        Breadth-first search. `shortage` (rows,) is what must be freed; where no single job holds as
        much, one that holds part of it leaves. Leases in `dead_ends` are not entered; if there is
        no chain, all leases reached are added to them.
        """
        state, visited = self.state, dead_ends.copy()
        fits, row = state.fits_by_class()
        visited[lease] = True
        parent: dict[int, Move] = {}
        queue = [(lease, np.maximum(0, shortage))]
        for at, deficit in queue:
            if self.work_left <= 0:
                return None
            candidates = self._candidates(at, deficit, partial=at == lease)
            self.work_left -= (
                len(candidates) + parameters.PARAMETERS.lease_visit_cost_jobs
            ) * state.problem.horizon
            if not len(candidates):
                continue
            allowed = state.idle[candidates]
            allowed &= ~visited
            classes = state.demand_class[state.alternative[candidates]]
            direct = allowed & fits[row[classes]]
            if len(out := np.flatnonzero(direct.any(axis=1))):
                job, to = int(candidates[out[0]]), int(np.flatnonzero(direct[out[0]])[-1])
                chain = [(job, at, to)]
                while chain[-1][1] != lease:
                    chain.append(parent[chain[-1][1]])
                return chain
            reached = np.flatnonzero(allowed.any(axis=0))
            visited[reached] = True
            smallest = allowed[:, reached].argmax(axis=0)
            for to, by in zip(reached.tolist(), smallest.tolist(), strict=True):
                parent[to] = (int(candidates[by]), at, to)
                demand = state.class_demand[classes[by]]
                next_deficit = np.maximum(0, demand - state.residual[:, to])
                queue.append((to, np.where(demand > 0, next_deficit, 0)))
        dead_ends |= visited
        return None

    def _candidates(self, lease: int, deficit: Ints, *, partial: bool) -> Ints:
        """Return jobs that could leave a lease: those that free all of the deficit, smallest first.

        Those that free some of it follow if `partial`, largest first.
        """
        state = self.state
        jobs = np.flatnonzero(state.runs[:, lease])
        demand = state.class_demand[state.demand_class[state.alternative[jobs]]]
        enough: Bools = np.all(demand >= deficit, axis=1)
        size: Ints = demand.sum(axis=1)
        if partial:
            some = (demand[:, deficit > 0] > 0).any(axis=1)
            jobs, enough, size = jobs[some], enough[some], size[some]
        else:
            jobs, enough, size = jobs[enough], enough[enough], size[enough]
        return jobs[np.lexsort((np.where(enough, size, -size), ~enough))]
