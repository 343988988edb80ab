"""Reading graphs: simple ones made by hand, round trips, and every graph that is refused."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest

from placewright.topology import CATALOGUE, Cluster, GraphError, Link, nvl72_racks, tree
from placewright.topology.gpu_links import LINK_KINDS

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
    "models": tree(
        "m", regions=3, blocks=1, racks=2, hosts=2, host_model=[*CATALOGUE.values()] * 3
    ),
    "nvl72": nvl72_racks("n", 3),
    "bare": tree("b", blocks=1, racks=1, hosts=1, links={}),
}


@pytest.mark.parametrize("detail", ["host", "gpu"])
@pytest.mark.parametrize("name", CLUSTERS)
def test_a_cluster_comes_back_from_its_graph(name: str, detail: Any) -> None:
    assert Cluster.from_graph(CLUSTERS[name].to_graph(detail)) == CLUSTERS[name]


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


def test_uplinks_of_a_level_are_one_link() -> None:
    graph = small()
    for rack in "ab":
        graph.add_node(rack + "-switch", kind="switch")
        graph.add_edge(rack, rack + "-switch")
        for host in (rack + "0", rack + "1"):
            graph.add_edge(host, rack + "-switch", kind="uplink", bandwidth_mbps=9, latency_us=2)
    assert Cluster.from_graph(graph).links == {"host": Link(9, 2.0)}
    graph.edges["b1", "b-switch"]["bandwidth_mbps"] = 8
    with pytest.raises(GraphError, match=r"node 'b1': its uplink has 8 Mbit/s .* expected 9"):
        Cluster.from_graph(graph)
