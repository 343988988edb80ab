"""Enumeration of a round in which one job may start and no running job moves or stops.

The job may start on its own, or join one job or group that runs: there is no other plan but that in
which nothing happens. On its own it is a gang beside pinned ones; who can be joined is tried one by
one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from operator import mul

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.problem.disruption_budget import DisruptionBudget
from placewright.formulations.gang.problem.quotas import accounts_of
from placewright.formulations.gang.problem.terms import VALUE
from placewright.formulations.interleaving.models.as_gangs import GangRound, build_gang_round
from placewright.formulations.interleaving.placement.usage_in_place import HostUsage, places_of
from placewright.formulations.interleaving.problem.compile import Interleaving, compile_interleaving
from placewright.formulations.interleaving.problem.frozen_groups import may_form
from placewright.formulations.interleaving.problem.job_groups import (
    job_groups_of,
    kept_values,
)
from placewright.formulations.interleaving.problem.merged_groups import merged_option
from placewright.formulations.interleaving.problem.packing_problem import (
    ALONE,
    allowed,
    pad_members,
    periods,
)
from placewright.formulations.interleaving.problem.residual_capacity import quota_left
from placewright.formulations.interleaving.set_packing.columns import group_values
from placewright.formulations.plan_messages import Bound, Candidate, Group
from placewright.formulations.session import Session
from placewright.instances.documents.option import Option


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
    preempted_jobs, _, migrated_jobs, _ = budget.limits
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

        Parameters
        ----------
        kept
            The value of all that runs.
        most
            The value of the best other plan.
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
