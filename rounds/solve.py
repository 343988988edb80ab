"""`solve_round`: run the formulation, keep the best plan and its bounds, and verify it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, TypeAlias

from placewright.collection import no_collection
from placewright.formulations.gang import run as gang
from placewright.formulations.gang import run as gang_formulation
from placewright.formulations.plan_messages import Bound, Candidate, DataPlan, Flow, Group, Promise
from placewright.formulations.session import BestKnown, GangFormulation, Session
from placewright.instances.checks.round import checked, trusted
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.plan import (
    Certificate,
    DecisionKind,
    Plan,
    TermResult,
)
from placewright.instances.documents.policy import headline
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.verify import (
    Verification,
    class_terms,
    terms_of,
    verify,
    verify_certificate,
)
from placewright.rounds.certificate import (
    Bounds,
    better,
    headline_gap,
    refuse_beaten_bounds,
    with_status,
)
from placewright.rounds.deciders.base import DECIDERS, Decider, Memory, Resources
from placewright.rounds.decisions import decisions_of, with_invalid, with_reasons
from placewright.rounds.displacement.victims import lawful
from placewright.rounds.regions.executors import check_executor
from placewright.rounds.settings import InternalError, Isolation, Meter, Settings, Solver, versions

SOURCE = "start"


def starting_candidates(
    round_: Round, plan: Plan, hosts: Sequence[str]
) -> tuple[Candidate, Candidate]:
    """Return what a plan decides for the jobs of a round that it knows; then completed.

    Jobs that the plan does not know wait, or stay where they run, and so does who would come to a
    host that is no longer there, or where nothing may arrive. Whether the rest is a plan of the
    round is for the verifier to say.

    `round_`: the round to decide. `plan`: a plan of a round that has jobs and hosts in common with
    this one. `hosts`: names of the hosts of the round, as places in candidates count them. Raises
    InvalidInputError if `plan` is no Plan.
    """
    if not isinstance(plan, Plan):
        raise InvalidInputError("expected a Plan", path=("start",), value=type(plan).__name__)
    index = {name: at for at, name in enumerate(hosts)}
    numbers = {job.name: j for j, job in enumerate(round_.jobs)}
    closed = _closed(round_)
    starts, slots = {}, {}
    stopped: dict[int, tuple[int, ...]] = {}
    for decision in plan.decisions:
        j = numbers.get(decision.job)
        if j is None:
            continue
        job = round_.jobs[j]
        if decision.decision is DecisionKind.PREEMPT and job.running is not None:
            stopped[j] = tuple(numbers[name] for name in decision.displaced_by if name in numbers)
        elif decision.option is not None and decision.decision is not DecisionKind.KEEP:
            moves = decision.decision.moves
            suits = moves == (job.running is not None) and decision.option < len(job.options)
            if not suits or any(t.host not in index or t.host in closed for t in decision.tasks):
                continue
            places = tuple((t.group, t.index, index[t.host], t.gpus) for t in decision.tasks)
            starts[j] = (decision.option, places)
            if any(task.slot is not None for task in decision.tasks):
                slots[j] = tuple(task.slot for task in decision.tasks)
    # Whoever was stopped for jobs none of which arrives stays.
    preempted = {
        j: by[0] if by else -1
        for j, by in stopped.items()
        if not by or any(other in starts for other in by)
    }
    sections = {section["kind"]: section for section in plan.sections}
    promises, offers = _promises(sections.get("leases"), numbers)
    has_data = "geo" in round_.policy.spec.sections
    first = Candidate(
        starts,
        SOURCE,
        preempted,
        slots=slots,
        groups=_groups(sections.get("groups"), numbers),
        promises=promises,
        offers=offers,
        data=_data(round_, sections, numbers) if has_data else None,
    )
    return first, DECIDERS[round_.policy.formulation].completed(round_, first)


def _closed(round_: Round) -> set[str]:
    """Return the hosts on which nothing may arrive."""
    away = [entry.name for entry in round_.cluster.hosts if not entry.healthy]
    away += [one.host for one in round_.reservations if one.gpus is None]
    return {host for name in (*away, *round_.policy.vacate) for host in expand(name)}


def _groups(section: Mapping[str, Any] | None, numbers: Mapping[str, int]) -> tuple[Group, ...]:
    """Return the groups of jobs that share GPUs of which the round has all members."""
    found: list[Group] = []
    for group in () if section is None else section["groups"]:
        members = [numbers.get(member["job"]) for member in group["members"]]
        known = tuple(j for j in members if j is not None)
        if len(known) == len(members):
            offsets = tuple(member["offset"] for member in group["members"])
            found.append(Group(known, offsets, group["period"]))
    return tuple(found)


def _promises(
    section: Mapping[str, Any] | None, numbers: Mapping[str, int]
) -> tuple[tuple[Promise, ...], tuple[Promise, ...]]:
    """Return the promises and offers to jobs that the round has."""
    if section is None:
        return (), ()

    def promise(entry: Mapping[str, Any], option: int, at: int, value: int, finish: int) -> Promise:
        leases = tuple((first, end) for first, end in entry["leases"])
        return Promise(numbers[job], option, at, value, finish, leases)

    promises: list[Promise] = []
    offers: list[Promise] = []
    for entry in section["jobs"]:
        job = entry["job"]
        if job in numbers:
            due = entry["promise"]
            promises.append(
                promise(entry, entry["option"], due["at"], due["value"], entry["finish"])
            )
    for entry in section["refused"]:
        job, offer = entry["job"], entry.get("offer")
        if job in numbers and offer is not None:
            offers.append(promise(offer, offer["option"], offer["at"], 0, offer["at"]))
    return tuple(promises), tuple(offers)


def _data(
    round_: Round, sections: Mapping[str, Mapping[str, Any]], numbers: Mapping[str, int]
) -> DataPlan:
    """Return what the sections of a plan say of data that the round has."""
    cluster = build_cluster(round_.cluster)
    regions = _numbers(cluster.names[cluster.levels.index(round_.geo.level)])
    models, datasets = _numbers(cluster.gpu_models), _numbers(d.name for d in round_.geo.datasets)
    reads, replicas = sections.get("reads", {}), sections.get("replicas", {})

    def changes(kind: str, time: str) -> tuple[tuple[int, int, int], ...]:
        return tuple(
            (datasets[one["dataset"]], regions[one["region"]], one[time])
            for one in replicas.get(kind, ())
            if one["dataset"] in datasets and one["region"] in regions
        )

    return DataPlan(
        homes={
            numbers[home["job"]]: (regions[home["region"]], models[home["gpu_model"]])
            for home in replicas.get("homes", ())
            if home["job"] in numbers and home["region"] in regions and home["gpu_model"] in models
        },
        creates=changes("creates", "ready"),
        drops=changes("drops", "at"),
        flows=tuple(
            Flow(
                datasets[flow["dataset"]],
                tuple(regions[region] for region in flow["path"]),
                flow["gib"],
                flow["start"],
                flow["end"],
            )
            for flow in sections.get("flows", {}).get("flows", ())
            if flow["dataset"] in datasets and all(region in regions for region in flow["path"])
        ),
        waits={
            numbers[one["job"]]: (regions[one["region"]], one["ready"])
            for one in reads.get("waiting", ())
            if one["job"] in numbers and one["region"] in regions
        },
    )


def _numbers(names: Any) -> dict[str, int]:
    return {name: at for at, name in enumerate(names)}


def prove_bounds(
    round: Round,  # noqa: A002
    plan: Plan,
    *,
    time_limit: float | None = None,
    backend: str = "auto",
    isolation: Isolation = "auto",
) -> tuple[TermResult, ...]:
    """Prove bounds for a plan's own values, and the gaps that follow.

    Returns one per term of the policy, the bounds of later terms with the earlier ones held at the
    plan's values. `round`, `plan`: a round and a plan whose placement `verify` accepts for it; what
    the plan says of it is not read. `time_limit`, `backend`, `isolation`: as for `solve_round`.
    Raises InvalidInputError if the round makes no sense, or an argument is out of its range. Raises
    ValueError if the plan breaks a rule. Raises InternalError if the plan beats a certified bound.
    """
    round = checked(round)  # noqa: A001
    settings = Settings.of(round, time_limit=time_limit, backend=backend, isolation=isolation)
    verification = verify(round, plan.model_copy(update={"certificate": None}))
    if not verification.placement_ok:
        broken = next(found for found in verification.violations if not found.is_statement)
        raise ValueError(f"the plan breaks a rule: {broken}")
    round = round.valid_part()  # noqa: A001
    plan = plan.completed(round.names)
    values = verification.terms
    terms = tuple(values)
    bounds = Bounds(DECIDERS[round.policy.formulation].classes(round))
    resources = Resources(settings, gang.run)
    with resources.session(Meter()) as session:
        session.best_known.values = values
        for step in _steps(round, plan, resources, session):
            if isinstance(step, Bound):
                bounds.add(step)
                bounds.update_session(session, terms, values)
    results = with_status(bounds.results(terms, values), settings.gap)
    refuse_beaten_bounds(results, plan)
    return results


def _steps(
    round_: Round, plan: Plan, resources: Resources, session: Session
) -> Iterator[Candidate | Bound]:
    """Return what proves bounds for plans of the round's policy."""
    policy = DECIDERS[round_.policy.formulation]
    if policy.bounds is None:
        return policy.decider(round_, resources).steps(session)
    return policy.bounds(round_, plan, resources, session)


INTERRUPTED = "interrupted"
MOST_RESERVED = 0.1
"""Part of the time limit that is kept for the last verification, at most, if that holds it."""
MOST_LATE = 2.0
"""Seconds by which a limit may be overrun, beside `MOST_RESERVED` of it."""
MOST_LONGER = 4.0
"""How many times as long as the check of the first plan the last one, which stops jobs, may take.

It is compared, and who displaces whom is asked, written and verified.
"""
MOST_MORE = 5.5
"""How many times as long as it took to compare a later plan it may take to compare one more and to
check that.
"""

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
    isolation: Isolation = "auto",
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
        `process` solves in a worker process, which is killed if it overruns; `none` in this one,
        where no limit can be enforced from outside. `auto` begins small models of small rounds in
        this process, for a second or two, which spares most such rounds the start of another.
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
        # Whether the document was verified in full, and whether it has reasons, which are the last.
        self._is_verified = self._has_reasons = False
        self._last_verified: tuple[Candidate, dict[str, int], Plan] | None = None
        self._check_seconds = 0.0
        self._progress_error: Exception | None = None

    def plan(self, solver: Solver | None = None, start: Plan | None = None) -> Plan:
        """Return the best plan, verified, the search begun with what `start` decides here.

        Without a `solver`, one is started for this round.
        """
        self.default_decisions = self.memory.default_decisions(self.round)
        self.decider = self._new_decider()
        self.terms = self.decider.terms
        opened = self.resources.session(self.meter, solver)
        with ThreadPoolExecutor(1) as background, opened as session:
            # The hash of the round, needed at the end; it is computed while the solver works.
            self.digest = background.submit(self.memory.digest, self.given)
            self._search(session, start)
            return self._finish_despite_interrupt(session)

    def _search(self, session: Session, start: Plan | None = None) -> None:
        """Go through the steps of the round, and keep the best plan and its bounds."""
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
        """Keep a candidate if it is the best so far, by terms that the verifier recomputes.

        The first plan is verified in full; of the others only the one that is returned, at the
        end. In a round that is decided again each plan is.
        """
        began = time.thread_time()
        kept = lawful(self.round, self.decider.hosts, candidate)
        if kept is None:
            return
        candidate = kept
        if self.best is not None and not session.verifies_each:
            plan = self._document(candidate, named=False)
            self._keep(candidate, plan, terms_of(self.round, plan), session)
            took = time.thread_time() - began
            session.clock.reserved_s = max(
                session.clock.reserved_s, self._reserve(took * MOST_MORE)
            )
            return
        # Reasons are written at once if this may be the last plan, which saves a verification. The
        # first one is likely to take no longer than all that came before it.
        took = self._check_seconds or self.meter.seconds()
        reasoned = candidate.final or session.before_deadline() <= took
        plan = self._document(candidate, reasoned=reasoned)
        verification = self._verify(plan)
        self._check_seconds = time.thread_time() - began
        if reasoned and not verification.ok:
            without = self._document(candidate)
            if (unreasoned := self._verify(without)).ok:
                session.degraded.append(f"reasons: {verification.violations[0]}")
                plan, verification, reasoned = without, unreasoned, False
        if not verification.ok:
            first = verification.violations[0]
            session.degraded.append(f"{candidate.source}: invalid plan: {first}")
            return
        if self.best is None and not candidate.final:
            runs = any(job.running is not None for job in self.round.jobs)
            last = self._check_seconds * (MOST_LONGER if runs else 1)
            session.clock.reserved_s = self._reserve(last)
        if self._keep(candidate, plan, verification.terms, session):
            self._is_verified, self._has_reasons = True, reasoned
            self._last_verified = candidate, self.values, plan

    def _reserve(self, last: float) -> float:
        """Return the seconds to keep for the last check, which may take `last`.

        As much as the first one took, or a tenth of the limit if that is less, as a limit may be
        overrun by a tenth and `MOST_LATE` seconds; in any case what is beyond these of the last.
        """
        share = MOST_RESERVED * self.settings.seconds
        return max(min(self._check_seconds, share), last - share - MOST_LATE)

    def _keep(
        self, candidate: Candidate, plan: Plan, values: Mapping[str, int], session: Session
    ) -> bool:
        """Keep a plan with these values if it is the best so far, and say whether it is."""
        if self.best is not None and not better(values, self.values, self.terms):
            return False
        self.best, self.values, self.document = candidate, dict(values), plan
        self._is_verified = self._has_reasons = False
        session.best_known.values = self.values
        self._report_progress(session)
        return True

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

    def _document(
        self, candidate: Candidate, *, named: bool = True, reasoned: bool = False
    ) -> Plan:
        decisions = decisions_of(
            self.round, self.decider.hosts, self.default_decisions, candidate, named=named
        )
        if reasoned:
            decisions = with_reasons(self.round, decisions, self.decider.reasons(candidate))
        sections = tuple(s for s in self.decider.sections(candidate, decisions) if s is not None)
        return Plan.model_construct(decisions=decisions, sections=sections)

    def _complete(self, candidate: Candidate, session: Session) -> bool:
        """Write names and reasons of the best plan, and verify it; False if it breaks a rule.

        Reasons that do not pass are left out.
        """
        if self._has_reasons:
            return True
        if self._is_verified:
            decisions = self.document.decisions
            reasoned = with_reasons(self.round, decisions, self.decider.reasons(candidate))
            if reasoned is decisions:
                return True
            plan = self.document.model_copy(update={"decisions": reasoned})
        else:
            plan = self._document(candidate, reasoned=True)
        verification = self._verify(plan)
        if verification.ok:
            self.document, self.values = plan, dict(verification.terms)
            self._is_verified = self._has_reasons = True
            return True
        if not self._is_verified:
            without = self._document(candidate)
            if broken := self._verify(without).violations:
                session.degraded.append(f"{candidate.source}: invalid plan: {broken[0]}")
                return False
            self.document, self._is_verified = without, True
        session.degraded.append(f"reasons: {verification.violations[0]}")
        return True

    def _is_complete(self, session: Session) -> bool:
        """Whether there is a plan, verified and complete, if need be after another search."""
        if self.best is None:
            return False
        if self._complete(self.best, session):
            return True
        self._decide_again(session)
        return self.best is not None and self._complete(self.best, session)

    def _decide_again(self, session: Session) -> None:
        """Search once more from the last plan that was verified, and verify each that is found.

        What was known of the plan that breaks a rule is forgotten, and bounds with it: a solver's
        claim may have been dropped for its sake. After an interrupt there is no search.
        """
        policy = DECIDERS[self.round.policy.formulation]
        self.bounds, self.decider = Bounds(policy.classes(self.round)), self._new_decider()
        session.best_known, session.verifies_each = BestKnown(), True
        self.best = None
        if self._last_verified is not None:
            candidate, values, plan = self._last_verified
            self._keep(candidate, plan, values, session)
            self._is_verified = True
        if INTERRUPTED not in session.degraded:
            self._search(session)

    def _new_decider(self) -> Decider:
        return DECIDERS[self.round.policy.formulation].decider(self.round, self.resources)

    def _finish(self, session: Session) -> Plan:
        """Write the best plan with reasons and certificate, and verify what that changes."""
        if not self._is_complete(session):
            why = "; ".join(session.degraded)
            raise InternalError(why or "the formulation yielded no candidate")
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
        plan = self.document.model_copy(update={"certificate": certificate})
        refuse_beaten_bounds(results, plan)
        # Decisions and sections have been verified: only the certificate is new.
        violations = verify_certificate(certificate, self.values, class_terms(self.round))
        if violations:
            raise InternalError(f"final plan: {violations[0]}", plan)
        # Added after verification, which would only compare the digest of the round with itself.
        plan = self._of_given(plan)
        return plan.model_copy(update={"round": self.digest.result()})

    def _verify(self, plan: Plan) -> Verification:
        """Verify a plan for the round that was given, jobs that are invalid included."""
        return verify(self.given, self._of_given(plan))

    def _of_given(self, plan: Plan) -> Plan:
        if not self.given.invalid:
            return plan
        return plan.model_copy(update={"decisions": with_invalid(self.given, plan.decisions)})
