"""The NetworkX view: containment, NVLink, rails, uplinks and WAN."""

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from placewright.topology import (
    CATALOGUE,
    Cluster,
    Link,
    State,
    assemble,
    nvl72_racks,
    tree,
)
from placewright.topology.builders import TREE_LINKS, WAN_LINK
from placewright.topology.catalogue import BETWEEN_SOCKETS_MBPS

Graph = nx.Graph  # type: ignore[type-arg]


def only(graph: Graph, *kinds: str) -> Graph:
    """Return the part of a graph whose edges are of the given kinds."""
    wires = [(a, b) for a, b, kind in graph.edges(data="kind") if kind in kinds]
    return graph.edge_subgraph(wires)


def of_kind(graph: Graph, kind: str) -> list[Any]:
    """Return the nodes of one kind."""
    return [node for node, other in graph.nodes(data="kind") if other == kind]


def nvlink_between(graph: Graph, a: Any, b: Any) -> int:
    """Return the NVLink bandwidth from one GPU to another, over all paths, in Mbit/s."""
    return int(nx.maximum_flow_value(only(graph, "nvlink"), a, b, capacity="bandwidth_mbps"))


@pytest.fixture(scope="module")
def mixed() -> Cluster:
    """Two regions, in each a host of every kind, and one more."""
    kinds = [*CATALOGUE.values(), CATALOGUE["dgx-a100"]]
    return tree("m", regions=2, blocks=1, racks=2, hosts=len(kinds) // 2, host_model=kinds * 2)


@pytest.mark.parametrize("detail", ["host", "gpu"])
def test_containment_is_one_tree_per_region_and_reaches_every_node(
    mixed: Cluster, detail: Any
) -> None:
    graph = mixed.to_graph(detail)
    contained = only(graph, "contains")
    assert nx.is_forest(contained)
    assert set(contained) == set(graph)
    assert nx.number_connected_components(contained) == 2


def test_every_node_has_a_kind_and_every_wire_its_width_and_latency(mixed: Cluster) -> None:
    graph = mixed.to_graph("gpu")
    assert all(kind for _, kind in graph.nodes(data="kind"))
    kinds = {kind for *_, kind in graph.edges(data="kind")}
    inside = {"nvlink", "xgmi", "pcie", "numa", "system"}
    assert kinds == {"contains", "rail", "uplink", "wan", *inside}
    for *_, wire in graph.edges(data=True):
        if wire["kind"] != "contains":
            assert wire["bandwidth_mbps"] > 0
            assert wire["latency_us"] > 0


def test_nodes_and_indices_follow_the_arrays(mixed: Cluster) -> None:
    graph = mixed.to_graph("gpu")
    for level, names in zip(mixed.levels, mixed.names, strict=True):
        assert [graph.nodes[level, name]["index"] for name in names] == [*range(len(names))]
        assert len(of_kind(graph, level)) == len(names)
    gpus = of_kind(graph, "gpu")
    assert [graph.nodes[gpu]["index"] for gpu in gpus] == [*range(mixed.num_gpus)]
    first = graph.nodes["gpu", "r0-d0-b0-k0-h2", 3]
    assert first["host"] == "r0-d0-b0-k0-h2"
    assert (first["model"], first["memory_mib"]) == ("GB200", 186 * 1024)


def test_the_host_view_holds_no_devices(mixed: Cluster) -> None:
    kinds = {kind for _, kind in mixed.to_graph().nodes(data="kind")}
    assert kinds == {*mixed.levels, "switch"}


@pytest.mark.parametrize("name", ["dgx-a100", "dgx-h100"])
def test_switched_gpus_of_a_host_reach_each_other_at_full_nvlink_width(name: str) -> None:
    model = CATALOGUE[name]
    graph = tree("t", blocks=1, racks=1, hosts=2, host_model=model).to_graph("gpu")
    host = "r0-d0-b0-k0-h0"
    assert len(of_kind(graph, "nvswitch")) == 2 * model.nvswitches
    component = nx.node_connected_component(only(graph, "nvlink"), ("gpu", host, 0))
    assert {node for node in component if node[0] == "gpu"} == {("gpu", host, i) for i in range(8)}
    reached = nvlink_between(graph, ("gpu", host, 0), ("gpu", host, 7))
    assert reached == model.gpu_link.bandwidth_mbps


def test_v100s_of_a_host_are_joined_as_a_hybrid_cube_mesh_without_switches() -> None:
    model = CATALOGUE["hgx-v100-8"]
    graph = tree("t", blocks=1, racks=1, hosts=1, host_model=model).to_graph("gpu")
    assert of_kind(graph, "nvswitch") == []
    mesh = only(graph, "nvlink")
    gpu = ("gpu", "r0-d0-b0-k0-h0")
    assert mesh.edges[(*gpu, 0), (*gpu, 3)]["bandwidth_mbps"] == 2 * 25 * 8_000
    assert mesh.edges[(*gpu, 0), (*gpu, 1)]["bandwidth_mbps"] == 25 * 8_000
    assert not mesh.has_edge((*gpu, 0), (*gpu, 7))
    assert nvlink_between(graph, (*gpu, 0), (*gpu, 7)) == model.gpu_link.bandwidth_mbps
    assert nx.diameter(mesh) == 2


def test_bridged_cards_meet_otherwise_in_the_host_bridge_of_their_socket() -> None:
    model = CATALOGUE["a100-pcie-8-bridged"]
    graph = tree("t", blocks=1, racks=1, hosts=1, host_model=model).to_graph("gpu")
    host = "r0-d0-b0-k0-h0"
    gpu = [("gpu", host, i) for i in range(8)]
    joined = {frozenset(pair) for pair in only(graph, "nvlink").edges}
    assert joined == {frozenset((gpu[i], gpu[i + 1])) for i in (0, 2, 4, 6)}
    wires = [(x, y) for x, y, kind in graph.edges(data="kind") if kind in ("numa", "system")]
    way = nx.shortest_path(graph.edge_subgraph(wires), gpu[1], gpu[6])
    assert way == [gpu[1], ("pcie", host, 0), ("pcie", host, 1), gpu[6]]
    between = graph.edges[("pcie", host, 0), ("pcie", host, 1)]
    assert between["bandwidth_mbps"] == BETWEEN_SOCKETS_MBPS


def test_trays_of_two_models_in_a_rack_are_two_nvlink_domains() -> None:
    trays = [CATALOGUE["gb200-nvl72-tray"], CATALOGUE["gb300-nvl72-tray"]]
    graph = tree("t", blocks=1, racks=1, hosts=2, host_model=trays).to_graph("gpu")
    components = list(nx.connected_components(only(graph, "nvlink")))
    assert [sum(node[0] == "gpu" for node in part) for part in components] == [4, 4]


def test_an_nvl72_rack_is_one_nvlink_component_of_72_gpus() -> None:
    cluster = nvl72_racks("n", 2)
    graph = cluster.to_graph("gpu")
    components = list(nx.connected_components(only(graph, "nvlink")))
    assert [sum(node[0] == "gpu" for node in part) for part in components] == [72, 72]
    assert [sum(node[0] == "nvswitch" for node in part) for part in components] == [18, 18]
    assert graph.has_edge(("rack", "d0-b0-k1"), ("nvswitch", "d0-b0-k1", 17))
    far = nvlink_between(graph, ("gpu", "d0-b0-k0-h0", 0), ("gpu", "d0-b0-k0-h17", 3))
    assert far == CATALOGUE["gb200-nvl72-tray"].gpu_link.bandwidth_mbps


def test_a_rack_with_more_trays_than_an_nvlink_domain_takes_is_refused() -> None:
    tray = CATALOGUE["gb200-nvl72-tray"]
    cluster = tree("t", blocks=1, racks=1, hosts=19, host_model=tray)
    with pytest.raises(ValueError, match="holds 19 hosts of model 'gb200-nvl72-tray' in one NV"):
        cluster.to_graph("gpu")


def test_gpus_share_nics_and_each_rail_of_a_rack_has_a_switch() -> None:
    model = CATALOGUE["hgx-v100-8"]
    graph = tree("t", blocks=1, racks=2, hosts=3, host_model=model).to_graph("gpu")
    assert len(of_kind(graph, "nic")) == 6 * 4
    assert len(of_kind(graph, "rail")) == 2 * 4
    for g in range(8):
        wire = graph.edges[("gpu", "r0-d0-b0-k1-h2", g), ("nic", "r0-d0-b0-k1-h2", g // 2)]
        assert wire["bandwidth_mbps"] == model.pcie_link.bandwidth_mbps
    rail = ("rail", "r0-d0-b0-k1", 3)
    hosts = {node[1] for node in graph[rail] if node[0] == "nic"}
    assert hosts == {f"r0-d0-b0-k1-h{h}" for h in range(3)}
    up = graph.edges[rail, ("switch", "rack", "r0-d0-b0-k1")]
    assert up["kind"] == "uplink"
    assert up["bandwidth_mbps"] == 3 * model.nic_link.bandwidth_mbps


def test_railed_hosts_send_through_nics_and_the_host_view_bundles_them() -> None:
    cluster = tree("t", blocks=1, racks=1, hosts=1)
    host, port = ("host", "r0-d0-b0-k0-h0"), ("switch", "rack", "r0-d0-b0-k0")
    assert cluster.to_graph("host").edges[host, port]["bandwidth_mbps"] == 8 * 400_000
    assert not cluster.to_graph("gpu").has_edge(host, port)


def test_hosts_without_rails_have_the_uplink_of_their_level() -> None:
    cluster = tree("t", blocks=1, racks=1, hosts=2)
    unknown = replace(cluster, host_models=(), host_model=np.full(2, -1))
    for detail in ("host", "gpu"):
        graph = unknown.to_graph(detail)
        wire = graph.edges[("host", "r0-d0-b0-k0-h1"), ("switch", "rack", "r0-d0-b0-k0")]
        assert wire["kind"] == "uplink"
        assert Link(wire["bandwidth_mbps"], wire["latency_us"]) == TREE_LINKS["host"]


def test_gpus_without_nvlink_meet_in_their_hosts_pcie_switch() -> None:
    model = CATALOGUE["hgx-v100-8"]
    plain = replace(
        model, name="plain", intra="pcie", mesh=(), gpu_link=model.pcie_link, nic_rails=0
    )
    graph = tree("t", blocks=1, racks=1, hosts=1, host_model=plain).to_graph("gpu")
    wire = graph.edges[("gpu", "r0-d0-b0-k0-h0", 7), ("pcie", "r0-d0-b0-k0-h0", 0)]
    assert wire["kind"] == "pcie"
    assert wire["bandwidth_mbps"] == model.pcie_link.bandwidth_mbps
    assert of_kind(graph, "nvswitch") == of_kind(graph, "nic") == []


def test_regions_are_joined_by_wan_and_wires_connect_the_whole_cluster() -> None:
    cluster = tree("t", regions=3, datacenters=2, blocks=2, racks=2, hosts=2)
    graph = cluster.to_graph("gpu")
    wan = only(graph, "wan")
    assert set(wan) == {("switch", "region", f"r{i}") for i in range(3)}
    assert wan.number_of_edges() == 3
    for *_, wire in wan.edges(data=True):
        assert Link(wire["bandwidth_mbps"], wire["latency_us"]) == WAN_LINK
    wires = only(graph, "nvlink", "pcie", "rail", "uplink", "wan")
    assert nx.is_connected(wires)
    assert set(of_kind(graph, "gpu")) <= set(wires)


def test_without_links_the_graph_is_containment_alone() -> None:
    cluster = tree("t", blocks=2, racks=2, hosts=2, links={})
    unknown = {"host_models": (), "gpu_links": (), "gpu_memory": np.zeros(8, dtype=np.int64)}
    nothing = {"host_model": np.full(8, -1), "gpu_links_of": np.full(8, -1)}
    bare = replace(cluster, **unknown, **nothing)
    graph = bare.to_graph("gpu")
    assert nx.is_tree(graph)
    assert {kind for *_, kind in graph.edges(data="kind")} == {"contains"}
    assert "memory_mib" not in graph.nodes["gpu", "r0-d0-b0-k0-h0", 0]


def test_a_flat_cluster_still_has_its_rails_and_nvlink_domain() -> None:
    cluster = assemble(
        "flat",
        [],
        [],
        [("a", None), ("b", None)],
        gpu_count=[4, 3],
        gpu_model=["GB200", "GB200"],
        resources=[],
        capacity=np.empty((2, 0), dtype=np.int64),
        host_model=["gb200-nvl72-tray"] * 2,
    )
    graph = cluster.to_graph("gpu")
    assert len(of_kind(graph, "gpu")) == 7
    assert nx.is_connected(only(graph, "nvlink"))
    assert graph.has_edge(("nic", "b", 3), ("rail", "flat", 3))


def test_a_state_shows_on_hosts_and_gpus() -> None:
    cluster = tree("t", blocks=1, racks=1, hosts=2)
    state = State.empty(cluster)
    state.healthy[1] = False
    state.busy[0] = True
    state.gpu_free[3] = 250
    graph = cluster.to_graph("gpu", state)
    assert graph.nodes["host", "r0-d0-b0-k0-h0"]["busy"] is True
    assert graph.nodes["host", "r0-d0-b0-k0-h1"]["healthy"] is False
    assert graph.nodes["gpu", "r0-d0-b0-k0-h0", 3]["free"] == 250


def test_an_unknown_detail_is_refused() -> None:
    with pytest.raises(ValueError, match="detail 'rack' is unknown; expected 'host' or 'gpu'"):
        tree("t", blocks=1, racks=1, hosts=1).to_graph("rack")  # type: ignore[arg-type]


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Draw irregular clusters of one to four levels with at least one host."""
    levels = ["region", "zone", "row"][: draw(st.integers(0, 3))]
    sizes = [draw(st.integers(1, 4)) for _ in levels]
    domains: list[tuple[str, str, str | None]] = []
    for depth, (level, size) in enumerate(zip(levels, sizes, strict=True)):
        for i in range(size):
            above = draw(st.integers(0, sizes[depth - 1] - 1)) if depth else None
            domains.append((f"{level}{i}", level, f"{levels[depth - 1]}{above}" if depth else None))
    num_hosts = draw(st.integers(1, 8))
    inner = [
        f"{levels[-1]}{draw(st.integers(0, sizes[-1] - 1))}" for _ in range(num_hosts) if levels
    ]
    gpus = draw(st.lists(st.integers(0, 8), min_size=num_hosts, max_size=num_hosts))
    known = st.sampled_from([None, "dgx-h100", "hgx-v100-8"])
    return assemble(
        "drawn",
        levels,
        domains,
        [(f"h{i}", inner[i] if levels else None) for i in range(num_hosts)],
        gpu_count=gpus,
        gpu_model=["g" if count else None for count in gpus],
        resources=["cpu"],
        capacity=np.ones((num_hosts, 1), dtype=np.int64),
        host_model=[draw(known) for _ in range(num_hosts)],
        links={"host": Link(1_000, 1.0)},
    )


def downward(graph: Graph) -> Any:
    """Return the containment edges, directed from container to content."""
    outermost = next(iter(graph))[0]
    contained = only(graph, "contains")
    directed: Any = nx.DiGraph()
    directed.add_nodes_from(graph.nodes(data=True))
    for node in contained:
        if node[0] == outermost and len(node) == 2:
            directed.add_edges_from(nx.bfs_edges(contained, node))
    return directed


@settings(max_examples=examples(day=15, nightly=60))
@given(clusters())
def test_the_graphs_containment_is_that_of_the_domain_arrays(cluster: Cluster) -> None:
    graph = cluster.to_graph("gpu")
    assert not only(graph, "contains") or nx.is_forest(only(graph, "contains"))
    down = downward(graph)
    for depth, level in enumerate(cluster.levels):
        for i, name in enumerate(cluster.names[depth]):
            held = np.flatnonzero(cluster.domain[depth] == i).tolist()
            below = nx.descendants(down, (level, name)) | {(level, name)}
            assert sorted(down.nodes[n]["index"] for n in below if n[0] == "host") == held
            gpus = sorted(down.nodes[n]["index"] for n in below if n[0] == "gpu")
            start = cluster.gpu_start
            assert gpus == [g for h in held for g in range(start[h], start[h + 1])]


@settings(max_examples=examples(day=15, nightly=60))
@given(clusters(), st.sampled_from(["host", "gpu"]))
def test_drawn_clusters_come_back_from_their_graphs(cluster: Cluster, detail: Any) -> None:
    assert Cluster.from_graph(cluster.to_graph(detail)) == cluster
