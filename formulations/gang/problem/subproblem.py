"""Problems within a problem: some jobs on some hosts, or what is left beside running jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from placewright.array_types import Bools
from placewright.formulations.gang.problem.compile import (
    PINNED,
    CompiledJob,
    JobCompiler,
    assemble,
    precedence_levels,
)
from placewright.formulations.gang.problem.jobs import NO_SLOTS, Group, JobClass, Leave, RunningJob
from placewright.formulations.gang.problem.limits import borrowing_options, remaining_quotas
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.shapes import Pool
from placewright.formulations.plan_messages import Place, Slots
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.topology import State
from placewright.topology.units import WHOLE_GPU

# The residual problem: what is left to decide once the running jobs are fixed.


def residual(
    problem: Problem,
    moved: Mapping[int, tuple[int, tuple[Place, ...]]],
    slots: Mapping[int, Slots] = NO_SLOTS,
) -> Problem:
    """Return the problem of the pending jobs, every running one fixed where it is or has moved to.

    Its terms are those to which pending jobs matter. `moved` and `slots` are the jobs that have
    moved, as `starts` and `slots` of a `Candidate`.
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
    problem: Problem, state: State, job: int, places: Sequence[Place], times: int, slots: Slots
) -> None:
    """Charge what a running job holds in some places to a state (`times` 1), or release it (-1)."""
    groups = problem.classes[problem.running[job].job_class].choices[0].groups
    charge(problem, state, groups, places, times, slots)


# A subproblem: some of the jobs of a compiled round on some of its hosts, taken from its arrays.
#
# The result equals what the part compiles to as a round of its own (`compile_round`), with the
# priority classes of the whole. It is faster,
# since of the jobs of a class only one is compiled and the state of hosts is copied.


def cut_subproblem(
    whole: Problem,
    round_: Round,
    jobs: Sequence[int],
    hosts: Sequence[int],
    variants: Sequence[int],
    changed: Callable[[int, int], Job],
) -> Problem:
    """Return the problem of a part of a compiled round.

    `round_` is the part as a round, with its own cluster, tenants, reservations and policy; its
    jobs may be those of the whole round, unchanged. `jobs` and `hosts` are indices in the whole
    round, in its order. `changed` returns a job, by its index in the whole round and its number in
    `variants`, (jobs,), as the part has it; jobs of one class with one variant are changed in the
    same way.
    """
    cluster, borrowed = build_cluster(round_.cluster), borrowing_options(round_)
    levels, leave = precedence_levels(round_, borrowed), Leave(round_, borrowed)
    job_compiler = JobCompiler(round_, cluster, levels, leave)
    known: dict[tuple[object, ...], int] = {}
    members: defaultdict[int, list[int]] = defaultdict(list)
    pinned: dict[int, CompiledJob] = {}
    for i, (job, j, variant) in enumerate(zip(round_.jobs, jobs, variants, strict=True)):
        mine, job_class = borrowed.get(i, ()), whole.class_of[j]
        if job_class == PINNED:
            pinned[i] = job_compiler.compile(changed(j, variant), mine)
            continue
        key = job_class, variant, job.priority, mine
        if key not in known:
            known[key] = job_compiler.class_number(changed(j, variant), mine)
        members[known[key]].append(i)
    classes = job_compiler.job_classes(members, round_.jobs)
    inside = np.zeros(whole.cluster.num_hosts, dtype=np.bool_)
    inside[list(hosts)] = True
    gpus = np.repeat(inside, whole.cluster.gpu_count)
    resources = [whole.cluster.resources.index(name) for name in cluster.resources]
    parted = job_compiler.is_parted(pinned.values())

    def state_of(state: State) -> State:
        return State(
            free=state.free[inside][:, resources],
            gpu_free=state.gpu_free[gpus],
            healthy=state.healthy[inside],
            busy=state.busy[inside],
            gpu_memory=state.gpu_memory[gpus] if parted and state.gpu_memory is not None else None,
            slices=state.slices[gpus] if parted and state.slices is not None else None,
        )

    running = _running(whole, round_, jobs, inside, classes, job_compiler)
    placed = [
        (i, job, tuple(host for _, _, host, _ in running[i].places))
        for i, job in enumerate(round_.jobs)
        if i in running
    ]
    placed += [(i, fact.job, fact.held.hosts) for i, fact in pinned.items() if fact.held]
    return assemble(
        job_compiler,
        round_,
        classes,
        whole.priority_classes,
        pinned.values(),
        placed,
        state=state_of(whole.state),
        cleared=state_of(whole.cleared),
        open=whole.open[inside],
        usable=whole.usable[gpus],
        vacate=whole.vacate[inside],
        pinned_hosts=whole.pinned_hosts[inside],
        reserved_free=whole.reserved_free[inside],
        running=running,
        quota=remaining_quotas(round_, cluster),
    )


def _running(
    whole: Problem,
    round_: Round,
    jobs: Sequence[int],
    inside: Bools,
    classes: Sequence[JobClass],
    job_compiler: JobCompiler,
) -> dict[int, RunningJob]:
    """Return a part's running jobs that may move; `inside`, bool (hosts,), marks its hosts."""
    where = (np.cumsum(inside) - 1).tolist()
    found: dict[int, RunningJob] = {}
    for number, job_class in enumerate(classes):
        if not job_class.running:
            continue
        first, entitled = round_.jobs[job_class.jobs[0]], job_class.choices[0].entitled
        level = job_compiler.rank_of((entitled, first.priority))
        kind = job_compiler.leave.kind(first, entitled=entitled)
        for i in job_class.jobs:
            held = whole.running[jobs[i]]
            found[i] = held._replace(
                job_class=number,
                level=level,
                kind=kind,
                places=tuple([(g, task, where[host], on) for g, task, host, on in held.places]),
                tasks=tuple([replace(put, host=where[put.host]) for put in held.tasks]),
            )
    return {i: found[i] for i in sorted(found)}
