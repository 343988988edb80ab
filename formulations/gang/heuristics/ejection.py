"""Ejection chains (Glover 1996): a task is inserted on a host whose jobs move to other hosts.

A task goes to the fullest host that fits it (best fit). If no host fits it, one-task jobs are
ejected from a host. Each goes to a host that fits it or, deeper in the chain, that fits it after
further ejections. All moves are logged and can be rolled back (`logged_moves.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.logged_moves import LoggedMoves
from placewright.formulations.gang.heuristics.movable_jobs import (
    ANY_ACCOUNT,
    Accounts,
    MovableJob,
)
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import JobPlacement
from placewright.topology.units import WHOLE_GPU

NOWHERE = -1


class EjectionMoves(LoggedMoves):
    """Insertion of tasks: others are ejected to other hosts, or stop for it (displacement)."""

    def __init__(self, placement: Placement) -> None:
        super().__init__(placement)
        # Per shape, the GPUs that were free when no host was found for it.
        self._infeasible: dict[int, int] = {}

    def find_host(self, shape: int) -> int | None:
        """Return a host that fits a task, after ejections if need be; None if there is none.

        After a failure a shape is tried again only once more GPUs are free.
        """
        free = int(self.placement.whole[self.problem.open].sum())
        if self._infeasible.get(shape, -1) >= free:
            return None
        host = self._best_fit(shape)
        if host is None:
            host = self._eject(shape, parameters.PARAMETERS.insertion.max_ejection_depth)
        if host is None:
            self._infeasible[shape] = free
        return host

    def reinsert(self, start: JobPlacement) -> bool:
        """Insert a removed job on another host, by ejection if need be; return whether it was."""
        host = self.find_host(self.shape_of(start))
        if host is not None:
            self.insert(start, host)
        return host is not None

    def displace(
        self, start: JobPlacement, max_loss: float, accounts: Accounts = ANY_ACCOUNT
    ) -> list[JobPlacement] | None:
        """Insert a removed job where others worth less than `max_loss` stop; return those.

        A stopped job waits again if it was pending, and is preempted if it was running. If
        `accounts` are given, only jobs of one of them stop. None if there is no such host.
        """
        shape, best, chosen, target = self.shape_of(start), max_loss, [], NOWHERE
        rank = int(self.problem.shape_rank[shape])
        level_limit, lack = self._level_limit(rank), self.gpus_of(shape) - self.placement.whole
        least, before = self.movable.least_loss(lack, level_limit), self.num_moves
        least[~self.eligible_hosts(shape)] = np.inf
        for host in np.argsort(least, kind="stable").tolist():
            if least[host] >= best:
                break
            wanted, lost, found = int(lack[host]), 0.0, []
            changes = [(shape, host, 1)]
            room = self.placement.pools.allow(changes)
            for mover in self.movable.preemptable(host, shape, int(level_limit[host]), accounts):
                if (wanted <= 0 and room) or lost >= best:
                    break
                if mover.moved and not self.preempted_lawfully(mover.job):
                    continue
                found.append(mover.number)
                wanted, lost = wanted - mover.gpus, lost + mover.value_per_gpu * mover.gpus
                if not room:
                    changes.append((mover.shape, host, -1))
                    room = self.placement.pools.allow(changes)
            if wanted <= 0 and room and lost < best:
                best, chosen, target = lost, found, host
        if target == NOWHERE:
            return None
        stopped = [self.remove(number) for number in chosen]
        if not self.fits(shape, target, 1):
            self.rollback(before)
            return None
        self.insert(start, target)
        return stopped

    def least_loss(self, size: int, rank: int) -> Floats:
        """Return the least value lost (hosts,) if a task of `size` GPUs displaces jobs there."""
        return self.movable.least_loss(size - self.placement.whole, self._level_limit(rank))

    def preemptable_gpus(self, accounts: Accounts, shape: int) -> Ints:
        """Return the GPUs (hosts,) of jobs of some accounts that a task of a shape may preempt."""
        found = np.zeros_like(self.movable.gpus_on_host)
        level_limit = self._level_limit(int(self.problem.shape_rank[shape]))
        for host in np.flatnonzero(self.movable.gpus_on_host).tolist():
            mine = self.movable.preemptable(host, shape, int(level_limit[host]), accounts)
            found[host] = sum(mover.gpus for mover in mine)
        return found

    def preempted_lawfully(self, job: int) -> bool:
        """Whether tasks arrived on the hosts where a job ran, and all are of higher precedence."""
        running = self.problem.running[job]
        came = self.placement.arrivals[[host for _, _, host, _ in running.places]]
        return bool(came.any() and not came[:, : running.level + 1].any())

    def jobs_to_move(self, shape: int, host: int, count: int) -> list[int]:
        """Return numbers of jobs that must leave a host to free GPUs for `count` tasks."""
        lack = count * self.gpus_of(shape) - int(self.placement.whole[host])
        return _covering_jobs(self.movable.on_host(host), lack)

    def _level_limit(self, rank: int) -> Ints:
        """Return the level (hosts,) below which jobs may stop for a task of the rank.

        All arrivals on the host of a preempted job must precede it. So the limit is the rank, or
        the least rank among the tasks that have arrived, whichever is less.
        """
        came = self.placement.arrivals > 0
        least_rank = np.where(came.any(axis=1), came.argmax(axis=1), came.shape[1])
        limit: Ints = np.minimum(rank, least_rank)
        return limit

    def _best_fit(self, shape: int, excluded: int = NOWHERE) -> int | None:
        """Return the fullest host but `excluded` that fits a task (best fit); None if none does.

        Ties go to the GPU model of which most GPUs are free on hosts that fit the task.
        """
        num_tasks, whole = self.placement.fits(shape), self.placement.whole
        if excluded != NOWHERE:
            num_tasks[excluded] = 0
        hosts = np.flatnonzero(num_tasks)
        if not len(hosts):
            return None
        model = self.problem.cluster.gpu_model
        free = np.bincount(model[hosts], weights=whole[hosts])
        return int(hosts[np.lexsort((-free[model[hosts]], whole[hosts]))[0]])

    def _eject(self, shape: int, max_depth: int) -> int | None:
        """Eject jobs from a host until it fits a task; return it, None if there is none.

        Short chains are tried first; the longest are `max_depth` ejections deep.
        """
        whole, size, eligible = (
            self.placement.whole,
            self.gpus_of(shape),
            self.eligible_hosts(shape),
        )
        # An ejected job takes as many GPUs elsewhere as it leaves.
        if whole[self.problem.open].sum() < size:
            return None
        hosts = np.flatnonzero(
            eligible & (whole < size) & (whole + self.movable.gpus_on_host >= size)
        )
        hosts = hosts[np.argsort(-whole[hosts], kind="stable")]
        held, tuning = self.movable.gpus_of_shape[:, hosts], parameters.PARAMETERS.insertion
        for depth in range(max_depth):
            could = self._relocatable_shapes(np.flatnonzero(held.any(axis=1)), eligible, depth)
            relocatable = set(could.tolist())
            enough = held[could].sum(axis=0) >= size - whole[hosts]
            most = tuning.max_deep_ejection_hosts if depth else tuning.max_ejection_hosts
            tried: list[int] = hosts[enough][:most].tolist()
            for host in tried:
                lack, before = size - int(whole[host]), self.num_moves
                movers = [
                    mover for mover in self.movable.on_host(host) if mover.shape in relocatable
                ]
                moved = self._relocate_all(_covering_jobs(movers, lack), host, depth)
                if moved and self.fits(shape, host, 1):
                    return host
                self.rollback(before)
        return None

    def _relocatable_shapes(self, shapes: Ints, eligible: Bools, depth: int) -> Ints:
        """Return those of some shapes whose tasks may find another host.

        At depth 0, shapes that some host fits as it is. Deeper, where that host may be cleared by
        further ejections, shapes allowed on a host outside `eligible` (hosts,).
        """
        problem, placement = self.problem, self.placement
        hosts = problem.shape_hosts[shapes]
        if depth:
            return shapes[(hosts & ~eligible).any(axis=1)]
        fits = hosts & (placement.least_rank <= problem.shape_rank[shapes, None])
        fits &= placement.whole * WHOLE_GPU >= problem.shape_gpu[shapes, None]
        demand = problem.shape_demand[shapes]
        for r in np.flatnonzero(demand.any(axis=0)).tolist():
            fits &= placement.free[:, r] >= demand[:, r, None]
        return shapes[fits.any(axis=1)]

    def _relocate_all(self, numbers: Iterable[int], host: int, depth: int) -> bool:
        """Move jobs from a host to others one by one; return whether all found a host."""
        for number in numbers:
            start = self.remove(number)
            shape = self.shape_of(start)
            target = self._best_fit(shape, host)
            if target is None and depth:
                target = self._eject(shape, depth)
            if target is None or target == host:
                return False
            self.insert(start, target)
        return True


def _covering_jobs(movers: Iterable[MovableJob], lack: int) -> list[int]:
    """Return jobs that hold at least `lack` GPUs together, with small excess (greedy cover).

    The largest first, as long as they hold no more than is lacking; then the smallest of the
    others, if some GPUs still are. All jobs if they hold fewer.
    """
    if lack <= 0:
        return []
    sizes = sorted((-mover.gpus, mover.number) for mover in movers)
    found = []
    for size, number in sizes:
        if -size <= lack:
            found.append(number)
            lack += size
    if lack > 0:
        chosen = set(found)
        found += [n for _, n in reversed(sizes) if n not in chosen][:1]
    return found
