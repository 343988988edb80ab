"""A round of gangs in which each team is one job, and what its plans say of the round.

A team that keeps the place of running members is a running job there. Its priority is that of its
highest member then, and that of its lowest if it comes to a place: so whoever preempts is of
strictly higher priority than whoever is preempted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from placewright.formulations.interleaving.compile import OBJECTIVES, Interleaving, place_of
from placewright.formulations.interleaving.homes import at_home, homes_of, running_of, stop_cost
from placewright.formulations.interleaving.merging import merged
from placewright.formulations.interleaving.teams import worth
from placewright.formulations.session import Candidate, Group, Place, Slots
from placewright.instances.job import Job, Option, Running
from placewright.instances.policy import Policy, TermName
from placewright.instances.round import Round
from placewright.instances.sharing import Sharing


@dataclass(frozen=True, slots=True, eq=False)
class Gangs:
    """Teams, and the round in which they are gangs.

    Attributes
    ----------
    teams : tuple of Group
        Jobs that share GPUs or have theirs alone; no job twice.
    homes : tuple of int or None
        For each team a running member whose place it keeps.
    staying : tuple of Group
        Groups of jobs that stay as they are.
    round : Round
        Of policy `gang`: a job per team in their order, then one per place that stays.
    """

    problem: Interleaving
    teams: tuple[Group, ...]
    homes: tuple[int | None, ...]
    staying: tuple[Group, ...]
    round: Round

    def told(self, found: Candidate) -> Candidate | None:
        """Tell a plan for the gangs as one for the round; None if it is none.

        So it is if a running job finds no place, or if who preempts is not of higher priority.
        """
        starts: dict[int, tuple[int, tuple[Place, ...]]] = {}
        slots: dict[int, Slots] = {}
        groups = list(self.staying)
        for number, (team, home) in enumerate(zip(self.teams, self.homes, strict=True)):
            start = found.starts.get(number)
            if number in found.preempted or (start is None and home is None):
                here = () if home is None else at_home(self.problem, team, home)
                if any(j in self.problem.together and j not in here for j in team.members):
                    return None
                continue
            option, places = self._at(home) if start is None else start
            for j in team.members:
                running = self.problem.round.jobs[j].running
                if running is not None:
                    option = running.option
                    if _same(self.problem, running, places, found.slots.get(number, ())):
                        continue
                starts[j] = option, places
                if number in found.slots:
                    slots[j] = found.slots[number]
            if len(team.members) > 1:
                groups.append(team)
        preempted = self._preempted(found, starts)
        if preempted is None:
            return None
        return Candidate(starts, found.source, preempted, slots=slots, groups=tuple(groups))

    def _at(self, home: int | None) -> tuple[int, tuple[Place, ...]]:
        """Return option and places of a running job."""
        if home is None:
            raise AssertionError("a team without a home has no place; expected one with a home")
        running = running_of(self.problem.round.jobs[home])
        return running.option, tuple(_places(self.problem, running))

    def _preempted(
        self, found: Candidate, starts: dict[int, tuple[int, tuple[Place, ...]]]
    ) -> dict[int, int] | None:
        """Return who displaces each preempted job; None if that is against its priority."""
        if not found.preempted:
            return {}
        jobs = self.problem.round.jobs
        arrivals: defaultdict[int, set[int]] = defaultdict(set)
        for j, (_, places) in starts.items():
            running = jobs[j].running
            before = set() if running is None else set(_places(self.problem, running))
            for place in set(places) - before:
                arrivals[place[2]].add(j)
        preempted: dict[int, int] = {}
        for number in found.preempted:
            home = self.homes[number]
            here = () if home is None else at_home(self.problem, self.teams[number], home)
            for j in here:
                hosts = {place[2] for place in _places(self.problem, running_of(jobs[j]))}
                comes = {one for host in hosts for one in arrivals[host]}
                newly = [one for one in comes if jobs[one].running is None]
                if not newly or min(jobs[one].priority for one in comes) <= jobs[j].priority:
                    return None
                preempted[j] = max(newly, key=lambda one: (jobs[one].priority, -one))
        return preempted


def gangs_of(problem: Interleaving, teams: Sequence[Group], staying: Sequence[Group]) -> Gangs:
    """Return the round in which teams are gangs.

    Parameters
    ----------
    teams
        Teams of jobs of the pool; jobs in none of them wait, so all that run should be in one.
    staying
        Groups of the jobs that stay.
    """
    homes = homes_of(problem, teams)
    jobs = [_job(problem, n, team, home) for n, (team, home) in enumerate(zip(teams, homes))]
    jobs += _fixed(problem)
    policy = Policy.model_construct(
        **{
            **{name: getattr(problem.round.policy, name) for name in Policy.model_fields},
            "formulation": "gang",
            "terms": _terms(problem),
        }
    )
    tenants: dict[str, object] = {"tenants": (), "bindings": (), "sharing": Sharing()}
    round_ = problem.round.model_copy(update={"jobs": tuple(jobs), "policy": policy, **tenants})
    return Gangs(problem, tuple(teams), tuple(homes), tuple(staying), round_)


def _terms(problem: Interleaving) -> tuple[TermName, ...]:
    """Return the terms of the gangs: what teams are worth is their value."""
    terms: list[TermName] = []
    for term in problem.round.policy.terms:
        if term == problem.objective:
            terms.append("value")
        elif term not in OBJECTIVES:
            terms.append(term)
    return tuple(terms)


def _job(problem: Interleaving, number: int, team: Group, home: int | None) -> Job:
    jobs = [problem.round.jobs[j] for j in team.members]
    priorities = [job.priority for job in jobs]
    running = None
    only = jobs[0].running if len(jobs) == 1 else None
    if len(jobs) > 1:
        groups = merged(jobs, problem.sharing)
        options = (Option.model_construct(groups=groups, value=worth(problem, team)),)
        options[0].groups[0].milli_gpu
    else:
        options = tuple(
            option.model_copy(update={"value": worth(problem, team, index), "progress": 0})
            for index, option in enumerate(jobs[0].options)
            if only is None or index == only.option
        )
    if home is not None:
        running = _running(problem, team, home)
    return _plain_job(f"team-{number}", max(priorities) if running else min(priorities), options, running, jobs[0])
