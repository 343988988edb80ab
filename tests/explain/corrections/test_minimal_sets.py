"""Minimal correction sets and least amounts beside the enumeration of all."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from placewright.explain.corrections.change import Amount, least_amount
from placewright.explain.corrections.minimal_sets import Changes, Correction, minimal_corrections


def drawn(rng: Random) -> tuple[list[int], list[Changes]]:
    """Costs of up to 7 changes, and sets of which each alone lets the job start."""
    number = rng.randint(1, 7)
    sets = [
        frozenset(rng.sample(range(number), rng.randint(1, min(4, number))))
        for _ in range(rng.randint(0, 4))
    ]
    return [rng.randint(1, 5) for _ in range(number)], sets


def all_minimal(number: int, sets: list[Changes], most: int) -> set[Changes]:
    every = [
        frozenset(changes)
        for size in range(most + 1)
        for changes in combinations(range(number), size)
    ]
    enough = [changes for changes in every if any(one <= changes for one in sets)]
    return {one for one in enough if not any(other < one for other in enough)}


def test_all_minimal_corrections_are_found_cheapest_first() -> None:
    for seed in range(300):
        costs, sets = drawn(Random(seed))
        found = list(minimal_corrections(costs, lambda c, s=sets: any(one <= c for one in s)))
        assert {one.changes for one in found} == all_minimal(len(costs), sets, 3)
        assert all(one.cost == sum(costs[c] for c in one.changes) for one in found)
        assert [one.cost for one in found] == sorted(one.cost for one in found)
        assert all(one.proven for one in found)


def test_changes_that_may_hinder_are_tried_with_and_without_others() -> None:
    for seed in range(200):
        rng = Random(seed)
        costs, sets = drawn(rng)
        hindering = frozenset(rng.sample(range(len(costs)), rng.randint(1, min(2, len(costs)))))
        needs = {one: one & hindering for one in sets}

        def starts(
            changes: Changes, needs: dict[Changes, Changes] = needs, mixed: Changes = hindering
        ) -> bool:
            return any(one <= changes and changes & mixed == needs[one] for one in needs)

        found = {one.changes for one in minimal_corrections(costs, starts, hindering=hindering)}
        every = [
            frozenset(changes)
            for size in range(4)
            for changes in combinations(range(len(costs)), size)
            if starts(frozenset(changes))
        ]
        assert found == {one for one in every if not any(other < one for other in every)}


def test_what_is_not_known_makes_no_conflict_and_no_claim() -> None:
    """Of {0} nothing is known; {0, 1} starts the job, and may not be minimal."""

    def starts(changes: Changes) -> bool | None:
        return True if {0, 1} <= changes else None if 0 in changes else False

    assert list(minimal_corrections([1, 1], starts)) == [Correction(frozenset({0, 1}), 2, False)]


def test_a_failing_set_is_asked_once_for_all_of_its_subsets() -> None:
    """One change of ten is needed: the first question about the others is the last."""
    asked: list[Changes] = []

    def starts(changes: Changes) -> bool:
        asked.append(changes)
        return 9 in changes

    (one,) = minimal_corrections([1] * 10, starts)
    assert one.changes == {9}
    assert len(asked) == 13  # all, none, the ten by which none grows, the correction


def test_a_cost_below_one_is_an_error() -> None:
    with pytest.raises(ValueError, match="cost 0 of change 1; expected at least 1"):
        list(minimal_corrections([1, 0], lambda changes: True))


def test_the_least_amount_is_found_and_proven() -> None:
    for least in range(1, 20):
        assert least_amount(0, 19, lambda n, k=least: n >= k) == Amount(least, least - 1)


def test_an_amount_of_which_nothing_is_known_is_not_taken() -> None:
    found = least_amount(0, 16, lambda n: True if n >= 9 else None if n >= 5 else False)
    assert found.least == 9
    assert not found.proven
