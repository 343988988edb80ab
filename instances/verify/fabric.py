"""The graph of switches of a Cluster document: how far apart domains are, and what it carries."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Mapping

from placewright.instances.documents.cluster import ClusterDocument


class FabricFacts:
    """Innermost domains and switches by name; messages go by all ways at once."""

    def __init__(self, document: ClusterDocument) -> None:
        self._width: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for link in document.fabric:
            a, b = link.between
            self._width[a][b] = self._width[b][a] = link.bandwidth_mbps
        self._above = {one.name: one.parent for one in document.domains}
        innermost = document.levels[-1]
        self._leaves = {one.name for one in document.domains if one.level == innermost}
        self._hops: dict[str, Mapping[str, int]] = {}
        self._out_of: dict[str, int | None] = {}

    def hops(self, a: str, b: str) -> int:
        """Return the links on a shortest way from one innermost domain to another."""
        if a not in self._hops:
            away, queue = {a: 0}, deque([a])
            while queue:
                node = queue.popleft()
                for other in self._width[node]:
                    if other not in away:
                        away[other] = away[node] + 1
                        queue.append(other)
            self._hops[a] = away
        return self._hops[a][b]

    def out_of(self, domain: str) -> int | None:
        """Return the Mbit/s of a domain to all others of its level, None if there is none."""
        if domain not in self._out_of:
            inside = {leaf for leaf in self._leaves if self._is_in(leaf, domain)}
            outside = self._leaves - inside
            self._out_of[domain] = self.carries(inside, outside) if outside else None
        return self._out_of[domain]

    def _is_in(self, domain: str | None, outer: str) -> bool:
        while domain not in (None, outer):
            domain = self._above[domain]
        return domain == outer

    def carries(self, sources: Collection[str], targets: Collection[str]) -> int:
        """Return the maximum flow from some domains to others, by shortest augmenting paths.

        Edmonds and Karp, "Theoretical improvements in algorithmic efficiency for network flow
        problems", Journal of the ACM 19, 1972.
        """
        flow: defaultdict[tuple[str, str], int] = defaultdict(int)
        total = 0
        while True:
            before: dict[str, str | None] = dict.fromkeys(sources)
            queue, end = deque(sources), None
            while queue and end is None:
                node = queue.popleft()
                for other, width in self._width[node].items():
                    if other not in before and flow[node, other] < width:
                        before[other] = node
                        queue.append(other)
                        end = other if other in targets else end
            if end is None:
                return total
            path = []
            while (last := before[end]) is not None:
                path.append((last, end))
                end = last
            least = min(self._width[a][b] - flow[a, b] for a, b in path)
            for a, b in path:
                flow[a, b] += least
                flow[b, a] -= least
            total += least
