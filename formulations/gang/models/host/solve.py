"""Lexicographic optimisation of the host-indexed model of a whole round, term by term."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.bound_arithmetic import HOLD_SLACK, SHARPNESS, near
from placewright.formulations.gang import parameters
from placewright.formulations.gang.models.host.disruption_budget import add_disruption_budget
from placewright.formulations.gang.models.host.expand import start_jobs
from placewright.formulations.gang.models.host.fragmentation import add_stranded
from placewright.formulations.gang.models.host.gpus import GpuSlots, add_gpus
from placewright.formulations.gang.models.host.model import HostModel, build_host_model
from placewright.formulations.gang.models.host.necessity import COUNTED, NECESSITY, add_necessity
from placewright.formulations.gang.models.host.pools import add_pools
from placewright.formulations.gang.models.host.preemption import add_preemption
from placewright.formulations.gang.models.host.terms import add_terms
from placewright.formulations.gang.models.tenant_share_rows import with_actual_shares
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.completion import complete
from placewright.formulations.gang.placement.disruption_budget import repair_disruptions
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.task_mix import STRANDED
from placewright.formulations.gang.problem.terms import CONTENTION
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.solver import certified_bound, multipliers


def solve_exactly(problem: Problem, session: Session) -> Iterator[Candidate | Bound]:
    """Yield bound and plan of each term, the terms before it held at the best plan's values.

    If the first term is proven already, the second is the first to be solved.
    """
    tuning = parameters.PARAMETERS.models
    first = problem.terms[0]
    holds: list[tuple[str, int]] = []
    if session.best is not None and session.settled(session.best[first]):
        holds.append((first, session.best[first]))
    left = problem.terms[len(holds) :]
    if not left:
        return
    everywhere = np.arange(problem.cluster.num_hosts)
    cleared = Placement(problem, cleared=True)
    exact = build_host_model(
        problem, cleared, everywhere, problem.num_pending, list(problem.running)
    )
    pools = add_pools(exact)
    slots = add_gpus(exact)
    add_preemption(exact, pools=pools)
    add_necessity(exact, slots, pools)
    add_disruption_budget(exact)
    add_terms(exact)
    if STRANDED in problem.terms:
        add_stranded(exact, slots)
    for term, value in holds:
        exact.model.hold(term, value, HOLD_SLACK)
    start: NDArray[np.float64] | None = None
    without = {NECESSITY, COUNTED} if problem.running else set()
    for term in left:
        # With `contention` the search for it may have proven it, and others have been before.
        if CONTENTION in problem.terms and session.best is not None and _is_proven(session, term):
            exact.model.hold(term, session.best[term], HOLD_SLACK)
            holds.append((term, session.best[term]))
            continue
        # Proving the first term counts most; what it leaves is for the others.
        arrays = exact.model.arrays(term, relax=True, without=without)
        relaxed = session.optimise(arrays, share=tuning.exact_relaxation_share)
        if relaxed is not None and relaxed.row_duals is not None:
            certified = certified_bound(arrays, multipliers(arrays, relaxed.row_duals))
            if certified is not None:
                yield Bound(
                    term, problem.round_certified(term, certified), tuple(holds), certified=True
                )
        arrays = exact.model.arrays(term, without=without)
        outcome = session.optimise(arrays, share=tuning.exact_search_share, gap=0.0, start=start)
        if outcome is None:
            return
        if outcome.bound is not None:
            yield Bound(term, problem.round_bound(term, outcome.bound), tuple(holds))
        if outcome.values is None or outcome.objective is None:
            return
        start = outcome.values
        yield from _plans_of(exact, slots, start)
        if problem.running and not _is_proven(session, term):
            yield from _solve_with_necessity(exact, slots, session, term, holds)
        if problem.shares:
            start = with_actual_shares(
                exact.model, problem, *exact.y_columns, problem.shares, start
            )
        # By now the best plan is no worse than this one; bounds hold for the best.
        held = round(outcome.objective) if session.best is None else session.best[term]
        exact.model.hold(term, held, HOLD_SLACK)
        holds.append((term, held))


def _solve_with_necessity(
    exact: HostModel, slots: GpuSlots, session: Session, term: str, holds: list[tuple[str, int]]
) -> Iterator[Candidate | Bound]:
    """Yield a plan of the restriction that needs no repair, and a bound by the rows of necessity.

    For a term of which the plan was worse than the point that it repairs.
    """
    tuning = parameters.PARAMETERS.models
    for without in ((), (COUNTED,)):
        outcome = session.optimise(
            exact.model.arrays(term, without=without), share=tuning.exact_search_share, gap=0.0
        )
        if outcome is None:
            return
        if without and outcome.bound is not None:
            yield Bound(term, exact.problem.round_bound(term, outcome.bound), tuple(holds))
        if outcome.values is not None:
            yield from _plans_of(exact, slots, outcome.values)
        if _is_proven(session, term):
            return


def _is_proven(session: Session, term: str) -> bool:
    """Whether the value of a term of the best plan equals its bound, but for rounding."""
    bound = session.best_known.bounds.get(term)
    return (
        session.best is not None
        and bound is not None
        and near(bound, session.best[term], SHARPNESS)
    )


def _plans_of(
    exact: HostModel, slots: GpuSlots, values: NDArray[np.float64]
) -> Iterator[Candidate]:
    """Yield the plan of a point of the model, its preemptions lawful, and one with more starts."""
    placement = Placement(exact.problem, cleared=True)
    start_jobs(exact, slots, values, placement)
    repair_disruptions(placement)
    yield assign(placement, "exact")
    if complete(placement):
        yield assign(placement, "exact")
