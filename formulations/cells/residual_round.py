"""The residual round: what is left to decide once the places of guaranteed jobs are fixed.

In it guaranteed jobs that run or start are pinned and those that wait are left out. Evicted jobs
are pending: one that starts elsewhere has migrated, one that does not start is preempted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TypeAlias

from placewright.formulations.cells.admission import pinned
from placewright.formulations.cells.eviction import Evictions, evictions
from placewright.formulations.cells.residual_pools import cluster_with_limits
from placewright.formulations.common.priority_classes import PriorityClass
from placewright.formulations.gang.problem.compile import precedence_levels
from placewright.formulations.gang.problem.disruption_budget import DisruptionBudget
from placewright.formulations.gang.problem.entitlement import borrowing_options
from placewright.formulations.gang.problem.priority_classes import priority_classes
from placewright.formulations.gang.problem.quotas import held_before, limits_of, quota_of
from placewright.formulations.gang.problem.terms import OPTION_SUMS
from placewright.formulations.plan_messages import Candidate, Place, Slots
from placewright.instances.derived.cell_trees import guaranteed
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.caps import Cap
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.policy import Policy, TaskKind
from placewright.instances.documents.quantities import MAX_GPU
from placewright.instances.documents.round import Round
from placewright.topology.units import WHOLE_GPU

ADDITIVE_TERMS = (*OPTION_SUMS, "spread", "proximity", "opened", "bottleneck")
"""Terms of the whole round that are those of the residual round plus a constant."""

_DEFINED_TERMS = (*ADDITIVE_TERMS, "disruption", "remaining", "leftover", "share", "stranded")
"""Terms bounded by the residual round; if no guaranteed job starts, all terms are."""

_IMPOSSIBLE = Option(value=0, groups=(TaskGroup(gpu=MAX_GPU // WHOLE_GPU),))
"""An option that fits no host."""

_TaskPlace: TypeAlias = tuple[int, int, int, frozenset[int], int | None]
"""A task in its place: group, index, host, GPUs and slot."""


@dataclass(frozen=True, slots=True)
class ResidualRound:
    """The residual round, and the lifting of its plans to the whole round.

    Parameters
    ----------
    whole
        The round in which some tenant owns cells.
    hosts
        Its hosts, as the indices of places count them.
    round
        The residual round, without cells.
    outer
        For each job of the residual round its index in the whole round.
    borrowed
        Options that are not entitled in the whole round, by job index of the residual round.
    priority_classes
        Those of the whole round.
    placed
        The plan that starts guaranteed jobs, by their indices in the whole round.
    evicted
        The evicted jobs, by their indices in the whole round.
    budget
        The disruption budget of the whole round, if it has one.
    """

    whole: Round
    hosts: Mapping[str, int]
    round: Round
    outer: tuple[int, ...]
    borrowed: Mapping[int, tuple[int, ...]]
    priority_classes: tuple[PriorityClass, ...]
    placed: Candidate
    evicted: Evictions
    budget: DisruptionBudget | None

    def lift(self, found: Candidate) -> Candidate | None:
        """Lift a plan of the residual round to the whole round; None if it is unlawful there.

        It is where a job that is not guaranteed arrives on a host of an evicted job that is
        preempted: only guaranteed jobs may profit from that. It is, too, where an evicted job
        preempts another without arriving on a host of that job, or where the disruption budget of
        the whole round is exceeded.
        """
        starts, slots = dict(self.placed.starts), dict(self.placed.slots)
        kept = set[int]()
        for index, (option, places) in found.starts.items():
            job, mine = self.outer[index], found.slots.get(index, ())
            running = self.whole.jobs[job].running
            if job in self.evicted.jobs and running is not None:
                if self._places_of(running) == _places_of(places, mine):
                    kept.add(job)
                    continue
                option = running.option
            starts[job] = option, places
            if mine:
                slots[job] = mine
        preempted = {
            self.outer[one]: self.outer[by] if by >= 0 else by
            for one, by in found.preempted.items()
        }
        for job in self._stopped_for_budget(starts, preempted, kept):
            del starts[job]
            slots.pop(job, None)
        stopped = {
            job: by for job, by in self.evicted.jobs.items() if job not in starts.keys() | kept
        }
        moved = [job for job in starts if self.whole.jobs[job].running is not None]
        if self.budget is not None and not self.budget.allows(preempted | stopped, moved):
            return None
        closed = self.left_by(stopped)
        for job, (_, places) in starts.items() if closed else ():
            if not closed.isdisjoint(self._arrivals(job, places, slots.get(job, ()))):
                return None
        for job, by in preempted.items():
            if by in self.evicted.jobs and (
                by not in starts
                or self.left_by([job]).isdisjoint(self._new_hosts(by, starts[by][1]))
            ):
                return None
        return Candidate(starts, found.source, preempted | stopped, found.final, slots)

    def _stopped_for_budget(
        self, starts: Collection[int], preempted: Collection[int], kept: Collection[int]
    ) -> list[int]:
        """Return evicted jobs that are preempted rather than moved, to keep the budget."""
        if self.budget is None:
            return []
        moved = [job for job in starts if self.whole.jobs[job].running is not None]
        gone = [job for job in self.evicted.jobs if job not in starts and job not in kept]
        stopped: list[int] = []
        for job in sorted(self.evicted.jobs.keys() & set(moved), reverse=True):
            if self.budget.allows([*preempted, *gone, *stopped], moved):
                break
            moved.remove(job)
            stopped.append(job)
        return stopped

    @property
    def fixed_rank(self) -> int:
        """How many precedences of running jobs lie below that of some job whose start is fixed."""
        levels = precedence_levels(self.round, self.borrowed)
        if self.placed.starts and any(tenant.cells for tenant in self.whole.tenants):
            return len(levels)
        ranks = [0]
        for inner, outer in enumerate(self.outer):
            if outer in self.placed.starts:
                entitled = self.placed.starts[outer][0] not in self.borrowed.get(inner, ())
                mine = entitled, self.round.jobs[inner].priority
                ranks.append(bisect_left(levels, mine))
        return max(ranks)

    def base(self) -> Candidate:
        """Return the plan in which guaranteed jobs start, evicted ones stop, and no more."""
        return replace(self.placed, preempted=self.evicted.jobs)

    def left_by(self, jobs: Collection[int]) -> set[int]:
        """Return the hosts on which some jobs of the whole round run."""
        running = (self.whole.jobs[job].running for job in jobs)
        return {self.hosts[task.host] for one in running if one for task in one.tasks}

    def _arrivals(self, job: int, places: tuple[Place, ...], slots: Slots) -> Iterator[int]:
        """Yield the hosts at which a job arrives; none for guaranteed jobs."""
        if job in self.placed.starts:
            return
        running = self.whole.jobs[job].running
        before = self._places_of(running) if running else set()
        for _, _, host, _, _ in _places_of(places, slots) - before:
            yield host

    def _new_hosts(self, job: int, places: tuple[Place, ...]) -> set[int]:
        """Return the hosts at which tasks of a group arrive that had none there."""
        running = self.whole.jobs[job].running
        before = {(self.hosts[t.host], t.group) for t in running.tasks} if running else set()
        return {host for group, _, host, _ in places if (host, group) not in before}

    def _places_of(self, running: Running) -> set[_TaskPlace]:
        tasks = running.tasks
        places = tuple((t.group, t.index, self.hosts[t.host], t.gpus) for t in tasks)
        return _places_of(places, tuple(task.slot for task in tasks))


def residual_round_of(whole: Round, placed: Candidate) -> ResidualRound:
    """Return the residual round when guaranteed jobs start as given and the others wait.

    Parameters
    ----------
    whole
        A round in which some tenant owns cells.
    placed
        A plan that starts guaranteed jobs.
    """
    names = [name for entry in whole.cluster.hosts for name in expand(entry.name)]
    hosts = {name: at for at, name in enumerate(names)}
    mine = set(guaranteed(whole))
    starts = _starts(placed, names)
    borrowed = borrowing_options(whole)
    evicted = _evicted(whole, starts, mine, borrowed)
    jobs: list[Job] = []
    outer: list[int] = []
    still: dict[int, tuple[int, ...]] = {}
    for j, job in enumerate(whole.jobs):
        if j in mine and j not in starts and job.running is None:
            if "share" not in whole.policy.terms:
                continue
            # Its tenant still counts in that term.
            job = job.model_copy(update={"options": (_IMPOSSIBLE,)})
        if j in borrowed:
            still[len(jobs)] = borrowed[j]
        if j in starts:
            option, tasks = starts[j]
            running = Running.model_construct(option=option, tasks=tasks, pinned=True)
            jobs.append(job.model_copy(update={"running": running}))
        elif j in evicted.jobs and job.running is not None:
            option = job.running.option
            chosen = job.options[option].model_copy(update={"value": job.value_of(option)})
            if option in still.pop(len(jobs), ()):
                still[len(jobs)] = (0,)
            jobs.append(job.model_copy(update={"options": (chosen,), "running": None}))
        else:
            jobs.append(pinned(job) if j in mine else job)
        outer.append(j)
    tenants = tuple(tenant.model_copy(update={"cells": ()}) for tenant in whole.tenants)
    left = whole.model_copy(
        update={
            "jobs": tuple(jobs),
            "tenants": tenants,
            "bindings": (),
            "policy": _policy(whole, some=bool(starts)),
        }
    )
    if evicted.jobs:
        # What evicted jobs hold beyond a capacity counts, too.
        left = left.model_copy(
            update={"cluster": cluster_with_limits(whole), **_limits(left, whole)}
        )
    priorities = priority_classes(whole, borrowed)
    budget = DisruptionBudget.of(whole)
    return ResidualRound(
        whole, hosts, left, tuple(outer), still, priorities, placed, evicted, budget
    )


def evictions_of(whole: Round, placed: Candidate) -> Evictions:
    """Return the running jobs to evict when guaranteed jobs start as given."""
    names = [name for entry in whole.cluster.hosts for name in expand(entry.name)]
    starts = _starts(placed, names)
    return _evicted(whole, starts, set(guaranteed(whole)), borrowing_options(whole))


def _starts(placed: Candidate, names: list[str]) -> dict[int, tuple[int, tuple[Task, ...]]]:
    """Return option and tasks of each job that starts; `names` are those of the hosts."""
    starts: dict[int, tuple[int, tuple[Task, ...]]] = {}
    for j, (option, places) in placed.starts.items():
        slots = placed.slots.get(j) or (None,) * len(places)
        starts[j] = option, tuple(map(_task, places, slots, repeat(names)))
    return starts


def _limits(left: Round, whole: Round) -> dict[str, object]:
    """Return tenants and caps with as much as their jobs may hold after the whole round."""
    limits = limits_of(whole)
    held = held_before(whole, limits)
    most = {
        account: {measure: max(limit, held[account][measure]) for measure, limit in mine.items()}
        for account, mine in limits.items()
    }
    tenants = tuple(
        one.model_copy(update={"quota": quota_of(most.get(("tenant", one.name), {}))})
        for one in left.tenants
    )
    caps = {name: Cap.of(most.get(("cap", name), {})) for name in left.caps}
    return {"tenants": tenants, "caps": caps}


def _policy(whole: Round, *, some: bool) -> Policy:
    """Return the policy of the residual round: the terms that it bounds, and the same mix."""
    policy = whole.policy
    terms = [term for term in policy.terms if not some or term in _DEFINED_TERMS]
    mix = policy.mix
    if "stranded" in terms and mix is None:
        mix = _mix(whole)
        if mix is None:
            terms.remove("stranded")
    return policy.model_copy(update={"terms": tuple(terms) or ("value",), "mix": mix})


def _mix(whole: Round) -> tuple[TaskKind, ...] | None:
    """Return the tasks of a round as a mix; None if some ask for named resources."""
    kinds: list[TaskKind] = []
    for job in whole.jobs:
        option = job.options[0 if job.running is None else job.running.option]
        for group in option.groups:
            if group.mig is not None:
                continue  # the term leaves slices out
            if group.resources:
                return None
            kinds.append(
                TaskKind.model_construct(
                    gpu=group.gpu,
                    cpu=group.cpu,
                    memory=group.memory,
                    gpu_models=group.gpu_models,
                    weight=group.count,
                )
            )
    return tuple(kinds)


def _evicted(
    whole: Round,
    starts: Mapping[int, tuple[int, tuple[Task, ...]]],
    mine: set[int],
    borrowed: Mapping[int, tuple[int, ...]],
) -> Evictions:
    jobs = whole.jobs
    running = [(j, one.running) for j, one in enumerate(jobs) if one.running is not None]
    stay = {j for j, one in running if one.pinned or j in mine}
    others = [(j in borrowed and one.option in borrowed[j], j) for j, one in running]
    order = sorted((late, -jobs[j].priority, j) for late, j in others if j not in stay)
    return evictions(whole, starts, stay, [j for _, _, j in order])


def _task(place: Place, slot: int | None, names: list[str]) -> Task:
    group, index, host, gpus = place
    return Task.model_construct(group=group, index=index, host=names[host], gpus=gpus, slot=slot)


def _places_of(places: tuple[Place, ...], slots: Slots) -> set[_TaskPlace]:
    return {
        (group, index, host, frozenset(gpus), slot)
        for (group, index, host, gpus), slot in zip(
            places, slots or (None,) * len(places), strict=True
        )
    }
