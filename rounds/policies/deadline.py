"""Decider of policy `deadline`: jobs are promised to finish in time, by leases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from placewright.formulations.deadline.problem.compile import Admission, compile_admission
from placewright.formulations.deadline.run import run
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.plan_messages import Bound, Candidate, Promise
from placewright.formulations.session import Session
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.outages import unavailable_hosts
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.plan import Decision, Reason
from placewright.instances.documents.round import Round
from placewright.rounds.decisions import Why
from placewright.rounds.policies.base import Decider, PolicyDecider, Resources, bounds_by_deciding
from placewright.rounds.sections.collectives import collective_section
from placewright.rounds.sections.move_order import move_section
from placewright.rounds.sections.reasons import reasons_of
from placewright.rounds.state.admission import Ledger
from placewright.rounds.state.promises import KIND
from placewright.topology import Cluster


class DeadlineDecider:
    """Decides a round in which jobs are promised to finish in time."""

    def __init__(self, round_: Round, ledger: Ledger | None = None) -> None:
        self._round, self._ledger = round_, ledger or Ledger()
        self.hosts = tuple(host for entry in round_.cluster.hosts for host in expand(entry.name))
        self.terms: tuple[str, ...] = round_.policy.terms

    def steps(self, session: Session) -> Iterator[Candidate | Bound]:
        """Yield what the formulation yields."""
        admission = self._admission
        if self._ledger.leases:
            known = self._ledger.schedule(admission.steady_only())
            admission = replace(admission, known=known)
        return run(admission, session)

    @cached_property
    def _admission(self) -> Admission:
        return compile_admission(self._round)

    @cached_property
    def _cluster(self) -> Cluster:
        return build_cluster(self._round.cluster)

    def reasons(self, candidate: Candidate) -> Mapping[int, Why]:
        """Return the reason of every pending job that a candidate does not start."""
        gangs = self._round.model_copy(
            update={"policy": self._round.policy.model_copy(update={"formulation": "gang"})}
        )
        problem, away = compile_round(gangs), unavailable_hosts(self._round.leases, self._round.now)
        here = problem.open & ~np.isin(self.hosts, list(away))
        later = {promise.job for promise in candidate.promises}
        foremost = later.difference(candidate.preempted)
        reasons = reasons_of(replace(problem, open=here), candidate, foremost)
        asked = {j for j, job in enumerate(self._round.jobs) if job.deadline and job.deadline.due}
        for j in reasons:
            if j in later:
                reasons[j] = Why(Reason.PROMISED_LATER)
            elif j in asked:
                reasons[j] = Why(Reason.REFUSED)
        return reasons

    def sections(
        self, candidate: Candidate, decisions: Sequence[Decision]
    ) -> Iterator[dict[str, Any] | None]:
        """Yield leases, moves and collectives."""
        yield self._leases(candidate)
        yield move_section(self._round, decisions)
        yield collective_section(self._round, self._cluster, candidate)

    def _leases(self, candidate: Candidate) -> dict[str, Any]:
        jobs = self._round.jobs
        given = {promise.job: promise for promise in candidate.promises}
        offered = {offer.job: offer for offer in candidate.offers}
        broken, refused = [], []
        for j, job in enumerate(jobs):
            if job.deadline is None:
                continue
            had, has = job.deadline.promise, given.get(j)
            if had is not None and (has is None or has.at > had.at):
                broken.append({"job": job.name, "promise": had.model_dump()})
            if has is None and job.deadline.due:
                offer = offered.get(j)
                refused.append(
                    {"job": job.name} | ({} if offer is None else {"offer": _offer(offer)})
                )
        return {
            "kind": KIND,
            "length": self._round.leases.length_s,
            "jobs": [
                {
                    "job": jobs[promise.job].name,
                    "option": promise.option,
                    "promise": {"at": promise.at, "value": promise.value},
                    "finish": promise.finish,
                    "leases": [list(pair) for pair in promise.leases],
                }
                for promise in candidate.promises
            ],
            "broken": broken,
            "refused": refused,
        }


def _offer(offer: Promise) -> dict[str, Any]:
    leases = [list(pair) for pair in offer.leases]
    return {"option": offer.option, "at": offer.finish, "leases": leases}


def _decider(round_: Round, resources: Resources) -> Decider:
    return DeadlineDecider(round_, resources.memory.ledger)


POLICY = PolicyDecider(_decider, bounds_by_deciding(_decider))
