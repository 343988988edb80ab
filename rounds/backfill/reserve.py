"""Reservations: the first waiting jobs start now, or get the earliest time at which they fit.

With depth 1 this is EASY backfilling (Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995), with
all jobs conservative backfilling (Mu'alem and Feitelson, IEEE TPDS 12, 2001).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.greedy import place_choice
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import Choice, TaskPlacement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.residual import residual
from placewright.formulations.plan_messages import Candidate
from placewright.instances.derived.waiting import queue
from placewright.rounds.backfill.profile import NEVER, Profile, Reservation, gpus_taken
from placewright.topology import State
from placewright.topology.units import WHOLE_GPU

SOURCE = "reservations"
NOTHING: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Reserved:
    """The jobs at the head of the queue: those that start now, and those with a reservation."""

    starts: Candidate
    reservations: list[Reservation] = field(default_factory=list)


def reserve(problem: Problem, last: Mapping[str, Mapping[str, Any]] = NOTHING) -> Reserved:
    """Return which jobs at the head of the queue start, and the reservations of the others.

    Parameters
    ----------
    problem
        A round whose policy has `backfill`, compiled.
    last
        The reservations of the last round, by the name of the job, as its plan has them.
    """
    backfill = problem.round.policy.backfill
    if backfill is None:
        return Reserved(Candidate({}, SOURCE))
    order = queue(problem.round)
    depth = len(order) if backfill.depth == "all" else backfill.depth
    heads = _Heads(problem, last)
    for job in order:
        if len(heads.profile.reservations) == depth:
            break
        heads.add(job)
    heads.profile.kept = []
    return Reserved(heads.candidate(), heads.profile.reservations)


class _Heads:
    """Jobs at the head of the queue, added one after the other."""

    def __init__(self, problem: Problem, last: Mapping[str, Mapping[str, Any]]) -> None:
        self._problem = problem
        self.profile = Profile(problem)
        self._now = Placement(problem)
        self._later = replace(residual(problem, {}), classes=())
        self._started: dict[int, list[int]] = {}  # by class, in the order of their starts
        self._class_of = {
            j: c for c, k in enumerate(problem.classes) if not k.running for j in k.jobs
        }
        self._last = {
            j: found
            for j, job in enumerate(problem.round.jobs)
            if job.name in last and j in self._class_of
            if (found := self._of_last(j, last[job.name])) is not None
        }
        self._newcomers = False

    def add(self, job: int) -> None:
        """Start a job now if it fits, or reserve for it; do nothing if no time is known.

        A job that had a reservation in the last round leaves the others of that round as they are,
        and keeps its own if it finds no earlier one.
        """
        before = self._last.pop(job, None)
        self.profile.kept = [] if before is None else list(self._last.values())
        number = len(self.profile.reservations)
        started = sum(map(len, self._started.values()))
        if not self._add(job, before) and self.profile.kept:
            self.profile.kept = []
            self._add(job, before)
        if len(self.profile.reservations) > number and before is not None:
            found = self.profile.reservations[-1]
            cause = self._cause() if found.at > before.at else None
            self.profile.reservations[-1] = found._replace(was=before.at, cause=cause)
        elif before is None and (
            len(self.profile.reservations) > number
            or sum(map(len, self._started.values())) > started
        ):
            self._newcomers = True

    def _cause(self) -> str:
        """Say why a reservation of the last round cannot be kept."""
        if self._newcomers:
            return "arrival"
        jobs, now = self._problem.round.jobs, self._problem.round.now
        overran = any(
            job.running.started + job.expected_runtime_s <= now
            for job in jobs
            if job.running and job.running.started is not None and job.expected_runtime_s
        )
        return "overrun" if overran else "capacity"

    def _of_last(self, job: int, entry: Mapping[str, Any]) -> Reservation | None:
        """Return a reservation of the last round; None if its time has come or a host is gone."""
        document, index = self._problem.round.jobs[job], self._problem.cluster.host_index
        if entry["at"] <= self._problem.round.now or entry["option"] >= len(document.options):
            return None
        if any(task["host"] not in index for task in entry["tasks"]):
            return None
        places = tuple((t["group"], index[t["host"]], t["tasks"]) for t in entry["tasks"])
        return self._reserved(job, entry["option"], entry["at"], places)

    def _reserved(
        self, job: int, option: int, at: int, places: tuple[tuple[int, int, int], ...]
    ) -> Reservation:
        """Return a reservation with (group, host, tasks) of its places."""
        document, cluster = self._problem.round.jobs[job], self._problem.cluster
        groups, runtime = document.options[option].groups, document.expected_runtime_s
        taken = np.zeros(cluster.num_hosts, dtype=np.int64)
        demand = np.zeros_like(cluster.capacity)
        for group, host, number in places:
            taken[host] += gpus_taken(groups[group], number)
            demand[host] += number * self.profile.demand_of(groups[group])
        end = NEVER if runtime is None else at + runtime
        return Reservation(job, option, at, end, places, taken, demand)

    def _still_fits(self, before: Reservation) -> bool:
        """Whether a reservation of the last round fits as it was."""
        gpus, resources = self.profile.free(before.at, before.end)
        job = self._problem.round.jobs[before.job]
        return (
            bool((before.gpus <= gpus).all() and (before.demand <= resources).all())
            and all(bool(self._problem.open[host]) for _, host, _ in before.tasks)
            and self.profile.within_quota(job, job.options[before.option], before.at, before.end)
        )

    def _add(self, job: int, before: Reservation | None) -> bool:
        """Start a job or reserve for it; False if no time is known."""
        c = self._class_of[job]
        choices = sorted(self._problem.classes[c].choices, key=lambda choice: -choice.value)
        document = self._problem.round.jobs[job]
        runtime = document.expected_runtime_s
        times = self.profile.times()
        if before is not None:
            times = sorted({*times, before.at})
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
                        return True
                elif found := self._reservation(job, choice, at, end):
                    self.profile.reserve(found)
                    return True
            if before is not None and at == before.at and self._still_fits(before):
                self.profile.reserve(before)
                return True
        return False

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
        reservations = [*self.profile.reservations, *self.profile.kept]
        held = any(r.at < end for r in reservations)
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
        reservations = [*self.profile.reservations, *self.profile.kept]
        taken = sum(r.gpus for r in reservations if r.at < end)
        free: Bools = np.broadcast_to(np.asarray(taken) == 0, self._now.whole.shape)
        return free

    def _reservation(self, job: int, choice: Choice, at: int, end: int) -> Reservation | None:
        """Return the reservation of a job at a time, None if it does not fit then."""
        gpus, resources = self.profile.free(at, end)
        if not self._may_fit(choice, gpus):
            return None
        placement = self._placement(gpus, resources)
        puts = place_choice(placement, choice)
        if puts is None:
            return None
        places = tuple((group, host, n) for (group, host), n in sorted(_per_host(puts).items()))
        found = self._reserved(job, choice.index, at, places)
        return None if (found.gpus > gpus).any() else found

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
