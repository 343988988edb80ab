"""Deadline admission: promises by admission control, leases by list scheduling, places by gangs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import islice
from typing import NamedTuple

import numpy as np

from placewright.array_types import Bools
from placewright.formulations.common.phases import Phase, SearchState, leaving_out, run_phases
from placewright.formulations.common.priority_classes import class_terms, write_out_terms
from placewright.formulations.deadline import parameters
from placewright.formulations.deadline.heuristics.current_lease import (
    place_current_lease,
    with_promises,
)
from placewright.formulations.deadline.heuristics.list_scheduling import (
    ORDERS,
    EjectionChains,
    Offers,
    complete,
    list_schedule,
    objective,
)
from placewright.formulations.deadline.heuristics.master_subproblem import PHASES as ADMISSION
from placewright.formulations.deadline.heuristics.master_subproblem import (
    MasterSubproblem,
    UpperBound,
    is_close,
)
from placewright.formulations.deadline.models.demand_bound import (
    DemandRows,
    feasible_alone,
    fits_in_memory,
)
from placewright.formulations.deadline.models.integrated import solve_integrated
from placewright.formulations.deadline.problem.compile import Admission, CapacityRows
from placewright.formulations.deadline.problem.leases import ScheduleState
from placewright.formulations.deadline.problem.problem import (
    ADMITTED,
    BEST_EFFORT,
    BROKEN,
    NONE,
    AdmittedClasses,
    Problem,
    Schedule,
    number_of,
    priority_classes,
    work_share,
)
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.instances.policies import term_of
from placewright.topology.units import MILLION


def trivial_bounds(admission: Admission) -> Iterator[Bound]:
    """Yield a certified bound of each term: no job is refused anything that fits alone.

    `best_effort` is a knapsack of fractions of jobs (Dantzig), as if all jobs may use all GPUs.
    """
    round_ = admission.round
    capacity = CapacityRows(round_, ()).current_milli_gpu()
    for term in round_.policy.terms:
        if term == BEST_EFFORT:
            classes = priority_classes(round_, term)
            jobs_of: list[list[Job]] = [[] for _ in classes or (None,)]
            for job in round_.jobs:
                jobs_of[number_of(classes, job)].append(job)
            for name, jobs in zip(_names(term, len(classes)), jobs_of, strict=True):
                yield Bound(name, float(_best_effort(round_, jobs, capacity)), certified=True)
        elif term == "early":
            yield Bound(term, float(_early(admission, capacity)), certified=True)
        elif term == ADMITTED:
            most = np.zeros(admission.problem.jobs, dtype=np.int64)
            np.maximum.at(most, admission.problem.job, admission.problem.value)
            of = admission.problem.classes
            number = np.zeros_like(most) if of is None else of.number
            total = np.zeros(1 if of is None else len(of.weights), dtype=np.int64)
            np.add.at(total, number, most)
            names = _names(term, 0 if of is None else len(of.weights))
            for name, value in zip(names, total.tolist(), strict=True):
                yield Bound(name, float(value), certified=True)
        else:
            yield Bound(term, 0.0, certified=True)


def _names(term: str, classes: int) -> tuple[str, ...]:
    return write_out_terms((term,), {term: classes})


def _early(admission: Admission, capacity: int) -> int:
    """Return the most milli-GPU that jobs with a promise can hold; pinned ones need no capacity."""
    pinned = free = 0
    for j in admission.jobs:
        job = admission.round.jobs[j]
        if not _can_run_now(admission.round, job):
            continue
        most = max(option.milli_gpu for option in job.options)
        if job.running is not None and job.running.pinned:
            pinned += most
        else:
            free += most
    return pinned + min(free, capacity)


def _best_effort(round_: Round, jobs: Sequence[Job], capacity: int) -> int:
    """Return the most work that jobs can do in the current lease: weighted millionths of theirs."""
    total = Fraction(0)
    items: list[tuple[int, int]] = []
    for job in jobs:
        if not _can_run_now(round_, job):
            continue
        least = min(option.milli_gpu for option in job.options)
        value = max(work_share(round_, job, number) for number in range(len(job.options)))
        if job.running is not None and job.running.pinned:
            total += value  # the capacity leaves out pinned jobs
        else:
            items.append((value, least))
    items.sort(key=lambda item: Fraction(item[0], item[1]) if item[1] else item[0] * MILLION**3)
    left = capacity
    for value, size in reversed(items):
        total += value * (min(Fraction(1), Fraction(left, size)) if size else 1)
        left = max(0, left - size)
    return int(total)


def _can_run_now(round_: Round, job: Job) -> bool:
    """Return whether a job runs, or is ready to run in the current lease."""
    if job.running is not None or job.deadline is None:
        return True
    return round_.leases.first_usable(job.deadline.ready, round_.now) == 0


# Deadline admission: promises by admission control, leases by list scheduling, places by gangs.


# Admission control: which promises to give; least value broken first, then most value admitted.
#
# 1. Promises that jobs have are scheduled first. Where they do not all fit, the jobs that have one
#    are a problem of their own, whose value is what is kept of each promise; its bound bounds
#    `broken`.
# 2. The master LP over all alternatives, with as much kept as the best schedule keeps, bounds
#    `admitted`, and its solutions are turned into schedules (`heuristics/master_subproblem.py`).
#
# Demand-bound rows are exact where every job asks one GPU of one row, all may begin at once and
# capacity never falls. Elsewhere they are a relaxation: a problem is solved exactly where its bound
# is reached, or where the time-indexed model ends with a proof.


@dataclass(frozen=True, slots=True)
class AdmissionBound:
    """No schedule that breaks no more than `broken` beats `value` in `term`.

    `broken` is None for the term `broken` itself. `certified`: recomputed in our own code;
    otherwise claimed by a solver.
    """

    term: str
    value: int
    broken: int | None
    certified: bool


def admit(
    problem: Problem, session: Session, known: Schedule | None = None
) -> Iterator[Schedule | AdmissionBound]:
    """Yield ever better schedules, by `broken` and then `admitted`, and bounds of both terms.

    The first schedule comes at once. It ends when both terms are proven (within the session's gap),
    nothing more is found, or the session's time is over.
    `known`: a schedule of promises that the last round has left; the first one breaks no more than
    it.
    """
    feasible = feasible_alone(problem)
    first = _schedule_promises(problem, feasible)
    if known is not None and known.broken(problem) < first.broken(problem):
        first = known
    best = complete(problem, first, expired=session.expired)
    if known is not None and objective(problem, known) > objective(problem, best):
        best = known
    yield best
    kept: Schedule | None = None
    for step in _minimise_broken(problem, feasible, best, session):
        if isinstance(step, Schedule):
            kept = step
        else:
            yield step
    if kept is not None:
        best = complete(problem, kept, expired=session.expired)
        yield best
    broken = best.broken(problem)
    for found in _maximise_admitted(problem, feasible, best, session):
        if isinstance(found, Schedule):
            yield found
        else:
            yield AdmissionBound(ADMITTED, found.value, broken, found.certified)


def _schedule_promises(problem: Problem, feasible: Bools) -> Schedule:
    """Return a schedule of the promises that jobs have, by list scheduling alone."""
    lossless = np.flatnonzero(feasible & (problem.loss[problem.job] > 0) & (problem.lost == 0))
    time = problem.end[lossless] - problem.first[lossless]
    # Of the alternatives that lose nothing: the smallest demand, or the earliest end.
    demand = problem.need[lossless] * problem.demand[lossless].sum(axis=1)
    alternative = np.full(problem.jobs, NONE, dtype=np.int64)
    best = list_schedule(problem, alternative)
    demands = DemandRows(problem) if fits_in_memory(problem) else None
    for order in (
        np.lexsort((time, -demand)),
        np.lexsort((time, -demand, -problem.need[lossless])),
    ):
        before, alternative = alternative, np.full(problem.jobs, NONE, dtype=np.int64)
        alternative[problem.job[lossless[order]]] = lossless[order]
        if (alternative == before).all():
            break
        chosen = np.zeros(problem.alternatives)
        chosen[alternative[alternative != NONE]] = 1.0
        if demands is not None and any(demands.violated(chosen)):
            # They cannot all be kept, so whom to push out is decided with all of them in view.
            without_promises = replace(problem, loss=np.zeros_like(problem.loss))
            found = list_schedule(without_promises, alternative, orders=ORDERS[:1], work_limit=0)
        else:
            found = list_schedule(problem, alternative)
        if found.broken(problem) < best.broken(problem):
            best = found
        if not best.broken(problem):
            break
    return best


def _minimise_broken(
    problem: Problem, feasible: Bools, kept: Schedule, session: Session
) -> Iterator[Schedule | AdmissionBound]:
    """Yield schedules that break less value than this one, and bounds of `broken`."""
    total = int(problem.loss.sum())
    if not kept.broken(problem):
        yield AdmissionBound(BROKEN, 0, None, certified=True)
        return
    saved = problem.loss[problem.job] - problem.lost
    alternatives = np.flatnonzero(feasible & (saved > 0))
    own = replace(
        problem.restrict(alternatives),
        loss=np.zeros_like(problem.loss),
        value=saved[alternatives],
        classes=None,
    )
    # The last entries stand for NONE.
    inside = np.full(problem.alternatives + 1, NONE)
    inside[alternatives] = np.arange(len(alternatives))
    outside = np.append(alternatives, NONE)
    alternative = inside[kept.alternative]
    begin = Schedule(alternative, kept.runs & (alternative != NONE)[:, None])
    for step in _maximise_admitted(own, np.ones(len(alternatives), dtype=np.bool_), begin, session):
        if isinstance(step, Schedule):
            yield Schedule(outside[step.alternative], step.runs)
        else:
            yield AdmissionBound(BROKEN, max(0, total - step.value), None, step.certified)


def bound_admitted(problem: Problem, best: Schedule, session: Session) -> int | None:
    """Return a certified bound of `admitted` for all schedules that break no more than one."""
    return MasterSubproblem(problem, feasible_alone(problem), best, session).relaxation_bound()


def _maximise_admitted(
    problem: Problem, feasible: Bools, best: Schedule, session: Session
) -> Iterator[Schedule | UpperBound]:
    """Yield schedules that admit more and break no more, and bounds of `admitted`."""
    bound: int | None = None
    for step in MasterSubproblem(problem, feasible, best, session).steps():
        if isinstance(step, Schedule):
            best = step
        elif bound is None or step.value < bound:
            bound = step.value
        else:
            continue
        yield step
        if bound is not None and is_close(problem, bound, best, session.gap):
            return


class _Weighted(NamedTuple):
    """A bound of the weighted sum of the classes of `admitted` up to one.

    It holds for schedules that break no more than `broken`.
    """

    value: int
    last: int
    broken: int
    certified: bool


@dataclass
class _Run(SearchState):
    """What the phases of one run share."""

    admission: Admission
    # The admission with its steady alternatives only, which is itself if it has no others.
    steady: Admission
    seconds: float  # What the whole run may take
    # steady_best, best: The best schedule of steady alternatives, and of all of them: None before
    # their phases.
    steady_best: Schedule | None = None
    best: Schedule | None = None
    bounds: list[Bound] = field(default_factory=list)  # All that was yielded
    # Bounds of all priority classes of `admitted` together.
    weighted: list[_Weighted] = field(default_factory=list)

    @property
    def problem(self) -> Problem:
        """The problem of all alternatives."""
        return self.admission.problem

    def steady_is_worse(self) -> bool:
        """Whether the best schedule of all alternatives beats that of the steady ones.

        The latter is placed, too, since the better one may lose promises.
        """
        return (
            self.steady_best is not None
            and self.best is not None
            and objective(self.problem, self.best) > objective(self.problem, self.steady_best)
        )

    def better(self) -> Schedule | None:
        """Return the better schedule, the steady one if they are equally good."""
        return self.best if self.steady_is_worse() else self.steady_best or self.best

    def place_early(self, schedule: Schedule) -> Iterator[Candidate]:
        """Yield a first plan of the first schedule, where placing it takes no more than seconds."""
        few = self.problem.jobs <= parameters.PARAMETERS.max_early_plan_jobs
        if few and self.problem.alternatives and self.steady_best is self.best is None:
            yield from islice(place_current_lease(self.admission, schedule, self.session), 1)


def run(
    admission: Admission, session: Session, without: Collection[str] = ()
) -> Iterator[Candidate | Bound]:
    """Yield plans, each of better promises, and bounds.

    `admission`: the jobs that ask for promises, their alternatives, and the capacity of the leases.
    `session`: clock and solver, and the service that decides inner rounds of gangs. `without`:
    names of phases to leave out, for an ablation.
    """
    seconds = max(0.0, session.remaining())
    session = leaving_out(session, without, PHASES, ADMISSION)
    state = _Run(session, admission, admission.steady_only(), seconds)
    for step in run_phases(PHASES, state):
        if isinstance(step, Bound):
            state.bounds.append(step)
        yield step


def _admit_steady(state: _Run) -> Iterator[Candidate | Bound]:
    """Find the best schedule of steady alternatives: its promises survive most placements."""
    alternatives = np.append(np.flatnonzero(state.admission.steady), NONE)
    for step in _admit(state.steady.problem, state.session, state.admission.known):
        if isinstance(step, Schedule):
            schedule = Schedule(alternatives[step.alternative], step.runs)
            if state.steady.problem.alternatives:
                yield from state.place_early(schedule)
            state.steady_best = schedule


def _admit_all(state: _Run) -> Iterator[Candidate | Bound]:
    """Find the best schedule of all alternatives, and bounds of `broken` and `admitted`."""
    known = state.admission.known if state.steady_best is None else state.steady_best
    for step in _admit(state.problem, state.session, known):
        if isinstance(step, Bound):
            yield step
        elif isinstance(step, _Weighted):
            state.weighted.append(step)
        else:
            yield from state.place_early(step)
            state.best = step


def _place(state: _Run, schedule: Schedule | None) -> Iterator[Candidate | Bound]:
    """Place the current lease of a schedule."""
    if schedule is not None:
        yield from place_current_lease(state.admission, schedule, state.session)


def _bound_classes(state: _Run) -> Iterator[Candidate | Bound]:
    """Yield bounds of the classes of `admitted`, those before each at the best plan's values.

    Any weights of the classes prove a bound. Large ones magnify by how much the relaxation exceeds
    what the higher classes have, so that smaller ones are tried for each class that is left open.
    """
    problem, classes = state.problem, state.problem.classes
    if classes is None or state.session.best is None:
        return
    terms = class_terms(ADMITTED, len(classes.weights))
    values = [state.session.best[term] for term in terms]
    for found in state.weighted:
        yield from _class_bounds(found, classes, values)
    for k, term in enumerate(terms):
        for ratio in parameters.PARAMETERS.class_weight_ratios:
            known = state.session.best_known.bounds.get(term)
            if state.best is None or known == values[k] or state.session.expired():
                break
            weighed = classes.up_to(k, ratio)
            part = replace(problem, classes=weighed)
            bound = bound_admitted(part, state.best, state.session)
            if bound is not None:
                found = _Weighted(bound, k, state.best.broken(problem), certified=True)
                yield from _class_bounds(found, weighed, values)


def _class_bounds(
    found: _Weighted, classes: AdmittedClasses, values: Sequence[int]
) -> Iterator[Bound]:
    """Yield what a bound of a weighted sum proves of each class that it counts."""
    terms = class_terms(ADMITTED, len(classes.weights))
    for k in range(found.last + 1):
        held = ((BROKEN, found.broken), *zip(terms[:k], values, strict=False))
        bound = classes.bound(found.value, k, values)
        yield Bound(terms[k], float(bound), held, found.certified)


def _solve_integrated(state: _Run) -> Iterator[Candidate | Bound]:
    """Decide promises, leases and places in one model, where the round is small enough."""
    for step in solve_integrated(state.admission, state.session):
        if isinstance(step, Bound):
            yield step
        else:
            plan, schedule = step
            # Whoever is back in its place has the current lease, which promises must say.
            kept = state.session.lawful(state.admission.round, plan)
            if kept is not None:
                yield with_promises(state.admission, kept, schedule, Offers(state.admission))[0]


def _all_alternatives_seconds(state: _Run) -> float:
    """Return the seconds kept for admission with all alternatives, and for placement."""
    tuning = parameters.PARAMETERS
    return (1 - (1 - tuning.placement_share) * tuning.steady_share) * state.seconds


PHASES: tuple[Phase[_Run, Candidate | Bound], ...] = (
    Phase("trivial bounds", lambda state: trivial_bounds(state.admission)),
    Phase(
        "steady admission",
        _admit_steady,
        lambda state: state.steady is not state.admission,
        reserve=_all_alternatives_seconds,
    ),
    Phase(
        "admission",
        _admit_all,
        reserve=lambda state: parameters.PARAMETERS.placement_share * state.seconds,
    ),
    Phase(
        "steady placement",
        lambda state: _place(state, state.steady_best),
        _Run.steady_is_worse,
        share=lambda _: parameters.PARAMETERS.steady_share,
    ),
    Phase("placement", lambda state: _place(state, state.better())),
    Phase(
        "classes", _bound_classes, lambda state: state.problem.classes is not None, needs_time=False
    ),
    Phase("integrated model", _solve_integrated, lambda state: not _proven(state)),
)
"""The order of steps."""


def _proven(state: _Run) -> bool:
    """Whether there is no plan, or none better in `broken`, nor then in `admitted`."""
    best = state.session.best
    if best is None:
        return True
    least = max((bound.value for bound in state.bounds if bound.term == BROKEN), default=0.0)

    def is_best(term: str) -> bool:
        """Whether a bound that holds for the best plan says that it has most of a term."""
        return any(
            bound.value <= best[term]
            for bound in state.bounds
            if bound.term == term
            and all(best[t] <= held if t == BROKEN else best[t] >= held for t, held in bound.holds)
        )

    # A policy may leave out either of these terms.
    unbroken = best.get(BROKEN, 0) <= least
    return unbroken and all(is_best(term) for term in best if term_of(term) == ADMITTED)


def _admit(
    problem: Problem, session: Session, known: Schedule | None
) -> Iterator[Schedule | Bound | _Weighted]:
    """Yield ever better schedules of a problem, and bounds."""
    classes = problem.classes
    if not problem.alternatives:
        yield Schedule(
            np.full(problem.jobs, NONE, dtype=np.int64),
            np.zeros((problem.jobs, problem.horizon), dtype=np.bool_),
        )
        yield Bound(BROKEN, float(problem.loss.sum()), certified=True)
        names = (ADMITTED,) if classes is None else class_terms(ADMITTED, len(classes.weights))
        yield from (Bound(name, 0.0, certified=True) for name in names)
        return
    for step in admit(problem, session, known):
        if isinstance(step, AdmissionBound) and step.term == ADMITTED and classes is not None:
            last = len(classes.weights) - 1
            yield _Weighted(step.value, last, step.broken or 0, step.certified)
        elif isinstance(step, AdmissionBound):
            holds = () if step.broken is None else ((BROKEN, step.broken),)
            yield Bound(step.term, float(step.value), holds, step.certified)
        else:
            yield step


# Online admission of one arriving job: its best due time, else the earliest finish, that fits.
#
# Other jobs may be moved to other leases by ejection chains; no promise is touched.


@dataclass(frozen=True, slots=True)
class Arrival:
    """An alternative by which one more job fits, with its schedule and the end of its leases."""

    alternative: int
    end: int
    schedule: Schedule


def admit_arrival(problem: Problem, schedule: Schedule, job: int) -> Arrival | None:
    """Return the best alternative that fits for a job without one; all other promises are kept.

    None if none was found; with gangs of several sizes one may exist nevertheless.
    """
    alternatives = np.flatnonzero(problem.job == job)
    for alternative in alternatives[
        np.argsort(-problem.value[alternatives], kind="stable")
    ].tolist():
        found = _insert(problem, schedule, alternative)
        if found is not None:
            return Arrival(alternative, int(problem.end[alternative]), found)
    return None


def admit_earliest(problem: Problem, schedule: Schedule, job: int) -> Arrival | None:
    """Return a job's alternative of earliest end that fits, of any value.

    The ends of the alternatives do not matter. None if the job does not fit before the horizon.
    """
    best: Arrival | None = None
    for alternative in np.flatnonzero(problem.job == job).tolist():
        low = int(problem.first[alternative] + problem.need[alternative])
        high = problem.horizon if best is None else best.end - 1
        while low <= high:
            end = (low + high) // 2
            ends = problem.end.copy()
            ends[alternative] = end
            found = _insert(replace(problem, end=ends), schedule, alternative)
            if found is None:
                low = end + 1
            else:
                best, high = Arrival(alternative, end, found), end - 1
    return best


def _insert(problem: Problem, schedule: Schedule, alternative: int) -> Schedule | None:
    state = ScheduleState.of(problem, schedule)
    return state.schedule() if EjectionChains(state).insert(alternative) else None
