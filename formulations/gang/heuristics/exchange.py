"""Exchange neighbourhood: two jobs change hosts so that one more waiting job fits.

A host may have free GPUs that no waiting job can use. Where other resources lack, a one-task job on
it changes hosts with a lighter one of as many GPUs. Where a stopped job keeps lower ranks out, a
job of a higher rank moves in, and the waiting one takes its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import TaskPlacement
from placewright.topology.units import WHOLE_GPU


def exchange_jobs(placement: Placement, hosts: Iterable[int]) -> None:
    """Start waiting one-task jobs on or beside these hosts while exchanges make them fit.

    Only for rounds without shares, quotas and reserved GPUs; others stay as they are.
    """
    problem = placement.problem
    if not problem.is_share.any() and not problem.quota and problem.usable.all():
        exchange = _Exchange(placement)
        for host in hosts:
            while placement.whole[host] and exchange.improve_host(host):
                pass


class _Exchange:
    """One-task jobs that may move, as arrays: their starts, shapes and hosts."""

    def __init__(self, placement: Placement) -> None:
        self.placement, problem = placement, placement.problem
        self.problem = problem
        self.sizes = np.column_stack([problem.shape_gpu // WHOLE_GPU, problem.shape_demand])
        self.free = np.column_stack([placement.whole, placement.free])
        table = [
            (number, start.tasks[0].host, choice.groups[0].shape)
            for number, start in placement.changed()
            if (choice := problem.classes[start.job_class].choices[start.choice]).is_single_task
        ]
        moved = np.array(table, dtype=np.int64).reshape(-1, 3)
        both = np.concatenate([moved, _in_place(placement)])
        self.number, self.at, self.shape = both[problem.open[both[:, 1]]].T
        self.size = self.sizes[self.shape]
        self.rank = problem.shape_rank[self.shape]
        self.waiting = self._waiting_shapes()
        self._most = parameters.PARAMETERS.insertion.max_exchange_partners

    def _waiting_shapes(self) -> list[tuple[int, int, int]]:
        """Return (shape, class, choice) of waiting one-task jobs, the most valuable first."""
        best: dict[int, tuple[int, int, int]] = {}
        for c, job_class in enumerate(self.problem.classes):
            for o, choice in enumerate(job_class.choices if self.placement.waiting[c] else ()):
                shape = choice.groups[0].shape
                if choice.is_single_task and self.sizes[shape, 0]:
                    best[shape] = max(best.get(shape, (-1, -1, -1)), (choice.value, c, o))
        order = sorted(best, key=lambda s: (-best[s][0], self.sizes[s].tolist()))
        kept: defaultdict[tuple[int, bytes], list[int]] = defaultdict(list)
        most = parameters.PARAMETERS.insertion.max_exchange_shapes
        for s in order:
            equal_value = kept[best[s][0], self.problem.shape_hosts[s].tobytes()]
            if len(equal_value) < most and not any(
                (self.sizes[s] >= self.sizes[t]).all() for t in equal_value
            ):
                equal_value.append(s)
        chosen = {s for equal_value in kept.values() for s in equal_value}
        return [(s, *best[s][1:]) for s in order if s in chosen]

    def improve_host(self, host: int) -> bool:
        """Start one more job by the first exchange found; return whether there was one."""
        closed = int(self.placement.least_rank[host])
        for shape, c, o in self.waiting:
            if not self.placement.waiting[c]:
                continue
            size = self.sizes[shape]
            if size[0] > self.free[host, 0]:
                continue
            eligible = self.problem.shape_hosts[shape, host] and (
                self.problem.shape_rank[shape] >= closed
            )
            if eligible and self._swap_and_start(host, shape, c, o):
                return True
            if closed and self._move_and_start(host, shape, c, o):
                return True
        return False

    def _swap_and_start(self, host: int, shape: int, c: int, o: int) -> bool:
        """Start a job on a host that it fits once one of its jobs has changed places."""
        size = self.sizes[shape]
        lack = (size - self.free[host]).clip(min=0)
        if not lack.any() and self.placement.pools.fits_host(shape, host):
            self._start(shape, c, o, host)
            return True
        others = (self.free >= lack).all(axis=1)
        others[host] = False
        partners = np.flatnonzero(others[self.at])
        if not len(partners):
            return False
        mine = np.flatnonzero(self.at == host)
        # What may come here at all, and may be left.
        partners = partners[
            self.problem.shape_hosts[self.shape[partners], host]
            & (self.rank[partners] >= self.placement.least_rank[host])
        ]
        for a in mine.tolist():
            fits = (self.size[partners] <= self.free[host] + self.size[a] - size).all(axis=1)
            fits &= self.size[partners, 0] == self.size[a, 0]
            some = partners[fits]
            there = self.at[some]
            some = some[
                (self.size[a] <= self.free[there] + self.size[some]).all(axis=1)
                & self.problem.shape_hosts[self.shape[a], there]
                & (self.rank[a] >= self.placement.least_rank[there])
            ]
            for b in some[: self._most].tolist():
                to = {a: int(self.at[b]), b: host}
                if self._pools_allow(shape, host, to):
                    self._move(to)
                    self._start(shape, c, o, host)
                    return True
        return False

    def _move_and_start(self, host: int, shape: int, c: int, o: int) -> bool:
        """Move a job of a rank that may come here, and start one in its place."""
        problem, placement = self.problem, self.placement
        size, rank = self.sizes[shape], problem.shape_rank[shape]
        fits = (self.rank >= placement.least_rank[host]) & (self.size <= self.free[host]).all(
            axis=1
        )
        some = np.flatnonzero(fits & (self.at != host))
        there = self.at[some]
        some = some[
            (size <= self.free[there] + self.size[some]).all(axis=1)
            & (size[0] > self.free[there, 0])
            & problem.shape_hosts[self.shape[some], host]
            & problem.shape_hosts[shape, there]
            & (placement.least_rank[there] <= rank)
        ]
        for i in some[: self._most].tolist():
            left = int(self.at[i])
            if self._pools_allow(shape, left, {i: host}):
                self._move({i: host})
                self._start(shape, c, o, left)
                return True
        return False

    def _pools_allow(self, shape: int, host: int, to: Mapping[int, int]) -> bool:
        """Whether pools have room for one more task on a host once jobs have moved."""
        changes = [(shape, host, 1)]
        for i, there in to.items():
            mine = int(self.shape[i])
            changes += [(mine, int(self.at[i]), -1), (mine, int(there), 1)]
        return self.placement.pools.allow(changes)

    def _move(self, to: dict[int, int]) -> None:
        """Move jobs to other hosts, all at once."""
        placement = self.placement
        starts = {}
        for i in to:
            start = placement.get(int(self.number[i]))
            if start is None:
                raise ValueError(f"start {self.number[i]} has stopped")
            starts[i] = start
            placement.stop(int(self.number[i]))
        for i, start in starts.items():
            shape, host = int(self.shape[i]), to[i]
            self.free[self.at[i]] += self.size[i]
            self.free[host] -= self.size[i]
            puts = [TaskPlacement(0, host, 1, placement.put(shape, host))]
            self.number[i] = placement.start(start.job_class, start.choice, puts, start.job)
            self.at[i] = host

    def _start(self, shape: int, c: int, o: int, host: int) -> None:
        puts = [TaskPlacement(0, host, 1, self.placement.put(shape, host))]
        self.placement.start(c, o, puts)
        self.free[host] -= self.sizes[shape]


def _in_place(placement: Placement) -> Ints:
    """Start, host and shape of the running one-task jobs that are where they were."""
    problem = placement.problem
    single = {c for c, k in enumerate(problem.classes) if k.running and k.choices[0].is_single_task}
    here = [
        placement.start_of(job) if r.job_class in single and placement.in_place(job) else -1
        for job, r in problem.running.items()
    ]
    job, _, host, shape = problem.running_tasks.T
    number = np.array(here, dtype=np.int64)[np.searchsorted(list(problem.running), job)]
    table: Ints = np.stack([number, host, shape], axis=1)[number >= 0]
    return table
