"""Compiles jobs: their options as interned choices, their job class, and what running ones hold."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from placewright.formulations.gang.problem.jobs import (
    NO_LABEL,
    NO_LEVEL,
    Choice,
    JobClass,
    Label,
    TaskPlacement,
)
from placewright.formulations.gang.problem.leave import NOBODY, Leave
from placewright.formulations.gang.problem.mig_layouts import mask_of
from placewright.formulations.gang.problem.quotas import account_numbers, use_numbers
from placewright.formulations.gang.problem.shapes import ShapeTable, host_range
from placewright.formulations.gang.problem.terms import LINK_TERMS
from placewright.formulations.plan_messages import Place, Slots
from placewright.instances.documents.base import MAX_MOMENT
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.round import Round
from placewright.topology import Cluster
from placewright.topology.mig import PRODUCTS
from placewright.topology.units import WHOLE_GPU

Precedence: TypeAlias = tuple[bool, int]
"""Whether a job is entitled, and its priority."""

PINNED = -1
"""The kind of a job that runs and may not move."""


class RunningUse(NamedTuple):
    """What a running job holds, in flat form: per task and per GPU.

    Attributes
    ----------
    level, kind
        See `RunningJob`.
    milli_gpu
        In all.
    places, tasks, slots
        As in `RunningJob`.
    hosts, demands : (tasks,)
        Host of each task, and the row of its demands in `JobCompiler.demands`.
    gpus, milli : (GPUs held,)
        Index in the cluster, and milli-GPU, of each GPU that a task uses.
    parts : (GPUs held,)
        (MiB, mask of MIG slices) of each of them; () if the job asks for neither.
    """

    level: int
    kind: int
    milli_gpu: int
    places: tuple[Place, ...]
    tasks: tuple[TaskPlacement, ...]
    slots: Slots
    hosts: tuple[int, ...]
    demands: tuple[int, ...]
    gpus: tuple[int, ...]
    milli: tuple[int, ...]
    parts: tuple[tuple[int, int], ...]


class CompiledJob(NamedTuple):
    """A job as compiled with its `borrowed` options; `class_number` is `PINNED` for pinned jobs."""

    job: Job
    borrowed: tuple[int, ...]
    class_number: int
    held: RunningUse | None


class JobCompiler:
    """Compiles jobs for a cluster: interned options, job classes, and what running jobs hold.

    Groups and choices are created once each, so that equal ones are identical.

    Attributes
    ----------
    levels : list of Precedence
        The distinct precedences of running jobs that may move, lowest first.
    class_keys : list of (running, tenant, accounts, choices)
        Per class number: whether its jobs run, their tenant, quotas and caps, and their choices.
    """

    def __init__(
        self, round_: Round, cluster: Cluster, levels: list[Precedence], leave: Leave
    ) -> None:
        self.cluster, self.levels, self.leave = cluster, levels, leave
        self.tenants = {t.name: i for i, t in enumerate(round_.tenants)}
        numbers = account_numbers(round_)
        self.caps = {name: numbers["cap", name] for name in round_.caps}
        self.pools: defaultdict[str, list[int]] = defaultdict(list)
        for (kind, name), number in numbers.items():
            if kind in ("pool", "total"):
                self.pools[name].append(number)
        self.level_pools = {p.resource for p in round_.cluster.pools if p.level is not None}
        self.use_numbers = use_numbers(round_)
        self.weights = round_.spread_weights()
        self.link_terms = LINK_TERMS.intersection(round_.policy.terms)
        self.strict = round_.policy.priority == "strict"
        self.shapes = ShapeTable(cluster, round_.host_sets, link_terms=self.link_terms)
        self.choices: dict[tuple[object, ...], Choice] = {}
        self.choice_of_option: dict[tuple[int, ...], tuple[Option, Choice]] = {}
        self.class_numbers: dict[tuple[object, ...], int] = {}
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
        entitled = running.option not in borrowed
        held = self._held(job, running)
        if kind != PINNED:
            level = self.rank_of((entitled, job.priority))
            held = held._replace(level=level, kind=self.leave.kind(job, entitled=entitled))
        return CompiledJob(job, borrowed, kind, held)

    def class_number(self, job: Job, borrowed: tuple[int, ...]) -> int:
        """Return a job's class number; jobs that no constraint or term distinguishes share one."""
        running, label = job.running, self.label_number(job)
        if running is not None and running.pinned:
            return PINNED
        offered = range(len(job.options)) if running is None else (running.option,)
        choices = tuple([self._choice(job, o, label, o not in borrowed) for o in offered])
        tenant = self.tenants.get(job.tenant or "", -1)
        # Under strict priority jobs of different priority are of different classes.
        accounts: tuple[int, ...] = () if tenant < 0 else (tenant,)
        if job.caps:
            accounts += tuple([self.caps[name] for name in job.caps if name in self.caps])
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
        key = id(option), index, job.weight, job.priority, label, entitled, leave
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
        value, progress = job.value_of(index), option.progress
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

    def _held(self, job: Job, running: Running) -> RunningUse:
        """Return what a running job holds, of level and kind 0."""
        option, tasks = job.options[running.option], running.tasks
        groups, host_of, start = option.groups, self.cluster.host_index, self.gpu_start
        places = tuple([(t.group, t.index, host_of[t.host], t.gpus) for t in tasks])
        demands = [self._demand(group) for group in groups]
        milli = [min(group.gpu, WHOLE_GPU) for group in groups]
        slots = tuple([t.slot for t in tasks])
        return RunningUse(
            level=0,
            kind=0,
            milli_gpu=option.milli_gpu,
            places=places,
            tasks=tuple(
                [
                    TaskPlacement(group, host, 1, gpus, True, slot)
                    for (group, _, host, gpus), slot in zip(places, slots, strict=True)
                ]
            ),
            slots=slots if any(group.mig for group in groups) else (),
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
