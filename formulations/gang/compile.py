"""From a checked round to a Problem."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.fairness import shares_of, terms_of
from placewright.formulations.gang.jobs import (
    NO_LABEL,
    NO_LEVEL,
    Choice,
    JobClass,
    Label,
    Put,
    RunningJob,
)
from placewright.formulations.gang.layouts import mask_of
from placewright.formulations.gang.problem import Problem
from placewright.formulations.gang.quotas import quota_of
from placewright.formulations.gang.shapes import Shapes, hosts_named
from placewright.formulations.gang.standing import borrowed_of
from placewright.formulations.gang.terms import BOTTLENECK
from placewright.formulations.session import Place, Slots
from placewright.instances.arrays import build_cluster
from placewright.instances.documents import WHOLE_GPU
from placewright.instances.job import Job, Running, TaskGroup
from placewright.instances.ranges import expand
from placewright.instances.round import Round
from placewright.topology import Cluster, State
from placewright.topology.mig import PRODUCTS

Precedence: TypeAlias = tuple[bool, int]
"""Whether a job is entitled, and its priority."""

Borrowed: TypeAlias = Mapping[int, tuple[int, ...]]
"""By index of a job the options with which it is not entitled."""


class _Held(NamedTuple):
    """What a running job holds: per task a host and a row of demands, per GPU the milli-GPU.

    `parts` are the GPU memory and the mask of MIG slices per GPU; () if it asks for neither.
    """

    level: int
    milli_gpu: int
    places: tuple[Place, ...]
    puts: tuple[Put, ...]
    slots: Slots
    hosts: tuple[int, ...]
    demands: tuple[int, ...]
    gpus: tuple[int, ...]
    milli: tuple[int, ...]
    parts: tuple[tuple[int, int], ...]


class _Facts(NamedTuple):
    """What a job is with these `borrowed` options: the number of its kind, -1 if pinned."""

    job: Job
    borrowed: tuple[int, ...]
    kind: int
    held: _Held | None


class Compiler:
    """Compiles rounds that follow each other; what two of them share is compiled once.

    The jobs of the last round are kept alive, and shapes keep their indices, until a round has
    another cluster, other precedences of running jobs, tenants or spread weights, or too few of
    the shapes.
    """

    def __init__(self) -> None:
        self._basis: _Basis | None = None

    def __call__(self, round_: Round, borrowed: Borrowed | None = None) -> Problem:
        """Compile a checked round into arrays and classes.

        `borrowed` says who is not entitled where the round itself does not.
        """
        borrowed = borrowed_of(round_) if borrowed is None else borrowed
        levels = _levels(round_, borrowed)
        basis = self._basis
        if basis is None or not basis.serves(round_, levels):
            basis = self._basis = _Basis(round_, levels)
        return basis.problem(round_, borrowed)


def compile_round(round_: Round) -> Problem:
    """Compile a checked round into arrays and classes."""
    return Compiler()(round_)


def _levels(round_: Round, borrowed: Borrowed) -> list[Precedence]:
    """Return the distinct precedences of the running jobs that may move, lowest first."""
    running = {
        (i not in borrowed, job.priority)
        for i, job in enumerate(round_.jobs)
        if job.running and not job.running.pinned
    }
    return sorted(running)


class _Basis:
    """What the jobs of a round are compiled upon, and those that are."""

    def __init__(self, round_: Round, levels: list[Precedence]) -> None:
        self.document, self.levels = round_.cluster, levels
        self.tenants = {t.name: i for i, t in enumerate(round_.tenants)}
        self.weights = round_.spread_weights()
        self.cluster = build_cluster(round_.cluster)
        entries = [(entry.healthy, len(expand(entry.name))) for entry in round_.cluster.hosts]
        self.healthy = np.repeat([h for h, _ in entries], [n for _, n in entries])
        self.timed = BOTTLENECK in round_.policy.terms
        self.shapes = Shapes(self.cluster, timed=self.timed)
        self.shapes_needed = 0
        # Groups and choices are made once each, so that to be the same is to be equal.
        self.choices: dict[tuple[int, ...], Choice] = {}
        self.numbers: dict[tuple[int, ...], int] = {}
        self.kinds: list[tuple[bool, int, tuple[Choice, ...]]] = []
        self.ranks: dict[Precedence, int] = {}
        self.gpu_start: list[int] = self.cluster.gpu_start.tolist()
        self.demands: dict[tuple[tuple[str, int], ...], int] = {}
        self.labels: dict[tuple[str, int], int] = {}
        self.known: dict[int, _Facts] = {}
        self.borrowed: Borrowed = {}

    def serves(self, round_: Round, levels: list[Precedence]) -> bool:
        return (
            round_.cluster is self.document
            and levels == self.levels
            and [t.name for t in round_.tenants] == list(self.tenants)
            and round_.spread_weights() == self.weights
            and (BOTTLENECK in round_.policy.terms) == self.timed
            and len(self.shapes.index) <= 2 * self.shapes_needed
        )

    def problem(self, round_: Round, borrowed: Borrowed) -> Problem:
        cluster, jobs = self.cluster, round_.jobs
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
            id(job): known.get(id(job)) or self._facts(job, borrowed.get(i, ()))
            for i, job in enumerate(jobs)
        }
        facts = [self.known[id(job)] for job in jobs]
        members: defaultdict[int, list[int]] = defaultdict(list)
        for index, fact in enumerate(facts):
            members[fact.kind].append(index)
        pinned = [facts[j] for j in members.pop(-1, ())]
        kinds = self.kinds
        # Running jobs of different levels are of different classes: their shapes differ in rank.
        classes = tuple(
            JobClass(
                # Who runs has the priority of its class.
                tuple(
                    members[k]
                    if kinds[k][0]
                    else sorted(members[k], key=lambda j: -jobs[j].priority)
                ),
                kinds[k][1],
                kinds[k][2],
                kinds[k][0],
            )
            for k in sorted(members, key=lambda k: kinds[k][0])
        )
        choices = (choice for job_class in classes for choice in job_class.choices)
        self.shapes_needed = len({g.shape for choice in choices for g in choice.groups})
        parted = self.shapes.parted or any(fact.held and fact.held.parts for fact in pinned)
        state = self._state(facts, parted)
        cleared = self._state(pinned, parted)
        pinned_hosts = cleared.busy.copy()
        cleared.busy[:] = state.busy
        usable, open_ = _usable(round_, cluster, state)
        vacate = hosts_named(cluster, round_.policy.vacate)
        reserved_free = np.zeros(cluster.num_hosts, dtype=np.int64)
        host_of_gpu = np.repeat(np.arange(cluster.num_hosts), cluster.gpu_count)
        np.add.at(reserved_free, host_of_gpu[~usable], cleared.gpu_free[~usable])
        for each in (state, cleared):
            each.gpu_free[~usable] = 0
            if each.slices is not None:
                each.slices[~usable] = 0
        class_of = {j: c for c, k in enumerate(classes) if k.running for j in k.jobs}
        gpu, demand, hosts = self.shapes.arrays()
        shares = shares_of(round_, cluster, self.healthy)
        return Problem(
            round=round_,
            cluster=cluster,
            state=state,
            cleared=cleared,
            classes=classes,
            shape_gpu=gpu,
            shape_demand=demand,
            shape_allowed=hosts,
            shape_rank=self.shapes.ranks(),
            sharing=self.shapes.sharing() if parted else None,
            host_kind=self.shapes.host_kinds(),
            open=open_ & ~vacate,
            usable=usable,
            vacate=vacate,
            pinned_hosts=pinned_hosts,
            pinned_remaining=_remaining(
                [fact.job for fact in pinned], set(np.array(cluster.hosts)[vacate].tolist())
            ),
            reserved_free=reserved_free,
            running={j: _running_job(round_.now, facts[j], class_of[j]) for j in sorted(class_of)},
            quota=quota_of(round_, cluster),
            labels=self._labels(facts),
            terms=terms_of(round_.policy.terms, len(shares)),
            shares=shares,
        )

    def _facts(self, job: Job, borrowed: tuple[int, ...]) -> _Facts:
        running, label = job.running, self._label(job)
        if running is not None and running.pinned:
            return _Facts(job, borrowed, -1, self._held(job, running, 0))
        offered = range(len(job.options)) if running is None else (running.option,)
        choices = tuple([self._choice(job, o, label, o not in borrowed) for o in offered])
        tenant = self.tenants.get(job.tenant or "", -1)
        key = (running is not None, tenant, *map(id, choices))
        kind = self.numbers.setdefault(key, len(self.kinds))
        if kind == len(self.kinds):
            self.kinds.append((running is not None, tenant, choices))
        held = None
        if running is not None:
            rank = self._rank((running.option not in borrowed, job.priority))
            held = self._held(job, running, rank)
        return _Facts(job, borrowed, kind, held)

    def _rank(self, precedence: Precedence) -> int:
        """Return the number of levels strictly below a precedence."""
        if precedence not in self.ranks:
            self.ranks[precedence] = bisect_left(self.levels, precedence)
        return self.ranks[precedence]

    def _choice(self, job: Job, index: int, label: int, entitled: bool) -> Choice:
        option, rank = job.options[index], self._rank((entitled, job.priority))
        joint = NO_LEVEL
        if option.required is not None and sum(g.count for g in option.groups) > 1:
            joint = self.shapes.levels[option.required]
        groups = tuple([self.shapes.group(g, self.weights, rank, joint) for g in option.groups])
        value, progress = job.value_of(index), option.progress
        key = (index, value, progress, entitled, joint, label, *map(id, groups))
        known = self.choices.get(key)
        if known is None:
            joint = joint if len(groups) > 1 else NO_LEVEL
            known = Choice(index, value, groups, progress, entitled, joint=joint, label=label)
            self.choices[key] = known
        return known

    def _label(self, job: Job) -> int:
        """Return the number of a job's label, a new one if it is met for the first time."""
        asked = job.anti_affinity
        if asked is None:
            return NO_LABEL
        key = asked.label, self.shapes.levels[asked.level]
        return self.labels.setdefault(key, len(self.labels))

    def _labels(self, facts: Sequence[_Facts]) -> tuple[Label, ...]:
        """Return all labels that were met, with the domains where jobs of them run."""
        homes: list[dict[int, frozenset[int]]] = [{} for _ in self.labels]
        levels = [level for _, level in self.labels]
        for j, fact in enumerate(facts if self.labels else ()):
            if fact.held is not None and fact.job.anti_affinity is not None:
                label = self._label(fact.job)
                domain = self.cluster.domain[levels[label]]
                homes[label][j] = frozenset(domain[list(fact.held.hosts)].tolist())
        return tuple(Label(level, home) for level, home in zip(levels, homes, strict=True))

    def _held(self, job: Job, running: Running, level: int) -> _Held:
        option, tasks = job.options[running.option], running.tasks
        groups, host_of, start = option.groups, self.cluster.host_index, self.gpu_start
        places = tuple([(t.group, t.index, host_of[t.host], t.gpus) for t in tasks])
        demands = [self._demand(group) for group in groups]
        milli = [min(group.gpu, WHOLE_GPU) for group in groups]
        slots = tuple([t.slot for t in tasks])
        return _Held(
            level=level,
            milli_gpu=option.milli_gpu,
            places=places,
            puts=tuple(
                [
                    Put(group, host, 1, gpus, True, slot)
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
        """Return what a task's slice takes of its GPU; a whole GPU needs no mask."""
        if group.mig is None or slot is None or group.gpu >= WHOLE_GPU:
            return 0
        kind = PRODUCTS[self.cluster.product[host]].profiles[group.mig]
        return mask_of(kind, slot)

    def _demand(self, group: TaskGroup) -> int:
        """Return the number of what a task asks besides GPUs, as (resource, amount)."""
        wanted = (("cpu", group.cpu), ("memory", group.memory), *group.resources.items())
        return self.demands.setdefault(wanted, len(self.demands))

    def _state(self, facts: Sequence[_Facts], parted: bool) -> State:
        """Return what is free, healthy and busy once these jobs hold what they run on.

        `parted`: with the memory and the slices of GPUs.
        """
        state = State.shared(self.cluster) if parted else State.empty(self.cluster)
        state.healthy[:] = self.healthy
        held = [fact.held for fact in facts if fact.held is not None]

        def all_of(parts: Iterable[tuple[int, ...]]) -> NDArray[np.int64]:
            return np.array(list(chain.from_iterable(parts)), dtype=np.int64)

        hosts = all_of(h.hosts for h in held)
        asked = [dict(wanted) for wanted in self.demands]
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


def _usable(
    round_: Round, cluster: Cluster, state: State
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """GPUs that are not reserved, and healthy hosts that are not reserved as a whole."""
    usable = np.ones(cluster.num_gpus, dtype=np.bool_)
    open_ = state.healthy.copy()
    for reservation in round_.reservations:
        for host in np.flatnonzero(hosts_named(cluster, [reservation.host])).tolist():
            if reservation.gpus is None:
                open_[host] = False
            else:
                usable[int(cluster.gpu_start[host]) + np.array(reservation.gpus)] = False
    return usable, open_


def _running_job(now: int, facts: _Facts, job_class: int) -> RunningJob:
    job, held = facts.job, facts.held
    running = job.running
    if running is None or held is None:
        raise ValueError(f"job {job.name!r} is pending; expected a running one")
    lost = 0 if running.checkpoint is None else now - running.checkpoint
    default = held.milli_gpu * (lost + running.restart_s)
    return RunningJob(
        job_class=job_class,
        level=held.level,
        places=held.places,
        puts=held.puts,
        slots=held.slots,
        migrate_cost=default if running.migrate_cost is None else running.migrate_cost,
        preempt_cost=default if running.preempt_cost is None else running.preempt_cost,
    )


def _remaining(jobs: Sequence[Job], hosts: set[str]) -> int:
    """Milli-GPU that running jobs hold on some hosts."""
    return sum(
        job.options[job.running.option].groups[task.group].gpu
        for job in jobs
        if job.running is not None
        for task in job.running.tasks
        if task.host in hosts
    )
