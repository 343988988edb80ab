"""Victim selection: which running jobs stop so that the pending jobs start, in large rounds.

Two host-indexed models without arrivals of running jobs, which are most of the exact model:

    stays or stops   every running job is kept or preempted: a restriction, so a point is a plan
    moves anywhere   who moves uses no capacity: a relaxation, so its optimum bounds `disruption`

They apply to few pending jobs, and to the terms `value` and then `disruption`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.bound_arithmetic import HOLD_SLACK, tighter
from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.host.disruption_budget import add_disruption_budget
from placewright.formulations.gang.models.host.entries import entries_of
from placewright.formulations.gang.models.host.expand import start_jobs
from placewright.formulations.gang.models.host.gpus import add_gpus
from placewright.formulations.gang.models.host.model import HostModel, Moves, build_host_model
from placewright.formulations.gang.models.host.move_terms import add_disruption
from placewright.formulations.gang.models.host.necessity import add_necessity
from placewright.formulations.gang.models.host.pools import PoolColumns, add_pools
from placewright.formulations.gang.models.host.preemption import add_preemption
from placewright.formulations.gang.models.host.terms import add_terms, add_value
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.disruption_budget import repair_disruptions
from placewright.formulations.gang.placement.fair_share import fill_by_policy
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.terms import SENSE, VALUE
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.solver import certified_bound, multipliers

DISRUPTION = "disruption"


def select_victims(problem: Problem, session: Session) -> Iterator[Candidate | Bound]:
    """Yield plans in which running jobs stay or stop, and lower bounds on `disruption`."""
    tuning = parameters.PARAMETERS.models
    if (
        problem.terms[:2] != (VALUE, DISRUPTION)
        or problem.num_pending.sum() > tuning.max_victim_pending_jobs
    ):
        return
    if _size(problem) > tuning.max_victim_variables:
        return
    least: float | None = None
    if session.best is not None and session.settled(session.best[VALUE]):
        least = yield from _bound_disruption(problem, session, session.best[VALUE])
    if session.best is not None and least == session.best[DISRUPTION]:
        return
    known = None if session.best is None else session.best[VALUE]
    yield from _stay_or_stop(problem, session)
    if session.best is not None and (least is None or session.best[VALUE] != known):
        yield from _bound_disruption(problem, session, session.best[VALUE])


def _size(problem: Problem) -> int:
    """Return about how many variables the models have."""
    hosts = problem.shape_hosts.sum(axis=1)
    _, sets = entries_of(problem, problem.num_pending)
    return int(sum(hosts[s.shape] for s in sets)) + len(problem.running_tasks)


def _model(problem: Problem, moves: Moves) -> tuple[HostModel, list[PoolColumns]]:
    cleared = Placement(problem, cleared=True)
    everywhere = np.arange(problem.cluster.num_hosts)
    exact = build_host_model(
        problem, cleared, everywhere, problem.num_pending, list(problem.running), moves
    )
    return exact, add_pools(exact)


def _stay_or_stop(problem: Problem, session: Session) -> Iterator[Candidate]:
    """Yield plans of the restriction: every running job is kept or preempted."""
    tuning = parameters.PARAMETERS.models
    exact, pools = _model(problem, "none")
    slots = add_gpus(exact)
    add_preemption(exact, pools=pools)
    add_necessity(exact, slots, pools)
    add_disruption_budget(exact)
    add_terms(exact)
    start: NDArray[np.float64] | None = None
    for term in (VALUE, DISRUPTION):
        outcome = session.optimise(
            exact.model.arrays(term),
            share=tuning.victim_share,
            most=tuning.max_victim_seconds,
            gap=0.0,
            start=start,
        )
        if outcome is None or outcome.values is None or outcome.objective is None:
            break
        start = outcome.values
        exact.model.hold(term, round(outcome.objective), HOLD_SLACK)
    if start is None:
        return
    placement = Placement(problem, cleared=True)
    start_jobs(exact, slots, start, placement)
    repair_disruptions(placement)
    yield assign(placement, "stopping")
    # Some of those that stop may fit elsewhere.
    fill_by_policy(placement)
    repair_disruptions(placement)
    yield assign(placement, "stopping")


def _bound_disruption(
    problem: Problem, session: Session, value: int
) -> Generator[Bound, None, float | None]:
    """Bound `disruption` among plans worth `value` by the relaxation; return the best bound."""
    tuning = parameters.PARAMETERS.models
    exact, pools = _model(problem, "away")
    add_gpus(exact)
    add_preemption(exact, pools=pools)
    add_disruption_budget(exact)
    add_value(exact)
    add_disruption(exact)
    exact.model.hold(VALUE, value, HOLD_SLACK)
    holds = ((VALUE, value),)
    arrays = exact.model.arrays(DISRUPTION, relax=True)
    least: float | None = None
    relaxed = session.optimise(arrays, share=tuning.victim_share)
    if relaxed is not None and relaxed.row_duals is not None:
        certified = certified_bound(arrays, multipliers(arrays, relaxed.row_duals))
        if certified is not None:
            least = problem.round_certified(DISRUPTION, certified)
            yield Bound(DISRUPTION, least, holds, certified=True)
    outcome = session.optimise(
        exact.model.arrays(DISRUPTION),
        share=tuning.victim_share,
        most=tuning.max_victim_seconds,
        gap=0.0,
    )
    if outcome is not None and outcome.bound is not None:
        claimed = problem.round_bound(DISRUPTION, outcome.bound)
        least = tighter(least, claimed, SENSE[DISRUPTION])
        yield Bound(DISRUPTION, claimed, holds)
    return least
