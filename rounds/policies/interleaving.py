"""Decider of policy `interleaving`: groups of jobs take turns on their GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.quotas import resources_held
from placewright.formulations.interleaving.problem.compile import Interleaving
from placewright.formulations.interleaving.problem.residual_capacity import quota_left
from placewright.formulations.interleaving.run import (
    compile_with_running_fixed,
    one_job_per_gang,
    run,
)
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.plan import Decision, DecisionKind, Reason
from placewright.instances.documents.round import Round
from placewright.rounds.policies.base import Decider, PolicyDecider, Resources, bounds_by_deciding
from placewright.rounds.sections.collectives import collective_section
from placewright.rounds.sections.reasons import StartTest, empty_placement

KIND = "groups"


class InterleavingDecider:
    """Decides a round in which jobs may take turns on GPUs."""

    def __init__(self, round_: Round) -> None:
        self._round = round_
        self.hosts = tuple(host for entry in round_.cluster.hosts for host in expand(entry.name))
        self.terms: tuple[str, ...] = round_.policy.terms

    def steps(self, session: Session) -> Iterator[Candidate | Bound]:
        """Yield what the formulation yields."""
        return run(self._kept, session)

    def reasons(self, candidate: Candidate) -> Mapping[int, Reason]:
        """Return the reason of every pending job that a candidate does not start."""
        return {job: reason for job, reason in self._proven.items() if job not in candidate.starts}

    @cached_property
    def _kept(self) -> Interleaving:
        return compile_with_running_fixed(self._round)

    @cached_property
    def _proven(self) -> dict[int, Reason]:
        """Reasons that are proven for each pending job, as if jobs did not share GPUs."""
        jobs = self._round.jobs
        left = quota_left(self._round, [j for j, job in enumerate(jobs) if job.running])
        gangs = one_job_per_gang(self._kept, self._kept.jobs)
        problem = compile_round(gangs.round)
        empty, before = StartTest(empty_placement(problem)), StartTest(Placement(problem))
        class_of = {j: c for c in problem.classes for j in c.jobs}
        reasons: dict[int, Reason] = {}
        for number, job_group in enumerate(gangs.job_groups):
            job = job_group.members[0]
            held = [resources_held(option) for option in jobs[job].options]
            mine = {name: most for (owner, name), most in left.items() if owner == jobs[job].tenant}
            if not empty.some_option_may_start(class_of[number]):
                reasons[job] = Reason.NEVER_FITS
            elif all(any(o.get(name, 0) > most for name, most in mine.items()) for o in held):
                reasons[job] = Reason.QUOTA
            elif not before.some_option_may_start(class_of[number]):
                reasons[job] = Reason.CAPACITY
            else:
                reasons[job] = Reason.NOT_CHOSEN
        return reasons

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


def _decider(
    round_: Round,
    resources: Resources,  # noqa: ARG001
) -> Decider:
    return InterleavingDecider(round_)


POLICY = PolicyDecider(_decider, bounds_by_deciding(_decider))
