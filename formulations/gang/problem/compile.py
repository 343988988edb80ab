"""Compiles a checked round into a `Problem`: arrays, interned options and job classes."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.common.priority_classes import PriorityClass, write_out_terms
from placewright.formulations.gang.problem.gpu_parts import mask_of
from placewright.formulations.gang.problem.jobs import (
    NO_LABEL,
    NO_LEVEL,
    NOBODY,
    Choice,
    JobClass,
    Label,
    Leave,
    RunningJob,
    TaskPlacement,
    class_weights,
    classes_of_jobs,
    priority_classes,
)
from placewright.formulations.gang.problem.limits import (
    LINK_TERMS,
    VALUE,
    BorrowingOptions,
    DisruptionBudget,
    account_numbers,
    accounts_of,
    borrowing_options,
    remaining_quotas,
    tenant_shares,
    use_numbers,
    write_out_share,
)
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.shapes import (
    WHOLE_CLUSTER,
    ShapeTable,
    compile_pools,
    host_mask,
    host_range,
    totals_of_pools,
)
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.ranges import size
from placewright.instances.documents.base import MAX_MOMENT
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.round import Round
from placewright.topology import Cluster, State
from placewright.topology.mig import PRODUCTS
from placewright.topology.units import WHOLE_GPU

# Compiles jobs: their options as interned choices, their job class, and what running ones hold.


Precedence: TypeAlias = tuple[bool, int]
"""Whether a job is entitled, and its priority."""

PINNED = -1
"""The kind of a job that runs and may not move."""


class RunningUse(NamedTuple):
    """What a running job holds: as one that may move, its class left open, and in flat form."""

    running: RunningJob
    milli_gpu: int  # in all
    hosts: tuple[int, ...]  # (tasks,)
    demands: tuple[int, ...]  # (tasks,): the row of its demands in `JobCompiler.demands`
    gpus: tuple[int, ...]  # (GPUs held,): index in the cluster
    milli: tuple[int, ...]  # (GPUs held,)
    # (GPUs held,): (MiB, mask of MIG slices) of each; () if the job asks for neither
    parts: tuple[tuple[int, int], ...]


class CompiledJob(NamedTuple):
    """A job as compiled with its `borrowed` options; `class_number` is `PINNED` for pinned jobs."""

    job: Job
    borrowed: tuple[int, ...]
    class_number: int
    held: RunningUse | None


class JobCompiler:
    """Compiles jobs for a cluster: interned options, job classes, and what running jobs hold.

    Groups and choices are created once each, so that equal ones are identical. `levels` are the
    distinct precedences of running jobs that may move, lowest first.
    """

    def __init__(
        self, round_: Round, cluster: Cluster, levels: list[Precedence], leave: Leave
    ) -> None:
        self.cluster, self.levels, self.leave = cluster, levels, leave
        self.tenants = {t.name: i for i, t in enumerate(round_.tenants)}
        self.accounts = account_numbers(round_)
        self.pools: defaultdict[str, list[int]] = defaultdict(list)
        for (kind, name), number in self.accounts.items():
            if kind in ("pool", "total"):
                self.pools[name].append(number)
        self.level_pools = {p.resource for p in round_.cluster.pools if p.level is not None}
        self.use_numbers = use_numbers(round_)
        self.weights = round_.spread_weights()
        self.link_terms = LINK_TERMS.intersection(round_.policy.terms)
        self.strict = round_.policy.priority == "strict"
        self.resizes = round_.resizes
        self.shapes = ShapeTable(cluster, round_.host_sets, link_terms=self.link_terms)
        self.choices: dict[tuple[object, ...], Choice] = {}
        self.choice_of_option: dict[tuple[int, ...], tuple[Option, Choice]] = {}
        self.class_numbers: dict[tuple[object, ...], int] = {}
        # Per class: whether its jobs run, their tenant, accounts and choices.
        self.class_keys: list[tuple[bool, int, tuple[int, ...], tuple[Choice, ...]]] = []
        self.ranks_known: dict[Precedence, int] = {}
        self.gpu_start: list[int] = cluster.gpu_start.tolist()
        self.demands: dict[tuple[tuple[str, int], ...], int] = {}
        self.labels: dict[tuple[str, int], int] = {}

    def compile(self, job: Job, borrowed: tuple[int, ...]) -> CompiledJob:
        """Return a job as it is with these borrowing options."""
        kind, running = self.class_number(job, borrowed), job.running
        if running is None:
            return CompiledJob(job, borrowed, kind, None)
        level = victim = 0
        if kind != PINNED:
            entitled = running.option not in borrowed
            level = self.rank_of((entitled, job.priority))
            victim = self.leave.kind(job, entitled=entitled)
        return CompiledJob(job, borrowed, kind, self._held(job, running, level, victim))

    def class_number(self, job: Job, borrowed: tuple[int, ...]) -> int:
        """Return a job's class number; jobs that no constraint or term distinguishes share one."""
        running, label = job.running, self.label_number(job)
        if running is not None and running.pinned:
            return PINNED
        offered = job.offered(resizes=self.resizes)
        choices = tuple([self._choice(job, o, label, o not in borrowed) for o in offered])
        tenant = self.tenants.get(job.tenant or "", -1)
        # Under strict priority jobs of different priority are of different classes.
        known = self.accounts
        accounts = tuple([known[account] for account in accounts_of(job) if account in known])
        if self.pools:
            accounts += tuple(dict.fromkeys(pool for choice in choices for pool in choice.pools))
        of = (running is not None, accounts, job.priority * self.strict)
        victim = 0
        if running is not None:
            victim = self.leave.kind(job, entitled=running.option not in borrowed)
        key = (*of, victim, *map(id, choices))
        kind = self.class_numbers.setdefault(key, len(self.class_keys))
        if kind == len(self.class_keys):
            self.class_keys.append((running is not None, tenant, accounts, choices))
        return kind

    def rank_of(self, precedence: Precedence) -> int:
        """Return the rank of a precedence: the number of levels strictly below it."""
        if precedence not in self.ranks_known:
            self.ranks_known[precedence] = bisect_left(self.levels, precedence)
        return self.ranks_known[precedence]

    def _choice(self, job: Job, index: int, label: int, entitled: bool) -> Choice:
        """Return an option as a choice; jobs share options, so few are compiled."""
        option = job.options[index]
        # By identity: options do not change, and a known one is alive, so its id is its own.
        leave = self.leave.number(job, entitled=entitled)
        progress = job.progress_of(index)
        key = id(option), index, job.weight, job.priority, label, entitled, leave, progress
        if key not in self.choice_of_option:
            self.choice_of_option[key] = option, self._new_choice(job, index, label, entitled)
        return self.choice_of_option[key][1]

    def _new_choice(self, job: Job, index: int, label: int, entitled: bool) -> Choice:
        """Compile an option; equal choices are one object."""
        option, leave = job.options[index], self.leave.number(job, entitled=entitled)
        rank = self.rank_of((entitled, job.priority))
        if self.leave.ruled and leave == NOBODY:
            rank = 0  # it counts as one of the lowest precedence
        joint = NO_LEVEL
        if option.required is not None and sum(g.count for g in option.groups) > 1:
            joint = self.shapes.levels[option.required]
        numbers, asked = self.use_numbers, sorted(option.uses.items())
        used = tuple((name, amount) for name, amount in asked if amount and name in numbers)
        # Tasks differ in what they use only where places differ in what they have of it.
        alone = tuple(use for use in used if use[0] in self.level_pools)
        alone = alone if len(option.groups) == 1 else ()
        on = option.hosts if len(option.groups) == 1 else None
        groups = tuple(
            [
                self.shapes.group(g, self.weights, rank, joint, alone, leave, on)
                for g in option.groups
            ]
        )
        together = None
        if len(groups) > 1:
            together = host_range(sum(group.count for group in groups), option.hosts)
        value, progress = job.value_of(index), job.progress_of(index)
        uses = tuple((self.use_numbers[name], amount) for name, amount in used)
        key = (index, value, progress, entitled, joint, together, label, uses, *map(id, groups))
        known = self.choices.get(key)
        if known is None:
            joint = joint if len(groups) > 1 else NO_LEVEL
            pools = self._pools(option) if self.pools else ()
            known = Choice(
                index,
                value,
                groups,
                progress,
                entitled,
                joint_level=joint,
                num_hosts=together,
                label=label,
                uses=uses,
                pools=tuple(number for name in pools for number in self.pools[name]),
                pooled=any(name in self.level_pools for name in pools),
            )
            self.choices[key] = known
        return known

    def _pools(self, option: Option) -> list[str]:
        """Return the resources that an option takes from pools."""
        asked = [item for group in option.groups for item in group.resources.items()]
        names = [name for name, amount in (*asked, *option.uses.items()) if amount]
        return [name for name in dict.fromkeys(names) if name in self.pools]

    def is_parted(self, pinned: Iterable[CompiledJob]) -> bool:
        """Whether some task asks for GPU memory or a MIG slice, or holds some and may not move."""
        held = any(fact.held and fact.held.parts for fact in pinned)
        return self.shapes.has_gpu_parts or held

    def label_number(self, job: Job) -> int:
        """Return the number of a job's anti-affinity label, `NO_LABEL` if it has none."""
        asked = job.anti_affinity
        if asked is None:
            return NO_LABEL
        key = asked.label, self.shapes.levels[asked.level]
        return self.labels.setdefault(key, len(self.labels))

    def job_classes(
        self, members: Mapping[int, list[int]], jobs: Sequence[Job]
    ) -> tuple[JobClass, ...]:
        """Return the job classes, pending ones first.

        `members` has the job indices of each class number.
        """
        # Running jobs of different levels are of different classes: their shapes differ in rank,
        # or their kinds do.
        return tuple(
            JobClass(
                # Who runs has the priority of its class.
                tuple(
                    members[k]
                    if self.class_keys[k][0]
                    else sorted(members[k], key=lambda j: _turn(jobs[j]))
                ),
                tenant=self.class_keys[k][1],
                choices=self.class_keys[k][3],
                running=self.class_keys[k][0],
                accounts=self.class_keys[k][2],
            )
            for k in sorted(members, key=lambda k: self.class_keys[k][0])
        )

    def list_labels(self, placed: Iterable[tuple[int, Job, Iterable[int]]]) -> tuple[Label, ...]:
        """Return all labels, with the domains where jobs of each run.

        `placed` has the index, the job and the hosts of each running job.
        """
        homes: list[dict[int, frozenset[int]]] = [{} for _ in self.labels]
        levels = [level for _, level in self.labels]
        for j, job, hosts in placed if self.labels else ():
            if job.anti_affinity is not None:
                label = self.label_number(job)
                domain = self.cluster.domain[levels[label]]
                homes[label][j] = frozenset(domain[list(hosts)].tolist())
        return tuple(Label(level, home) for level, home in zip(levels, homes, strict=True))

    def _held(self, job: Job, running: Running, level: int, kind: int) -> RunningUse:
        """Return what a running job holds."""
        option, tasks = job.options[running.option], running.tasks
        groups, host_of, start = option.groups, self.cluster.host_index, self.gpu_start
        places = tuple([(t.group, t.index, host_of[t.host], t.gpus) for t in tasks])
        demands = [self._demand(group) for group in groups]
        milli = [min(group.gpu, WHOLE_GPU) for group in groups]
        slots = tuple([t.slot for t in tasks])
        return RunningUse(
            RunningJob(
                job_class=PINNED,
                level=level,
                places=places,
                tasks=tuple(
                    [
                        TaskPlacement(group, host, 1, gpus, True, slot)
                        for (group, _, host, gpus), slot in zip(places, slots, strict=True)
                    ]
                ),
                migrate_cost=0,
                preempt_cost=0,
                slots=slots if any(group.mig for group in groups) else (),
                kind=kind,
            ),
            milli_gpu=option.milli_gpu,
            hosts=tuple([host for _, _, host, _ in places]),
            demands=tuple([demands[group] for group, _, _, _ in places]),
            gpus=tuple([start[host] + gpu for _, _, host, gpus in places for gpu in gpus]),
            milli=tuple([milli[group] for group, _, _, gpus in places for _ in gpus]),
            parts=tuple(
                (groups[group].gpu_memory, self._mask(groups[group], host, slot))
                for (group, _, host, gpus), slot in zip(places, slots, strict=True)
                for _ in gpus
            )
            if any(group.mig or group.gpu_memory for group in groups)
            else (),
        )

    def _mask(self, group: TaskGroup, host: int, slot: int | None) -> int:
        """Return the mask of a task's MIG slice on its GPU; 0 for whole GPUs and shares."""
        if group.mig is None or slot is None or group.gpu >= WHOLE_GPU:
            return 0
        kind = PRODUCTS[self.cluster.product[host]].profiles[group.mig]
        return mask_of(kind, slot)

    def _demand(self, group: TaskGroup) -> int:
        """Return the row of a group's demands besides GPUs, (resource, amount) pairs."""
        wanted = (("cpu", group.cpu), ("memory", group.memory), *group.resources.items())
        return self.demands.setdefault(wanted, len(self.demands))


def _turn(job: Job) -> tuple[int, int]:
    """Return what equal jobs start in the order of: priority, then who was submitted first."""
    return -job.priority, MAX_MOMENT if job.submitted is None else job.submitted


class Compiler:
    """Compiles successive rounds; what two of them share is compiled once.

    Jobs of the last round are kept alive, and shapes keep their indices. Both are compiled anew
    when a round has another cluster, other host sets, precedences of running jobs, tenants, caps or
    spread weights, or when fewer than half of the known shapes are still in use.
    """

    def __init__(self, cluster: Cluster | None = None) -> None:
        self._basis: _CompiledJobs | None = None
        self._cluster = cluster  # that of the first round, if it has been built already

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
            basis = self._basis = _CompiledJobs(round_, levels, leave, self._cluster)
            self._cluster = None
        return basis.problem(round_, borrowed, classes)


def compile_round(
    round_: Round, cluster: Cluster | None = None, classes: tuple[PriorityClass, ...] | None = None
) -> Problem:
    """Compile one checked round; successive ones are compiled faster by a `Compiler`.

    Its `cluster` may have been built already; `classes` take the place of the priority classes that
    follow from the round itself, as for a part.
    """
    return Compiler(cluster)(round_, classes=classes)


def precedence_levels(round_: Round, borrowed: BorrowingOptions) -> list[Precedence]:
    """Return the distinct precedences of the running jobs that may move, lowest first."""
    running = {
        (job.running.option not in borrowed.get(i, ()), job.priority)
        for i, job in enumerate(round_.jobs)
        if job.running and not job.running.pinned
    }
    return sorted(running)


class _CompiledJobs:
    """The compiled jobs of a round, and what they were compiled with."""

    def __init__(
        self, round_: Round, levels: list[Precedence], leave: Leave, cluster: Cluster | None = None
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
            and account_numbers(round_) == compiler.accounts
            and use_numbers(round_) == compiler.use_numbers
            and round_.spread_weights() == compiler.weights
            and LINK_TERMS.intersection(round_.policy.terms) == compiler.link_terms
            and (round_.policy.priority == "strict") == compiler.strict
            and round_.resizes == compiler.resizes
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
        choices = (choice for job_class in classes for choice in job_class.choices)
        self.shapes_needed = len({g.shape for choice in choices for g in choice.groups})
        parted = self.job_compiler.is_parted(pinned)
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
        pools = compile_pools(round_, cluster, shapes)
        totals = totals_of_pools(round_, cluster, pools, classes, shapes.gpus)
        return assemble(
            self.job_compiler,
            round_,
            classes,
            priorities,
            pinned,
            ((j, f.job, f.held.hosts) for j, f in enumerate(facts) if f.held is not None),
            state=state,
            cleared=cleared,
            open=open_ & ~vacate,
            usable=usable,
            vacate=vacate,
            pinned_hosts=pinned_hosts,
            reserved_free=reserved_free,
            running={j: _running_job(round_.now, facts[j], class_of[j]) for j in sorted(class_of)},
            quota=remaining_quotas(round_, cluster) | totals,
            pools=tuple(pool for pool in pools if pool.level != WHOLE_CLUSTER),
        )

    def _state(self, facts: Sequence[CompiledJob], parted: bool) -> State:
        """Return the state of the hosts once these jobs hold what they run on.

        `parted`: with the memory and the MIG slices of GPUs.
        """
        state = State.shared(self.cluster) if parted else State.empty(self.cluster)
        state.healthy[:] = self.healthy
        held = [fact.held for fact in facts if fact.held is not None]

        def all_of(parts: Iterable[tuple[int, ...]]) -> Ints:
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


def assemble(
    compiler: JobCompiler,
    round_: Round,
    classes: tuple[JobClass, ...],
    priorities: tuple[PriorityClass, ...],
    pinned: Collection[CompiledJob],
    placed: Iterable[tuple[int, Job, Iterable[int]]],
    **arrays: Any,
) -> Problem:
    """Return the problem of a round or of a part of one.

    `placed` is as for `list_labels`; `arrays` are the other fields of `Problem`, which a part takes
    from the whole.
    """
    cluster, shapes = compiler.cluster, compiler.shapes
    weights: tuple[int, ...] = ()
    if priorities:
        classes, weights = _weigh(round_, classes, priorities)
    shares = tenant_shares(round_, cluster, arrays["state"].healthy)
    terms = write_out_share(round_.policy.terms, len(shares))
    emptied = set(np.array(cluster.hosts)[arrays["vacate"]].tolist())
    return Problem(
        round=round_,
        cluster=cluster,
        classes=classes,
        part_demands=shapes.gpu_part_demands() if compiler.is_parted(pinned) else None,
        link_demands=shapes.gpu_link_demands(),
        pinned_remaining=_milli_gpu_on([fact.job for fact in pinned], emptied),
        labels=compiler.list_labels(placed),
        terms=write_out_terms(terms, {VALUE: len(priorities)}),
        shares=shares,
        priority_classes=priorities,
        class_weights=weights,
        budget=DisruptionBudget.of(round_),
        **shapes.fields(compiler.leave.matrix()),
        **arrays,
    )


def _weigh(
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


def _usable_gpus(round_: Round, cluster: Cluster, state: State) -> tuple[Bools, Bools]:
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
    migrate = default if running.migrate_cost is None else running.migrate_cost
    costs = running.resize_costs
    return held.running._replace(
        job_class=job_class,
        migrate_cost=migrate,
        preempt_cost=default if running.preempt_cost is None else running.preempt_cost,
        resize_costs=(migrate,) * len(job.options) if costs is None else costs,
    )


def _milli_gpu_on(jobs: Sequence[Job], hosts: set[str]) -> int:
    """Return the milli-GPU that running jobs hold on some hosts, given by name."""
    return sum(
        job.options[job.running.option].groups[task.group].gpu
        for job in jobs
        if job.running is not None
        for task in job.running.tasks
        if task.host in hosts
    )
