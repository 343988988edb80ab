"""The grouping problem as arrays: classes of jobs, who may share GPUs, and what columns take.

    max  sum_q value(q) x_q
    s.t. sum_q n(q, c) x_q <= count(c)        for each class c,  = where the class must be covered
         sum_q use(r, q) x_q <= limit(r)      for each row r
         x_q >= 0 and integer

A column q is a multiset of 1 to `max_members` classes: a job on its own, or a group of one bucket.
Its use of a row is linear in its members but for a peak, and all columns of a bucket take one more
amount:

    use(r, q) = per_group[r, bucket] + sum over members c of per_member[r, c]
              + max over members c of peak[r, c]

So GPUs are per_group (members share them), a tenant's quota is per_member, what groups save of
GPUs (members - 1 times what a job of the bucket asks) is per_member less per_group, and CPU that
members ask beyond the least of their bucket is peak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.interleaving.problem.period import best_offsets, contended, slots_of
from placewright.topology.units import MILLION

Objective: TypeAlias = Literal["throughput", "weighted_throughput", "efficiency"]

THOUSAND = 1_000
"""One, of slowdown caps."""

ALONE = -1
"""The bucket of classes that share with nobody, and the class where a column has fewer members."""


UNLIMITED_US = 10**14
"""Microseconds that no group takes: 16 stages of 10^9, contention of a thousand times at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """Rules that hold for all groups.

    Attributes
    ----------
    objective
        The term that the value of columns counts.
    spanning
        Whether the first of three stages may span two of four slots.
    contention
        Millionths by which the period of 2, 3, 4 members is longer.
    max_members
        Members of a group, 1 to 4.
    class_weights
        What a unit of the objective counts in each priority class, the highest first.
    """

    objective: Objective = "weighted_throughput"
    spanning: bool = False
    contention: tuple[int, int, int] = (MILLION, MILLION, MILLION)
    max_members: int = MAX_MEMBERS
    class_weights: tuple[int, ...] = (1,)


@dataclass(frozen=True, slots=True, eq=False)
class PackingProblem:
    """Classes of interchangeable jobs, buckets of classes that may share GPUs, and linear rows.

    Attributes
    ----------
    rules
        What holds for all groups.
    stages : int64 (classes, resources)
        Microseconds of one iteration on each resource; all 0 without a profile.
    iteration : int64 (classes,)
        Microseconds of one iteration alone; 1 or more where there is a profile.
    slowdown : int64 (classes,)
        Cap of the period in thousandths of `iteration`; 0: none.
    speed, best : int64 (classes,)
        Millionths: speed of the first option, with which a job is in groups, and the greatest of
        any option, for a job on its own.
    weight : int64 (classes,)
        What one unit of throughput counts in `weighted_throughput`.
    priority_class : int64 (classes,)
        Index of each class's priority class in `rules.class_weights`.
    memory : int64 (classes,)
        MiB of each GPU in a group.
    bucket : int64 (classes,)
        Classes of one bucket may share GPUs; `ALONE`: with nobody.
    count : int64 (classes,)
        Jobs of the class.
    must_cover : bool (classes,)
        Whether all of them have to be in a column: running jobs that cannot stop.
    conflicts : int64 (pairs, 2)
        Classes that may not be in one group; each of them has one job.
    gpu_memory : int64 (buckets,)
        MiB that a group of the bucket can have of each GPU; 0: no limit.
    per_group : int64 (rows, buckets)
        What each column of a bucket takes, a job on its own too.
    per_member : int64 (rows, classes)
        What each member takes on top; all that a class of the bucket `ALONE` takes.
    limit : int64 (rows,)
        Capacity of each row.
    peak : int64 (rows, classes)
        A column takes the most of these of its members on top, 0 or more: members take turns at
        CPU. Without rows nothing is taken so. Prices leave it out, which is a relaxation.
    frozen_groups : int64 (groups, 4)
        Groups that run and may stay as they are although they are not allowed otherwise: ascending
        classes, each of one job and in one such group at most, `ALONE` after the last one.
    """

    rules: Rules
    stages: Ints
    iteration: Ints
    slowdown: Ints
    speed: Ints
    best: Ints
    weight: Ints
    priority_class: Ints
    memory: Ints
    bucket: Ints
    count: Ints
    must_cover: Bools
    conflicts: Ints
    gpu_memory: Ints
    per_group: Ints
    per_member: Ints
    limit: Ints
    peak: Ints = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    frozen_groups: Ints = field(
        default_factory=lambda: np.full((0, MAX_MEMBERS), ALONE, dtype=np.int64)
    )

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.count)

    @property
    def buckets(self) -> int:
        """The number of buckets."""
        return len(self.gpu_memory)

    @property
    def slots(self) -> int:
        """Slots of a period."""
        return slots_of(self.stages.shape[1], spanning=self.rules.spanning)

    @property
    def max_members(self) -> int:
        """Members of a group at most: each has a slot of its own to begin in."""
        return min(self.rules.max_members, self.slots)

    def aggregate(self, first: Ints, of: Ints) -> PackingProblem:
        """Return the problem in which each class stands for several of this one.

        Parameters
        ----------
        first : int64 (fewer classes,)
            A class of this packing problem that each new one equals.
        of : int64 (classes,)
            The new class of each; one with a `separation_key` is alone in its own.
        """
        count = np.zeros(len(first), dtype=np.int64)
        np.add.at(count, of, self.count)
        return replace(
            self,
            stages=self.stages[first],
            iteration=self.iteration[first],
            slowdown=self.slowdown[first],
            speed=self.speed[first],
            best=self.best[first],
            weight=self.weight[first],
            priority_class=self.priority_class[first],
            memory=self.memory[first],
            bucket=self.bucket[first],
            count=count,
            must_cover=self.must_cover[first],
            conflicts=of[self.conflicts],
            per_member=self.per_member[:, first],
            peak=self.peak[:, first] if self.peak.size else self.peak,
            frozen_groups=sort_members(
                np.where(self.frozen_groups == ALONE, ALONE, of[self.frozen_groups])
            ),
        )

    def separation_key(self) -> Ints:
        """Return a number per class (classes,): conflicting and frozen ones have their own."""
        named = np.concatenate(
            [self.conflicts.ravel(), self.frozen_groups[self.frozen_groups != ALONE]]
        )
        number = np.zeros(self.classes, dtype=np.int64)
        number[named] = 1 + named
        return number

    def max_period(self) -> Ints:
        """Return the longest period that each class's slowdown cap allows, shape (classes,)."""
        within = np.minimum(self.slowdown, UNLIMITED_US * THOUSAND // self.iteration.clip(min=1))
        capped = within * self.iteration // THOUSAND
        return np.where(self.slowdown > 0, capped, UNLIMITED_US)

    def usage(self, members: Ints) -> Ints:
        """Return what columns take of each row, int64 (columns, rows).

        `members` are ascending classes padded with `ALONE`, int64 (columns, up to 4).
        """
        present = members != ALONE
        taken = np.where(present[:, :, None], self.per_member.T[members], 0).sum(axis=1)
        bucket = self.bucket[members.max(axis=1)]
        own = self.per_group.T[bucket] if self.buckets else np.zeros_like(taken)
        result: Ints = taken + np.where(bucket[:, None] != ALONE, own, 0)
        if self.peak.size:
            result += np.where(present[:, :, None], self.peak.T[members], 0).max(axis=1)
        return result


def sort_members(members: Ints) -> Ints:
    """Return columns with classes ascending, `ALONE` last."""
    last = np.iinfo(np.int64).max
    order = np.sort(np.where(members == ALONE, last, members), axis=1)
    return np.where(order == last, ALONE, order)


def pad_members(members: Ints) -> Ints:
    """Return rows of members filled up to four with `ALONE`."""
    return np.pad(members, ((0, 0), (0, MAX_MEMBERS - members.shape[1])), constant_values=ALONE)


def periods(packing: PackingProblem, members: Ints) -> Ints:
    """Return the periods of groups with contention, members int64 (groups, 2 to 4) unpadded."""
    bare, _ = best_offsets(packing.stages[members], spanning=packing.rules.spanning)
    return contended(bare, packing.rules.contention[members.shape[1] - 2])


def allowed(packing: PackingProblem, members: Ints, period: Ints) -> Bools:
    """Return which groups are faster than taking turns, within all slowdown caps (groups,)."""
    in_turn = packing.iteration[members].sum(axis=1)
    permitted: Bools = period <= np.minimum(in_turn, packing.max_period()[members].min(axis=1))
    return permitted


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Columns that respect every row, and their value.

    Attributes
    ----------
    members : int64 (columns, 4)
        Classes of the packing problem in ascending order, `ALONE` after the last one. A column that
        is used twice stands here twice.
    value
        Sum of the values of the columns.
    source
        Which search found it.
    """

    members: Ints
    value: int
    source: str


@dataclass(frozen=True, slots=True)
class GroupingBound:
    """No choice of columns has more value.

    Attributes
    ----------
    certified
        Whether it was recomputed in integers.
    class_weights
        What a unit of the objective counts in each priority class, of those up to the last that
        counts.
    held : tuple of int
        Of each class before the last the value that the choices have at least.
    """

    value: int
    certified: bool
    class_weights: tuple[int, ...] = (1,)
    held: tuple[int, ...] = ()

    def of_class(self, values: Sequence[int]) -> int:
        """Return the bound of the last class where those before it have at least these values."""
        *before, last = self.class_weights
        return (self.value - sum(w * v for w, v in zip(before, values, strict=False))) // last
