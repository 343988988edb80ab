"""The verifier's period of a group: by definition, and as the formulation finds it."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.formulations.interleaving.problem.packing_problem import best_offsets
from placewright.instances.documents.sharing import Sharing
from placewright.instances.verify.rules.interleaving import period_of

SPANNING = Sharing(resources=("io+cpu", "gpu", "network"), spanning=True)


def least_sum(stages: list[tuple[int, ...]], offsets: tuple[int, ...]) -> int:
    """Try all lengths of the four slots."""
    most = max(map(max, stages)) + 1
    return min(
        sum(d)
        for d in product(range(most), repeat=4)
        if all(
            d[-o % 4] + d[(1 - o) % 4] >= first
            and d[(2 - o) % 4] >= second
            and d[(3 - o) % 4] >= third
            for (first, second, third), o in zip(stages, offsets, strict=True)
        )
    )


@settings(max_examples=examples(day=15, nightly=60))
@given(data=st.data())
def test_a_spanning_period_is_the_least_sum_of_slots_of_whole_lengths(data: st.DataObject) -> None:
    members = data.draw(st.integers(1, 4))
    stage = st.integers(0, 4)
    stages = [data.draw(st.tuples(stage, stage, stage)) for _ in range(members)]
    offsets = tuple(data.draw(st.permutations(range(4)))[:members])
    assert period_of(stages, offsets, SPANNING) == least_sum(stages, offsets)


@pytest.mark.parametrize("spanning", [False, True])
@pytest.mark.parametrize("members", [2, 3, 4])
def test_the_best_offsets_have_the_least_period_of_the_verifier(
    spanning: bool, members: int
) -> None:
    rng = np.random.default_rng(members)
    resources = 3 if spanning else 5
    sharing = SPANNING if spanning else Sharing(resources=tuple("abcde"))
    groups = rng.integers(0, 50, (60, members, resources)) * rng.integers(0, 2, (60, 1, resources))
    periods, offsets = best_offsets(groups.astype(np.int64), spanning=spanning)
    for stages, period, found in zip(
        groups.tolist(), periods.tolist(), offsets.tolist(), strict=True
    ):
        assert period_of(stages, found, sharing) == period
        orders = permutations(range(sharing.slots), members)
        assert min(period_of(stages, order, sharing) for order in orders) == period


def test_contention_is_rounded_up_and_not_for_one_job() -> None:
    sharing = Sharing(contention=(1_000_001, 1_500_000, 2_000_000))
    stages = [(1, 2, 3, 4)] * 4
    alone = [period_of(stages[:n], range(n), Sharing()) for n in (1, 2, 3, 4)]
    assert alone == [10, 13, 15, 16]
    assert [period_of(stages[:n], range(n), sharing) for n in (1, 2, 3, 4)] == [10, 14, 23, 32]
