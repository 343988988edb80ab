"""The least amount of a change that suffices, by bisection."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Amount(NamedTuple):
    """An amount that suffices, and the largest one known not to: no less suffices if it is next."""

    least: int
    too_little: int

    @property
    def proven(self) -> bool:
        """Whether no smaller whole amount suffices."""
        return self.least - self.too_little == 1


def least_amount(too_little: int, enough: int, suffices: Callable[[int], bool | None]) -> Amount:
    """Return the least amount above `too_little` that suffices, up to `enough`, which does.

    Parameters
    ----------
    too_little, enough
        Amounts of which it is known that the first does not suffice, and the second does.
    suffices
        Monotone: an amount suffices if a smaller one does. None if that is not known; such an
        amount is not taken, and then the answer may not be proven to be the least.
    """
    known, low = too_little, too_little
    while enough - low > 1:
        middle = (low + enough) // 2
        answer = suffices(middle)
        if answer:
            enough = middle
        else:
            low = middle
            known = middle if answer is False else known
    return Amount(enough, known)
