"""Decider of policy `geo`: jobs run in regions that hold their data or read it over links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from placewright.formulations.common.priority_classes import classes_by_term
from placewright.formulations.gang.problem.jobs import priority_classes
from placewright.formulations.gang.problem.limits import VALUE
from placewright.formulations.geo.heuristics.decomposition import never_runnable, regions_after
from placewright.formulations.geo.problem.compile import Problem, compile_geo
from placewright.formulations.geo.run import run
from placewright.formulations.plan_messages import Bound, Candidate, DataPlan
from placewright.formulations.session import Session
from placewright.instances.documents.plan import Decision, Detail, Reason
from placewright.instances.documents.round import Round
from placewright.rounds.deciders.base import PolicyDecider
from placewright.rounds.decisions import Why
from placewright.rounds.sections.moves import move_section
from placewright.rounds.sections.reasons import QuotaUse, RegionQuotas, Regions, reasons_of
from placewright.rounds.sections.sections import collective_section, flow_section, replica_section
from placewright.rounds.sections.states import FixedStates


class GeoDecider:
    """Decides a round in which regions hold data, and jobs run where they can read theirs."""

    def __init__(self, round_: Round) -> None:
        self._round = round_

    @cached_property
    def _problem(self) -> Problem:
        return compile_geo(self._round)

    @property
    def terms(self) -> tuple[str, ...]:
        """The policy's terms, `value` written out by priority class."""
        return self._problem.terms

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts, as places in candidates count them."""
        return self._problem.cluster.hosts

    def steps(self, session: Session) -> Iterator[Candidate | Bound]:
        """Yield what the formulation yields."""
        return run(self._problem, session)

    def reasons(self, candidate: Candidate) -> Mapping[int, Why]:
        """Return the reason of every pending job that a candidate does not start.

        What lacks data everywhere waits for it, or has no region. For all others fitting means in
        a region where they may start now.
        """
        problem, data = self._problem, candidate.data or DataPlan()
        jobs = range(len(self._round.jobs))
        waiting = [j for j in jobs if self._round.jobs[j].running is None]
        waiting = [j for j in waiting if j not in candidate.starts and j not in data.waits]
        reasons = {
            j: Why(Reason.DATA, Detail(region=problem.wan.regions[region], at=ready))
            for j, (region, ready) in data.waits.items()
        }
        nowhere = never_runnable(problem, waiting, data.creates)
        reasons |= dict.fromkeys(nowhere, Why(Reason.NO_REGION))

        def regions_of(job: int) -> tuple[int, ...]:
            return () if job in reasons else tuple(problem.eligible[job].nonzero()[0].tolist())

        gangs = problem.gangs()
        states = FixedStates(gangs, candidate)
        regions = Regions(
            problem.wan.regions,
            problem.wan.host_region,
            regions_of,
            cache(partial(self._quota_in, candidate, states)),
        )
        found = reasons_of(gangs, candidate, (), states, regions, startable=True)
        return found | reasons

    def _quota_in(self, candidate: Candidate, states: FixedStates, region: int) -> QuotaUse:
        """Return what tenants use of their quotas in a region."""
        problem = self._problem
        after = regions_after(problem, candidate.starts, ())
        quotas = {tenant: most for (r, tenant), most in problem.quota.items() if r == region}
        there = frozenset(np.flatnonzero(after == region).tolist())
        only = RegionQuotas(problem.wan.regions[region], quotas, there)
        return QuotaUse(self._round, candidate, states, region=only)

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
        after = regions_after(self._problem, candidate.starts, candidate.preempted)
        reads_of = self._problem.remote_reads_in(after)
        return {
            "kind": "reads",
            "readers": [
                {
                    "job": jobs[j].name,
                    "reads": [
                        {"dataset": wan.datasets[d], "source": wan.regions[s]} for d, s in reads
                    ],
                }
                for j, reads in sorted(reads_of.items())
            ],
            "waiting": [
                {"job": jobs[j].name, "region": wan.regions[r], "ready": ready}
                for j, (r, ready) in sorted(data.waits.items())
            ],
        }


POLICY = PolicyDecider(
    lambda round_, _: GeoDecider(round_),
    classes=lambda round_: classes_by_term(VALUE, priority_classes(round_)),
)
