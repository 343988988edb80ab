"""Inner rounds of gangs: subproblems with verified plans, those of regions decided side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import TYPE_CHECKING

from placewright.formulations.common.priority_classes import PriorityClass, classes_by_term
from placewright.formulations.gang import run as gang
from placewright.formulations.gang.heuristics.displace import plan_without_solver
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.preemption import repair_preemptions
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.limits import CLASS_VALUES, VALUE
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.instances.checks.round import trusted
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.verify import terms_of, verify
from placewright.rounds.certificate import Bounds, better
from placewright.rounds.decisions import DefaultDecisions, decisions_of
from placewright.rounds.displacement.victims import lawful
from placewright.rounds.regions.executors import ProcessError, Processes, call_with_timeout
from placewright.rounds.sections.moves import move_section
from placewright.rounds.sections.sections import collective_section
from placewright.rounds.settings import Meter, Settings

if TYPE_CHECKING:
    from placewright.formulations.geo.heuristics.subproblem import RegionSubproblem


def solve_inner_round(
    round_: Round, session: Session, problem: Problem | None = None
) -> Iterator[Candidate | Bound]:
    """Yield bounds and better and better plans of a gang round, until it is proven or time is up.

    Plans are judged by their terms: rules are those of the whole decision, which is verified.

    `round_`: a round of policy `gang`. `session`: that of the whole decision: its best plan and
    bounds are another round's. `problem`: what the round compiles to, if that is known. Its
    priority classes may be those of the whole decision.
    """
    problem = compile_round(round_) if problem is None else problem
    inner = replace(session.inner(), has_plan=session.best is not None)
    default_decisions = DefaultDecisions()(round_)
    bounds = Bounds(classes_by_term(VALUE, problem.priority_classes))
    for step in gang.run(problem, inner):
        if isinstance(step, Bound):
            bounds.add(step)
            yield step
        elif (found := lawful(round_, problem.cluster.hosts, step)) is not None:
            each = session.verifies_each
            decisions = decisions_of(
                round_, problem.cluster.hosts, default_decisions, found, named=each
            )
            sections = (
                move_section(round_, decisions),
                collective_section(round_, problem.cluster, found),
            )
            plan = Plan.model_construct(
                decisions=decisions, sections=tuple(section for section in sections if section)
            )
            broken = verify(trusted(round_), plan).violations if each else ()
            if broken:
                session.degraded.append(f"{found.source}: invalid plan: {broken[0]}")
                continue
            values = _values(problem, found, terms_of(trusted(round_), plan))
            if inner.best is None or better(values, inner.best, problem.terms):
                inner.best_known.values = values
                yield found
        if inner.best is not None:
            bounds.update_session(inner, problem.terms, inner.best)


def _values(problem: Problem, found: Candidate, terms: Mapping[str, int]) -> Mapping[str, int]:
    """Return the terms of a plan by the priority classes of the problem, not of its round."""
    names = problem.value_terms
    if not problem.priority_classes:
        return terms
    sums = dict.fromkeys(names, 0)
    starts = [(j, option, 1) for j, (option, _) in found.starts.items() if j not in problem.running]
    for job, option, sign in [*starts, *((j, None, -1) for j in found.preempted)]:
        choice = problem.choice_of(job, option)
        sums[names[choice.priority_class]] += sign * choice.own_value
    return {**{t: v for t, v in terms.items() if t not in CLASS_VALUES}, **sums}


# Rounds of regions, decided side by side, here or by an executor.
#
# A worker that dies or hangs costs quality, not the plan: its region is decided here, in time.
LARGE = 20_000
"""Jobs times hosts beyond which a region is decided without a solver."""

WAITING_SHARE = 0.75
"""Share of the time left after which a region without an answer is decided here as well."""

CANCEL_SECONDS = 1.0
"""Seconds that cancelling the calls of an executor may take, at most."""


@dataclass(frozen=True, slots=True)
class RegionAnswer:
    """A region's best plan, by the indices of its own round; None if all its jobs wait."""

    candidate: Candidate | None
    degraded: tuple[str, ...] = ()
    wall_stopped: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _SolverFreePlan:
    """A region's round with a plan that needed no solver, and whether a solver might help."""

    problem: Problem
    found: Candidate
    searched: bool


def solve_region(
    round_: Round, classes: tuple[PriorityClass, ...], settings: Settings, seconds: float
) -> RegionAnswer:
    """Decide a region's round of gangs on its own: in another process, or on another machine.

    Its priority classes are those of the whole round. It takes `seconds` by the clock; those of the
    settings are the budget of a deterministic round.
    """
    with settings.session(Meter()) as session:
        session.deadline = time.monotonic() + seconds
        problem = compile_round(round_, classes=classes)
        return _search_further(_solve_without_solver(problem, session), lambda: round_, session)


def _solve_without_solver(problem: Problem, session: Session) -> _SolverFreePlan:
    """Decide a region without a solver; a solver is of use where a job waits or stops."""
    jobs = problem.round.jobs
    placement = plan_without_solver(problem, session)
    repair_preemptions(placement)
    found = assign(placement, "quickly")
    small = len(jobs) * problem.cluster.num_hosts <= LARGE
    waits = any(job.running is None and j not in found.starts for j, job in enumerate(jobs))
    return _SolverFreePlan(problem, found, small and (waits or bool(found.preempted)))


def _search_further(
    first: _SolverFreePlan, document: Callable[[], Round], session: Session
) -> RegionAnswer:
    """Return the best plan for a region, searched until its value is proven.

    The whole plan is verified anyway; `document` makes the round, which only a search needs.
    """
    found, most = first.found, inf
    value = _value(first.problem, found)
    for step in _search(first.problem, document(), session) if first.searched else ():
        if isinstance(step, Bound):
            most = min(most, step.value) if step.term == VALUE else most
        elif (worth := _value(first.problem, step)) >= value:
            found, value = step, worth
        if value >= most:
            break
    return RegionAnswer(found, tuple(session.degraded), session.wall_stopped)


def _search(problem: Problem, round_: Round, session: Session) -> Iterator[Candidate | Bound]:
    return solve_inner_round(round_, session, replace(problem, round=round_))


def _value(problem: Problem, found: Candidate) -> int:
    """Return what a plan's starts are worth, less what stops for them, weighted by class."""
    starts = found.starts.items()
    new = sum(problem.choice_of(j, o).value for j, (o, _) in starts if j not in problem.running)
    return new - sum(problem.choice_of(j).value for j in found.preempted)


class RegionSolver:
    """Decides the rounds of regions; an `executor` does it elsewhere, None does it here.

    An executor that gives no answer in time is not asked again.
    """

    def __init__(self, settings: Settings, executor: Executor | None) -> None:
        self._settings, self._executor = settings, executor

    def __call__(
        self, parts: Sequence[RegionSubproblem], session: Session
    ) -> Iterator[RegionAnswer]:
        """Yield the answers for some regions, in their order.

        An interrupt is raised after the answers that were there by then; regions without one stay
        as they are.
        """
        if self._executor is None or session.before_deadline() <= 0 or session.verifies_each:
            yield from self._solve_here(parts, session)
            return
        calls = _ExecutorCalls(parts, session)
        interrupt: KeyboardInterrupt | None = None
        try:
            calls.ask(self._executor, self._settings)
            calls.wait()
            left = [part for part in parts if part.region not in calls.answers]
            for part, answer in zip(left, self._solve_here(left, session), strict=True):
                calls.answers[part.region] = answer
        except KeyboardInterrupt as error:
            interrupt = error
        finally:
            calls.leave()
        if calls.unanswered:
            self._executor = None
        for part in parts:
            yield calls.answers.get(part.region, RegionAnswer(None))
        if interrupt is not None:
            raise interrupt

    def _solve_here(
        self, parts: Sequence[RegionSubproblem], session: Session
    ) -> Iterator[RegionAnswer]:
        """Decide regions here; those that are searched share the time that is left."""
        first_plans = [_solve_without_solver(part.gangs(), session) for part in parts]
        left = sum(one.searched for one in first_plans)
        for one, part in zip(first_plans, parts, strict=True):
            inner = session.inner().part(1 / max(1, left))
            answer = _search_further(one, part.document, inner)
            left -= one.searched
            yield answer


class _ExecutorCalls:
    """Calls of an executor, one per region, and their answers by region."""

    def __init__(self, parts: Sequence[RegionSubproblem], session: Session) -> None:
        self._parts, self._session = parts, session
        self._futures: dict[int, Future[RegionAnswer]] = {}
        self.answers: dict[int, RegionAnswer] = {}
        self.unanswered = 0

    def ask(self, executor: Executor, settings: Settings) -> None:
        """Submit all regions; each gets half of the time left, or its share of that."""
        # An executor that is not ours is taken to have a worker for each region.
        turns = len(self._parts) / executor.workers if isinstance(executor, Processes) else 1.0
        seconds = max(0.0, self._session.before_deadline()) / 2 / max(1, ceil(turns))
        settings = replace(settings, isolation="none")
        for part in self._parts:
            try:
                future = executor.submit(
                    solve_region, part.document(), part.classes, settings, seconds
                )
            # A pool whose process died takes nothing more.
            except Exception as error:  # noqa: BLE001
                self._note_failure(error)
            else:
                self._futures[part.region] = future

    def wait(self) -> None:
        """Wait until all regions are answered or have failed, but not beyond the time.

        When most of it is over, regions without an answer are decided here, without a solver. That
        counts if none comes, so nothing has to be done when the time is over.
        """
        session, here = self._session, {}
        wait(self._futures.values(), timeout=WAITING_SHARE * max(0.0, session.before_deadline()))
        for part in self._parts:
            future = self._futures.get(part.region)
            if future is not None and not future.done():
                found = _solve_without_solver(part.gangs(), session).found
                here[part.region] = RegionAnswer(found, wall_stopped=True)
        wait(self._futures.values(), timeout=max(0.0, session.before_deadline()))
        self._collect()
        self.unanswered = sum(not future.done() for future in self._futures.values())
        if self.unanswered:
            session.clock.stopped = True
            session.degraded.append(
                f"executor: {self.unanswered} of {len(self._parts)} regions had no answer in time "
                "and were decided in this process, without a solver"
            )
        self.answers = here | self.answers

    def leave(self) -> None:
        """Collect finished answers, and cancel the calls still running."""
        self._collect()
        futures = [future for future in self._futures.values() if not future.done()]
        if futures:
            # An executor that hangs may not even hear that.
            with suppress(TimeoutError):
                call_with_timeout(lambda: [future.cancel() for future in futures], CANCEL_SECONDS)

    def _collect(self) -> None:
        for region, future in list(self._futures.items()):
            if not future.done():
                continue
            del self._futures[region]
            try:
                answer = future.result()
            # Whatever an executor raises, the region is decided here.
            except Exception as error:  # noqa: BLE001
                self._note_failure(error)
                continue
            self.answers[region] = answer
            self._session.degraded += answer.degraded
            self._session.clock.stopped |= answer.wall_stopped

    def _note_failure(self, error: Exception) -> None:
        words = (
            str(error) if isinstance(error, ProcessError) else f"{type(error).__name__}: {error}"
        )
        self._session.degraded.append(f"executor: {words}; its region was decided in this process")
