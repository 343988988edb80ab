"""The places that come nearest to holding a job, and how fragmented what is free is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.placement.feasibility import places_by_domain
from placewright.formulations.gang.placement.gang_tree import tasks_in_all
from placewright.formulations.gang.placement.host_state import HostState
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Choice, Group
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Candidate
from placewright.instances.checks.round import trusted
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.derived.leases import unavailable_hosts
from placewright.instances.derived.ranges import expand
from placewright.instances.documents.option import TaskGroup
from placewright.instances.documents.plan import Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.policies import GANG
from placewright.instances.verify import verify
from placewright.rounds.decisions import DefaultDecisions
from placewright.rounds.sections.reasons import scarce, shortage_of_task, unknown_resource
from placewright.rounds.sections.states import FixedStates, room_in_cluster
from placewright.topology import Cluster
from placewright.topology.units import WHOLE_GPU

# Whole domains that are free once a plan is carried out, level by level.


class FreeDomains(NamedTuple):
    """Domains of a level all of whose GPUs are free and may be used, before and after.

    `added` is how many more domains of the level there are after than before.
    """

    level: str
    before: int
    after: int
    added: int = 0


def free_domains(
    round_: Round, plan: Plan, round_after: Round, plan_after: Plan
) -> tuple[FreeDomains, ...]:
    """Count the free domains of each level after two plans; domains without GPUs do not count."""
    free, total = free_and_total(round_, plan)
    free_after, total_after = free_and_total(round_after, plan_after)
    levels = dict.fromkeys((*free, *free_after))
    return tuple(
        FreeDomains(
            level,
            free.get(level, 0),
            free_after.get(level, 0),
            total_after.get(level, 0) - total.get(level, 0),
        )
        for level in levels
    )


def free_and_total(round_: Round, plan: Plan) -> tuple[dict[str, int], dict[str, int]]:
    """Return the free domains and all domains with GPUs, by level."""
    cluster = build_cluster(round_.cluster)
    has = cluster.gpu_count > 0
    blocked = has & ~_free_hosts(round_, plan, cluster)
    free: dict[str, int] = {}
    total: dict[str, int] = {}
    for number, level in enumerate(cluster.levels):
        domain = cluster.domain[number]
        size = len(cluster.names[number])
        with_gpus = np.bincount(domain[has], minlength=size) > 0
        held = np.bincount(domain[blocked], minlength=size) > 0
        free[level] = int((with_gpus & ~held).sum())
        total[level] = int(with_gpus.sum())
    return free, total


def _free_hosts(round_: Round, plan: Plan, cluster: Cluster) -> Bools:
    """Return whether each host is free: nobody is on it, and all of it may be used (hosts,)."""
    away = [entry.name for entry in round_.cluster.hosts if not entry.healthy]
    away += [one.host for one in round_.reservations]
    names = {host for name in (*away, *round_.policy.vacate) for host in expand(name)}
    names |= unavailable_hosts(round_.leases, round_.now)
    names |= {task.host for decision in plan.decisions for task in decision.tasks}
    free = np.ones(cluster.num_hosts, dtype=np.bool_)
    free[[cluster.host_index[name] for name in names]] = False
    return free


# Fragmentation of what is free: whole hosts and domains, and GPUs that are stranded.
#
# Stranded in three ways: for the tasks to come, as Weng et al. define it (*Beware of
# Fragmentation*, USENIX ATC 2023, the term `stranded`); for the jobs that wait; and for tasks of
# 1, 2, 4, ... whole GPUs on one host.


@dataclass(frozen=True, slots=True)
class WholeDomains:
    """Domains of a level that have GPUs, and those of them all of whose GPUs are free and open.

    That is, on hosts on which nothing runs, and which are healthy, not to be vacated, and without
    any reservation.
    """

    level: str
    free: int
    total: int


@dataclass(frozen=True, slots=True)
class WholeTasks:
    """Tasks of `gpus` whole GPUs that free GPUs have room for, and what no such task can use.

    GPUs alone count, no other resource; a task is on one host.
    """

    gpus: int
    tasks: int
    stranded: int


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """What is free on open hosts, in milli-GPU, and who can use it.

    Parameters
    ----------
    free
        Milli-GPU that are free on open hosts, without reserved GPUs.
    whole
        Free GPUs that nothing holds a part of.
    domains
        Per level, outermost first; the last one is that of hosts.
    stranded
        Milli-GPU that a task of the mix cannot use, on average: the term `stranded` over the
        weight of the mix. None if the mix is empty.
    useless
        Milli-GPU on GPUs that no task of a waiting job can use now, be it for lack of CPU or
        memory. None if no job waits.
    tasks
        For tasks of 1, 2, 4, ... whole GPUs, up to the most that a host has.
    """

    free: int
    whole: int
    domains: tuple[WholeDomains, ...]
    stranded: float | None
    useless: int | None
    tasks: tuple[WholeTasks, ...]


def is_measured(round_: Round) -> bool:
    """Whether fragmentation is measured in a round: those of policy `gang`."""
    return round_.policy.spec is GANG


def fragmentation_of(round_: Round) -> Fragmentation:
    """Return the fragmentation of a round beside the jobs that run."""
    problem = compile_round(round_)
    state = HostState(problem)
    gpus = _free(problem, state)
    kept = Plan(decisions=DefaultDecisions()(round_))
    free, total = free_and_total(round_, kept)
    whole = (gpus == WHOLE_GPU).sum(axis=1)
    sizes = 1 << np.arange(int(problem.cluster.gpu_count.max(initial=0)).bit_length())
    return Fragmentation(
        free=int(gpus.sum()),
        whole=int(whole.sum()),
        domains=tuple(WholeDomains(level, free[level], total[level]) for level in total),
        stranded=_stranded(round_, kept),
        useless=_useless(problem, state, gpus),
        tasks=tuple(
            WholeTasks(
                size, fits := int((whole // size).sum()), int(gpus.sum()) - fits * size * WHOLE_GPU
            )
            for size in sizes.tolist()
        ),
    )


def _free(problem: Problem, state: HostState) -> Ints:
    """Return the free milli-GPU of each GPU of an open host that is not reserved (hosts, most)."""
    counts = problem.cluster.gpu_count
    exists = np.arange(state.gpu_free.shape[1]) < counts[:, None]
    usable = np.zeros(exists.shape, dtype=np.bool_)
    usable[exists] = problem.usable
    free: Ints = np.where(usable & problem.open[:, None], state.gpu_free, 0)
    return free


def _useless(problem: Problem, state: HostState, free: Ints) -> int | None:
    """Return the milli-GPU that no task of a waiting job can use; None if none waits."""
    shapes = {
        group.shape
        for one in problem.classes
        if not one.running and one.jobs
        for choice in one.choices
        for group in choice.groups
    }
    if not shapes:
        return None
    useful: Bools = np.zeros(free.shape, dtype=np.bool_)
    for shape in shapes:
        gpu = int(problem.shape_gpu[shape])
        if gpu:
            useful |= (state.fits(shape) > 0)[:, None] & (free >= min(gpu, WHOLE_GPU))
    return int(free[~useful].sum())


def _stranded(round_: Round, kept: Plan) -> float | None:
    mix = round_.policy.mix
    if mix is not None:
        weight = sum(kind.weight for kind in mix)
    else:
        options = (job.options[job.running.option if job.running else 0] for job in round_.jobs)
        weight = sum(g.count for option in options for g in option.groups if g.mig is None)
    if not weight:
        return None
    policy = round_.policy.model_copy(update={"terms": ("value", "stranded")})
    asked = round_.model_copy(update={"policy": policy})
    return verify(trusted(asked), kept).terms["stranded"] / weight


# The places that come nearest to holding a job: domains or kinds of hosts, and what is in the way.
#
# Of a task group that has to be in one domain of a level these are domains of that level; of any
# other group, kinds of hosts. Tasks are counted group by group, as if the other groups of the
# option were not there.


Relation = Literal["pinned", "higher", "equal", "lower"]
MAX_OPTIONS = 3
RELATIONS: tuple[Relation, ...] = ("pinned", "higher", "equal", "lower")
"""Of a running job: it may not be stopped; its precedence is above, as or below the job's."""


@dataclass(frozen=True, slots=True)
class Occupants:
    """Running jobs of one relation to the waiting one, and what they hold there."""

    relation: Relation
    jobs: int
    milli_gpu: int
    milli_cpu: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """A domain, or all hosts of a kind, that may hold tasks of a group.

    Parameters
    ----------
    name
        Of the domain; of a kind of hosts its GPUs, such as `8 x H100`.
    hosts, away
        Hosts that could hold a task when empty, and those of them where nothing may arrive: they
        are unhealthy, reserved or to be vacated.
    now, empty
        Tasks of the group that have places now, and if all hosts were back and empty.
    occupants
        Who runs on these hosts, by relation.
    lack
        The `resource` of which already too little is free, with `asked` and `free` in its small
        unit, as in the `Detail` of a plan; nothing if no resource alone is short.
    why_not
        Why the job may not be there, whatever room there is, as phrases.
    """

    name: str
    hosts: int
    away: int
    now: int
    empty: int
    occupants: tuple[Occupants, ...]
    lack: dict[str, Any]
    why_not: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupPlaces:
    """The nearest places of a task group, those first that hold most of its tasks.

    Parameters
    ----------
    group
        Index in the option.
    tasks
        Tasks of the group.
    level
        Level of the domains; None if the places are kinds of hosts.
    total, whole
        Domains (or kinds) there are, and those that would hold all tasks, were they empty.
    places
        The nearest ones; none that holds no task when empty.
    unfit
        Of kinds of hosts that hold no task even when empty: name, number of hosts, and what a host
        lacks, as of a `Place`; `{"resource": "gpu_model"}` if the group does not allow the model,
        `{"resource": "num_hosts"}` if the group needs more hosts than these,
        `{"resource": "gpu_links"}` if a host has the GPUs, not joined as a task asks,
        `{"resource": "pool"}` if a pool has too little for a task, nothing if no resource is short
        (the group allows other hosts only).
    when
        The time that they are of, where that is not all of it: `the current lease`.
    partners
        Where jobs may take turns, the running jobs or groups (`a + b`) with which this one might;
        None elsewhere.
    option
        Index of the option.
    """

    group: int
    tasks: int
    level: str | None
    total: int
    whole: int
    places: tuple[Place, ...]
    unfit: tuple[tuple[str, int, dict[str, Any]], ...] = ()
    when: str | None = None
    partners: tuple[str, ...] | None = None
    option: int = 0


class NearestPlaces:
    """Places of the pending jobs of one compiled round; arrays of what runs are made once."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._cluster = problem, problem.cluster
        states = FixedStates(problem, Candidate({}, "running jobs"))
        self._empty, self._now = (
            states.placement(Reason.NEVER_FITS),
            states.placement(states.all_started),
        )
        self._pools = [states.pools(key) for key in (states.all_started, Reason.NEVER_FITS)]
        self._job, self._host, self._milli, self._cores = _held(problem)
        cluster = problem.cluster
        self._kinds, kind = np.unique(
            np.column_stack([cluster.gpu_count, cluster.gpu_model]), axis=0, return_inverse=True
        )
        self._kind = kind.reshape(-1)

    @cached_property
    def _without_pools(self) -> Placement:
        """The empty cluster, its hosts alone."""
        return Placement(replace(self._empty.problem, pools=()))

    def of(
        self, job: int, option: int = 0, most: int = 4, level: str | None = None
    ) -> tuple[GroupPlaces, ...]:
        """Return the nearest places of each group of an option of a job.

        Parameters
        ----------
        job
            Index of a pending job in the round.
        option
            Index in the job's options.
        most
            How many places to return of each group.
        level
            Level of the domains of groups that ask for no lower one; None: kinds of hosts.
        """
        problem = self._problem
        choices = problem.classes[problem.class_of[job]].choices
        choice = next(one for one in choices if one.index == option)
        relation = self._relations(choice, problem.round.jobs[job].priority)
        outer = NO_LEVEL if level is None else self._cluster.levels.index(level)
        return tuple(
            self._of_group(job, choice, k, relation, most, outer) for k in range(len(choice.groups))
        )

    def of_options(self, job: int) -> tuple[GroupPlaces, ...]:
        """Return the nearest places of the first option, and of others that may be elsewhere."""
        choices = self._problem.classes[self._problem.class_of[job]].choices
        options = self._problem.round.jobs[job].options
        found: dict[tuple[object, ...], int] = {}
        for o in sorted(choice.index for choice in choices):
            where = tuple((g.gpu_models, g.hosts, g.host_sets) for g in options[o].groups)
            found.setdefault(where, o)
        chosen = list(found.values())[:MAX_OPTIONS]
        return tuple(places for o in chosen for places in self.of(job, option=o))

    def _of_group(
        self, job: int, choice: Choice, k: int, relation: Ints, most: int, outer: int
    ) -> GroupPlaces:
        group, cluster = choice.groups[k], self._cluster
        now, empty = (self._fitting(there, choice, group) for there in (self._now, self._empty))
        rooms = [there.pools.room_by_level(group.shape) for there in (self._now, self._empty)]
        level = choice.joint_level if group.required == NO_LEVEL else group.required
        level = max(level, outer)
        if level == NO_LEVEL:
            part = self._kind
            held = [
                self._by_kind(group, each, room)
                for each, room in zip((now, empty), rooms, strict=True)
            ]
            names = [self._kind_name(i) for i in range(len(self._kinds))]
        else:
            part, names = cluster.domain[level], list(cluster.names[level])
            held = [
                places_by_domain(cluster, group, each, level, room)
                for each, room in zip((now, empty), rooms, strict=True)
            ]
        option = self._problem.round.jobs[job].options[choice.index]
        held_now, held_empty = (
            np.minimum(each, room_in_cluster(pools, option, k))
            for each, pools in zip(held, self._pools, strict=True)
        )
        in_the_way = np.bincount(
            part[self._host], weights=self._milli * (empty > 0)[self._host], minlength=len(names)
        )
        order = np.lexsort((np.arange(len(names)), in_the_way, -held_now, -held_empty))
        nearest = order[held_empty[order] > 0][:most]
        return GroupPlaces(
            option=choice.index,
            group=k,
            tasks=group.count,
            level=None if level == NO_LEVEL else cluster.levels[level],
            total=len(names),
            whole=int((held_empty >= group.count).sum()),
            places=tuple(
                self._place(
                    names[p],
                    (part == p) & (empty > 0),
                    (int(held_now[p]), int(held_empty[p])),
                    group,
                    relation,
                )
                for p in nearest.tolist()
            ),
            unfit=tuple(self._unfit(job, choice, k, held_empty)) if level == NO_LEVEL else (),
        )

    def _place(
        self, name: str, hosts: Bools, held: tuple[int, int], group: Group, relation: Ints
    ) -> Place:
        there = hosts[self._host]
        occupants: list[Occupants] = []
        for r, which in enumerate(RELATIONS):
            mine = there & (relation[self._job] == r)
            if mine.any():
                jobs, milli = np.unique(self._job[mine]).size, int(self._milli[mine].sum())
                cores = int(self._cores[mine].sum())
                occupants.append(Occupants(which, jobs, milli, cores))
        enough = held[0] >= group.count
        return Place(
            name=name,
            hosts=int(hosts.sum()),
            away=int((hosts & ~self._problem.open).sum()),
            now=held[0],
            empty=held[1],
            occupants=tuple(occupants),
            lack={} if enough else scarce(self._now, group, hosts & self._problem.open),
        )

    def _relations(self, choice: Choice, priority: int) -> Ints:
        """Return the relation of each job of the round that runs to the waiting one (jobs,)."""
        problem, mine = self._problem, (choice.entitled, priority)
        relation = np.zeros(len(problem.round.jobs), dtype=np.int64)
        for j in problem.running:
            entitled = problem.classes[problem.class_of[j]].choices[0].entitled
            theirs = entitled, problem.round.jobs[j].priority
            relation[j] = 1 if theirs > mine else 2 if theirs == mine else 3
        return relation

    def _fitting(self, placement: Placement, choice: Choice, group: Group) -> Ints:
        """Return how many tasks of a group each host takes."""
        open_ = placement.open_to(choice.label)
        if choice.uses:
            open_ = open_ & placement.pools.open_to(choice, len(open_))
        return np.where(open_, placement.fits(group.shape), 0)

    def _by_kind(self, group: Group, fitting: Ints, room: Mapping[int, Ints]) -> Ints:
        """Return how many tasks the hosts of each kind hold together, without the other kinds."""
        if not group.is_arranged and not room:
            tasks = np.minimum(fitting, group.count)
            sums = np.bincount(self._kind, weights=tasks, minlength=len(self._kinds))
            return sums.astype(np.int64)
        each = (np.where(self._kind == kind, fitting, 0) for kind in range(len(self._kinds)))
        held = (tasks_in_all(self._cluster, group, mine, room) for mine in each)
        return np.array(list(held), dtype=np.int64)

    def _kind_name(self, kind: int) -> str:
        count, model = self._kinds[kind].tolist()
        return f"{count} x {self._cluster.gpu_models[model]}" if count else "no GPU"

    def _unfit(
        self, job: int, choice: Choice, k: int, held: Ints
    ) -> Iterator[tuple[str, int, dict[str, Any]]]:
        document = self._problem.round.jobs[job].options[choice.index].groups[k]
        models = document.gpu_models
        for kind in np.flatnonzero(held == 0).tolist():
            hosts = self._kind == kind
            name, model = self._kind_name(kind), int(self._kinds[kind, 1])
            if models is not None and model >= 0 and self._cluster.gpu_models[model] not in models:
                lack: dict[str, Any] = {"resource": "gpu_model"}
            elif unknown := unknown_resource(self._cluster, [document]):
                lack = unknown
            elif self._are_unlinked(choice.groups[k].shape, document, hosts):
                lack = {"resource": "gpu_links"}
            elif not self._problem.shape_allowed[choice.groups[k].shape][hosts].any():
                lack = {}
            else:
                lack = shortage_of_task(self._empty, choice.groups[k], hosts)
                lack = lack if lack and lack["free"] < lack["asked"] else {}
                if not lack and self._without_pools.fits(choice.groups[k].shape)[hosts].any():
                    counted = choice.groups[k].num_hosts is not None
                    lack = {"resource": "num_hosts" if counted else "pool"}
            yield name, int(hosts.sum()), lack

    def _are_unlinked(self, shape: int, group: TaskGroup, hosts: Bools) -> bool:
        """Whether empty hosts have GPUs for a task, but not joined as it asks."""
        if group.gpu_links is None or self._empty.fits(shape)[hosts].any():
            return False
        return bool(self._empty.fits(shape, linked=False)[hosts].any())


def _held(problem: Problem) -> NDArray[np.int64]:
    """Return job, host, milli-GPU and -cores of each task that runs, pinned ones too (4, tasks)."""
    number = {name: h for h, name in enumerate(problem.cluster.hosts)}
    rows = [
        (j, number[task.host], groups[task.group].gpu, groups[task.group].cpu)
        for j, job in enumerate(problem.round.jobs)
        if job.running is not None
        for groups in (job.options[job.running.option].groups,)
        for task in job.running.tasks
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 4).T
