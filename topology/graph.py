"""The cluster as a NetworkX graph. This page is the specification of that graph.

`Cluster` and `ClusterDocument` write it (`to_graph`) and read it (`from_graph`), and both readers
follow the same rules. A graph may be a `Graph`, `DiGraph`, `MultiGraph` or `MultiDiGraph`; its
nodes may be any hashable values. Attributes that are None count as not given.

Nodes
-----
Every node has a `kind`:

- a level, such as ``"datacenter"`` or ``"rack"``: a domain of that level. `level` says so where
  the level has the name of another kind.
- ``"host"``: with its hardware in attributes, its GPUs as a number (`gpus`) or as nodes.
- ``"gpu"``, ``"nic"``, ``"numa"``: of a host. A NUMA node contains GPUs and NICs of its host.
- ``"switch"``: inside a host it joins GPUs; in a domain it is where links of that domain end. Of a
  special kind: ``"nvswitch"``, ``"pcie"``, ``"rail"``.

`name` is that of a domain or host; by default it is the node itself, or the parts of a tuple with
``-`` between. `index` orders nodes of one kind, in a host each once; by default they have the order
of the graph, after those that have one. Plans count GPUs from 0 in that order.
`NODE_ATTRIBUTES` has all names and types. An attribute of another name is the user's own and says
nothing here, unless it looks like one of these misspelled: that is refused.

Hosts: `model` is a host model of the catalogue and fills what is not given. `gpu_model` is by
default that of the GPU nodes, else ``"gpu"``; `cpu_milli` and `memory_mib` are 0 by default.
`gpu_links` names a link matrix of the graph or of a host model. `mig` and `healthy` are true by
default. `resources` are amounts and `annotations` texts by name. `range` is the range
(``h[000-127]``) that the host is a part of in a Cluster document.

Edges
-----
Every edge has a `kind`, ``"contains"`` by default. All others have `bandwidth_mbps` (Mbit/s in each
direction) and may have `latency_us` (microseconds one way, by default 0). Parallel edges of one
kind add up; in a directed graph an edge and one back are the same link.

- ``"contains"``: a domain and a domain or host of the next level, or a host and what is in it. With
  a bandwidth it is the uplink of what is contained, too. The kinds of domains on the way from a
  host outwards are the levels, unless the graph lists them.
- ``"nvlink"``, ``"xgmi"``, ``"pcie"``, ``"numa"``, ``"system"``: between GPUs, NICs, switches and
  NUMA nodes. They are the link matrix of their host, in place of the model's; of hosts without such
  edges the attributes tell. What two GPUs (or a NIC and a GPU) have is their own edge and the
  switches that both have an edge to, each as wide as the slower edge: of the best kind, all
  together. Without any, it is the best way through several switches, as wide as its slowest edge.
  Through a NUMA node a link is no better than ``"numa"``.
- ``"uplink"``, ``"rail"``: from a domain or host, or a switch or NIC in it, to the domain around
  it, or a switch in that; from an outermost domain to a switch that nothing contains. All of one
  domain together are its uplink. What most domains of a level have, unless the graph lists it, is
  the bandwidth of the level, and that of others their own, `uplink_mbps`; the latency of a level is
  one. Hosts whose model has rails have those of the model. Edges between switches of one domain say
  nothing that a cluster knows. That is a tree. Where another uplink is among those above the hosts,
  or not all that a domain contains have uplinks to the same of its switches, all of them are the
  links of a graph of switches, `fabric`: each innermost domain is one switch, with those in it.
- ``"wan"``: between two outermost domains, or switches in them. `index` and `first` (the name of
  one end) keep the order of a document.

Graph
-----
`name`; `levels` above the host, outermost first; `links` by level, `pools` and `gpu_links` as in
the Cluster document, with amounts in small units; `resources`, the names of what hosts have besides
GPUs, in the order of the arrays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from placewright.topology.catalogue import (
    BETWEEN_SOCKETS_MBPS,
    HostHardware,
    HostModel,
    Link,
    host_hardware,
    model_links,
)
from placewright.topology.gpu_links import LINK_KINDS, MOST_GPUS, GpuLinks
from placewright.topology.units import HOST_LEVEL

if TYPE_CHECKING:
    import networkx as nx

Node: TypeAlias = Any
Detail: TypeAlias = Literal["host", "gpu"]

NODE_ATTRIBUTES: Mapping[str, Mapping[str, type]] = MappingProxyType(
    {
        "domain": {"name": str, "level": str, "index": int, "uplink_mbps": int},
        HOST_LEVEL: {
            "name": str,
            "index": int,
            "range": str,
            "model": str,
            "gpus": int,
            "gpu_model": str,
            "gpu_memory_mib": int,
            "gpu_links": str,
            "uplink_mbps": int,
            "mig": bool,
            "cpu_milli": int,
            "memory_mib": int,
            "resources": dict,
            "healthy": bool,
            "annotations": dict,
        },
        "gpu": {"index": int, "model": str, "memory_mib": int},
        "nic": {"index": int},
        "numa": {"index": int},
        "switch": {"name": str},
    }
)
"""Names and types of the attributes of nodes, besides `kind`."""

EDGE_ATTRIBUTES: Mapping[str, type] = MappingProxyType(
    {"bandwidth_mbps": int, "latency_us": float, "index": int, "first": str}
)
GRAPH_ATTRIBUTES: Mapping[str, type] = MappingProxyType(
    {
        "name": str,
        "levels": list,
        "links": dict,
        "pools": list,
        "gpu_links": list,
        "resources": list,
    }
)
TOLD = ("host", "rail", "busy", "free", "job")
"""Attributes that `to_graph` and plans write for whoever looks at a node; they say nothing more."""

SWITCHES = ("switch", "nvswitch", "pcie", "rail")
FABRIC = ("uplink", "rail", "wan")


class GraphError(ValueError):
    """A graph that is not as it should be: names node or edge, value and what was expected."""


@dataclass(frozen=True, slots=True)
class GraphHost:
    """A host of a graph.

    Attributes
    ----------
    name, parent : str
        Its name; that of the innermost domain that holds it, None if there are no levels.
    attributes : mapping
        Those of its node, by name; what the edges say is among them.
    gpus : int
        How many GPUs it has.
    gpu_model, gpu_memory : str or None, int or None
        Of its GPUs.
    model : HostModel or None
        Its hardware, where that is known.
    links : GpuLinks or None
        Links between its GPUs, where they are known.
    node, gpu_nodes : hashable, sequence
        Where it was read from.
    """

    name: str
    parent: str | None
    attributes: Mapping[str, Any]
    gpus: int
    gpu_model: str | None
    gpu_memory: int | None
    model: HostModel | None
    links: GpuLinks | None
    node: Node = None
    gpu_nodes: Sequence[Node] = ()


@dataclass(frozen=True, slots=True)
class GraphCluster:
    """What a graph says.

    Attributes
    ----------
    name, levels : str, sequence of str
        Levels above the host, outermost first.
    domains : sequence of (str, str, str or None)
        Name, level and parent of each.
    hosts : sequence of GraphHost
        In their order.
    links, wan : mapping
        Uplinks by level, links between outermost domains.
    own_uplinks : mapping of (str, str) to int
        By level and domain: Mbit/s of an uplink that differs from those of its level.
    fabric : mapping of (str, str) to Link
        Links between innermost domains and switches, where these are no tree.
    further : mapping
        The other attributes of the graph.
    left_out : sequence of str
        What was read, and is not in this, with its number.
    """

    name: str
    levels: Sequence[str]
    domains: Sequence[tuple[str, str, str | None]]
    hosts: Sequence[GraphHost]
    links: Mapping[str, Link]
    wan: Mapping[tuple[str, str], Link]
    own_uplinks: Mapping[tuple[str, str], int] = field(default_factory=dict)
    fabric: Mapping[tuple[str, str], Link] = field(default_factory=dict)
    further: Mapping[str, Any] = field(default_factory=dict)
    left_out: Sequence[str] = ()


def hardware_of(attributes: Mapping[str, Any]) -> HostHardware:
    """Return what a host with these attributes has; its model is in the catalogue."""
    return host_hardware(
        model=attributes.get("model"),
        gpus=attributes.get("gpus"),
        gpu_model=attributes.get("gpu_model"),
        gpu_memory=attributes.get("gpu_memory_mib"),
        cpu=attributes.get("cpu_milli"),
        memory=attributes.get("memory_mib"),
        mig=attributes.get("mig", True),
    )


def draw_graph(cluster: GraphCluster, detail: Detail) -> nx.Graph[Node]:
    """Return the graph of a cluster; time and memory grow with its GPUs and their links.

    Nodes are ``(level, name)`` for domains and hosts; ``("switch", level, name)`` for the port of a
    domain, ``("switch", name)`` for one of a fabric, ``("core",)`` for the switch that joins
    outermost domains without a WAN; with detail
    "gpu" also ``("gpu", host, i)``, ``("nic", host, i)``, ``("numa", host, i)``, ``("rail",
    domain, i)``, ``("nvswitch", owner, i)``, ``("pcie", host, i)``, one for each NUMA node, and
    ``("switch", "host", host)`` for the link between many GPUs that are all joined alike. An
    NVSwitch's owner is the host, or the rack where the hosts of a rack share one NVLink domain.

    Raises ValueError if `detail` is unknown, or more hosts lie in one NVLink domain than their
    model allows.
    """
    if detail not in ("host", "gpu"):
        raise ValueError(f"detail {detail!r} is unknown; expected 'host' or 'gpu'")
    return _Drawing(cluster, detail).graph


class _Drawing:
    """A graph under construction.

    Switches are nodes of their own so that containment and wires never compete for the one edge
    between two nodes, which keeps this a simple graph, fit for shortest paths and for flows.
    """

    def __init__(self, cluster: GraphCluster, detail: Detail) -> None:
        import networkx as nx

        self.cluster, self.detail = cluster, detail
        self.levels = (*cluster.levels, HOST_LEVEL)
        self.rails: dict[Node, None] = {}
        self.host_names = {host.name for host in cluster.hosts}
        further = {name: value for name, value in cluster.further.items() if value}
        if cluster.levels:
            further["levels"] = list(cluster.levels)
        if cluster.links:
            further["links"] = {level: _wire(link) for level, link in cluster.links.items()}
        self.graph: nx.Graph[Node] = nx.Graph(name=cluster.name, **further)
        self._add_domains()
        self._add_uplinks()
        if detail == "gpu":
            self._add_gpus()
            members: defaultdict[tuple[str, Node], list[GraphHost]] = defaultdict(list)
            for host in cluster.hosts:
                self._add_host_links(host, members)
                self._add_nics(host)
            for (_, owner), inside in members.items():
                self._add_hubs(owner, inside)
            self._add_rail_switches()

    def _add_domains(self) -> None:
        place = dict.fromkeys(self.levels, 0)
        for name, level, _ in self.cluster.domains:
            self.graph.add_node(
                (level, name), kind=level, name=name, level=level, index=place[level]
            )
            place[level] += 1
        for name, level, parent in self.cluster.domains:
            if parent is not None:
                self._contain((self.levels[self.levels.index(level) - 1], parent), (level, name))
        for index, host in enumerate(self.cluster.hosts):
            node = (HOST_LEVEL, host.name)
            own = {"kind": HOST_LEVEL, "name": host.name, "index": index}
            self.graph.add_node(node, **own, **host.attributes)
            if host.parent is not None:
                self._contain((self.levels[-2], host.parent), node)
        for node, mbps in self.cluster.own_uplinks.items():
            self.graph.add_node(node, uplink_mbps=mbps)

    def _add_uplinks(self) -> None:
        """Join the ports of domains to those of the domains that hold them, and regions by WAN."""
        outermost = [name for name, level, _ in self.cluster.domains if level == self.levels[0]]
        alone = len(outermost or self.cluster.hosts) < 2 or self.cluster.wan
        for name, level, parent in self.cluster.domains:
            link = self._uplink(level, name)
            if link is not None and not (alone and parent is None):
                self._join("uplink", link, self._port(level, name), self._above(level, parent))
        for host in self.cluster.hosts:
            link = self._uplink(HOST_LEVEL, host.name)
            if host.model is not None and host.model.nic_rails:
                # A railed host sends through its NICs; with GPUs in view these are nodes.
                rails = host.model.nic_link.bundle(host.model.nic_rails)
                link = rails if self.detail == "host" else None
            if link is not None and not (alone and host.parent is None):
                above = self._above(HOST_LEVEL, host.parent)
                self._join("uplink", link, (HOST_LEVEL, host.name), above)
        for index, ((a, b), link) in enumerate(self.cluster.wan.items()):
            ends = self._port(self.levels[0], a), self._port(self.levels[0], b)
            self._join("wan", link, *ends, index=index, first=a)
        leaves = {name for name, level, _ in self.cluster.domains if level == self.levels[-2]}
        for index, ((a, b), link) in enumerate(self.cluster.fabric.items()):
            for switch in {a, b} - leaves:
                self.graph.add_node(("switch", switch), kind="switch", name=switch)
            x, y = (
                self._port(self.levels[-2], end) if end in leaves else ("switch", end)
                for end in (a, b)
            )
            self._join("uplink", link, x, y, index=index, first=a)

    def _uplink(self, level: str, name: str) -> Link | None:
        """Return the link of a domain or host to what holds it."""
        link, own = self.cluster.links.get(level), self.cluster.own_uplinks.get((level, name))
        return link if link is None or own is None else Link(own, link.latency_us)

    def _add_gpus(self) -> None:
        index = 0
        for host in self.cluster.hosts:
            numa = host.links.numa if host.links is not None else ()
            for node in dict.fromkeys(numa):
                self.graph.add_node(("numa", host.name, node), kind="numa", index=node)
                self._contain((HOST_LEVEL, host.name), ("numa", host.name, node))
            told = {"model": host.gpu_model, "memory_mib": host.gpu_memory or None}
            told = {name: value for name, value in told.items() if value is not None}
            for g in range(host.gpus):
                gpu = ("gpu", host.name, g)
                self.graph.add_node(gpu, kind="gpu", host=host.name, index=index, **told)
                self._contain(
                    ("numa", host.name, numa[g]) if numa else (HOST_LEVEL, host.name), gpu
                )
                index += 1

    def _add_host_links(
        self, host: GraphHost, members: defaultdict[tuple[str, Node], list[GraphHost]]
    ) -> None:
        """Join the GPUs of a host: as its model has it, by switches, or else each two of them."""
        links, model = host.links, host.model
        if links is None:
            return
        if model is not None and links != model_links(model).first(host.gpus):
            model = None
        if model is not None and model.numa:
            self._add_host_bridges(host, model)
        elif model is not None and model.intra != "nvlink-mesh":
            owner = (HOST_LEVEL, host.name) if model.nvlink_hosts == 1 else self._leaf(host)
            members[model.name, owner].append(host)
        elif host.gpus > MOST_GPUS:  # which all have the same link
            hub = ("switch", HOST_LEVEL, host.name)
            self.graph.add_node(hub, kind="switch")
            self._contain((HOST_LEVEL, host.name), hub)
            for g in range(host.gpus if links.kind[0][1] else 0):
                link = Link(links.mbps[0][1], 0.0)
                self._join(LINK_KINDS[links.kind[0][1] - 1], link, ("gpu", host.name, g), hub)
        else:
            for i, row in enumerate(links.kind):
                for j, kind in enumerate(row[:i]):
                    if kind:
                        link = Link(links.mbps[i][j], model.gpu_link.latency_us if model else 0.0)
                        ends = ("gpu", host.name, j), ("gpu", host.name, i)
                        self._join(LINK_KINDS[kind - 1], link, *ends)
        for n, (kinds, mbps) in enumerate(zip(links.nic_kind, links.nic_mbps, strict=True)):
            nic = self._nic(host, n)
            for g, kind in enumerate(kinds):
                if kind:
                    link = model.pcie_link if model else Link(mbps[g], 0.0)
                    self._join(LINK_KINDS[kind - 1], link, ("gpu", host.name, g), nic)

    def _add_host_bridges(self, host: GraphHost, model: HostModel) -> None:
        """Join the GPUs of each NUMA node of a host by a hub, and these, and bridged GPUs."""
        hubs = [("pcie", host.name, node) for node in dict.fromkeys(model.numa[: host.gpus])]
        self.graph.add_nodes_from(hubs, kind="pcie")
        for hub in hubs:
            self._contain((HOST_LEVEL, host.name), hub)
        for g in range(host.gpus):
            hub = ("pcie", host.name, model.numa[g])
            self._join("numa", model.gpu_link, ("gpu", host.name, g), hub)
        between = Link(BETWEEN_SOCKETS_MBPS, model.gpu_link.latency_us)
        for one, other in combinations(hubs, 2):
            self._join("system", between, one, other)
        for (a, b), link in model.mesh_links().items():
            if a < b < host.gpus:
                self._join(model.mesh_kind, link, ("gpu", host.name, a), ("gpu", host.name, b))

    def _add_hubs(self, owner: Node, inside: list[GraphHost]) -> None:
        """Join the GPUs of one NVLink domain, or of a host, by switches."""
        model = inside[0].model
        assert model is not None  # noqa: S101
        kind, edge, number = ("nvswitch", "nvlink", model.nvswitches)
        if model.intra == "pcie":
            kind, edge, number = ("pcie", "pcie", 1)
        if len(inside) > model.nvlink_hosts:
            raise ValueError(
                f"{owner[0]} {owner[1]!r} holds {len(inside)} hosts of model {model.name!r} in "
                f"one NVLink domain; expected at most {model.nvlink_hosts}"
            )
        is_host = owner[0] == HOST_LEVEL
        name = owner[1:] if is_host or owner[1] not in self.host_names else owner
        first = 0  # a rack may hold trays of two models, which share no domain
        while (kind, *name, first) in self.graph:
            first += 1
        hubs = [(kind, *name, first + i) for i in range(number)]
        self.graph.add_nodes_from(hubs, kind=kind)
        for i, hub in enumerate(hubs):
            if owner in self.graph:
                self._contain(owner, hub)
            width = model.gpu_link.bandwidth_mbps
            # Lanes differ by 1 Mbit/s where they are no equal parts, and add up to the whole.
            lane = Link(width * (i + 1) // number - width * i // number, model.gpu_link.latency_us)
            for host in inside:
                for g in range(host.gpus):
                    self._join(edge, lane, ("gpu", host.name, g), hub)

    def _add_nics(self, host: GraphHost) -> None:
        """Join the NICs of a railed host to the switches of their rails."""
        model = host.model
        for rail in range(model.nic_rails if model is not None else 0):
            assert model is not None  # noqa: S101
            nic = self._nic(host, rail)
            self.graph.nodes[nic]["rail"] = rail
            switch = ("rail", self._leaf(host)[1], rail)
            self.rails[switch] = None
            self.graph.add_node(switch, kind="rail", rail=rail)
            self._join("rail", model.nic_link, nic, switch)

    def _add_rail_switches(self) -> None:
        """Join each rail switch to its domain, as wide as its NICs together."""
        for node in self.rails if len(self.levels) > 1 else ():
            down = [wire for *_, wire in self.graph.edges(node, data=True)]
            width = sum(wire["bandwidth_mbps"] for wire in down)
            slowest = max(wire["latency_us"] for wire in down)
            self._contain((self.levels[-2], node[1]), node)
            port = self._port(self.levels[-2], node[1])
            self._join("uplink", Link(width, slowest), node, port)

    def _nic(self, host: GraphHost, number: int) -> Node:
        nic = ("nic", host.name, number)
        if nic not in self.graph:
            self.graph.add_node(nic, kind="nic", host=host.name, index=number)
            self._contain((HOST_LEVEL, host.name), nic)
        return nic

    def _leaf(self, host: GraphHost) -> Node:
        """Return the innermost domain of a host, or the cluster if it has no levels."""
        if host.parent is None:
            return ("cluster", self.cluster.name)
        return (self.levels[-2], host.parent)

    def _above(self, level: str, parent: str | None) -> Node:
        """Return the port of a domain's parent; of outermost domains, what joins them all."""
        if parent is not None:
            return self._port(self.levels[self.levels.index(level) - 1], parent)
        core = ("core",)
        self.graph.add_node(core, kind="switch")
        return core

    def _port(self, level: str, name: str) -> Node:
        """Return the node where a domain's links end, adding it when it is first needed."""
        if level == HOST_LEVEL:
            return (level, name)
        node = ("switch", level, name)
        if node not in self.graph:
            self.graph.add_node(node, kind="switch")
            self._contain((level, name), node)
        return node

    def _contain(self, container: Node, node: Node) -> None:
        self.graph.add_edge(container, node, kind="contains")

    def _join(self, kind: str, link: Link, a: Node, b: Node, **further: Any) -> None:
        self.graph.add_edge(a, b, kind=kind, **_wire(link), **further)


def _wire(link: Link) -> dict[str, Any]:
    return {"bandwidth_mbps": link.bandwidth_mbps, "latency_us": link.latency_us}
