"""Packing equal hosts: nothing overflows, and patterns find what best fit misses."""

from __future__ import annotations

import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placewright.formulations.gang.heuristics.vector_packing import (
    best_fit_decreasing,
    pack_by_columns,
)
from placewright.formulations.gang.models.aggregate.host_columns import best_patterns
from placewright.formulations.session import Session
from placewright.solver import InProcess


def session(seconds: float = 30.0) -> Session:
    return Session(InProcess().solve, deadline=time.monotonic() + seconds)


def used(sizes: np.ndarray, chosen: np.ndarray, hosts: int) -> np.ndarray:
    total = np.zeros((hosts, sizes.shape[1]), dtype=np.int64)
    np.add.at(total, chosen[chosen >= 0], sizes[chosen >= 0])
    return total


ITEMS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 8), st.integers(0, 6)), min_size=1, max_size=14
)


@settings(max_examples=60)
@given(ITEMS, st.integers(1, 4))
def test_no_host_overflows_and_patterns_are_no_worse(
    items: list[tuple[int, int, int]], hosts: int
) -> None:
    sizes = np.array(items, dtype=np.int64)
    free = np.tile(np.array([4, 10, 8], dtype=np.int64), (hosts, 1))
    worth = sizes[:, 0] * 1000
    first = best_fit_decreasing(sizes, free)
    assert (used(sizes, first, hosts) <= free).all()
    again = pack_by_columns(session(), sizes, worth, first, free)
    assert (used(sizes, again, hosts) <= free).all()
    assert worth[again >= 0].sum() >= worth[first >= 0].sum()


def test_patterns_pair_what_best_fit_leaves_apart() -> None:
    """Cores 6 + 5 + 1 and 4 + 4 + 4 fill two hosts of 12; largest first, something stays out."""
    cores = [6, 5, 1, 4, 4, 4]
    sizes = np.array([(1, c) for c in cores], dtype=np.int64)
    free = np.array([[3, 12], [3, 12]], dtype=np.int64)
    worth = np.full(len(cores), 1000)
    start = np.array([0, 1, 0, 0, 1, -1])  # 6 + 4 + 1 and 5 + 4: no capacity for the last 4
    packed = pack_by_columns(session(), sizes, worth, start, free)
    assert (packed >= 0).all()
    assert (used(sizes, packed, 2) <= free).all()


@pytest.mark.parametrize("seed", range(30))
def test_the_beam_finds_the_best_pattern_of_a_small_host(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, (5, 3))
    price = rng.integers(1, 20, 5).astype(float)
    most, host = rng.integers(1, 4, 5), np.array([8, 9, 10])
    best = max(
        float(np.dot(price, count))
        for count in product(*(range(m + 1) for m in most))
        if (np.dot(count, sizes) <= host).all()
    )
    found = best_patterns(session(), sizes, most, price, host, 0.0)
    assert float(price @ found[0]) == pytest.approx(best)
    assert all((pattern @ sizes <= host).all() and (pattern <= most).all() for pattern in found)
    assert best_patterns(session(), sizes, most, price, host, best) == []
