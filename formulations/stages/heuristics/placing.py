"""What begins now, placed by the gang formulation; who finds no place waits for the next event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from placewright.formulations.common.phases import inner_plans
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.greedy import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.plan_messages import Candidate, Place, Slots, Timed
from placewright.formulations.session import Session
from placewright.formulations.stages import parameters
from placewright.formulations.stages.heuristics.list_schedules import Begun, list_schedules, serial
from placewright.formulations.stages.problem import MAKESPAN, SPREAD, Problem, Schedule
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round

VALUE = "value"
MOST_VALUE = 10**6


def place(
    problem: Problem, schedule: Schedule, source: str, session: Session | None = None
) -> Candidate:
    """Return a plan of a schedule, in which whoever finds no place now begins later.

    Without a session places are found by best fit alone.
    """
    barred = frozenset[int]()
    for attempt in range(parameters.PARAMETERS.max_placing_rounds):
        gangs = _Gangs(problem, schedule)
        found = gangs.lift(gangs.plan(session), source)
        begun = _begun(problem, found)
        now = schedule.begin == 0
        wanted = np.bincount(schedule.job[now], schedule.units[now], minlength=len(problem.jobs))
        failed = [j for j in np.flatnonzero(wanted).tolist() if begun.get(j, (0, 0))[1] < wanted[j]]
        if not failed:
            break
        last = attempt == parameters.PARAMETERS.max_placing_rounds - 1
        barred = frozenset(range(len(problem.jobs)) if last else barred.union(failed))
        beside = Begun(begun, barred, _next_event(problem, begun))
        others = [serial(problem, schedule, beside), *list_schedules(problem, beside)]
        schedule = min(others, key=lambda one: value_of(problem, one))
    return replace(found, schedule=problem.timed(schedule))


def complete(problem: Problem, candidate: Candidate) -> tuple[Timed, ...]:
    """Return the best list schedule beside what a candidate starts; all others begin later."""
    begun, barred = _begun(problem, candidate), frozenset(range(len(problem.jobs)))
    rest = list_schedules(problem, Begun(begun, barred, _next_event(problem, begun)))
    return problem.timed(min(rest, key=lambda one: value_of(problem, one)))


def _begun(problem: Problem, plan: Candidate) -> dict[int, tuple[int, int]]:
    """Return mode and units of each job of the problem that a plan begins."""
    begun = {}
    for j, index in enumerate(problem.jobs):
        option, places = plan.starts.get(index, (-1, ()))
        for mode in problem.modes[j]:
            if problem.option[mode] == option:
                begun[j] = mode, 1 if problem.units[mode] == 1 else len(places)
    return begun


def _next_event(problem: Problem, begun: dict[int, tuple[int, int]]) -> int:
    """Return when something ends, at the earliest; the next second if nothing runs."""
    ends = [int(problem.seconds[mode]) for mode, _ in begun.values()]
    return min([*problem.times[1:].tolist(), *ends], default=1)


def value_of(problem: Problem, schedule: Schedule) -> tuple[int, ...]:
    """Return the terms of times of a schedule, in the order of the policy."""
    values = problem.values(schedule)
    return tuple(values[term] for term in problem.round.policy.terms if term in values)


class _Gangs:
    """The round of policy `gang` of what begins now; what runs is pinned.

    A task that need not run with others is a job of its own.
    """

    def __init__(self, problem: Problem, schedule: Schedule) -> None:
        self._problem, self._schedule = problem, schedule
        round_ = problem.round
        self._outer: list[int | None] = []
        jobs = list(self._jobs())
        terms = (VALUE, *(term for term in round_.policy.terms if term == SPREAD))
        policy = round_.policy.model_copy(update={"formulation": "gang", "terms": terms})
        self.round: Round = round_.model_copy(update={"jobs": tuple(jobs), "policy": policy})

    def _jobs(self) -> Iterator[Job]:
        problem, schedule = self._problem, self._schedule
        for job in problem.round.jobs:
            if job.running is not None:
                self._outer.append(None)
                running = job.running.model_copy(update={"pinned": True})
                yield job.model_copy(update={"running": running, "stage": None})
        for w in np.flatnonzero(schedule.begin == 0).tolist():
            j, units = int(schedule.job[w]), int(schedule.units[w])
            mode = int(schedule.mode[j])
            job = problem.round.jobs[problem.jobs[j]]
            option = job.options[int(problem.option[mode])]
            if job.stage is not None and not job.stage.gang:
                group = option.groups[0].model_copy(update={"count": 1})
                option = option.model_copy(update={"groups": (group,)})
            value = 1
            if problem.round.policy.terms[0] == MAKESPAN:
                value = min(MOST_VALUE, int(problem.tail[j] + problem.seconds[mode]))
            option = option.model_copy(update={"value": value})
            for _ in range(units):
                self._outer.append(j)
                name = f"{job.name}\t{len(self._outer)}"
                yield job.model_copy(update={"name": name, "options": (option,), "stage": None})

    def plan(self, session: Session | None) -> Candidate:
        """Return the best plan of the gangs that is found in time."""
        compiled = compile_round(self.round)
        placement = Placement(compiled)
        fill_by_policy(placement)
        best = assign(placement, "best fit")
        for found in () if session is None else inner_plans(self.round, session, compiled):
            best = found
        return best

    def lift(self, plan: Candidate, source: str) -> Candidate:
        """Return a plan of the gangs as one of the whole round."""
        problem = self._problem
        starts: dict[int, tuple[int, tuple[Place, ...]]] = {}
        slots: dict[int, Slots] = {}
        for inner, j in enumerate(self._outer):
            if j is None or inner not in plan.starts:
                continue
            index, mode = problem.jobs[j], int(self._schedule.mode[j])
            before = starts.get(index, (0, ()))[1]
            places = plan.starts[inner][1]
            if problem.units[mode] > 1:
                ((group, _, host, gpus),) = places
                places = (*before, (group, len(before), host, gpus))
            starts[index] = int(problem.option[mode]), places
            if inner in plan.slots:
                slots[index] = (*slots.get(index, ()), *plan.slots[inner])
        return Candidate(starts, source, slots=slots)
