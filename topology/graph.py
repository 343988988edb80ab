"""The cluster as a NetworkX graph, built on demand from the arrays; no round depends on it.

Nodes (all carry `kind`; domains, hosts and GPUs also `index`, their place in the arrays):

- ``(level, name)`` for every domain and host, kind = level;
- ``("switch", level, name)`` for the network port of a domain above the host, and
  ``("switch", "cluster", name)`` where outermost domains have uplinks and no WAN joins them;
- with detail "gpu" also ``("gpu", host, i)``, ``("nic", host, rail)``, ``("rail", domain, rail)``,
  and ``("nvswitch", owner, i)`` or ``("pcie", host, 0)``; an NVSwitch's owner is the host, or the
  rack where the hosts of a rack share one NVLink domain.

Edges carry `kind`, and all but "contains" also `bandwidth_mbps` and `latency_us`: "contains"
(a forest over all nodes), "nvlink", "pcie", "rail", "uplink", "wan". Switches are nodes of their
own so that containment and wires never compete for the one edge between two nodes, which keeps
this a simple graph, fit for shortest paths and for flows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from placewright.topology.catalogue import HostModel, Link
from placewright.topology.cluster import Cluster, State

if TYPE_CHECKING:
    import networkx as nx

Node: TypeAlias = tuple[str | int, ...]


def build_graph(
    cluster: Cluster, detail: Literal["host", "gpu"] = "host", state: State | None = None
) -> nx.Graph[Node]:
    """Build the graph of a cluster; time and memory grow with its GPUs and their lanes.

    `cluster`: what to draw. `detail`: down to hosts, or to GPUs, NVSwitches and NICs. `state`: adds
    `healthy` and `busy` to hosts and `free` (milli-GPU) to GPUs. Raises ValueError if `detail` is
    neither, or more hosts lie in one NVLink domain than their model allows.
    """
    import networkx as nx

    if detail not in ("host", "gpu"):
        raise ValueError(f"detail {detail!r} is unknown; expected 'host' or 'gpu'")
    graph: nx.Graph[Node] = nx.Graph(name=cluster.name)
    _add_domains(graph, cluster, state)
    _add_uplinks(graph, cluster, detail)
    if detail == "gpu":
        _add_gpus(graph, cluster, state)
        for index, model in enumerate(cluster.host_models):
            hosts = np.flatnonzero(cluster.host_model == index).tolist()
            _add_gpu_links(graph, cluster, model, hosts)
            _add_nics(graph, cluster, model, hosts)
        _add_rail_switches(graph, cluster)
    return graph


def _add_domains(graph: nx.Graph[Node], cluster: Cluster, state: State | None) -> None:
    for depth, (level, names) in enumerate(zip(cluster.levels, cluster.names, strict=True)):
        graph.add_nodes_from(
            ((level, name), {"kind": level, "name": name, "index": i})
            for i, name in enumerate(names)
        )
        if depth:
            above = [(cluster.levels[depth - 1], name) for name in cluster.names[depth - 1]]
            _contain(
                graph,
                (
                    (above[p], (level, name))
                    for p, name in zip(cluster.parent[depth].tolist(), names, strict=True)
                ),
            )
    if state is not None:
        healthy, busy = state.healthy.tolist(), state.busy.tolist()
        graph.add_nodes_from(
            (("host", name), {"healthy": healthy[h], "busy": busy[h]})
            for h, name in enumerate(cluster.hosts)
        )


def _add_uplinks(graph: nx.Graph[Node], cluster: Cluster, detail: str) -> None:
    """Join the ports of domains to those of the domains that hold them, and regions by WAN."""
    has_core = len(cluster.names[0]) > 1 and not cluster.wan
    for depth in range(0 if has_core else 1, len(cluster.levels)):
        level, names = cluster.levels[depth], cluster.names[depth]
        uplinks = [cluster.links.get(level)] * len(names)
        if level == "host":
            # A railed host sends through its NICs; with GPUs in view these are nodes of their own.
            for h, index in enumerate(cluster.host_model.tolist()):
                if index >= 0 and cluster.host_models[index].nic_rails:
                    model = cluster.host_models[index]
                    bundle = model.nic_link.bundle(model.nic_rails)
                    uplinks[h] = bundle if detail == "host" else None
        pairs: dict[Link, list[tuple[Node, Node]]] = defaultdict(list)
        for name, parent, link in zip(names, cluster.parent[depth].tolist(), uplinks, strict=True):
            if link is not None:
                above = (
                    _port(graph, cluster, depth - 1, cluster.names[depth - 1][parent])
                    if depth
                    else _core(graph, cluster)
                )
                pairs[link].append((_port(graph, cluster, depth, name), above))
        for link, joined in pairs.items():
            _join(graph, "uplink", link, joined)
    for (a, b), link in cluster.wan.items():
        _join(graph, "wan", link, [(_port(graph, cluster, 0, a), _port(graph, cluster, 0, b))])


def _add_gpus(graph: nx.Graph[Node], cluster: Cluster, state: State | None) -> None:
    owner = np.repeat(np.arange(cluster.num_hosts), cluster.gpu_count)
    within = np.arange(cluster.num_gpus) - cluster.gpu_start[owner]
    hosts = [cluster.hosts[h] for h in owner.tolist()]
    ids = [("gpu", host, i) for host, i in zip(hosts, within.tolist(), strict=True)]
    models = [cluster.gpu_models[g] for g in cluster.gpu_model[owner].tolist()]
    # The extra last entry answers for unknown hardware, whose model index is -1.
    memory_of = [model.gpu_memory_mib for model in cluster.host_models] + [None]
    memory = [memory_of[m] for m in cluster.host_model[owner].tolist()]
    graph.add_nodes_from(
        (
            node,
            {
                "kind": "gpu",
                "host": hosts[g],
                "index": g,
                "model": models[g],
                "memory_mib": memory[g],
            },
        )
        for g, node in enumerate(ids)
    )
    _contain(graph, ((("host", host), node) for host, node in zip(hosts, ids, strict=True)))
    if state is not None:
        free = state.gpu_free.tolist()
        graph.add_nodes_from((node, {"free": free[g]}) for g, node in enumerate(ids))


def _add_gpu_links(
    graph: nx.Graph[Node], cluster: Cluster, model: HostModel, hosts: list[int]
) -> None:
    """Join the GPUs of each host (or NVLink domain) of one model to each other."""
    if model.intra == "nvlink-mesh":
        # Every GPU of a mesh has equally many lanes, so those of GPU 0 give the width of one.
        lane = model.gpu_link.share(sum(lanes for a, b, lanes in model.mesh if 0 in (a, b)))
        for a, b, lanes in model.mesh:
            both = [cluster.hosts[h] for h in hosts if max(a, b) < cluster.gpu_count[h]]
            pairs = ((("gpu", name, a), ("gpu", name, b)) for name in both)
            _join(graph, "nvlink", lane.bundle(lanes), pairs)
        return
    kind, edge, switches = ("nvswitch", "nvlink", model.nvswitches)
    if model.intra == "pcie":
        kind, edge, switches = ("pcie", "pcie", 1)
    members: dict[Node, list[int]] = defaultdict(list)
    for h in hosts:
        shared = model.nvlink_hosts > 1
        members[_leaf(cluster, h) if shared else ("host", cluster.hosts[h])].append(h)
    for owner, inside in members.items():
        if len(inside) > model.nvlink_hosts:
            raise ValueError(
                f"{owner[0]} {owner[1]!r} holds {len(inside)} hosts of model {model.name!r} in "
                f"one NVLink domain; expected at most {model.nvlink_hosts}"
            )
        hubs = [(kind, owner[1], i) for i in range(switches)]
        graph.add_nodes_from(hubs, kind=kind)
        _contain(graph, ((owner, hub) for hub in hubs if owner in graph))
        gpus = [("gpu", cluster.hosts[h], g) for h in inside for g in range(cluster.gpu_count[h])]
        spokes = ((gpu, hub) for gpu in gpus for hub in hubs)
        _join(graph, edge, model.gpu_link.share(switches), spokes)


def _add_nics(graph: nx.Graph[Node], cluster: Cluster, model: HostModel, hosts: list[int]) -> None:
    """Join the GPUs of one host model to their NICs, and these to the switch of their rail."""
    rails = range(model.nic_rails)
    nics = [("nic", cluster.hosts[h], rail) for h in hosts for rail in rails]
    graph.add_nodes_from((nic, {"kind": "nic", "host": nic[1], "rail": nic[2]}) for nic in nics)
    _contain(graph, ((("host", nic[1]), nic) for nic in nics))
    near = [g * model.nic_rails // model.gpus for g in range(model.gpus)] if rails else []
    to_nic = (
        (("gpu", cluster.hosts[h], g), ("nic", cluster.hosts[h], near[g]))
        for h in hosts
        for g in range(cluster.gpu_count[h] if rails else 0)
    )
    _join(graph, "pcie", model.pcie_link, to_nic)
    leaves = [_leaf(cluster, h)[1] for h in hosts]
    to_rail = (
        (("nic", cluster.hosts[h], rail), ("rail", leaf, rail))
        for h, leaf in zip(hosts, leaves, strict=True)
        for rail in rails
    )
    _join(graph, "rail", model.nic_link, to_rail)


def _add_rail_switches(graph: nx.Graph[Node], cluster: Cluster) -> None:
    """Describe the rail switches and join each to its domain, as wide as its NICs together."""
    switches = [node for node in graph if node[0] == "rail" and len(node) == 3]
    graph.add_nodes_from((node, {"kind": "rail", "rail": node[2]}) for node in switches)
    if len(cluster.levels) == 1:
        return
    for node in switches:
        down = list(graph.edges(node, data=True))
        width = sum(wire["bandwidth_mbps"] for _, _, wire in down)
        slowest = max(wire["latency_us"] for _, _, wire in down)
        _contain(graph, [((cluster.levels[-2], node[1]), node)])
        port = _port(graph, cluster, len(cluster.levels) - 2, str(node[1]))
        _join(graph, "uplink", Link(width, slowest), [(node, port)])


def _leaf(cluster: Cluster, host: int) -> Node:
    """Return the innermost domain of a host, or the cluster if it has no levels."""
    if len(cluster.levels) == 1:
        return ("cluster", cluster.name)
    return (cluster.levels[-2], cluster.names[-2][cluster.parent[-1][host]])


def _port(graph: nx.Graph[Node], cluster: Cluster, depth: int, name: str) -> Node:
    """Return the node where a domain's links end, adding it when it is first needed."""
    level = cluster.levels[depth]
    if level == "host":
        return (level, name)
    node = ("switch", level, name)
    if node not in graph:
        graph.add_node(node, kind="switch")
        _contain(graph, [((level, name), node)])
    return node


def _core(graph: nx.Graph[Node], cluster: Cluster) -> Node:
    """Return the node that joins outermost domains where no WAN does, adding it at first."""
    core = ("switch", "cluster", cluster.name)
    graph.add_node(core, kind="switch")
    return core


def _contain(graph: nx.Graph[Node], pairs: Iterable[tuple[Any, Any]]) -> None:
    graph.add_edges_from(pairs, kind="contains")


def _join(graph: nx.Graph[Node], kind: str, link: Link, pairs: Iterable[tuple[Any, Any]]) -> None:
    graph.add_edges_from(
        pairs, kind=kind, bandwidth_mbps=link.bandwidth_mbps, latency_us=link.latency_us
    )
