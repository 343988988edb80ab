"""Cells: the gang formulation decides the residual round; plans and bounds are lifted."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from placewright.formulations.cells.residual_round import ADDITIVE_TERMS, ResidualRound
from placewright.formulations.gang.placement.assignment import assign
from placewright.formulations.gang.placement.disruption_budget import repair_disruptions
from placewright.formulations.gang.placement.greedy import fill_greedily
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.disruption_budget import DisruptionBudget
from placewright.formulations.gang.problem.pools import Pool
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.quotas import QuotaKey, account_numbers
from placewright.formulations.plan_messages import Bound, Candidate
from placewright.formulations.session import BestKnown, Session
from placewright.instances.derived.pools import pools_of, running_places
from placewright.topology.units import WHOLE_GPU


def _offsets(rest: ResidualRound, base: Mapping[str, int], problem: Problem) -> dict[str, int]:
    """Return, per term, by how much the whole round's value exceeds that of the residual round.

    Exact for additive terms, and 0 where both rounds have the same value; otherwise low enough that
    a lifted bound is a bound.
    """
    if not rest.placed.starts:
        return dict.fromkeys(base, 0)
    least = {"disruption": rest.evicted.min_cost, "leftover": -_may_stay(rest, problem)}
    return {
        term: value if term in ADDITIVE_TERMS else least.get(term, 0)
        for term, value in base.items()
    }


def _may_stay(rest: ResidualRound, problem: Problem) -> int:
    """Return the milli-GPU of hosts on which a task of an evicted job might stay.

    The residual round knows evicted jobs as pending, so that each of their tasks arrives somewhere.
    Of a job that migrates some may stay where they are: there `leftover` counts nothing.
    """
    several = [
        job
        for job in rest.evicted.jobs
        if (running := rest.whole.jobs[job].running) is not None and len(running.tasks) > 1
    ]
    gpus = np.diff(problem.cluster.gpu_start)
    return WHOLE_GPU * int(gpus[sorted(rest.left_by(several))].sum())


@dataclass(frozen=True, slots=True, eq=False)
class CellProblem:
    """A round of which the places of guaranteed jobs are fixed.

    Attributes
    ----------
    rest
        The residual round, with the plan that fixes them.
    base
        The terms of `rest.base()` in the whole round.
    gangs
        The compiled residual round.
    """

    rest: ResidualRound
    base: Mapping[str, int]
    gangs: Problem


def run(cells: CellProblem, session: Session) -> Iterator[Candidate | Bound]:
    """Yield candidates and bounds of the whole round from those of the residual round.

    The session's gang formulation decides the residual round. Bounds hold for plans in which
    guaranteed jobs have these places. Other jobs may arrive on a host of evicted ones only if these
    find another place, which is no constraint of the gang models. So the first plan is greedy and
    avoids these hosts; if later ones are unlawful, a second search that avoids them comes last.
    """
    rest = cells.rest
    problem = replace(
        cells.gangs,
        fixed_rank=rest.fixed_rank,
        has_reservations=rest.round.policy.backfill is not None,
    )
    offset = _offsets(rest, cells.base, problem)
    has_plan = session.best is not None
    left = sorted(rest.left_by(rest.evicted.jobs))
    if not left:
        yield from _lift_all(rest, offset, problem, session, has_plan=has_plan)
        return
    problem = _with_busy_hosts(problem, left)
    open_ = problem.open.copy()
    open_[left] = False
    closed = replace(
        problem,
        open=open_,
        quota=_quota_left(rest, problem),
        pools=_pools_left(rest, problem),
        budget=_budget_left(rest, problem),
    )
    placement = Placement(closed)
    fill_greedily(placement)
    repair_disruptions(placement)
    lifted = rest.lift(assign(placement, "greedy"))
    if lifted is None:
        raise AssertionError("a plan arrives on hosts of evicted jobs; expected none")
    yield lifted
    unlawful = yield from _lift_all(rest, offset, problem, session, has_plan=has_plan)
    if unlawful and not session.proven and not session.expired():
        for step in _lift_all(rest, offset, closed, session, has_plan=has_plan):
            if isinstance(step, Candidate):
                yield step
    if session.best is None:
        yield rest.base()


def _budget_left(rest: ResidualRound, problem: Problem) -> DisruptionBudget | None:
    """Return what is left of the disruption budget if all evicted jobs are preempted."""
    if rest.budget is None or problem.budget is None:
        return None
    return problem.budget.after(rest.budget.used(rest.evicted.jobs, ()))


def _pools_left(rest: ResidualRound, problem: Problem) -> tuple[Pool, ...]:
    """Return the pools without what evicted jobs gave back of them."""
    evicted = (rest.whole.jobs[job] for job in rest.evicted.jobs)
    held = running_places(evicted, problem.cluster)
    entries = [one for one in pools_of(rest.whole, problem.cluster) if one.pool.level is not None]
    left = Placement(problem).pools.left
    return tuple(
        replace(pool, limit=pool.limit - np.clip(entry.held(held), 0, np.maximum(free, 0)))
        for pool, entry, free in zip(problem.pools, entries, left, strict=True)
    )


def _quota_left(rest: ResidualRound, problem: Problem) -> dict[QuotaKey, int]:
    """Return the quotas; of pools without what evicted jobs gave back."""
    if not rest.whole.cluster.pools:
        return problem.quota
    numbers = account_numbers(rest.whole)
    pools = {numbers["pool", pool.resource] for pool in rest.whole.cluster.pools}
    quota, free = dict(problem.quota), Placement(problem).quota_left()
    for inner, outer in enumerate(rest.outer):
        if outer in rest.evicted.jobs:
            evicted = problem.classes[problem.class_of[inner]]
            problem.charge_quota(quota, evicted.accounts, evicted.choices[0])
    return {
        key: max(quota[key], most - max(free[key], 0)) if key[0] in pools else most
        for key, most in problem.quota.items()
    }


def _with_busy_hosts(problem: Problem, hosts: Sequence[int]) -> Problem:
    """Return the problem with hosts in use, as evicted jobs still run there."""
    state, cleared = problem.state.copy(), problem.cleared.copy()
    for each in (state, cleared):
        each.busy[hosts] = True
    return replace(problem, state=state, cleared=cleared)


def _lift_all(
    rest: ResidualRound,
    offset: Mapping[str, int],
    problem: Problem,
    session: Session,
    *,
    has_plan: bool,
) -> Generator[Candidate | Bound, None, bool]:
    """Run the gang formulation with a session of its own, and lift what it yields.

    Its session learns the best known plan after its first step; if `has_plan`, before. Returns
    whether some candidate was unlawful in the whole round.
    """
    unlawful = False
    first = problem.terms[0]
    inner = session.inner()
    if has_plan:
        _inform(inner.best_known, session, offset, first)
    for step in inner.gang(problem, inner):
        if isinstance(step, Bound):
            yield _bound(step, offset)
        elif (lifted := rest.lift(step)) is not None:
            yield lifted
        else:
            unlawful = True
        _inform(inner.best_known, session, offset, first)
    return unlawful


def _inform(best_known: BestKnown, session: Session, offset: Mapping[str, int], first: str) -> None:
    """Set what is best known of the residual round to that of the whole round, less the offset."""
    best_known.proven = session.proven
    if session.best is None:
        return
    best_known.values = {term: value - offset[term] for term, value in session.best.items()}
    best_known.bounds = {
        term: bound - offset[term] for term, bound in session.best_known.bounds.items()
    }
    if next(iter(session.best)) == first:
        bound = session.first_bound
        best_known.first_bound = None if bound is None else bound - offset[first]


def _bound(bound: Bound, offset: Mapping[str, int]) -> Bound:
    """Lift a bound to the whole round; no host has less than nothing left over."""
    value = bound.value + offset[bound.term]
    return replace(
        bound,
        value=max(value, 0.0) if bound.term == "leftover" else value,
        holds=tuple((term, value + offset[term]) for term, value in bound.holds),
    )
