"""The fewest sets of hosts that keep the checkpoints of the hosts that no team is left for.

A set is M hosts that keep the checkpoints of some of them, its *owners*; each host owns in one set,
and keeps at most M - 1 copies of others. For N hosts this leaves, for each host, exactly M owners
in the sets that it is in, itself included. So sets of a_1, a_2, ... owners (a partition of N) will
do if the hosts can be divided into patterns, each the sets that a host is in, of which the owners
add up to M, so that each set is in the patterns of M hosts. Owners are then a flow: each host of a
pattern may own a_s / M in each set s of it, which adds up to 1, so a whole flow exists, too.

The fewest sets lose least when M hosts fail at once: M hosts lose something only if they are a set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

import networkx as nx


class HostSet(NamedTuple):
    """Hosts that keep the checkpoints of some of them."""

    hosts: tuple[int, ...]
    owners: tuple[int, ...]


@cache
def fewest_sets(hosts: int, copies: int) -> tuple[HostSet, ...]:
    """Return the fewest sets of `copies` hosts for hosts 0, 1, ..., by enumeration.

    Parameters
    ----------
    hosts
        From `copies` to 2 * `copies` - 1.
    """
    for number in range(1, hosts + 1):
        for owners in _partitions(hosts, number, copies):
            patterns = [
                pattern
                for size in range(1, number + 1)
                for pattern in combinations(range(number), size)
                if sum(owners[s] for s in pattern) == copies
            ]
            counts = _counts(patterns, (copies,) * number)
            if counts is not None:
                return _owned(patterns, counts, owners)
    raise ValueError(f"{hosts} hosts are fewer than {copies}")


def _partitions(total: int, parts: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write a total as so many parts, 1 to `most`, in descending order."""
    if parts == 0:
        if total == 0:
            yield ()
        return
    for first in range(min(total - parts + 1, most), 0, -1):
        for rest in _partitions(total - first, parts - 1, first):
            yield (first, *rest)


def _counts(patterns: Sequence[tuple[int, ...]], need: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return how many hosts have each pattern, so that each set has what it needs; or None."""
    if not any(need):
        return (0,) * len(patterns)
    if not patterns:
        return None
    first = patterns[0]
    for number in range(min(need[s] for s in first), -1, -1):
        left = tuple(n - number * (s in first) for s, n in enumerate(need))
        rest = _counts(patterns[1:], left)
        if rest is not None:
            return (number, *rest)
    return None


def _owned(
    patterns: Sequence[tuple[int, ...]], counts: Sequence[int], owners: Sequence[int]
) -> tuple[HostSet, ...]:
    """Return the sets with their hosts, and each host as owner in one of them."""
    pattern_of = [pattern for pattern, n in zip(patterns, counts, strict=True) for _ in range(n)]
    graph: nx.DiGraph[object] = nx.DiGraph()
    for host, pattern in enumerate(pattern_of):
        graph.add_edge("source", ("host", host), capacity=1)
        for s in pattern:
            graph.add_edge(("host", host), ("set", s), capacity=1)
    for s, number in enumerate(owners):
        graph.add_edge(("set", s), "sink", capacity=number)
    flow = nx.maximum_flow(graph, "source", "sink")[1]
    return tuple(
        HostSet(
            tuple(h for h, pattern in enumerate(pattern_of) if s in pattern),
            tuple(h for h in range(len(pattern_of)) if flow["host", h].get(("set", s))),
        )
        for s in range(len(owners))
    )
