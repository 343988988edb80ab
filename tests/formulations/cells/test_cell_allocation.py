"""Cells of tenants as requests come and go: nothing inside a quota is refused."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from examples import examples
from placewright.formulations.cells.virtual_clusters import Allocator, Buddy, Grant
from placewright.topology.chain import Cell, Chain, claims_fit

SEQUENCES = examples(day=1_000, nightly=10_000)
REQUESTS = 25


def random_chain(random: Random) -> tuple[Chain, int]:
    """2 to 4 levels of 2 to 4 children, at most 64 innermost cells in all."""
    chain = Chain(tuple(random.choice((2, 2, 2, 3, 4)) for _ in range(random.randint(1, 3))))
    size = chain.ratio(chain.levels - 1, 0)
    return chain, random.randint(1, max(1, 32 // size))


def random_quotas(random: Random, chain: Chain, tops: int) -> dict[str, list[int]]:
    """Deal the trees to tenants, whole or split; sometimes a part is left to nobody."""
    quotas = {f"t{i}": [0] * chain.levels for i in range(random.randint(2, 4))}
    parts = [Cell(chain.levels - 1, i) for i in range(tops)]
    while parts:
        cell = parts.pop()
        if cell.level and random.random() < 0.6:
            parts += [Cell(cell.level - 1, i) for i in chain.inside(cell, cell.level - 1)]
        elif random.random() < 0.95:
            quotas[random.choice(sorted(quotas))][cell.level] += 1
    return quotas


def leaves(chain: Chain, cell: Cell) -> int:
    """The innermost cells of a cell, as bits."""
    inside = chain.inside(cell, 0)
    return (1 << inside.stop) - (1 << inside.start)


def cells_owned(chain: Chain, quota: list[int]) -> list[Cell]:
    """A cluster of a tenant's own: its cells in trees, one after the other."""
    owned, end = [], 0
    for level in reversed(range(chain.levels)):
        size = chain.ratio(level, 0)
        owned += [Cell(level, end // size + k) for k in range(quota[level])]
        end += quota[level] * size
    return owned


def fits(chain: Chain, owned: list[Cell], held: list[Grant], level: int) -> bool:
    """Whether some cell of this level, of those that a tenant owns, is wholly unused."""
    used = 0
    for grant in held:
        used |= leaves(chain, grant.virtual)
    return any(
        not used & leaves(chain, Cell(level, index))
        for root in owned
        if root.level >= level
        for index in chain.inside(root, level)
    )


def test_many_sequences_are_never_refused_inside_their_quota():
    random = Random(1)
    smaller = refused = 0
    for _ in range(SEQUENCES):
        chain, tops = random_chain(random)
        quotas = random_quotas(random, chain, tops)
        owned = {tenant: cells_owned(chain, quota) for tenant, quota in quotas.items()}
        cells = Allocator(chain, tops, quotas)
        held: dict[str, list[Grant]] = {tenant: [] for tenant in quotas}
        used = 0
        for _ in range(REQUESTS):
            tenant = random.choice(sorted(quotas))
            mine = held[tenant]
            if mine and random.random() < 0.35:
                grant = mine.pop(random.randrange(len(mine)))
                cells.give(grant)
                used ^= leaves(chain, grant.physical)
                continue
            level = random.choice((0, random.randrange(chain.levels)))
            inside = fits(chain, owned[tenant], mine, level)
            grant = cells.take(tenant, level)
            assert (grant is not None) == inside
            if grant is None:
                refused += 1
                continue
            assert grant.physical.level == level
            assert grant.physical.number < tops * chain.ratio(chain.levels - 1, level)
            assert not used & leaves(chain, grant.physical)
            used |= leaves(chain, grant.physical)
            smaller += quotas[tenant][level] == 0
            mine.append(grant)
    assert smaller > SEQUENCES
    assert refused > SEQUENCES  # the sequences do go beyond the quotas


def test_whatever_a_tenant_may_hold_at_once_is_granted_in_any_order():
    """Requests of a set that fits the quota cells, held or given back at will."""
    random = Random(2)
    for _ in range(examples(day=600, nightly=2_000)):
        chain, tops = random_chain(random)
        quotas = random_quotas(random, chain, tops)
        cells = Allocator(chain, tops, quotas)
        wanted: list[tuple[str, int]] = []
        for tenant, quota in quotas.items():
            plan = Buddy(chain, cells_owned(chain, quota))
            while sum(plan.maximal) and random.random() < 0.9:
                level = random.randrange(chain.levels)
                if plan.take(level) is not None:
                    wanted.append((tenant, level))
        held: list[tuple[int, Grant]] = []
        for _ in range(REQUESTS if wanted else 0):
            if held and random.random() < 0.4:
                cells.give(held.pop(random.randrange(len(held)))[1])
                continue
            waiting = sorted(set(range(len(wanted))) - {k for k, _ in held})
            if waiting:
                k = random.choice(waiting)
                grant = cells.take(*wanted[k])
                assert grant is not None
                held.append((k, grant))


def test_a_tenant_is_granted_just_what_a_cluster_of_its_own_would_grant():
    random = Random(3)
    for _ in range(1_000):
        chain, tops = random_chain(random)
        quotas = random_quotas(random, chain, tops)
        shared = Allocator(chain, tops, quotas)
        alone = {tenant: Buddy(chain, cells_owned(chain, q)) for tenant, q in quotas.items()}
        held: list[tuple[Grant, Cell]] = []
        for _ in range(REQUESTS):
            if held and random.random() < 0.4:
                grant, cell = held.pop(random.randrange(len(held)))
                shared.give(grant)
                alone[grant.tenant].give(cell)
                continue
            tenant, level = random.choice(sorted(quotas)), random.randrange(chain.levels)
            granted, own = shared.take(tenant, level), alone[tenant].take(level)
            assert (granted is None) == (own is None)
            if granted is not None and own is not None:
                held.append((granted, own))


def test_what_lies_in_a_virtual_cell_is_in_the_physical_cell_that_it_is_bound_to():
    chain = Chain((2, 2))
    cells = Allocator(chain, 2, {"a": [0, 0, 1], "b": [0, 2, 0]})
    small = cells.take("a", 0)
    other = cells.take("b", 1)
    pair = cells.take("a", 1)
    assert small is not None and other is not None and pair is not None
    assert cells.bound == {("a", Cell(2, 0)): Cell(2, 0), ("b", Cell(1, 0)): Cell(1, 2)}
    assert (small.physical, pair.physical) == (Cell(0, 0), Cell(1, 1))
    cells.give(small)
    assert ("a", Cell(2, 0)) in cells.bound
    cells.give(pair)
    assert set(cells.bound) == {("b", Cell(1, 0))}


def test_what_was_not_taken_cannot_be_given_back():
    chain = Chain((2,))
    cells = Allocator(chain, 1, {"a": [2, 0]})
    grant = cells.take("a", 0)
    assert grant is not None
    cells.give(grant)
    with pytest.raises(ValueError, match="expected a cell that was taken"):
        cells.give(grant)


def test_cells_beyond_the_trees_are_refused_at_once():
    # Level by level this passes: one cell of level 1, and two of level 0 by splitting it.
    with pytest.raises(ValueError, match="expected what 1 trees hold"):
        Allocator(Chain((2,)), 1, {"a": [0, 1], "b": [1, 0]})


def test_a_very_cell_is_taken_out_of_the_free_cell_around_it():
    buddy = Buddy(Chain((2, 2)), [Cell(2, 0), Cell(2, 1)])
    assert buddy.claim(Cell(0, 2))
    assert buddy.maximal == (1, 1, 1)
    assert not buddy.claim(Cell(1, 1))
    assert buddy.take(0) == Cell(0, 3)
    buddy.give(Cell(0, 2))
    assert buddy.maximal == (1, 1, 1)
    buddy.give(Cell(0, 3))
    assert buddy.maximal == (0, 0, 2)


def test_of_equally_small_cells_the_cheapest_is_taken():
    costs = {Cell(1, 0): 2, Cell(1, 1): 1, Cell(0, 2): 1, Cell(0, 3): 0}
    buddy = Buddy(Chain((2,)), [Cell(1, 0), Cell(1, 1)])
    assert buddy.take(0, lambda cell: costs[cell]) == Cell(0, 3)
    assert buddy.take(0, lambda cell: costs[cell]) == Cell(0, 2)


def packs(chain: Chain, claims: tuple[int, ...], free: tuple[int, ...]) -> bool:
    """Brute force: put the claims one by one into every free cell that is large enough."""
    wanted = next((level for level in range(chain.levels) if claims[level]), None)
    if wanted is None:
        return True
    left = tuple(n - (level == wanted) for level, n in enumerate(claims))
    for level in range(wanted, chain.levels):
        if free[level]:
            rest = list(free)
            rest[level] -= 1
            for below in range(wanted, level):
                rest[below] += chain.children[below] - 1
            if packs(chain, left, tuple(rest)):
                return True
    return False


def small_cases():
    for children in ((2,), (3,), (2, 2), (3, 2)):
        chain = Chain(children)
        for claims in product(range(4), repeat=chain.levels):
            for free in product(range(3), repeat=chain.levels):
                yield chain, claims, free


def test_the_rows_say_exactly_which_claims_fit():
    for chain, claims, free in small_cases():
        assert claims_fit(chain, claims, free) == packs(chain, claims, free)


def test_comparing_levels_one_by_one_passes_claims_that_do_not_fit():
    """Free cells of a level, those in larger ones included, against the claims of that level."""
    passed = []
    for chain, claims, free in small_cases():
        by_level = all(
            claims[level] <= sum(chain.ratio(m, level) * free[m] for m in range(level, len(free)))
            for level in range(chain.levels)
        )
        if by_level and not packs(chain, claims, free):
            passed.append((chain.children, claims, free))
    assert ((2,), (1, 1), (0, 1)) in passed
    assert len(passed) > 400
