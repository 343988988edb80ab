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
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, islice
from math import ceil, comb
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Bools, Ints
from placewright.formulations.gang import parameters
from placewright.instances.documents.arrangement import GpuLinkRequest
from placewright.topology import GpuLinks
from placewright.topology.gpu_links import (
    best_ring,
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
        self.links, self.is_uniform = links, links.is_uniform
        self.every: GpuSet = (1 << links.gpus) - 1
        self._packings: dict[tuple[GpuSet, tuple[LinkTask, ...]], tuple[Packing | None, bool]] = {}
        self._tables: dict[GpuLinkRequest, Ints] = {}
        self._sets: dict[int, list[GpuSet]] = {}
        self._most: dict[tuple[object, ...], tuple[int, ...]] = {}

    def mbps(self, asked: GpuLinkRequest, gpus: GpuSet) -> int:
        """Return the Mbit/s of a set of two or more GPUs as a task measures them."""
        if asked.measure == "pairs":
            return self.inside(gpus)
        return self.links.mbps[0][-1] if self.is_uniform else int(best_ring(self.links)[gpus])

    def inside(self, gpus: GpuSet) -> int:
        """Return the sum of all links between the GPUs of a set."""
        if self.is_uniform:
            return self.links.mbps[0][-1] * comb(gpus.bit_count(), 2)
        return int(self._pairs[gpus])

    def are_joined(self, asked: GpuLinkRequest, gpus: GpuSet) -> bool:
        """Whether a set of two or more GPUs is joined as a task asks."""
        if self.is_uniform:
            return bool(self._joining(asked)[0, -1])
        return bool(self._table(asked)[gpus])

    def sets_of(self, task: LinkTask, free: GpuSet) -> list[GpuSet]:
        """Return the sets of free GPUs that a task may have, one of those that are alike."""
        asked, may = task.asked, free & task.allowed
        if self.is_uniform:
            first = set_of(list(islice(bits(may), task.gpus)))
            found = [first] if first.bit_count() == task.gpus else []
        else:
            if task.gpus not in self._sets:
                each = combinations(range(self.links.gpus), task.gpus)
                self._sets[task.gpus] = [set_of(gpus) for gpus in each]
            found = [gpus for gpus in self._sets[task.gpus] if not gpus & ~may]
        if asked is None or not asked.is_required:
            return found
        return [gpus for gpus in found if self.are_joined(asked, gpus)]

    def best_worth(self, task: LinkTask, free: GpuSet) -> int:
        """Return the most Mbit/s that one task can count on free GPUs."""
        asked = task.asked
        sets = () if asked is None else self.sets_of(task, free)
        return max((self.mbps(asked, gpus) for gpus in sets if asked is not None), default=0)

    def pack(self, free: GpuSet, tasks: tuple[LinkTask, ...]) -> Packing | None:
        """Return the best sets of free GPUs for tasks, None if there are none or too long a search.

        Equal tasks should follow each other.
        """
        return self._pack(free, tasks)[0]

    def _pack(self, free: GpuSet, tasks: tuple[LinkTask, ...]) -> tuple[Packing | None, bool]:
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
        few = self.links.gpus <= CANONICAL_GPUS
        form = canonical_form(self.links, tuple(bits(free))) if few else free
        key = asked, gpus, form
        if key not in self._most:
            task, totals = LinkTask(gpus, asked, free), [0]
            best = self.best_worth(task, free)
            for number in range(1, free.bit_count() // gpus + 1 if best else 1):
                found, proven = self._pack(free, (task,) * number)
                if proven and found is None:
                    break
                known = found.asked_mbps if proven and found is not None else number * best
                totals.append(known)
            self._most[key] = tuple(_hull_slopes(totals))
        return self._most[key]

    def _joining(self, asked: GpuLinkRequest) -> Bools:
        return joining_links(self.links, asked.required, asked.at_least_mbps or 0)

    @cached_property
    def _pairs(self) -> Ints:
        return pairs_in(np.array(self.links.mbps, dtype=np.int64))

    def _table(self, asked: GpuLinkRequest) -> Ints:
        """Return which sets are joined as is asked, not 0 if so."""
        if asked not in self._tables:
            weight = self._joining(asked).astype(np.int64)
            if asked.joined == "all":
                self._tables[asked] = pairs_in(weight) == pairs_in(np.ones_like(weight))
            else:
                self._tables[asked] = slowest_link(weight, asked.joined)
        return self._tables[asked]


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
        task, tables = self.tasks[self.named[at]], self.tables
        like_last = at and self.tasks[self.named[at - 1]] == task
        ways = [
            (
                0 if task.asked is None else tables.mbps(task.asked, gpus),
                tables.inside(gpus),
                tables.inside(free & ~gpus),
                gpus,
            )
            for gpus in tables.sets_of(task, free)
            if not like_last or gpus > sets[-1]
        ]
        for asked, inside, _, gpus in sorted(ways, reverse=True):
            total = so_far[0] + asked, so_far[1] + inside
            left = free & ~gpus
            if self.best is None or self._may_gain(at + 1, left, total, self.best):
                self._search(at + 1, left, total, [*sets, gpus])

    def _may_gain(self, at: int, free: GpuSet, so_far: tuple[int, int], best: Packing) -> bool:
        """Whether the tasks that are left can bring more than the best packing has."""
        each = (self.tables.best_worth(self.tasks[i], free) for i in self.named[at:])
        most = so_far[0] + sum(each)
        # What is inside of sets, and between GPUs that are left, is inside of what is free now.
        inside = so_far[1] + self.tables.inside(free)
        return most > best.asked_mbps or (most == best.asked_mbps and inside > best.inside_mbps)

    def _finish(self, free: GpuSet, so_far: tuple[int, int], sets: list[GpuSet]) -> None:
        left = free
        for _ in self.single:  # the GPU that has the least to do with those that stay
            left = max((left & ~(1 << i) for i in bits(left)), key=self.tables.inside)
        found = dict(zip(self.named, sets, strict=True))
        found |= zip(self.single, (1 << i for i in bits(free & ~left)), strict=True)
        chosen = tuple(found[i] for i in range(len(self.tasks)))
        packing = Packing(*so_far, self.tables.inside(left), chosen)
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
            [not needed or bool(t.sets_of(self.task(shape, -1), t.every)) for t in self.tables]
            for shape, needed in enumerate(self.required.tolist())
        ]
        unknown = ~self.required[:, None]
        each = np.array(found, dtype=np.bool_).reshape(len(self.asked), len(self.tables))
        return np.concatenate([each, unknown], axis=1)[:, self.of_host]

    def are_joined(self, shape: int, host: int, gpus: Sequence[int]) -> bool:
        """Whether a task may have some GPUs of a host."""
        asked, table = self.asked[shape], int(self.of_host[host])
        if asked is None or not asked.is_required:
            return True
        return table >= 0 and self.tables[table].are_joined(asked, set_of(gpus))

    def mbps(self, asked: GpuLinkRequest | None, host: int, gpus: Sequence[int]) -> int:
        """Return the Mbit/s that a task which asks for links counts in the term."""
        table = int(self.of_host[host])
        if asked is None or table < 0:
            return 0
        return self.tables[table].mbps(asked, set_of(gpus))

    def most_mbps(self, shape: int) -> int:
        """Return the most Mbit/s that a task of a shape can have on any host."""
        each = (t.best_worth(self.task(shape, t.every), t.every) for t in self.tables)
        return max(each, default=0)

    def task(self, shape: int, allowed: GpuSet) -> LinkTask:
        """Return a task of a shape that may have these GPUs."""
        return LinkTask(int(self.gpus[shape]), self.asked[shape], allowed)
