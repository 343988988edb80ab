"""Reading graphs: simple ones made by hand, round trips, and every graph that is refused."""

from __future__ import annotations

import random
from typing import Any

import networkx as nx
import pytest

from placewright.topology import CATALOGUE, Cluster, GraphError, Link, nvl72_racks, tree
from placewright.topology.gpu_links import LINK_KINDS
from placewright.topology.graph_reader import read_graph

Graph = Any


def small(make: type = nx.Graph) -> Graph:
    """Return two racks of two hosts, each of four GPUs in two pairs."""
    graph = make()
    for rack in "ab":
        graph.add_node(rack, kind="rack")
        for number in range(2):
            host = f"{rack}{number}"
            graph.add_node(host, kind="host", gpu_model="A100", cpu_milli=64_000, memory_mib=2**20)
            graph.add_edge(rack, host)
            for gpu in range(4):
                graph.add_node((host, gpu), kind="gpu")
                graph.add_edge(host, (host, gpu), kind="contains")
            for first in (0, 2):
                ends = (host, first), (host, first + 1)
                graph.add_edge(*ends, kind="nvlink", bandwidth_mbps=400_000)
    return graph


@pytest.mark.parametrize("make", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_a_graph_by_hand_is_the_cluster_that_one_expects(make: type) -> None:
    cluster = Cluster.from_graph(small(make))
    assert (cluster.name, cluster.levels) == ("cluster", ("rack", "host"))
    assert cluster.names == (("a", "b"), ("a0", "a1", "b0", "b1"))
    assert cluster.domain[0].tolist() == [0, 0, 1, 1]
    assert cluster.gpu_count.tolist() == [4] * 4
    assert cluster.gpu_models == ("A100",)
    assert cluster.capacity.tolist() == [[64_000, 2**20]] * 4
    (links,) = cluster.gpu_links
    nvlink = LINK_KINDS.index("nvlink") + 1
    assert links.kind == (
        (0, nvlink, 0, 0),
        (nvlink, 0, 0, 0),
        (0, 0, 0, nvlink),
        (0, 0, nvlink, 0),
    )
    assert links.mbps[2] == (0, 0, 0, 400_000)


def test_hosts_may_say_how_many_gpus_they_have_or_which_model_they_are() -> None:
    graph = nx.Graph()
    graph.add_node(1, kind="host", gpus=8, gpu_model="H100")
    graph.add_node(2, kind="host", gpus=2)
    graph.add_node(("dgx", 3), kind="host", model="dgx-h100")
    graph.add_node("login", kind="host", gpus=0)
    cluster = Cluster.from_graph(graph)
    assert cluster.hosts == ("1", "2", "dgx-3", "login")
    assert cluster.gpu_count.tolist() == [8, 2, 8, 0]
    assert cluster.gpu_models == ("H100", "gpu", "H100-SXM5-80GB")
    assert cluster.gpu_links_of.tolist() == [-1, -1, 0, -1]
    assert cluster.capacity[2].tolist() == [112_000, 2048 * 1024]


MODELS = [*CATALOGUE.values()]
CLUSTERS = {
    "tree": tree("t", blocks=2, racks=2, hosts=3),
    "models": tree("m", regions=3, blocks=1, racks=1, hosts=len(MODELS), host_model=MODELS * 3),
    "nvl72": nvl72_racks("n", 3),
    "bare": tree("b", blocks=1, racks=1, hosts=1, links={}),
}


@pytest.mark.parametrize("detail", ["host", "gpu"])
@pytest.mark.parametrize("name", CLUSTERS)
def test_a_cluster_comes_back_from_its_graph(name: str, detail: Any) -> None:
    assert Cluster.from_graph(CLUSTERS[name].to_graph(detail)) == CLUSTERS[name]


@pytest.mark.parametrize("name", CLUSTERS)
def test_neither_the_order_of_a_graph_nor_its_nodes_matter(name: str) -> None:
    graph, rng = CLUSTERS[name].to_graph("gpu"), random.Random(1)
    nodes, edges = list(graph.nodes(data=True)), list(graph.edges(data=True))
    rng.shuffle(nodes)
    rng.shuffle(edges)
    number = {node: i for i, (node, _) in enumerate(nodes)}
    other: Graph = nx.Graph(**graph.graph)
    other.add_nodes_from((number[node], data) for node, data in nodes)
    for a, b, data in edges:
        other.add_edge(*rng.sample((number[a], number[b]), 2), **data)
    assert Cluster.from_graph(other) == CLUSTERS[name]


def test_clusters_that_differ_are_not_equal() -> None:
    one, other = tree("t", blocks=1, racks=1, hosts=2), tree("t", blocks=1, racks=2, hosts=1)
    assert one == tree("t", blocks=1, racks=1, hosts=2) != other
    assert hash(one) == hash(tree("t", blocks=1, racks=1, hosts=2))
    assert one != "t"


def test_what_edges_say_takes_the_place_of_what_the_model_says() -> None:
    graph = tree("t", blocks=1, racks=1, hosts=2).to_graph("gpu")
    graph.remove_edge(("gpu", "r0-d0-b0-k0-h0", 0), ("nvswitch", "r0-d0-b0-k0-h0", 3))
    graph.remove_node(("gpu", "r0-d0-b0-k0-h1", 7))
    del graph.nodes["host", "r0-d0-b0-k0-h1"]["gpus"]
    cluster = Cluster.from_graph(graph)
    assert cluster.gpu_count.tolist() == [8, 7]
    weaker, model = (cluster.gpu_links[i] for i in cluster.gpu_links_of.tolist())
    assert weaker.mbps[0][1] == 2_700_000
    assert weaker.mbps[1][2] == 3_600_000
    assert model.name == "dgx-h100"
    assert model.gpus == 7


def test_uplinks_of_a_level_are_one_link_but_for_those_of_another_width() -> None:
    graph = small()
    for rack in "ab":
        graph.add_node(rack + "-switch", kind="switch")
        graph.add_edge(rack, rack + "-switch")
        for host in (rack + "0", rack + "1"):
            graph.add_edge(host, rack + "-switch", kind="uplink", bandwidth_mbps=9, latency_us=2)
    assert Cluster.from_graph(graph).links == {"host": Link(9, 2.0)}
    graph.edges["b1", "b-switch"]["bandwidth_mbps"] = 8
    cluster = Cluster.from_graph(graph)
    assert cluster.links == {"host": Link(9, 2.0)}
    assert cluster.own_uplinks == {("host", "b1"): 8}
    assert Cluster.from_graph(cluster.to_graph()) == cluster
    graph.edges["b1", "b-switch"]["latency_us"] = 3
    with pytest.raises(GraphError, match=r"node 'b1': its uplink has 3 us; expected 2 us as node"):
        Cluster.from_graph(graph)


def host(graph: Graph, name: str, rack: str | None = None, **attributes: Any) -> None:
    graph.add_node(name, kind="host", **{"gpus": 2, "gpu_model": "g", **attributes})
    if rack is not None:
        graph.add_edge(rack, name)


def wire(graph: Graph, a: Any, b: Any, kind: str, mbps: Any = 7, **further: Any) -> None:
    graph.add_edge(a, b, kind=kind, bandwidth_mbps=mbps, **further)


def in_two_racks(graph: Graph) -> None:
    graph.add_edge("b", "a0")


def gpu_of_two_hosts(graph: Graph) -> None:
    graph.add_edge("b0", ("a0", 2))


def to_nothing(graph: Graph) -> None:
    wire(graph, ("a0", 1), ("a0", 9), "nvlink")


def level_twice(graph: Graph) -> None:
    graph.add_edge("a", "b")


def level_beside(graph: Graph) -> None:
    graph.add_node("z", kind="zone")
    graph.add_edge("z", "b0")
    graph.remove_edge("b", "b0")


def level_missing(graph: Graph) -> None:
    graph.graph["levels"] = ["zone", "rack"]
    graph.add_node("z", kind="zone")
    graph.add_edge("z", "a")


def level_skipped(graph: Graph) -> None:
    graph.graph["levels"] = ["zone", "rack"]
    graph.add_node("z", kind="zone")
    graph.add_edges_from([("z", "a"), ("z", "b")])
    host(graph, "c", "z")


def level_of_nothing(graph: Graph) -> None:
    graph.add_node("c", kind="cage")


def level_unlisted(graph: Graph) -> None:
    graph.graph["levels"] = ["row"]


def cycle(graph: Graph) -> None:
    graph.add_nodes_from([("r", {"kind": "row"}), ("z", {"kind": "zone"})])
    graph.add_edges_from([("a", "r"), ("r", "z"), ("z", "a")])


def gpu_in_a_rack(graph: Graph) -> None:
    graph.add_node("lost", kind="gpu")
    graph.add_edge("a", "lost")


def gpu_in_nothing(graph: Graph) -> None:
    graph.add_node("lost", kind="gpu")


def gpu_in_a_gpu(graph: Graph) -> None:
    graph.remove_edge(("a0", 0), ("a0", 1))
    graph.add_edge(("a0", 0), ("a0", 1))


def unknown_kind(graph: Graph) -> None:
    wire(graph, ("a0", 0), ("a0", 2), "nvlnk")


def kind_in_capitals(graph: Graph) -> None:
    graph.nodes["a0", 0]["kind"] = "GPU"


def kind_of_a_number(graph: Graph) -> None:
    graph.nodes["a0"]["kind"] = 7


def without_bandwidth(graph: Graph) -> None:
    del graph.edges[("a0", 0), ("a0", 1)]["bandwidth_mbps"]


def text_for_bandwidth(graph: Graph) -> None:
    graph.edges[("a0", 0), ("a0", 1)]["bandwidth_mbps"] = "fast"


def no_bandwidth(graph: Graph) -> None:
    graph.edges[("a0", 0), ("a0", 1)]["bandwidth_mbps"] = 0


def endless_latency(graph: Graph) -> None:
    graph.edges[("a0", 0), ("a0", 1)]["latency_us"] = float("nan")


def half_a_gpu(graph: Graph) -> None:
    graph.nodes["a0"]["gpus"] = 4.5


def text_for_health(graph: Graph) -> None:
    graph.nodes["a0"]["healthy"] = "no"


def misspelled(graph: Graph) -> None:
    graph.nodes["a0"]["memory"] = "64Gi"


def misspelled_health(graph: Graph) -> None:
    graph.nodes["a0"]["helthy"] = False


def another_number(graph: Graph) -> None:
    graph.nodes["a0"]["gpus"] = 8


def another_model(graph: Graph) -> None:
    graph.nodes["a0", 3]["model"] = "H100"


def too_many_for_the_model(graph: Graph) -> None:
    graph.nodes["a0"]["model"] = "gb200-nvl72-tray"
    graph.add_node("more", kind="gpu")
    graph.add_edge("a0", "more")


def endless_number(graph: Graph) -> None:
    graph.edges[("a0", 0), ("a0", 1)]["latency_us"] = 10**400


def unknown_model(graph: Graph) -> None:
    graph.nodes["a0"]["model"] = "dgx-h1000"


def no_gpus_said(graph: Graph) -> None:
    graph.add_node("c", kind="host", gpu_model="H100")
    graph.add_edge("a", "c")


def same_name(graph: Graph) -> None:
    graph.nodes["b0"]["name"] = "a0"


def link_between_hosts(graph: Graph) -> None:
    wire(graph, ("a0", 0), ("b0", 0), "nvlink")


def link_to_a_host(graph: Graph) -> None:
    wire(graph, ("a0", 0), "a1", "pcie")


def link_to_itself(graph: Graph) -> None:
    wire(graph, ("a0", 0), ("a0", 0), "pcie")


def uplink_to_elsewhere(graph: Graph) -> None:
    wire(graph, "a0", "b", "uplink")


def uplink_to_a_switch_in_nothing(graph: Graph) -> None:
    graph.add_node("leaf", kind="switch")
    wire(graph, "a0", "leaf", "uplink")


def uplinks_of_some(graph: Graph) -> None:
    graph.edges["a", "a0"]["bandwidth_mbps"] = 7


def another_uplink(graph: Graph) -> None:
    for name in ("a0", "a1", "b0", "b1"):
        graph.edges[name[0], name]["bandwidth_mbps"] = 7
    graph.nodes["a1"]["uplink_mbps"] = 6


def links_of_no_level(graph: Graph) -> None:
    graph.graph["links"] = {"row": {"bandwidth_mbps": 5}}


def wan_of_hosts(graph: Graph) -> None:
    wire(graph, "a0", "b0", "wan")


def some_in_numa(graph: Graph) -> None:
    graph.add_node("n", kind="numa")
    graph.add_edge("a0", "n")
    graph.remove_edge("a0", ("a0", 3))
    graph.add_edge("n", ("a0", 3))


def unknown_matrix(graph: Graph) -> None:
    graph.nodes["a0"]["gpu_links"] = "ring"


def another_matrix(graph: Graph) -> None:
    kinds = {"N": {"kind": "nvlink", "bandwidth_mbps": 400_000}}
    rows = ["X N - N", "N X N -", "- N X N", "N - N X"]
    graph.graph["gpu_links"] = [{"name": "ring", "classes": kinds, "gpus": rows}]
    graph.nodes["a0"]["gpu_links"] = "ring"


def one_index(graph: Graph) -> None:
    for i in (0, 3):
        graph.nodes["a0", i]["index"] = 3


def no_matrix(graph: Graph) -> None:
    graph.graph["gpu_links"] = [{"name": "ring", "gpus": 3}]


def spoiled_matrix(graph: Graph, **values: Any) -> None:
    kinds = {"N": {"kind": "nvlink", "bandwidth_mbps": 7}}
    matrix = {"name": "m", "classes": kinds, "gpus": ["X N", "N X"]}
    graph.graph["gpu_links"] = [matrix, matrix | values]


def no_hosts(graph: Graph) -> None:
    graph.remove_nodes_from([n for n, kind in list(graph.nodes(data="kind")) if kind != "rack"])


REFUSED = [
    (in_two_racks, "node 'a0': is in 'a' and in 'b'; expected one container"),
    (gpu_of_two_hosts, "node ('a0', 2): is in 'a0' and in 'b0'; expected one container"),
    (to_nothing, "node ('a0', 9): has no kind, and edge ('a0', 9) to ('a0', 1) ends at it"),
    (level_twice, "edge 'a' to 'b': rack is twice on a way outwards"),
    (
        level_beside,
        "edge 'a0' to 'a': a host is in a rack, and by edge 'b0' to 'z' one is in a zone",
    ),
    (level_missing, "node 'b': nothing contains this rack; expected an edge of kind contains to a"),
    (level_skipped, "edge 'z' to 'c': a zone contains a host; expected a rack around it"),
    (level_of_nothing, "node 'c': kind is 'cage', and no host lies in such a node; expected host"),
    (
        level_unlisted,
        "node 'a': kind is 'rack', and not a level listed; expected host",
    ),
    (cycle, "edge 'a' to 'r': a rack is in a row, and by edge 'a' to 'z' one is in a zone"),
    (gpu_in_a_rack, "edge 'a' to 'lost': a rack contains a gpu; expected a host or numa or switch"),
    (gpu_in_nothing, "node 'lost': no host contains this gpu; expected one"),
    (gpu_in_a_gpu, "edge ('a0', 0) to ('a0', 1): contains joins two nodes of kind gpu"),
    (
        unknown_kind,
        "edge ('a0', 0) to ('a0', 2): kind is 'nvlnk'; expected one of contains",
    ),
    (kind_in_capitals, "node ('a0', 0): kind is 'GPU'; expected gpu"),
    (kind_of_a_number, "node 'a0': kind is 7; expected text"),
    (
        without_bandwidth,
        "edge ('a0', 0) to ('a0', 1): bandwidth_mbps of nvlink is missing;",
    ),
    (text_for_bandwidth, "edge ('a0', 0) to ('a0', 1): bandwidth_mbps is 'fast'; expected a whole"),
    (no_bandwidth, "edge ('a0', 0) to ('a0', 1): bandwidth_mbps of nvlink is 0; expected a whole"),
    (endless_latency, "edge ('a0', 0) to ('a0', 1): latency_us is nan; expected a number"),
    (half_a_gpu, "node 'a0': gpus is 4.5; expected a whole number"),
    (text_for_health, "node 'a0': healthy is 'no'; expected true or false"),
    (misspelled, "node 'a0': unknown attribute 'memory'; expected memory_mib"),
    (misspelled_health, "node 'a0': unknown attribute 'helthy'; expected healthy"),
    (another_number, "node 'a0': gpus is 8, and 4 GPUs are in it; expected the same number"),
    (
        another_model,
        "node ('a0', 3): model is 'H100'; expected 'A100' as of the others",
    ),
    (too_many_for_the_model, "node 'a0': has 5 GPUs; expected at most the 4 of its model 'gb200"),
    (endless_number, "edge ('a0', 0) to ('a0', 1): latency_us is 1000000"),
    (unknown_model, "node 'a0': host model 'dgx-h1000' is unknown; expected one of dgx-a100"),
    (
        no_gpus_said,
        "node 'c': has neither gpus, nor a model, nor GPUs in it; expected",
    ),
    (same_name, "node 'b0': name 'a0' is that of 'a0', too; expected each name once"),
    (link_between_hosts, "edge ('a0', 0) to ('b0', 0): nvlink joins hosts 'a0' and 'b0'; expected"),
    (link_to_a_host, "edge ('a0', 0) to 'a1': pcie ends at a host; expected a GPU, NIC, switch"),
    (link_to_itself, "edge ('a0', 0) to ('a0', 0): pcie joins a node to itself; expected two"),
    (
        uplink_to_elsewhere,
        "edge 'a0' to 'b': uplink joins host 'a0' and rack 'b'; expected",
    ),
    (
        uplink_to_a_switch_in_nothing,
        "edge 'a0' to 'leaf': uplink joins host 'a0' and what",
    ),
    (uplinks_of_some, "node 'a1': has no uplink, and node 'a0' has one; expected one of all"),
    (another_uplink, "node 'a1': uplink_mbps is 6, and its uplink has 7 Mbit/s; expected the same"),
    (links_of_no_level, "graph: links of 'row': unknown level; expected one of rack, host"),
    (
        wan_of_hosts,
        "edge 'a0' to 'b0': wan ends at host 'a0'; expected two domains",
    ),
    (one_index, "node ('a0', 3): index 3 is that of ('a0', 0), too; expected each index once"),
    (some_in_numa, "node ('a0', 0): is in no NUMA node, and other GPUs of its host are"),
    (unknown_matrix, "node 'a0': link matrix 'ring' is unknown; expected one of the graph's"),
    (
        another_matrix,
        "node 'a0': by its edges GPUs 1 and 2 have no link; expected nvlink of",
    ),
    (no_matrix, "graph: gpu_links[0] is {'name': 'ring', 'gpus': 3}; expected a link matrix"),
    (no_hosts, "graph: no node is of kind host; expected at least one"),
]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "gpu_links[1] has the name 'm' of another; expected a link matrix as in a Cluster"),
        ({"gpus": ["X N", "N"]}, "gpu_links[1] is not of 2 GPUs in each row"),
        ({"gpus": ["X N", "Q X"]}, "gpu_links[1] has 'Q', which is none of its classes"),
        ({"gpus": ["X N", "- X"]}, "gpu_links[1] has other links one way than back"),
        ({"numa": [0]}, "gpu_links[1] is not of 2 GPUs in each row"),
        ({"numa": [0, "x"]}, "gpu_links[1] has 'x' for a number"),
        ({"name": 7}, "gpu_links[1] has 7 for a name"),
        ({"classes": {"N": {"kind": "rope", "bandwidth_mbps": 7}}}, "gpu_links[1] is {'name': 'm'"),
    ],
)
def test_a_matrix_that_is_none_is_refused(values: dict[str, Any], message: str) -> None:
    graph = small()
    spoiled_matrix(graph, **values)
    with pytest.raises(GraphError) as caught:
        Cluster.from_graph(graph)
    assert f"graph: {message}" in str(caught.value)


def test_what_a_cluster_cannot_say_is_counted() -> None:
    graph = small()
    graph.add_node("hub", kind="switch")
    for name in ("a0", "a1"):
        wire(graph, (name, 0), "hub", "nvlink")
        wire(graph, (name, 3), "hub", "nvlink", latency_us=1)
    for name in "xyz":
        graph.add_node(name, kind="switch", color="red")
        graph.add_edge("a", name)
    wire(graph, "x", "y", "uplink")
    del graph.nodes["b0"]["gpu_model"]
    said = read_graph(graph)
    assert said.hosts[0].links is not None
    assert said.hosts[0].links.mbps[3] == (7, 0, 400_000, 0)
    assert sorted(said.left_out) == [
        "hosts without the model of their GPUs, which is called gpu: 1",
        "left out: attribute 'color': 3",
        "left out: latency_us of links in hosts: 2",
        "left out: links between switches of one domain: 1",
        "left out: switches that join GPUs of several hosts: 1",
    ]
    assert read_graph(nvl72_racks("n", 1).to_graph("gpu")).left_out == []


def test_hosts_that_are_wired_alike_share_a_matrix() -> None:
    graph = small()
    graph.edges[("b1", 0), ("b1", 1)]["bandwidth_mbps"] = 1
    cluster = Cluster.from_graph(graph)
    assert [links.name for links in cluster.gpu_links] == ["links-1", "links-2"]
    assert cluster.gpu_links_of.tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("spoil", "message"), REFUSED, ids=lambda one: getattr(one, "__name__", "")
)
def test_a_graph_that_contradicts_itself_is_one_error_that_names_the_place(
    spoil: Any, message: str
) -> None:
    graph = small()
    spoil(graph)
    with pytest.raises(GraphError) as caught:
        Cluster.from_graph(graph)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
