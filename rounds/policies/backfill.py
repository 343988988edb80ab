"""Decider of gang rounds with reservations, aging or jobs that may not start yet.

The jobs at the head of the queue start or get a reservation first (rounds/backfill). The gang
formulation decides the rest in a round in which nothing can delay a reservation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from placewright.formulations.cells.residual_round import ResidualRound, residual_round_of
from placewright.formulations.cells.run import CellProblem, run
from placewright.formulations.gang.problem.compile import Compiler
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.instances.derived.waiting import eligible, expected_end
from placewright.instances.documents.plan import Decision, Detail, Reason
from placewright.instances.documents.round import Round
from placewright.rounds.backfill.profile import NEVER
from placewright.rounds.backfill.reserve import reserve
from placewright.rounds.backfill.restrict import restricted_round
from placewright.rounds.backfill.section import reservation_section
from placewright.rounds.decisions import Why
from placewright.rounds.policies.cells import base_terms
from placewright.rounds.sections.collectives import collective_section
from placewright.rounds.sections.move_order import move_section
from placewright.rounds.sections.reasons import reasons_of
from placewright.rounds.sections.shares import share_section
from placewright.rounds.state.memory import Memory

_MAY_START = (Reason.NOT_CHOSEN, Reason.DISPLACED_BY_PRIORITY)


def has_waiting_rules(round_: Round) -> bool:
    """Whether a round has reservations or aging, or pending jobs that may not start yet."""
    policy = round_.policy
    if policy.backfill is not None or policy.aging is not None:
        return True
    return any(not job.running and not eligible(job, round_.now) for job in round_.jobs)


class BackfillDecider:
    """Reserves for the first waiting jobs, and has the gang formulation decide the others."""

    def __init__(self, round_: Round, memory: Memory) -> None:
        self._round = round_
        self.whole = memory.compile(round_)
        self.hosts, self.terms = self.whole.cluster.hosts, self.whole.terms
        self._reserved = reserve(self.whole, memory.reservations)
        names = self.whole.cluster.resources
        rest = residual_round_of(round_, self._reserved.starts)
        restricted = restricted_round(rest.round, round_, self._reserved.reservations, names)
        self.rest: ResidualRound = replace(rest, round=restricted)
        problem = Compiler()(restricted, rest.borrowed, rest.priority_classes)
        self._problem = _without_further_shares(problem, len(names))

    def steps(self, session: Session) -> Iterator[Candidate | Bound]:
        """Yield plans and bounds of the whole round; if none is lawful, the start of the head."""
        yield from run(CellProblem(self.rest, base_terms(self.rest), self._problem), session)
        if session.best is None:
            yield self._reserved.starts

    def reasons(self, candidate: Candidate) -> dict[int, Why]:
        """Return the reason of every pending job that the candidate does not start."""
        reasons = reasons_of(self.whole, candidate)
        jobs, now = self._round.jobs, self._round.now
        for j in reasons:
            if jobs[j].held:
                reasons[j] = Why(Reason.HELD, None)
            elif not eligible(jobs[j], now):
                at = Detail.model_construct(at=jobs[j].not_before)
                reasons[j] = Why(Reason.NOT_BEFORE, at)
        mine = {r.job: r for r in self._reserved.reservations}
        for j, reservation in mine.items():
            if j in reasons:
                detail = Detail.model_construct(at=reservation.at)
                reasons[j] = Why(Reason.RESERVED, detail)
        doubtful = [j for j, why in reasons.items() if why.reason in _MAY_START]
        if mine and doubtful:
            inner = reasons_of(self._problem, self._inner(candidate))
            for j in doubtful:
                if inner[j].reason not in _MAY_START:
                    reasons[j] = self._held_back(j) or reasons[j]
        return reasons

    def sections(
        self, candidate: Candidate, decisions: Sequence[Decision]
    ) -> Iterator[dict[str, Any] | None]:
        """Yield order of moves, shares, reservations and collectives."""
        yield move_section(self._round, decisions)
        yield share_section(self.whole, candidate)
        if self._round.policy.backfill is not None:
            yield reservation_section(self._round, self.hosts, self._reserved)
        yield collective_section(self._round, self.whole.cluster, candidate)

    def _inner(self, candidate: Candidate) -> Candidate:
        """Return what a candidate does in the restricted round."""
        head = self._reserved.starts.starts
        starts = {j: start for j, start in candidate.starts.items() if j not in head}
        return replace(candidate, starts=starts)

    def _held_back(self, job: int) -> Why | None:
        """Return whose reservation a job would delay, None if it ends before all."""
        end = expected_end(self._round.jobs[job], self._round.now) or NEVER
        for reservation in self._reserved.reservations:
            if reservation.at < end:
                name = self._round.jobs[reservation.job].name
                detail = Detail.model_construct(at=reservation.at, job=name)
                return Why(Reason.HELD_FOR_RESERVATION, detail)
        return None


def _without_further_shares(problem: Problem, resources: int) -> Problem:
    """Return a problem whose dominant shares count only the first `resources` resources."""

    def known(amounts: Mapping[int, int]) -> dict[int, int]:
        return {r: amount for r, amount in amounts.items() if r < resources}

    shares = tuple(
        replace(
            share,
            denominator=known(share.denominator),
            total=known(share.total),
            held=known(share.held),
        )
        for share in problem.shares
    )
    return replace(problem, shares=shares)
