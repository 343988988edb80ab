"""The graph of switches above the hosts: how far apart domains are, and what goes between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from placewright.array_types import Ints
from placewright.topology.catalogue import Link

if TYPE_CHECKING:
    import networkx as nx

_SOURCE, _SINK = 0, 1  # nodes beside those with names


class Fabric:
    """Innermost domains and switches, and the links between them, each as wide both ways.

    Messages go by many ways at once (ECMP): what some domains can send to others is the maximum
    flow between them.

    Parameters
    ----------
    domains : sequence of str
        The innermost domains; every other end of a link is a switch.
    links : mapping of (str, str) to Link
        By pair of ends, each pair once.

    Attributes
    ----------
    hops : int64 array (domains, domains)
        Links on a shortest way.

    Raises
    ------
    ValueError
        A link joins a node to itself or a pair occurs twice, or no way leads between two domains.
    """

    def __init__(self, domains: Sequence[str], links: Mapping[tuple[str, str], Link]) -> None:
        import networkx as nx

        graph: nx.Graph[str | int] = nx.Graph()
        graph.add_nodes_from(domains)
        for (a, b), link in links.items():
            if a == b or graph.has_edge(a, b):
                raise ValueError(
                    f"link {a!r} to {b!r} joins a node to itself or occurs twice; expected each "
                    f"pair of domains or switches once"
                )
            graph.add_edge(a, b, capacity=link.bandwidth_mbps)
        self._graph, self._domains = graph, domains
        self._flows: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        self.hops: Ints = np.zeros((len(domains), len(domains)), dtype=np.int64)
        for i, domain in enumerate(domains):
            away = nx.single_source_shortest_path_length(graph, domain)
            lost = next((other for other in domains if other not in away), None)
            if lost is not None:
                raise ValueError(f"no links lead from {domain!r} to {lost!r}; expected some")
            self.hops[i] = [away[other] for other in domains]

    def carries(self, sources: Iterable[int], targets: Iterable[int]) -> int:
        """Return the Mbit/s that some domains, by index, can send to others."""
        import networkx as nx

        key = tuple(sources), tuple(targets)
        if key not in self._flows:
            graph = self._graph.copy()
            # Edges without a capacity carry all there is.
            graph.add_edges_from((_SOURCE, self._domains[i]) for i in key[0])
            graph.add_edges_from((self._domains[i], _SINK) for i in key[1])
            # By preflow-push: on graphs that are hard for augmenting paths, too, a second or so.
            self._flows[key] = int(nx.maximum_flow_value(graph, _SOURCE, _SINK))
        return self._flows[key]


@lru_cache(maxsize=8)
def fabric_of(domains: tuple[str, ...], links: tuple[tuple[tuple[str, str], Link], ...]) -> Fabric:
    """Return a fabric, the same one for equal links, which knows the flows that it was asked."""
    return Fabric(domains, dict(links))
