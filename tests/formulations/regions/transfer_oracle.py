"""How many GiB can be copied at most where links are so fast that time does not matter."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import permutations

from placewright.formulations.common.wan.arrays import Wan

Replica = tuple[int, int]


def most(wan: Wan, creates: list[Replica], drops: list[Replica]) -> int:
    """Return the GiB of the copies of the best order, ways and drops, by trying all of them."""
    count = len(wan.regions)
    links = [(a, b) for a in range(count) for b in range(count) if wan.budget[a, b]]
    there = (wan.holds | wan.arriving).T @ wan.size
    limit = [max(int(s), int(u)) for s, u in zip(wan.storage, there, strict=True)]

    @cache
    def best(held: frozenset[Replica], left: tuple[int, ...], todo: frozenset[Replica]) -> int:
        found = 0
        for d, r in todo:
            if (d, r) in held:  # a drop
                if any(e == d and s != r for e, s in held):
                    found = max(found, best(held - {(d, r)}, left, todo - {(d, r)}))
                continue
            size = int(wan.size[d])
            if sum(int(wan.size[e]) for e, s in held if s == r) + size > limit[r]:
                continue
            for after in set(_ways(wan, links, left, size, _paths(wan, links, held, d, r))):
                made = best(held | {(d, r)}, after, todo - {(d, r)})
                found = max(found, size + made)
        return found

    held = {(int(d), int(r)) for d, r in zip(*(wan.holds | wan.arriving).nonzero(), strict=True)}
    return best(
        frozenset(held), tuple(int(wan.budget[link]) for link in links), frozenset(creates + drops)
    )


def _paths(
    wan: Wan, links: list[Replica], held: frozenset[Replica], dataset: int, target: int
) -> list[list[int]]:
    """Return all paths to a region from one with the dataset, as positions of their links."""
    may = [r for r in range(len(wan.regions)) if wan.may_hold[dataset, r]]
    found = []
    for length in range(1, len(may)):
        for path in permutations(may, length):
            hops = list(zip(path, (*path[1:], target), strict=True))
            if target not in path and (dataset, path[0]) in held and set(hops) <= set(links):
                found.append([links.index(hop) for hop in hops])
    return found


def _ways(
    wan: Wan, links: list[Replica], left: tuple[int, ...], gib: int, paths: list[list[int]]
) -> Iterator[tuple[int, ...]]:
    """Yield what budgets leave after each way to split so many GiB over paths."""
    if not gib:
        yield left
        return
    if not paths:
        return
    first, *others = paths
    for part in range(min(gib, *(left[i] for i in first)) + 1):
        after = tuple(room - part * (i in first) for i, room in enumerate(left))
        yield from _ways(wan, links, after, gib - part, others)
