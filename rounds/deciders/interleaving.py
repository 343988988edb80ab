"""Decider of policy `interleaving`: groups of jobs take turns on their GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from placewright.formulations.common.priority_classes import (
    classes_by_term,
    write_out_terms,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.interleaving.problem.compile import (
    Interleaving,
)
from placewright.formulations.interleaving.problem.sharing import TERM, priority_classes
from placewright.formulations.interleaving.run import (
    compile_with_running_fixed,
    run,
)
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.instances.derived.ranges import expand
from placewright.instances.derived.running_groups import running_groups
from placewright.instances.documents.plan import Decision, DecisionKind
from placewright.instances.documents.round import Round
from placewright.rounds.deciders.base import PolicyDecider
from placewright.rounds.decisions import Why
from placewright.rounds.sections.reasons import reasons_of
from placewright.rounds.sections.sections import collective_section
from placewright.rounds.sections.states import SharedStates, gang_problem_of

KIND = "groups"


class InterleavingDecider:
    """Decides a round in which jobs may take turns on GPUs."""

    def __init__(self, round_: Round) -> None:
        self._round = round_
        self.hosts = tuple(host for entry in round_.cluster.hosts for host in expand(entry.name))
        self.terms = write_out_terms(round_.policy.terms, {TERM: len(priority_classes(round_))})

    def steps(self, session: Session) -> Iterator[Candidate | Bound]:
        """Yield what the formulation yields."""
        return run(self._kept, session)

    def reasons(self, candidate: Candidate) -> Mapping[int, Why]:
        """Return the reason of every pending job that a candidate does not start.

        Each of them as if it shared GPUs with nobody.
        """
        states = SharedStates(self._gangs, candidate, running_groups(self._round))
        return reasons_of(self._gangs, candidate, states=states, startable=True)

    @cached_property
    def _gangs(self) -> Problem:
        return gang_problem_of(self._round)

    @cached_property
    def _kept(self) -> Interleaving:
        return compile_with_running_fixed(self._round)

    def sections(
        self, candidate: Candidate, decisions: Sequence[Decision]
    ) -> Iterator[dict[str, Any] | None]:
        """Yield moves, groups and collectives."""
        yield _moves(decisions)
        yield self._groups(candidate)
        yield collective_section(self._round, self._kept.cluster, candidate)

    def _groups(self, candidate: Candidate) -> dict[str, Any] | None:
        groups = [
            {
                "members": [
                    {"job": self._round.jobs[job].name, "offset": offset}
                    for job, offset in zip(group.members, group.offsets, strict=True)
                ],
                "period": group.period,
            }
            for group in candidate.groups
        ]
        return {"kind": KIND, "groups": groups} if groups else None


def _moves(decisions: Sequence[Decision]) -> dict[str, Any] | None:
    """Return the section `moves`: all that migrate stop first, as they share GPUs with others."""
    preempted = [d.job for d in decisions if d.decision is DecisionKind.PREEMPT]
    migrated = [d.job for d in decisions if d.decision is DecisionKind.MIGRATE]
    if not preempted and not migrated:
        return None
    return {"kind": "moves", "steps": preempted, "needs_spare": migrated}


POLICY = PolicyDecider(
    lambda round_, _: InterleavingDecider(round_),
    classes=lambda round_: classes_by_term(TERM, priority_classes(round_)),
)
