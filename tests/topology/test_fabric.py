"""Graphs of switches: distances, maximum flows, and how a NetworkX graph becomes one."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import networkx as nx
import pytest

from examples import examples
from placewright import ClusterDocument, InvalidInputError, Round
from placewright.instances.checks.cluster import check_cluster
from placewright.instances.derived.arrays import build_cluster
from placewright.instances.documents.edits import Edits
from placewright.instances.edits.apply import apply_edits
from placewright.instances.io.files import parse_cluster
from placewright.instances.verify.fabric import FabricFacts
from placewright.topology import Cluster, GraphError

Raw = dict[str, Any]


def cluster(links: Raw, blocks: int = 0, **further: Any) -> ClusterDocument:
    """Return a cluster whose racks are the ends that begin with r, in some blocks."""
    ends = sorted({end for pair in links for end in pair})
    racks = [end for end in ends if end[0] == "r"]
    domains = [{"name": f"b{i}", "level": "block"} for i in range(blocks)]
    for i, rack in enumerate(racks):
        domains.append(
            {"name": rack, "level": "rack"} | ({"parent": f"b{i % blocks}"} if blocks else {})
        )
    return parse_cluster(
        {
            "levels": ["block", "rack"] if blocks else ["rack"],
            "domains": domains,
            "hosts": [
                {"name": f"{rack}-h[0-1]", "parent": rack, "gpus": 2, "gpu_model": "g"}
                for rack in racks
            ],
            "fabric": [
                {"between": pair, "bandwidth_mbps": mbps, "latency_us": 1.5}
                for pair, mbps in links.items()
            ],
            **further,
        }
    )


RING = {(f"r{i}", f"r{(i + 1) % 6}"): 100 + 10 * i for i in range(6)}


def drawn(rng: random.Random) -> ClusterDocument:
    ends = [f"r{i}" for i in range(rng.randint(2, 6))] + [f"s{i}" for i in range(rng.randint(0, 3))]
    rng.shuffle(ends)
    pairs = {tuple(sorted((ends[i], rng.choice(ends[:i])))): 0 for i in range(1, len(ends))}
    pairs |= {tuple(sorted(rng.sample(ends, 2))): 0 for _ in range(rng.randint(0, 9))}
    return cluster({pair: rng.choice((1, 5, 7, 40)) for pair in pairs}, rng.choice((0, 2)))


def test_flows_and_distances_are_those_of_networkx() -> None:
    rng = random.Random(1)
    for _ in range(examples(day=25, nightly=500)):
        document = drawn(rng)
        arrays, facts = build_cluster(document), FabricFacts(document)
        graph = nx.Graph()
        for link in document.fabric:
            graph.add_edge(*link.between, capacity=link.bandwidth_mbps)
        hops = dict(nx.all_pairs_shortest_path_length(graph))
        racks = arrays.names[-2]
        block_of = {domain.name: domain.parent for domain in document.domains}
        assert arrays.network is not None
        assert arrays.network.hops.tolist() == [[hops[a][b] for b in racks] for a in racks]
        for (i, a), (j, b) in combinations(enumerate(racks), 2):
            flow = nx.minimum_cut_value(graph, a, b)
            assert arrays.network.carries([i], [j]) == facts.carries({a}, {b}) == flow
            assert facts.hops(a, b) == hops[a][b]
        for depth, names in enumerate(arrays.names[:-1]):
            for d, name in enumerate(names):
                inside = {rack for rack in racks if name in (rack, block_of.get(rack))}
                joined = graph.copy()
                joined.add_edges_from((r, "in" if r in inside else "out") for r in racks)
                flow = nx.maximum_flow_value(joined, "in", "out") if inside < {*racks} else None
                assert facts.out_of(name) == flow
                if flow is not None:
                    assert arrays.uplink_mbps(depth)[d] == flow


def test_a_ring_of_racks_has_two_ways_out_of_each() -> None:
    arrays = build_cluster(cluster(RING))
    assert arrays.uplink_mbps(0).tolist() == [250, 210, 230, 250, 270, 290]
    assert arrays.network is not None
    assert arrays.network.hops[0].tolist() == [0, 1, 2, 3, 2, 1]
    assert arrays.network.carries([0], [3]) == 100 + 130
    assert arrays.network.carries([0, 1], [3]) == 110 + 130
    assert set(arrays.links) == {"rack"}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("detail", ["host", "gpu"])
def test_a_fabric_comes_back_from_its_graph(seed: int, detail: Any) -> None:
    host = {"links": {"host": {"bandwidth_mbps": 9, "latency_us": 2.0}}} if seed % 2 else {}
    document = drawn(random.Random(seed)).model_copy(update=parse(host))
    check_cluster(document)
    graph, arrays = document.to_graph(detail), build_cluster(document)
    assert ClusterDocument.from_graph(graph) == document
    assert Cluster.from_graph(graph) == Cluster.from_graph(arrays.to_graph(detail)) == arrays
    bare = parse_cluster({**document.model_dump(mode="json"), "fabric": []})
    assert build_cluster(bare) != arrays


def parse(further: Raw) -> Raw:
    read = parse_cluster({"hosts": [{"name": "h", "gpus": 0}], **further})
    return {"links": read.links}


def spines(*missing: tuple[int, int], names: bool = False) -> nx.Graph[Any]:
    """Return three racks with uplinks to two spines of their datacenter, but for some."""
    graph: nx.Graph[Any] = nx.Graph()
    graph.add_node("dc", kind="datacenter")
    for s in range(2):
        graph.add_node(("spine", s), kind="switch")
        graph.add_edge("dc", ("spine", s))
    for r in range(3):
        graph.add_node(f"r{r}", kind="rack")
        graph.add_edge("dc", f"r{r}")
        graph.add_node(f"h{r}", kind="host", gpus=2)
        graph.add_edge(f"r{r}", f"h{r}")
        for switch in range(2):  # two switches of a rack are one
            graph.add_node((r, switch), kind="switch")
            graph.add_edge(f"r{r}", (r, switch))
            for s in range(2):
                if (r, s) not in missing:
                    graph.add_edge((r, switch), ("spine", s), kind="uplink", bandwidth_mbps=50)
    return graph


def test_racks_at_all_spines_are_a_tree() -> None:
    arrays = Cluster.from_graph(spines())
    assert not arrays.fabric
    assert arrays.uplink_mbps(1).tolist() == [200] * 3


def test_racks_at_different_spines_are_a_graph() -> None:
    arrays = Cluster.from_graph(spines((0, 1), (2, 0)))
    ends = (("r0", "spine-0"), ("r1", "spine-0"), ("r1", "spine-1"), ("r2", "spine-1"))
    assert set(map(frozenset, arrays.fabric)) == set(map(frozenset, ends))
    assert arrays.uplink_mbps(1).tolist() == [100, 200, 100]
    assert arrays.network is not None
    assert arrays.network.hops.tolist() == [[0, 2, 4], [2, 0, 2], [4, 2, 0]]
    assert Cluster.from_graph(arrays.to_graph()) == arrays


def test_links_between_racks_or_spines_make_a_graph() -> None:
    graph = spines()
    graph.add_edge((0, 0), (1, 0), kind="uplink", bandwidth_mbps=7)
    arrays = Cluster.from_graph(graph)
    assert len(arrays.fabric) == 7
    assert arrays.uplink_mbps(1).tolist() == [207, 207, 200]
    graph = spines((0, 1), (1, 0), (2, 0))
    graph.add_edge(("spine", 0), ("spine", 1), kind="uplink", bandwidth_mbps=7)
    assert Cluster.from_graph(graph).uplink_mbps(1).tolist() == [7, 100, 100]


def test_graphs_that_leave_a_rack_out_are_refused() -> None:
    with pytest.raises(ValueError, match="no links lead from 'r0' to 'r1'; expected some"):
        Cluster.from_graph(spines((0, 0), (0, 1), (1, 1)))
    graph = spines((0, 1))
    graph.add_node("r1b", kind="switch", name="r1")
    graph.add_edge("dc", "r1b")
    graph.add_edge((0, 0), "r1b", kind="uplink", bandwidth_mbps=7)
    with pytest.raises(GraphError, match="name 'r1' is that of 'r1', too; expected each domain"):
        Cluster.from_graph(graph)


def test_copies_of_a_rack_have_its_links() -> None:
    round_ = Round.of(cluster(RING))
    more = apply_edits(round_, Edits.model_validate({"edits": [{"add": {"like": "r0"}}]})).cluster
    ends = {link.between for link in more.fabric if "new1-r0" in link.between}
    assert ends == {("new1-r0", "r1"), ("r5", "new1-r0")}
    assert build_cluster(more).uplink_mbps(0).tolist()[-1] == 250


RACK = {"rack": {"bandwidth_mbps": 1, "latency_us": 1}}
FAULTS: dict[str, tuple[Raw, str]] = {
    "links": ({"links": RACK}, "fabric: given beside wan, links of levels above the host, or no l"),
    "uplinks": ({"domains": [{"name": "r0", "level": "rack", "uplink_mbps": 4}]}, "uplink_mbps: 4"),
    "apart": (
        {"domains": [{"name": f"r{i}", "level": "rack"} for i in range(7)]},
        "fabric: no links lead from 'r0' to 'r6'; expected some",
    ),
    "itself": ({"fabric": [("r0", "r0")]}, "fabric: link 'r0' to 'r0' joins a node to itself or"),
    "back": ({"fabric": [("r0", "s"), ("s", "r0")]}, "fabric: link 's' to 'r0' joins a node to i"),
    "twice": ({"fabric": [("r0", "s")] * 2}, "fabric: has two links between the same ends; expec"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_documents_with_a_fabric_that_says_otherwise_are_refused(fault: str) -> None:
    further, message = FAULTS[fault]
    raw = {**cluster(RING).model_dump(mode="json", exclude_defaults=True), **further}
    raw["fabric"] = [
        {"between": one, "bandwidth_mbps": 1, "latency_us": 1} if isinstance(one, tuple) else one
        for one in raw["fabric"]
    ]
    with pytest.raises(InvalidInputError) as error:
        parse_cluster(raw)
    assert message in str(error.value)


def test_a_fabric_whose_flows_would_take_too_long_is_refused() -> None:
    links = {("r", f"s{i}"): 1 for i in range(10_000)}
    racks = [
        {"name": "r", "level": "rack"},
        *({"name": f"x{i}", "level": "rack"} for i in range(50)),
    ]
    raw = cluster(links).model_dump(mode="json", exclude_defaults=True)
    with pytest.raises(
        InvalidInputError, match="10,000 links for 51 domains; expected at most 500,0"
    ):
        parse_cluster({**raw, "domains": racks})
