"""QuickXplain: a minimal subset that has a monotone property, the first items preferred.

References
----------
Junker, "QuickXplain: Preferred explanations and relaxations for over-constrained problems", AAAI
2004.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def minimal_subset(
    items: Sequence[T], holds: Callable[[Sequence[T]], bool], most: int | None = None
) -> list[T] | None:
    """Return a minimal subset with a property that all items together have; None if it is large.

    It leaves out the last item if any such subset does, then the one before it, and so on. For k of
    n items the property is asked of about k log(n/k) subsets.

    Parameters
    ----------
    items
        In the order of preference.
    holds
        Monotone: a set has the property if a part of it has.
    most
        The largest subset of interest: the search for a larger one ends early.
    """
    needed = 0

    def among(background: Sequence[T], added: Sequence[T], rest: Sequence[T]) -> list[T]:
        if added and holds(background):
            return []
        if len(rest) == 1:
            nonlocal needed
            needed += 1
            if most is not None and needed > most:
                raise _LargeError
            return [*rest]
        half = len(rest) // 2
        first, second = rest[:half], rest[half:]
        of_second = among([*background, *first], first, second)
        of_first = among([*background, *of_second], of_second, first)
        return [*of_first, *of_second]

    try:
        return [] if not items or holds(()) else among((), (), items)
    except _LargeError:
        return None


class _LargeError(Exception):
    """More items are needed than are of interest."""
