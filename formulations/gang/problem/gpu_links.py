"""Links between GPUs: what task shapes ask of them, and the best sets of GPUs for tasks of a host.

GPUs of a host whose links are equal are interchangeable, and so a matter of counts. Where they
differ, the tasks of a host and its free GPUs are an assignment of their own: sets of GPUs, no two
with a GPU in common, each joined as its task asks, of the largest bandwidth together. It is small,
as a host has few GPUs, and the same few come back on many hosts; so it is enumerated (branch and
bound) and remembered. What it leaves open, the GPUs that nobody takes decide: those that keep the
most bandwidth between them (Ranganath et al., "MAPA: multi-accelerator pattern allocation policy
for multi-tenant GPU servers", SC 2021, section 3.3). So four tasks of one GPU do not break four
pairs.

A set of GPUs is a whole number of which bit i stands for GPU i.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import ceil
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Bools, Ints
from placewright.formulations.gang import parameters
from placewright.instances.documents.arrangement import GpuLinkRequest
from placewright.topology import GpuLinks
from placewright.topology.gpu_links import (
    canonical_form,
    joining_links,
    pairs_in,
    slowest_link,
)

GpuSet: TypeAlias = int
GPU_LINKS = "gpu_links"
CANONICAL_GPUS = 8
"""Up to so many, free GPUs that are joined alike are recognised as equal on other hosts."""


class LinkTask(NamedTuple):
    """A task of whole GPUs on a host: how many, what it asks of links, and which it may have."""

    gpus: int
    asked: GpuLinkRequest | None
    allowed: GpuSet


class Packing(NamedTuple):
    """A set of GPUs for each task.

    Mbit/s that the tasks which ask for links count; of all links inside sets, and between the GPUs
    that are left.
    """

    asked_mbps: int
    inside_mbps: int
    kept_mbps: int
    sets: tuple[GpuSet, ...]


class LinkTables:
    """The links of the GPUs of one matrix, by sets of them."""

    def __init__(self, links: GpuLinks) -> None:
        self.links = links
        self.gpus, self.is_uniform = links.gpus, links.is_uniform
        self._packings: dict[tuple[GpuSet, tuple[LinkTask, ...]], tuple[Packing | None, bool]] = {}
        self._by_request: dict[tuple[GpuLinkRequest, bool], Ints] = {}
        self._sets: dict[int, list[GpuSet]] = {}
        self._most: dict[tuple[object, ...], tuple[int, ...]] = {}

    def mbps(self, asked: GpuLinkRequest, gpus: GpuSet) -> int:
        """Return the Mbit/s of a set of two or more GPUs as a task measures them."""
        if self.is_uniform:
            number, each = gpus.bit_count(), self.links.mbps[0][-1]
            return each * number * (number - 1) // 2 if asked.measure == "pairs" else each
        return int(self._table(asked, required=False)[gpus])

    def are_joined(self, asked: GpuLinkRequest, gpus: GpuSet) -> bool:
        """Whether a set of two or more GPUs is joined as a task asks."""
        if self.is_uniform:
            return bool(joining_links(self.links, asked.required, asked.at_least_mbps or 0)[0, -1])
        return bool(self._table(asked, required=True)[gpus])

    def sets_of(self, task: LinkTask, free: GpuSet) -> list[GpuSet]:
        """Return the sets of free GPUs that a task may have."""
        if task.gpus not in self._sets:
            each = combinations(range(self.gpus), task.gpus)
            self._sets[task.gpus] = [sum(1 << gpu for gpu in gpus) for gpus in each]
        asked, outside = task.asked, ~(free & task.allowed)
        return [
            gpus
            for gpus in self._sets[task.gpus]
            if not gpus & outside
            and (asked is None or not asked.is_required or self.are_joined(asked, gpus))
        ]

    def pack(self, free: GpuSet, tasks: tuple[LinkTask, ...]) -> Packing | None:
        """Return the best sets of free GPUs for tasks, None if there are none or too long a search.

        Equal tasks should follow each other.
        """
        return self._best(free, tasks)[0]

    def _best(self, free: GpuSet, tasks: tuple[LinkTask, ...]) -> tuple[Packing | None, bool]:
        """Return the best packing, and whether it is proven that there is no better one."""
        key = free, tasks
        if key not in self._packings:
            packer = _Packer(self, free, tasks)
            self._packings[key] = packer.best, packer.steps >= 0
        return self._packings[key]

    def most(self, asked: GpuLinkRequest, gpus: int, free: GpuSet) -> tuple[int, ...]:
        """Return upper bounds on what 1, 2, ... tasks that ask alike add, each no more than before.

        They are the slopes of the concave hull over the best packings of so many tasks, in Mbit/s.
        """
        form: object = free
        if self.gpus <= CANONICAL_GPUS:
            form = canonical_form(self.links, tuple(bits(free)))
        key = asked, gpus, form
        if key not in self._most:
            task = LinkTask(gpus, asked, free)
            best = max((self.mbps(asked, one) for one in self.sets_of(task, free)), default=0)
            totals = [0]
            for number in range(1, free.bit_count() // gpus + 1 if best else 1):
                found, proven = self._best(free, (task,) * number)
                if proven and found is None:
                    break
                known = found.asked_mbps if proven and found is not None else number * best
                totals.append(known)
            self._most[key] = tuple(_hull_slopes(totals))
        return self._most[key]

    @cached_property
    def inside(self) -> Ints:
        """Sum of all links inside each set, int64 (2 ** gpus,)."""
        return pairs_in(np.array(self.links.mbps, dtype=np.int64))

    def _table(self, asked: GpuLinkRequest, *, required: bool) -> Ints:
        key = asked, required
        if key not in self._by_request:
            if not required:
                mbps = np.array(self.links.mbps, dtype=np.int64)
                made = self.inside if asked.measure == "pairs" else slowest_link(mbps, "ring")
            else:
                pairs = joining_links(self.links, asked.required, asked.at_least_mbps or 0)
                weight = pairs.astype(np.int64)
                if asked.joined == "all":
                    size = np.array([m.bit_count() for m in range(1 << self.gpus)])
                    made = (pairs_in(weight) == size * (size - 1) // 2).astype(np.int64)
                else:
                    made = slowest_link(weight, asked.joined)
            self._by_request[key] = made
        return self._by_request[key]


def _is_required(asked: GpuLinkRequest | None) -> bool:
    return asked is not None and asked.is_required


class _Packer:
    """Depth-first search for the best sets of GPUs for tasks, the first task first."""

    def __init__(self, tables: LinkTables, free: GpuSet, tasks: tuple[LinkTask, ...]) -> None:
        self.tables, self.tasks = tables, tasks
        # Tasks of one GPU that may have any take what is left in the end.
        self.named = [i for i, t in enumerate(tasks) if t.gpus > 1 or t.allowed & free != free]
        self.single = [i for i in range(len(tasks)) if i not in set(self.named)]
        self.steps = parameters.PARAMETERS.models.max_link_packing_steps
        self.best: Packing | None = None
        if sum(task.gpus for task in tasks) <= free.bit_count():
            self.named.sort(key=lambda i: (not _is_required(tasks[i].asked), -tasks[i].gpus))
            self._search(0, free, (0, 0), [])

    def _search(self, at: int, free: GpuSet, so_far: tuple[int, int], sets: list[GpuSet]) -> None:
        self.steps -= 1
        if self.steps < 0:
            return
        if at == len(self.named):
            self._finish(free, so_far, sets)
            return
        task = self.tasks[self.named[at]]
        like_last = at and self.tasks[self.named[at - 1]] == task
        ways = [
            (*self._worth(task, gpus), int(self.tables.inside[free & ~gpus]), gpus)
            for gpus in self.tables.sets_of(task, free)
            if not like_last or gpus > sets[-1]
        ]
        for asked, inside, _, gpus in sorted(ways, reverse=True):
            total = so_far[0] + asked, so_far[1] + inside
            best, left = self.best, free & ~gpus
            if best is None or self._may_gain(at + 1, left, total, best):
                self._search(at + 1, left, total, [*sets, gpus])

    def _worth(self, task: LinkTask, gpus: GpuSet) -> tuple[int, int]:
        asked = 0 if task.asked is None else self.tables.mbps(task.asked, gpus)
        return asked, int(self.tables.inside[gpus])

    def _may_gain(self, at: int, free: GpuSet, so_far: tuple[int, int], best: Packing) -> bool:
        """Whether the tasks that are left can bring more than the best packing has."""
        asked, inside = so_far
        for i in self.named[at:]:
            task = self.tasks[i]
            each = [self._worth(task, gpus) for gpus in self.tables.sets_of(task, free)]
            asked += max((a for a, _ in each), default=0)
            inside += max((b for _, b in each), default=0)
        kept = int(self.tables.inside[free])
        return (asked, inside, kept) > best[:3]

    def _finish(self, free: GpuSet, so_far: tuple[int, int], sets: list[GpuSet]) -> None:
        left = free
        for _ in self.single:  # the GPU that has the least to do with those that stay
            left = max((left & ~(1 << i) for i in bits(left)), key=lambda m: self.tables.inside[m])
        found = dict(zip(self.named, sets, strict=True))
        found |= zip(self.single, (1 << i for i in bits(free & ~left)), strict=True)
        packing = Packing(
            *so_far,
            int(self.tables.inside[left]),
            tuple(found[i] for i in range(len(self.tasks))),
        )
        if self.best is None or packing[:3] > self.best[:3]:
            self.best = packing


def _hull_slopes(totals: Sequence[int]) -> Iterator[int]:
    """Yield the steps of the least concave function, in whole numbers, above some totals."""
    at = 0
    while at < len(totals) - 1:
        rise, to = max(
            (Fraction(totals[k] - totals[at], k - at), k) for k in range(at + 1, len(totals))
        )
        yield from [ceil(rise)] * (to - at)
        at = to


def bits(gpus: GpuSet) -> Iterator[int]:
    """Yield the GPUs of a set, ascending."""
    while gpus:
        yield (gpus & -gpus).bit_length() - 1
        gpus &= gpus - 1


def set_of(gpus: Sequence[int] | Ints) -> GpuSet:
    """Return GPUs as a set."""
    return sum(1 << int(gpu) for gpu in gpus)


@dataclass(frozen=True, eq=False)
class LinkDemands:
    """What tasks of each shape ask of links, and the tables of all matrices.

    `tables` has one of each matrix of the cluster, `of_host`, (hosts,), the number of each host's,
    -1 where nothing is known of its links.
    """

    asked: tuple[GpuLinkRequest | None, ...]
    gpus: Ints  # (shapes,): whole GPUs of a task
    tables: tuple[LinkTables, ...]
    of_host: NDArray[np.int32]
    _room: dict[tuple[int, GpuSet, tuple[int, ...], int], int] = field(default_factory=dict)

    @cached_property
    def required(self) -> Bools:
        """Shapes of which a task may not have any GPUs of a host, bool (shapes,)."""
        return np.array([_is_required(asked) for asked in self.asked], dtype=np.bool_)

    @cached_property
    def differ(self) -> Bools:
        """Hosts whose GPUs are not interchangeable, bool (hosts,)."""
        differ = np.array([not table.is_uniform for table in self.tables] + [False])
        return differ[self.of_host]

    @cached_property
    def able(self) -> Bools:
        """Whether hosts have a set of GPUs that is joined as a shape requires, (shapes, hosts)."""
        found = [
            [not needed or bool(t.sets_of(self.task(shape, -1), -1)) for t in self.tables]
            for shape, needed in enumerate(self.required.tolist())
        ]
        unknown = ~self.required[:, None]
        each = np.array(found, dtype=np.bool_).reshape(len(self.asked), len(self.tables))
        return np.concatenate([each, unknown], axis=1)[:, self.of_host]

    def are_joined(self, shape: int, host: int, gpus: Sequence[int]) -> bool:
        """Whether a task may have some GPUs of a host."""
        asked, table = self.asked[shape], int(self.of_host[host])
        if asked is None or not self.required[shape]:
            return True
        return table >= 0 and self.tables[table].are_joined(asked, set_of(gpus))

    def mbps(self, shape: int, host: int, gpus: Sequence[int]) -> int:
        """Return the Mbit/s that a task on some GPUs counts in the term."""
        return self.mbps_of(self.asked[shape], host, gpus)

    def mbps_of(self, asked: GpuLinkRequest | None, host: int, gpus: Sequence[int]) -> int:
        """Return the Mbit/s that a task which asks for links counts in the term."""
        table = int(self.of_host[host])
        if asked is None or table < 0:
            return 0
        return self.tables[table].mbps(asked, set_of(gpus))

    def most_mbps(self, shape: int) -> int:
        """Return the most Mbit/s that a task of a shape can have on any host."""
        asked, task = self.asked[shape], self.task(shape, -1)
        if asked is None:
            return 0
        return max(
            (t.mbps(asked, gpus) for t in self.tables for gpus in t.sets_of(task, -1)), default=0
        )

    def room(self, host: int, free: GpuSet, came: tuple[int, ...], shape: int) -> int:
        """Return how many tasks of a shape fit the free GPUs of a host beside those that came."""
        table = int(self.of_host[host])
        key = table, free, came, shape
        known = self._room.get(key)
        if known is None:
            known, each = 0, int(self.gpus[shape])
            tasks = [self.task(s, free) for s in came]
            more = self.task(shape, free)
            most = (free.bit_count() - sum(task.gpus for task in tasks)) // each
            while known < most and self.tables[table].pack(
                free, tuple(sorted([*tasks, *[more] * (known + 1)], key=str))
            ):
                known += 1
            self._room[key] = known
        return known

    def task(self, shape: int, allowed: GpuSet) -> LinkTask:
        """Return a task of a shape that may have these GPUs."""
        return LinkTask(int(self.gpus[shape]), self.asked[shape], allowed)
