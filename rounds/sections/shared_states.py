"""The hosts in the states that reasons to wait speak of, where jobs take turns on GPUs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.jobs import Group
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.subproblem import charge
from placewright.formulations.plan_messages import Candidate, Place, Slots
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.rounds.sections.fixed_states import FixedStates
from placewright.topology import State

CPU = "cpu"


def gang_problem_of(round_: Round) -> Problem:
    """Return the gang problem of a round in which each job has GPUs of its own, and none is pinned.

    The state of its hosts says nothing, as running jobs may share GPUs.
    """
    policy = {"formulation": "gang", "terms": ("value",), "priority": "preemption"}
    return compile_round(
        round_.model_copy(
            update={
                "policy": round_.policy.model_copy(update=policy),
                "jobs": tuple(map(_unpinned, round_.jobs)),
            }
        )
    )


class SharedStates(FixedStates):
    """The hosts in the states that reasons speak of; a group of jobs holds its GPUs once.

    Of a group only the members that count in a state hold something.

    Parameters
    ----------
    problem
        The problem that `gang_problem_of` makes of the round, which has no groups.
    teams_before
        The groups that run.
    """

    def __init__(
        self, problem: Problem, candidate: Candidate, teams_before: Sequence[Collection[int]]
    ) -> None:
        self._teams = [group.members for group in candidate.groups]
        self._teams_before = teams_before
        self._running_and_started: _Held | None = None
        super().__init__(problem, candidate)

    def _beside(self, started: int) -> State:
        if self._running_and_started is None or started < self._charged:
            self._running_and_started, self._charged = self._running(), 0
        for j in self._started[self._charged : started]:
            self._running_and_started.add(self._groups(j), j, *self._arrival(j))
        self._charged = started
        return self._running_and_started.state

    def _beside_running(self) -> State:
        return self._running().state

    def _running(self) -> _Held:
        """Return what kept and migrated jobs hold after the round."""
        held = self._held_by_kept((), self._teams)
        for j in self._moved:
            held.add(self._groups(j), j, *self._arrival(j))
        return held

    def _arrival(self, job: int) -> tuple[tuple[Place, ...], Slots]:
        return self._candidate.starts[job][1], self._candidate.slots.get(job, ())

    def _beside_kept(self, victims: Collection[int]) -> State:
        return self._held_by_kept(victims, self._teams_before).state

    def _held_by_kept(self, victims: Collection[int], teams: Iterable[Collection[int]]) -> _Held:
        held = _Held(self._problem, teams)
        gone = {*self._moved, *self._candidate.preempted}.difference(victims)
        for j, home in self._problem.running.items():
            if j not in gone:
                held.add(self._groups(j), j, home.places, home.slots)
        return held


class _Held:
    """What jobs leave of the hosts.

    Parameters
    ----------
    teams
        Jobs that take turns on GPUs: of each task they hold these once, and the most CPU that one
        of them asks.
    """

    def __init__(self, problem: Problem, teams: Iterable[Collection[int]]) -> None:
        self._problem = problem
        self._team_of = {job: number for number, team in enumerate(teams) for job in team}
        self._cpu: dict[tuple[int, int, int], int] = {}
        resources = problem.cluster.resources
        self._at = resources.index(CPU) if CPU in resources else None
        new = State.empty if problem.part_demands is None else State.shared
        self.state = replace(new(problem.cluster), healthy=problem.state.healthy)
        self.state.gpu_free[~problem.usable] = 0

    def add(
        self, groups: Sequence[Group], job: int, places: Sequence[Place], slots: Slots = ()
    ) -> None:
        """Take what a job holds beside the members of its team that came before."""
        problem, team = self._problem, self._team_of.get(job)
        for k, place in enumerate(places):
            group, index, host, _ = place
            demand = problem.shape_demand[groups[group].shape]
            cpu = 0 if self._at is None else int(demand[self._at])
            key = (-1 if team is None else team, group, index)
            if team is None or key not in self._cpu:
                charge(problem, self.state, groups, (place,), 1, slots[k : k + 1])
                self._cpu[key] = cpu
                continue
            more = demand.copy()
            if self._at is not None:
                more[self._at] = max(cpu - self._cpu[key], 0)
                self._cpu[key] = max(cpu, self._cpu[key])
            self.state.free[host] -= more


def _unpinned(job: Job) -> Job:
    if job.running is None or not job.running.pinned:
        return job
    return job.model_copy(update={"running": job.running.model_copy(update={"pinned": False})})
