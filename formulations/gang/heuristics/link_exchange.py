"""Exchange of tasks between hosts for the term `gpu_links`: who asks for links goes where they are.

Jobs of one task that start change places: a task that asks for links with as many GPUs of smaller
tasks, of one shape, on another host, or with GPUs that are free there. What a host is worth is the
best packing of its tasks (gpu_links.py), so an exchange needs no more than the tasks of two hosts.
In each pass the best exchanges of each pair of shapes are made, every host once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np

from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.gpu_links import LinkDemands, set_of
from placewright.formulations.gang.problem.jobs import ANY_JOB, TaskPlacement
from placewright.formulations.session import Session
from placewright.topology.units import WHOLE_GPU

_NO_SHAPE = -1


def exchange_for_links(placement: Placement, session: Session) -> bool:
    """Improve `gpu_links` in place; return whether that succeeded."""
    links = placement.problem.link_demands
    if links is None:
        return False
    exchange, improved = _Exchange(placement, links), False
    while not session.expired() and exchange.one_pass(session):
        improved = True
    return improved


class _Exchange:
    """The tasks of jobs that may change places, by host and shape."""

    def __init__(self, placement: Placement, links: LinkDemands) -> None:
        self.placement, self.links = placement, links
        self._asking = [s for s, asked in enumerate(links.asked) if asked is not None]
        self._free: dict[int, int] = {}
        self._worth: dict[tuple[object, ...], int] = {}
        self._read()

    def _read(self) -> None:
        """Look up who is where."""
        self._jobs: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        self._on: defaultdict[int, Counter[int]] = defaultdict(Counter)
        problem = self.placement.problem
        for number, start in self.placement.changed():
            choice = problem.classes[start.job_class].choices[start.choice]
            for put in start.tasks:
                shape = choice.groups[put.group].shape
                if put.gpus or problem.shape_gpu[shape] < WHOLE_GPU:
                    continue
                self._on[put.host][shape] += put.count
                if start.job == ANY_JOB and choice.is_single_task:
                    self._jobs[put.host, shape].append(number)

    def one_pass(self, session: Session) -> bool:
        """Make the best exchanges of each pair of shapes; return whether there was one."""
        made = False
        for asks in self._asking:
            for other in [_NO_SHAPE, *range(len(self.links.asked))]:
                if session.expired():
                    return made
                if self._matches(asks, other):
                    made |= self._exchange_all(asks, other)
        return made

    def _matches(self, asks: int, other: int) -> bool:
        """Whether tasks of another shape can have just the GPUs of one that asks for links."""
        gpus = self.links.gpus
        return other == _NO_SHAPE or bool(
            other != asks and gpus[other] > 0 and gpus[asks] % gpus[other] == 0
        )

    def _exchange_all(self, asks: int, other: int) -> bool:
        number = 0 if other == _NO_SHAPE else int(self.links.gpus[asks] // self.links.gpus[other])
        trade = Counter({asks: 1, other: -number} if number else {asks: 1})
        # Where links are equal, by best fit: out of emptier hosts, into fuller ones.
        whole = self.placement.whole
        leave = sorted(self._gains(asks, 1, trade, -1), key=lambda one: (-one[0], -whole[one[1]]))
        gains = self._gains(other, number, trade, 1, room=asks)
        come = sorted(gains, key=lambda one: (-one[0], whole[one[1]]))
        used: set[int] = set()
        for (lost, source), (gained, target) in zip(leave, come, strict=False):
            if lost + gained <= 0:
                break
            if source == target or {source, target} & used:
                continue
            if self._make(source, target, asks, other, number):
                used |= {source, target}
        if used:
            self._read()
        return bool(used)

    def _gains(
        self, shape: int, number: int, trade: Counter[int], sign: int, room: int = _NO_SHAPE
    ) -> Iterator[tuple[int, int]]:
        """Yield (Mbit/s, host) that a host gains by a trade, of the hosts that can make it."""
        if number:
            hosts = [h for (h, s), jobs in self._jobs.items() if s == shape and len(jobs) >= number]
        else:
            hosts = np.flatnonzero(self.placement.fits(room)).tolist()
        for host in hosts:
            after = self._on[host].copy()
            for one, times in trade.items():
                after[one] += sign * times
            worth = self._worth_of(host, after)
            if worth >= 0:
                yield worth - self._worth_of(host, self._on[host]), host

    def _worth_of(self, host: int, tasks: Counter[int]) -> int:
        """Return the Mbit/s of the best packing of tasks on a host, -1 if they do not fit."""
        table = int(self.links.of_host[host])
        if table < 0:
            return 0
        if host not in self._free:
            self._free[host] = set_of(self.placement.free_gpu_ids(host))
        free, asked = self._free[host], tuple(sorted((+tasks).items()))
        key = table, free, asked
        if key not in self._worth:
            each = [self.links.task(s, free) for s, n in asked for _ in range(n)]
            found = self.links.tables[table].pack(free, tuple(each))
            self._worth[key] = -1 if found is None else found.asked_mbps
        return self._worth[key]

    def _make(self, source: int, target: int, asks: int, other: int, number: int) -> bool:
        """Exchange a task with some of another shape; return whether they fit each other's host."""
        leaving = self._jobs[target, other][-number:] if number else []
        jobs = [self._jobs[source, asks][-1], *leaving]
        before = [start for job in jobs if (start := self.placement.get(job)) is not None]
        for job in jobs:
            self.placement.stop(job)
        put: list[int] = []
        for start, host, shape in zip(
            before, [target, *[source] * number], [asks, *[other] * number], strict=True
        ):
            if not self.placement.fits_host(shape, host):
                break
            tasks = [TaskPlacement(0, host, 1, self.placement.put(shape, host))]
            put.append(self.placement.start(start.job_class, start.choice, tasks))
        if len(put) == len(jobs):
            return True
        for job in put:
            self.placement.stop(job)
        restarted = [self.placement.restart(start) for start in before]
        self._jobs[source, asks][-1] = restarted[0]
        if number:
            self._jobs[target, other][-number:] = restarted[1:]
        return False
