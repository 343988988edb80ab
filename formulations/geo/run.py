"""Phases of a round of policy `geo`: monolithic model if small, else decomposition by region."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from placewright.formulations.bound_arithmetic import SHARPNESS, near
from placewright.formulations.geo import parameters
from placewright.formulations.geo.bounds.assignment_bounds import (
    cost_bound,
    integer_value_bound,
    solve_value_bound,
)
from placewright.formulations.geo.heuristics.data_orders import add_data_orders
from placewright.formulations.geo.heuristics.decomposition import decompose_by_region
from placewright.formulations.geo.heuristics.exchange import minimise_remote_reads
from placewright.formulations.geo.models.monolithic import (
    MonolithicRound,
    monolithic_round,
    monolithic_round_in_time,
)
from placewright.formulations.geo.problem.class_arrays import JobClasses
from placewright.formulations.geo.problem.compile import Problem
from placewright.formulations.geo.problem.job_classes import build_job_classes
from placewright.formulations.geo.problem.running_jobs import RunningJobs
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session

UNREACHABLE = 2**62
"""GiB of remote reads where a job may not run."""


class Context:
    """What the phases share: the round, its size, and its job classes once they are needed."""

    def __init__(self, problem: Problem) -> None:
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


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of the search, and when it applies.

    Attributes
    ----------
    name
        What it does.
    run
        Yields its plans and bounds.
    applies
        Whether it is run.
    share
        Share of the remaining time in rounds that are refined afterwards; otherwise all.
    keeps_verification
        Whether time to verify its plan is kept aside.
    """

    name: str
    run: Callable[[Context, Session], Iterator[Candidate | Bound]]
    applies: Callable[[Context, Session], bool]
    share: float = 1.0
    keeps_verification: bool = False


def run(
    problem: Problem, session: Session, phases: Sequence[Phase] | None = None
) -> Iterator[Candidate | Bound]:
    """Yield plans and bounds of a round of policy `geo`.

    Parameters
    ----------
    problem
        The round, as arrays.
    session
        Clock and solver, and who decides inner rounds of gangs and those of regions.
    phases
        By default `PHASES`; fewer for an ablation.
    """
    for term in problem.round.policy.terms[1:]:
        yield Bound(term, 0, certified=True)
    context = Context(problem)
    for phase in PHASES if phases is None else phases:
        if phase.applies(context, session):
            yield from _run_phase(phase, context, session)


def _run_phase(phase: Phase, context: Context, session: Session) -> Iterator[Candidate | Bound]:
    """Yield what a phase yields within a session of its own, that ends with its share of time."""
    inner = replace(session)
    if phase.keeps_verification:
        inner.deadline -= context.verification_s
    if phase.share < 1.0 and context.refined and not session.deterministic:
        inner.deadline -= (1.0 - phase.share) * max(0.0, inner.remaining())
    deadline = session.deadline
    try:
        for step in phase.run(context, inner):
            yield step
            inner.best, inner.first_bound = session.best, session.first_bound
            inner.proven = session.proven
            inner.deadline += session.deadline - deadline
            deadline = session.deadline
    finally:
        session.wall_stopped |= inner.wall_stopped


def _monolithic(context: Context, session: Session) -> Iterator[Candidate | Bound]:
    """Yield plans and bounds of the monolithic model."""
    problem = context.problem
    yield from _solve_monolithic(problem, monolithic_round(problem), session)


def _value_bound(context: Context, session: Session) -> Iterator[Bound]:
    """Yield the certified bound of `value`, and keep it in the context."""
    context.value_bound = solve_value_bound(context.classes, session)
    yield Bound("value", context.value_bound, certified=True)


def _decomposition(context: Context, session: Session) -> Iterator[Candidate | Bound]:
    """Yield the plan of the decomposition by region, then the bound of the integer model."""
    yield from decompose_by_region(
        context.running_jobs,
        context.classes,
        context.value_bound,
        session,
        last=not context.refined,
    )
    yield from integer_value_bound(context.classes, session)


def _least_remote_reads(context: Context, session: Session) -> Iterator[Candidate]:
    """Yield plans in which each job that starts reads the least it can."""
    yield from _limit_remote_reads(context.problem, session, 0.0)


def _monolithic_in_time(context: Context, session: Session) -> Iterator[Candidate | Bound]:
    """Yield plans and bounds of the monolithic model, if there is time to build it.

    If costs do not count in its score, identical jobs are exchanged afterwards.
    """
    problem = context.problem
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


def _fewer_remote_reads(context: Context, session: Session) -> Iterator[Candidate]:
    """Yield plans in which jobs read little more than they must, until one is better."""
    for quantile in parameters.PARAMETERS.excess_quantiles:
        known = session.best or {}
        if not _proven(session) or not known.get("remote_reads"):
            return
        yield from _limit_remote_reads(context.problem, session, quantile)
        if session.best != known:
            return


def _cost_bound(context: Context, session: Session) -> Iterator[Bound]:
    """Yield the bound of the second term."""
    yield from cost_bound(context.classes, session)


PHASES = (
    Phase("monolithic model", _monolithic, lambda context, _: context.small),
    Phase(
        "Lagrangian bound of value",
        _value_bound,
        lambda context, _: not context.small,
        keeps_verification=True,
    ),
    Phase(
        "decomposition by region",
        _decomposition,
        lambda context, _: not context.small,
        share=0.75,
        keeps_verification=True,
    ),
    Phase("least remote reads", _least_remote_reads, lambda context, _: context.refined),
    Phase(
        "monolithic model after decomposition",
        _monolithic_in_time,
        lambda context, session: (
            context.refined and not _proven(session, parameters.PARAMETERS.value_gap_rel)
        ),
    ),
    Phase("fewer remote reads", _fewer_remote_reads, lambda context, _: context.refined),
    Phase("bound of read costs", _cost_bound, lambda context, _: not context.small),
)
"""In their order; those of small rounds and of all others exclude each other."""


def _proven(session: Session, gap: float = SHARPNESS) -> bool:
    """Whether the value of the best plan is proven within a relative gap."""
    value = (session.best or {}).get("value", 0)
    return session.first_bound is not None and near(session.first_bound, value, gap)


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
    inner = replace(session, gap=0.0)
    if not session.deterministic:
        inner.deadline -= max(0.0, session.remaining()) / 2
    for step in inner.inner_rounds(gangs.round, inner):
        session.wall_stopped |= inner.wall_stopped and session.deterministic
        if isinstance(step, Candidate):
            yield add_data_orders(problem, gangs.lift(step))
            continue
        for bound in gangs.lift_bound(step, session.best):
            if bound.term == "value" and bound.value < (session.best or {}).get("value", 0):
                return


def _solve_monolithic(
    problem: Problem, gangs: MonolithicRound, session: Session
) -> Iterator[Candidate | Bound]:
    """Yield the plans and bounds of the monolithic model, lifted to the round."""
    known: list[Bound] = []
    # Costs change the score by less than any relative gap that could be asked for.
    inner = replace(session, gap=0.0)
    for step in inner.inner_rounds(gangs.round, inner):
        if isinstance(step, Bound):
            known.append(step)
            yield from gangs.lift_bound(step, session.best)
        else:
            yield add_data_orders(problem, gangs.lift(step))
            for bound in known:
                if bound.term == "value":
                    yield from gangs.lift_bound(bound, session.best)
        session.wall_stopped |= inner.wall_stopped
        inner.deadline = session.deadline
