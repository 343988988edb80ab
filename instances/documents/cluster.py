"""The Cluster document: levels, domains with their parents, and hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, ValidationError

from placewright.instances.documents.annotations import Annotations
from placewright.instances.documents.base import (
    API_VERSION,
    HOST_NAME,
    MAX_AMOUNT,
    Document,
    Flag,
    Index,
    Many,
    Name,
)
from placewright.instances.documents.form_errors import invalid_input
from placewright.instances.documents.pools import Pool
from placewright.instances.documents.quantities import (
    Mib,
    MilliCpu,
    Resources,
    memory_text,
    whole_units,
)
from placewright.instances.errors import ENTRY, InvalidInputError
from placewright.topology.catalogue import CATALOGUE, LINK_MATRICES, Link
from placewright.topology.gpu_links import GpuLinks, LinkKind, links_of_words
from placewright.topology.graph import (
    Detail,
    GraphCluster,
    GraphError,
    GraphHost,
    Node,
    draw_graph,
    hardware_of,
)
from placewright.topology.graph_attributes import show
from placewright.topology.graph_reader import read_graph
from placewright.topology.units import HOST_LEVEL

if TYPE_CHECKING:
    import networkx as nx

MAX_GPUS_PER_HOST = 1024
MAX_LINKED_GPUS = 128
MAX_FABRIC_LINKS = 10_000

HostName = Annotated[str, Field(min_length=1, max_length=253, pattern=HOST_NAME)]


_RANGE = re.compile(r"(.*)\[(\d{1,9})-(\d{1,9})\]\Z")


def size(name: str) -> int:
    """Return the number of hosts of a name or range: 1 for a name, below 1 for a reversed range."""
    match = _RANGE.match(name) if name.endswith("]") else None
    return int(match[3]) - int(match[2]) + 1 if match else 1


def expand(name: str) -> list[str]:
    """Return the names that `name` stands for, in order; numbers keep the first one's zeros.

    A range's `size` should have been checked before it is expanded.
    """
    match = _RANGE.match(name) if name.endswith("]") else None
    if match is None:
        return [name]
    prefix, first, last = match.groups()
    width = len(first)
    return [f"{prefix}{number:0{width}d}" for number in range(int(first), int(last) + 1)]


Bandwidth = Annotated[int, Field(strict=True, ge=1, le=MAX_AMOUNT)]


class DomainEntry(Document):
    """One domain of a level, held by a domain of the level above (`parent`).

    `uplink_mbps` is what its link to that carries each way, if not as much as `links` say of its
    level. Of a fabric with several ways it is what all of them carry together: the maximum flow.
    """

    name: Name
    level: Name
    parent: Name | None = None
    uplink_mbps: Bandwidth | None = None


class LinkClass(Document):
    """A kind of link of a link matrix, and its bandwidth in each direction (Mbit/s)."""

    kind: LinkKind
    bandwidth_mbps: Bandwidth


LinkRow = Annotated[str, Field(max_length=4096, pattern=r"^[!-~]+( +[!-~]+)*$")]


class LinkMatrix(Document):
    """How the GPUs of a host reach each other, as `nvidia-smi topo -m` prints it.

    `gpus` has a row of words for each GPU: the name in `classes` of the link to each GPU, `X` for
    itself, `-` where no link is known, which counts as none. `nics` has a row for each NIC, with
    its links to the GPUs. `numa` is the NUMA node of each GPU.
    """

    name: Name
    classes: dict[Name, LinkClass] = Field(max_length=64)
    gpus: Many[LinkRow] = Field(min_length=1, max_length=MAX_LINKED_GPUS)
    nics: Many[LinkRow] = Field(default=(), max_length=64)
    numa: Many[Index] = ()
    source: Annotated[str, Field(max_length=1024)] = ""


class HostEntry(Document):
    """One host, or equal hosts as a range: `name: "h[000-127]"`.

    `model` names hardware of the catalogue (`dgx-h100`), which fills whatever is not given here.
    Host resources other than GPUs: `cpu`, `memory` (`quantities`), `resources` (any unit).
    `gpu_memory` is that of one GPU; without it the name of the GPU model may tell
    (`A100-SXM4-80GB`), or the host model. `mig: false`: its GPUs are not to be cut into MIG slices.
    `gpu_links` names the link matrix of its GPUs: one of the cluster's, or a host model's.
    `uplink_mbps` is that of its own link, as of a domain.
    """

    name: HostName
    parent: Name | None = None
    model: Name | None = None
    gpus: Annotated[int, Field(strict=True, ge=0, le=MAX_GPUS_PER_HOST)] | None = None
    gpu_model: Name | None = None
    gpu_memory: Mib | None = None
    gpu_links: Name | None = None
    uplink_mbps: Bandwidth | None = None
    mig: Flag = True
    cpu: MilliCpu | None = None
    memory: Mib | None = None
    resources: Resources = Field(default_factory=dict)
    healthy: Flag = True
    annotations: Annotations = Field(default_factory=dict)


class LinkEntry(Document):
    """A link's bandwidth (Mbit/s) and latency (microseconds)."""

    bandwidth_mbps: Bandwidth
    latency_us: Annotated[float, Field(strict=True, ge=0, le=1e9, allow_inf_nan=False)]


class WanEntry(LinkEntry):
    """A link between two domains of the outermost level."""

    between: tuple[Name, Name]


class FabricEntry(LinkEntry):
    """A link between two innermost domains or switches."""

    between: tuple[Name, Name]


class ClusterDocument(Document):
    """A cluster as a file describes it; `arrays.build_cluster` turns it into a `Cluster`.

    `levels` lists the layers above the host, outermost first; the host level is implied. `fabric`
    are the links above the hosts where they are no tree, in place of `links` of levels and `wan`.
    """

    apiVersion: Literal["placewright/v1alpha2"] = API_VERSION  # noqa: N815
    kind: Literal["Cluster"] = "Cluster"
    name: Name = "cluster"
    levels: Many[Name] = Field(default=(), max_length=16)
    domains: Many[DomainEntry] = ()
    hosts: Many[HostEntry] = Field(min_length=1)
    links: dict[Name, LinkEntry] = Field(default_factory=dict)
    wan: Many[WanEntry] = ()
    fabric: Many[FabricEntry] = Field(default=(), max_length=MAX_FABRIC_LINKS)
    pools: Many[Pool] = ()
    gpu_links: Many[LinkMatrix] = ()

    @property
    def own_uplinks(self) -> dict[tuple[str, str], int]:
        """Mbit/s of the link of each domain and host that has one of its own, by level and name."""
        found = {(one.level, one.name): one.uplink_mbps for one in self.domains}
        for entry in self.hosts if any(one.uplink_mbps for one in self.hosts) else ():
            found |= {(HOST_LEVEL, name): entry.uplink_mbps for name in expand(entry.name)}
        return {key: mbps for key, mbps in found.items() if mbps is not None}

    @classmethod
    def from_graph(cls, graph: nx.Graph[Any]) -> Self:
        """Return the cluster that a NetworkX graph describes, as `topology/graph.py` has it.

        Raises
        ------
        InvalidInputError
            Names the node or edge that is not as it should be, and what was expected.
        """
        try:
            said = read_graph(graph)
        except GraphError as error:
            raise InvalidInputError(str(error)) from None
        first: dict[str, str] = {}
        for name, level, _ in said.domains:
            if first.setdefault(name, level) != level:
                raise InvalidInputError(
                    f"graph: a {first[name]} and a {level} are named {name}; expected each name of "
                    f"a domain once"
                )
        own = {name: mbps for (of, name), mbps in said.own_uplinks.items() if of == HOST_LEVEL}
        hosts, first_of = _entries(
            [
                replace(host, attributes={**host.attributes, "uplink_mbps": own[host.name]})
                if host.name in own
                else host
                for host in said.hosts
            ]
        )
        values = {
            "name": said.name,
            "levels": said.levels,
            "domains": [
                {
                    "name": name,
                    "level": level,
                    "parent": parent,
                    "uplink_mbps": said.own_uplinks.get((level, name)),
                }
                for name, level, parent in said.domains
            ],
            "hosts": hosts,
            "links": {level: asdict(link) for level, link in said.links.items()},
            "wan": [{"between": ends, **asdict(link)} for ends, link in said.wan.items()],
            "fabric": [{"between": ends, **asdict(link)} for ends, link in said.fabric.items()],
            "pools": said.further.get("pools", ()),
            "gpu_links": said.further["gpu_links"],
        }
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            wrong = invalid_input(error, cls, values).errors[0]
            where = "graph"
            if wrong.path[:1] == ("hosts",) and len(wrong.path) > ENTRY:
                where = f"node {show(first_of[int(wrong.path[1])].node)}"
                wrong = wrong.at(wrong.path[ENTRY:])
            raise InvalidInputError(f"{where}: {wrong.text()}") from None

    def to_graph(self, detail: Detail = "host") -> nx.Graph[Node]:
        """Return the NetworkX graph of the cluster, from which `from_graph` makes an equal one.

        `detail`: down to hosts, or to GPUs, NICs, switches and links. The document must have
        passed `check_cluster`.

        Raises
        ------
        ValueError
            `detail` is neither, or more hosts lie in one NVLink domain than their model allows.
        """
        matrices = [
            matrix.model_dump(mode="json", exclude_defaults=True) for matrix in self.gpu_links
        ]
        known = dict(LINK_MATRICES) | {one["name"]: links_of_words(one) for one in matrices}
        pools = [pool.model_dump(mode="json", exclude_defaults=True) for pool in self.pools]
        said = GraphCluster(
            name=self.name,
            levels=self.levels,
            domains=[(one.name, one.level, one.parent) for one in self.domains],
            hosts=[host for entry in self.hosts for host in _hosts(entry, known)],
            links={level: Link(x.bandwidth_mbps, x.latency_us) for level, x in self.links.items()},
            wan={x.between: Link(x.bandwidth_mbps, x.latency_us) for x in self.wan},
            own_uplinks=self.own_uplinks,
            fabric={x.between: Link(x.bandwidth_mbps, x.latency_us) for x in self.fabric},
            further={"pools": pools, "gpu_links": matrices},
        )
        return draw_graph(said, detail)


# Hosts of a graph, and their entries.


_FIELDS = {
    "model": "model",
    "gpus": "gpus",
    "gpu_model": "gpu_model",
    "gpu_memory_mib": "gpu_memory",
    "gpu_links": "gpu_links",
    "mig": "mig",
    "cpu_milli": "cpu",
    "memory_mib": "memory",
    "resources": "resources",
    "healthy": "healthy",
    "annotations": "annotations",
    "uplink_mbps": "uplink_mbps",
}
"""Attributes of a host's node, and the fields that say the same."""

_TEXTS = {"gpu_memory": memory_text, "cpu": whole_units, "memory": memory_text}


def _hosts(entry: HostEntry, matrices: Mapping[str, GpuLinks]) -> Iterator[GraphHost]:
    """Yield the hosts of an entry."""
    values = {name: getattr(entry, own) for name, own in _FIELDS.items()}
    given = {name: value for name, value in values.items() if value not in (None, {})}
    given = {name: value for name, value in given.items() if value is not True}
    given.pop("uplink_mbps", None)  # an edge says it
    names = expand(entry.name)
    if names != [entry.name]:
        given["range"] = entry.name
    has = hardware_of(given)
    links = matrices.get(entry.gpu_links or entry.model or "")
    model = CATALOGUE[entry.model] if entry.model is not None else None
    for name in names:
        yield GraphHost(
            name=name,
            parent=entry.parent,
            attributes=given,
            gpus=has.gpus,
            gpu_model=has.gpu_model,
            gpu_memory=has.gpu_memory,
            model=model,
            links=links.first(has.gpus) if links is not None and has.gpus else None,
        )


def _entries(hosts: Sequence[GraphHost]) -> tuple[list[dict[str, Any]], list[GraphHost]]:
    """Return entries of hosts, whole ranges as one, and the first host of each."""
    entries: list[dict[str, Any]] = []
    firsts: list[GraphHost] = []
    at = 0
    while at < len(hosts):
        first, end = hosts[at], at + 1
        whole = first.attributes.get("range", first.name)
        if (match := _RANGE.match(whole)) and match[1] + match[2] == first.name:
            alike = first.attributes, first.parent
            while end < len(hosts) and (hosts[end].attributes, hosts[end].parent) == alike:
                end += 1
        end = min(end, at + max(size(whole), 1))
        if size(whole) != end - at or expand(whole) != [host.name for host in hosts[at:end]]:
            whole, end = first.name, at + 1
        if whole == first.name and _RANGE.match(whole):
            raise InvalidInputError(
                f"node {show(first.node)}: name: {whole} is a range; expected the name of one host"
            )
        values: dict[str, Any] = {"name": whole}
        for name, own in _FIELDS.items():
            if name in first.attributes:
                value = first.attributes[name]
                values[own] = _TEXTS[own](value) if own in _TEXTS else value
        entries.append(values | {"parent": first.parent})
        firsts.append(first)
        at = end
    return entries, firsts
