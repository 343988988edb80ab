"""The graph of switches of a tiny cluster, by its cuts (docs/formulations/topology.md)."""

from __future__ import annotations

from functools import cache
from itertools import product

from fuzz.policy import Raw


class Fabric:
    """Links by their ends, and the innermost domains in each domain."""

    def __init__(self, cluster: Raw) -> None:
        self.links: dict[frozenset[str], int] = {
            frozenset(one["between"]): one["bandwidth_mbps"] for one in cluster["fabric"]
        }
        domains = {one["name"]: one for one in cluster["domains"]}
        self.inside: dict[str, set[str]] = {name: set() for name in domains}
        for name, one in domains.items():
            outer = name if one["level"] == cluster["levels"][-1] else None
            while outer is not None:
                self.inside[outer].add(name)
                outer = domains[outer].get("parent")
        self.hops, self.between = cache(self._hops), cache(self._between)

    def out_of(self, domain: str) -> int | None:
        """Return what a domain can send to all that are not in it, None if all are."""
        inside = frozenset(self.inside[domain])
        outside = frozenset().union(*self.inside.values()) - inside
        return self.between(inside, outside) if outside else None

    def _hops(self, a: str, b: str) -> int:
        reached, steps = {a}, 0
        while b not in reached:
            reached |= {end for ends in self.links if ends & reached for end in ends}
            steps += 1
        return steps

    def _between(self, sources: frozenset[str], targets: frozenset[str]) -> int:
        """Return the least that links carry out of a set with all sources and no target."""
        others = sorted(frozenset().union(*self.links) - sources - targets)
        least = []
        for taken in product((False, True), repeat=len(others)):
            inside = sources | {name for name, here in zip(others, taken, strict=True) if here}
            least.append(sum(mbps for ends, mbps in self.links.items() if len(ends & inside) == 1))
        return min(least)
