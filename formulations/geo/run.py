"""Phases of a round of policy `geo`: monolithic model if small, else decomposition by region."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from placewright.formulations.common.phases import Phase, SearchState, leaving_out, run_phases
from placewright.formulations.common.priority_classes import classes_close_enough
from placewright.formulations.gang.problem.limits import PROGRESS, VALUE
from placewright.formulations.geo import parameters
from placewright.formulations.geo.bounds import (
    class_bounds,
    cost_bound,
    integer_value_bound,
    solve_value_bound,
)
from placewright.formulations.geo.heuristics.assign import minimise_remote_reads
from placewright.formulations.geo.heuristics.decomposition import (
    add_data_orders,
    decompose_by_region,
)
from placewright.formulations.geo.models.assignment_lp import (
    MonolithicRound,
    monolithic_round,
    monolithic_round_in_time,
)
from placewright.formulations.geo.problem.compile import Problem, RunningJobs
from placewright.formulations.geo.problem.job_classes import JobClasses, build_job_classes
from placewright.formulations.plan_messages import SHARPNESS, Bound, Candidate, near
from placewright.formulations.session import Session

UNREACHABLE = 2**62
"""GiB of remote reads where a job may not run."""


class Context(SearchState):
    """What the phases share: the round, its size, and its job classes once they are needed."""

    def __init__(self, problem: Problem, session: Session) -> None:
        super().__init__(session)
        self.problem = problem
        self.value_bound = float("inf")
        size, tuning = len(problem.round.jobs) * problem.cluster.num_hosts, parameters.PARAMETERS
        self.small = size <= tuning.max_monolithic_size
        self.refined = not self.small and size <= tuning.max_refined_size

    @property
    def running_jobs(self) -> RunningJobs:
        """The running jobs."""
        return self._aggregated[0]

    @property
    def classes(self) -> JobClasses:
        """The job classes, with rows that are valid for every plan."""
        return self._aggregated[1]

    @property
    def verification_s(self) -> float:
        """Seconds to keep for the verification of a plan: about as many as aggregation took."""
        return self._aggregated[2]

    @cached_property
    def _aggregated(self) -> tuple[RunningJobs, JobClasses, float]:
        began = time.monotonic()
        running_jobs = RunningJobs(self.problem, self.problem.gangs())
        classes = build_job_classes(running_jobs)
        return running_jobs, classes, time.monotonic() - began


def run(
    problem: Problem, session: Session, without: Collection[str] = ()
) -> Iterator[Candidate | Bound]:
    """Yield plans and bounds of a round of policy `geo`.

    `problem`: the round, as arrays. `session`: clock and solver, and who decides inner rounds of
    gangs and those of regions. `without`: names of phases to leave out, for an ablation.
    """
    for term, one in zip(problem.value_terms, problem.priority_classes, strict=False):
        yield Bound(term, one.pending, certified=True)
    for term in problem.round.policy.terms[1:]:
        yield Bound(term, 0, certified=True)
    yield from run_phases(PHASES, Context(problem, leaving_out(session, without, PHASES)))


def _value_bound(context: Context) -> Iterator[Bound]:
    """Yield the certified bound of `value`, and keep it in the context.

    Under strict priority that is the weighted sum of the priority classes, and what is yielded is
    the bound of the first.
    """
    classes, session = context.classes, context.session
    context.value_bound = solve_value_bound(classes, session)
    first, most = context.problem.value_terms[0], context.value_bound
    if context.problem.priority_classes:
        most = solve_value_bound(classes.with_value(classes.value_of_class(0)), session)
    yield Bound(first, most, certified=True)


def _decomposition(context: Context) -> Iterator[Candidate | Bound]:
    """Yield the plan of the decomposition by region, then the bound of the integer model."""
    session = context.session
    yield from decompose_by_region(
        context.running_jobs,
        context.classes,
        context.value_bound,
        session,
        last=not context.refined,
    )
    yield from integer_value_bound(context.classes, session)


def _monolithic_in_time(context: Context) -> Iterator[Candidate | Bound]:
    """Yield plans and bounds of the monolithic model, if there is time to build it.

    If costs do not count in its score, identical jobs are exchanged afterwards.
    """
    problem, session = context.problem, context.session
    gangs = monolithic_round_in_time(problem, session)
    if gangs is None:
        return
    for step in _solve_monolithic(problem, gangs, session):
        yield step
        if isinstance(step, Candidate) and len(gangs.weights.terms) == 1:
            exchanged = minimise_remote_reads(
                problem, context.running_jobs.gangs, step, problem.read_costs
            )
            yield add_data_orders(problem, exchanged)


def _fewer_remote_reads(context: Context) -> Iterator[Candidate]:
    """Yield plans in which jobs read little more than they must, until one is better."""
    session = context.session
    for quantile in parameters.PARAMETERS.excess_quantiles:
        known = session.best or {}
        if not _proven(context) or not known.get("remote_reads"):
            return
        yield from _limit_remote_reads(context.problem, session, quantile)
        if session.best != known:
            return


PHASES: tuple[Phase[Context, Candidate | Bound], ...] = (
    Phase(
        "monolithic model",
        lambda context: _solve_monolithic(
            context.problem, monolithic_round(context.problem), context.session
        ),
        lambda context: context.small,
    ),
    Phase(
        "Lagrangian bound of value",
        _value_bound,
        lambda context: not context.small,
        reserve=lambda context: context.verification_s,
    ),
    Phase(
        "decomposition by region",
        _decomposition,
        lambda context: not context.small,
        share=lambda context: parameters.PARAMETERS.decomposition_share if context.refined else 1.0,
        reserve=lambda context: context.verification_s,
    ),
    Phase(
        "bounds of classes",
        lambda context: class_bounds(context.classes, context.session),
        lambda context: context.refined and bool(context.problem.priority_classes),
    ),
    Phase(
        "least remote reads",
        lambda context: _limit_remote_reads(context.problem, context.session, 0.0),
        lambda context: context.refined,
    ),
    Phase(
        "monolithic model after decomposition",
        _monolithic_in_time,
        lambda context: (
            context.refined and not _proven(context, parameters.PARAMETERS.value_gap_rel)
        ),
    ),
    Phase("fewer remote reads", _fewer_remote_reads, lambda context: context.refined),
    Phase(
        "last bounds of classes",
        lambda context: class_bounds(context.classes, context.session),
        lambda context: not context.small and bool(context.problem.priority_classes),
    ),
    Phase(
        "bound of read costs",
        lambda context: cost_bound(context.classes, context.session),
        lambda context: not context.small,
    ),
)
"""In their order; those of small rounds and of all others exclude each other."""


def _proven(context: Context, gap: float = SHARPNESS) -> bool:
    """Whether the value of the best plan, or of each priority class, is proven within a gap."""
    session, terms = context.session, context.problem.value_terms
    values = {term: (session.best or {}).get(term, 0) for term in terms}
    if classes := context.problem.priority_classes:
        return classes_close_enough(session, values, dict(zip(terms, classes, strict=True)), gap)
    return session.first_bound is not None and near(session.first_bound, values[terms[0]], gap)


def _limit_remote_reads(problem: Problem, session: Session, quantile: float) -> Iterator[Candidate]:
    """Yield plans of the monolithic model in which remote reads of each job are limited.

    A job may start where it reads at most the quantile of all excess reads, over all jobs and
    regions, more than its least; at quantile 0 only where it reads the least. It takes up to half
    of the time left, and ends when bounds say that no such plan reaches the best value.
    """
    remote = np.where(problem.eligible, problem.remote_gib, UNREACHABLE)
    excess = remote - remote.min(axis=1)[:, None]
    positive = excess[problem.eligible & (excess > 0)]
    limit = np.quantile(positive, quantile) if quantile and len(positive) else 0
    gangs = monolithic_round_in_time(
        replace(problem, eligible=problem.eligible & (excess <= limit)), session
    )
    if gangs is None:
        return
    half = replace(session.part(0.5), gap=0.0)
    first = problem.value_terms[0]
    for step in half.inner_rounds(gangs.round, half, gangs.problem()):
        if isinstance(step, Candidate):
            yield add_data_orders(problem, gangs.lift(step))
            continue
        for bound in gangs.lift_bound(step, session.best):
            if bound.term == first and bound.value < (session.best or {}).get(first, 0):
                return


def _solve_monolithic(
    problem: Problem, gangs: MonolithicRound, session: Session
) -> Iterator[Candidate | Bound]:
    """Yield the plans and bounds of the monolithic model, lifted to the round."""
    known: list[Bound] = []
    costs = PROGRESS if problem.priority_classes else VALUE
    # Costs change the score by less than any relative gap that could be asked for.
    precise = replace(session, gap=0.0)
    for step in precise.inner_rounds(gangs.round, precise, gangs.problem()):
        if isinstance(step, Bound):
            known.append(step)
            yield from gangs.lift_bound(step, session.best)
        else:
            yield add_data_orders(problem, gangs.lift(step))
            for bound in known:
                if bound.term == costs:
                    yield from gangs.lift_bound(bound, session.best)
