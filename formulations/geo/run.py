"""The fast path: small rounds as one round of gangs, others region by region."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from placewright.formulations.bound_arithmetic import SHARPNESS, near
from placewright.formulations.gang.problem.problem import Problem as Gangs
from placewright.formulations.geo.bounds.assignment_bounds import (
    cost_bound,
    integer_value_bound,
    solve_value_bound,
)
from placewright.formulations.geo.heuristics.data_orders import add_data_orders
from placewright.formulations.geo.heuristics.decomposition import (
    VALUE_GAP,
    decompose_by_region,
)
from placewright.formulations.geo.heuristics.exchange import minimise_remote_reads
from placewright.formulations.geo.models.monolithic import (
    MonolithicRound,
    monolithic_round,
    monolithic_round_in_time,
)
from placewright.formulations.geo.problem.compile import Problem
from placewright.formulations.geo.problem.job_classes import build_job_classes
from placewright.formulations.geo.problem.running_jobs import RunningJobs
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session

SMALL = 4_000
"""Jobs times hosts of a round that is decided as a whole."""

MEDIUM = 3_000_000
"""The same of one that is decided region by region first, and then as a whole."""

UNREACHABLE = 2**62
"""GiB that no job reads."""

EXCESS_QUANTILES = (0.1, 0.25, 0.5)
"""Of the ways in which jobs read more than they must: so many are tried once value is proven."""


def run(problem: Problem, session: Session) -> Iterator[Candidate | Bound]:
    """Yield plans and bounds of a round of policy `geo`.

    Parameters
    ----------
    problem
        The round, as arrays.
    session
        Clock and solver, and who decides inner rounds of gangs and those of regions.
    """
    for term in problem.round.policy.terms[1:]:
        yield Bound(term, 0, certified=True)
    size = len(problem.round.jobs) * problem.cluster.num_hosts
    if size <= SMALL:
        yield from _solve_monolithic(problem, monolithic_round(problem), session)
        return
    began, end = time.monotonic(), session.deadline
    gangs_of_round = problem.gangs()
    running_jobs = RunningJobs(problem, gangs_of_round)
    classes = build_job_classes(running_jobs)
    # To check a plan takes about as long, and comes after the search, but before later bounds.
    session.deadline -= time.monotonic() - began
    value_bound = solve_value_bound(classes, session)
    yield Bound("value", value_bound, certified=True)
    if size <= MEDIUM and not session.deterministic:
        # The rest of the time is for the round as a whole; the better plan is kept.
        session.deadline -= max(0.0, session.remaining()) / 4
    yield from decompose_by_region(running_jobs, classes, value_bound, session, last=size > MEDIUM)
    yield from integer_value_bound(classes, session)
    session.deadline += max(0.0, end - session.deadline)
    if size <= MEDIUM:
        yield from _limit_remote_reads(problem, session, 0.0)
        if not _proven(session, VALUE_GAP):
            yield from _monolithic_in_time(problem, gangs_of_round, session)
        for share in EXCESS_QUANTILES:
            known = session.best or {}
            if not _proven(session) or not known.get("remote_reads"):
                break
            yield from _limit_remote_reads(problem, session, share)
            if session.best != known:
                break
    yield from cost_bound(classes, session)


def _proven(session: Session, gap: float = SHARPNESS) -> bool:
    """Whether the value of the best plan is proven within a gap."""
    value = (session.best or {}).get("value", 0)
    return session.first_bound is not None and near(session.first_bound, value, gap)


def _monolithic_in_time(
    problem: Problem, gangs_of_round: Gangs, session: Session
) -> Iterator[Candidate | Bound]:
    """Yield plans and bounds of a round that is decided as one of gangs, if time does for it."""
    gangs = monolithic_round_in_time(problem, session)
    if gangs is None:
        return
    for step in _solve_monolithic(problem, gangs, session):
        yield step
        if isinstance(step, Candidate) and len(gangs.weights.terms) == 1:
            yield add_data_orders(
                problem, minimise_remote_reads(problem, gangs_of_round, step, problem.read_costs)
            )


def _limit_remote_reads(problem: Problem, session: Session, share: float) -> Iterator[Candidate]:
    """Yield plans in which no job that starts reads much more over links than it would elsewhere.

    `share` is that of all ways to read more than the least that are open to jobs, the smallest
    first; 0: where least is enough for the best value, nothing else reads less. It takes no longer
    than it may still be so, and half of the time.
    """
    remote = np.where(problem.eligible, problem.remote_gib, UNREACHABLE)
    excess = remote - remote.min(axis=1)[:, None]
    positive_excess = excess[problem.eligible & (excess > 0)]
    limit = np.quantile(positive_excess, share) if share and len(positive_excess) else 0
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
    """Yield what a round of gangs says of the whole round."""
    known: list[Bound] = []
    # What costs count for is less than any gap of worth that one would ask for.
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
