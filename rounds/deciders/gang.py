"""Decider of policy `gang`: whole rounds; those of which a part comes first have their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from placewright.formulations.common.priority_classes import classes_by_term
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.greedy import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.jobs import priority_classes
from placewright.formulations.gang.problem.limits import VALUE
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.waiting import eligible
from placewright.instances.documents.job import Running
from placewright.instances.documents.plan import Decision, Plan
from placewright.instances.documents.round import Round
from placewright.rounds.deciders.base import Decider, PolicyDecider, Resources
from placewright.rounds.decisions import Why, tasks_of
from placewright.rounds.sections.moves import move_section
from placewright.rounds.sections.reasons import reasons_of
from placewright.rounds.sections.sections import (
    collective_section,
    share_section,
)


def completed_gangs(round_: Round, candidate: Candidate) -> Candidate:
    """Return a candidate of a round of gangs with further starts; nothing that it has changes.

    They are those of the round in which all that the candidate runs is pinned.
    """
    hosts = [name for entry in round_.cluster.hosts for name in expand(entry.name)]
    jobs, outer = [], []
    for j, job in enumerate(round_.jobs):
        if j in candidate.preempted:
            continue
        running = job.running
        if j in candidate.starts:
            option, tasks = candidate.starts[j][0], tasks_of(candidate, j, hosts)
            running = Running.model_construct(option=option, tasks=tasks, pinned=True)
        elif running is not None:
            running = running.model_copy(update={"pinned": True})
        jobs.append(job.model_copy(update={"running": running}))
        outer.append(j)
    placement = Placement(compile_round(round_.model_copy(update={"jobs": tuple(jobs)})))
    fill_by_policy(placement)
    found = assign(placement, candidate.source)
    return replace(
        candidate,
        starts={**candidate.starts, **{outer[j]: start for j, start in found.starts.items()}},
        slots={**candidate.slots, **{outer[j]: slots for j, slots in found.slots.items()}},
    )


def has_cells(round_: Round) -> bool:
    """Whether some tenant of a round owns cells."""
    return any(tenant.cells for tenant in round_.tenants)


def has_waiting_rules(round_: Round) -> bool:
    """Whether a round has reservations, aging, maintenance, or jobs that may not start yet."""
    policy = round_.policy
    if policy.backfill is not None or policy.aging is not None or round_.maintenance:
        return True
    return any(not job.running and not eligible(job, round_.now) for job in round_.jobs)


class GangDecider:
    """A formulation on a whole round of gangs."""

    def __init__(self, round_: Round, problem: Problem) -> None:
        self._round, self._problem = round_, problem
        self.hosts = problem.cluster.hosts
        self.terms = problem.terms

    def steps(self, session: Session) -> Iterator[Candidate | Bound]:
        """Yield what the formulation yields."""
        return session.gang(self._problem, session)

    def reasons(self, candidate: Candidate) -> Mapping[int, Why]:
        """Return the reason of every pending job that a candidate does not start."""
        return reasons_of(self._problem, candidate, startable=True)

    def sections(
        self, candidate: Candidate, decisions: Sequence[Decision]
    ) -> Iterator[dict[str, Any] | None]:
        """Yield order of moves, shares and collectives."""
        yield move_section(self._round, decisions)
        yield share_section(self._problem, candidate)
        yield collective_section(self._round, self._problem.cluster, candidate)


def _is_divided(round_: Round) -> bool:
    """Whether a part of a round is decided before the rest."""
    return has_cells(round_) or has_waiting_rules(round_)


def _decider(round_: Round, resources: Resources) -> Decider:
    if not _is_divided(round_):
        return GangDecider(round_, resources.memory.compile(round_))
    from placewright.rounds.deciders.residual import BackfillDecider, CellsDecider

    if has_cells(round_):
        return CellsDecider(round_, resources.memory.compile)
    return BackfillDecider(round_, resources.memory)


def _bounds(
    round_: Round, plan: Plan, resources: Resources, session: Session
) -> Iterator[Candidate | Bound]:
    """Yield bounds of plans; guaranteed jobs and reservations are where this plan has them."""
    if not _is_divided(round_):
        return _decider(round_, resources).steps(session)
    from placewright.rounds.deciders.residual import BackfillDecider, bounds_beside_cells

    if has_cells(round_):
        return bounds_beside_cells(round_, plan, resources.memory.compile, session)
    return BackfillDecider(round_, resources.memory, plan).steps(session)


def _completed(round_: Round, candidate: Candidate) -> Candidate:
    """Return a first candidate with further starts, but for those that rules place."""
    if _is_divided(round_):
        return candidate
    return completed_gangs(round_, candidate)


POLICY = PolicyDecider(
    _decider,
    _bounds,
    lambda round_: classes_by_term(VALUE, priority_classes(round_)),
    _completed,
)
