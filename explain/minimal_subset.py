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


def minimal_subset(items: Sequence[T], holds: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a minimal subset with a property that all items together have.

    It leaves out the last item if any such subset does, then the one before it, and so on. For k of
    n items the property is asked of about k log(n/k) subsets.

    Parameters
    ----------
    items
        In the order of preference.
    holds
        Monotone: a set has the property if a part of it has.
    """

    def among(background: Sequence[T], added: Sequence[T], rest: Sequence[T]) -> list[T]:
        if added and holds(background):
            return []
        if len(rest) == 1:
            return [*rest]
        half = len(rest) // 2
        first, second = rest[:half], rest[half:]
        of_second = among([*background, *first], first, second)
        of_first = among([*background, *of_second], of_second, first)
        return [*of_first, *of_second]

    return [] if not items or holds(()) else among((), (), items)
