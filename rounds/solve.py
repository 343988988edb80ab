"""`solve_round`: run the formulation, verify every candidate, keep the best plan and its bounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeAlias

from placewright.collection import no_collection
from placewright.formulations.gang import run as gang_formulation
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import GangFormulation, Session
from placewright.instances.checks.round import checked, trusted
from placewright.instances.documents.plan import Certificate, Decision, Plan
from placewright.instances.documents.policy import headline
from placewright.instances.documents.round import Round
from placewright.instances.verify import class_terms, verify, verify_certificate
from placewright.rounds.certificate import (
    Bounds,
    better,
    headline_gap,
    refuse_beaten_bounds,
    with_status,
)
from placewright.rounds.deciders.base import DECIDERS, Resources
from placewright.rounds.decisions import decisions_of, with_invalid, with_reasons
from placewright.rounds.displacement.victims import lawful
from placewright.rounds.regions.executors import check_executor
from placewright.rounds.settings import InternalError, Isolation, Meter, Settings, Solver, versions
from placewright.rounds.starting_candidates import starting_candidates
from placewright.rounds.state.memory import Memory

INTERRUPTED = "interrupted"
FINAL_VERIFICATIONS = 3.0
"""Time kept for the final verification, in multiples of the time that the first one took."""

Progress: TypeAlias = Callable[[int, float | None], None]
"""Called with best value and tightest bound (None without one) of the last headline term.

Headline terms: the first, under policy `deadline` `broken` and `admitted`.
"""


def solve_round(
    round: Round,  # noqa: A002
    *,
    time_limit: float | None = None,
    gap: float | None = None,
    backend: str = "auto",
    seed: int | None = None,
    deterministic: bool | None = None,
    progress: Progress | None = None,
    isolation: Isolation = "process",
    executor: Executor | None = None,
    start: Plan | None = None,
) -> Plan:
    """Decide one round.

    It reads and writes no file, changes no global state and prints nothing. Limits that are not
    given are those of the round.

    Parameters
    ----------
    round
        What is to be decided.
    time_limit
        Wall-clock seconds; 0 gives the greedy plan.
    gap
        Relative gap of the first term at which the search stops.
    backend
        `auto` (HiGHS), `highs`, `cp-sat`, `cbc` or `scip`.
    seed
        Passed to the solver.
    deterministic
        Work limits instead of the clock decide, so that a repetition gives the same plan; the
        certificate says `repeatable: false` if the clock had to step in after all.
    progress
        Called with the best value and tightest bound of the last headline term (`admitted` of the
        policy `deadline`, else the first term) whenever either may have changed. What it raises is
        the caller's: it ends the search and is raised again, and there is no plan.
    isolation
        `none` solves in this process, where no limit can be enforced from outside: for tiny rounds.
    executor
        Decides the regions of a round of policy `geo` side by side, such as
        `open_executor` opens; None: here, or in local processes if that pays. Rounds of
        other policies take none.
    start
        A valid plan of a similar round. What it decides for the jobs of this round is the first
        candidate, if that is a plan of this round: the result is another only if it is better.

    Returns
    -------
    Plan
        A verified plan with its certificate. After an interrupt (Ctrl-C), the best plan so far, and
        the certificate's `degraded` names the interrupt.

    Raises
    ------
    InvalidInputError
        If the round makes no sense, as where it refers to what it does not have, an argument is out
        of its range, or the round has no use for the executor given.
    InternalError
        If no candidate passes verification, or a verified plan beats a certified bound.
    """
    round = checked(round)  # noqa: A001
    settings = Settings.of(
        round,
        time_limit=time_limit,
        gap=gap,
        backend=backend,
        seed=seed,
        deterministic=deterministic,
        isolation=isolation,
    )
    check_executor(round, executor)
    with no_collection():
        gang = gang_formulation.run
        return Solve(round, settings, progress, Memory(), gang, executor).plan(start=start)


class Solve:
    """One round being decided: `plan` runs the formulation and keeps the best it yields.

    The round was checked, or made of one that was.
    """

    def __init__(
        self,
        round_: Round,
        settings: Settings,
        progress: Progress | None,
        memory: Memory,
        gang: GangFormulation,
        executor: Executor | None = None,
    ) -> None:
        self.given, self.round = trusted(round_), trusted(round_.valid_part())
        self.settings, self.progress = settings, progress
        self.memory = memory
        self.resources = Resources(settings, gang, memory, executor)
        self.meter = Meter()
        self.bounds = Bounds(DECIDERS[self.round.policy.formulation].classes(self.round))
        self.best: Candidate | None = None
        self.document: Plan = Plan.model_construct(decisions=())
        self.values: dict[str, int] = {}
        self._has_reasons, self._verify_seconds = False, 0.0
        self._progress_error: Exception | None = None

    def plan(self, solver: Solver | None = None, start: Plan | None = None) -> Plan:
        """Return the best plan, verified, the search begun with what `start` decides here.

        Without a `solver`, one is started for this round.
        """
        self.default_decisions = self.memory.default_decisions(self.round)
        self.decider = DECIDERS[self.round.policy.formulation].decider(self.round, self.resources)
        self.terms = self.decider.terms
        opened = self.resources.session(self.meter, solver)
        with ThreadPoolExecutor(1) as background, opened as session:
            # The hash of the round, needed at the end; it is computed while the solver works.
            self.digest = background.submit(self.memory.digest, self.given)
            try:
                if start is not None:
                    self._begin(start, session)
                for step in self.decider.steps(session):
                    if isinstance(step, Candidate):
                        self._consider(step, session)
                    else:
                        self._tighten(step, session)
            except KeyboardInterrupt:
                if self.best is None:
                    raise
                session.degraded.append(INTERRUPTED)
            except Exception as error:
                # A fault of the formulation ends the search, and the best plan is returned.
                of_formulation = (
                    not isinstance(error, InternalError) and error is not self._progress_error
                )
                if self.best is None or not of_formulation:
                    raise
                session.degraded.append(f"formulation: {type(error).__name__}: {error}")
            return self._finish_despite_interrupt(session)

    def _finish_despite_interrupt(self, session: Session) -> Plan:
        """Write the plan even if an interrupt comes meanwhile: it takes one verification."""
        try:
            return self._finish(session)
        except KeyboardInterrupt:
            session.degraded.append(INTERRUPTED)
            return self._finish_despite_interrupt(session)

    def _begin(self, start: Plan, session: Session) -> None:
        """Consider a plan of a similar round; that it does not suit this one is no fault."""
        for candidate in starting_candidates(self.round, start, self.decider.hosts):
            self._consider(candidate, session)
        session.degraded.clear()

    def _consider(self, candidate: Candidate, session: Session) -> None:
        """Verify a candidate and keep it if it is the best so far."""
        began = time.monotonic()
        kept = lawful(self.round, self.decider.hosts, candidate)
        if kept is None:
            return
        candidate = kept
        # Reasons are written at once if this may be the last plan, which saves a verification.
        reasoned = candidate.final or session.before_deadline() <= self._verify_seconds
        plan = self._document(candidate, reasoned)
        verification = verify(self.round, plan)
        self._verify_seconds = time.monotonic() - began
        if reasoned and not verification.ok:
            without = self._document(candidate, reasoned=False)
            if (unreasoned := verify(self.round, without)).ok:
                session.degraded.append(f"reasons: {verification.violations[0]}")
                plan, verification, reasoned = without, unreasoned, False
        if not verification.ok:
            first = verification.violations[0]
            session.degraded.append(f"{candidate.source}: invalid plan: {first}")
            return
        if self.best is None and not candidate.final:
            session.clock.reserved_s += FINAL_VERIFICATIONS * self._verify_seconds
        if self.best is None or better(verification.terms, self.values, self.terms):
            self.best, self.values = candidate, dict(verification.terms)
            self._has_reasons = reasoned
            self.document = plan
            session.best_known.values = self.values
            self._report_progress(session)

    def _tighten(self, bound: Bound, session: Session) -> None:
        self.bounds.add(bound)
        self._report_progress(session)

    def _report_progress(self, session: Session) -> None:
        if self.best is None:
            return
        results = self.bounds.update_session(session, self.terms, self.values)
        if self.progress is not None:
            # Of priority classes the highest.
            last = results[len(headline(self.round.policy.terms)) - 1]
            try:
                self.progress(last.value, last.bound)
            except Exception as error:
                self._progress_error = error
                raise

    def _document(self, candidate: Candidate, reasoned: bool) -> Plan:
        decisions = decisions_of(self.round, self.decider.hosts, self.default_decisions, candidate)
        if reasoned:
            decisions = with_reasons(self.round, decisions, self.decider.reasons(candidate))
        sections = tuple(s for s in self.decider.sections(candidate, decisions) if s is not None)
        return Plan.model_construct(decisions=decisions, sections=sections)

    def _final_decisions(self, candidate: Candidate, session: Session) -> tuple[Decision, ...]:
        """Return the decisions of the best plan with reasons, if these pass verification."""
        decisions = self.document.decisions
        reasoned = decisions
        if not self._has_reasons:
            reasoned = with_reasons(self.round, decisions, self.decider.reasons(candidate))
        if reasoned is decisions:
            return decisions
        plan = self.document.model_copy(update={"decisions": reasoned})
        violations = verify(self.round, plan).violations
        if violations:
            session.degraded.append(f"reasons: {violations[0]}")
        return decisions if violations else reasoned

    def _finish(self, session: Session) -> Plan:
        """Write the best plan with reasons and certificate, and verify what that changes."""
        if self.best is None:
            why = "; ".join(session.degraded)
            raise InternalError(why or "the formulation yielded no candidate")
        decisions = self._final_decisions(self.best, session)
        # An interrupt may have come between a bound and the update that follows it.
        results = self.bounds.update_session(session, self.terms, self.values)
        results = with_status(results, self.settings.gap)
        gap = headline_gap(results)
        certificate = Certificate(
            status="optimal"
            if all(result.status == "optimal" for result in results)
            else "within_gap"
            if gap is not None and gap <= self.settings.gap
            else "feasible",
            gap=gap,
            terms=results,
            backend=self.settings.backend,
            versions=versions(self.settings.backend),
            seed=self.settings.seed,
            deterministic=self.settings.deterministic,
            repeatable=self.settings.deterministic
            and not session.wall_stopped
            and not session.degraded,
            degraded=tuple(dict.fromkeys(session.degraded)),
            run=self.meter.read(),
        )
        plan = self.document.model_copy(update={"certificate": certificate, "decisions": decisions})
        refuse_beaten_bounds(results, plan)
        # Decisions and sections have been verified: only the certificate is new.
        violations = tuple(verify_certificate(certificate, self.values, class_terms(self.round)))
        if self.given.invalid and not violations:
            plan = plan.model_copy(update={"decisions": with_invalid(self.given, decisions)})
            violations = verify(self.given, plan).violations
        if violations:
            raise InternalError(f"final plan: {violations[0]}", plan)
        # Added after verification, which would only compare the digest of the round with itself.
        return plan.model_copy(update={"round": self.digest.result()})
