"""The grouping problem as arrays: classes of jobs, their groups, and what columns take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from placewright.array_types import Bools, Ints
from placewright.formulations.interleaving import parameters
from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round
from placewright.topology.units import MILLION

# The period of jobs that take turns at resources, and the offsets at which it is shortest.
#
# A job runs its stages in order, stage r on resource r, again and again. Jobs of a group share
# everything, so at any time each of them is at another resource: k resources make k slots, the
# members have distinct offsets o in 0..k-1, and in slot s a job is at stage (s + o) mod k. A slot
# lasts as long as its longest stage, and the period is
#
#     T = min over offsets of  sum over slots s of  max over members i of  stage[i, (s + o_i) mod k]
#
# after the interleaving of Zhao et al., *Multi-Resource Interleaving for Deep Learning Training*
# (Muri, SIGCOMM 2022); there only orders of the jobs are tried, without empty slots between them.
#
# Spanning, after Muri's released code: three resources, four slots, and the first stage may take
# two of them. With m[s] the longest second or third stage in slot s, and P[s] the first stage of
# the job that begins in slot s (0 if none does),
#
#     T = min over offsets of  min { d[0] + .. + d[3] :  d[s] >= m[s],  d[s] + d[s+1] >= P[s] }
#
# where a job of offset o begins in slot -o, and slots and stages are counted in a circle. Rows and
# columns of the inner program are vertices and edges of a circle of even length, so the optimum of
# its dual is integral: each slot pays for itself or in one pair with a neighbour.
#
#     max( max(P[0], m[0] + m[1]) + max(P[2], m[2] + m[3]),
#          max(P[1], m[1] + m[2]) + max(P[3], m[3] + m[0]) )
#
# Turning all offsets alike changes nothing, so the first member has offset 0. All else is tried.


Int64 = NDArray[np.int64]

SPANNING_STAGES = 3
SPANNING_SLOTS = 4
MAX_MEMBERS = 4


def slots_of(resources: int, *, spanning: bool) -> int:
    """Return into how many slots a period is divided.

    Raises
    ------
    ValueError
        Spanning with a number of resources other than three.
    """
    if not spanning:
        return resources
    if resources != SPANNING_STAGES:
        raise ValueError(f"{resources} stages: expected {SPANNING_STAGES} where one may span")
    return SPANNING_SLOTS


def best_offsets(stages: Int64, *, spanning: bool) -> tuple[Int64, Int64]:
    """Return the shortest period of each group, and offsets that reach it.

    Of offsets that are equally good, the lexicographically first ones are returned. Every choice
    of offsets is tried, 6 for four jobs in four slots and 2,730 in sixteen, for many groups at
    once in memory that does not grow with their number.
    `stages` (groups, members, resources): microseconds of each stage, 0 to 10^12; 1 to 4 members,
    and no more than there are slots. `spanning`: whether the first of three stages may span two of
    four slots.

    Returns
    -------
    periods : int64 (groups,)
        Microseconds, without contention.
    offsets : int64 (groups, members)
        The first column is 0.

    Raises
    ------
    ValueError
        The array has another shape.
    """
    if stages.ndim != 3:
        raise ValueError(f"stages of {stages.ndim} dimensions: expected groups, members, resources")
    groups, members, resources = stages.shape
    slots = slots_of(resources, spanning=spanning)
    if not 1 <= members <= min(slots, MAX_MEMBERS):
        raise ValueError(f"{members} members: expected 1 to {min(slots, MAX_MEMBERS)}")
    choices = np.array([(0, *rest) for rest in permutations(range(1, slots), members - 1)])
    search = _spanning if spanning else _plain
    best = np.empty(groups, dtype=np.int64)
    size = max(parameters.PARAMETERS.period_chunk_values // (MAX_MEMBERS * slots), 1)
    for start in range(0, groups, size):
        # Groups last: every operation below runs along them. Times the number of choices, so that
        # a period and the choice that reaches it are one number, and a minimum finds both.
        chunk = stages[start : start + size].transpose(1, 2, 0) * np.int64(len(choices))
        best[start : start + size] = search(chunk, choices.tolist())
    periods, chosen = np.divmod(best, len(choices))
    return periods, choices[chosen]


def contended(periods: Int64, factors: Int64 | int) -> Int64:
    """Return periods times contention factors, rounded up.

    Exact for periods and factors of up to 10^12 each.
    `periods`: microseconds. `factors`: int64, as `periods`, or one for all: Millionths.
    """
    # In two parts, since the product itself may not fit 64 bits.
    whole, rest = np.divmod(periods, MILLION)
    return np.asarray(whole * factors - (-rest * factors) // MILLION, dtype=np.int64)


def _plain(stages: Int64, choices: Sequence[Sequence[int]]) -> Int64:
    """Return the least of period + index over the choices of offsets, for each group.

    `stages` (members, resources, groups): times the number of choices.
    """
    members, slots, groups = stages.shape
    # Each job's stages twice in a row: those of any offset are then a slice.
    twice = np.concatenate((stages, stages), axis=1)
    # busy[i]: how long each slot lasts for the first i + 1 members.
    busy = np.empty((members, slots, groups), dtype=np.int64)
    busy[0] = stages[0]
    best = np.full(groups, np.iinfo(np.int64).max)
    period = np.empty(groups, dtype=np.int64)
    before: Sequence[int] = choices[0][:1]
    for index, offsets in enumerate(choices):
        for member in range(1, members):
            # Choices come in lexicographic order and share the slots of a common beginning.
            if tuple(before[: member + 1]) != tuple(offsets[: member + 1]):
                moved = twice[member, offsets[member] : offsets[member] + slots]
                np.maximum(busy[member - 1], moved, out=busy[member])
        before = offsets
        np.add.reduce(busy[-1], axis=0, out=period)
        period += index
        np.minimum(best, period, out=best)
    return best


def _spanning(stages: Int64, choices: Sequence[Sequence[int]]) -> Int64:
    """Return the least of period + index over the choices, as `_plain` does."""
    members, _, groups = stages.shape
    jobs = np.zeros((SPANNING_SLOTS, SPANNING_STAGES, groups), dtype=np.int64)
    jobs[:members] = stages
    first, second, third = jobs.transpose(1, 0, 2)
    # Slot s + 2 has the second stage of whoever begins in s, and the third of who begins in s - 1.
    longest = np.maximum(third[:, None], second[None])
    best = np.full(groups, np.iinfo(np.int64).max)
    for index, offsets in enumerate(choices):
        idle = iter(range(members, SPANNING_SLOTS))
        begins = {-offset % SPANNING_SLOTS: job for job, offset in enumerate(offsets)}
        at = [begins[s] if s in begins else next(idle) for s in range(SPANNING_SLOTS)]
        m = [longest[at[s - 3], at[s - 2]] for s in range(SPANNING_SLOTS)]
        pair = [np.maximum(first[at[s]], m[s] + m[s - 3]) for s in range(SPANNING_SLOTS)]
        period = np.maximum(pair[0] + pair[2], pair[1] + pair[3])
        period += index
        np.minimum(best, period, out=best)
    return best


# The grouping problem as arrays: classes of jobs, who may share GPUs, and what columns take.
#
#     max  sum_q value(q) x_q
#     s.t. sum_q n(q, c) x_q <= count(c)        for each class c,  = where the class must be covered
#          sum_q use(r, q) x_q <= limit(r)      for each row r
#          x_q >= 0 and integer
#
# A column q is a multiset of 1 to `max_members` classes: a job on its own, or a group of one
# bucket. Its use of a row is linear in its members but for a peak, and all columns of a bucket
# take one more amount:
#
#     use(r, q) = per_group[r, bucket] + sum over members c of per_member[r, c]
#               + max over members c of peak[r, c]
#
# So GPUs are per_group (members share them), a tenant's quota is per_member, what groups save of
# GPUs (members - 1 times what a job of the bucket asks) is per_member less per_group, and CPU that
# members ask beyond the least of their bucket is peak.


Objective: TypeAlias = Literal["throughput", "weighted_throughput", "efficiency"]

THOUSAND = 1_000
"""One, of slowdown caps."""

ALONE = -1
"""The bucket of classes that share with nobody, and the class where a column has fewer members."""


UNLIMITED_US = 10**14
"""Microseconds that no group takes: 16 stages of 10^9, contention of a thousand times at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """Rules that hold for all groups."""

    objective: Objective = "weighted_throughput"  # The term that the value of columns counts
    spanning: bool = False  # Whether the first of three stages may span two of four slots
    # Millionths by which the period of 2, 3, 4 members is longer.
    contention: tuple[int, int, int] = (MILLION, MILLION, MILLION)
    max_members: int = MAX_MEMBERS  # Members of a group, 1 to 4
    # What a unit of the objective counts in each priority class, the highest first.
    class_weights: tuple[int, ...] = (1,)


@dataclass(frozen=True, slots=True, eq=False)
class PackingProblem:
    """Classes of interchangeable jobs, buckets of classes that may share GPUs, and linear rows."""

    rules: Rules  # What holds for all groups
    # (classes, resources): Microseconds of one iteration on each resource; all 0 without a profile.
    stages: Ints
    # (classes,): Microseconds of one iteration alone; 1 or more where there is a profile.
    iteration: Ints
    slowdown: Ints  # (classes,): Cap of the period in thousandths of `iteration`; 0: none
    # speed, best: (classes,): Millionths: speed of the first option, with which a job is in groups,
    # and the greatest of any option, for a job on its own.
    speed: Ints
    best: Ints
    weight: Ints  # (classes,): What one unit of throughput counts in `weighted_throughput`
    # (classes,): Index of each class's priority class in `rules.class_weights`.
    priority_class: Ints
    memory: Ints  # (classes,): MiB of each GPU in a group
    bucket: Ints  # (classes,): Classes of one bucket may share GPUs; `ALONE`: with nobody
    count: Ints  # (classes,): Jobs of the class
    # (classes,): Whether all of them have to be in a column: running jobs that cannot stop.
    must_cover: Bools
    conflicts: Ints  # (pairs, 2): Classes that may not be in one group; each of them has one job
    # (buckets,): MiB that a group of the bucket can have of each GPU; 0: no limit.
    gpu_memory: Ints
    per_group: Ints  # (rows, buckets): What each column of a bucket takes, a job on its own too
    # (rows, classes): What each member takes on top; all that a class of the bucket `ALONE` takes.
    per_member: Ints
    limit: Ints  # (rows,): Capacity of each row
    # (rows, classes): A column takes the most of these of its members on top, 0 or more: members
    # take turns at CPU. Without rows nothing is taken so. Prices leave it out, which is a
    # relaxation.
    peak: Ints = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    # (groups, 4): Groups that run and may stay as they are although they are not allowed otherwise:
    # ascending classes, each of one job and in one such group at most, `ALONE` after the last one.
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

        `first` (fewer classes,): a class of this packing problem that each new one equals. `of`
        (classes,): the new class of each; one with a `separation_key` is alone in its own.
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
    """Columns that respect every row, and their value."""

    # (columns, 4): Classes of the packing problem in ascending order, `ALONE` after the last one. A
    # column that is used twice stands here twice.
    members: Ints
    value: int  # Sum of the values of the columns
    source: str  # Which search found it


@dataclass(frozen=True, slots=True)
class GroupingBound:
    """No choice of columns has more value."""

    value: int
    certified: bool  # Whether it was recomputed in integers
    # What a unit of the objective counts in each priority class, of those up to the last that
    # counts.
    class_weights: tuple[int, ...] = (1,)
    # Of each class before the last the value that the choices have at least.
    held: tuple[int, ...] = ()

    def of_class(self, values: Sequence[int]) -> int:
        """Return the bound of the last class where those before it have at least these values."""
        *before, last = self.class_weights
        return (self.value - sum(w * v for w, v in zip(before, values, strict=False))) // last


# Multiple-choice rows: jobs of several options, one class per option.
#
# Only with its first option is a job in groups. Each other option is a class that shares with
# none and takes exactly what the option asks, so that rows of CPU, memory and quotas are a
# multiple-choice knapsack over all jobs; and there is one row more for each class of jobs,
#
#     sum over the columns of the class of x  <=  jobs of the class
#
# References
# ----------
# Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI'22, the
# first of the two programs of Synergy-OPT.


def job_options(round_: Round, jobs: Sequence[int]) -> list[tuple[int, int]]:
    """Return (job, option) of each class: first options in order, then all others.

    A running job keeps its option.
    """
    first = [(j, 0 if (r := round_.jobs[j].running) is None else r.option) for j in jobs]
    others = [
        (j, option)
        for j in jobs
        if round_.jobs[j].running is None
        for option in range(1, len(round_.jobs[j].options))
    ]
    return first + others


def with_one_option(job: Job, option: int) -> Job:
    """Return a job with this option only."""
    if len(job.options) == 1:
        return job
    return job.model_copy(update={"options": (job.options[option],)})


def add_choice_rows(
    packing: PackingProblem, of_class: Sequence[int]
) -> tuple[PackingProblem, dict[int, int]] | None:
    """Return the problem with a multiple-choice row per class of jobs, and each job's class.

    Jobs of one class are alike in all options but the first, so that it does not matter which of
    them runs one of those. `packing`: its first classes are the first options of all jobs.
    `of_class`: the job of each class. None
    if there are more than `max_option_job_classes` of these.
    """
    firsts = len(set(of_class))
    other = np.arange(packing.classes) >= firsts
    if packing.rules.objective != "efficiency":
        # Stages do not matter to jobs that do not share GPUs.
        packing = replace(
            packing,
            stages=np.where(other[:, None], 0, packing.stages),
            iteration=np.where(other, 0, packing.iteration),
            slowdown=np.where(other, 0, packing.slowdown),
            memory=np.where(other, 0, packing.memory),
        )
    keys = np.column_stack(
        [
            packing.stages,
            *(packing.iteration, packing.slowdown, packing.best, packing.weight, packing.memory),
            packing.priority_class,
            packing.per_member.T,
        ]
    )[firsts:]
    class_number = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1).tolist()
    options: defaultdict[int, list[int]] = defaultdict(list)
    for j, number in zip(of_class[firsts:], class_number, strict=True):
        options[j].append(number)
    numbers: dict[tuple[int, ...], int] = {}
    job_class = {j: numbers.setdefault(tuple(mine), len(numbers)) for j, mine in options.items()}
    if len(numbers) > parameters.PARAMETERS.max_option_job_classes:
        return None
    rows = np.zeros((len(numbers), packing.classes), dtype=np.int64)
    for c, j in enumerate(of_class):
        if j in job_class:
            rows[job_class[j], c] = 1
    extended = replace(
        packing,
        per_group=np.pad(packing.per_group, ((0, len(numbers)), (0, 0))),
        per_member=np.concatenate([packing.per_member, rows]),
        peak=np.pad(packing.peak, ((0, len(numbers)), (0, 0))),
        limit=np.concatenate([packing.limit, rows[:, :firsts].sum(axis=1)]),
    )
    return extended, job_class


def grouped_jobs(
    grouping: Grouping, options: Sequence[tuple[int, int]], job_class: Mapping[int, int]
) -> dict[tuple[int, ...], int]:
    """Return the jobs of each column with their option; of others any job of the class is taken.

    `options`: (job, option) of each class.
    """
    firsts = len({j for j, _ in options})
    rows = [[c for c in row if c != ALONE] for row in grouping.members.tolist()]
    used = {options[c][0] for row in rows for c in row if c < firsts}
    left: defaultdict[int, list[int]] = defaultdict(list)
    for j, number in job_class.items():
        if j not in used:
            left[number].append(j)

    def job_of(c: int) -> int:
        j = options[c][0]
        return j if c < firsts else left[job_class[j]].pop()

    return {tuple(map(job_of, row)): options[row[0]][1] for row in rows}
