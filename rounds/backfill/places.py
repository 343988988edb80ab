"""Places of jobs of the queue: those of starts now, and those of reservations at later times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.greedy import place_choice
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import Choice, TaskPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.subproblem import residual
from placewright.formulations.plan_messages import Candidate
from placewright.rounds.backfill.profile import (
    NEVER,
    Amounts,
    Profile,
    Reservation,
    fit,
    gpus_taken,
)
from placewright.topology import State
from placewright.topology.units import WHOLE_GPU

SOURCE = "reservations"


class Places:
    """Where jobs start now, and where there is room for them later, beside a profile.

    Attributes
    ----------
    class_of : dict of int to int
        The class of each pending job.
    """

    def __init__(self, problem: Problem, profile: Profile) -> None:
        self._problem, self._profile = problem, profile
        self._now = Placement(problem)
        self._later = replace(residual(problem, {}), classes=())
        self._started: dict[int, list[int]] = {}  # by class, in the order of their starts
        self.class_of = {
            j: c for c, k in enumerate(problem.classes) if not k.running for j in k.jobs
        }

    def candidate(self) -> Candidate:
        """Return the starts of now as a candidate."""
        found = assign(self._now, SOURCE)
        starts, slots = {}, {}
        for c, jobs in self._started.items():
            # Those of a class are interchangeable, and named in the order of their starts.
            for job, named in zip(jobs, self._problem.classes[c].jobs, strict=False):
                starts[job] = found.starts[named]
                if named in found.slots:
                    slots[job] = found.slots[named]
        return replace(found, starts=starts, slots=slots)

    def start(self, job: int, choice: Choice, end: int) -> bool:
        """Start a job now beside all reservations; False if it does not fit."""
        c, placement, document = self.class_of[job], self._now, self._problem.round.jobs[job]
        now = self._problem.round.now
        gpus, resources = self._profile.free(now, end)
        reservations = [*self._profile.reservations, *self._profile.kept]
        held = any(r.at < end for r in reservations)
        keep = np.maximum(placement.whole - gpus, 0) if held else np.zeros_like(gpus)
        spare = np.maximum(placement.free - resources, 0) if held else np.zeros_like(resources)
        within = self._within(choice, end)
        pools = self._profile.pools.of_levels(self._profile.free_of_pools(now, end))
        placement.whole -= keep
        placement.free -= spare
        with placement.pools.no_more_than(pools):
            puts = place_choice(placement, choice, within)
        placement.whole += keep
        placement.free += spare
        if puts is None:
            return False
        placement.start(c, self._problem.classes[c].choices.index(choice), puts)
        self._started.setdefault(c, []).append(job)
        option = document.options[choice.index]
        on = [(p.group, p.host, p.count, p.gpus) for p in puts]
        self._profile.run(document, option, on)
        return True

    def _within(self, choice: Choice, end: int) -> dict[int, Bools]:
        """Return the hosts to which groups may come until `end`, by group, bool (hosts,).

        Parts of GPUs do not come to hosts of which a reservation takes GPUs before `end`.
        """
        open_ = self._profile.open(self._problem.round.now, end)
        reservations = [*self._profile.reservations, *self._profile.kept]
        taken = np.asarray(sum(r.gpus for r in reservations if r.at < end))
        shared: Bools = open_ & (np.broadcast_to(taken, open_.shape) == 0)
        return {
            k: shared if 0 < int(self._problem.shape_gpu[group.shape]) < WHOLE_GPU else open_
            for k, group in enumerate(choice.groups)
        }

    def reservation(self, job: int, choice: Choice, at: int, end: int) -> Reservation | None:
        """Return the reservation of a job at a time, None if it does not fit then.

        It takes hosts that have few free GPUs now, and so leaves the others to longer jobs.
        """
        gpus, resources = self._profile.free(at, end)
        pools = self._profile.free_of_pools(at, end)
        found = self._reservation_within(job, choice, at, gpus, resources, pools)
        if found is None:
            return None
        now, _ = self._profile.free(self._problem.round.now, self._problem.round.now + 1)
        for most in np.unique(now[gpus > 0])[:-1].tolist():
            few = self._reservation_within(
                job, choice, at, np.where(now <= most, gpus, 0), resources, pools
            )
            if few is not None:
                return few
        return found

    def _reservation_within(
        self, job: int, choice: Choice, at: int, gpus: Ints, resources: Ints, pools: Amounts
    ) -> Reservation | None:
        """Return the reservation of a job with these GPUs, resources and pools; None if none."""
        if not self._may_fit(choice, gpus):
            return None
        puts = place_choice(self._placement(gpus, resources, pools), choice)
        if puts is None:
            return None
        places = tuple((group, host, n) for (group, host), n in sorted(_per_host(puts).items()))
        found = self.reserved(job, choice.index, at, places)
        return None if (found.gpus > gpus).any() or not fit(found.pools, pools) else found

    def _may_fit(self, choice: Choice, gpus: Ints) -> bool:
        """Whether each group alone has enough GPUs, whatever else it asks."""
        for group in choice.groups:
            each = max(int(self._problem.shape_gpu[group.shape]), 1)
            allowed = self._problem.shape_allowed[group.shape]
            if int((gpus[allowed] * WHOLE_GPU // each).sum()) < group.count and each > 1:
                return False
        return True

    def _placement(self, gpus: Ints, resources: Ints, pools: Amounts) -> Placement:
        """Return a placement with these GPUs and resources free on hosts, and these pools."""
        cluster = self._problem.cluster
        bare = State.empty(cluster) if self._later.part_demands is None else State.shared(cluster)
        number = np.arange(cluster.num_gpus) - np.repeat(cluster.gpu_start[:-1], cluster.gpu_count)
        bare.gpu_free[number >= np.repeat(gpus, cluster.gpu_count)] = 0
        state = replace(bare, free=resources)
        limits = self._profile.pools.of_levels(pools)
        left = tuple(
            replace(pool, limit=limit)
            for pool, limit in zip(self._later.pools, limits, strict=True)
        )
        return Placement(replace(self._later, state=state, cleared=state, pools=left))

    def reserved(
        self, job: int, option: int, at: int, places: tuple[tuple[int, int, int], ...]
    ) -> Reservation:
        """Return a reservation with (group, host, tasks) of its places."""
        document, cluster = self._problem.round.jobs[job], self._problem.cluster
        chosen, runtime = document.options[option], document.expected_runtime_s
        groups = chosen.groups
        taken = np.zeros(cluster.num_hosts, dtype=np.int64)
        demand = np.zeros_like(cluster.capacity)
        for group, host, number in places:
            taken[host] += gpus_taken(groups[group], number)
            demand[host] += number * self._profile.demand_of(groups[group])
        end = NEVER if runtime is None else at + runtime
        each = [(group, host) for group, host, number in places for _ in range(number)]
        pools = self._profile.pools.taken(chosen, each)
        return Reservation(job, option, at, end, places, taken, demand, pools)

    def of_entry(self, job: int, entry: Mapping[str, Any]) -> Reservation:
        """Return a reservation that a plan's section has; its hosts are still there."""
        index = self._problem.cluster.host_index
        tasks = tuple((t.get("group", 0), index[t["host"]], t["tasks"]) for t in entry["tasks"])
        return self.reserved(job, entry.get("option", 0), entry["at"], tasks)

    def still_fits(self, before: Reservation) -> bool:
        """Whether a reservation of the last round fits as it was."""
        gpus, resources = self._profile.free(before.at, before.end)
        open_ = self._profile.open(before.at, before.end)
        job = self._problem.round.jobs[before.job]
        return (
            bool((before.gpus <= gpus).all() and (before.demand <= resources).all())
            and fit(before.pools, self._profile.free_of_pools(before.at, before.end))
            and all(bool(open_[host]) for _, host, _ in before.tasks)
            and self._profile.within_quota(job, job.options[before.option], before.at, before.end)
        )


def _per_host(puts: list[TaskPlacement]) -> dict[tuple[int, int], int]:
    """Return the tasks of each group on each host."""
    number: dict[tuple[int, int], int] = {}
    for put in puts:
        key = put.group, put.host
        number[key] = number.get(key, 0) + put.count
    return number
