"""Minimal correction sets, cheapest first, by implicit hitting sets.

A **correction** is a set of changes with which the job starts; it is minimal if it does with no
proper subset. Each set that does not suffice is grown to a maximal one: of what is then left out,
the **conflict**, every correction has a change. So only sets are tried that hit all conflicts known
so far, in order of cost.

References
----------
Reiter, "A theory of diagnosis from first principles", Artificial Intelligence 1987 (corrections are
the minimal hitting sets of conflicts). Davies and Bacchus, "Solving MAXSAT by solving a sequence of
simpler SAT instances", CP 2011 (implicit hitting sets). Liffiton et al., "Fast, flexible MUS
enumeration", Constraints 2016 (MARCO: a failing set is grown before it is used).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple, TypeAlias

MAX_CHANGES = 3
"""Changes of one correction, at most: larger ones are of no use to people."""

Changes: TypeAlias = frozenset[int]
Starts: TypeAlias = Callable[[Changes], bool | None]
"""Whether the job starts with some changes, by index; None if that is not known."""


class Correction(NamedTuple):
    """A set of changes with which the job starts.

    Parameters
    ----------
    changes
        Indices of the changes.
    cost
        The sum of their costs.
    proven
        Whether no proper subset suffices: False if that is not known of one.
    """

    changes: Changes
    cost: int
    proven: bool


def minimal_corrections(
    costs: Sequence[int],
    starts: Starts,
    *,
    most: int = MAX_CHANGES,
    hindering: Changes = frozenset(),
) -> Iterator[Correction]:
    """Yield all minimal corrections of up to `most` changes, cheapest first, then fewest changes.

    It asks whenever the next one is wanted, so that a caller who wants few pays for few.

    Parameters
    ----------
    costs
        Of each change, at least 1.
    starts
        Monotone: with more changes the job starts if it does with fewer, but for those that follow.
    hindering
        Changes that may also keep the job from starting. A set that does not suffice says something
        of those sets alone that have the same ones of them.

    Raises
    ------
    ValueError
        If a cost is below 1: the cheapest set would not have to be minimal.
    """
    for change, cost in enumerate(costs):
        if cost < 1:
            raise ValueError(f"cost {cost} of change {change}; expected at least 1")
    every = frozenset(range(len(costs)))
    if not hindering and starts(every) is False:
        return
    conflicts: list[tuple[Changes, Changes]] = []
    found: list[Changes] = []
    unknown: list[Changes] = []
    for cost, changes in _by_cost(costs, most):
        if any(known <= changes for known in found):
            continue
        same = changes & hindering
        if any(same == theirs and not changes & conflict for theirs, conflict in conflicts):
            continue
        answer = starts(changes)
        if answer is None:
            unknown.append(changes)
        elif answer:
            found.append(changes)
            proven = not any(smaller < changes for smaller in unknown)
            yield Correction(changes, cost, proven)
        else:
            grown = _grown(changes, every - hindering, starts)
            conflicts.append((same, every - hindering - grown))


def _by_cost(costs: Sequence[int], most: int) -> list[tuple[int, Changes]]:
    """Return all sets of up to `most` changes by their cost, then by their number."""
    sets = (
        (sum(costs[change] for change in changes), size, changes)
        for size in range(most + 1)
        for changes in combinations(range(len(costs)), size)
    )
    return [(cost, frozenset(changes)) for cost, _, changes in sorted(sets)]


def _grown(changes: Changes, every: Changes, starts: Starts) -> Changes:
    """Return a maximal set around one that does not suffice, of which that is known as well."""
    for change in sorted(every - changes):
        if starts(changes | {change}) is False:
            changes |= {change}
    return changes
