"""Programs once groups are chosen: groups as gangs, CPU and memory alone, one arrival."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import le, mul
from types import MappingProxyType
from typing import Protocol, TypeVar

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.common.priority_classes import class_terms, precedence_of
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.greedy import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.placement.preemption import repair_preemptions
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.limits import (
    VALUE,
    DisruptionBudget,
    accounts_of,
    limits_of,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.run import run as run_gangs
from placewright.formulations.interleaving.placement import (
    HostUsage,
    budget_of_groups,
    is_within_budget,
    keep_places,
    members_in_place,
    places_of,
    running_of,
    stop_cost,
    within_quotas,
)
from placewright.formulations.interleaving.problem.capacity import quota_left
from placewright.formulations.interleaving.problem.compile import (
    OBJECTIVES,
    Interleaving,
    class_values,
    compile_interleaving,
    group_value,
    job_groups_of,
    kept_values,
    may_form,
    merged_option,
)
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    allowed,
    pad_members,
    periods,
    with_one_option,
)
from placewright.formulations.interleaving.set_packing.columns import group_values
from placewright.formulations.plan_messages import Bound, Candidate, Group, Place, Slots
from placewright.formulations.session import Session
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option
from placewright.instances.documents.round import Round
from placewright.instances.documents.sharing import Sharing

# A gang round in which each job group is one job, and how its plans are lifted.
#
# A job group with an anchor is a running job there. Its precedence is that of its highest member
# then, and that of its lowest if it arrives: so a preemptor strictly precedes its victim.


class ValueOf(Protocol):
    """The value of a job group as a gang with an option."""

    def __call__(self, problem: Interleaving, job_group: Group, option: int = 0, /) -> int:
        """Return the value."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class GangRound:
    """Job groups, and the round in which they are gangs."""

    problem: Interleaving
    job_groups: tuple[Group, ...]  # Jobs that share GPUs or have theirs alone; no job twice
    anchors: tuple[int | None, ...]  # For each job group a running member whose place it keeps
    staying: tuple[Group, ...]  # Groups of jobs that stay as they are
    options: tuple[Sequence[int], ...]  # Of each job group, those of its job if it is on its own
    # Of policy `gang`: a job per group in their order, then one per place that stays. It has no
    # disruption budget, which counts members: `compile` adds that.
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
                option = self.options[number][option]
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
    chosen: Mapping[tuple[int, ...], int] = MappingProxyType({}),
) -> GangRound:
    """Return the round in which job groups are gangs.

    `job_groups`: groups of jobs of the packing problem; jobs in none of them wait, so all that run
    should be in one. `staying`: groups of the jobs that stay, and those of them that have their
    GPUs alone. `by_class`: whether the gangs have the priority classes of the round, as jobs on
    their own may. Else their values are weighted by class. `chosen`: options that quotas and caps
    suffice for, by members.
    """
    anchors = keep_places(problem, job_groups)
    value = _unweighted if by_class else group_value
    options = [
        options_alone(problem.round, problem.round.jobs[g.members[0]], chosen.get(g.members))
        for g in job_groups
    ]
    jobs = [
        _job(problem, n, anchors[n], job_group, _options(problem, job_group, value, options[n]))
        for n, job_group in enumerate(job_groups)
    ]
    jobs += [
        _staying_job(problem, len(job_groups) + n, job_group) for n, job_group in enumerate(staying)
    ]
    policy = problem.round.policy.model_copy(
        update={
            "formulation": "gang",
            "keep_sizes": True,
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
    return GangRound(problem, tuple(job_groups), tuple(anchors), shared, tuple(options), round_)


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
    problem: Interleaving,
    number: int,
    anchor: int | None,
    job_group: Group,
    options: tuple[Option, ...],
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
            "options": options,
            "running": running,
            "profile": None,
        }
    )


def _options(
    problem: Interleaving, job_group: Group, value: ValueOf, alone: Sequence[int]
) -> tuple[Option, ...]:
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
        for index in alone
    )


def options_alone(round_: Round, job: Job, chosen: int | None = None) -> Sequence[int]:
    """Return the options of a job on its own, within what the rows assume of quotas and caps.

    They take no more than the `chosen` one, else than the least of each amount that any of them
    takes. If all take more of one, it is the first, as in groups.
    """
    if job.running is not None:
        return (job.running.option,)
    limits = limits_of(round_)
    measures = {m: None for account in accounts_of(job) for m in limits.get(account, ())}
    if not measures or len(job.options) == 1:
        return range(len(job.options))
    held = [[measure.asked_by(option) for measure in measures] for option in job.options]
    most = list(map(min, *held)) if chosen is None else held[chosen]
    return [o for o, mine in enumerate(held) if all(map(le, mine, most))] or (0,)


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


# Rounds in which no jobs can share GPUs: only CPU and memory, and places, are decided.
#
# Each job is a gang with its options, and the value of an option is the speed that its cores and
# memory give. That is a multiple-choice knapsack over all hosts' CPU and memory,
#
#     max  sum_j sum_o value(j, o) y[j,o]
#     s.t. sum_o y[j,o] <= 1                             for each job j
#          sum_j sum_o demand(j, o, r) y[j,o] <= total   for each resource r
#
# which the count models of the gang formulation hold, with one integer per job class and option,
# and tighten by what one host holds together. So all that they prove is proven with places.
#
# References
# ----------
# Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI'22: the
# knapsack is the first of the two programs of Synergy-OPT; the second one places its choice.


Number = TypeVar("Number", int, float)


def gangs_without_sharing(round_: Round) -> GangRound | None:
    """Return each job as a gang if no jobs can share GPUs, else None.

    Also None if there are quotas or caps, of which the gang formulation does not report the use.
    """
    problem = compile_interleaving(round_)
    sharing = any(len(mine) > 1 for mine in problem.colocated.values())
    if sharing or limits_of(round_):
        return None
    bucket = problem.packing.bucket[problem.packing.bucket != ALONE]
    if problem.packing.max_members > 1 and int(np.bincount(bucket).max(initial=0)) > 1:
        return None
    staying = job_groups_of(problem, ((j,) for j in sorted(problem.stays)))
    alone = job_groups_of(problem, ((j,) for j in problem.jobs))
    return build_gang_round(problem, alone, staying, by_class=bool(problem.priorities.classes))


def solve_without_sharing(gangs: GangRound, session: Session) -> Iterator[Candidate | Bound]:
    """Yield a plan of first options, then the gang formulation's plans and bounds."""
    proportional = _proportional_plan(gangs)
    if proportional is not None:
        yield proportional
    gang_problem = gangs.compile()
    terms = _Terms(gangs.problem, gang_problem.terms)
    inner = session.inner()
    for step in run_gangs(gang_problem, inner):
        if isinstance(step, Bound):
            yield terms.lift(step)
        elif (lifted := gangs.lift(step)) is not None:
            yield lifted
        inner.best_known.proven = session.proven
        if session.best is not None:
            inner.best_known.values = terms.of_gangs(session.best)
            inner.best_known.bounds = bounds = terms.of_gangs(session.best_known.bounds)
            inner.best_known.first_bound = bounds.get(gang_problem.terms[0])


def _proportional_plan(gangs: GangRound) -> Candidate | None:
    """Return the plan in which each job that starts has its first option, or None.

    None if there is no job of several options.
    """
    jobs = tuple(with_one_option(job, 0) for job in gangs.round.jobs)
    if jobs == gangs.round.jobs:
        return None
    placement = Placement(compile_round(gangs.round.model_copy(update={"jobs": jobs})))
    fill_by_policy(placement)
    repair_preemptions(placement)
    return gangs.lift(assign(placement, "shares"))


class _Terms:
    """Terms of the gang round as those of the round, which count what runs before it, too."""

    def __init__(self, problem: Interleaving, terms: Sequence[str]) -> None:
        priorities = problem.priorities
        values = class_terms(VALUE, len(priorities.classes)) or (VALUE,)
        running = [kept_values(problem, Group((j,), (0,), 0)) for j in problem.colocated]
        self._names = dict(zip(terms, terms, strict=True))
        self._names |= zip(values, priorities.terms, strict=True)
        self._constant = {term: sum(one[k] for one in running) for k, term in enumerate(values)}

    def lift(self, bound: Bound) -> Bound:
        """Return a bound of the gang round as one of the round."""
        holds = tuple((self._names[t], v + self._constant.get(t, 0)) for t, v in bound.holds)
        value = bound.value + self._constant.get(bound.term, 0)
        return Bound(self._names[bound.term], value, holds, bound.certified)

    def of_gangs(self, values: Mapping[str, Number]) -> dict[str, Number]:
        """Return values of the round, or bounds, as those of the gang round."""
        return {
            term: values[name] - self._constant.get(term, 0)
            for term, name in self._names.items()
            if name in values
        }


# Enumeration of a round in which one job may start and no running job moves or stops.
#
# The job may start on its own, or join one job or group that runs: there is no other plan but
# that in which nothing happens. On its own it is a gang beside pinned ones; who can be joined is
# tried one by one.


def has_one_arrival(problem: Interleaving) -> bool:
    """Whether one job may start, whatever runs stays, and the objective has no priority classes."""
    return len(_arrivals(problem)) == 1 and not problem.priorities.classes and _all_stay(problem)


def _arrivals(problem: Interleaving) -> list[int]:
    """Return the jobs that wait and fit some host, by index."""
    fitting = np.flatnonzero(problem.packing.count).tolist()
    found = {problem.of_class[c] for c in fitting}
    return sorted(j for j in found if problem.round.jobs[j].running is None)


def _all_stay(problem: Interleaving) -> bool:
    """Whether each running job is pinned, or may by the disruption budget neither move nor stop."""
    others = problem.colocated.keys() - problem.stays
    budget = DisruptionBudget.of(problem.round)
    if not others or budget is None:
        return not others
    preempted_jobs, _, migrated_jobs, *_ = budget.limits
    return preempted_jobs == 0 and migrated_jobs == 0 and others <= budget.stops.keys()


class OneArrival:
    """The plans of a round in which `has_one_arrival`."""

    def __init__(self, problem: Interleaving, session: Session) -> None:
        self._problem, self._session = problem, session
        (self._job,) = _arrivals(problem)
        self._units = job_groups_of(problem, {*problem.colocated.values()})
        self._values = [
            sum(map(mul, problem.priorities.weights, kept_values(problem, unit)))
            for unit in self._units
        ]

    def steps(self) -> Iterator[Candidate | Bound]:
        """Yield the best plan in which the job joins others, those in which it does not; a bound.

        The bound of the objective is that of all plans.
        """
        kept = sum(self._values)
        most = kept
        best = next(self._joined(), None)
        if best is not None:
            gain, joined = best
            most += max(0, gain)
            yield joined
        yield from self._alone(kept, most)

    def _joined(self) -> Iterator[tuple[int, Candidate]]:
        """Yield what the job gains by joining others, the most first, and the plan of it."""
        packing, jobs = self._problem.packing, self._problem.round.jobs
        found = [
            (value - self._values[number], number, members)
            for number, members, value in self._compatible()
        ]
        if not found:
            return
        position = {j: c for c, j in enumerate(self._problem.jobs)}
        usage, held = HostUsage(self._problem), np.zeros_like(packing.limit)
        of_unit: dict[int, Ints] = {}
        for number, unit in enumerate(self._units):
            usage.add(self._option(unit), places_of(self._problem, unit.members[0]))
            if self._problem.stays.isdisjoint(unit.members):
                classes = np.array(sorted(position[j] for j in unit.members), dtype=np.int64)
                of_unit[number] = packing.usage(pad_members(classes[None]))[0]
                held += of_unit[number]
        for gain, number, members in sorted(found, key=lambda one: (-one[0], one[1])):
            taken = packing.usage(pad_members(members[None]))[0]
            if (held - of_unit[number] + taken > packing.limit).any():
                continue
            unit = self._units[number]
            places = places_of(self._problem, unit.members[0])
            mates = [jobs[j] for j in (*unit.members, self._job)]
            before, after = self._option(unit), merged_option(mates, self._problem.sharing)
            usage.add(before, places, -1)
            fits = usage.admits(jobs[self._job].options[0].required, after, places)
            usage.add(before, places)
            if fits and may_form(packing, members):
                yield gain, self._plan(number)

    def _plan(self, number: int) -> Candidate:
        """Return the plan in which the job joins a unit."""
        unit = self._units[number]
        others = [one for one in self._units if one is not unit and len(one.members) > 1]
        (group,) = job_groups_of(self._problem, [(*unit.members, self._job)])
        places = places_of(self._problem, unit.members[0])
        return Candidate({self._job: (0, places)}, "one arrival", groups=(*others, group))

    def _compatible(self) -> Iterator[tuple[int, Ints, int]]:
        """Yield the units that may be joined as far as periods say, with their value then."""
        problem, packing = self._problem, self._problem.packing
        position = {j: c for c, j in enumerate(problem.jobs)}
        new = position[self._job]
        if packing.bucket[new] == ALONE:
            return
        by_size: defaultdict[int, list[int]] = defaultdict(list)
        for number, unit in enumerate(self._units):
            if problem.stays.isdisjoint(unit.members) and all(
                packing.bucket[position[j]] == packing.bucket[new] for j in unit.members
            ):
                by_size[len(unit.members)].append(number)
        for size, numbers in by_size.items():
            if size >= packing.max_members:
                continue
            members = np.sort(
                [[*(position[j] for j in self._units[n].members), new] for n in numbers], axis=1
            )
            period = periods(packing, members)
            values = group_values(packing, members, period)
            for k in np.flatnonzero(allowed(packing, members, period)).tolist():
                yield numbers[k], members[k], int(values[k])

    def _option(self, unit: Group) -> Option:
        """Return the option of a job that takes what a unit takes that runs."""
        jobs = [self._problem.round.jobs[j] for j in unit.members]
        return merged_option(jobs, self._problem.sharing)

    def _alone(self, kept: int, most: int) -> Iterator[Candidate | Bound]:
        """Yield plans in which the job joins nobody, and bounds of all plans.

        `kept`: the value of all that runs. `most`: the value of the best other plan.
        """
        gangs = self._gangs()
        objective = self._problem.objective
        for step in self._session.inner_rounds(gangs.round, self._session):
            if isinstance(step, Candidate):
                lifted = gangs.lift(step)
                if lifted is not None:
                    yield lifted
            elif step.term == VALUE:
                value = max(most, kept + step.value)
                yield Bound(objective, value, (), step.certified)

    def _gangs(self) -> GangRound:
        """Return the round of gangs in which the job asks for places, and all that runs is pinned.

        Options for which quotas or caps do not suffice have no places. Only the job's value counts.
        """
        round_ = self._problem.round
        left = quota_left(round_, range(len(round_.jobs)))
        waits = round_.jobs[self._job]
        mine = [key for key in left if key[0] in accounts_of(waits)]

        def within(option: Option) -> Option:
            if all(key[1].asked_by(option) <= left[key] for key in mine):
                return option
            closed = (group.model_copy(update={"hosts": ()}) for group in option.groups)
            return option.model_copy(update={"groups": tuple(closed)})

        waits = waits.model_copy(update={"options": tuple(map(within, waits.options))})
        jobs = tuple(waits if j == self._job else job for j, job in enumerate(round_.jobs))
        free = round_.model_copy(update={"jobs": jobs, "tenants": (), "caps": {}})
        problem = compile_interleaving(free, self._problem.colocated.keys())
        gangs = build_gang_round(problem, [Group((self._job,), (0,), 0)], self._units)
        policy = gangs.round.policy.model_copy(update={"terms": (VALUE,)})
        return replace(gangs, round=gangs.round.model_copy(update={"policy": policy}))
