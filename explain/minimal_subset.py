"""QuickXplain: a minimal subset that has a monotone property, the first items preferred.

References
----------
Junker, "QuickXplain: Preferred explanations and relaxations for over-constrained problems", AAAI
2004.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeVar

T = TypeVar("T")


def minimal_subset(
    items: Sequence[T],
    holds: Callable[[Sequence[T]], bool | None],
    *,
    background: Sequence[T] = (),
    accepts: Callable[[T], bool] = lambda _: True,
) -> list[T] | None:
    """Return a minimal subset that has a property with the background; all items together do.

    It leaves out the last item if any such subset does, then the one before it, and so on. For k of
    n items the property is asked of about k log(n/k) subsets.

    Parameters
    ----------
    items
        In the order of preference.
    holds
        Monotone: a set has the property if a part of it has. None, not known, counts as False.
    background
        Items that are in every set.
    accepts
        Asked of each item of the subset once it is found: if one is refused, the search ends and
        there is None.
    """

    def among(known: Sequence[T], added: Sequence[T], rest: Sequence[T]) -> list[T]:
        if added and holds(known):
            return []
        if len(rest) == 1:
            if not accepts(rest[0]):
                raise _RefusedError
            return [*rest]
        half = len(rest) // 2
        first, second = rest[:half], rest[half:]
        of_second = among([*known, *first], first, second)
        of_first = among([*known, *of_second], of_second, first)
        return [*of_first, *of_second]

    try:
        return [] if not items or holds(background) else among(background, (), items)
    except _RefusedError:
        return None


def up_to(most: int) -> Callable[[object], bool]:
    """Return what accepts so many items and refuses all further ones."""
    numbers = count(1)
    return lambda _: next(numbers) <= most


class _RefusedError(Exception):
    """An item of the subset is refused."""
