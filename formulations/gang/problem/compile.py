"""Compiles a checked round into a `Problem`: arrays, interned options and job classes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.common.priority_classes import PriorityClass, write_out_terms
from placewright.formulations.gang.problem.disruption_budget import DisruptionBudget
from placewright.formulations.gang.problem.dominant_shares import tenant_shares, write_out_share
from placewright.formulations.gang.problem.entitlement import BorrowingOptions, borrowing_options
from placewright.formulations.gang.problem.job_compiler import (
    PINNED,
    CompiledJob,
    JobCompiler,
    Precedence,
)
from placewright.formulations.gang.problem.jobs import Choice, JobClass, RunningJob
from placewright.formulations.gang.problem.leave import Leave, Over
from placewright.formulations.gang.problem.pools import (
    WHOLE_CLUSTER,
    compile_pools,
    totals_of_pools,
)
from placewright.formulations.gang.problem.priority_classes import (
    class_weights,
    classes_of_jobs,
    priority_classes,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.quotas import remaining_quotas, use_numbers
from placewright.formulations.gang.problem.shapes import host_mask
from placewright.formulations.gang.problem.terms import LINK_TERMS, VALUE
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.ranges import size
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.topology import Cluster, State


class Compiler:
    """Compiles successive rounds; what two of them share is compiled once.

    Jobs of the last round are kept alive, and shapes keep their indices. Both are compiled anew
    when a round has another cluster, other host sets, precedences of running jobs, tenants, caps or
    spread weights, or when fewer than half of the known shapes are still in use.
    """

    def __init__(self) -> None:
        self._basis: _CompiledJobs | None = None

    def __call__(
        self,
        round_: Round,
        borrowed: BorrowingOptions | None = None,
        classes: tuple[PriorityClass, ...] | None = None,
    ) -> Problem:
        """Compile a checked round.

        `borrowed` and `classes` replace the borrowing options and the priority classes that follow
        from the round itself.
        """
        borrowed = borrowing_options(round_) if borrowed is None else borrowed
        classes = priority_classes(round_, borrowed) if classes is None else classes
        levels, leave = precedence_levels(round_, borrowed), Leave(round_, borrowed)
        basis = self._basis
        if basis is None or not basis.is_valid_for(round_, levels, leave):
            basis = self._basis = _CompiledJobs(round_, levels, leave)
        return basis.problem(round_, borrowed, classes)


def compile_round(
    round_: Round,
    cluster: Cluster | None = None,
    classes: tuple[PriorityClass, ...] | None = None,
) -> Problem:
    """Compile one checked round; successive ones are compiled faster by a `Compiler`.

    Parameters
    ----------
    cluster
        Its cluster, if that has been built already.
    classes
        Priority classes in place of those that follow from the round itself, as of a part.
    """
    borrowed = borrowing_options(round_)
    classes = priority_classes(round_, borrowed) if classes is None else classes
    levels, leave = precedence_levels(round_, borrowed), Leave(round_, borrowed)
    return _CompiledJobs(round_, levels, leave, cluster).problem(round_, borrowed, classes)


def precedence_levels(round_: Round, borrowed: BorrowingOptions) -> list[Precedence]:
    """Return the distinct precedences of the running jobs that may move, lowest first."""
    running = {
        (i not in borrowed, job.priority)
        for i, job in enumerate(round_.jobs)
        if job.running and not job.running.pinned
    }
    return sorted(running)


class _CompiledJobs:
    """The compiled jobs of a round, and what they were compiled with."""

    def __init__(
        self,
        round_: Round,
        levels: list[Precedence],
        leave: Leave,
        cluster: Cluster | None = None,
    ) -> None:
        self.document = round_.cluster
        self.cluster = build_cluster(round_.cluster) if cluster is None else cluster
        entries = [(entry.healthy, size(entry.name)) for entry in round_.cluster.hosts]
        self.healthy = np.repeat([h for h, _ in entries], [n for _, n in entries])
        self.job_compiler = JobCompiler(round_, self.cluster, levels, leave)
        self.shapes_needed = 0
        self.known: dict[int, CompiledJob] = {}
        self.borrowed: BorrowingOptions = {}

    def is_valid_for(self, round_: Round, levels: list[Precedence], leave: Leave) -> bool:
        """Whether another round may be compiled with the same shapes and precedences."""
        compiler = self.job_compiler
        return (
            round_.cluster is self.document
            and round_.host_sets == compiler.shapes.host_sets
            and levels == compiler.levels
            and leave.key == compiler.leave.key
            and [t.name for t in round_.tenants] == list(compiler.tenants)
            and list(round_.caps) == list(compiler.caps)
            and use_numbers(round_) == compiler.use_numbers
            and round_.spread_weights() == compiler.weights
            and LINK_TERMS.intersection(round_.policy.terms) == compiler.link_terms
            and (round_.policy.priority == "strict") == compiler.strict
            and len(compiler.shapes.index) <= 2 * self.shapes_needed
        )

    def problem(
        self, round_: Round, borrowed: BorrowingOptions, priorities: tuple[PriorityClass, ...]
    ) -> Problem:
        """Compile a round; jobs that are compiled already are looked up by identity."""
        cluster, shapes, jobs = self.cluster, self.job_compiler.shapes, round_.jobs
        # By identity: jobs do not change, and a known one is alive, so its id is its own.
        known = self.known
        if borrowed or self.borrowed:
            # A job's standing is a matter of the others, too.
            known = {
                id(job): fact
                for i, job in enumerate(jobs)
                if (fact := known.get(id(job))) and fact.borrowed == borrowed.get(i, ())
            }
        self.borrowed = borrowed
        self.known = {
            id(job): known.get(id(job)) or self.job_compiler.compile(job, borrowed.get(i, ()))
            for i, job in enumerate(jobs)
        }
        # They would keep what jobs that are gone have asked.
        self.job_compiler.choice_of_option.clear()
        facts = [self.known[id(job)] for job in jobs]
        members: defaultdict[int, list[int]] = defaultdict(list)
        for index, fact in enumerate(facts):
            members[fact.class_number].append(index)
        pinned = [facts[j] for j in members.pop(PINNED, ())]
        classes = self.job_compiler.job_classes(members, jobs)
        weights: tuple[int, ...] = ()
        if priorities:
            classes, weights = weigh(round_, classes, priorities)
        choices = (choice for job_class in classes for choice in job_class.choices)
        self.shapes_needed = len({g.shape for choice in choices for g in choice.groups})
        parted = shapes.has_gpu_parts or any(fact.held and fact.held.parts for fact in pinned)
        state = self._state(facts, parted)
        cleared = self._state(pinned, parted)
        pinned_hosts = cleared.busy.copy()
        cleared.busy[:] = state.busy
        usable, open_ = _usable_gpus(round_, cluster, state)
        vacate = host_mask(cluster, round_.policy.vacate)
        reserved_free = np.zeros(cluster.num_hosts, dtype=np.int64)
        host_of_gpu = np.repeat(np.arange(cluster.num_hosts), cluster.gpu_count)
        np.add.at(reserved_free, host_of_gpu[~usable], cleared.gpu_free[~usable])
        for each in (state, cleared):
            each.gpu_free[~usable] = 0
            if each.slices is not None:
                each.slices[~usable] = 0
        class_of = {j: c for c, k in enumerate(classes) if k.running for j in k.jobs}
        gpu, demand, hosts = shapes.arrays()
        shares = tenant_shares(round_, cluster, self.healthy)
        pools = compile_pools(round_, cluster, shapes)
        return Problem(
            round=round_,
            cluster=cluster,
            state=state,
            cleared=cleared,
            classes=classes,
            shape_gpu=gpu,
            shape_demand=demand,
            shape_allowed=hosts,
            shape_rank=shapes.ranks(),
            over=Over(shapes.ranks(), shapes.leaves(), self.job_compiler.leave.matrix()),
            shape_model=shapes.models(),
            part_demands=shapes.gpu_part_demands() if parted else None,
            host_kind=shapes.host_kinds(),
            open=open_ & ~vacate,
            usable=usable,
            vacate=vacate,
            pinned_hosts=pinned_hosts,
            pinned_remaining=milli_gpu_on(
                [fact.job for fact in pinned], set(np.array(cluster.hosts)[vacate].tolist())
            ),
            reserved_free=reserved_free,
            running={j: _running_job(round_.now, facts[j], class_of[j]) for j in sorted(class_of)},
            quota=remaining_quotas(round_, cluster)
            | totals_of_pools(round_, cluster, pools, classes, gpu),
            pools=tuple(pool for pool in pools if pool.level != WHOLE_CLUSTER),
            labels=self.job_compiler.list_labels(
                (j, f.job, f.held.hosts) for j, f in enumerate(facts) if f.held is not None
            ),
            terms=write_out_terms(
                write_out_share(round_.policy.terms, len(shares)), {VALUE: len(priorities)}
            ),
            shares=shares,
            priority_classes=priorities,
            class_weights=weights,
            budget=DisruptionBudget.of(round_),
        )

    def _state(self, facts: Sequence[CompiledJob], parted: bool) -> State:
        """Return the state of the hosts once these jobs hold what they run on.

        `parted`: with the memory and the MIG slices of GPUs.
        """
        state = State.shared(self.cluster) if parted else State.empty(self.cluster)
        state.healthy[:] = self.healthy
        held = [fact.held for fact in facts if fact.held is not None]

        def all_of(parts: Iterable[tuple[int, ...]]) -> NDArray[np.int64]:
            return np.array(list(chain.from_iterable(parts)), dtype=np.int64)

        hosts = all_of(h.hosts for h in held)
        asked = [dict(wanted) for wanted in self.job_compiler.demands]
        rows = np.array(
            [[wanted.get(name, 0) for name in self.cluster.resources] for wanted in asked],
            dtype=np.int64,
        ).reshape(-1, state.free.shape[1])
        np.subtract.at(state.free, hosts, rows[all_of(h.demands for h in held)])
        milli = all_of(h.milli for h in held)
        np.subtract.at(state.gpu_free, all_of(h.gpus for h in held), milli.astype(np.int32))
        state.busy[hosts] = True
        if state.gpu_memory is not None and state.slices is not None:
            some = [h for h in held if h.parts]
            gpus = all_of(h.gpus for h in some)
            parts = np.array([part for h in some for part in h.parts], dtype=np.int64)
            np.subtract.at(state.gpu_memory, gpus, parts.reshape(-1, 2)[:, 0])
            # Slices of a GPU do not overlap.
            np.bitwise_or.at(state.slices, gpus, parts.reshape(-1, 2)[:, 1].astype(np.int16))
        return state


def weigh(
    round_: Round, classes: tuple[JobClass, ...], priorities: tuple[PriorityClass, ...]
) -> tuple[tuple[JobClass, ...], tuple[int, ...]]:
    """Return the job classes with their values weighted by priority class, and the weights."""
    owners = {tenant.name for tenant in round_.tenants if tenant.cells}
    numbers = classes_of_jobs(priorities, classes, round_.jobs, owners)
    weights = class_weights(priorities, classes, numbers)
    known: dict[tuple[int, int], Choice] = {}
    weighed = []
    for job_class, of in zip(classes, numbers, strict=True):
        choices = []
        for choice, k in zip(job_class.choices, of, strict=True):
            if (id(choice), k) not in known:
                value = choice.value * weights[k]
                known[id(choice), k] = replace(
                    choice, value=value, priority_class=k, weight=weights[k]
                )
            choices.append(known[id(choice), k])
        weighed.append(replace(job_class, choices=tuple(choices)))
    return tuple(weighed), weights


def _usable_gpus(
    round_: Round, cluster: Cluster, state: State
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the GPUs not reserved, (gpus,), and the healthy hosts not reserved whole, (hosts,)."""
    usable = np.ones(cluster.num_gpus, dtype=np.bool_)
    open_ = state.healthy.copy()
    for reservation in round_.reservations:
        for host in np.flatnonzero(host_mask(cluster, [reservation.host])).tolist():
            if reservation.gpus is None:
                open_[host] = False
            else:
                usable[int(cluster.gpu_start[host]) + np.array(reservation.gpus)] = False
    return usable, open_


def _running_job(now: int, facts: CompiledJob, job_class: int) -> RunningJob:
    """Return a running job with its stop costs; by default GPUs times the seconds that are lost."""
    job, held = facts.job, facts.held
    running = job.running
    if running is None or held is None:
        raise ValueError(f"job {job.name!r} is pending; expected a running one")
    default = held.milli_gpu * (running.unsaved_s(now) + running.restart_s)
    return RunningJob(
        job_class=job_class,
        level=held.level,
        kind=held.kind,
        places=held.places,
        tasks=held.tasks,
        slots=held.slots,
        migrate_cost=default if running.migrate_cost is None else running.migrate_cost,
        preempt_cost=default if running.preempt_cost is None else running.preempt_cost,
    )


def milli_gpu_on(jobs: Sequence[Job], hosts: set[str]) -> int:
    """Return the milli-GPU that running jobs hold on some hosts, given by name."""
    return sum(
        job.options[job.running.option].groups[task.group].gpu
        for job in jobs
        if job.running is not None
        for task in job.running.tasks
        if task.host in hosts
    )
