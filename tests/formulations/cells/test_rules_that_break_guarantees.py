"""What happens without the binding rule, and without buddy allocation."""

from __future__ import annotations

from random import Random

import pytest

from placewright.formulations.cells.virtual_clusters import Buddy
from placewright.topology.chain import Cell, Chain


class Unbound:
    """Quotas by virtual cells, physical cells by `pick`, and nothing that ties the two.

    `pick` gives one of the wholly free cells of a level, or None.
    """

    def __init__(self, chain, tops, quotas, pick):
        self.chain, self.tops, self.pick = chain, tops, pick
        self.used = set()
        self.virtual = {}
        for tenant, quota in quotas.items():
            roots, end = [], 0
            for level in reversed(range(chain.levels)):
                size = chain.ratio(level, 0)
                roots += [Cell(level, end // size + k) for k in range(quota[level])]
                end += quota[level] * size
            self.virtual[tenant] = Buddy(chain, roots)

    def take(self, tenant, level):
        """A virtual and a physical cell; None beyond the quota, `refused` inside it."""
        virtual = self.virtual[tenant].take(level)
        if virtual is None:
            return None
        free = [
            Cell(level, i)
            for i in range(self.tops * self.chain.ratio(self.chain.levels - 1, level))
            if self.free(Cell(level, i))
        ]
        physical = self.pick(self, free) if free else None
        if physical is None:
            return "refused"
        self.used |= set(self.chain.inside(physical, 0))
        return virtual, physical

    def give(self, tenant, grant):
        virtual, physical = grant
        self.virtual[tenant].give(virtual)
        self.used -= set(self.chain.inside(physical, 0))

    def free(self, cell):
        return self.used.isdisjoint(self.chain.inside(cell, 0))

    def largest_free(self, cell):
        """The level of the largest free cell around a free one."""
        level = cell.level
        while level + 1 < self.chain.levels and self.free(self.chain.above(cell, level + 1)):
            level += 1
        return level


def smallest(cells, free):
    """Buddy allocation: out of the smallest free cell that fits."""
    return min(free, key=lambda cell: (cells.largest_free(cell), cell.number))


def test_buddy_allocation_without_binding_refuses_a_request_inside_its_quota():
    # Two hosts of two GPUs, one for each tenant; both ask for single GPUs first.
    cells = Unbound(Chain((2,)), 2, {"a": [0, 1], "b": [0, 1]}, smallest)
    first, _, second, _ = (cells.take(tenant, 0) for tenant in "abab")
    cells.give("a", first)
    cells.give("a", second)
    # Tenant a holds nothing, b one host's worth, but on both hosts.
    assert cells.take("a", 1) == "refused"


def test_taking_any_free_cell_refuses_a_request_inside_its_quota():
    # Of a tree of two pairs a owns a pair and b two single GPUs; b's go where most is free.
    quotas = {"a": [0, 1, 0], "b": [2, 0, 0]}
    cells = Unbound(Chain((2, 2)), 1, quotas, lambda cells, free: max(free, key=cells.largest_free))
    assert [cells.take("b", 0)[1].number for _ in range(2)] == [0, 2]
    assert cells.take("a", 1) == "refused"


def level_by_level(cells, free):
    """Any cell that leaves every level as many free cells as are claimed of that level.

    The largest free ones are split first.
    """
    chain, top = cells.chain, cells.chain.levels - 1

    def leaves_enough(cell):
        taken = cells.used | set(chain.inside(cell, 0))
        left = [
            sum(
                taken.isdisjoint(chain.inside(Cell(level, i), 0))
                for i in range(cells.tops * chain.ratio(top, level))
            )
            for level in range(chain.levels)
        ]
        claims = [sum(v.maximal[level] for v in cells.virtual.values()) for level in range(top + 1)]
        return all(n >= m for n, m in zip(left, claims, strict=True))

    return max(filter(leaves_enough, free), key=cells.largest_free, default=None)


def test_enough_free_cells_of_every_level_refuse_a_request_inside_its_quota():
    # Two trees of two pairs: a owns a tree, b a pair, c two single GPUs.
    quotas = {"a": [0, 0, 1], "b": [0, 1, 0], "c": [2, 0, 0]}
    cells = Unbound(Chain((2, 2)), 2, quotas, level_by_level)
    # One GPU of each pair of a tree: what is left counts as two pairs by splitting the other tree.
    assert [cells.take("c", 0)[1].number for _ in range(2)] == [0, 2]
    assert cells.take("b", 1) == "refused"


def refusals(sequences, pick, *, whole):
    """How many random sequences end with a refusal inside a quota; `whole`: of quota cells only."""
    random = Random(7)
    refused = 0
    for _ in range(sequences):
        chain = Chain(tuple(random.choice((2, 2, 3)) for _ in range(random.randint(1, 2))))
        tops = random.randint(2, 4)
        quotas = {tenant: [0] * chain.levels for tenant in "ab"}
        parts = [Cell(chain.levels - 1, i) for i in range(tops)]
        while parts:
            cell = parts.pop()
            if cell.level and random.random() < 0.25:
                parts += [Cell(cell.level - 1, i) for i in chain.inside(cell, cell.level - 1)]
            else:
                quotas[random.choice("ab")][cell.level] += 1
        cells = Unbound(chain, tops, quotas, pick or (lambda _, free: random.choice(free)))
        left = {tenant: list(quota) for tenant, quota in quotas.items()}
        held = []
        for _ in range(60):
            if held and random.random() < 0.35:
                tenant, grant = held.pop(random.randrange(len(held)))
                left[tenant][grant[1].level] += 1
                cells.give(tenant, grant)
                continue
            tenant, level = random.choice("ab"), random.choice((0, random.randrange(chain.levels)))
            if whole and not left[tenant][level]:
                continue
            grant = cells.take(tenant, level)
            if grant == "refused":
                refused += 1
                break
            if grant is not None:
                left[tenant][level] -= 1
                held.append((tenant, grant))
    return refused


@pytest.mark.nightly
def test_sequences_of_random_search_break_every_rule_but_binding():
    # Taking any free cell fails even where all ask whole quota cells; buddies do not.
    assert refusals(2_000, None, whole=True) > 200
    assert refusals(2_000, smallest, whole=True) == 0
    # Requests smaller than what is owned break buddies that are not bound.
    assert refusals(2_000, smallest, whole=False) > 40
