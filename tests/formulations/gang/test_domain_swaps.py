"""The search of swaps finds domains for items that are known to fit, and keeps its books."""

from __future__ import annotations

import time

import numpy as np
import pytest

from examples import by_day, examples
from placewright.array_types import Ints
from placewright.formulations.gang.heuristics.domain_swaps import DomainSwaps
from placewright.formulations.session import Session

SEEDS = by_day(range(20), 6)


def cut(rng: np.random.Generator, total: int, parts: int) -> Ints:
    """Return amounts of at least 1 that come to a total."""
    ends = np.sort(rng.choice(np.arange(1, total), parts - 1, replace=False))
    return np.diff(np.concatenate([[0], ends, [total]]))


def planted(rng: np.random.Generator, domains: int, parts: int) -> Ints:
    """Return items (items, 2) that use up domains of 64 and 400, in random order."""
    items = [np.stack([cut(rng, 64, parts), cut(rng, 400, parts)], axis=1) for _ in range(domains)]
    return rng.permutation(np.concatenate(items))


def swaps_of(
    demand: Ints, has: list[Ints], around: list[Ints], allowed: Ints | None = None
) -> DomainSwaps:
    """Return the search, all items dealt; `allowed` has the domains of each item."""
    everywhere = np.ones((len(demand), len(around[0])), dtype=np.bool_)
    swaps = DomainSwaps(
        demand,
        np.arange(len(demand)),
        everywhere if allowed is None else allowed.astype(np.bool_),
        np.zeros(len(demand), dtype=np.bool_),
        around,
        has,
        np.array([max(float(one.mean()), 1.0) for one in has]),
    )
    swaps.deal(list(np.arange(len(demand))[:, None]))
    return swaps


def session(gap: float = 0.0) -> Session:
    def unused(*_: object) -> None:
        raise AssertionError("the search of swaps has no model")

    return Session(solve=unused, deadline=time.monotonic() + 60, gap=gap)  # type: ignore[arg-type]


def lacks_of(demand: Ints, domain: Ints, has: list[Ints], around: list[Ints]) -> Ints:
    """Return by counting what each domain lacks of each resource."""
    columns = []
    for k, (one, of) in enumerate(zip(has, around, strict=True)):
        left = one.copy()
        np.subtract.at(left, of[domain], demand[:, k])
        columns.append(np.maximum(-left, 0)[of])
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("seed", by_day(SEEDS, 2))
def test_items_that_use_up_all_domains_find_their_place(seed: int) -> None:
    rng = np.random.default_rng(seed)
    domains = int(rng.integers(4, 20))
    demand = planted(rng, domains, int(rng.integers(8, 14)))
    here = np.arange(domains)
    has = [np.full(domains, 64), np.full(domains, 400)]
    swaps = swaps_of(demand, has, [here, here])
    before = swaps.excess()
    swaps.search(session())
    # Hardly any waste is left: at most one part in 1,000 of what there is.
    assert swaps.excess() <= min(before, domains / 500)
    assert (swaps.lacks() == lacks_of(demand, swaps.domain, has, [here, here])).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_items_stay_where_they_may_be(seed: int) -> None:
    rng = np.random.default_rng(seed)
    domains, number = 6, 40
    demand = rng.integers(1, 12, (number, 2))
    allowed = rng.random((number, domains)) < 0.5
    allowed[np.arange(number), rng.integers(domains, size=number)] = True
    here = np.arange(domains)
    has = [np.full(domains, 40), np.full(domains, 45)]
    swaps = swaps_of(demand, has, [here, here], allowed)
    swaps.search(session())
    assert allowed[np.arange(number), swaps.domain].all()
    assert (swaps.lacks() == lacks_of(demand, swaps.domain, has, [here, here])).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_domains_that_share_an_outer_one_take_of_it_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    domains = 8
    here, outer = np.arange(domains), np.arange(domains) // 4
    demand = np.stack([rng.integers(1, 9, 48), rng.integers(1, 7, 48)], axis=1)
    demand[:, 1] *= rng.random(48) < 0.7
    planted_in = rng.integers(domains, size=48)
    has = [np.bincount(planted_in, demand[:, 0], domains).astype(np.int64) + 1]
    has.append(np.bincount(outer[planted_in], demand[:, 1], 2).astype(np.int64) + 1)
    swaps = swaps_of(demand, has, [here, outer])
    swaps.search(session())
    assert swaps.excess() == 0
    assert not lacks_of(demand, swaps.domain, has, [here, outer]).any()


def test_items_that_are_too_many_end_with_what_lacks_least() -> None:
    demand = np.tile(np.array([[8, 50]]), (9, 1))
    here = np.arange(2)
    swaps = swaps_of(demand, [np.full(2, 32), np.full(2, 400)], [here, here])
    swaps.search(session())
    assert sorted(np.bincount(swaps.domain).tolist()) == [4, 5]
    assert swaps.excess() == pytest.approx(8 / 32)


def test_most_domains_may_lack_something() -> None:
    """Of ten domains nine get two large items, and the last one the small ones."""
    demand = np.array([[30, 30]] * 18 + [[2, 2]] * 12)
    here = np.arange(10)
    has = [np.array([59] * 9 + [90])] * 2
    swaps = swaps_of(demand, has, [here, here])
    for item, domain in enumerate([*np.repeat(here[:9], 2).tolist(), *[9] * 12]):
        swaps._move(item, domain)
    before = swaps.excess()
    swaps.search(session())
    assert before > swaps.excess()
    assert (swaps.lacks() == lacks_of(demand, swaps.domain, has, [here, here])).all()


def test_one_domain_and_no_room_anywhere_end_the_search() -> None:
    demand = np.array([[8, 50], [8, 50]])
    for has in ([np.array([8]), np.array([50])], [np.array([0]), np.array([0])]):
        swaps = swaps_of(demand, has, [np.zeros(1, dtype=np.int64)] * 2)
        swaps.search(session())
        assert swaps.domain.tolist() == [0, 0]


def test_an_item_that_may_be_nowhere_has_no_domain() -> None:
    here = np.arange(3)
    allowed = np.array([[1, 1, 1], [0, 0, 0]])
    swaps = swaps_of(np.array([[1, 1], [1, 1]]), [np.full(3, 4)] * 2, [here, here], allowed)
    swaps.search(session())
    assert swaps.domain[0] >= 0
    assert swaps.domain[1] == -1


def test_the_same_seed_gives_the_same_domains() -> None:
    domains = examples(day=6, nightly=12)
    demand = planted(np.random.default_rng(5), domains, 10)
    here = np.arange(domains)
    found = []
    for _ in range(2):
        swaps = swaps_of(demand, [np.full(domains, 64), np.full(domains, 400)], [here, here])
        swaps.search(session())
        found.append(swaps.domain.tolist())
    assert found[0] == found[1]
