"""Deciders of gang rounds of which a part comes first: tenants' cells, and reservations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from placewright.formulations.cells.admission import Admission, pinned
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
from placewright.instances.derived.waiting import eligible, expected_end
from placewright.instances.documents.plan import Decision, DecisionKind, Detail, Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.verify import breaks, terms_of, verify
from placewright.rounds.backfill.profile import NEVER, SOURCE, Reservation
from placewright.rounds.backfill.queue import (
    MAY_START,
    MOST_JOBS,
    BesideSome,
    in_turn,
    is_kept_off,
    is_part,
    reservation_section,
    reservations_of,
    reserve,
    reserved_before,
    restricted_round,
)
from placewright.rounds.deciders.base import Memory
from placewright.rounds.decisions import DefaultDecisions, Why, decisions_of
from placewright.rounds.sections.moves import move_section
from placewright.rounds.sections.reasons import reasons_of
from placewright.rounds.sections.sections import (
    CellReasons,
    cell_section,
    collective_section,
    share_section,
)
from placewright.rounds.sections.states import FixedStates


class CellsDecider:
    """Admits guaranteed jobs first, and has the gang formulation decide the residual round.

    `round_`: a round in which some tenant owns cells. `compiler`: what the rest is compiled by.
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
        rest.whole, tuple(rest.hosts), DefaultDecisions()(rest.whole), rest.base(), named=False
    )
    return terms_of(trusted(rest.whole), Plan.model_construct(decisions=decisions, sections=()))


def bounds_beside_cells(
    round_: Round, plan: Plan, compiler: Compiler, session: Session
) -> Iterator[Candidate | Bound]:
    """Yield bounds of plans whose guaranteed jobs are where this plan has them."""
    rest = residual_round_of_plan(round_, plan)
    problem = compiler(rest.round, rest.borrowed, rest.priority_classes)
    return run(CellProblem(rest, base_terms(rest), problem), session)


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


# Decider of gang rounds with reservations, aging, maintenance or jobs that may not start yet.
#
# The jobs at the head of the queue start or get a reservation first (rounds/backfill). The gang
# formulation decides the rest in a round in which nothing can delay a reservation.

_NOT_MODELLED = ("displaced_by", "preemption", "reservations")


class BackfillDecider:
    """Reserves for the first waiting jobs, and has the gang formulation decide the others.

    With a valid `plan` jobs start in their turn, and have reservations, as that has them.
    """

    def __init__(self, round_: Round, memory: Memory, plan: Plan | None = None) -> None:
        self._round = round_
        self.whole = memory.compile(round_)
        self.hosts, self.terms = self.whole.cluster.hosts, self.whole.terms
        if plan is None:
            self._reserved = reserve(self.whole, memory.reservations)
        else:
            turn = in_turn(plan.sections)
            jobs = [j for j, job in enumerate(round_.jobs) if job.name in turn]
            starts = starts_of_plan(round_, plan, jobs, SOURCE)
            self._reserved = reserved_before(self.whole, reservations_of(plan.sections), starts)
        rest = residual_round_of(round_, self._reserved.starts)
        restricted = self._restricted(rest, self._reserved.reservations)
        self.rest: ResidualRound = replace(rest, round=restricted)
        self._problem = self._compile(self.rest)

    def steps(self, session: Session) -> Iterator[Candidate | Bound]:
        """Yield plans and bounds of the whole round; if none is lawful, the start of the head.

        Three rules are no constraint of the models: which jobs may be preempted where the head of
        the queue starts, or for what only reservations take of pools, and where jobs with parts of
        GPUs move on hosts with reservations. If a plan breaks one, a second search leaves the jobs
        concerned in place.
        """
        if self._is_decided():
            yield replace(self._reserved.starts, final=True)
            if session.best is not None:
                # There is no other plan.
                for term in self.terms:
                    yield Bound(term, session.best[term], certified=True)
                return
        base, doubtful = base_terms(self.rest), self._doubtful()
        checked, unlawful = bool(doubtful or self._round.cluster.pools), False
        for step in run(CellProblem(self.rest, base, self._problem), session):
            if (
                checked
                and isinstance(step, Candidate)
                and (step.preempted or not doubtful.isdisjoint(step.starts))
                and not self._is_lawful(step, session)
            ):
                unlawful = True
                doubtful |= step.preempted.keys()
            else:
                yield step
        if unlawful and not session.proven and not session.expired():
            jobs = tuple(
                pinned(job) if j in doubtful else job for j, job in enumerate(self.rest.round.jobs)
            )
            rest = replace(self.rest, round=self.rest.round.model_copy(update={"jobs": jobs}))
            for step in run(CellProblem(rest, base, self._compile(rest)), session):
                if isinstance(step, Candidate) and self._is_lawful(step, session):
                    yield step
        if session.best is None:
            yield self._reserved.starts

    def _is_decided(self) -> bool:
        """Whether no running job may move or stop, and no other job fits beside the head."""
        if any(job.running and not job.running.pinned for job in self._round.jobs):
            return False
        return not any(
            why.reason in MAY_START or (why.detail is not None and why.detail.unproven)
            for why in self._beside_head.values()
        )

    @cached_property
    def _beside_head(self) -> dict[int, Why]:
        """Why jobs wait in the restricted round if nothing else starts there."""
        return reasons_of(self._problem, Candidate({}, SOURCE), startable=True)

    def _doubtful(self) -> set[int]:
        """Return the running jobs of which a restricted round does not say all that binds them."""
        names = self.hosts
        head = {
            names[host]
            for _, places in self._reserved.starts.starts.values()
            for _, _, host, _ in places
        }
        reserved = {names[host] for r in self._reserved.reservations for _, host, _ in r.tasks}
        found = set[int]()
        for j, job in enumerate(self._round.jobs):
            if job.running is None or job.running.pinned:
                continue
            groups = job.options[job.running.option].groups
            for task in job.running.tasks:
                if task.host in head or (task.host in reserved and is_part(groups[task.group])):
                    found.add(j)
        return found

    def _is_lawful(self, candidate: Candidate, session: Session) -> bool:
        """Whether a candidate keeps the rules that the models do not have."""
        waiting = DefaultDecisions()(self._round)
        decisions = decisions_of(self._round, self.hosts, waiting, candidate)
        sections = tuple(s for s in self.sections(candidate, decisions) if s is not None)
        plan = Plan.model_construct(decisions=decisions, sections=sections)
        if session.verifies_each:
            return verify(self._round, plan).ok
        return not breaks(self._round, plan, _NOT_MODELLED)

    def _compile(self, rest: ResidualRound) -> Problem:
        problem = Compiler()(rest.round, rest.borrowed, rest.priority_classes)
        return _without_further_shares(problem, len(self.whole.cluster.resources))

    def reasons(self, candidate: Candidate) -> dict[int, Why]:
        """Return the reason of every pending job that the candidate does not start."""
        reasons = reasons_of(self.whole, candidate, startable=True)
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
        doubtful = [j for j, why in reasons.items() if why.reason in MAY_START]
        if (mine or self._round.maintenance) and doubtful:
            is_head = candidate.starts.keys() == self._reserved.starts.starts.keys()
            inner = (
                self._beside_head
                if is_head and not candidate.preempted
                else reasons_of(self._problem, self._inner(candidate), startable=True)
            )
            beside = BesideSome(lambda some: self._beside(some, candidate))
            for j in doubtful:
                if is_kept_off(reasons[j], inner[j]):
                    reasons[j] = self._held_back(j, beside, reasons[j])
        return reasons

    def _beside(self, reservations: Sequence[Reservation], candidate: Candidate) -> dict[int, Why]:
        """Return why jobs wait beside maintenance and some of the reservations alone."""
        if reservations:
            rest = residual_round_of(self._round, self._reserved.starts)
            problem = self._compile(replace(rest, round=self._restricted(rest, reservations)))
        else:
            problem = self._maintained
        return reasons_of(problem, self._inner(candidate), startable=True)

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

    @cached_property
    def _maintained(self) -> Problem:
        """The round in which starts of the head run, and nothing else than maintenance limits."""
        rest = residual_round_of(self._round, self._reserved.starts)
        return self._compile(replace(rest, round=self._restricted(rest, ())))

    def _restricted(self, rest: ResidualRound, reservations: Sequence[Reservation]) -> Round:
        names, pools = self.whole.cluster.resources, self._reserved.pools
        return restricted_round(rest.round, self._round, reservations, names, pools)

    def _held_back(self, job: int, beside: BesideSome, otherwise: Why) -> Why:
        """Return which maintenance keeps a job off, or whose reservation it would delay.

        If it ends before all of them, return `otherwise` without the claim that it fits.
        """
        now = self._round.now
        end = expected_end(self._round.jobs[job], now) or NEVER
        coming = [
            max(outage.start or 0, now)
            for outage in self._round.maintenance
            if (outage.start or 0) < end and (outage.end or NEVER) > now
        ]
        earlier = sorted((r for r in self._reserved.reservations if r.at < end), key=lambda r: r.at)
        if coming and earlier and beside.fits(job, (), otherwise):
            coming = []
        if coming:
            return Why(Reason.HELD_FOR_MAINTENANCE, Detail.model_construct(at=min(coming)))
        if earlier:
            delayed = earlier[0]
            if len(self._round.jobs) <= MOST_JOBS:
                delayed = beside.first_delayed(job, earlier, otherwise)
            name = self._round.jobs[delayed.job].name
            detail = Detail.model_construct(at=delayed.at, job=name)
            return Why(Reason.HELD_FOR_RESERVATION, detail)
        facts = (otherwise.detail or Detail()).model_copy(update={"startable": False})
        return Why(otherwise.reason, None if facts == Detail() else facts)


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
