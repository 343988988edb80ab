"""The places that come nearest to holding a job: domains or kinds of hosts, and what is in the way.

Of a task group that has to be in one domain of a level these are domains of that level; of any
other group, kinds of hosts. Tasks are counted group by group, as if the other groups of the option
were not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.placement.feasibility import places_by_domain
from placewright.formulations.gang.placement.gang_tree import tasks_in_all
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import NO_LEVEL, Choice, Group
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.plan_messages import Candidate
from placewright.instances.documents.plan import Reason
from placewright.rounds.sections.fixed_states import FixedStates
from placewright.rounds.sections.pool_shortage import room_in_cluster
from placewright.rounds.sections.shortage import scarce, shortage_of_task, unknown_resource

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
            elif not self._problem.shape_allowed[choice.groups[k].shape][hosts].any():
                lack = {}
            else:
                lack = shortage_of_task(self._empty, choice.groups[k], hosts)
                lack = lack if lack and lack["free"] < lack["asked"] else {}
                if not lack and self._without_pools.fits(choice.groups[k].shape)[hosts].any():
                    counted = choice.groups[k].num_hosts is not None
                    lack = {"resource": "num_hosts" if counted else "pool"}
            yield name, int(hosts.sum()), lack


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
