"""Moves of one-task jobs in a placement, one making room for the other, that can be undone.

A task goes to the fullest host that has room for it. If there is none, others move on from a host:
such as find room at once, or, if that is not enough, such as find it once more jobs have moved on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from placewright.formulations.gang.jobs import ANY, Put, Start
from placewright.formulations.gang.placing.placement import Placement
from placewright.instances.documents import WHOLE_GPU

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NOWHERE = -1

ANYBODY = -2
"""Instead of a tenant."""

TRIES, TRIES_LESS = 128, 4
"""Hosts that are tried to make room for one task, and how many bits fewer if what is there has to
make room in turn."""

STEPS = 2
"""How many jobs move on one after the other to make room for one."""


class Shifts:
    """Jobs of one task with whole GPUs, tied to nobody, by the host that they are on.

    `held` (hosts,) are the GPUs that they hold together. Jobs go by the numbers of their starts;
    one that was put back has another one, `latest`.
    """

    def __init__(self, placement: Placement) -> None:
        self.placement, self.problem = placement, placement.problem
        self.held = np.zeros(len(placement.whole), dtype=np.int64)
        self._on: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self._shape: dict[int, int] = {}
        self._undo: list[Callable[[], object]] = []
        self._now: dict[int, int] = {}
        for number, start in placement.started():
            self._add(number, start)

    def size(self, shape: int) -> int:
        """Return the whole GPUs of a task."""
        return int(self.problem.shape_gpu[shape]) // WHOLE_GPU

    def shape_of(self, start: Start) -> int:
        """Return what a task of a job's first group asks."""
        return self.problem.classes[start.job_class].choices[start.choice].groups[0].shape

    def may_come(self, shape: int) -> Bools:
        """Return the hosts where a task may come, had they room (hosts,)."""
        rank = self.problem.shape_rank[shape]
        found: Bools = self.problem.shape_hosts[shape] & (self.placement.closed <= rank)
        return found

    def holds(self, shape: int, host: int, many: int) -> bool:
        """Whether a host has free what so many tasks ask."""
        problem, placement = self.problem, self.placement
        enough = placement.whole[host] * WHOLE_GPU >= many * problem.shape_gpu[shape]
        return bool(enough and (placement.free[host] >= many * problem.shape_demand[shape]).all())

    def in_the_way(self, shape: int, host: int, many: int) -> list[int]:
        """Return jobs that have to leave a host so that it has GPUs for so many tasks."""
        lack = many * self.size(shape) - int(self.placement.whole[host])
        return _covering(self._on[host], lack)

    def place(self, start: Start) -> bool:
        """Start a job again on another host; return whether there is one."""
        host = self.room(self.shape_of(start))
        if host is not None:
            self.put(start, host)
        return host is not None

    def put(self, start: Start, host: int) -> None:
        """Start a job again on a host that has room for it."""
        puts = [Put(0, host, 1, self.placement.put(self.shape_of(start), host))]
        self._start(start.job_class, start.choice, puts, start.job)

    def room(self, shape: int) -> int | None:
        """Return a host with room for a task, if need be once others have moved on."""
        host = self._best_fit(shape)
        return self._make_way(shape, STEPS) if host is None else host

    def displace(self, start: Start, most: float, owner: int = ANYBODY) -> list[Start] | None:
        """Start a job again where others that are worth less than `most` make way, and return them.

        They wait again, or stop for its higher precedence. None if there are none; only those of an
        `owner`, if given.
        """
        shape, best, chosen, target = self.shape_of(start), most, [], NOWHERE
        size, rank = self.size(shape), int(self.problem.shape_rank[shape])
        whole = self.placement.whole
        may = self.may_come(shape) & (whole + self.held >= size)
        for host in np.flatnonzero(may).tolist():
            lack, lost, found = size - int(whole[host]), 0.0, []
            for worth, held, number in sorted(self._victims(host, rank, owner)):
                if lack <= 0 or lost >= best:
                    break
                found.append(number)
                lack, lost = lack - held, lost + worth * held
            if lack <= 0 and lost < best:
                best, chosen, target = lost, found, host
        if target == NOWHERE:
            return None
        stopped = [self.take_off(number) for number in chosen]
        if not self.holds(shape, target, 1):
            return None
        self.put(start, target)
        return stopped

    def _victims(
        self, host: int, rank: int, owner: int = ANYBODY
    ) -> Iterator[tuple[float, int, int]]:
        """Yield the worth per GPU, GPUs and number of jobs on a host that a rank may displace."""
        running, arrivals = self.problem.running, self.placement.arrivals[host]
        for number, held in self._on[host].items():
            start = self.get(number)
            if owner not in (ANYBODY, self.problem.classes[start.job_class].tenant):
                continue
            if start.job != ANY:
                level = running[start.job].level
                if level >= rank or arrivals[: level + 1].any():
                    continue
            yield self.worth(start) / held, held, number

    def held_by(self, tenant: int, rank: int) -> Ints:
        """Return the GPUs that jobs of a tenant hold which may stop for a rank (hosts,)."""
        found = np.zeros_like(self.held)
        for host in np.flatnonzero(self.held).tolist():
            found[host] += sum(held for _, held, _ in self._victims(host, rank, tenant))
        return found

    def jobs(self) -> Iterator[tuple[int, int]]:
        """Yield the numbers of all jobs, with the GPUs that each holds."""
        for jobs in self._on.values():
            yield from jobs.items()

    def worth(self, start: Start) -> int:
        """Return the value of a job."""
        return self.problem.classes[start.job_class].choices[start.choice].value

    def start(self, c: int, o: int, hosts: Iterable[tuple[int, int]]) -> None:
        """Start a waiting job of one group on hosts, each with a number of tasks."""
        shape = self.problem.classes[c].choices[o].groups[0].shape
        puts = [Put(0, host, many, self.placement.put(shape, host, many)) for host, many in hosts]
        self._start(c, o, puts, ANY)

    def take_off(self, number: int) -> Start:
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

    def get(self, number: int) -> Start:
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
        hosts = np.flatnonzero(may & (whole < size) & (whole + self.held >= size))
        hosts = hosts[np.argsort(-whole[hosts], kind="stable")].tolist()
        for deep in range(steps):
            able_to = cache(partial(self._could_move, may=may, deep=deep))
            tries = TRIES >> (TRIES_LESS * deep)
            for host in hosts:
                jobs = self._on[host].items()
                able = {number: held for number, held in jobs if able_to(self._shape[number])}
                lack = size - int(whole[host])
                if sum(able.values()) < lack:
                    continue
                before = len(self._undo)
                moved = self._move_on(_covering(able, lack), host, deep)
                if moved and self.holds(shape, host, 1):
                    return int(host)
                self.back(before)
                tries -= 1
                if not tries:
                    break
        return None

    def _could_move(self, shape: int, *, may: Bools, deep: int) -> bool:
        """Whether a job finds room at once; or might do so where one cannot be that `may` be."""
        if deep:
            return bool((self.problem.shape_hosts[shape] & ~may).any())
        return bool(self.placement.fits(shape).any())

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

    def _start(self, c: int, o: int, puts: Sequence[Put], job: int) -> None:
        number = self.placement.start(c, o, puts, job)
        self._add(number, Start(c, o, puts, job))
        self._undo.append(partial(self._drop, number))

    def _drop(self, number: int) -> None:
        self._off(self.latest(number))

    def _put_back(self, number: int, start: Start) -> None:
        self._now[number] = self.placement.restart(start)
        self._add(self._now[number], start)

    def _off(self, number: int) -> Start:
        start = self.get(number)
        self.placement.stop(number)
        if len(start.puts) == 1:
            host = start.puts[0].host
            self.held[host] -= self._on[host].pop(number, 0)
        return start

    def _add(self, number: int, start: Start) -> None:
        """Note a job if it may move."""
        choice = self.problem.classes[start.job_class].choices[start.choice]
        held = self.size(self.shape_of(start))
        if choice.single and held:
            host = start.puts[0].host
            self._on[host][number] = held
            self._shape[number] = self.shape_of(start)
            self.held[host] += held


def _covering(jobs: Mapping[int, int], lack: int) -> list[int]:
    """Return jobs that hold so many GPUs together, with few too many; all if they do not."""
    if lack <= 0:
        return []
    sizes = sorted((-size, number) for number, size in jobs.items())
    found = []
    for size, number in sizes:
        if -size <= lack:
            found.append(number)
            lack += size
    if lack > 0:
        chosen = set(found)
        found += [n for _, n in reversed(sizes) if n not in chosen][:1]
    return found
