"""The hosts and pools in the states that reasons to wait speak of (docs/plans.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.placement.feasibility import places_by_domain
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.compile import compile_round
from placewright.formulations.gang.problem.jobs import NO_LEVEL, NOBODY, Choice, Group, Label, Leave
from placewright.formulations.gang.problem.limits import borrowing_options
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.shapes import Pool
from placewright.formulations.gang.problem.subproblem import charge, residual
from placewright.formulations.plan_messages import Candidate, Place, Slots
from placewright.instances.derived.arrays import PoolDomains, pools_of, running_places
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option
from placewright.instances.documents.plan import Reason
from placewright.instances.documents.round import Round
from placewright.topology import Cluster, State
from placewright.topology.mig import MEMORY_SLICES
from placewright.topology.units import UNLIMITED, WHOLE_GPU


@dataclass(frozen=True, eq=False, slots=True)
class PoolsLeft:
    """Pools in one state.

    `pools`: all pools, those of the whole cluster among them. `limit`, `left` (tuple of int64
    (domains,)): by pool what jobs may hold of each domain, and what they may still take.
    """

    pools: tuple[PoolDomains, ...]
    limit: tuple[Ints, ...]
    left: tuple[Ints, ...]

    def of_problem(self, problem: Problem) -> tuple[Pool, ...]:
        """Return the pools of levels of a problem with what is left of them."""
        left = (left for pool, left in zip(self.pools, self.left, strict=True) if pool.pool.level)
        return tuple(replace(p, limit=mine) for p, mine in zip(problem.pools, left, strict=True))


class PoolStates:
    """What a plan's jobs leave of pools, beside some of them.

    A domain may go on holding what running jobs held of it before the round.
    """

    def __init__(self, problem: Problem, candidate: Candidate) -> None:
        self._cluster, self._jobs = problem.cluster, problem.round.jobs
        self._starts = candidate.starts
        pools = pools_of(problem.round, problem.cluster)
        capacity = tuple(pool.capacity for pool in pools)
        self.empty = PoolsLeft(pools, capacity, capacity)
        if not pools:
            return
        running = [j for j, job in enumerate(self._jobs) if job.running is not None]
        before = self._held_before(running)
        self._limit = tuple(map(np.maximum, capacity, before))
        leave = {*(j for j in candidate.starts if j in problem.running), *candidate.preempted}
        self._kept = self._held_before(j for j in running if j not in leave)
        self._moved = leave.difference(candidate.preempted)

    def beside(self, started: Iterable[int], victims: Iterable[int]) -> PoolsLeft:
        """Return what is left beside kept, migrated and some started jobs.

        That is also left beside the kept jobs and preempted ones that are back in their places.
        """
        pools = self.empty.pools
        if not pools:
            return self.empty
        after = self._held_after([*self._moved, *started])
        back = self._held_before(victims)
        each = zip(self._limit, self._kept, after, back, strict=True)
        left = tuple(limit - kept - np.maximum(a, b) for limit, kept, a, b in each)
        return PoolsLeft(pools, self._limit, left)

    def _held_before(self, jobs: Iterable[int]) -> tuple[Ints, ...]:
        """Return what running jobs hold of each pool before the round."""
        held = running_places((self._jobs[j] for j in jobs), self._cluster)
        return tuple(pool.held(held) for pool in self.empty.pools)

    def _held_after(self, jobs: Iterable[int]) -> tuple[Ints, ...]:
        """Return what jobs that start or migrate hold of each pool after the round."""
        held = []
        for j in jobs:
            option, places = self._starts[j]
            chosen = self._jobs[j].options[option]
            held.append((chosen, [(group, host) for group, _, host, _ in places]))
        return tuple(pool.held(held) for pool in self.empty.pools)


def beyond_whole_cluster(pools: PoolsLeft, option: Option) -> dict[str, Any]:
    """Return what a pool of the whole cluster lacks for an option, nothing if none does."""
    for pool, limit, left in zip(pools.pools, pools.limit, pools.left, strict=True):
        if pool.pool.level is None:
            asked = asked_of(pool, option)
            if asked > left[0]:
                return _detail(pool, 0, asked, left, limit)
    return {}


def room_in_cluster(pools: PoolsLeft, option: Option, group: int) -> int:
    """Return for how many tasks of a group pools of the whole cluster have room, or `UNLIMITED`."""
    room = UNLIMITED
    for pool, left in zip(pools.pools, pools.left, strict=True):
        each = pool.asked(option)[group] if pool.pool.level is None else 0
        if each:
            times = max(int(left[0]), 0) // each
            room = min(room, times) if pool.pool.per == "task" or not times else room
    return room


def asked_of(pool: PoolDomains, option: Option) -> int:
    """Return what an option takes of a pool of the whole cluster."""
    each = pool.asked(option)
    if pool.pool.per == "job":
        return max(each)
    return sum(amount * group.count for amount, group in zip(each, option.groups, strict=True))


def pool_shortage(
    hosts: Placement, choice: Choice, pools: PoolsLeft, option: Option
) -> dict[str, Any]:
    """Return the fields of a `Detail` that say of which domain of a pool an option lacks something.

    Pools of the whole cluster come first, then those of levels as documents list them. Of the
    domains of a level it is one where hosts take most of the option: if they take all of it, the
    one with most left, since any of them would do; else the one with least.

    `hosts`: the hosts without pools, where the option has places. `choice`, `option`: an option,
    also as the document has it.
    """
    if lack := beyond_whole_cluster(pools, option):
        return lack
    open_ = hosts.open_to(choice.label)
    fitting = [np.where(open_, hosts.fits(group.shape), 0) for group in choice.groups]
    may = _hosts_of_enough(hosts.problem.cluster, choice, fitting)
    counts = np.array([group.count for group in choice.groups])
    for pool, limit, left in zip(pools.pools, pools.limit, pools.left, strict=True):
        each = pool.asked(option)
        if pool.pool.level is None or not any(each):
            continue
        held = [np.bincount(pool.of_host, number, len(pool.names)) for number in fitting]
        tasks = np.minimum(np.array(held, dtype=np.int64).T, counts)
        asked = np.full(len(pool.names), max(each)) if pool.pool.per == "job" else tasks @ each
        candidates = np.zeros(len(pool.names), dtype=np.bool_)
        candidates[pool.of_host[may]] = True
        short = np.flatnonzero(candidates & (asked > left))
        if len(short):
            whole = (tasks[short] == counts).all(axis=1)
            order = np.lexsort((np.where(whole, -1, 1) * left[short], -tasks[short].sum(axis=1)))
            best = int(short[order[0]])
            return _detail(pool, best, int(asked[best]), left, limit)
    return {}


def _hosts_of_enough(cluster: Cluster, choice: Choice, fitting: Sequence[Ints]) -> Bools:
    """Return the hosts that may hold some task, bool (hosts,).

    Where a group has to be in one domain of a level, those of domains that hold all of it.
    """
    may = np.zeros(cluster.num_hosts, dtype=np.bool_)
    for group, number in zip(choice.groups, fitting, strict=True):
        able = number > 0
        for level in {group.required, choice.joint_level} - {NO_LEVEL}:
            enough = places_by_domain(cluster, group, number, level) >= group.count
            able &= enough[cluster.domain[level]]
        may |= able
    return may


def _detail(pool: PoolDomains, domain: int, asked: int, left: Ints, limit: Ints) -> dict[str, Any]:
    name = pool.names[domain]
    return {
        "resource": pool.pool.resource,
        **({} if name is None else {"level": pool.pool.level, "domain": name}),
        "asked": asked,
        "free": int(left[domain]),
        "limit": int(limit[domain]),
    }


NUM_KNOWN = 4
"""States that are known at a time: three belong to a precedence."""

FULL = np.int16((1 << MEMORY_SLICES + 1) - 1)
"""A GPU without a free MIG slice: bits of all memory slices and of the media extensions."""


class Precedence(NamedTuple):
    """The precedence of a job with an option; `foremost` come before all others."""

    foremost: bool
    entitled: bool
    priority: int


StateKey: TypeAlias = tuple[int, int] | Reason
"""How many of the started jobs count, and which set of preempted ones, by its number.

Of empty hosts it is the reason of a test.
"""


class FixedStates:
    """The hosts in the states that reasons speak of, best asked for by falling precedence.

    `foremost`: jobs that come before all others. `exempt`: preempted jobs whose places anybody may
    have.
    """

    def __init__(
        self,
        problem: Problem,
        candidate: Candidate,
        foremost: Collection[int] = (),
        exempt: Collection[int] = (),
    ) -> None:
        self._problem, self._candidate, self._foremost = problem, candidate, foremost
        self._bare = residual(problem, {})
        self._moved = [j for j in candidate.starts if j in problem.running]
        self._started = sorted(
            (j for j in candidate.starts if j not in problem.running),
            key=self.precedence,
            reverse=True,
        )
        self.exempt = frozenset(exempt)
        judged = (j for j in candidate.preempted if j not in self.exempt)
        self._victims = sorted(judged, key=self.precedence, reverse=True)
        self._ranks = [self.precedence(j) for j in self._started]
        self._known: dict[StateKey, Placement] = {}
        self._numbers: dict[tuple[Precedence, int], tuple[int, int]] = {}
        self._sets: dict[tuple[int, ...], int] = {(): 0}
        self._pools = PoolStates(problem, candidate)
        self._after = self._beside_running()
        self._beside_started, self._charged = self._after.copy(), 0

    @property
    def all_started(self) -> StateKey:
        """The state in which all started jobs count, and no preempted one does."""
        return len(self._started), 0

    def arrivals(self) -> Iterator[tuple[int, int]]:
        """Yield the GPUs of started jobs, by their index in the cluster, and the task's shape."""
        for j in self._started:
            groups = self._groups(j)
            for group, _, host, gpus in self._candidate.starts[j][1]:
                for gpu in gpus:
                    yield int(self._problem.cluster.gpu_start[host]) + gpu, groups[group].shape

    @cached_property
    def _empty(self) -> Placement:
        """The empty cluster: every host healthy and open, no GPU reserved, no label anywhere."""
        problem = self._problem
        bare = State.empty(problem.cluster)
        labels = tuple(Label(label.level, {}) for label in problem.labels)
        return Placement(
            replace(
                self._bare,
                state=bare,
                cleared=bare,
                open=np.ones_like(problem.open),
                usable=np.ones_like(problem.usable),
                labels=labels,
                pools=self._pools.empty.of_problem(problem),
            )
        )

    @cached_property
    def _all_open(self) -> Placement:
        """The open hosts as they are when empty, and no label anywhere."""
        problem, empty = self._problem, self._empty.problem
        bare = replace(empty.state.copy(), healthy=problem.state.healthy)
        bare.gpu_free[~problem.usable] = 0
        return Placement(
            replace(empty, state=bare, cleared=bare, open=problem.open, usable=problem.usable)
        )

    def key(self, reason: Reason, precedence: Precedence, leave: int = NOBODY) -> StateKey:
        """Return the state that the test of a reason looks at, for a precedence and leave."""
        if reason in (Reason.NEVER_FITS, Reason.HOSTS_AWAY):
            return reason
        mine = precedence, leave
        if mine not in self._numbers:
            back = tuple(j for j in self._victims if self.stays(j, *mine))
            self._numbers[mine] = (
                sum(rank > precedence for rank in self._ranks),
                self._sets.setdefault(back, len(self._sets)),
            )
        started, victims = self._numbers[mine]
        if reason is Reason.NOT_CHOSEN:
            started = len(self._started)
        return 0 if reason is Reason.CAPACITY else started, victims

    def placement(self, key: StateKey) -> Placement:
        """Return the hosts in a state; the last ones are known."""
        if isinstance(key, Reason):
            return self._empty if key is Reason.NEVER_FITS else self._all_open
        if key not in self._known:
            if len(self._known) >= NUM_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[key] = self._new_placement(*key)
        return self._known[key]

    def pools(self, key: StateKey) -> PoolsLeft:
        """Return what pools have left in a state."""
        if isinstance(key, Reason):
            return self._pools.empty
        started, victims = key
        return self._pools.beside(self._started[:started], list(self._sets)[victims])

    @cached_property
    def leave(self) -> Leave:
        """Who may preempt whom by the rules of the round."""
        round_ = self._problem.round
        bare = Leave(round_, {})
        return Leave(round_, borrowing_options(round_)) if bare.ruled else bare

    def stays(self, victim: int, precedence: Precedence, leave: int) -> bool:
        """Whether what a preempted job held is not for a job of some precedence and leave."""
        if self.precedence(victim) >= precedence:
            return True
        return self.leave.ruled and not self.leave.has(leave, self.kind(victim))

    def kind(self, victim: int) -> int:
        """Return the kind of a preempted job."""
        return self.leave.kind(
            self._problem.round.jobs[victim], entitled=self._choice(victim).entitled
        )

    def over(self, victim: int) -> frozenset[int]:
        """Return the started jobs that may preempt a job."""
        rank = self.precedence(victim)
        above = (j for j in self._started if self.precedence(j) > rank)
        return frozenset(j for j in above if not self.leave.ruled or self._may(j, victim))

    def _may(self, job: int, victim: int) -> bool:
        mine = self._problem.round.jobs[job]
        number = self.leave.number(mine, entitled=self._choice(job).entitled)
        return self.leave.has(number, self.kind(victim))

    def _new_placement(self, started: int, victims: int) -> Placement:
        """Return the hosts beside the first started jobs, and preempted ones that still count."""
        state, back = self._beside(started).copy(), list(self._sets)[victims]
        if back:
            state = _least(state, self._beside_kept(back))
        labels = self._labels(self._started[:started], back)
        pools = self.pools((started, victims)).of_problem(self._problem)
        problem = replace(self._bare, state=state, cleared=state, labels=labels, pools=pools)
        return Placement(problem)

    def _beside(self, started: int) -> State:
        """Return the state beside the kept, migrated and first started jobs."""
        if not started:
            return self._after
        if started == len(self._started):
            return self._beside_all
        if started < self._charged:
            self._beside_started, self._charged = self._after.copy(), 0
        for j in self._started[self._charged : started]:
            self._charge_start(self._beside_started, j)
        self._charged = started
        return self._beside_started

    @cached_property
    def _beside_all(self) -> State:
        """The state beside the kept, migrated and all started jobs."""
        state = self._after.copy()
        for j in self._started:
            self._charge_start(state, j)
        return state

    def _beside_running(self) -> State:
        """Return the state beside the kept and migrated jobs."""
        state = self._beside_kept(())
        for j in self._moved:
            groups = self._problem.choice_of(j, self._candidate.starts[j][0]).groups
            charge(self._problem, state, groups, *self._places(j))
        return state

    def _beside_kept(self, victims: Collection[int]) -> State:
        """Return the state beside the kept jobs, and some preempted ones in their places."""
        state = self._problem.state.copy()
        for j in {*self._moved, *self._candidate.preempted}.difference(victims):
            held = self._problem.running[j]
            charge(self._problem, state, self._groups(j), held.places, -1, held.slots)
        return state

    def _charge_start(self, state: State, job: int) -> None:
        charge(self._problem, state, self._groups(job), *self._places(job))

    def _labels(self, started: list[int], victims: Collection[int]) -> tuple[Label, ...]:
        """Return the labels with the domains where running and these jobs have them."""
        problem, labels = self._problem, []
        away = {*self._moved, *self._candidate.preempted}.difference(victims)
        for number, label in enumerate(problem.labels):
            homes = {j: home for j, home in label.running_domains.items() if j not in away}
            domain = problem.cluster.domain[label.level]
            for j in (*self._moved, *started):
                if self._choice(j).label == number:
                    hosts = [host for _, _, host, _ in self._candidate.starts[j][1]]
                    homes[j] = homes.get(j, frozenset()) | frozenset(domain[hosts].tolist())
            labels.append(Label(label.level, homes))
        return tuple(labels)

    def _places(self, job: int) -> tuple[tuple[Place, ...], int, tuple[int | None, ...]]:
        return self._candidate.starts[job][1], 1, self._candidate.slots.get(job, ())

    def _groups(self, job: int) -> tuple[Group, ...]:
        return self._choice(job).groups

    def _choice(self, job: int) -> Choice:
        """Return the option with which a job runs before or after the round."""
        choices = self._problem.classes[self._problem.class_of[job]].choices
        return choices[0 if job in self._problem.running else self._candidate.starts[job][0]]

    def precedence(self, job: int) -> Precedence:
        """Return the precedence of a started job, or of a running one with the option it runs."""
        entitled = self._choice(job).entitled
        return Precedence(job in self._foremost, entitled, self._problem.round.jobs[job].priority)


def _least(one: State, other: State) -> State:
    """Return what is free in both states."""
    both = State(
        free=np.minimum(one.free, other.free),
        gpu_free=np.minimum(one.gpu_free, other.gpu_free),
        healthy=one.healthy,
        busy=one.busy | other.busy,
    )
    if one.gpu_memory is not None and other.gpu_memory is not None:
        both = replace(both, gpu_memory=np.minimum(one.gpu_memory, other.gpu_memory))
    if one.slices is not None and other.slices is not None:
        # A GPU that is cut in one state and used otherwise in the other has nothing free in both.
        used = _used_uncut(one) & (other.slices != 0) | _used_uncut(other) & (one.slices != 0)
        both = replace(both, slices=np.where(used, FULL, one.slices | other.slices))
    return both


def _used_uncut(state: State) -> NDArray[np.bool_]:
    """Return whether a GPU is in use and holds no MIG slice, bool (gpus,)."""
    uncut: NDArray[np.bool_] = (state.slices == 0) & (state.gpu_free < WHOLE_GPU)
    return uncut


CPU = "cpu"


def gang_problem_of(round_: Round) -> Problem:
    """Return the gang problem of a round in which each job has GPUs of its own, and none is pinned.

    The state of its hosts says nothing, as running jobs may share GPUs.
    """
    policy = round_.policy.model_copy(
        update={
            "formulation": "gang",
            "terms": ("value",),
            "priority": "preemption",
            "keep_sizes": True,
        }
    )
    return compile_round(
        round_.model_copy(
            update={
                "policy": policy,
                "jobs": tuple(map(_unpinned, round_.jobs)),
            }
        )
    )


class SharedStates(FixedStates):
    """The hosts in the states that reasons speak of; a group of jobs holds its GPUs once.

    Of a group only the members that count in a state hold something.

    `problem`: the problem that `gang_problem_of` makes of the round, which has no groups.
    `teams_before`: the groups that run.
    """

    def __init__(
        self, problem: Problem, candidate: Candidate, teams_before: Sequence[Collection[int]]
    ) -> None:
        self._teams = [group.members for group in candidate.groups]
        self._teams_before = teams_before
        self._running_and_started: _Held | None = None
        super().__init__(problem, candidate)

    def _beside(self, started: int) -> State:
        if self._running_and_started is None or started < self._charged:
            self._running_and_started, self._charged = self._running(), 0
        for j in self._started[self._charged : started]:
            self._running_and_started.add(self._groups(j), j, *self._arrival(j))
        self._charged = started
        return self._running_and_started.state

    def _beside_running(self) -> State:
        return self._running().state

    def _running(self) -> _Held:
        """Return what kept and migrated jobs hold after the round."""
        held = self._held_by_kept((), self._teams)
        for j in self._moved:
            held.add(self._groups(j), j, *self._arrival(j))
        return held

    def _arrival(self, job: int) -> tuple[tuple[Place, ...], Slots]:
        return self._candidate.starts[job][1], self._candidate.slots.get(job, ())

    def _beside_kept(self, victims: Collection[int]) -> State:
        return self._held_by_kept(victims, self._teams_before).state

    def _held_by_kept(self, victims: Collection[int], teams: Iterable[Collection[int]]) -> _Held:
        held = _Held(self._problem, teams)
        gone = {*self._moved, *self._candidate.preempted}.difference(victims)
        for j, home in self._problem.running.items():
            if j not in gone:
                held.add(self._groups(j), j, home.places, home.slots)
        return held


class _Held:
    """What jobs leave of the hosts.

    `teams`: jobs that take turns on GPUs: of each task they hold these once, and the most CPU that
    one of them asks.
    """

    def __init__(self, problem: Problem, teams: Iterable[Collection[int]]) -> None:
        self._problem = problem
        self._team_of = {job: number for number, team in enumerate(teams) for job in team}
        self._cpu: dict[tuple[int, int, int], int] = {}
        resources = problem.cluster.resources
        self._at = resources.index(CPU) if CPU in resources else None
        new = State.empty if problem.part_demands is None else State.shared
        self.state = replace(new(problem.cluster), healthy=problem.state.healthy)
        self.state.gpu_free[~problem.usable] = 0

    def add(
        self, groups: Sequence[Group], job: int, places: Sequence[Place], slots: Slots = ()
    ) -> None:
        """Take what a job holds beside the members of its team that came before."""
        problem, team = self._problem, self._team_of.get(job)
        for k, place in enumerate(places):
            group, index, host, _ = place
            demand = problem.shape_demand[groups[group].shape]
            cpu = 0 if self._at is None else int(demand[self._at])
            key = (-1 if team is None else team, group, index)
            if team is None or key not in self._cpu:
                charge(problem, self.state, groups, (place,), 1, slots[k : k + 1])
                self._cpu[key] = cpu
                continue
            more = demand.copy()
            if self._at is not None:
                more[self._at] = max(cpu - self._cpu[key], 0)
                self._cpu[key] = max(cpu, self._cpu[key])
            self.state.free[host] -= more


def _unpinned(job: Job) -> Job:
    if job.running is None or not job.running.pinned:
        return job
    return job.model_copy(update={"running": job.running.model_copy(update={"pinned": False})})
