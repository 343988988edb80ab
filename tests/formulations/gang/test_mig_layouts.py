"""The states of a GPU that is cut into MIG slices, and the sets of slices that it can take."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.formulations.gang.problem.gpu_parts import (
    FREE,
    Layouts,
    mask_of,
    maximal_slice_sets,
    num_fitting_slices,
    slice_starts,
)
from placewright.topology.mig import SLICES

KINDS = range(len(SLICES))
ONE, MEDIA, DOUBLE, TWO, THREE, FOUR, SEVEN = KINDS
NONE = (0,) * len(SLICES)


def came(*kinds: int) -> tuple[int, ...]:
    return tuple(sum(k == kind for k in kinds) for kind in KINDS)


def possible(taken: int, kinds: tuple[int, ...]) -> bool:
    """Whether slices of these kinds fit beside what is taken, by trying all places."""
    for starts in product(*(SLICES[kind].starts for kind in kinds)):
        masks = [mask_of(kind, start) for kind, start in zip(kinds, starts, strict=True)]
        if all(a & b == 0 for i, a in enumerate([taken, *masks]) for b in masks[i:]):
            return True
    return False


@settings(max_examples=examples(day=37, nightly=150))
@given(st.integers(0, 511), st.lists(st.sampled_from(KINDS), max_size=4))
def test_places_are_found_exactly_where_there_are_some(taken: int, kinds: list[int]) -> None:
    found = slice_starts(taken, came(*kinds))
    assert (found is not None) == possible(taken, tuple(kinds))
    if found is not None:
        assert sorted(kind for kind, _ in found) == sorted(kinds)
        masks = [mask_of(kind, start) for kind, start in found]
        assert sum(masks) + taken == int(np.bitwise_or.reduce([taken, *masks]))


def test_the_sets_of_slices_of_a_free_gpu_are_those_that_nothing_can_join() -> None:
    kinds = (ONE, TWO, THREE, FOUR)
    sets = maximal_slice_sets(0, kinds)
    assert came(FOUR, THREE) in sets
    assert came(THREE, THREE) in sets
    assert came(TWO, TWO, TWO, ONE) in sets
    assert came(*[ONE] * 7) in sets
    assert came(FOUR, TWO) not in sets
    for one in sets:
        assert all(num_fitting_slices(0, one, kind) == 0 for kind in kinds)


@pytest.mark.parametrize(
    ("taken", "kind", "fitting"),
    [(0, ONE, 7), (0, MEDIA, 1), (0, DOUBLE, 4), (0, TWO, 3), (0, THREE, 2), (0, FOUR, 1),
     (0, SEVEN, 1), (mask_of(ONE, 3), FOUR, 0), (mask_of(ONE, 3), THREE, 1),
     (mask_of(ONE, 6), TWO, 3), (mask_of(MEDIA, 0), MEDIA, 0)],
)  # fmt: skip
def test_how_many_slices_of_one_kind_fit(taken: int, kind: int, fitting: int) -> None:
    assert num_fitting_slices(taken, NONE, kind) == fitting


def test_the_order_in_which_slices_come_does_not_matter() -> None:
    layouts = Layouts()
    wanted = [ONE, ONE, DOUBLE, DOUBLE, DOUBLE]
    for order in (wanted, wanted[::-1]):
        layout = FREE
        for kind in order:
            assert layouts.fits(layout, kind, None)
            layout = layouts.after(layout, kind, None, 1)
        assert sorted(kind for kind, _ in layouts.starts(layout)) == sorted(wanted)
        assert layouts.num_fitting[layout].sum() == 0


def test_an_arrival_leaves_when_a_stopped_slice_returns_to_its_place() -> None:
    layouts = Layouts()
    home = layouts.after(FREE, THREE, 4, 1)
    assert not layouts.fits(home, SEVEN, None)
    assert layouts.fits(home, FOUR, None)
    away = layouts.after(home, THREE, 4, -1)
    assert away == FREE
    beside = layouts.after(FREE, ONE, None, 1)
    assert layouts.fits(beside, THREE, 4)
    assert layouts.after(layouts.after(beside, THREE, 4, 1), ONE, None, -1) == home
    filled = layouts.after(layouts.after(FREE, THREE, None, 1), THREE, None, 1)
    assert not layouts.fits(filled, THREE, 4)


def test_masks_of_what_runs_are_layouts() -> None:
    layouts = Layouts()
    masks = np.array([0, mask_of(ONE, 3), 0, mask_of(THREE, 4)], dtype=np.int16)
    numbers = layouts.of_masks(masks)
    assert numbers[0] == numbers[2] == FREE
    assert [layouts.mask(n) for n in numbers.tolist()] == masks.tolist()
