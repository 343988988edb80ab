"""The knapsack over milli-GPU and memory that prices patterns of shares."""

from __future__ import annotations

from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from placewright.formulations.gang.models.aggregate.gpu_columns import unbounded_knapsack_2d


@settings(max_examples=80)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4), st.integers(0, 9)), max_size=4),
    st.integers(1, 9),
    st.integers(0, 6),
)
def test_the_table_has_the_best_multiset_within_each_pair_of_capacities(
    parts: list[tuple[int, int, int]], milli: int, memory: int
) -> None:
    @cache
    def best(u: int, m: int) -> int:
        return max((p + best(u - a, m - b) for a, b, p in parts if a <= u and b <= m), default=0)

    size, more, price = np.array(parts, dtype=np.int64).reshape(-1, 3).T
    for prices in (price[None].astype(np.float64), price[None].astype(object)):
        table, choice = unbounded_knapsack_2d(size, more, (milli, memory), prices)
        for u in range(milli + 1):
            for m in range(memory + 1):
                assert table[0, u, m] == best(u, m)
        worth, u, m = 0, milli, memory
        while (f := int(choice[0, u, m])) >= 0:
            worth, u, m = worth + int(price[f]), u - int(size[f]), m - int(more[f])
        assert worth == best(milli, memory)
        assert u >= 0
        assert m >= 0
