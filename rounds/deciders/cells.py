"""Decider of rounds with tenants' cells: guaranteed jobs are admitted, gangs fill the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from placewright.formulations.cells.admission import Admission
from placewright.formulations.cells.run import (
    CellProblem,
    ResidualRound,
    admit_within_budget,
    residual_round_of,
    run,
)
from placewright.formulations.gang.problem.compile import Compiler, compile_round
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.instances.checks.round import trusted
from placewright.instances.derived.cell_trees import guaranteed
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.plan import Decision, DecisionKind, Detail, Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.verify import verify
from placewright.rounds.decisions import DefaultDecisions, Why, decisions_of
from placewright.rounds.sections.cells import CellReasons, cell_section
from placewright.rounds.sections.moves import move_section
from placewright.rounds.sections.reasons import reasons_of
from placewright.rounds.sections.sections import collective_section, share_section
from placewright.rounds.sections.states import FixedStates


def has_cells(round_: Round) -> bool:
    """Whether some tenant of a round owns cells."""
    return any(tenant.cells for tenant in round_.tenants)


class CellsDecider:
    """Admits guaranteed jobs first, and has the gang formulation decide the residual round.

    Parameters
    ----------
    round_
        A round in which some tenant owns cells.
    compiler
        What the rest is compiled by.
    """

    def __init__(self, round_: Round, compiler: Compiler) -> None:
        self._round = round_
        self._admission: Admission
        self._admission, self._limited = admit_within_budget(round_)
        self.rest: ResidualRound = residual_round_of(round_, self._admission.placed)
        self._problem = compiler(self.rest.round, self.rest.borrowed, self.rest.priority_classes)
        self.hosts = self._problem.cluster.hosts

    @cached_property
    def whole(self) -> Problem:
        """The whole round as a gang problem; candidates use its job indices."""
        return compile_round(self._round)

    @property
    def terms(self) -> tuple[str, ...]:
        """Objective terms of the whole round."""
        return self.whole.terms

    def steps(self, session: Session) -> Iterator[Candidate | Bound]:
        """Yield plans and bounds of the whole round."""
        return run(CellProblem(self.rest, base_terms(self.rest), self._problem), session)

    def sections(
        self, candidate: Candidate, decisions: Sequence[Decision]
    ) -> Iterator[dict[str, Any] | None]:
        """Yield order of moves, shares, cells and collectives."""
        yield move_section(self._round, decisions)
        yield share_section(self.whole, candidate)
        yield cell_section(self._round, self._admission.bound, self._hosts)
        yield collective_section(self._round, self._problem.cluster, candidate)

    def _hosts(self, job: int) -> set[str]:
        """Return the hosts that a guaranteed job is on after the round."""
        started = self._admission.placed.starts.get(job)
        if started is not None:
            names = list(self.rest.hosts)
            return {names[host] for _, _, host, _ in started[1]}
        running = self._round.jobs[job].running
        return {task.host for task in running.tasks} if running else set()

    def reasons(self, candidate: Candidate) -> dict[int, Why]:
        """Return the reason of every pending job that the candidate does not start.

        Guaranteed jobs wait for what their tenants' cells lack; one that would evict more than the
        disruption budget allows, for that.
        """
        cells = CellReasons(self.whole, candidate, self._admission.bound)
        mine = set(guaranteed(self._round))
        states = FixedStates(self.whole, candidate, mine, cells.exempt)
        reasons = reasons_of(self.whole, candidate, mine, states, startable=True)
        for c, job_class in enumerate(self.whole.classes):
            for j in mine.intersection(job_class.jobs) & reasons.keys():
                reasons[j] = cells.of(j, c)
                if j in self._limited and reasons[j].reason is not Reason.NEVER_FITS:
                    tenant = self._round.jobs[j].tenant
                    reasons[j] = Why(Reason.DISRUPTION_LIMIT, Detail(tenant=tenant))
        return reasons


def base_terms(rest: ResidualRound) -> dict[str, int]:
    """Return the terms of the plan that starts guaranteed jobs and changes nothing else."""
    decisions = decisions_of(
        rest.whole, tuple(rest.hosts), DefaultDecisions()(rest.whole), rest.base()
    )
    plan = Plan.model_construct(decisions=decisions, sections=())
    return verify(trusted(rest.whole), plan).terms


def residual_round_of_plan(round_: Round, plan: Plan) -> ResidualRound:
    """Return the residual round once guaranteed jobs start as in a valid plan."""
    return residual_round_of(round_, starts_of_plan(round_, plan, guaranteed(round_), "cells"))


def starts_of_plan(round_: Round, plan: Plan, jobs: Iterable[int], source: str) -> Candidate:
    """Return the candidate in which some jobs start as in a valid plan, and no others."""
    names = (name for entry in round_.cluster.hosts for name in expand(entry.name))
    index = {name: at for at, name in enumerate(names)}
    decisions = {decision.job: decision for decision in plan.decisions}
    starts, slots = {}, {}
    for j in jobs:
        decision = decisions[round_.jobs[j].name]
        if decision.decision is DecisionKind.START and decision.option is not None:
            places = tuple((t.group, t.index, index[t.host], t.gpus) for t in decision.tasks)
            starts[j] = (decision.option, places)
            if any(task.slot is not None for task in decision.tasks):
                slots[j] = tuple(task.slot for task in decision.tasks)
    return Candidate(starts, source, slots=slots)
