"""The hosts in the states that reasons to wait speak of (docs/plans.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import NOBODY, Choice, Group, Label, Leave
from placewright.formulations.gang.problem.limits import borrowing_options
from placewright.formulations.gang.problem.problem import Problem
from placewright.formulations.gang.problem.subproblem import charge, residual
from placewright.formulations.plan_messages import Candidate, Place
from placewright.instances.documents.plan import Reason
from placewright.rounds.sections.pool_states import PoolsLeft, PoolStates
from placewright.topology import State
from placewright.topology.mig import MEMORY_SLICES
from placewright.topology.units import WHOLE_GPU

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

    Parameters
    ----------
    foremost
        Jobs that come before all others.
    exempt
        Preempted jobs whose places anybody may have.
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
            charge(self._problem, state, self._groups(j), *self._places(j))
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
