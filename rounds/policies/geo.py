"""Decider of policy `geo`: jobs run in regions that hold their data or read it over links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from placewright.formulations.geo.heuristics.data_orders import never_runnable
from placewright.formulations.geo.problem.compile import Problem, compile_geo
from placewright.formulations.geo.run import run
from placewright.formulations.plan_messages import Bound, Candidate, DataPlan
from placewright.formulations.session import Session
from placewright.instances.documents.plan import Decision, Reason
from placewright.instances.documents.round import Round
from placewright.rounds.decisions import Why
from placewright.rounds.policies.base import Decider, PolicyDecider, Resources, bounds_by_deciding
from placewright.rounds.sections.collectives import collective_section
from placewright.rounds.sections.move_order import move_section
from placewright.rounds.sections.reasons import reasons_of
from placewright.rounds.sections.replicas_and_flows import flow_section, replica_section


class GeoDecider:
    """Decides a round in which regions hold data, and jobs run where they can read theirs."""

    def __init__(self, round_: Round) -> None:
        self._round = round_
        self.terms: tuple[str, ...] = round_.policy.terms

    @cached_property
    def _problem(self) -> Problem:
        return compile_geo(self._round)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts, as places in candidates count them."""
        return self._problem.cluster.hosts

    def steps(self, session: Session) -> Iterator[Candidate | Bound]:
        """Yield what the formulation yields."""
        return run(self._problem, session)

    def reasons(self, candidate: Candidate) -> Mapping[int, Why]:
        """Return the reason of every pending job that a candidate does not start."""
        reasons = dict(reasons_of(self._problem.gangs(), candidate))
        data = candidate.data or DataPlan()
        nowhere = never_runnable(self._problem, list(reasons), data.creates)
        for j in reasons:
            if j in data.waits:
                reasons[j] = Why(Reason.DATA)
            elif j in nowhere:
                reasons[j] = Why(Reason.NO_REGION)
        return reasons

    def sections(
        self, candidate: Candidate, decisions: Sequence[Decision]
    ) -> Iterator[dict[str, Any] | None]:
        """Yield reads, replicas, flows, moves and collectives."""
        wan, data = self._problem.wan, candidate.data
        if data is not None:
            yield self._reads(candidate)
            yield replica_section(wan, data) if data.creates else None
            yield flow_section(wan, data) if data.flows else None
        yield move_section(self._round, decisions)
        yield collective_section(self._round, self._problem.cluster, candidate)

    def _reads(self, candidate: Candidate) -> dict[str, Any] | None:
        data, wan, jobs = candidate.data, self._problem.wan, self._round.jobs
        if data is None:
            return None
        return {
            "kind": "reads",
            "readers": [
                {
                    "job": jobs[j].name,
                    "reads": [
                        {"dataset": wan.datasets[d], "source": wan.regions[s]} for d, s in reads
                    ],
                }
                for j, reads in sorted(data.reads.items())
            ],
            "waiting": [
                {"job": jobs[j].name, "region": wan.regions[r], "ready": ready}
                for j, (r, ready) in sorted(data.waits.items())
            ],
        }


def _decider(
    round_: Round,
    resources: Resources,  # noqa: ARG001
) -> Decider:
    return GeoDecider(round_)


POLICY = PolicyDecider(_decider, bounds_by_deciding(_decider))
