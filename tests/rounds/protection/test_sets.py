"""The fewest sets for the last hosts, and what sets survive, by enumeration and published figures.

Figures: Wang et al., "Gemini", SOSP'23, its corollary for groups and its ring.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, product
from math import comb

import pytest

from placewright.rounds import protection as survival_module
from placewright.rounds.protection import fewest_sets, survival

Sets = Sequence[Sequence[int]]


def ring(hosts: int, copies: int) -> list[tuple[int, ...]]:
    """Each host's copies are on the hosts behind it."""
    return [tuple((host + k) % hosts for k in range(copies)) for host in range(hosts)]


def divided(hosts: int, copies: int) -> list[tuple[int, ...]]:
    """Return teams in order, the last one and the rest in the fewest sets."""
    rest = hosts % copies
    teams = hosts // copies - bool(rest)
    sets = [tuple(range(copies * t, copies * t + copies)) for t in range(teams)]
    last = fewest_sets(copies + rest, copies) if rest else ()
    return sets + [tuple(teams * copies + host for host in one.hosts) for one in last]


def chance(sets: Sets, hosts: int, failed: int) -> Fraction:
    """Return the exact chance as a fraction."""
    found = survival(sets, hosts, failed)
    assert not found.error
    return Fraction(found.value).limit_denominator(10**6)


def fewest_by_enumeration(hosts: int, copies: int) -> int:
    """Return the fewest distinct sets over all choices of a set for each host."""
    own = [
        [one for one in combinations(range(hosts), copies) if host in one] for host in range(hosts)
    ]
    best = hosts
    for chosen in product(*own):
        kept = Counter(
            keeper for host, one in enumerate(chosen) for keeper in one if keeper != host
        )
        if max(kept.values()) <= copies - 1:
            best = min(best, len(set(chosen)))
    return best


@pytest.mark.parametrize(
    ("copies", "rest", "number", "of_ring"),
    [(2, 1, 3, 3), (3, 1, 4, 4), (3, 2, 4, 5), (4, 1, 5, 5), (4, 2, 3, 6), (4, 3, 5, 7)],
)
def test_the_last_hosts_need_so_many_sets(
    copies: int, rest: int, number: int, of_ring: int
) -> None:
    assert len(fewest_sets(copies + rest, copies)) == number
    assert len(set(map(frozenset, ring(copies + rest, copies)))) == of_ring


@pytest.mark.parametrize(("hosts", "copies"), [(2, 2), (3, 2), (3, 3), (4, 3), (5, 3)])
def test_no_choice_of_sets_has_fewer(hosts: int, copies: int) -> None:
    assert len(fewest_sets(hosts, copies)) == fewest_by_enumeration(hosts, copies)


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize("copies", range(2, 9))
def test_each_host_owns_once_and_keeps_no_more_than_its_share(copies: int) -> None:
    for hosts in range(copies, 2 * copies):
        sets = fewest_sets(hosts, copies)
        assert sorted(owner for one in sets for owner in one.owners) == list(range(hosts))
        assert all(len(set(one.hosts)) == copies for one in sets)
        assert all(one.owners and set(one.owners) <= set(one.hosts) for one in sets)
        kept = Counter(host for one in sets for host in one.hosts for o in one.owners if o != host)
        assert max(kept.values()) <= copies - 1


def test_pairs_survive_what_is_published() -> None:
    pairs = divided(16, 2)
    found = [chance(pairs, 16, failed) for failed in (2, 3, 4)]
    assert found == [Fraction(14, 15), Fraction(4, 5), Fraction(8, 13)]
    found = [chance(ring(16, 2), 16, failed) for failed in (2, 3)]
    assert found == [Fraction(13, 15), Fraction(22, 35)]


@pytest.mark.parametrize(
    ("hosts", "copies", "survived", "by_ring"),
    [(5, 3, (6, 10), (5, 10)), (8, 3, (51, 56), (50, 56)), (6, 4, (12, 15), (9, 15))],
)
def test_fewer_sets_survive_more(
    hosts: int, copies: int, survived: tuple[int, int], by_ring: tuple[int, int]
) -> None:
    assert chance(divided(hosts, copies), hosts, copies) == Fraction(*survived)
    grouped = hosts // copies - bool(hosts % copies)
    last = hosts - grouped * copies
    gemini = [tuple(range(copies * t, copies * t + copies)) for t in range(grouped)]
    gemini += [tuple(grouped * copies + h for h in one) for one in ring(last, copies)]
    assert chance(gemini, hosts, copies) == Fraction(*by_ring)


@pytest.mark.parametrize("seed", range(30))
def test_chances_are_those_of_enumeration(seed: int) -> None:
    rng = random.Random(seed)
    hosts = rng.randint(3, 10)
    sets = [rng.sample(range(hosts), rng.randint(1, 3)) for _ in range(rng.randint(1, 5))]
    for failed in range(1, 4):
        safe = sum(
            not any(set(one) <= set(choice) for one in sets)
            for choice in combinations(range(hosts), failed)
        )
        assert chance(sets, hosts, failed) == Fraction(safe, comb(hosts, failed))


def test_samples_are_near_what_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = survival(ring(40, 2), 40, 3).value
    monkeypatch.setattr(survival_module, "MOST_CHOICES", 0)
    drawn = survival(ring(40, 2), 40, 3)
    assert 0 < drawn.error < 0.003
    assert abs(drawn.value - exact) <= 2 * drawn.error
