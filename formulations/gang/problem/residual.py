"""The residual problem: what is left to decide once the running jobs are fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from placewright.formulations.gang.problem.jobs import NO_SLOTS, Group
from placewright.formulations.gang.problem.pools import Pool
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Place, Slots
from placewright.topology import State
from placewright.topology.units import WHOLE_GPU


def residual(
    problem: Problem,
    moved: Mapping[int, tuple[int, tuple[Place, ...]]],
    slots: Mapping[int, Slots] = NO_SLOTS,
) -> Problem:
    """Return the problem of the pending jobs, every running one fixed where it is or has moved to.

    Its terms are those to which pending jobs matter.

    Parameters
    ----------
    moved, slots
        The jobs that have moved, as `starts` and `slots` of a `Candidate`.
    """
    state = problem.state.copy()
    for job in moved:
        held = problem.running[job]
        charge_running(problem, state, job, held.places, -1, held.slots)
    for job, (_, places) in moved.items():
        charge_running(problem, state, job, places, 1, slots.get(job, ()))
    pending = tuple(c for c in problem.classes if not c.running)
    quota = dict(problem.quota)
    for job_class in problem.classes:
        for _ in job_class.jobs if job_class.running else ():
            problem.charge_quota(quota, job_class.accounts, job_class.choices[0])
    terms = tuple(t for t in problem.terms if t not in ("disruption", "remaining", "freed"))
    return replace(
        problem,
        state=state,
        cleared=state,
        classes=pending,
        running={},
        quota=quota,
        terms=terms,
        shares=problem.shares_with_jobs([len(c.jobs) if c.running else 0 for c in problem.classes]),
        pools=_left_of_pools(problem, moved),
    )


def _left_of_pools(
    problem: Problem, moved: Mapping[int, tuple[int, tuple[Place, ...]]]
) -> tuple[Pool, ...]:
    """Return the pools with what all running jobs leave of them."""
    found = []
    for pool in problem.pools:
        left = pool.limit.copy()
        for job, running in problem.running.items():
            choice = problem.classes[running.job_class].choices[0]
            places = moved[job][1] if job in moved else running.places
            for d, amount in pool.taken(choice, ((g, host, 1) for g, _, host, _ in places)).items():
                left[d] -= amount
        found.append(replace(pool, limit=left))
    return tuple(found)


def charge(
    problem: Problem,
    state: State,
    groups: Sequence[Group],
    places: Sequence[Place],
    times: int,
    slots: Slots = (),
) -> None:
    """Charge what a job holds in some places to a state (`times` 1), or release it (-1)."""
    for k, (group, _, host, gpus) in enumerate(places):
        shape = groups[group].shape
        state.free[host] -= times * problem.shape_demand[shape]
        each = min(int(problem.shape_gpu[shape]), WHOLE_GPU)
        for gpu in (int(problem.cluster.gpu_start[host]) + g for g in gpus):
            state.gpu_free[gpu] -= times * each * int(problem.usable[gpu])
            if problem.part_demands is not None and problem.usable[gpu]:
                start = slots[k] if slots else None
                problem.part_demands.charge(state, shape, host, gpu, start, times)
        state.busy[host] |= times > 0


def charge_running(
    problem: Problem,
    state: State,
    job: int,
    places: Sequence[Place],
    times: int,
    slots: Slots,
) -> None:
    """Charge what a running job holds in some places to a state (`times` 1), or release it (-1)."""
    groups = problem.classes[problem.running[job].job_class].choices[0].groups
    charge(problem, state, groups, places, times, slots)
