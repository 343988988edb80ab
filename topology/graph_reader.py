"""Reading the graph of a cluster: `graph.py` says what it may hold, here all of that is checked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from placewright.topology.catalogue import CATALOGUE, Link
from placewright.topology.gpu_links import (
    LINK_KINDS,
    words_of_links,
)
from placewright.topology.graph import (
    EDGE_ATTRIBUTES,
    FABRIC,
    GRAPH_ATTRIBUTES,
    NODE_ATTRIBUTES,
    SWITCHES,
    GraphCluster,
    GraphHost,
    Node,
    hardware_of,
)
from placewright.topology.graph_attributes import (
    MAX_AMOUNT,
    Attributes,
    graph_error,
    listed_links,
    show,
)
from placewright.topology.graph_links import HostLinks, Wiring
from placewright.topology.units import HOST_LEVEL

if TYPE_CHECKING:
    import networkx as nx

MAX_LEVELS = 16
MOST_GPUS_OF_A_HOST = 2**20 - 1
"""As many as arrays hold; documents have a limit of their own."""

_MOST_TOLD = 5
_DOMAIN = "domain"
_INSIDE = ("gpu", "nic", "numa", "switch")
_CONTAINERS = {
    "gpu": (HOST_LEVEL, "numa", "switch"),
    "nic": (HOST_LEVEL, "numa", "switch"),
    "numa": (HOST_LEVEL,),
    "switch": (_DOMAIN, HOST_LEVEL, "numa"),
}


def read_graph(graph: nx.Graph[Any]) -> GraphCluster:
    """Return what a graph says.

    Raises
    ------
    GraphError
        It is not as `graph.py` has it.
    TypeError
        It is no NetworkX graph.
    """
    import networkx as nx

    if not isinstance(graph, nx.Graph):
        raise TypeError(f"graph is {type(graph).__name__}; expected a NetworkX graph")
    return _Reader(graph).read()


@dataclass(slots=True)
class _Wire:
    """All edges of one kind between two nodes: their bandwidth there and back, and the latency."""

    kind: str
    there: int = 0
    back: int = 0
    latency: float | None = None
    further: dict[str, Any] = field(default_factory=dict)

    @property
    def mbps(self) -> int:
        return self.there or self.back


def _wide(mbps: int, latency: float | None) -> str:
    return f"{mbps} Mbit/s" + ("" if latency is None else f" and {latency:g} us")


def _in_order(wires: Iterable[tuple[list[str], _Wire]]) -> dict[tuple[str, str], Link]:
    """Return links by the names of their ends, as a document orders both."""
    found: dict[tuple[str, str], Link] = {}
    for (a, b), wire in sorted(wires, key=lambda one: one[1].further.get("index", MAX_AMOUNT)):
        ends = (b, a) if wire.further.get("first") == b else (a, b)
        found[ends] = Link(wire.mbps, wire.latency or 0.0)
    return found


class _Reader:
    """A graph on the way to what it says."""

    def __init__(self, graph: nx.Graph[Any]) -> None:
        self.graph = graph
        self.attributes = Attributes()
        self.further = self.attributes.of((), graph.graph, GRAPH_ATTRIBUTES)
        self.kind: dict[Node, str] = {}
        self.said: dict[Node, dict[str, Any]] = {}
        self.contains: list[tuple[Node, Node]] = []
        self.wires: dict[tuple[Node, Node, str], _Wire] = {}
        self.container: dict[Node, Node] = {}
        self.inside: defaultdict[Node, list[Node]] = defaultdict(list)
        self.links_inside: defaultdict[Node, list[tuple[Node, Node, _Wire]]] = defaultdict(list)
        self.shared: defaultdict[Node, set[Node]] = defaultdict(set)
        self.dropped: Counter[str] = Counter()

    def read(self) -> GraphCluster:
        """Return what the graph says."""
        for node, data in self.graph.nodes(data=True):
            self._read_node(node, data)
        for a, b, data in self.graph.edges(data=True):
            self._read_edge(a, b, data)
        if HOST_LEVEL not in self.kind.values():
            raise graph_error([], "no node is of kind host; expected at least one")
        self.levels = self._levels()
        self.depth = {level: d for d, level in enumerate((*self.levels, HOST_LEVEL))}
        self._read_containment()
        self.names = self._names()
        self.links = HostLinks(self.further.get("gpu_links", ()))
        self._sort_wires()
        hosts = [self._host(node) for node in self._in_order(HOST_LEVEL)]
        fabric = self._fabric()
        (links, own), wan = self._uplinks(hosts), self._wan()
        alone = {one.node for one in hosts if one.model is None or one.model.nvlink_hosts == 1}
        for joined in self.shared.values():
            lost = len(joined) > 1 and not joined.isdisjoint(alone)
            self.dropped["left out: switches that join GPUs of several hosts"] += lost
        parts = ("name", "levels", "links")
        further = {name: value for name, value in self.further.items() if name not in parts}
        made = map(words_of_links, self.links.made.values())
        further["gpu_links"] = [*self.further.get("gpu_links", ()), *made]
        return GraphCluster(
            name=self.further.get("name", "cluster"),
            levels=self.levels,
            domains=self._domains(),
            hosts=hosts,
            links=links,
            wan=wan,
            own_uplinks=own,
            fabric=fabric,
            further=further,
            left_out=self._left_out(),
        )

    def _left_out(self) -> list[str]:
        """Say what was read, and is not in the cluster."""
        own = self.attributes.own.most_common(_MOST_TOLD)
        found = [(f"left out: attribute {show(name)}", number) for name, number in own]
        more = self.attributes.own.total() - sum(number for _, number in own)
        found += [("left out: other attributes", more), *self.dropped.items()]
        return [f"{what}: {number:,}" for what, number in found if number]

    def _read_node(self, node: Node, data: Mapping[str, Any]) -> None:
        kind, level = data.get("kind"), data.get("level")
        if kind is None and level is None:
            edge = next(iter(self.graph.edges(node)), None)
            ends = f", and edge {show(edge[0])} to {show(edge[1])} ends at it" if edge else ""
            raise graph_error([node], f"has no kind{ends}; expected a level, host, gpu, ...")
        for given in (kind, level):
            if given is not None and not (isinstance(given, str) and given):
                raise graph_error([node], f"kind is {show(given)}; expected text")
        if level not in (None, HOST_LEVEL):
            self.kind[node] = _DOMAIN
        elif kind in SWITCHES:
            self.kind[node] = "switch"
        elif (kind or level) in (HOST_LEVEL, *_INSIDE):
            self.kind[node] = str(kind or level)
        elif str(kind).lower() in (HOST_LEVEL, *SWITCHES, *_INSIDE):
            raise graph_error([node], f"kind is {show(kind)}; expected {str(kind).lower()}")
        else:
            self.kind[node] = _DOMAIN
        said = self.attributes.of((node,), data, NODE_ATTRIBUTES[self.kind[node]])
        if self.kind[node] == _DOMAIN:
            said.setdefault("level", kind)
        self.said[node] = said

    def _read_edge(self, a: Node, b: Node, data: Mapping[str, Any]) -> None:
        kind = data.get("kind") or "contains"
        if kind not in ("contains", *LINK_KINDS, *FABRIC):
            known = ", ".join(("contains", *reversed(LINK_KINDS), *FABRIC))
            raise graph_error([a, b], f"kind is {show(kind)}; expected one of {known}")
        if a == b:
            raise graph_error([a, b], f"{kind} joins a node to itself; expected two nodes")
        said = self.attributes.of((a, b), data, EDGE_ATTRIBUTES)
        if kind == "contains":
            self.contains.append((a, b))
            if "bandwidth_mbps" not in said:
                return
            kind = "uplink"
        mbps = said.pop("bandwidth_mbps", None)
        if not mbps:
            raise graph_error(
                [a, b],
                f"bandwidth_mbps of {kind} is {'missing' if mbps is None else mbps};"
                f" expected a whole number from 1 to {MAX_AMOUNT}, in Mbit/s",
            )
        wire, back = self.wires.get((a, b, kind)), self.wires.get((b, a, kind))
        if wire is None and back is None:
            wire = self.wires[a, b, kind] = _Wire(kind)
        latency = said.pop("latency_us", None)
        for one in (wire, back):
            if one is not None:
                one.there += mbps if one is wire or not self.graph.is_directed() else 0
                one.back += mbps if one is back and self.graph.is_directed() else 0
                one.latency = latency if one.latency is None else max(one.latency, latency or 0)
                one.further |= said

    # Containment.

    def _levels(self) -> tuple[str, ...]:
        """Return the levels above the host: those listed, or else as hosts lie in them."""
        given = self.further.get("levels")
        used: dict[str, Node] = {}
        for node, said in self.said.items():
            if "level" in said:
                used.setdefault(said["level"], node)
        levels = self._levels_of_hosts() if given is None else given
        odd = [level for level in levels if not isinstance(level, str) or level == HOST_LEVEL]
        if odd or len(levels) > MAX_LEVELS or len(set(levels)) < len(levels):
            raise graph_error(
                [],
                f"levels is {show(levels)}; expected the names of at most {MAX_LEVELS} levels "
                f"above the host, each once",
            )
        for level, node in used.items():
            if level not in levels:
                lost = "no host lies in such a node" if given is None else "not a level listed"
                raise graph_error(
                    [node],
                    f"kind is {show(level)}, and {lost}; expected host, {', '.join(_INSIDE)}, or "
                    f"a level{'' if given is None else f' of {levels}'} that contains hosts",
                )
        return tuple(levels)

    def _levels_of_hosts(self) -> list[str]:
        around: defaultdict[str, dict[str, tuple[Node, Node]]] = defaultdict(dict)
        for a, b in self.contains:
            for x, y in ((a, b), (b, a)):
                if self.kind[x] in (_DOMAIN, HOST_LEVEL) and self.kind[y] == _DOMAIN:
                    level = self.said[x].get("level", HOST_LEVEL)
                    around[level].setdefault(self.said[y]["level"], (x, y))
        levels = [HOST_LEVEL]
        while len(levels) < MAX_LEVELS + 2:
            above = {k: edge for k, edge in around[levels[-1]].items() if k not in levels[-2:-1]}
            if not above:
                break
            (level, edge), *others = above.items()
            if others:
                other, (x, y) = others[0]
                raise graph_error(
                    [*edge],
                    f"a {levels[-1]} is in a {level}, and by edge {show(x)} to {show(y)} one is in "
                    f"a {other}; expected one level around all of them",
                )
            if level in levels:
                raise graph_error(
                    [*edge],
                    f"{level} is twice on a way outwards, a cycle or a level "
                    f"inside itself; expected each level once",
                )
            levels.append(level)
        return levels[:0:-1]

    def _rank(self, node: Node) -> int:
        kind = self.kind[node]
        if kind in (_DOMAIN, HOST_LEVEL):
            return self.depth[self.said[node].get("level", HOST_LEVEL)]
        return len(self.depth) + ("numa", "switch", "gpu").index(kind if kind != "nic" else "gpu")

    def _read_containment(self) -> None:
        for a, b in self.contains:
            outer, inner = (a, b) if self._rank(a) < self._rank(b) else (b, a)
            if self._rank(a) == self._rank(b):
                raise graph_error(
                    [a, b],
                    f"contains joins two nodes of kind {self._called(a)}; expected "
                    f"a container and what is in it",
                )
            if self.graph.is_directed() and outer != a:
                raise graph_error(
                    [a, b],
                    f"a {self._called(a)} contains a {self._called(b)}; expected "
                    f"the edge from the container to what is in it",
                )
            before = self.container.setdefault(inner, outer)
            if before != outer:
                raise graph_error(
                    [inner], f"is in {show(before)} and in {show(outer)}; expected one container"
                )
            self._check_container(inner, outer)
        for node, kind in self.kind.items():
            if kind in (_DOMAIN, HOST_LEVEL):
                depth = self._rank(node)
                if depth and node not in self.container:
                    raise graph_error(
                        [node],
                        f"nothing contains this {self._called(node)}; expected an "
                        f"edge of kind contains to a {self.levels[depth - 1]}",
                    )
            elif (host := self._owner(node)) is not None and self.kind[host] == HOST_LEVEL:
                self.inside[host].append(node)
            elif kind != "switch":
                raise graph_error([node], f"no host contains this {kind}; expected one")

    def _check_container(self, inner: Node, outer: Node) -> None:
        kind = self.kind[inner]
        if kind in _CONTAINERS:
            fits = self.kind[outer] in _CONTAINERS[kind]
            expected = " or ".join(_CONTAINERS[kind])
        else:
            fits = self._rank(outer) == self._rank(inner) - 1
            expected = self.levels[self._rank(inner) - 1]
        if not fits:
            raise graph_error(
                [outer, inner],
                f"a {self._called(outer)} contains a {self._called(inner)}; "
                f"expected a {expected} around it",
            )

    def _called(self, node: Node) -> str:
        return str(self.said[node].get("level", self.kind[node]))

    def _owner(self, node: Node) -> Node | None:
        """Return the domain or host that a node is or lies in, None for what nothing contains."""
        while self.kind[node] not in (_DOMAIN, HOST_LEVEL):
            if node not in self.container:
                return None
            node = self.container[node]
        return node

    def _in_order(self, kind: str, nodes: Iterable[Node] | None = None) -> list[Node]:
        found = [
            node for node in (self.kind if nodes is None else nodes) if self.kind[node] == kind
        ]
        if kind in _INSIDE:
            self._check_indices(found)
        return sorted(found, key=lambda node: self.said[node].get("index", MAX_AMOUNT))

    def _check_indices(self, nodes: Iterable[Node]) -> None:
        """Refuse GPUs, NICs or NUMA nodes of one host that have one index."""
        first: dict[int, Node] = {}
        for node in nodes:
            index = self.said[node].get("index")
            if index is not None and (other := first.setdefault(index, node)) is not node:
                raise graph_error(
                    [node], f"index {index} is that of {show(other)}, too; expected each index once"
                )

    def _names(self) -> dict[Node, str]:
        """Return the names of domains and hosts."""
        names: dict[Node, str] = {}
        first: dict[tuple[str, str], Node] = {}
        for node, kind in self.kind.items():
            if kind in (_DOMAIN, HOST_LEVEL):
                name = names[node] = self._name(node)
                other = first.setdefault((self._called(node), name), node)
                if other != node:
                    raise graph_error(
                        [node],
                        f"name {show(name)} is that of {show(other)}, too; expected each name once",
                    )
        return names

    def _name(self, node: Node) -> str:
        parts = node if isinstance(node, tuple) else (node,)
        return str(self.said[node].get("name") or "-".join(map(str, parts)))

    def _domains(self) -> list[tuple[str, str, str | None]]:
        """Return domains in the order of the graph, those of one level by their index."""
        nodes = [node for node, kind in self.kind.items() if kind == _DOMAIN]
        places: defaultdict[str, list[Node]] = defaultdict(list)
        for node in reversed(self._in_order(_DOMAIN, nodes)):
            places[self.said[node]["level"]].append(node)
        ordered = [places[self.said[node]["level"]].pop() for node in nodes]
        return [(self.names[n], self.said[n]["level"], self._parent(n)) for n in ordered]

    def _parent(self, node: Node) -> str | None:
        return self.names[self.container[node]] if node in self.container else None

    # Wires.

    def _sort_wires(self) -> None:
        """Put wires inside hosts to their hosts, and refuse those that end at what they cannot."""
        for (a, b, kind), wire in self.wires.items():
            if wire.there and wire.back and wire.there != wire.back:
                raise graph_error(
                    [a, b],
                    f"{kind} has {wire.there} Mbit/s, and {wire.back} back; "
                    f"expected the same both ways",
                )
            if kind in FABRIC:
                continue
            for end in (a, b):
                if self.kind[end] not in _INSIDE:
                    raise graph_error(
                        [a, b],
                        f"{kind} ends at a {self._called(end)}; "
                        f"expected a GPU, NIC, switch or NUMA node",
                    )
            owners = [owner for owner in map(self._owner, (a, b)) if owner is not None]
            hosts = dict.fromkeys(one for one in owners if self.kind[one] == HOST_LEVEL)
            if len(hosts) != 1:
                held = " and ".join(show(self.names[host]) for host in hosts)
                raise graph_error(
                    [a, b],
                    f"{kind} joins {f'hosts {held}' if hosts else 'no host'}; "
                    f"expected it in one host, or from there to a switch",
                )
            host = next(iter(hosts))
            self.links_inside[host].append((a, b, wire))
            for end in (a, b):
                if self._owner(end) != host:
                    self.shared[end].add(host)

    def _fabric(self) -> dict[tuple[str, str], Link]:
        """Take the links above the hosts out of the wires where they are no tree, and return them.

        They are one if each leads to the domain around, and all that a domain contains to the same
        of its switches.
        """
        found: dict[tuple[Node, Node], _Wire] = {}
        met: defaultdict[Node, defaultdict[Node, set[Node]]] = defaultdict(lambda: defaultdict(set))
        tree, used = True, []
        for key, wire in self.wires.items() if self.levels else ():
            ends = a, b = key[:2]
            owners = x, y = self._owner(a), self._owner(b)
            kinds = [self.kind.get(owner) for owner in owners]
            if key[2] not in ("uplink", "rail") or HOST_LEVEL in kinds:
                continue
            if x != y or x is None:
                child = y if y is not None and self.container.get(y) == x else x
                above, end = (y, b) if child == x else (x, a)
                tree &= child is not None and self.container.get(child) == above
                met[above][child].add(end)
            a, b = (
                owner if owner is not None and self._rank(owner) == len(self.levels) - 1 else end
                for end, owner in zip(ends, owners, strict=True)
            )
            if a != b:
                used.append(key)
                one = found.get((b, a)) or found.setdefault((a, b), _Wire(wire.kind))
                one.there += wire.mbps
                one.latency = max(one.latency or 0.0, wire.latency or 0.0)
                one.further |= wire.further
        ways = (map(frozenset, children.values()) for children in met.values())
        if tree and all(len(set(ends)) == 1 for ends in ways):
            return {}
        for key in used:
            del self.wires[key]
        names: dict[str, Node] = {}
        for node in dict.fromkeys(end for ends in found for end in ends):
            other = names.setdefault(self._name(node), node)
            if other != node:
                raise graph_error(
                    [node],
                    f"name {show(self._name(node))} is that of {show(other)}, too; expected each "
                    f"domain and switch of the fabric to have its own",
                )
        return _in_order(([self._name(a), self._name(b)], wire) for (a, b), wire in found.items())

    def _uplinks(
        self, hosts: Sequence[GraphHost]
    ) -> tuple[dict[str, Link], dict[tuple[str, str], int]]:
        """Return the uplink of each level, and the Mbit/s of those that have another bandwidth.

        That of a level is what the graph lists, else what most of its domains have.
        """
        railed = [host for host in hosts if host.model is not None and host.model.nic_rails]
        rails = {host.node: host.model for host in railed}
        found = listed_links(self.further.get("links", {}), self.depth, self.attributes)
        whose = dict.fromkeys(found, "links of the graph have")
        widths = self._widths()
        most: defaultdict[str, Counter[int]] = defaultdict(Counter)
        own: dict[tuple[str, str], int] = {}
        for node, name in self.names.items():
            said, level = self.said[node].get("uplink_mbps"), self._called(node)
            if said is not None:
                own[level, name] = said
            elif node in widths and node not in rails:
                most[level][widths[node][0]] += 1
        for node, (mbps, us) in widths.items():
            model, level = rails.get(node), self._called(node)
            if model is not None:
                width = model.nic_link.bandwidth_mbps * model.nic_rails
                if mbps != width:
                    raise graph_error(
                        [node],
                        f"its rails and uplinks have {mbps} Mbit/s; expected the {width} of its "
                        f"model {model.name!r}",
                    )
                continue
            usual = next((width for width, _ in most[level].most_common(1)), mbps)
            known, known_us = found.get(level, (usual, us))
            if us != known_us and None not in (us, known_us):
                raise graph_error(
                    [node],
                    f"its uplink has {us:g} us; expected {known_us:g} us as {whose[level]}: a "
                    f"cluster has one latency per level",
                )
            said = self.said[node].get("uplink_mbps", mbps)
            if said != mbps:
                raise graph_error(
                    [node],
                    f"uplink_mbps is {said}, and its uplink has {mbps} Mbit/s; expected the same",
                )
            if mbps != known:
                own[level, self.names[node]] = mbps
            found[level] = known, known_us if us is None else us
            whose.setdefault(level, f"node {show(node)} has")
        drawn = {self._called(node): node for node in widths if node not in rails}
        for node in self.names:
            level = self._called(node)
            if level in drawn and node not in widths and node not in rails:
                raise graph_error(
                    [node],
                    f"has no uplink, and node {show(drawn[level])} has one; expected one of all "
                    f"of a level, or of none",
                )
        return {level: Link(mbps, us or 0.0) for level, (mbps, us) in found.items()}, own

    def _widths(self) -> dict[Node, tuple[int, float | None]]:
        """Return Mbit/s and latency of the edges from each domain or host to what contains it."""
        widths: dict[Node, tuple[int, float | None]] = {}
        for (a, b, kind), wire in self.wires.items():
            if kind not in ("uplink", "rail"):
                continue
            x, y = self._owner(a), self._owner(b)
            if x == y and x is not None and self.kind[x] == _DOMAIN:
                ours = "rail" in (self.graph.nodes[a]["kind"], self.graph.nodes[b]["kind"])
                self.dropped["left out: links between switches of one domain"] += not ours
                continue
            child, above = (y, x) if y is not None and self.container.get(y) == x else (x, y)
            if child is None or child == above or self.container.get(child) != above:
                raise graph_error(
                    [a, b],
                    f"{kind} joins {self._place(x)} and {self._place(y)}; expected a domain or "
                    f"host, or what is in it, and the domain around it, or a switch in that",
                )
            mbps, us = widths.get(child, (0, None))
            both = [one for one in (us, wire.latency) if one is not None]
            widths[child] = mbps + wire.mbps, max(both, default=None)
        return widths

    def _place(self, owner: Node | None) -> str:
        return (
            "what is in no domain"
            if owner is None
            else f"{self._called(owner)} {show(self.names[owner])}"
        )

    def _wan(self) -> dict[tuple[str, str], Link]:
        found: list[tuple[list[str], _Wire]] = []
        pairs: set[frozenset[str]] = set()
        for (a, b, kind), wire in self.wires.items():
            if kind != "wan":
                continue
            ends = [self._owner(a), self._owner(b)]
            names = []
            for end in ends:
                if end is None or self.kind[end] != _DOMAIN or self._rank(end):
                    raise graph_error(
                        [a, b],
                        f"wan ends at {self._place(end)}; expected two domains of the outermost "
                        f"level",
                    )
                names.append(self.names[end])
            if len(set(names)) == 1 or frozenset(names) in pairs:
                raise graph_error(
                    [a, b],
                    f"wan joins {' and '.join(map(show, names))}; expected two "
                    f"domains, and each two of them once",
                )
            pairs.add(frozenset(names))
            found.append((names, wire))
        return _in_order(found)

    # Hosts.

    def _host(self, node: Node) -> GraphHost:
        said = {k: v for k, v in self.said[node].items() if k not in ("name", "index", "level")}
        gpu_nodes = self._in_order("gpu", self.inside[node])
        model = said.get("model")
        if model is not None and model not in CATALOGUE:
            raise graph_error(
                [node],
                f"host model {show(model)} is unknown; expected one of {', '.join(CATALOGUE)}",
            )
        if gpu_nodes:
            self._count_gpus(node, said, gpu_nodes)
        elif "gpus" not in said and model is None:
            raise graph_error(
                [node],
                "has neither gpus, nor a model, nor GPUs in it; expected their number, 0 for none",
            )
        if hardware_of(said).gpus and hardware_of(said).gpu_model is None:
            said["gpu_model"] = "gpu"
            self.dropped["hosts without the model of their GPUs, which is called gpu"] += 1
        has = hardware_of(said)
        most = MOST_GPUS_OF_A_HOST if model is None else CATALOGUE[model].gpus
        if has.gpus > most:
            what = "of any host" if model is None else f"of its model {model!r}"
            raise graph_error([node], f"has {has.gpus} GPUs; expected at most the {most} {what}")
        named = said.get("gpu_links")
        wiring = self._wiring(node, gpu_nodes)
        links = self.links.of(node, named, model, has.gpus, wiring)
        if links is not None and links.name not in (named, model):
            said["gpu_links"] = links.name
            timed = sum(bool(wire.latency) for *_, wire in self.links_inside[node])
            self.dropped["left out: latency_us of links in hosts"] += timed
        return GraphHost(
            name=self.names[node],
            parent=self._parent(node),
            attributes=said,
            gpus=has.gpus,
            gpu_model=has.gpu_model,
            gpu_memory=has.gpu_memory,
            model=CATALOGUE[model] if model is not None else None,
            links=links,
            node=node,
            gpu_nodes=gpu_nodes,
        )

    def _count_gpus(self, node: Node, said: dict[str, Any], gpu_nodes: Sequence[Node]) -> None:
        """Note the GPUs in a host among its attributes, where these do not say the same."""
        if said.get("gpus", len(gpu_nodes)) != len(gpu_nodes):
            raise graph_error(
                [node],
                f"gpus is {said['gpus']}, and {len(gpu_nodes)} GPUs are in it; "
                f"expected the same number",
            )
        if hardware_of(said).gpus != len(gpu_nodes):
            said["gpus"] = len(gpu_nodes)
        for ours, theirs in (("gpu_model", "model"), ("gpu_memory_mib", "memory_mib")):
            told: dict[Any, Node] = {}
            for gpu in gpu_nodes:
                told.setdefault(self.said[gpu].get(theirs), gpu)
            told.pop(None, None)
            values = list(dict.fromkeys([*([said[ours]] if ours in said else ()), *told]))
            if len(values) > 1:
                raise graph_error(
                    [told[values[-1]]],
                    f"{theirs} is {show(values[-1])}; expected "
                    f"{show(values[0])} as of the others in host {show(self.names[node])}",
                )
            has = hardware_of(said)
            if values and values[0] != (has.gpu_model if theirs == "model" else has.gpu_memory):
                said[ours] = values[0]

    def _wiring(self, node: Node, gpus: Sequence[Node]) -> Wiring | None:
        """Return what edges and NUMA nodes say of a host's links; None if they say nothing."""
        numa, wires = self._numa(node, gpus), self.links_inside[node]
        if not gpus or not (numa or wires):
            return None
        nics = self._in_order("nic", self.inside[node]) if wires else []
        place: dict[Node, int] = {end: i for i, end in enumerate((*gpus, *nics))}
        ends = len(place)
        numbered = [
            (
                place.setdefault(a, len(place)),
                place.setdefault(b, len(place)),
                LINK_KINDS.index(wire.kind) + 1,
                wire.mbps,
            )
            for a, b, wire in wires
        ]
        through = (
            LINK_KINDS.index("numa") + 1 if self.kind[hub] == "numa" else len(LINK_KINDS)
            for hub in list(place)[ends:]
        )
        return Wiring(len(gpus), len(nics), tuple(through), tuple(sorted(numbered)), numa)

    def _numa(self, node: Node, gpus: Sequence[Node]) -> tuple[int, ...]:
        """Return the NUMA node of each GPU of a host; nothing where none is in one."""
        nodes = self._in_order("numa", self.inside[node])
        number = {numa: self.said[numa].get("index", i) for i, numa in enumerate(nodes)}
        found: list[int] = []
        outside: list[Node] = []
        for gpu in gpus:
            at = self.container[gpu]
            while at not in number and at != node:
                at = self.container[at]
            if at == node:
                outside.append(gpu)
            else:
                found.append(number[at])
        if outside and found:
            raise graph_error(
                outside[:1],
                "is in no NUMA node, and other GPUs of its host are; expected all of them, or none",
            )
        if len(set(number.values())) < len(number):
            raise graph_error(
                [node], "two of its NUMA nodes have one index; expected different ones"
            )
        return tuple(found)
