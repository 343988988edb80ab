"""Jobs of a trace that are left out, counted by reason."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from placewright.array_types import Ints

NO_GPU = "asked no GPU"
NEVER_RAN = "never ran"
NOT_ENDED = "had not ended"
NO_TIME = "ran no time"
BACKWARDS = "ended before they began"


def rows_kept(
    count: int, reasons: Mapping[str, npt.NDArray[np.bool_]]
) -> tuple[Ints, dict[str, int]]:
    """Return the rows to which no reason applies, and how many each reason leaves out.

    A row to which several apply counts for the first of them.
    """
    keep = np.ones(count, dtype=np.bool_)
    left_out = {}
    for reason, applies in reasons.items():
        if number := int(np.count_nonzero(keep & applies)):
            left_out[reason] = number
        keep &= ~applies
    return np.flatnonzero(keep), left_out


def told(left_out: Mapping[str, int]) -> str:
    """Return in one clause how many jobs were left out, and why."""
    first, *others = (f"{number:,} that {reason}" for reason, number in left_out.items())
    return ", ".join([f"jobs left out: {first}", *others])
