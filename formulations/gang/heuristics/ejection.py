"""Moves of one-task jobs in a placement, one making room for the other, that can be undone.

A task goes to the fullest host that has room for it. If there is none, others move on from a host:
such as find room at once, or, if that is not enough, such as find it once more jobs have moved on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.heuristics.movable_jobs import ANYBODY, Floats, Mover, Movers
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import ANY_JOB, JobPlacement, TaskPlacement
from placewright.instances.documents.base import WHOLE_GPU

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NOWHERE = -1

TRIES, TRIES_LESS = 32, 3
"""Hosts that are tried to make room for one task, and how many bits fewer if what is there has to
make room in turn."""

STEPS = 2
"""How many jobs move on one after the other to make room for one."""


class Shifts:
    """Moves of jobs, which go by the numbers of their starts.

    One that was put back has another number, `latest`. `movers` are the jobs that may move.
    """

    def __init__(self, placement: Placement) -> None:
        self.placement, self.problem = placement, placement.problem
        self.movers = Movers(self.problem, placement.started())
        self._undo: list[Callable[[], object]] = []
        self._now: dict[int, int] = {}
        self._full: dict[int, int] = {}

    def size(self, shape: int) -> int:
        """Return the whole GPUs of a task."""
        return int(self.problem.shape_gpu[shape]) // WHOLE_GPU

    def shape_of(self, start: JobPlacement) -> int:
        """Return what a task of a job's first group asks."""
        return self.problem.classes[start.job_class].choices[start.choice].groups[0].shape

    def may_come(self, shape: int) -> Bools:
        """Return the hosts where a task may come, had they room (hosts,)."""
        rank = self.problem.shape_rank[shape]
        found: Bools = self.problem.shape_hosts[shape] & (self.placement.least_rank <= rank)
        return found

    def holds(self, shape: int, host: int, many: int) -> bool:
        """Whether a host has free what so many tasks ask."""
        problem, placement = self.problem, self.placement
        enough = placement.whole[host] * WHOLE_GPU >= many * problem.shape_gpu[shape]
        return bool(enough and (placement.free[host] >= many * problem.shape_demand[shape]).all())

    def in_the_way(self, shape: int, host: int, many: int) -> list[int]:
        """Return jobs that have to leave a host so that it has GPUs for so many tasks."""
        lack = many * self.size(shape) - int(self.placement.whole[host])
        return _covering(self.movers.on(host), lack)

    def place(self, start: JobPlacement) -> bool:
        """Start a job again on another host; return whether there is one."""
        host = self.room(self.shape_of(start))
        if host is not None:
            self.put(start, host)
        return host is not None

    def put(self, start: JobPlacement, host: int) -> None:
        """Start a job again on a host that has room for it."""
        puts = [TaskPlacement(0, host, 1, self.placement.put(self.shape_of(start), host))]
        self._start(start.job_class, start.choice, puts, start.job)

    def room(self, shape: int) -> int | None:
        """Return a host with room for a task, if need be once others have moved on.

        Where there was none, none is sought again before more GPUs are free.
        """
        free = int(self.placement.whole[self.problem.open].sum())
        if self._full.get(shape, -1) >= free:
            return None
        host = self._best_fit(shape)
        if host is None:
            host = self._make_way(shape, STEPS)
        if host is None:
            self._full[shape] = free
        return host

    def displace(
        self, start: JobPlacement, most: float, owner: int = ANYBODY
    ) -> list[JobPlacement] | None:
        """Start a job again where others that are worth less than `most` make way, and return them.

        They wait again, or stop for its higher precedence. None if there are none; only those of an
        `owner`, if given.
        """
        shape, best, chosen, target = self.shape_of(start), most, [], NOWHERE
        rank = int(self.problem.shape_rank[shape])
        top, lack = self._below(rank), self.size(shape) - self.placement.whole
        least, before = self.movers.least_lost(lack, top), len(self._undo)
        least[~self.may_come(shape)] = np.inf
        for host in np.argsort(least, kind="stable").tolist():
            if least[host] >= best:
                break
            wanted, lost, found = int(lack[host]), 0.0, []
            for mover in self.movers.below(host, rank, int(top[host]), owner):
                if wanted <= 0 or lost >= best:
                    break
                if mover.moved and not self.gave_way(mover.job):
                    continue
                found.append(mover.number)
                wanted, lost = wanted - mover.held, lost + mover.dear * mover.held
            if wanted <= 0 and lost < best:
                best, chosen, target = lost, found, host
        if target == NOWHERE:
            return None
        stopped = [self.take_off(number) for number in chosen]
        if not self.holds(shape, target, 1):
            self.back(before)
            return None
        self.put(start, target)
        return stopped

    def least_lost(self, size: int, rank: int) -> Floats:
        """Return what hosts lose at least if so many GPUs displace others there (hosts,)."""
        return self.movers.least_lost(size - self.placement.whole, self._below(rank))

    def _below(self, rank: int) -> Ints:
        """Return the level below which a rank may stop jobs (hosts,).

        On a host to which tasks have come only such may stop as these may profit from.
        """
        came = self.placement.arrivals > 0
        first = np.where(came.any(axis=1), came.argmax(axis=1), came.shape[1])
        below: Ints = np.minimum(rank, first)
        return below

    def gave_way(self, job: int) -> bool:
        """Whether all that came to where a job ran, and something did, is of higher precedence."""
        running = self.problem.running[job]
        came = self.placement.arrivals[[host for _, _, host, _ in running.places]]
        return bool(came.any() and not came[:, : running.level + 1].any())

    def held_by(self, tenant: int, rank: int) -> Ints:
        """Return the GPUs that jobs of a tenant hold which may stop for a rank (hosts,)."""
        found, top = np.zeros_like(self.movers.held), self._below(rank)
        for host in np.flatnonzero(self.movers.held).tolist():
            mine = self.movers.below(host, rank, int(top[host]), tenant)
            found[host] = sum(mover.held for mover in mine)
        return found

    def worth(self, start: JobPlacement) -> int:
        """Return the value of a job."""
        return self.problem.classes[start.job_class].choices[start.choice].value

    def start(self, c: int, o: int, hosts: Iterable[tuple[int, int]]) -> None:
        """Start a waiting job of one group on hosts, each with a number of tasks."""
        shape = self.problem.classes[c].choices[o].groups[0].shape
        puts = [
            TaskPlacement(0, host, many, self.placement.put(shape, host, many))
            for host, many in hosts
        ]
        self._start(c, o, puts, ANY_JOB)

    def take_off(self, number: int) -> JobPlacement:
        """Stop a job, and return what it was."""
        start = self._off(number)
        self._undo.append(partial(self._put_back, number, start))
        return start

    def settle(self) -> None:
        """Forget how to undo what was done."""
        self._undo = []

    def back(self, before: int = 0) -> None:
        """Undo all but the first so many steps since it was settled."""
        while len(self._undo) > before:
            self._undo.pop()()

    def latest(self, number: int) -> int:
        """Return the number that a job has now."""
        while number in self._now:
            number = self._now[number]
        return number

    def get(self, number: int) -> JobPlacement:
        """Return a job's start by its number; KeyError if it has stopped."""
        start = self.placement.get(number)
        if start is None:
            raise KeyError(number)
        return start

    def _best_fit(self, shape: int, but: int = NOWHERE) -> int | None:
        """Return the fullest host with room for a task, another one than `but`.

        Of equal ones one of the GPU model of which most is free.
        """
        room, whole = self.placement.fits(shape), self.placement.whole
        if but != NOWHERE:
            room[but] = 0
        hosts = np.flatnonzero(room)
        if not len(hosts):
            return None
        model = self.problem.cluster.gpu_model
        free = np.bincount(model[hosts], weights=whole[hosts])
        return int(hosts[np.lexsort((-free[model[hosts]], whole[hosts]))[0]])

    def _make_way(self, shape: int, steps: int) -> int | None:
        """Return a host that has room for a task, now that others have moved on from there.

        They make others move on in turn, so many `steps` deep, only if there is no other way.
        """
        whole, size, may = self.placement.whole, self.size(shape), self.may_come(shape)
        # Whoever moves on takes as much as it leaves.
        if whole[self.problem.open].sum() < size:
            return None
        hosts = np.flatnonzero(may & (whole < size) & (whole + self.movers.held >= size))
        hosts = hosts[np.argsort(-whole[hosts], kind="stable")]
        held = self.movers.of_shape[:, hosts]
        for deep in range(steps):
            could = self._could_move(np.flatnonzero(held.any(axis=1)), may, deep)
            able = set(could.tolist())
            enough = held[could].sum(axis=0) >= size - whole[hosts]
            tried: list[int] = hosts[enough][: TRIES >> (TRIES_LESS * deep)].tolist()
            for host in tried:
                lack, before = size - int(whole[host]), len(self._undo)
                movers = [mover for mover in self.movers.on(host) if mover.shape in able]
                moved = self._move_on(_covering(movers, lack), host, deep)
                if moved and self.holds(shape, host, 1):
                    return host
                self.back(before)
        return None

    def _could_move(self, shapes: Ints, may: Bools, deep: int) -> Ints:
        """Return of some shapes those of jobs that find room at once.

        Or those that might find some where one cannot be that `may` be.
        """
        problem, placement = self.problem, self.placement
        hosts = problem.shape_hosts[shapes]
        if deep:
            return shapes[(hosts & ~may).any(axis=1)]
        room = hosts & (placement.least_rank <= problem.shape_rank[shapes, None])
        room &= placement.whole * WHOLE_GPU >= problem.shape_gpu[shapes, None]
        demand = problem.shape_demand[shapes]
        for r in np.flatnonzero(demand.any(axis=0)).tolist():
            room &= placement.free[:, r] >= demand[:, r, None]
        return shapes[room.any(axis=1)]

    def _move_on(self, numbers: Iterable[int], host: int, deep: int) -> bool:
        """Move jobs from a host to others, as far as these have room; whether all found some."""
        for number in numbers:
            start = self.take_off(number)
            shape = self.shape_of(start)
            target = self._best_fit(shape, host)
            if target is None and deep:
                target = self._make_way(shape, deep)
            if target is None or target == host:
                return False
            self.put(start, target)
        return True

    def _start(self, c: int, o: int, puts: Sequence[TaskPlacement], job: int) -> None:
        number = self.placement.start(c, o, puts, job)
        self.movers.add(number, JobPlacement(c, o, puts, job))
        self._undo.append(partial(self._drop, number))

    def _drop(self, number: int) -> None:
        self._off(self.latest(number))

    def _put_back(self, number: int, start: JobPlacement) -> None:
        self._now[number] = self.placement.restart(start)
        self.movers.add(self._now[number], start)

    def _off(self, number: int) -> JobPlacement:
        start = self.get(number)
        self.placement.stop(number)
        self.movers.drop(number, start.tasks[0].host)
        return start


def _covering(movers: Iterable[Mover], lack: int) -> list[int]:
    """Return jobs that hold so many GPUs together, with few too many; all if they do not."""
    if lack <= 0:
        return []
    sizes = sorted((-mover.held, mover.number) for mover in movers)
    found = []
    for size, number in sizes:
        if -size <= lack:
            found.append(number)
            lack += size
    if lack > 0:
        chosen = set(found)
        found += [n for _, n in reversed(sizes) if n not in chosen][:1]
    return found
