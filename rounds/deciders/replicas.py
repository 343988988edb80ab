"""Decider of policy `replicas`: data is copied to regions; jobs stay as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from placewright.formulations.plan_messages import Bound, Candidate, DataPlan
from placewright.formulations.replicas.bounds.prove import prove_bounds
from placewright.formulations.replicas.problem.compile import compile_replicas
from placewright.formulations.replicas.problem.problem import Problem
from placewright.formulations.replicas.run import run
from placewright.formulations.session import Session
from placewright.instances.documents.plan import Decision, Reason
from placewright.instances.documents.round import Round
from placewright.rounds.deciders.base import PolicyDecider
from placewright.rounds.decisions import Why
from placewright.rounds.sections.sections import flow_section, replica_section


class ReplicasDecider:
    """Decides which regions hold replicas; jobs stay as they are."""

    hosts: tuple[str, ...] = ()
    """No plan places a task."""

    def __init__(self, round_: Round) -> None:
        self._round = round_
        self.terms: tuple[str, ...] = round_.policy.terms

    def steps(self, session: Session) -> Iterator[Candidate | Bound]:
        """Yield what the formulation yields."""
        return run(self._problem, session)

    @cached_property
    def _problem(self) -> Problem:
        return compile_replicas(self._round)

    def reasons(self, candidate: Candidate) -> Mapping[int, Why]:
        """Return why each pending job waits: no region can run it, or the policy starts no jobs."""
        homes = (candidate.data or DataPlan()).homes
        return {
            j: Why(Reason.NOT_ASKED if j in homes else Reason.NO_REGION)
            for j, job in enumerate(self._round.jobs)
            if job.running is None
        }

    def sections(
        self,
        candidate: Candidate,
        decisions: Sequence[Decision],  # noqa: ARG002
    ) -> Iterator[dict[str, Any] | None]:
        """Yield replicas and flows."""
        wan, data = self._problem.wan, candidate.data or DataPlan()
        yield replica_section(wan, data)
        yield flow_section(wan, data) if data.flows else None


# All of the time of a proof goes into bounds, none into a new plan.
POLICY = PolicyDecider(
    lambda round_, _: ReplicasDecider(round_),
    lambda round_, _, __, session: prove_bounds(
        compile_replicas(round_), session, session.best or {}
    ),
)
