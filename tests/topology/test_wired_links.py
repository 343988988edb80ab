"""Link matrices from wires and switches, against all ways that there are."""

from __future__ import annotations

import random
from typing import Any

import networkx as nx
import pytest

from placewright.topology import Cluster, GraphError
from placewright.topology.gpu_links import LINK_KINDS
from placewright.topology.wired_links import Wire, wired_links

KIND = {name: number + 1 for number, name in enumerate(LINK_KINDS)}


def by_all_ways(i: int, j: int, ends: int, through: list[int], wires: list[Wire]) -> Any:
    """Return kind and bandwidth of the link between two ends, from every simple path."""
    graph: Any = nx.MultiGraph()
    graph.add_nodes_from(range(ends + len(through)))
    graph.add_edges_from((a, b, {"kind": kind, "mbps": mbps}) for a, b, kind, mbps in wires)
    graph.remove_nodes_from(set(range(ends)) - {i, j})
    width: dict[int, int] = {}
    best = (0, 0)
    for path in nx.all_simple_edge_paths(graph, i, j):
        hubs = {end for edge in path for end in edge[:2]} - {i, j}
        edges = [graph.edges[edge] for edge in path]
        kind = min([edge["kind"] for edge in edges] + [through[hub - ends] for hub in hubs])
        mbps = min(edge["mbps"] for edge in edges)
        if len(path) <= 2:
            width[kind] = width.get(kind, 0) + mbps
        best = max(best, (kind, mbps))
    return max(width.items()) if width else best


def test_a_link_is_the_best_that_wires_and_switches_give():
    for seed in range(300):
        rng = random.Random(seed)
        gpus, nics, hubs = rng.randint(1, 4), rng.randint(0, 2), rng.randint(0, 4)
        through = [rng.choice((KIND["numa"], KIND["nvlink"])) for _ in range(hubs)]
        pairs = [(a, b) for a in range(gpus + nics + hubs) for b in range(a)]
        wires = [
            (*rng.choice((pair, pair[::-1])), rng.randint(1, 5), rng.randint(1, 4))
            for pair in rng.sample(pairs, rng.randint(0, len(pairs)))
        ]
        found = wired_links(gpus, nics, through, wires)
        for i in range(gpus):
            assert found.kind[i][i] == found.mbps[i][i] == 0
            for j in range(i):
                link = by_all_ways(i, j, gpus + nics, through, wires)
                assert (found.kind[i][j], found.mbps[i][j]) == link, seed
                assert (found.kind[j][i], found.mbps[j][i]) == link, seed
            for n in range(nics):
                link = by_all_ways(i, gpus + n, gpus + nics, through, wires)
                assert (found.nic_kind[n][i], found.nic_mbps[n][i]) == link, seed


def two_sockets() -> Any:
    """Return a host of two NUMA nodes with two PCIe switches each, of two GPUs each."""
    graph: Any = nx.Graph()
    graph.add_node("h", kind="host", gpu_model="L40S")
    for numa in range(2):
        graph.add_node(f"n{numa}", kind="numa")
        graph.add_edge("h", f"n{numa}")
        for switch in (2 * numa, 2 * numa + 1):
            graph.add_node(f"s{switch}", kind="switch")
            graph.add_edge(f"n{numa}", f"s{switch}", kind="pcie", bandwidth_mbps=256_000)
            graph.add_node(f"nic{switch}", kind="nic")
            graph.add_edge(f"n{numa}", f"nic{switch}")
            graph.add_edge(f"nic{switch}", f"s{switch}", kind="pcie", bandwidth_mbps=200_000)
            for gpu in (2 * switch, 2 * switch + 1):
                graph.add_node(f"g{gpu}", kind="gpu")
                graph.add_edge(f"n{numa}", f"g{gpu}")
                graph.add_edge(f"g{gpu}", f"s{switch}", kind="pcie", bandwidth_mbps=256_000)
    graph.add_edge("n0", "n1", kind="system", bandwidth_mbps=160_000)
    return graph


def test_pcie_switches_numa_nodes_and_sockets_are_links_of_their_kinds():
    (links,) = Cluster.from_graph(two_sockets()).gpu_links
    assert links.numa == (0, 0, 0, 0, 1, 1, 1, 1)
    kinds = [LINK_KINDS[kind - 1] for kind in links.kind[0][1:]]
    assert kinds == ["pcie", "numa", "numa", *["system"] * 4]
    assert links.mbps[0] == (0, 256_000, 256_000, 256_000, *[160_000] * 4)
    assert links.nic_kind[1] == tuple(KIND[k] for k in ["numa"] * 2 + ["pcie"] * 2 + ["system"] * 4)
    assert links.nic_mbps[1] == (*[200_000] * 4, *[160_000] * 4)


def many(gpus: int) -> Any:
    graph: Any = nx.Graph()
    graph.add_nodes_from([("h", {"kind": "host"}), ("s", {"kind": "switch"})])
    graph.add_edge("h", "s")
    for gpu in range(gpus):
        graph.add_node(gpu, kind="gpu")
        graph.add_edge("h", gpu)
        graph.add_edge("s", gpu, kind="nvlink", bandwidth_mbps=900)
    return graph


def test_many_gpus_are_joined_alike_or_refused():
    (links,) = Cluster.from_graph(many(40)).gpu_links
    assert links.is_uniform
    assert links.mbps[3][39] == 900
    graph = many(40)
    graph.edges["s", 7]["bandwidth_mbps"] = 800
    with pytest.raises(GraphError, match="node 'h': has 40 GPUs with different links; expected at"):
        Cluster.from_graph(graph)
