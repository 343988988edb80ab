"""Groups of jobs that take turns at the resources of one place, as in Muri's simulator."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import permutations, product
from typing import Any, TypeAlias

import networkx as nx
import numpy as np

from placewright.array_types import Ints
from placewright.instances.traces.papers import STRETCH
from placewright.instances.traces.trace import FULL_SPEED, Trace
from placewright.rounds.policies.base import Columns, GroupPolicy
from placewright.rounds.policies.named import STAGES
from placewright.rounds.replay.book import Group, HostLedger, Place, Places
from placewright.rounds.replay.loop import Decider, Loop

# Seconds that a start takes in Muri's simulator, by model and GPUs.
# Source: Zhao et al., "Multi-resource interleaving for deep learning training", SIGCOMM 2022, its
# published artifact.
START_S = {
    "vgg16": (7, 7, 8, 9, 9, 10),
    "vgg19": (7, 7, 8, 9, 10, 10),
    "resnet18": (4, 5, 5, 7, 7, 7),
    "shufflenet_v2_x1_0": (4, 4, 5, 5, 7, 8),
    "a2c": (38, 39, 39, 46, 46, 46),
    "dqn": (5, 5, 6, 6, 8, 8),
}
"""On 1, 2, 4, 8, 16 and 32 GPUs."""

OTHER_S = 10
"""Of any other model."""


def start_seconds(trace: Trace) -> Ints:
    """Return the seconds that a start of each job takes, int64 (jobs,)."""
    table = np.array([START_S.get(model, (OTHER_S,) * 6) for model in trace.models])
    size = np.minimum(np.ceil(np.log2(trace.gpus)).astype(np.int64), 5)
    seconds: Ints = table[trace.model, size]
    return seconds


# How fast jobs are that take turns at the resources of one place, as in Muri's simulator.
#
# Its period of up to four jobs with three stages is the least over the orders of the jobs of a
# recurrence over four slots, in which the first stage may take two slots:
#
#     f[s + 1] = max(f[s] + third[s + 1], f[s] + second[s + 2], f[s - 1] + first[s + 3])
#
# with jobs counted in a circle of four, from f = 0, and T = f[s + 1] - f[s - 3] as soon as two
# successive values agree to a thousandth, else after eight slots. Two jobs may lie opposite each
# other. This is not the period of `formulations.interleaving`: a slot without a job is not waited
# for, and of four jobs the recurrence often stops before it is steady, up to 29 % too early.
# Source: Zhao et al., "Multi-resource interleaving for deep learning training", SIGCOMM 2022, its
# published artifact.
Stages: TypeAlias = tuple[int, int, int]
Kinds: TypeAlias = tuple[int, ...]

MOST = 4
"""Jobs that may share a place."""

MOST_KNOWN = 1_000_000

CONTENTION = {2: 1330, 3: 1500, 4: 1370}
"""Thousandths by which a period of so many jobs is longer, over `STRETCH`."""

_SLOTS = 4
_TURNS = 2


def muri_period(jobs: Sequence[Stages]) -> int:
    """Return the period of two to four jobs without contention, in microseconds."""
    period = min(_in_turn(order) for order in permutations(jobs))
    if len(jobs) == 2:
        (first, *others), (second, *rest) = jobs
        period = min(period, max(first, sum(rest)) + max(second, sum(others)))
    return period


def _in_turn(order: Sequence[Stages]) -> int:
    slots = [*order, *[None] * (_SLOTS - len(order))]
    f = [0] * (_TURNS * _SLOTS + 1)
    for s in range(_TURNS * _SLOTS):
        ends = [0]
        if (job := slots[(s + 1) % _SLOTS]) is not None:
            ends.append(f[s] + job[2])
        if (job := slots[(s + 2) % _SLOTS]) is not None:
            ends.append(f[s] + job[1])
        if s and (job := slots[(s + 3) % _SLOTS]) is not None:
            ends.append(f[s - 1] + job[0])
        f[s + 1] = max(ends)
        if s >= _SLOTS:
            period, before = f[s + 1] - f[s - 3], f[s] - f[s - 4]
            if period > 0 and 1000 * abs(period - before) <= max(period, before):
                return period
    return f[-1] - f[-1 - _SLOTS]


class GroupSpeeds:
    """Speeds and worth of groups of jobs of a trace; each combination of kinds of jobs once.

    `kind`: per job; jobs of one kind have the same stages. `exchanges`: of two groups by the kinds
    of their jobs, which two to exchange; None: none.
    """

    def __init__(self, trace: Trace) -> None:
        columns = np.stack([trace.extra[name] for name in STAGES], axis=1).astype(np.int64)
        kinds, kind = np.unique(columns, axis=0, return_inverse=True)
        self.kind: list[int] = kind.reshape(-1).tolist()
        self._iterations: list[int] = kinds[:, 0].tolist()
        self._stages: list[Stages] = [tuple(row) for row in kinds[:, 1:].tolist()]
        self._periods: dict[Kinds, int] = {}
        self._throughputs: dict[Kinds, int] = {}
        self.exchanges: dict[tuple[Kinds, Kinds], tuple[int, int] | None] = {}

    def forget(self) -> None:
        """Forget what is known of combinations once it takes much memory."""
        for known in (self._periods, self._throughputs, self.exchanges):
            if len(known) > MOST_KNOWN:
                known.clear()

    def kinds(self, jobs: Sequence[int]) -> Kinds:
        """Return the kinds of the jobs of a group."""
        return tuple([self.kind[job] for job in jobs])

    def speeds(self, jobs: Sequence[int]) -> tuple[int, ...]:
        """Return the speed of each job of a group, in millionths."""
        return self._speeds(self.kinds(jobs))

    def throughput(self, jobs: Sequence[int]) -> int:
        """Return the sum of the speeds."""
        key = self._key(jobs)
        if key not in self._throughputs:
            self._throughputs[key] = sum(self._speeds(key))
        return self._throughputs[key]

    def use(self, jobs: Sequence[int]) -> int:
        """Return how much of four resources a group uses, in millionths of a place."""
        key = self._key(jobs)
        busy = sum(sum(self._stages[kind]) for kind in key)
        return 1000 * FULL_SPEED * busy // (_SLOTS * self._period(key))

    def _key(self, jobs: Sequence[int]) -> Kinds:
        return tuple(sorted(self.kinds(jobs)))

    def _speeds(self, kinds: Sequence[int]) -> tuple[int, ...]:
        if len(kinds) == 1:
            return (FULL_SPEED,)
        period = self._period(tuple(sorted(kinds)))
        return tuple(
            max(1, FULL_SPEED * self._iterations[kind] * STRETCH // period) for kind in kinds
        )

    def _period(self, key: Kinds) -> int:
        """Return the period with contention, in nanoseconds."""
        if key not in self._periods:
            period = muri_period([self._stages[kind] for kind in key])
            factor = 1000 * CONTENTION[len(key)]
            self._periods[key] = max(1, -(-period * factor // STRETCH))
        return self._periods[key]


# Which jobs share a place: candidates by a walk of the order, then pairs of groups are merged.
#
# Ours merges the best pairs first and lets groups exchange jobs; Muri's merges those of a matching.
#
# The work of a decision of ours is bounded, however many jobs there are: each of its four passes
# looks at no more than `PAIRS` pairs of groups to merge, those nearest in the order, and in each
# size as many to exchange jobs; where a size has more than `MANY_KINDS` kinds of jobs, the speeds
# of which are computed anew again and again, it merges by `FEW_PAIRS`, and no jobs are exchanged.
# Source: Zhao et al., "Multi-resource interleaving for deep learning training", SIGCOMM 2022,
# section 4.2: groups grow by rounds of maximum-weight matching.
Jobs: TypeAlias = tuple[int, ...]
Buckets: TypeAlias = dict[int, list[Jobs]]
"""Groups by their number of GPUs."""

Worth: TypeAlias = Callable[[Jobs], int]

PAIRS, FEW_PAIRS = 100_000, 1_000
MANY_KINDS = 16
"""Four of so many kinds are 3,876 combinations, whose speeds are soon known."""


def candidates(order: Sequence[int], gpus: Sequence[int], empty: HostLedger) -> Buckets:
    """Return who may run: each job that finds a place brings the next of its size, up to four.

    `order`: the jobs, most urgent first. `gpus`: GPUs of each job. `empty`: a ledger in which
    nothing runs; its GPUs are taken.
    """
    by_size: dict[int, list[int]] = {}
    for job in order:
        by_size.setdefault(gpus[job], []).append(job)
    chosen = dict.fromkeys(by_size, 0)
    number = dict.fromkeys(by_size, 0)
    for job in order:
        size = gpus[job]
        number[size] += 1
        if number[size] <= chosen[size]:
            continue
        place = empty.find(size)
        if place is not None:
            empty.take(place)
            chosen[size] = min(chosen[size] + MOST, len(by_size[size]))
    return {size: [(job,) for job in jobs[: chosen[size]]] for size, jobs in by_size.items()}


def merged(buckets: Buckets, speeds: GroupSpeeds, gpus: int, *, best_first: bool) -> list[Jobs]:
    """Merge pairs of groups until what is left fits on so many GPUs, as far as that is possible.

    A group that is slower than its jobs one after the other is no group.

    `best_first`: pairs are merged in the order of their worth, which is the sum of their speeds,
    and then groups exchange jobs; else pairs are those of a matching, are merged in the order of
    the jobs, and are worth what they use of the resources.
    """
    kinds = (len(set(map(speeds.kinds, groups))) for groups in buckets.values())
    most = PAIRS if max(kinds, default=0) <= MANY_KINDS else FEW_PAIRS
    need = sum(size * len(groups) for size, groups in buckets.items())
    for _ in range(MOST):
        if need <= gpus:
            break
        window = max(1, most // sum(map(len, buckets.values())))
        pairs = [
            (speeds.throughput(groups[first] + groups[second]), size, first, second)
            for size, groups in buckets.items()
            for first, second in (
                best_pairs(groups, speeds.throughput, speeds.kinds, window)
                if best_first
                else matching(groups, speeds.use)
            )
        ]
        if best_first:
            pairs.sort(key=lambda entry: (-entry[0], *entry[1:]))
        merges: dict[int, dict[int, int]] = {size: {} for size in buckets}
        for _, size, first, second in pairs:
            if need <= gpus:
                break
            merges[size][second] = first
            need -= size
        buckets = {size: _merge(groups, merges[size]) for size, groups in buckets.items()}
        if best_first and most == PAIRS:
            buckets = {size: exchanged(groups, speeds, PAIRS) for size, groups in buckets.items()}
    found = [group for groups in buckets.values() for group in groups]
    return [part for group in found for part in _parts(group, speeds)]


def best_pairs(
    groups: Sequence[Jobs],
    worth: Worth,
    alike: Callable[[Jobs], Hashable],
    window: int,
) -> list[tuple[int, int]]:
    """Return pairs of groups, the one of most worth first, then the best of the others, and so on.

    Of pairs of equal worth the nearest in the order come first. Groups with the same `alike` are
    worth the same; pairs further from each other than `window` are not looked at.
    """
    count = len(groups)
    number: dict[Hashable, int] = {}
    kind = np.array([number.setdefault(alike(group), len(number)) for group in groups], np.int64)
    size = np.array(list(map(len, groups)), np.int64)
    steps = np.arange(1, min(window, count - 1) + 1)
    first, second = np.repeat(np.arange(count), len(steps)), np.add.outer(np.arange(count), steps)
    second = second.ravel()
    able = second < count
    first, second = first[able], second[able]
    able = size[first] + size[second] <= MOST
    first, second = first[able], second[able]
    _, one, which = np.unique(
        kind[first] * len(number) + kind[second], return_index=True, return_inverse=True
    )
    each = [worth(groups[a] + groups[b]) for a, b in zip(first[one], second[one], strict=True)]
    worths = np.array(each, np.int64)[which]
    order = np.lexsort((first, second - first, -worths))
    free, found = set(range(count)), []
    for a, b in zip(first[order].tolist(), second[order].tolist(), strict=True):
        if a in free and b in free:
            free -= {a, b}
            found.append((a, b))
    return found


def matching(groups: Sequence[Jobs], worth: Worth) -> list[tuple[int, int]]:
    """Return pairs of groups of together most worth, by their later members.

    Jobs of one model are alike, so that many matchings are worth the same; of these the pairs are
    taken that are nearest in the order, by the sum of the squares.
    """
    scale = len(groups) ** 3
    graph: nx.Graph[int] = nx.Graph()
    graph.add_weighted_edges_from(
        (first, second, scale * worth(groups[first] + groups[second]) - (second - first) ** 2)
        for second in range(len(groups))
        for first in range(second)
        if len(groups[first]) + len(groups[second]) <= MOST
    )
    pairs = [(min(pair), max(pair)) for pair in nx.max_weight_matching(graph)]
    return sorted(pairs, key=lambda pair: pair[1])


def exchanged(groups: Sequence[Jobs], speeds: GroupSpeeds, pairs: int) -> list[Jobs]:
    """Let two groups exchange two jobs wherever that makes them faster, until it does nowhere.

    The sum of all speeds grows with each exchange, so that there is an end; it comes at the latest
    when so many pairs of groups have been looked at.
    """
    found = list(groups)
    kinds = list(map(speeds.kinds, found))
    changed = set(range(len(found)))
    while changed:
        before, changed = changed, set()
        for second in range(len(found)):
            for first in range(second):
                if before.isdisjoint((first, second)) and changed.isdisjoint((first, second)):
                    continue
                if not pairs:
                    return found
                pairs -= 1
                key = kinds[first], kinds[second]
                if key not in speeds.exchanges:
                    speeds.exchanges[key] = _exchange(found[first], found[second], speeds)
                better = speeds.exchanges[key]
                if better is not None:
                    a, b = better
                    one, other = list(found[first]), list(found[second])
                    one[a], other[b] = other[b], one[a]
                    found[first], found[second] = tuple(one), tuple(other)
                    kinds[first], kinds[second] = map(speeds.kinds, (one, other))
                    changed.update((first, second))
    return found


def _exchange(first: Jobs, second: Jobs, speeds: GroupSpeeds) -> tuple[int, int] | None:
    """Return which jobs to exchange so that two groups are fastest; None if none makes them so."""
    if len(first) == len(second) == 1:
        return None
    best, found = speeds.throughput(first) + speeds.throughput(second), None
    tried = set()
    for a, b in product(range(len(first)), range(len(second))):
        kinds = speeds.kind[first[a]], speeds.kind[second[b]]
        if kinds[0] == kinds[1] or kinds in tried:
            continue
        tried.add(kinds)
        one = (*first[:a], second[b], *first[a + 1 :])
        other = (*second[:b], first[a], *second[b + 1 :])
        sum_of_speeds = speeds.throughput(one) + speeds.throughput(other)
        if sum_of_speeds > best:
            best, found = sum_of_speeds, (a, b)
    return found


def _merge(groups: Sequence[Jobs], merges: dict[int, int]) -> list[Jobs]:
    gone = set(merges.values())
    return [
        groups[merges[number]] + group if number in merges else group
        for number, group in enumerate(groups)
        if number not in gone
    ]


def _parts(group: Jobs, speeds: GroupSpeeds) -> list[Jobs]:
    slower = len(group) > 1 and speeds.throughput(group) < FULL_SPEED
    return [(job,) for job in group] if slower else [group]


class GroupDecider(Decider):
    """Groups anew at each decision; groups are placed in the order of their first jobs.

    `policy`: order of the jobs, and which pairs are merged. `speeds`: how fast jobs are together.
    `places`: `free`: all groups are placed anew. `kept`: a group takes the place of the first of
    its jobs that runs, if no other group took it.
    """

    def __init__(self, policy: GroupPolicy, speeds: GroupSpeeds, places: Places) -> None:
        super().__init__()
        self._policy, self._speeds, self._places = policy, speeds, places

    def state(self) -> Any:
        """Return nothing: each decision begins with the jobs alive and where they run."""
        return None

    def restore(self, state: Any) -> None:
        """Take nothing over."""

    def arrive(self, loop: Loop, job: int) -> None:
        """Take note of nothing: jobs alive are those of the loop."""

    def shrink(self, loop: Loop, jobs: tuple[int, ...]) -> None:
        """Let the others go on at their speeds without the job that has ended."""
        for job, speed in zip(jobs, self._speeds.speeds(jobs), strict=True):
            loop.set_speed(job, speed)

    def decide(self, loop: Loop) -> None:
        """Form groups and place them."""
        self._speeds.forget()
        order = self._order(loop)
        ledger = loop.ledger
        ledger.clear()
        buckets = candidates(order, loop.gpus, ledger)
        best_first = self._policy.merges == "best"
        groups = merged(buckets, self._speeds, ledger.open_total, best_first=best_first)
        rank = {job: number for number, job in enumerate(order)}
        groups.sort(key=lambda group: min(map(rank.__getitem__, group)))
        ledger.clear()
        kept = self._kept(loop, groups) if self._places == "kept" else {}
        placed = []
        for group in groups:
            place = kept.get(group)
            if place is None:
                place = ledger.find(loop.gpus[group[0]])
                if place is None:
                    continue
                ledger.take(place)
            placed.append(Group(group, place, self._speeds.speeds(group)))
        loop.share_all(placed)

    def _order(self, loop: Loop) -> list[int]:
        jobs = np.fromiter(loop.alive, dtype=np.int64, count=len(loop.alive))
        columns = Columns(loop, jobs, self._policy.sees)
        order: list[int] = jobs[
            np.lexsort((jobs, -columns.gpus, self._policy.order(columns)))
        ].tolist()
        return order

    def _kept(self, loop: Loop, groups: list[Jobs]) -> dict[Jobs, Place]:
        """Return the places that groups keep, and take them: counted in their order, who fits."""
        free, kept, taken = loop.ledger.open_total, {}, set()
        for group in groups:
            gpus = loop.gpus[group[0]]
            if gpus > free:
                continue
            free -= gpus
            for job in group:
                holder = loop.together.get(job, (job,))[0]
                if job in loop.place and holder not in taken:
                    taken.add(holder)
                    kept[group] = loop.place[job]
                    loop.ledger.take(kept[group])
                    break
        return kept
