"""Prices in integers: scales that no sum overflows, and exact rounding."""

from __future__ import annotations

import numpy as np
import pytest

from placewright.solver.certify import (
    PRICE_BITS,
    SUM_BITS,
    overflow_safe_scale,
    round_to_integers,
)


@pytest.mark.parametrize("magnitude", [1e-9, 1.0, 1.5, 2.0**21, 2.0**21 + 1, 3e17, 2.0**60])
def test_scaled_sums_stay_within_their_bits_and_no_larger_scale_does(magnitude: float) -> None:
    scale = overflow_safe_scale(magnitude)
    assert scale & (scale - 1) == 0
    assert magnitude * scale <= 2.0**SUM_BITS
    assert scale == 1 << PRICE_BITS or 2 * magnitude * scale > 2.0**SUM_BITS


def test_what_exceeds_all_bits_is_not_scaled_at_all() -> None:
    assert overflow_safe_scale(2.0**80) == 1


def test_rounding_is_exact_beyond_64_bits() -> None:
    assert round_to_integers(np.array([2.0**80, -0.6, 2.5])).tolist() == [2**80, -1, 2]
    assert round_to_integers(np.array([3.2, 1e15]), np.int64).dtype == np.int64
