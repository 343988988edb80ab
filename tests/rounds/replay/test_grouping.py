"""Who shares a place: matchings beside brute force, candidates and merges by hand."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np

from placewright.rounds.replay.book import HostLedger
from placewright.rounds.replay.group_decider import (
    GroupSpeeds,
    Jobs,
    best_pairs,
    candidates,
    exchanged,
    matching,
    merged,
)
from tests.support.replay_traces import staged_trace


def matchings(left: list[int]) -> Iterator[list[tuple[int, int]]]:
    """Yield all sets of disjoint pairs."""
    if not left:
        yield []
        return
    first, *others = left
    yield from matchings(others)
    for other in others:
        for rest in matchings([number for number in others if number != other]):
            yield [(first, other), *rest]


def test_matching_is_the_best_of_all_and_the_nearest_of_these() -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        size = int(rng.integers(1, 7))
        groups: list[Jobs] = [tuple(range(int(rng.integers(1, 4)))) for _ in range(size)]
        table = rng.integers(1, 4, (size, size))
        numbered: list[Jobs] = [(number,) + (0,) * (len(g) - 1) for number, g in enumerate(groups)]

        def worth(jobs: Jobs, table: np.ndarray = table, numbered: list[Jobs] = numbered) -> int:
            split = next(
                (a, b)
                for a, g in enumerate(numbered)
                for b, h in enumerate(numbered)
                if a < b and g + h == jobs
            )
            return int(table[split])

        def score(pairs: list[tuple[int, int]], table: np.ndarray = table) -> tuple[int, int]:
            return sum(int(table[pair]) for pair in pairs), -sum((b - a) ** 2 for a, b in pairs)

        able = [
            pairs
            for pairs in matchings(list(range(size)))
            if all(len(groups[a]) + len(groups[b]) <= 4 for a, b in pairs)
        ]
        found = matching(numbered, worth)
        assert score(found) == max(map(score, able))
        assert found == sorted(found, key=lambda pair: pair[1])


def test_best_pairs_are_taken_one_by_one() -> None:
    table = {(0, 1): 5, (0, 2): 7, (0, 3): 7, (1, 2): 9, (1, 3): 2, (2, 3): 9}
    groups: list[Jobs] = [(0,), (1,), (2,), (3,)]
    # Pairs 1, 2 and 2, 3 are worth the same, and as near; then 0 and 3 are left.
    found = best_pairs(groups, lambda jobs: table[jobs[0], jobs[1]], tuple, 3)
    assert found == [(1, 2), (0, 3)]
    large: list[Jobs] = [(0, 4, 5), (1,), (2, 6)]
    assert best_pairs(large, len, len, 3) == [(0, 1)]


def test_who_finds_a_place_brings_the_next_of_its_size() -> None:
    order = [0, 1, 2, 3, 4, 5, 6]
    gpus = [2, 4, 2, 2, 2, 2, 4]
    # Jobs 0 and 1 take all six GPUs: job 0 brings 2, 3, 4; job 1 brings 6; job 5 finds no place.
    found = candidates(order, gpus, HostLedger([2, 4]))
    assert found == {2: [(0,), (2,), (3,), (4,)], 4: [(1,), (6,)]}


def test_no_groups_where_all_fit() -> None:
    trace = staged_trace(*[(0, 1, 10, (1, 1, 1))] * 4)
    for best_first in (False, True):
        groups = merged({1: [(0,), (1,), (2,), (3,)]}, GroupSpeeds(trace), 4, best_first=best_first)
        assert groups == [(0,), (1,), (2,), (3,)]


def test_the_pair_that_is_fastest_is_merged_first() -> None:
    # Jobs 0 and 1 are slow together, they use the same resource; jobs 2 and 3 take turns.
    trace = staged_trace(
        (0, 1, 10, (1, 9, 1)), (0, 1, 10, (1, 9, 1)), (0, 2, 10, (1, 5, 1)), (0, 2, 10, (5, 1, 1))
    )
    buckets: dict[int, list[Jobs]] = {1: [(0,), (1,)], 2: [(2,), (3,)]}
    assert merged(buckets, GroupSpeeds(trace), 4, best_first=True) == [(0,), (1,), (2, 3)]


def test_jobs_that_are_slower_together_stay_apart() -> None:
    trace = staged_trace(*[(0, 1, 10, (0, 9, 0))] * 4)
    for best_first in (False, True):
        groups = merged({1: [(0,), (1,)]}, GroupSpeeds(trace), 1, best_first=best_first)
        assert groups == [(0,), (1,)]


def test_groups_exchange_jobs_until_that_makes_none_faster() -> None:
    rng = np.random.default_rng(9)
    gained = 0
    for _ in range(40):
        kinds = [tuple(row) for row in rng.integers(0, 60, (5, 3)).tolist()]
        jobs = int(rng.integers(1, 13))
        trace = staged_trace(*[(0, 1, 10, kinds[int(rng.integers(5))]) for _ in range(jobs)])
        if not trace.extra["iteration_us"].all():
            continue
        speeds = GroupSpeeds(trace)
        cuts = np.cumsum(rng.integers(1, 5, jobs))
        parts = np.split(np.arange(jobs), cuts[cuts < jobs])
        before: list[Jobs] = [tuple(part.tolist()) for part in parts]
        after = exchanged(before, speeds, 10_000)
        assert sorted(job for group in after for job in group) == list(range(jobs))
        assert list(map(len, after)) == list(map(len, before))
        least = sum(map(speeds.throughput, after))
        gained += least > sum(map(speeds.throughput, before))
        for a, b in combinations(range(len(after)), 2):
            for i, k in product(range(len(after[a])), range(len(after[b]))):
                one, other = list(after[a]), list(after[b])
                one[i], other[k] = other[k], one[i]
                pair = speeds.throughput(after[a]) + speeds.throughput(after[b])
                assert speeds.throughput(one) + speeds.throughput(other) <= pair
    assert gained > 10


def test_groups_grow_to_four() -> None:
    trace = staged_trace(*[(0, 1, 10, (1, 1, 1))] * 5)
    for best_first in (False, True):
        groups = merged(
            {1: [(job,) for job in range(5)]}, GroupSpeeds(trace), 1, best_first=best_first
        )
        assert sorted(map(len, groups)) == [1, 4]
