"""Exchanges of slots between shapes: which there are, and the flow that they make."""

from __future__ import annotations

import numpy as np
import pytest

from placewright.formulations.gang.models.aggregate.host_columns import (
    exchangeable_slots,
    exchanged_slots,
)


def random_shapes(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = int(rng.integers(1, 12))
    return rng.integers(0, 4, (shapes, 3)), rng.random((shapes, 2)) < 0.7


def reachable(pairs: np.ndarray, shapes: int) -> np.ndarray:
    reach = np.eye(shapes, dtype=np.int64)
    reach[pairs[:, 0], pairs[:, 1]] = 1
    for _ in range(shapes):
        reach = np.minimum(reach @ reach, 1)
    return reach.astype(np.bool_)


@pytest.mark.parametrize("seed", range(30))
def test_pairs_lead_to_exactly_the_tasks_that_fit_a_slot(seed: int) -> None:
    sizes, allowed = random_shapes(seed)
    pairs = exchangeable_slots(sizes, allowed)
    fits = (sizes[:, None] >= sizes[None]).all(axis=2)
    fits &= (~allowed[:, None] | allowed[None]).all(axis=2)
    assert np.array_equal(reachable(pairs, len(sizes)), fits)


@pytest.mark.parametrize("seed", range(30))
def test_paths_change_slots_as_the_flow_does(seed: int) -> None:
    sizes, allowed = random_shapes(seed)
    pairs = exchangeable_slots(sizes, allowed)
    flow = np.random.default_rng(seed).integers(0, 5, len(pairs))
    gain = np.zeros(len(sizes), dtype=np.int64)
    np.add.at(gain, pairs[:, 0], -flow)
    np.add.at(gain, pairs[:, 1], flow)
    found = exchanged_slots(pairs, flow)
    lost = {slot for slot, _, _ in found}
    assert not lost & {task for _, task, _ in found}
    fits = reachable(pairs, len(sizes))
    for slot, task, number in found:
        assert number > 0
        assert fits[slot, task]
        gain[slot] += number
        gain[task] -= number
    assert not gain.any()
