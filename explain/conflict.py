"""Conflicts: minimal sets of facts that keep a job from starting, by QuickXplain.

Of all conflicts the **preferred** one leaves out the last fact if any conflict does, then the one
before it, and so on. With facts in the order of their strata it needs the least lasting ones least.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from placewright.explain.facts.fact import Fact
from placewright.explain.minimal_subset import minimal_subset

MAX_SENTENCES = 8
"""Sentences of a conflict, beyond which no group falls apart."""

Blocked: TypeAlias = Callable[[Sequence[Fact]], bool | None]
"""Whether the job does not start where only some facts hold; None: that is not known."""

BlockedIn: TypeAlias = Callable[[Sequence[Fact], Sequence[Fact]], bool | None]
"""The same of a universe, all other facts of which do not hold."""


def preferred_conflict(facts: Sequence[Fact], blocked: Blocked) -> list[Fact]:
    """Return the preferred conflict of facts that together block.

    Parameters
    ----------
    facts
        In the order of preference.
    blocked
        Monotone. What is not known counts as not blocked: the facts that are returned block in any
        case; they are minimal and preferred if all was known.
    """
    return minimal_subset(facts, blocked) or []


def fall_apart(
    universe: Sequence[Fact], conflict: Sequence[Fact], blocked: BlockedIn
) -> tuple[list[Fact], list[Fact]]:
    """Return universe and conflict with groups fallen apart into parts that are all needed.

    A part is needed if all other parts and sentences without it do not block. So none is named in
    whose place another one would do, and no conflict has more than `MAX_SENTENCES` by that.

    Parameters
    ----------
    universe
        Facts in the order of preference.
    conflict
        A conflict of these facts.
    """
    universe, conflict = [*universe], [*conflict]
    waiting = [fact for fact in conflict if fact.partitions is not None]
    while waiting:
        whole = waiting.pop(0)
        for parts in whole.partitions(conflict) if whole.partitions is not None else ():
            finer = _replaced(universe, whole, parts)
            rest = [fact for fact in conflict if fact is not whole]
            named = [*parts] if len(parts) == 1 else _needed(finer, rest, parts, blocked)
            if named is not None:
                universe, conflict = finer, _replaced(conflict, whole, named)
                waiting += [part for part in named if part.partitions is not None]
                break
    return universe, conflict


def _needed(
    universe: Sequence[Fact], rest: Sequence[Fact], parts: Sequence[Fact], blocked: BlockedIn
) -> list[Fact] | None:
    """Return the parts that block with the rest if each of them is needed, else None."""
    found: list[Fact] = []

    def is_needed(part: Fact) -> bool:
        found.append(part)
        if len(rest) + len(found) > MAX_SENTENCES:
            return False
        others = [fact for fact in (*rest, *parts) if fact is not part]
        return blocked(universe, others) is False

    needed = minimal_subset(
        parts, lambda kept: blocked(universe, kept), background=rest, accepts=is_needed
    )
    return needed or None


def _replaced(facts: Sequence[Fact], whole: Fact, parts: Sequence[Fact]) -> list[Fact]:
    return [part for fact in facts for part in (parts if fact is whole else (fact,))]
