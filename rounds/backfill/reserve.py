"""Reservations: the first waiting jobs start now, or get the earliest time at which they fit.

With depth 1 this is EASY backfilling (Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995), with
all jobs conservative backfilling (Mu'alem and Feitelson, IEEE TPDS 12, 2001).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.greedy import lift_all, place_choice
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import Choice, TaskPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.residual import residual
from placewright.formulations.plan_messages import Candidate
from placewright.instances.derived.waiting import queue
from placewright.instances.documents.option import Option
from placewright.rounds.backfill.profile import NEVER, Profile, Reservation, gpus_taken
from placewright.topology import State
from placewright.topology.units import WHOLE_GPU

SOURCE = "reservations"


@dataclass(frozen=True, slots=True)
class Reserved:
    """The jobs at the head of the queue: those that start now, and those with a reservation."""

    starts: Candidate
    reservations: list[Reservation] = field(default_factory=list)


def reserve(problem: Problem) -> Reserved:
    """Return which jobs at the head of the queue start, and the reservations of the others.

    Parameters
    ----------
    problem
        A round whose policy has `backfill`, compiled.
    """
    backfill = problem.round.policy.backfill
    if backfill is None:
        return Reserved(Candidate({}, SOURCE))
    order = queue(problem.round)
    depth = len(order) if backfill.depth == "all" else backfill.depth
    heads = _Heads(problem)
    for job in order:
        if len(heads.profile.reservations) == depth:
            break
        heads.add(job)
    return Reserved(heads.candidate(), heads.profile.reservations)


class _Heads:
    """Jobs at the head of the queue, added one after the other."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self.profile = Profile(problem)
        self._now = Placement(problem)
        self._later = replace(residual(problem, {}), classes=())
        self._started: dict[int, list[int]] = {}  # by class, in the order of their starts
        self._class_of = {
            j: c for c, k in enumerate(problem.classes) if not k.running for j in k.jobs
        }

    def add(self, job: int) -> None:
        """Start a job now if it fits, or reserve for it; do nothing if no time is known."""
        c = self._class_of[job]
        choices = sorted(self._problem.classes[c].choices, key=lambda choice: -choice.value)
        document = self._problem.round.jobs[job]
        runtime = document.expected_runtime_s
        times = self.profile.times()
        least = min(sum(group.milli_gpu for group in choice.groups) for choice in choices)
        for at, most in zip(times, self.profile.most_gpus(times).tolist(), strict=True):
            if at > self._problem.round.now and most * WHOLE_GPU < least:
                continue
            end = NEVER if runtime is None else at + runtime
            for choice in choices:
                option = document.options[choice.index]
                if not self.profile.within_quota(document, option, at, end):
                    continue
                if at == self._problem.round.now:
                    if self._start(job, c, choice, end):
                        return
                elif found := self._reservation(job, choice, option, at, end):
                    self.profile.reserve(found)
                    return

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

    def _start(self, job: int, c: int, choice: Choice, end: int) -> bool:
        """Start a job now beside all reservations; False if it does not fit."""
        placement, document = self._now, self._problem.round.jobs[job]
        gpus, resources = self.profile.free(self._problem.round.now, end)
        held = any(r.at < end for r in self.profile.reservations)
        keep = np.maximum(placement.whole - gpus, 0) if held else np.zeros_like(gpus)
        spare = np.maximum(placement.free - resources, 0) if held else np.zeros_like(resources)
        shared = self._without_reservation(end) if held else None
        within = (
            {
                k: shared
                for k, group in enumerate(choice.groups)
                if 0 < int(self._problem.shape_gpu[group.shape]) < WHOLE_GPU
            }
            if shared is not None
            else {}
        )
        placement.whole -= keep
        placement.free -= spare
        puts = place_choice(placement, choice, within)
        placement.whole += keep
        placement.free += spare
        if puts is None:
            return False
        placement.start(c, self._problem.classes[c].choices.index(choice), puts)
        self._started.setdefault(c, []).append(job)
        option = document.options[choice.index]
        on = [(p.group, p.host, p.count, p.gpus) for p in puts]
        self.profile.run(document, option, on)
        return True

    def _without_reservation(self, end: int) -> Bools:
        """Return the hosts of which no reservation before `end` takes a GPU, bool (hosts,)."""
        taken = sum(r.gpus for r in self.profile.reservations if r.at < end)
        free: Bools = np.broadcast_to(np.asarray(taken) == 0, self._now.whole.shape)
        return free

    def _reservation(
        self, job: int, choice: Choice, option: Option, at: int, end: int
    ) -> Reservation | None:
        """Return the reservation of a job at a time, None if it does not fit then."""
        gpus, resources = self.profile.free(at, end)
        if not self._may_fit(choice, gpus):
            return None
        placement = self._placement(gpus, resources)
        puts = place_choice(placement, choice)
        if puts is None:
            return None
        tasks = tuple(sorted(_per_host(puts).items()))
        taken, demand = np.zeros_like(gpus), np.zeros_like(resources)
        for (group, host), number in tasks:
            taken[host] += gpus_taken(option.groups[group], number)
            demand[host] += number * self.profile.demand_of(option.groups[group])
        lift_all(placement, choice, puts)
        if (taken > gpus).any():
            return None
        places = tuple((group, host, number) for (group, host), number in tasks)
        return Reservation(job, choice.index, at, end, places, taken, demand)

    def _may_fit(self, choice: Choice, gpus: Ints) -> bool:
        """Whether each group alone has enough GPUs, whatever else it asks."""
        for group in choice.groups:
            each = max(int(self._problem.shape_gpu[group.shape]), 1)
            allowed = self._problem.shape_allowed[group.shape]
            if int((gpus[allowed] * WHOLE_GPU // each).sum()) < group.count and each > 1:
                return False
        return True

    def _placement(self, gpus: Ints, resources: Ints) -> Placement:
        """Return a placement with this many free GPUs and resources on each host."""
        cluster = self._problem.cluster
        bare = State.empty(cluster) if self._later.part_demands is None else State.shared(cluster)
        number = np.arange(cluster.num_gpus) - np.repeat(cluster.gpu_start[:-1], cluster.gpu_count)
        bare.gpu_free[number >= np.repeat(gpus, cluster.gpu_count)] = 0
        state = replace(bare, free=resources)
        return Placement(replace(self._later, state=state, cleared=state))


def _per_host(puts: list[TaskPlacement]) -> dict[tuple[int, int], int]:
    """Return the tasks of each group on each host."""
    number: dict[tuple[int, int], int] = {}
    for put in puts:
        key = put.group, put.host
        number[key] = number.get(key, 0) + put.count
    return number
