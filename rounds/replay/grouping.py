"""Which jobs share a place: candidates by a walk of the order, then pairs of groups are merged.

Ours merges the best pairs first and lets groups exchange jobs; Muri's merges those of a matching.

The work of a decision of ours is bounded, however many jobs there are: each of its four passes
looks at no more than `PAIRS` pairs of groups to merge, those nearest in the order, and in each size
as many to exchange jobs; where a size has more than `MANY_KINDS` kinds of jobs, the speeds of which
are computed anew again and again, it merges by `FEW_PAIRS`, and no jobs are exchanged.

References
----------
Zhao et al., "Multi-resource interleaving for deep learning training", SIGCOMM 2022, section 4.2:
groups grow by rounds of maximum-weight matching.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import product
from typing import TypeAlias

import networkx as nx
import numpy as np

from placewright.instances.traces.trace import FULL_SPEED
from placewright.rounds.replay.group_speeds import MOST, GroupSpeeds
from placewright.rounds.replay.ledger import HostLedger

Jobs: TypeAlias = tuple[int, ...]
Buckets: TypeAlias = dict[int, list[Jobs]]
"""Groups by their number of GPUs."""

Worth: TypeAlias = Callable[[Jobs], int]

PAIRS, FEW_PAIRS = 100_000, 1_000
MANY_KINDS = 16
"""Four of so many kinds are 3,876 combinations, whose speeds are soon known."""


def candidates(order: Sequence[int], gpus: Sequence[int], empty: HostLedger) -> Buckets:
    """Return who may run: each job that finds a place brings the next of its size, up to four.

    Parameters
    ----------
    order
        The jobs, most urgent first.
    gpus
        GPUs of each job.
    empty
        A ledger in which nothing runs; its GPUs are taken.
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

    Parameters
    ----------
    best_first
        Pairs are merged in the order of their worth, which is the sum of their speeds, and then
        groups exchange jobs; else pairs are those of a matching, are merged in the order of the
        jobs, and are worth what they use of the resources.
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
