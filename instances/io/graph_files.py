"""Files of graphs: node-link JSON, as NetworkX has it, and GraphML.

Both are read with limits and without trust: XML has no document type, so no entities, and nothing
is loaded from elsewhere. Edges of a file may be parallel.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn
from xml.parsers import expat

from placewright.instances.checks.cluster import check_cluster
from placewright.instances.documents.cluster import ClusterDocument
from placewright.instances.errors import InvalidInputError, Path
from placewright.instances.io import streams, yaml_json
from placewright.instances.io.files import AnyPath, load_text, parse_values
from placewright.topology.graph import GRAPH_ATTRIBUTES, NODE_ATTRIBUTES, Node
from placewright.topology.graph_reader import read_graph

if TYPE_CHECKING:
    import networkx as nx

MAX_ELEMENTS = 5_000_000
"""Nodes and edges of a file: of a graph in memory they take some 5 GiB."""

GRAPH_SUFFIXES = (".json", ".graphml")
_FIELDS = "directed", "multigraph", "graph", "nodes", "edges", "links"
_MAX_DEPTH = 64
_STRUCTURED = {
    name
    for table in (GRAPH_ATTRIBUTES, *NODE_ATTRIBUTES.values())
    for name, kind in table.items()
    if kind in (dict, list)
}
"""Attributes that GraphML has as JSON texts."""

_TYPES: Mapping[str, Callable[[str], Any]] = {
    "JSON": yaml_json.parse_json,
    "string": str,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "boolean": lambda text: {"true": True, "1": True, "false": False, "0": False}[text.lower()],
}


def load_graph(path: AnyPath) -> nx.Graph[Any]:
    """Read a graph: GraphML where the text begins as XML does, else node-link JSON.

    Raises
    ------
    InvalidInputError
        The file cannot be read, is neither, or has an edge to a node that it does not have.
    """
    file, text = os.fspath(path), load_text(path)
    try:
        if text.lstrip().startswith("<"):
            return _read_graphml(text)
        return _read_node_link(parse_values(text, file))
    except InvalidInputError as error:
        raise error.inside(file) from None


def load_cluster_of_graph(path: AnyPath) -> tuple[ClusterDocument, Sequence[str]]:
    """Read the cluster that a file of a graph describes; also return what of it is left out.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or is no graph of a cluster.
    """
    graph = load_graph(path)
    try:
        cluster = ClusterDocument.from_graph(graph)
        check_cluster(cluster)
    except InvalidInputError as error:
        raise error.inside(os.fspath(path)) from None
    return cluster, read_graph(graph).left_out


def write_graph(graph: nx.Graph[Any], path: AnyPath) -> None:
    """Write a graph of `to_graph`: GraphML if the name of the file says so, else node-link JSON.

    Raises
    ------
    InvalidInputError
        The file cannot be written.
    """
    file = os.fspath(path)
    as_xml = file.lower().endswith(".graphml")
    streams.write(file, (_graphml(graph) if as_xml else _node_link(graph)).encode())


class _Graph:
    """A graph under construction; nodes are given once, and edges end at nodes."""

    def __init__(self, directed: bool, attributes: Mapping[str, Any]) -> None:
        import networkx as nx

        self.graph: nx.Graph[Any] = nx.MultiDiGraph() if directed else nx.MultiGraph()
        self.graph.graph.update(attributes)
        self._left = MAX_ELEMENTS

    def add_node(self, node: Node, attributes: Mapping[str, Any]) -> None:
        self._count()
        if node in self.graph:
            raise InvalidInputError("given twice; expected each node once", ("node",), node)
        self.graph.add_node(node)
        self.graph.nodes[node].update(attributes)

    def add_edge(self, a: Node, b: Node, attributes: Mapping[str, Any]) -> None:
        self._count()
        for end in (a, b):
            if end not in self.graph:
                raise InvalidInputError(
                    f"edge {a!r:.60} to {b!r:.60} ends at it; expected a node of the file",
                    ("node",),
                    end,
                )
        self.graph.add_edges_from([(a, b, dict(attributes))])

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise InvalidInputError(f"too large; expected at most {MAX_ELEMENTS:,} nodes and edges")


# Node-link JSON.


def _read_node_link(raw: Any) -> nx.Graph[Any]:
    if not isinstance(raw, dict) or not isinstance(raw.get("nodes"), list):
        raise InvalidInputError("expected a node-link graph: a mapping with nodes and edges")
    for field in raw:
        if field not in _FIELDS:
            raise InvalidInputError(f"unknown field; expected {', '.join(_FIELDS)}", (field,))
    edges = raw.get("edges", raw.get("links", []))
    if not isinstance(edges, list):
        raise InvalidInputError("expected a list", ("edges",), edges)
    attributes = raw.get("graph") or {}
    if not isinstance(attributes, dict):
        raise InvalidInputError("expected a mapping", ("graph",), attributes)
    made = _Graph(raw.get("directed") is True, attributes)
    for i, entry in enumerate(raw["nodes"]):
        (node,), own = _ends(entry, ("nodes", i), "id")
        made.add_node(node, own)
    for i, entry in enumerate(edges):
        (a, b), own = _ends(entry, ("edges", i), "source", "target")
        own.pop("key", None)
        if raw.get("multigraph") is False and made.graph.has_edge(a, b):
            problem = "given twice in a graph of multigraph: false; expected each edge once"
            raise InvalidInputError(problem, ("edges", i), [a, b])
        made.add_edge(a, b, own)
    return made.graph


def _ends(
    entry: Any, path: tuple[str | int, ...], *names: str
) -> tuple[list[Node], dict[str, Any]]:
    """Return the nodes that an entry names, and its attributes."""
    if not isinstance(entry, dict):
        raise InvalidInputError("expected a mapping", path, entry)
    own = dict(entry)
    nodes = []
    for name in names:
        if name not in own:
            raise InvalidInputError("missing; expected a node", (*path, name))
        nodes.append(_as_node(own.pop(name), (*path, name)))
    return nodes, own


def _as_node(value: Any, path: Path) -> Node:
    if isinstance(value, list):
        return tuple(_as_node(part, path) for part in value)
    if isinstance(value, str | int | float):
        return value
    raise InvalidInputError("expected text, a number, or a list of these", path, value)


def _node_link(graph: nx.Graph[Any]) -> str:
    several: bool = graph.is_multigraph()
    head: dict[str, Any] = {"directed": graph.is_directed(), "multigraph": several}
    nodes = [json.dumps({"id": node, **own}) for node, own in graph.nodes(data=True)]
    edges = [json.dumps({"source": a, "target": b, **own}) for a, b, own in graph.edges(data=True)]
    parts = [
        f'"{name}": {json.dumps(value)}' for name, value in (*head.items(), ("graph", graph.graph))
    ]
    for name, lines in (("nodes", nodes), ("edges", edges)):
        parts.append(f'"{name}": [\n' + ",\n".join(lines) + "\n]")
    return "{" + ",\n".join(parts) + "}\n"


# GraphML.


def _read_graphml(text: str) -> nx.Graph[Any]:
    reader = _GraphML()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.texts.append
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise InvalidInputError(
            f"line {error.lineno}, column {error.offset + 1}: {expat.ErrorString(error.code)}; "
            f"expected valid XML"
        ) from None
    return reader.made()


def _refuse_doctype(*_: object) -> NoReturn:
    raise InvalidInputError("has a document type, which may define entities; expected none")


class _GraphML:
    """What a GraphML file says, gathered from the events of its parser."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._open: list[str] = []
        self._graph: dict[str, Any] | None = None
        self._directed = False
        self._keys: dict[str, dict[str, str]] = {}
        self._defaults: dict[str, dict[str, Any]] = {"node": {}, "edge": {}, "graph": {}}
        self._nodes: list[tuple[str, dict[str, Any]]] = []
        self._edges: list[tuple[str, str, dict[str, Any]]] = []
        self._key = ""  # of the data, or the default, that is being read

    def start(self, name: str, given: dict[str, str]) -> None:
        """Take the start of an element."""
        tag = name.rpartition(" ")[2]
        self._open.append(tag)
        if len(self._open) > _MAX_DEPTH:
            raise InvalidInputError(f"nested too deeply; expected at most {_MAX_DEPTH} levels")
        if {"data", "default", "desc"} & set(self._open[:-1]):
            return  # what other programs keep of how they draw
        self.texts.clear()
        if tag == "key":
            self._key = self._of(given, "id")
            self._keys[self._key] = given
        elif tag == "data":
            self._key = self._of(given, "key")
            if self._key not in self._keys:
                raise InvalidInputError("unknown; expected the id of a key", ("data",), self._key)
        elif tag == "graph":
            if self._graph is not None:
                raise InvalidInputError("has more than one graph; expected one")
            self._graph, self._directed = {}, given.get("edgedefault") == "directed"
        elif tag == "node":
            self._nodes.append((self._of(given, "id"), {}))
        elif tag == "edge":
            self._edges.append((self._of(given, "source"), self._of(given, "target"), {}))
        elif tag not in ("graphml", "default", "desc"):
            raise InvalidInputError("expected graphml, key, graph, node, edge or data", (tag,))

    def end(self, _name: str) -> None:
        """Take the end of an element."""
        tag, around = self._open.pop(), self._open[-1] if self._open else ""
        if tag not in ("data", "default") or {"data", "default", "desc"} & set(self._open):
            return
        key = self._keys[self._key]
        name = key.get("attr.name", self._key)
        value = _value("".join(self.texts), name, key.get("attr.type", "string"))
        if tag == "default":
            for kind in self._defaults:
                if key.get("for", "all") in (kind, "all"):
                    self._defaults[kind][name] = value
        elif around == "node":
            self._nodes[-1][1][name] = value
        elif around == "edge":
            self._edges[-1][2][name] = value
        elif self._graph is not None:
            self._graph[name] = value

    def made(self) -> nx.Graph[Any]:
        """Return the graph of all that was read."""
        if self._graph is None:
            raise InvalidInputError("has no graph; expected GraphML")
        made = _Graph(self._directed, self._defaults["graph"] | self._graph)
        for node, own in self._nodes:
            made.add_node(node, self._defaults["node"] | own)
        for a, b, own in self._edges:
            made.add_edge(a, b, self._defaults["edge"] | own)
        return made.graph

    def _of(self, given: dict[str, str], name: str) -> str:
        if name not in given:
            raise InvalidInputError("missing; expected text", (self._open[-1], name))
        return given[name]


def _value(text: str, name: str, kind: str) -> Any:
    """Return the value of an attribute of GraphML."""
    kind = "JSON" if name in _STRUCTURED else kind
    try:
        return _TYPES[kind](text if kind == "string" else text.strip())
    except (KeyError, ValueError):  # of which InvalidInputError is one
        raise InvalidInputError(f"expected a value of type {kind}", (name,), text) from None


def _graphml(graph: nx.Graph[Any]) -> str:
    import networkx as nx

    plain = nx.relabel_nodes(graph, {node: json.dumps(node) for node in graph})
    for own in (plain.graph, *(own for _, own in plain.nodes(data=True))):
        own.update({name: json.dumps(own[name]) for name in _STRUCTURED & own.keys()})
    return "\n".join(nx.generate_graphml(plain)) + "\n"
