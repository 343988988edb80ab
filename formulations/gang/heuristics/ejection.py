"""Ejection chains (Glover 1996): a task is inserted on a host from which others are ejected.

A task goes to the fullest host that fits it (best fit). If there is none, one-task jobs are ejected
from a host to others that fit them or, deeper in the chain, that fit them after more ejections. All
moves are logged and can be rolled back (`logged_moves.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from placewright.array_types import Bools, Floats, Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.heuristics.logged_moves import LoggedMoves
from placewright.formulations.gang.heuristics.movable_jobs import ANY_TENANT, MovableJob
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import JobPlacement
from placewright.topology.units import WHOLE_GPU

NOWHERE = -1


class EjectionMoves(LoggedMoves):
    """Insertion of tasks by ejection and by displacement."""

    def __init__(self, placement: Placement) -> None:
        super().__init__(placement)
        self._infeasible: dict[int, int] = {}

    def find_host(self, shape: int) -> int | None:
        """Return a host that fits a task, if need be after ejecting others; None if there is none.

        A shape that failed is not tried again before more GPUs are free.
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
        self, start: JobPlacement, max_loss: float, tenant: int = ANY_TENANT
    ) -> list[JobPlacement] | None:
        """Insert a removed job where others worth less than `max_loss` stop; return these.

        Pending ones wait again, running ones are preempted by its higher precedence. Only jobs of a
        `tenant`, if given. None if there is no such host.
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
            for mover in self.movable.preemptable(host, rank, int(level_limit[host]), tenant):
                if wanted <= 0 or lost >= best:
                    break
                if mover.moved and not self.preempted_lawfully(mover.job):
                    continue
                found.append(mover.number)
                wanted, lost = wanted - mover.gpus, lost + mover.value_per_gpu * mover.gpus
            if wanted <= 0 and lost < best:
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
        """Return the least loss (hosts,) if a task of `size` GPUs displaces others there."""
        return self.movable.least_loss(size - self.placement.whole, self._level_limit(rank))

    def preemptable_gpus(self, tenant: int, rank: int) -> Ints:
        """Return the GPUs per host (hosts,) of a tenant's jobs that a rank may preempt."""
        found, level_limit = np.zeros_like(self.movable.gpus_on_host), self._level_limit(rank)
        for host in np.flatnonzero(self.movable.gpus_on_host).tolist():
            mine = self.movable.preemptable(host, rank, int(level_limit[host]), tenant)
            found[host] = sum(mover.gpus for mover in mine)
        return found

    def preempted_lawfully(self, job: int) -> bool:
        """Whether tasks arrived where a job ran, all of higher precedence."""
        running = self.problem.running[job]
        came = self.placement.arrivals[[host for _, _, host, _ in running.places]]
        return bool(came.any() and not came[:, : running.level + 1].any())

    def jobs_to_move(self, shape: int, host: int, count: int) -> list[int]:
        """Return numbers of jobs that must leave a host to free GPUs for `count` tasks."""
        lack = count * self.gpus_of(shape) - int(self.placement.whole[host])
        return _covering_jobs(self.movable.on_host(host), lack)

    def _level_limit(self, rank: int) -> Ints:
        """Return per host (hosts,) the level below which a rank may preempt jobs.

        Where tasks have arrived, only jobs that all of these may preempt.
        """
        came = self.placement.arrivals > 0
        first = np.where(came.any(axis=1), came.argmax(axis=1), came.shape[1])
        below: Ints = np.minimum(rank, first)
        return below

    def _best_fit(self, shape: int, excluded: int = NOWHERE) -> int | None:
        """Return the fullest host that fits a task (best fit), not `excluded`; None if none does.

        Among equal hosts one of the GPU model of which most is free.
        """
        number, whole = self.placement.fits(shape), self.placement.whole
        if excluded != NOWHERE:
            number[excluded] = 0
        hosts = np.flatnonzero(number)
        if not len(hosts):
            return None
        model = self.problem.cluster.gpu_model
        free = np.bincount(model[hosts], weights=whole[hosts])
        return int(hosts[np.lexsort((-free[model[hosts]], whole[hosts]))[0]])

    def _eject(self, shape: int, steps: int) -> int | None:
        """Return a host that fits a task now that jobs were ejected from it; None if there is none.

        Chains are as short as possible, and at most `steps` ejections deep.
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
        for depth in range(steps):
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
        """Return those of some shapes that a host fits at once.

        Deeper in a chain, those that may be on a host that is not `eligible`.
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
    """Cover: return jobs that hold `lack` GPUs together, largest first, few too many.

    All of them if they hold fewer.
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
