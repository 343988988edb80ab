"""Decider of policy `gang`; with cells that of `cells.py`, with reservations `backfill.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from placewright.formulations.cells.run import CellProblem
from placewright.formulations.cells.run import run as run_cells
from placewright.formulations.common.priority_classes import PriorityClass, classes_by_term
from placewright.formulations.gang.problem.jobs import priority_classes
from placewright.formulations.gang.problem.limits import VALUE
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.instances.documents.plan import Decision, Plan
from placewright.instances.documents.round import Round
from placewright.rounds.deciders.backfill import BackfillDecider, has_waiting_rules
from placewright.rounds.deciders.base import Decider, PolicyDecider, Resources
from placewright.rounds.deciders.cells import (
    CellsDecider,
    base_terms,
    has_cells,
    residual_round_of_plan,
)
from placewright.rounds.deciders.completed_start import completed_gangs
from placewright.rounds.decisions import Why
from placewright.rounds.sections.moves import move_section
from placewright.rounds.sections.reasons import reasons_of
from placewright.rounds.sections.sections import collective_section, share_section


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


def _decider(round_: Round, resources: Resources) -> Decider:
    compile_ = resources.memory.compile
    if has_cells(round_):
        return CellsDecider(round_, compile_)
    if has_waiting_rules(round_):
        return BackfillDecider(round_, resources.memory)
    return GangDecider(round_, compile_(round_))


def _bounds(
    round_: Round, plan: Plan, resources: Resources, session: Session
) -> Iterator[Candidate | Bound]:
    """Yield bounds of plans; guaranteed jobs and reservations are where this plan has them."""
    if not has_cells(round_):
        if has_waiting_rules(round_):
            return BackfillDecider(round_, resources.memory, plan).steps(session)
        return _decider(round_, resources).steps(session)
    rest = residual_round_of_plan(round_, plan)
    problem = resources.memory.compile(rest.round, rest.borrowed, rest.priority_classes)
    return run_cells(CellProblem(rest, base_terms(rest), problem), session)


def _classes(round_: Round) -> Mapping[str, PriorityClass]:
    return classes_by_term(VALUE, priority_classes(round_))


def _completed(round_: Round, candidate: Candidate) -> Candidate:
    """Return a first candidate with further starts, but for those that rules place."""
    if has_cells(round_) or has_waiting_rules(round_):
        return candidate
    return completed_gangs(round_, candidate)


POLICY = PolicyDecider(_decider, _bounds, _classes, _completed)
