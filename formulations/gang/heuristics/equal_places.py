"""Places of tasks of equal size in a placement, which such tasks may exchange."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang.heuristics.link_loads import Move
from placewright.formulations.gang.placement.placement import Placement
from placewright.formulations.gang.problem.jobs import (
    ANY_JOB,
    NO_LEVEL,
    Group,
    JobPlacement,
    TaskPlacement,
)
from placewright.formulations.gang.problem.task_mix import STRANDED
from placewright.formulations.gang.problem.terms import BOTTLENECK
from placewright.topology.units import WHOLE_GPU

HOST_TERMS = ("freed", "opened", "leftover", STRANDED)
"""Terms that free places matter to."""


@dataclass(slots=True)
class Gang:
    """A group of a started job, by the job's number and the group's index.

    `hosts` has the host of each task, `first` the list from the beginning, and `spread` is what
    they add to that term.
    """

    number: int
    index: int
    group: Group
    first: list[int]
    hosts: list[int]
    spread: int = 0


def equal_sizes(placement: Placement, earlier: Sequence[str]) -> list[list[int]]:
    """Return the shapes of whole GPUs by size: they take as many GPUs on the same hosts."""
    problem = placement.problem
    sizes: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    parts = problem.part_demands
    for s, gpu in enumerate(problem.shape_gpu.tolist()):
        if gpu < WHOLE_GPU or (parts is not None and (parts.is_slice[s] or parts.memory[s])):
            continue
        alone = s if STRANDED in earlier else -1
        sizes[gpu, int(problem.shape_rank[s]), problem.shape_hosts[s].tobytes(), alone].append(s)
    return sorted(sizes.values(), key=lambda shapes: -int(problem.shape_gpu[shapes[0]]))


class Rearranged(NamedTuple):
    """Hosts and spread of gangs some of whose tasks move, the moves, and the spread that is added.

    `gangs` are by their index.
    """

    gangs: dict[int, tuple[list[int], int]]
    moves: list[Move]
    spread: int


class EqualPlaces:
    """The places of tasks of equal size, and the gangs whose tasks hold some of them.

    Attributes
    ----------
    gangs : list of Gang
    held : dict of host to list
        The gangs whose tasks are on each host, one entry per task.
    room : dict of host to int
        How many places each host has, free ones included.
    """

    def __init__(self, placement: Placement, shapes: list[int], earlier: Sequence[str]) -> None:
        self._placement, problem = placement, placement.problem
        self.problem = problem
        self.gangs: list[Gang] = []
        held: defaultdict[int, list[int]] = defaultdict(list)
        for number, start in placement.started():
            choice = problem.classes[start.job_class].choices[start.choice]
            if start.job != ANY_JOB or choice.is_tied or choice.pooled:
                continue
            for k, group in enumerate(choice.groups):
                if group.shape not in shapes or (group.timed and BOTTLENECK in earlier):
                    continue
                hosts = [
                    put.host for put in start.tasks if put.group == k for _ in range(put.count)
                ]
                for host in hosts:
                    held[host].append(len(self.gangs))
                self.gangs.append(Gang(number, k, group, hosts, hosts))
                self.gangs[-1].spread = self.spread(self.gangs[-1], hosts)
        self.room = self._room(shapes, held, not set(HOST_TERMS).intersection(earlier))
        self.held = {host: held[host] for host in self.room}

    def _room(
        self, shapes: list[int], held: dict[int, list[int]], free_places: bool
    ) -> dict[int, int]:
        """Return the places of each host where any task of the shapes may take any of them."""
        placement, problem = self._placement, self.problem
        demand, gpus = problem.shape_demand[shapes], int(problem.shape_gpu[shapes[0]]) // WHOLE_GPU
        most: Ints = demand.max(axis=0)
        # Where jobs stop for others, those stay where they are needed.
        free_places = free_places and not any(placement.stopped)
        room: dict[int, int] = {}
        rank = int(problem.shape_rank[shapes[0]])
        open_ = problem.shape_hosts[shapes[0]] & (placement.least_rank <= rank)
        for host in np.flatnonzero(open_).tolist():
            mine = held.get(host, [])
            if not mine and not free_places:
                continue
            had = problem.shape_demand[[self.gangs[g].group.shape for g in mine]].sum(axis=0)
            left: Ints = placement.free[host] + had - len(mine) * most
            if (left < 0).any():
                continue
            more = int(placement.whole[host]) // gpus if free_places else 0
            for amount, each in zip(left.tolist(), most.tolist(), strict=True):
                more = min(more, amount // each) if each else more
            if mine or more:
                room[host] = len(mine) + more
        return room

    def spread(self, gang: Gang, hosts: Sequence[int]) -> int:
        """Return what a group on some hosts adds to `spread`."""
        domain = self.problem.cluster.domain
        at = np.array(hosts)
        beyond = (
            weight * (len(set(domain[level][at].tolist())) - 1)
            for level, weight in gang.group.weights
        )
        return gang.group.milli_gpu * sum(beyond)

    def allows(self, gang: Gang, hosts: Sequence[int]) -> bool:
        """Whether the hosts lie in one domain of the level that the group requires."""
        level = gang.group.required
        return level == NO_LEVEL or np.ptp(self.problem.cluster.domain[level][list(hosts)]) == 0

    def rearranged(
        self, new: Mapping[int, list[int]], emptied: Container[int]
    ) -> Rearranged | None:
        """Return gangs with their tasks on emptied hosts elsewhere; None if a level forbids it.

        `new` has the hosts that these tasks come to, by gang.
        """
        gangs, moves, spread = {}, [], 0
        for g, taken in new.items():
            gang = self.gangs[g]
            there = taken + [host for host in gang.hosts if host not in emptied]
            if not self.allows(gang, there):
                return None
            gangs[g] = there, self.spread(gang, there)
            spread += gangs[g][1] - gang.spread
            moves.append(Move(gang.group.rate_mbps, gang.hosts, there))
        return Rearranged(gangs, moves, spread)

    def apply(self) -> None:
        """Move the tasks in the placement."""
        placement = self._placement
        new: defaultdict[int, dict[int, Gang]] = defaultdict(dict)
        for gang in self.gangs:
            if gang.hosts is not gang.first:
                new[gang.number][gang.index] = gang
        starts: list[JobPlacement] = []
        for number, gangs in new.items():
            start = placement.get(number)
            if start is None:
                raise KeyError(number)
            placement.stop(number)
            tasks = [put for put in start.tasks if put.group not in gangs]
            for index, gang in gangs.items():
                hosts = sorted(Counter(gang.hosts).items())
                tasks += [TaskPlacement(index, host, count, ()) for host, count in hosts]
            starts.append(start._replace(tasks=tasks))
        for start in starts:
            placement.restart(start)
