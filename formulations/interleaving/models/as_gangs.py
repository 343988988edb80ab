"""A gang round in which each job group is one job, and how its plans are lifted.

A job group with an anchor is a running job there. Its precedence is that of its highest member
then, and that of its lowest if it arrives: so a preemptor strictly precedes its victim.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import le
from typing import Protocol

from placewright.formulations.common.priority_classes import precedence_of
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.quotas import accounts_of, limits_of
from placewright.formulations.interleaving.placement.disruption_budget import (
    budget_of_groups,
    is_within_budget,
)
from placewright.formulations.interleaving.placement.kept_places import (
    keep_places,
    members_in_place,
    stop_cost,
)
from placewright.formulations.interleaving.placement.usage_in_place import (
    places_of,
    running_of,
    within_quotas,
)
from placewright.formulations.interleaving.problem.compile import OBJECTIVES, Interleaving
from placewright.formulations.interleaving.problem.job_groups import class_values, group_value
from placewright.formulations.interleaving.problem.merged_groups import merged_option
from placewright.formulations.plan_messages import Candidate, Group, Place, Slots
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option
from placewright.instances.documents.round import Round
from placewright.instances.documents.sharing import Sharing


class ValueOf(Protocol):
    """The value of a job group as a gang with an option."""

    def __call__(self, problem: Interleaving, job_group: Group, option: int = 0, /) -> int:
        """Return the value."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class GangRound:
    """Job groups, and the round in which they are gangs.

    Attributes
    ----------
    job_groups : tuple of Group
        Jobs that share GPUs or have theirs alone; no job twice.
    anchors : tuple of int or None
        For each job group a running member whose place it keeps.
    staying : tuple of Group
        Groups of jobs that stay as they are.
    round : Round
        Of policy `gang`: a job per group in their order, then one per place that stays. It has no
        disruption budget, which counts members: `compile` adds that.
    """

    problem: Interleaving
    job_groups: tuple[Group, ...]
    anchors: tuple[int | None, ...]
    staying: tuple[Group, ...]
    round: Round

    def lift(self, plan: Candidate) -> Candidate | None:
        """Return a plan of the gangs as one of the round; None if it is not valid there.

        So it is if a running job finds no place, if who preempts is not of higher precedence, if a
        quota or cap would be exceeded, or beyond the disruption budget.
        """
        starts: dict[int, tuple[int, tuple[Place, ...]]] = {}
        slots: dict[int, Slots] = {}
        groups = list(self.staying)
        for number, (job_group, anchor) in enumerate(
            zip(self.job_groups, self.anchors, strict=True)
        ):
            start = plan.starts.get(number)
            in_place = () if anchor is None else members_in_place(self.problem, job_group, anchor)
            if number in plan.preempted or (start is None and anchor is None):
                if any(
                    j in self.problem.colocated and j not in in_place for j in job_group.members
                ):
                    return None
                continue
            option, places = self._place_of(anchor) if start is None else start
            if len(job_group.members) == 1:
                option = options_alone(
                    self.problem.round, self.problem.round.jobs[job_group.members[0]]
                )[option]
            for j in job_group.members:
                running = self.problem.round.jobs[j].running
                if start is None and j in in_place:
                    continue
                if running and _same_places(self.problem, j, places, plan.slots.get(number, ())):
                    continue
                starts[j] = option, tuple(places)
                if number in plan.slots:
                    slots[j] = plan.slots[number]
            if len(job_group.members) > 1:
                groups.append(job_group)
        preempted = self._preempted(plan, starts)
        if preempted is None or not within_quotas(self.problem, starts, preempted):
            return None
        lifted = Candidate(starts, plan.source, preempted, slots=slots, groups=tuple(groups))
        return lifted if is_within_budget(self.problem, lifted) else None

    def compile(self) -> Problem:
        """Return the problem of the gangs; they count in the disruption budget with all members."""
        budget = budget_of_groups(self.problem, self.job_groups, self.anchors)
        return replace(compile_round(self.round), budget=budget)

    def _place_of(self, anchor: int | None) -> tuple[int, tuple[Place, ...]]:
        """Return where a running job is, as a gang with the one option that it runs."""
        if anchor is None:
            raise AssertionError(
                "a job group without an anchor has no place; expected one with an anchor"
            )
        return 0, places_of(self.problem, anchor)

    def _preempted(
        self, plan: Candidate, starts: dict[int, tuple[int, tuple[Place, ...]]]
    ) -> dict[int, int] | None:
        """Return who displaces each preempted job; None if that is against its precedence."""
        if not plan.preempted:
            return {}
        jobs = self.problem.round.jobs
        arrivals: defaultdict[int, set[int]] = defaultdict(set)
        for j, (_, places) in starts.items():
            before = set() if jobs[j].running is None else set(places_of(self.problem, j))
            for place in set(places) - before:
                arrivals[place[2]].add(j)
        preempted: dict[int, int] = {}
        for number in plan.preempted:
            anchor = self.anchors[number]
            in_place = (
                ()
                if anchor is None
                else members_in_place(self.problem, self.job_groups[number], anchor)
            )
            for j in in_place:
                own = precedence_of(jobs[j])
                hosts = {place[2] for place in places_of(self.problem, j)}
                arriving = {one for host in hosts for one in arrivals[host]}
                new_jobs = [one for one in arriving if jobs[one].running is None]
                if not new_jobs or min(precedence_of(jobs[one]) for one in arriving) <= own:
                    return None
                preempted[j] = max(new_jobs, key=lambda one: (precedence_of(jobs[one]), -one))
        return preempted


def build_gang_round(
    problem: Interleaving,
    job_groups: Sequence[Group],
    staying: Sequence[Group],
    *,
    by_class: bool = False,
) -> GangRound:
    """Return the round in which job groups are gangs.

    Parameters
    ----------
    job_groups
        Groups of jobs of the packing problem; jobs in none of them wait, so all that run should
        be in one.
    staying
        Groups of the jobs that stay, and those of them that have their GPUs alone.
    by_class
        Whether the gangs have the priority classes of the round, as jobs on their own may. Else
        their values are weighted by class.
    """
    anchors = keep_places(problem, job_groups)
    value = _unweighted if by_class else group_value
    jobs = [
        _job(problem, n, anchors[n], job_group, value) for n, job_group in enumerate(job_groups)
    ]
    jobs += [
        _staying_job(problem, len(job_groups) + n, job_group) for n, job_group in enumerate(staying)
    ]
    policy = problem.round.policy.model_copy(
        update={
            "formulation": "gang",
            "terms": _terms(problem),
            "limits": None,
            "priority": "strict" if by_class else "preemption",
        }
    )
    update = {
        "jobs": tuple(jobs),
        "policy": policy,
        "tenants": (),
        "caps": {},
        "sharing": Sharing(),
    }
    shared = tuple(job_group for job_group in staying if len(job_group.members) > 1)
    round_ = problem.round.model_copy(update=update)
    return GangRound(problem, tuple(job_groups), tuple(anchors), shared, round_)


def _terms(problem: Interleaving) -> tuple[str, ...]:
    """Return the terms of the gang round: the value of a gang is that of its job group."""
    terms = problem.round.policy.terms
    return tuple(
        "value" if term == problem.objective else term
        for term in terms
        if term == problem.objective or term not in OBJECTIVES
    )


def _unweighted(problem: Interleaving, job_group: Group, option: int = 0) -> int:
    """Return what a job group adds to the priority classes of its members."""
    return sum(class_values(problem, job_group, option))


def _job(
    problem: Interleaving, number: int, anchor: int | None, job_group: Group, value: ValueOf
) -> Job:
    """Return a job group as a job, which runs if it has an anchor."""
    jobs = [problem.round.jobs[j] for j in job_group.members]
    ranked = sorted(jobs, key=precedence_of)
    of = ranked[0 if anchor is None else -1]
    running = None if anchor is None else _running(problem, job_group, anchor)
    return jobs[0].model_copy(
        update={
            "name": f"group-{number}",
            "tenant": None,
            "caps": (),
            "priority": of.priority,
            "opportunistic": of.opportunistic,
            "options": _options(problem, job_group, value),
            "running": running,
            "profile": None,
        }
    )


def _options(problem: Interleaving, job_group: Group, value: ValueOf) -> tuple[Option, ...]:
    jobs = [problem.round.jobs[j] for j in job_group.members]
    if len(jobs) > 1:
        merged = merged_option(jobs, problem.sharing)
        groups = merged.groups
        if job_group.members in problem.frozen_groups:
            # It may stay or stop, but arrive nowhere.
            groups = tuple(group.model_copy(update={"hosts": ()}) for group in groups)
        update = {"groups": groups, "value": value(problem, job_group)}
        return (merged.model_copy(update=update),)
    return tuple(
        jobs[0].options[index].model_copy(update={"value": value(problem, job_group, index)})
        for index in options_alone(problem.round, jobs[0])
    )


def options_alone(round_: Round, job: Job) -> Sequence[int]:
    """Return the options of a job on its own, within what the rows assume of quotas and caps."""
    if job.running is not None:
        return (job.running.option,)
    limits = limits_of(round_)
    measures = {m: None for account in accounts_of(job) for m in limits.get(account, ())}
    if not measures or len(job.options) == 1:
        return range(len(job.options))
    held = [[measure.asked_by(option) for measure in measures] for option in job.options]
    return [o for o, mine in enumerate(held) if all(map(le, mine, map(min, *held)))]


def _running(problem: Interleaving, job_group: Group, anchor: int) -> Running:
    """Return the running section of a job group at its anchor, with all its members' costs."""
    jobs = [problem.round.jobs[j] for j in members_in_place(problem, job_group, anchor)]
    running = running_of(problem.round.jobs[anchor])
    migrate, preempt = 0, 0
    for number, job in enumerate(jobs):
        mine = running_of(job)
        # The milli-GPU of one of them is counted as the job group's own.
        besides = job.options[mine.option].milli_gpu if number else 0
        migrate += stop_cost(problem, job, mine.migrate_cost) + besides
        preempt += stop_cost(problem, job, mine.preempt_cost) + besides
    return running.model_copy(
        update={"option": 0, "migrate_cost": migrate, "preempt_cost": preempt, "checkpoint": None}
    )


def _staying_job(problem: Interleaving, number: int, job_group: Group) -> Job:
    """Return jobs that stay as one pinned job."""
    jobs = [problem.round.jobs[j] for j in job_group.members]
    running = running_of(jobs[0])
    option = merged_option(jobs, problem.sharing)
    return jobs[0].model_copy(
        update={
            "name": f"group-{number}",
            "tenant": None,
            "caps": (),
            "options": (option,),
            "running": running.model_copy(update={"option": 0, "pinned": True}),
            "profile": None,
        }
    )


def _same_places(problem: Interleaving, job: int, places: Sequence[Place], slots: Slots) -> bool:
    """Whether a job runs in these places, with GPUs in any order."""
    tasks = running_of(problem.round.jobs[job]).tasks
    before = _task_places(places_of(problem, job), tuple(task.slot for task in tasks))
    return before == _task_places(places, slots or (None,) * len(places))


def _task_places(places: Sequence[Place], slots: Slots) -> set[tuple[object, ...]]:
    return {
        (*place[:3], frozenset(place[3]), slot) for place, slot in zip(places, slots, strict=True)
    }
