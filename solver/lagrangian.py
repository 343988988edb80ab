"""Lagrangian prices in integer arithmetic: rounded and scaled so that no sum can overflow.

A Lagrangian bound is valid for any prices of the right sign (weak duality), so duals of a solver
may be rounded to multiples of 1 / scale, a power of two. All that follows is exact: neither the
solver nor floating point can make the bound wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from placewright.array_types import Floats

__all__ = ["PRICE_BITS", "SUM_BITS", "overflow_safe_scale", "round_to_integers"]

PRICE_BITS = 40
"""Largest number of binary digits behind the point of a price."""

SUM_BITS = 61
"""Largest number of binary digits of a sum in 64 bits, which leaves two for rounding and sign."""


def overflow_safe_scale(magnitude: float, bits: int = SUM_BITS) -> int:
    """Return the largest power of two by which sums up to `magnitude` stay below 2^bits.

    It is at least 1 and at most 2^PRICE_BITS. The magnitude, above 0, is that of the largest price
    or partial sum before scaling; prices that are rounded up may exceed it slightly.
    """
    return 1 << max(0, min(PRICE_BITS, bits - int(np.ceil(np.log2(magnitude)))))


def round_to_integers(values: Floats, dtype: npt.DTypeLike = object) -> npt.NDArray[Any]:
    """Return rounded values as exact integers, by default as Python's, which never overflow."""
    return np.array([int(value) for value in np.rint(values).tolist()], dtype=dtype)
