"""Survival: how likely it is that failed hosts leave a copy of every checkpoint.

A checkpoint is lost if all hosts of its set fail at once. Sets that share no host, directly or by
way of others, are counted on their own; the counts are multiplied as polynomials, whose term of
degree k counts the choices of k failed hosts that lose nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from itertools import combinations
from math import comb, sqrt
from typing import NamedTuple

import networkx as nx
import numpy as np

MOST_CHOICES = 1_000_000
"""Choices of failed hosts, among those that share sets, up to which each is looked at."""

SAMPLES = 100_000


class Chance(NamedTuple):
    """That nothing is lost: exact, or with the half-width of its 95 % interval."""

    value: float
    error: float = 0.0


def survival(sets: Iterable[Collection[int]], hosts: int, failed: int, *, seed: int = 0) -> Chance:
    """Return how likely it is that so many failed hosts lose nothing.

    Parameters
    ----------
    sets
        The hosts that keep a checkpoint, numbers from 0; for each checkpoint, or once for all that
        the same hosts keep.
    hosts
        Number of all hosts; each is as likely to fail.
    failed
        How many of them fail, at most all.
    seed
        Of the samples, which are drawn where there are too many choices to look at each.
    """
    distinct = {frozenset(one) for one in sets}
    sizes = sorted({len(one) for one in distinct if len(one) <= failed})

    def is_safe(choice: Sequence[int]) -> bool:
        parts = (part for n in sizes for part in combinations(choice, n))
        return not any(frozenset(part) in distinct for part in parts)

    graph: nx.Graph[int] = nx.Graph()
    for one in distinct:
        nx.add_star(graph, one)
    together = [sorted(part) for part in nx.connected_components(graph)]
    if any(comb(len(part), failed) > MOST_CHOICES for part in together):
        rng = np.random.default_rng(seed)
        rows = (rng.choice(hosts, failed, replace=False).tolist() for _ in range(SAMPLES))
        drawn = sum(map(is_safe, rows))
        chance = drawn / SAMPLES
        return Chance(chance, 1.96 * sqrt(chance * (1 - chance) / SAMPLES))
    safe = [comb(hosts - len(graph), k) for k in range(failed + 1)]
    for part in together:
        own = [sum(map(is_safe, combinations(part, k))) for k in range(failed + 1)]
        safe = [sum(safe[i] * own[k - i] for i in range(k + 1)) for k in range(failed + 1)]
    return Chance(float(Fraction(safe[failed], comb(hosts, failed))))
