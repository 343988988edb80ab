"""What a host loses if tasks arrive on it: the best choice among the sets of its running jobs.

A row of the table is one host with one set of its jobs stopped: what is free then, what is lost.
Of many jobs only those sets are looked at that stop the cheapest ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.placement import Placement
from placewright.formulations.gang.problem import RunningJob
from placewright.instances.documents import WHOLE_GPU

Ints = NDArray[np.int64]

WASTE = 700.0
"""What a GPU that stays free on the host counts as lost, beside 1000 for one of weight 1."""

MAX_JOBS = 6
"""Jobs of a host of which all sets are looked at."""


class Losses:
    """The table of a placement as it is.

    A host is used once: after `displace` it is out of the table.
    """

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        problem = placement.problem
        # A share may need a GPU of its own.
        gpus = -(-problem.shape_gpu // WHOLE_GPU)
        self._sizes = np.column_stack([gpus, problem.shape_demand])
        # Shares free no GPU alone, and a reserved one is not free for anybody.
        by_gpu = not problem.usable.all() or any(
            problem.shared[group.shape]
            for job_class in problem.classes
            if job_class.running
            for group in job_class.choices[0].groups
        )
        self._hosts = _jobs_by_host(placement)
        ranks = placement.arrivals.shape[1]
        some = placement.arrivals > 0
        self._least = np.where(some.any(axis=1), some.argmax(axis=1), ranks)
        base = np.column_stack([placement.whole, placement.free])
        dearest = 1 + sum(self._cost(r) for r in problem.running.values())
        number = np.array([len(jobs) for jobs in self._hosts.values()], dtype=np.int64)
        hosts = np.array(list(self._hosts), dtype=np.int64)
        parts: list[tuple[Ints, Ints, NDArray[np.float64], Ints, Ints]] = []
        for k in np.unique(number).tolist():
            mine = hosts[number == k]
            what = [self._what(job, h, dearest) for h in mine.tolist() for job in self._hosts[h]]
            gain = np.array([w[0] for w in what], dtype=np.int64).reshape(
                len(mine), k, len(self._sizes[0])
            )
            loss = np.array([w[1] for w in what]).reshape(len(mine), k)
            level = np.array([w[2] for w in what], dtype=np.int64).reshape(len(mine), k)
            order = np.argsort(loss, axis=1, kind="stable") if k > MAX_JOBS else None
            sets = _sets(k)
            if order is not None:
                # Few sets: the cheapest jobs one after the other.
                sets = sets[:, None, :] & np.ones((1, len(mine), 1), dtype=np.bool_)
                sets = np.take_along_axis(sets, np.argsort(order, axis=1)[None], axis=2)
            else:
                sets = np.broadcast_to(sets[:, None, :], (len(sets), len(mine), k))
            shape = (len(sets) * len(mine),)
            room = base[mine] + np.einsum("snk,nkd->snd", sets, gain)
            if by_gpu:
                room[..., 0] = self._whole(mine, k, sets)
            parts.append(
                (
                    np.broadcast_to(mine, sets.shape[:2]).reshape(shape),
                    room.reshape(*shape, -1),
                    np.einsum("snk,nk->sn", sets, loss).reshape(shape),
                    (sets * (level + 1)).max(axis=2, initial=0).reshape(shape),
                    (sets * (1 << np.arange(k))).sum(axis=2).reshape(shape),
                )
            )
        if not parts:
            none = np.zeros(0, dtype=np.int64)
            parts.append(
                (none, np.zeros((0, base.shape[1]), dtype=np.int64), np.zeros(0), none, none)
            )
        host = np.concatenate([p[0] for p in parts])
        order = np.argsort(host, kind="stable")
        self._host = host[order]
        self._room = np.concatenate([p[1] for p in parts])[order]
        self._loss = np.concatenate([p[2] for p in parts])[order]
        self._level = np.concatenate([p[3] for p in parts])[order]
        self._stopped = np.concatenate([p[4] for p in parts])[order]
        self._starts = np.flatnonzero(np.diff(self._host, prepend=-1))
        self._many: dict[tuple[int, int], tuple[NDArray[np.float64], Ints]] = {}

    def _whole(self, hosts: Ints, jobs: int, sets: NDArray[np.bool_]) -> Ints:
        """Wholly free GPUs of each host with each set of its jobs stopped, (sets, hosts)."""
        held = np.zeros((len(hosts), jobs, self.placement.gpu.shape[1]), dtype=np.int64)
        for n, host in enumerate(hosts.tolist()):
            for k, job in enumerate(self._hosts[host]):
                held[n, k] = self.placement.held_by(job, host)
        left = self.placement.gpu[hosts] + np.einsum("snk,nkg->sng", sets, held)
        # What has arrived since holds GPUs that have no names yet.
        unnamed = (self.placement.gpu[hosts] == WHOLE_GPU).sum(axis=1) - self.placement.whole[hosts]
        whole: Ints = np.asarray((left == WHOLE_GPU).sum(axis=2) - unnamed, dtype=np.int64)
        return whole

    def _cost(self, running: RunningJob) -> int:
        """Return the disruption of preempting a job."""
        problem = self.placement.problem
        choice = problem.classes[running.job_class].choices[0]
        return running.preempt_cost + problem.demand_of(choice, -1)

    def _what(self, job: int, host: int, dearest: int) -> tuple[Ints, float, int]:
        """Return what a host gains if a job stops, what is lost by it, and the job's level."""
        problem = self.placement.problem
        running = problem.running[job]
        choice = problem.classes[running.job_class].choices[0]
        here = [choice.groups[g].shape for g, _, h, _ in running.places if h == host]
        loss = choice.value + self._cost(running) / dearest
        gain = self._sizes[here[0]] if len(here) == 1 else self._sizes[here].sum(axis=0)
        return gain, loss, running.level

    def of(self, wanted: Ints) -> NDArray[np.float64]:
        """Least loss per host for one more set of tasks (a number per shape); inf: impossible."""
        return self._best(self._rows(wanted))

    def of_many(self, shape: int, count: int) -> tuple[NDArray[np.float64], Ints]:
        """Loss and number of tasks of a shape, as many as a host can hold at all, up to `count`."""
        if (shape, count) not in self._many:
            self._many[shape, count] = self._hold_many(shape, count)
        return self._many[shape, count]

    def _hold_many(self, shape: int, count: int) -> tuple[NDArray[np.float64], Ints]:
        problem = self.placement.problem
        number = np.zeros(problem.cluster.num_hosts, dtype=np.int64)
        loss = np.full(len(number), np.inf)
        wanted = np.zeros(len(problem.shape_gpu), dtype=np.int64)
        for n in range(1, count + 1):
            wanted[shape] = n
            more = self.of(wanted)
            fits = np.isfinite(more)
            if not fits.any():
                break
            number[fits], loss[fits] = n, more[fits]
        return loss, number

    def displace(self, host: int, shape: int, count: int) -> None:
        """Stop what a host loses to `count` tasks of a shape."""
        wanted = np.zeros(len(self._sizes), dtype=np.int64)
        wanted[shape] = count
        self.displace_for(host, wanted)

    def displace_for(self, host: int, wanted: Ints) -> None:
        """Stop what a host loses to a set of tasks; the host leaves the table."""
        first = int(np.searchsorted(self._host, host))
        at = slice(first, int(np.searchsorted(self._host, host, side="right")))
        best = first + int(self._rows(wanted, at).argmin())
        for k, job in enumerate(self._hosts[host]):
            if self._stopped[best] >> k & 1 and self.placement.runs(job):
                self.placement.stop(self.placement.start_of(job))
        self._loss[at] = np.inf
        for loss, number in self._many.values():
            loss[host], number[host] = np.inf, 0

    def _rows(self, wanted: Ints, at: slice = slice(None)) -> NDArray[np.float64]:
        """Loss per row, inf where the tasks do not fit or may not come."""
        problem = self.placement.problem
        shapes = np.flatnonzero(wanted)
        need = wanted @ self._sizes
        rank: np.int64 = problem.shape_rank[shapes].min()
        hosts = self._host[at]
        fits: NDArray[np.bool_] = np.less_equal(self._level[at], rank)
        # What has arrived may not profit from a preemption, nor may this where others have left.
        fits &= self._level[at] <= self._least[hosts]
        fits &= self.placement.closed[hosts] <= rank
        for d in np.flatnonzero(need):
            fits &= self._room[at, d] >= need[d]
        fits &= np.logical_and.reduce(problem.shape_hosts[shapes])[self._host[at]]
        cost: NDArray[np.float64] = self._loss[at] + WASTE * (self._room[at, 0] - need[0])
        cost[~fits] = np.inf
        return cost

    def _best(self, cost: NDArray[np.float64]) -> NDArray[np.float64]:
        loss = np.full(self.placement.problem.cluster.num_hosts, np.inf)
        if len(self._starts):
            loss[self._host[self._starts]] = np.minimum.reduceat(cost, self._starts)
        return loss


def _jobs_by_host(placement: Placement) -> dict[int, list[int]]:
    """List the running jobs that are in place and may move, per host where tasks may arrive."""
    problem = placement.problem
    jobs_of: dict[int, list[int]] = {h: [] for h in np.flatnonzero(problem.open).tolist()}
    for job, running in problem.running.items():
        if not placement.in_place(job):
            continue
        for host in {place[2] for place in running.places}:
            if host in jobs_of:
                jobs_of[host].append(job)
    return jobs_of


def _sets(jobs: int) -> NDArray[np.bool_]:
    """All sets of so many jobs, or the first n of them for each n; (sets, jobs)."""
    if jobs > MAX_JOBS:
        return np.tri(jobs + 1, jobs, -1, dtype=np.bool_)
    numbers = np.arange(1 << jobs, dtype=np.int64)
    return (numbers[:, None] >> np.arange(jobs, dtype=np.int64) & 1).astype(np.bool_)
