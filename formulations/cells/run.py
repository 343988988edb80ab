"""Cells: the gang formulation decides the residual round; plans and bounds are lifted."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TypeAlias

import numpy as np

from placewright.formulations.cells.admission import (
    Admission,
    Evictions,
    admit,
    cluster_with_limits,
    evictions,
    pinned,
)
from placewright.formulations.common.priority_classes import PriorityClass
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.disruption_budget import repair_disruptions
from placewright.formulations.gang.placement.greedy import fill_greedily
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import precedence_levels
from placewright.formulations.gang.problem.jobs import priority_classes
from placewright.formulations.gang.problem.limits import (
    OPTION_SUMS,
    DisruptionBudget,
    QuotaKey,
    account_numbers,
    borrowing_options,
    held_before,
    limits_of,
    quota_of,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.shapes import Pool
from placewright.formulations.plan_messages import Bound, Candidate, Place, Slots
from placewright.formulations.session import BestKnown, Session
from placewright.instances.derived.arrays import pools_of, running_places
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

# The residual round: what is left to decide once the places of guaranteed jobs are fixed.
#
# In it guaranteed jobs that run or start are pinned and those that wait are left out. Evicted jobs
# are pending: one that starts elsewhere has migrated, one that does not start is preempted.


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
    """The residual round, and the lifting of its plans to the whole round."""

    whole: Round  # The round in which some tenant owns cells
    hosts: Mapping[str, int]  # Its hosts, as the indices of places count them
    round: Round  # The residual round, without cells
    outer: tuple[int, ...]  # For each job of the residual round its index in the whole round
    # Options that are not entitled in the whole round, by job index of the residual round.
    borrowed: Mapping[int, tuple[int, ...]]
    priority_classes: tuple[PriorityClass, ...]  # Those of the whole round
    placed: Candidate  # The plan that starts guaranteed jobs, by their indices in the whole round
    evicted: Evictions  # The evicted jobs, by their indices in the whole round
    budget: DisruptionBudget | None  # The disruption budget of the whole round, if it has one

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

    `whole`: a round in which some tenant owns cells. `placed`: a plan that starts guaranteed jobs.
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
    update = {"terms": tuple(terms) or ("value",), "mix": mix, "keep_sizes": not whole.resizes}
    return policy.model_copy(update=update)


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


# Admission within the disruption budget: guaranteed jobs whose evictions exceed it wait.
#
# Evictions count before anything else that the plan does to running jobs, each as a preemption.
# Where they exceed the budget, all jobs that start do so beside what runs, if there is room.
# Else, in the order of admission, the first job with which the evictions exceed the budget waits,
# and the others are admitted anew without it.


def admit_within_budget(round_: Round) -> tuple[Admission, frozenset[int]]:
    """Return the admission of a round, and the guaranteed jobs that wait for the budget's sake."""
    budget, limited = DisruptionBudget.of(round_), frozenset[int]()
    while True:
        admission = admit(round_, without=limited)
        beyond = None if budget is None else _first_beyond(round_, budget, admission)
        if budget is None or beyond is None:
            return admission, limited
        beside = admit(round_, without=limited, beside_all=True)
        same = beside.placed.starts.keys() == admission.placed.starts.keys()
        if same and _first_beyond(round_, budget, beside) is None:
            return beside, limited
        limited |= {beyond}


def _first_beyond(round_: Round, budget: DisruptionBudget, admission: Admission) -> int | None:
    """Return a job with which the evictions exceed the budget, None if they never do.

    Without it and those that start after it they do not.
    """
    placed = admission.placed
    order = sorted(placed.starts, key=lambda job: (-round_.jobs[job].priority, job))

    def within(number: int) -> bool:
        first = replace(placed, starts={job: placed.starts[job] for job in order[:number]})
        return budget.allows(evictions_of(round_, first).jobs, ())

    if within(len(order)):
        return None
    most, beyond = 0, len(order)
    while beyond - most > 1:
        middle = (most + beyond) // 2
        if within(middle):
            most = middle
        else:
            beyond = middle
    return order[most]


def _offsets(rest: ResidualRound, base: Mapping[str, int], problem: Problem) -> dict[str, int]:
    """Return, per term, by how much the whole round's value exceeds that of the residual round.

    Exact for additive terms, and 0 where both rounds have the same value; otherwise low enough that
    a lifted bound is a bound.
    """
    if not rest.placed.starts:
        return dict.fromkeys(base, 0)
    least = {"disruption": rest.evicted.min_cost, "leftover": -_may_stay(rest, problem)}
    return {
        term: value if term in ADDITIVE_TERMS else least.get(term, 0)
        for term, value in base.items()
    }


def _may_stay(rest: ResidualRound, problem: Problem) -> int:
    """Return the milli-GPU of hosts on which a task of an evicted job might stay.

    The residual round knows evicted jobs as pending, so that each of their tasks arrives somewhere.
    Of a job that migrates some may stay where they are: there `leftover` counts nothing.
    """
    several = [
        job
        for job in rest.evicted.jobs
        if (running := rest.whole.jobs[job].running) is not None and len(running.tasks) > 1
    ]
    gpus = np.diff(problem.cluster.gpu_start)
    return WHOLE_GPU * int(gpus[sorted(rest.left_by(several))].sum())


@dataclass(frozen=True, slots=True, eq=False)
class CellProblem:
    """A round of which the places of guaranteed jobs are fixed."""

    rest: ResidualRound  # The residual round, with the plan that fixes them
    base: Mapping[str, int]  # The terms of `rest.base()` in the whole round
    gangs: Problem  # The compiled residual round


def run(cells: CellProblem, session: Session) -> Iterator[Candidate | Bound]:
    """Yield candidates and bounds of the whole round from those of the residual round.

    The session's gang formulation decides the residual round. Bounds hold for plans in which
    guaranteed jobs have these places. Other jobs may arrive on a host of evicted ones only if these
    find another place, which is no constraint of the gang models. So the first plan is greedy and
    avoids these hosts; if later ones are unlawful, a second search that avoids them comes last.
    """
    rest = cells.rest
    problem = replace(
        cells.gangs,
        fixed_rank=rest.fixed_rank,
        has_reservations=rest.round.policy.backfill is not None,
    )
    offset = _offsets(rest, cells.base, problem)
    has_plan = session.best is not None
    left = sorted(rest.left_by(rest.evicted.jobs))
    if not left:
        yield from _lift_all(rest, offset, problem, session, has_plan=has_plan)
        return
    problem = _with_busy_hosts(problem, left)
    open_ = problem.open.copy()
    open_[left] = False
    closed = replace(
        problem,
        open=open_,
        quota=_quota_left(rest, problem),
        pools=_pools_left(rest, problem),
        budget=_budget_left(rest, problem),
    )
    placement = Placement(closed)
    fill_greedily(placement)
    repair_disruptions(placement)
    lifted = rest.lift(assign(placement, "greedy"))
    if lifted is None:
        raise AssertionError("a plan arrives on hosts of evicted jobs; expected none")
    yield lifted
    unlawful = yield from _lift_all(rest, offset, problem, session, has_plan=has_plan)
    if unlawful and not session.proven and not session.expired():
        for step in _lift_all(rest, offset, closed, session, has_plan=has_plan):
            if isinstance(step, Candidate):
                yield step
    if session.best is None:
        yield rest.base()


def _budget_left(rest: ResidualRound, problem: Problem) -> DisruptionBudget | None:
    """Return what is left of the disruption budget if all evicted jobs are preempted."""
    if rest.budget is None or problem.budget is None:
        return None
    return problem.budget.after(rest.budget.used(rest.evicted.jobs, ()))


def _pools_left(rest: ResidualRound, problem: Problem) -> tuple[Pool, ...]:
    """Return the pools without what evicted jobs gave back of them."""
    evicted = (rest.whole.jobs[job] for job in rest.evicted.jobs)
    held = running_places(evicted, problem.cluster)
    entries = [one for one in pools_of(rest.whole, problem.cluster) if one.pool.level is not None]
    left = Placement(problem).pools.left
    return tuple(
        replace(pool, limit=pool.limit - np.clip(entry.held(held), 0, np.maximum(free, 0)))
        for pool, entry, free in zip(problem.pools, entries, left, strict=True)
    )


def _quota_left(rest: ResidualRound, problem: Problem) -> dict[QuotaKey, int]:
    """Return the quotas; of pools without what evicted jobs gave back."""
    if not rest.whole.cluster.pools:
        return problem.quota
    numbers = account_numbers(rest.whole)
    pools = {numbers["pool", pool.resource] for pool in rest.whole.cluster.pools}
    quota, free = dict(problem.quota), Placement(problem).quota_left()
    for inner, outer in enumerate(rest.outer):
        if outer in rest.evicted.jobs:
            evicted = problem.classes[problem.class_of[inner]]
            problem.charge_quota(quota, evicted.accounts, evicted.choices[0])
    return {
        key: max(quota[key], most - max(free[key], 0)) if key[0] in pools else most
        for key, most in problem.quota.items()
    }


def _with_busy_hosts(problem: Problem, hosts: Sequence[int]) -> Problem:
    """Return the problem with hosts in use, as evicted jobs still run there."""
    state, cleared = problem.state.copy(), problem.cleared.copy()
    for each in (state, cleared):
        each.busy[hosts] = True
    return replace(problem, state=state, cleared=cleared)


def _lift_all(
    rest: ResidualRound,
    offset: Mapping[str, int],
    problem: Problem,
    session: Session,
    *,
    has_plan: bool,
) -> Generator[Candidate | Bound, None, bool]:
    """Run the gang formulation with a session of its own, and lift what it yields.

    Its session learns the best known plan after its first step; if `has_plan`, before. Returns
    whether some candidate was unlawful in the whole round.
    """
    unlawful = False
    first = problem.terms[0]
    inner = session.inner()
    if has_plan:
        _inform(inner.best_known, session, offset, first)
    for step in inner.gang(problem, inner):
        if isinstance(step, Bound):
            yield _bound(step, offset)
        elif (lifted := rest.lift(step)) is not None:
            yield lifted
        else:
            unlawful = True
        _inform(inner.best_known, session, offset, first)
    return unlawful


def _inform(best_known: BestKnown, session: Session, offset: Mapping[str, int], first: str) -> None:
    """Set what is best known of the residual round to that of the whole round, less the offset."""
    best_known.proven = session.proven
    if session.best is None:
        return
    best_known.values = {term: value - offset[term] for term, value in session.best.items()}
    best_known.bounds = {
        term: bound - offset[term] for term, bound in session.best_known.bounds.items()
    }
    if next(iter(session.best)) == first:
        bound = session.first_bound
        best_known.first_bound = None if bound is None else bound - offset[first]


def _bound(bound: Bound, offset: Mapping[str, int]) -> Bound:
    """Lift a bound to the whole round; no host has less than nothing left over."""
    value = bound.value + offset[bound.term]
    return replace(
        bound,
        value=max(value, 0.0) if bound.term == "leftover" else value,
        holds=tuple((term, value + offset[term]) for term, value in bound.holds),
    )
