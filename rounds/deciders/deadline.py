"""Decider of policy `deadline`: jobs are promised to finish in time, by leases."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from placewright.formulations.common.priority_classes import write_out_terms
from placewright.formulations.deadline.problem.compile import Admission, compile_admission
from placewright.formulations.deadline.problem.problem import (
    ADMITTED,
    BEST_EFFORT,
    classes_of_terms,
    priority_classes,
)
from placewright.formulations.deadline.run import run
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.plan_messages import Bound, Candidate, Promise
from placewright.formulations.session import Session
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.leases import unavailable_hosts
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.plan import Decision, Detail, Reason
from placewright.instances.documents.round import Round
from placewright.rounds.deciders.base import PolicyDecider
from placewright.rounds.decisions import Why
from placewright.rounds.sections.moves import move_section
from placewright.rounds.sections.reasons import reasons_of
from placewright.rounds.sections.sections import collective_section
from placewright.rounds.sections.states import FixedStates
from placewright.rounds.state.admission import KIND, Ledger
from placewright.topology import Cluster


class DeadlineDecider:
    """Decides a round in which jobs are promised to finish in time."""

    def __init__(self, round_: Round, ledger: Ledger | None = None) -> None:
        self._round, self._ledger = round_, ledger or Ledger()
        self.hosts = tuple(host for entry in round_.cluster.hosts for host in expand(entry.name))
        numbers = {term: len(priority_classes(round_, term)) for term in (ADMITTED, BEST_EFFORT)}
        self.terms = write_out_terms(round_.policy.terms, numbers)

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
            update={
                "policy": self._round.policy.model_copy(
                    update={"formulation": "gang", "keep_sizes": True}
                )
            }
        )
        problem, away = compile_round(gangs), unavailable_hosts(self._round.leases, self._round.now)
        here = problem.open & ~np.isin(self.hosts, list(away))
        problem = replace(problem, open=here)
        later = {promise.job: promise for promise in candidate.promises}
        exempt = [j for j in candidate.preempted if self._runs_on(j, away)]
        foremost = later.keys() - candidate.preempted.keys()
        states = FixedStates(problem, candidate, foremost, exempt)
        reasons = reasons_of(problem, candidate, foremost, states, startable=True)
        return {j: self._of_leases(j, later, candidate.offers) or why for j, why in reasons.items()}

    def _runs_on(self, job: int, hosts: Collection[str]) -> bool:
        running = self._round.jobs[job].running
        return running is not None and any(task.host in hosts for task in running.tasks)

    def _of_leases(
        self, job: int, later: Mapping[int, Promise], offers: Sequence[Promise]
    ) -> Why | None:
        """Return why a job waits if promises or its own times are the reason."""
        now, leases, deadline = self._round.now, self._round.leases, self._round.jobs[job].deadline
        if job in later:
            begins = now + later[job].leases[0][0] * leases.length_s
            return Why(Reason.PROMISED_LATER, Detail(at=begins))
        if deadline is None:
            return None
        if deadline.due:
            offer = next((one for one in offers if one.job == job), None)
            return Why(Reason.REFUSED, None if offer is None else Detail(at=offer.finish))
        if deadline.ready is not None and deadline.ready > now:
            return Why(Reason.NOT_BEFORE, Detail(at=deadline.ready))
        return None

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


POLICY = PolicyDecider(
    lambda round_, resources: DeadlineDecider(round_, resources.memory.ledger),
    classes=classes_of_terms,
)
