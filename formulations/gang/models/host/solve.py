"""Lexicographic optimisation of the host-indexed model of a whole round, term by term."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

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
from placewright.formulations.gang.problem.jobs import ANY_JOB
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.task_mix import STRANDED
from placewright.formulations.gang.problem.terms import CONTENTION
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import Session
from placewright.solver import Arrays, certified_bound, multipliers


def solve_exactly(
    problem: Problem, session: Session, known: Candidate | None = None
) -> Iterator[Candidate | Bound]:
    """Yield bound and plan of each term, the terms before it held at the best plan's values.

    If the first term is proven already, the second is the first to be solved. Branch and bound
    begins at the `known` plan, where that is a point of the model.
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
        if start is None and known is not None:
            start = _point_of(exact, session, arrays, known)
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


def _point_of(
    m: HostModel, session: Session, arrays: Arrays, plan: Candidate
) -> NDArray[np.float64] | None:
    """Return a point of the model at which jobs run as in a plan, None if there is none.

    Where tasks arrive and stay is fixed; a solver completes the point.
    """
    number = np.zeros(arrays.columns)
    column_of = {
        (t, int(m.hosts[h])): x
        for t, h, x in zip(m.x_set.tolist(), m.x_host.tolist(), m.x.tolist(), strict=True)
    }
    set_of = m.set_of
    entries: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
    for e, entry in enumerate(m.entries):
        entries[entry.job_class, entry.choice, entry.job] += [e] * entry.most
    stays = _columns_of_stays(m)
    kept = {job: running.places for job, running in m.problem.running.items()}
    places_of = {job: (0, kept[job]) for job in kept.keys() - plan.preempted.keys()}
    for job, (option, places) in plan.starts.items():
        job_class = m.problem.classes[m.problem.class_of[job]]
        places_of[job] = (job_class.choice_of(option), places)
    for job, (choice, places) in places_of.items():
        key = (m.problem.class_of[job], choice, job if job in kept else ANY_JOB)
        if not entries[key]:
            return None
        e = entries[key].pop()
        number[m.y[e]] += 1
        for group, _, host, gpus in places:
            column = stays.get((e, group, host, gpus), column_of.get((set_of[e, group], host)))
            if column is None:
                return None
            number[column] += 1
    fixed = np.concatenate([m.y, m.x, m.stays.s])
    lower, upper = arrays.lower.copy(), arrays.upper.copy()
    if (number[fixed] < lower[fixed]).any() or (number[fixed] > upper[fixed]).any():
        return None
    lower[fixed] = upper[fixed] = number[fixed]
    found = session.optimise(
        replace(arrays, lower=lower, upper=upper),
        share=parameters.PARAMETERS.models.exact_relaxation_share,
        gap=1.0,
    )
    return None if found is None else found.values


def _columns_of_stays(m: HostModel) -> dict[tuple[int, int, int, tuple[int, ...]], int]:
    """Return the column of each place of a running job, by entry, group, host and GPUs."""
    stays = m.stays
    groups = [m.task_sets[t].users[0][1] for t in stays.set.tolist()]
    hosts = m.hosts[stays.host].tolist()
    keys = zip(stays.entry.tolist(), groups, hosts, stays.gpus, strict=True)
    return dict(zip(keys, stays.s.tolist(), strict=True))


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
