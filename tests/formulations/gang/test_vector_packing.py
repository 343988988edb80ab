"""Packing hosts by best fit decreasing: nothing overflows."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.formulations.gang.heuristics.vector_packing import best_fit_decreasing

ITEMS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 8), st.integers(0, 6)), min_size=1, max_size=14
)


@settings(max_examples=examples(day=15, nightly=60))
@given(ITEMS, st.integers(1, 4))
def test_no_host_overflows(items: list[tuple[int, int, int]], hosts: int) -> None:
    sizes = np.array(items, dtype=np.int64)
    free = np.tile(np.array([4, 10, 8], dtype=np.int64), (hosts, 1))
    chosen = best_fit_decreasing(sizes, free)
    used = np.zeros_like(free)
    np.add.at(used, chosen[chosen >= 0], sizes[chosen >= 0])
    assert (used <= free).all()
