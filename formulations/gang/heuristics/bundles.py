"""Bundles: the items of repacking, one-task jobs that take whole GPUs of one host together.

A bundle is a task of whole GPUs, or the shares of one GPU. A running job keeps its index in the
round; a pending job has an index below 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from placewright.formulations.gang.heuristics.host_assignment import NOWHERE, HostAssignment, Units
from placewright.formulations.gang.heuristics.share_cutting import (
    Bin,
    Home,
    ShareTypes,
    recut_shares,
)
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import ANY_JOB, TaskPlacement
from placewright.formulations.session import Session
from placewright.topology.units import WHOLE_GPU


class Bundles:
    """All running one-task jobs that may move, and some pending ones.

    Parameters
    ----------
    base
        A placement of all other jobs; the running jobs that may move are removed from it.
    waiting
        (class, choice) of each pending job.

    Attributes
    ----------
    homes : dict of job to Home
        The running ones, each with its host and GPUs.
    """

    def __init__(self, base: Placement, waiting: Sequence[tuple[int, int]] = ()) -> None:
        problem = base.problem
        self._base, self._problem = base, problem
        self.homes = _remove_movable(base)
        starts = {job: (problem.running[job].job_class, 0) for job in self.homes}
        self._start = starts | {-1 - i: start for i, start in enumerate(waiting)}
        self._shape = {
            job: problem.classes[c].choices[o].groups[0].shape
            for job, (c, o) in self._start.items()
        }
        self._bundles: list[Bin] = []

    def units(self, session: Session, gpu_worth: int, gpus: int | None = None) -> Units | None:
        """Cut GPUs into shares anew, and return the bundles as units; None if time is up.

        Parameters
        ----------
        gpu_worth
            Worth of each GPU that shares do not need, in milli-GPU-seconds.
        gpus
            GPUs available to all bundles: using fewer has no worth. None: each GPU saved has.
        """
        problem = self._problem
        shape_of = {j: s for j, s in self._shape.items() if problem.is_share[s]}
        whole = [j for j in self._shape if j not in shape_of]
        self._bundles = [Bin((j,), self.homes.get(j), int(j in self.homes)) for j in whole]
        if shape_of:
            held: defaultdict[Home, list[int]] = defaultdict(list)
            for job in shape_of:
                if job in self.homes:
                    held[self.homes[job]].append(job)
            waiting = [job for job in shape_of if job not in self.homes]
            taken = sum(int(problem.shape_gpu[self._shape[j]]) for j in whole) // WHOLE_GPU
            available = 0 if gpus is None else max(gpus - taken, 0)
            shares = ShareTypes(problem, shape_of)
            bins = recut_shares(session, shares, held, waiting, gpu_worth, available)
            if bins is None:
                return None
            self._bundles += bins
        return self._units()

    def _units(self) -> Units:
        problem = self._problem
        shapes = [[self._shape[j] for j in item.jobs] for item in self._bundles]
        runs = [[self._shape[j] for j in item.jobs if j in self.homes] for item in self._bundles]
        masks: dict[bytes, int] = {}
        host_set = [
            masks.setdefault(problem.shape_hosts[sorted(set(s))].all(axis=0).tobytes(), len(masks))
            for s in shapes
        ]
        stay = [item.jobs[: item.stay] for item in self._bundles]
        return Units(
            gpus=np.array([-(-problem.shape_gpu[s].sum() // WHOLE_GPU) for s in shapes]),
            demand=np.array([problem.shape_demand[s].sum(axis=0) for s in shapes]),
            home=np.array([i.home[0] if i.home else NOWHERE for i in self._bundles]),
            move_cost=np.array([sum(self._move_cost(j) for j in jobs) for jobs in stay]),
            value=np.array([sum(self._value(j) for j in item.jobs) for item in self._bundles]),
            running_demand=np.array([problem.shape_demand[s].sum(axis=0) for s in runs]),
            has_running=np.array([len(s) > 0 for s in runs]),
            allowed=np.stack([np.frombuffer(mask, dtype=np.bool_) for mask in masks]),
            host_set=np.array(host_set),
        )

    def _move_cost(self, job: int) -> int:
        return self._problem.running[job].migrate_cost + int(
            self._problem.shape_gpu[self._shape[job]]
        )

    def _value(self, job: int) -> int:
        """Return the loss if a job is dropped: 0 for running ones, at least 1 for pending ones."""
        c, o = self._start[job]
        return 0 if job in self.homes else max(self._problem.classes[c].choices[o].value, 1)

    def apply(self, assignment: HostAssignment) -> Placement:
        """Start the jobs in `base`: bundles at home on their former GPUs, others on free ones."""
        base, hosts = self._base, assignment.host.tolist()
        in_place = [
            item.home is not None and item.home[0] == host
            for item, host in zip(self._bundles, hosts, strict=True)
        ]
        kept = [item.home for item, stays in zip(self._bundles, in_place, strict=True) if stays]
        named = {(home[0], gpu) for home in kept if home is not None for gpu in home[1]}
        free = {
            host: [gpu for gpu in base.free_gpu_ids(host) if (host, gpu) not in named]
            for host in set(hosts) - {NOWHERE}
        }
        for item, host, stays, dropped in zip(
            self._bundles, hosts, in_place, assignment.dropped.tolist(), strict=True
        ):
            jobs = [job for job in item.jobs if job in self.homes or not dropped]
            if host == NOWHERE or not jobs:
                continue
            milli = int(self._problem.shape_gpu[self._shape[jobs[0]]])
            new = [free[host].pop() for _ in range(0 if stays else -(-milli // WHOLE_GPU))]
            gpus = item.home[1] if item.home and stays else tuple(new)
            for job in jobs:
                self._start_on(job, host, gpus)
        return base

    def _start_on(self, job: int, host: int, gpus: tuple[int, ...]) -> None:
        if self.homes.get(job) == (host, gpus):
            self._base.restart(self._problem.running_placement_of[job])
        else:
            c, o = self._start[job]
            put = TaskPlacement(0, host, 1, gpus)
            self._base.keep(self._shape[job], put)
            self._base.start(c, o, (put,), job if job in self.homes else ANY_JOB)


def _remove_movable(base: Placement) -> dict[int, Home]:
    """Stop the running one-task jobs that may move; return them with their hosts and GPUs.

    A share may move only if all shares on its GPU may.
    """
    problem = base.problem
    homes: dict[int, Home] = {}
    for job, running in problem.running.items():
        single = problem.classes[running.job_class].choices[0].is_single_task
        if single and running.places[0][3] and problem.competes(running):
            _, _, host, gpus = running.places[0]
            homes[job] = (host, gpus)
            base.stop(base.start_of(job))
    fixed = [
        job
        for job, (host, gpus) in homes.items()
        if (base.gpu_free[host, list(gpus)] < WHOLE_GPU).any()
    ]
    for job in fixed:
        base.restart(problem.running_placement_of[job])
        del homes[job]
    return homes
