"""Networks that tools and clouds tell of: levels and domains of a cluster, by name of host."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from pydantic import ValidationError

from placewright.instances.checks.cluster import MAX_HOSTS
from placewright.instances.checks.round import check_cluster, check_round
from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.ibnetdiscover import (
    Fabric,
    is_ibnetdiscover,
    read_ibnetdiscover,
)
from placewright.instances.converters.kubernetes.nodes import fitting, label_keys
from placewright.instances.converters.kubernetes.records import Node
from placewright.instances.converters.kubernetes.sources import Source, refused
from placewright.instances.converters.slurm.nodes import FURTHER_LEAVES, MAX_LEVELS, read_topology
from placewright.instances.converters.slurm.records import Part
from placewright.instances.converters.support.live import is_name
from placewright.instances.derived import ranges
from placewright.instances.derived.names import check_known
from placewright.instances.documents.cluster import (
    ClusterDocument,
    DomainEntry,
    FabricEntry,
    HostEntry,
)
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError, Path
from placewright.instances.io.files import documents_of, load, load_text
from placewright.instances.io.validation_messages import lines_of
from placewright.topology.catalogue import CATALOGUE
from placewright.topology.units import HOST_LEVEL

HOSTS = "hosts"
MAX_TIERS = 8
"""Network nodes that AWS may give an instance; it gives three or four."""

EXPECTED = (
    "expected what ibnetdiscover, aws ec2 describe-instance-topology, gcloud compute instances "
    "list or oci compute compute-host list prints as JSON, a topology of Slurm or nodes of "
    "Kubernetes with labels"
)

OCI_LEVELS: Mapping[str, str] = {
    "hpc-island": "hpcisland",
    "network-block": "networkblock",
    "local-block": "localblock",
    "gpu-memory-fabric": "gpumemoryfabric",
}
"""By level, the field that tells it, without `compute` or `customer` before and `id` behind."""

GCP_LEVELS = ("cluster", "block", "subblock")

MACHINES: Mapping[str, tuple[int, str]] = {
    "p4d.24xlarge": (8, "A100-SXM4-40GB"),
    "p4de.24xlarge": (8, "A100-SXM4-80GB"),
    "p5.48xlarge": (8, "H100-SXM5-80GB"),
    "p5e.48xlarge": (8, "H200-SXM5-141GB"),
    "p5en.48xlarge": (8, "H200-SXM5-141GB"),
    "p6-b200.48xlarge": (8, "B200-SXM6-180GB"),
    "a3-highgpu-8g": (8, "H100-SXM5-80GB"),
    "a3-megagpu-8g": (8, "H100-SXM5-80GB"),
    "a3-ultragpu-8g": (8, "H200-SXM5-141GB"),
    "a4-highgpu-8g": (8, "B200-SXM6-180GB"),
    "a4x-highgpu-4g": (4, "GB200"),
    "BM.GPU4.8": (8, "A100-SXM4-40GB"),
    "BM.GPU.A100-v2.8": (8, "A100-SXM4-80GB"),
    "BM.GPU.H100.8": (8, "H100-SXM5-80GB"),
    "BM.GPU.H200.8": (8, "H200-SXM5-141GB"),
    "BM.GPU.B200.8": (8, "B200-SXM6-180GB"),
    "BM.GPU.GB200.4": (4, "GB200"),
    "BM.GPU.MI300X.8": (8, "MI300X"),
}
"""GPUs of machine types: AWS EC2 accelerated computing, Google Cloud GPU machine types, OCI compute
shapes."""


class FabricConversion(NamedTuple):
    """A cluster or round with the levels of a network, and what of them is not in it."""

    document: ClusterDocument | Round
    book: Bookkeeping


@dataclass(slots=True)
class _Found:
    """What files say.

    `labels`: the labels of each host by level, the outermost first. `aliases`: names of hosts by
    what clouds call them. `nodes`: of Kubernetes.
    """

    fabrics: list[Fabric] = field(default_factory=list)
    labels: dict[str, dict[str, str | None]] = field(default_factory=dict)
    machines: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, list[str]] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)


def read_fabric(
    files: Sequence[str | os.PathLike[str]],
    *,
    into: str | os.PathLike[str] | None = None,
    model: str | None = None,
) -> FabricConversion:
    """Read the levels of a network: as a cluster, or into a cluster or a round.

    Parameters
    ----------
    files
        What tools print, each known by its content; also lists of instances and nodes, which tell
        the names of hosts: `aws ec2 describe-instances`, `kubectl get nodes`, `scontrol show node`.
    into
        A Cluster or a Round, whose hosts get these levels by their names.
    model
        The host model of all hosts, where there is no `into`.

    Raises
    ------
    InvalidInputError
        A file cannot be read or is of no known form, or no host of `into` is in it.
    """
    if model is not None:
        check_known(model, CATALOGUE, "host model", ("model",))
    book, found = Bookkeeping(), _Found()
    names = [os.fspath(file) for file in files]
    for file in names:
        try:
            _read(file, load_text(file), found, book)
        except InvalidInputError as error:
            raise error.inside(file) from None
    fabric = _whole(found, " ".join(names), book)
    try:
        made = _made(fabric, found, into, model, book)
        if isinstance(made, Round):
            check_round(made)
        else:
            check_cluster(made)
    except InvalidInputError as error:
        raise error.inside(" ".join(names) if into is None else os.fspath(into)) from None
    return FabricConversion(made, book)


def _made(
    fabric: Fabric,
    found: _Found,
    into: str | os.PathLike[str] | None,
    model: str | None,
    book: Bookkeeping,
) -> ClusterDocument | Round:
    """Return a new cluster, or what is to have the levels, with them."""
    if into is None:
        entries = [_host(name, found, model) for name in sorted(fabric.places)]
        bare = [entry.name for entry in entries if entry.model is None and not entry.gpus]
        if bare:
            book.cannot_say("what hosts have, of which no machine type is known: no GPUs", *bare)
        bare_cluster = ClusterDocument(name="fabric", hosts=tuple(entries))
        return _attached(bare_cluster, _matched(fabric, bare_cluster, found, book), book)
    given = load(into)
    if isinstance(given, ClusterDocument):
        return _attached(given, _matched(fabric, given, found, book), book)
    if isinstance(given, Round):
        matched = _matched(fabric, given.cluster, found, book)
        if "cluster.fabric" not in given.policy.spec.fields:
            matched = replace(matched, graph={})
        cluster = _attached(given.cluster, matched, book)
        return _with_weights(given.model_copy(update={"cluster": cluster}), book)
    raise InvalidInputError("expected a Cluster or a Round", ("kind",), given.kind)


def _host(name: str, found: _Found, model: str | None) -> HostEntry:
    gpus, gpu_model = MACHINES.get(found.machines.get(name, ""), (0, None))
    called = next(iter(found.aliases.get(name, ())), name)
    if model is not None:
        return HostEntry(name=called, model=model)
    return HostEntry(name=called, gpus=gpus, gpu_model=gpu_model)


# What a file says, by its content.

_SLURM = re.compile(r"^[ \t]*(?:switchname|blockname)=", re.IGNORECASE | re.MULTILINE)
_OCI = re.compile(rf"(?:compute|customer)?({'|'.join(OCI_LEVELS.values())})(?:id)?")
_LISTS = ("Instances", "Reservations", "items", "data", "nodes")
_NAMES = ("privatednsname", "name", "hostname", "displayname")
_NEXT_PAGE = ("NextToken", "nextPageToken", "opc-next-page")
_HOST = ("instanceid", "name", "displayname", "id", "customerhostid")
_MACHINE = ("instancetype", "machinetype", "instanceshape", "shape")


def _read(file: str, text: str, found: _Found, book: Bookkeeping) -> None:
    if is_ibnetdiscover(text):
        found.fabrics.append(read_ibnetdiscover(text, book))
        return
    if _SLURM.search(text):
        found.fabrics.append(_of_slurm(Part(file, text=text), book))
        return
    known = False
    for document in documents_of(text, file):
        if isinstance(document, list) and any(
            "topology" in x for x in document if isinstance(x, dict)
        ):
            found.fabrics.append(_of_slurm(Part(file, raw=document), book))
            known = True
            continue
        if isinstance(document, dict) and any(map(document.get, _NEXT_PAGE)):
            book.cannot_say("what further pages of a list tell, of which there are some")
        try:
            for path, name, record in _records(document):
                known |= _take(path, name, record, found, book)
        except InvalidInputError as error:
            raise error.located(lines_of(text, {error.path}).get, lambda _: None) from None
    if not known:
        raise InvalidInputError(EXPECTED, show_value=False)


def _of_slurm(part: Part, book: Bookkeeping) -> Fabric:
    """Return the levels of a topology of Slurm, whose domains have names of their own."""
    topology = read_topology(part, ())
    for node in topology.several:
        book.cannot_say(FURTHER_LEAVES, node)
    paths = _paths(topology.domains)
    return Fabric(topology.levels, {host: paths[leaf] for host, leaf in topology.leaf_of.items()})


def _records(
    value: Any, path: Path = (), name: str | None = None
) -> Iterator[tuple[Path, str | None, dict[str, Any]]]:
    """Yield records with their paths, and the names under which they stand in a mapping."""
    if isinstance(value, list):
        for i, one in enumerate(value):
            yield from _records(one, (*path, i))
    elif not isinstance(value, dict):
        raise InvalidInputError(EXPECTED, path, value)
    elif (
        key := next((k for k in _LISTS if isinstance(value.get(k), list | dict)), None)
    ) is not None:
        yield from _records(value[key], (*path, key))
    elif value and all(isinstance(one, dict) and _oci(_fields(one)) for one in value.values()):
        for key, one in value.items():
            yield (*path, key), key, one
    else:
        yield path, name, value


def _fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields by their names in lower case, in whatever style a tool writes them."""
    return {re.sub("[-_]", "", key.lower()): value for key, value in record.items()}


def _take(
    path: Path, name: str | None, record: dict[str, Any], found: _Found, book: Bookkeeping
) -> bool:
    """Note what a record says of a host; return whether it is of a known form."""
    if record.get("kind") == "Node":
        return _take_node(path, record, found)
    fields = _fields(record)
    labels = _place(fields, path)
    if labels is None:
        return _take_alias(fields, found)
    host = next((one for one in (name, *map(fields.get, _HOST)) if one), None)
    if not isinstance(host, str) or not is_name(host):
        raise InvalidInputError("expected the name or id of an instance", path, host)
    idle = "instanceid" in fields and not fields["instanceid"]
    if idle or not any(labels.values()):
        place = "has no place in the network: it does not run, or its type has none"
        book.leave(HOSTS, "runs no instance" if idle else place, host)
        return True
    if found.labels.setdefault(host, labels) != labels:
        raise InvalidInputError("given twice, at two places; expected each host once", path, host)
    machine = next((fields[field] for field in _MACHINE if isinstance(fields.get(field), str)), "")
    found.machines[host] = machine.rpartition("/")[2]
    return True


def _take_alias(fields: Mapping[str, Any], found: _Found) -> bool:
    """Note the names of an instance; return whether it is one."""
    own = fields.get("id")
    key = own if str(own).startswith("ocid1.instance.") else fields.get("instanceid")
    names = [fields.get(field) for field in _NAMES] + _tagged(fields)
    if isinstance(key, str):
        known = found.aliases.setdefault(key, [])
        known += [one for one in names if isinstance(one, str) and is_name(one)]
    return isinstance(key, str)


def _take_node(path: Path, record: dict[str, Any], found: _Found) -> bool:
    try:
        node = Node.model_validate(record)
    except ValidationError as error:
        raise refused(error, Source("", path, record)) from None
    found.nodes.append(node)
    spec = record.get("spec")
    provider = spec.get("providerID") if isinstance(spec, dict) else None
    if isinstance(provider, str) and is_name(node.metadata.name):
        found.aliases.setdefault(provider.rpartition("/")[2], []).append(node.metadata.name)
    return True


def _place(fields: Mapping[str, Any], path: Path) -> dict[str, str | None] | None:
    """Return labels by level, the outermost first; None: the record is not of a place."""
    oci = _oci(fields)
    if oci:
        given = {level: oci.get(field) for level, field in OCI_LEVELS.items()}
    elif "networknodes" in fields:
        nodes = fields["networknodes"] or []
        if not isinstance(nodes, list) or len(nodes) > MAX_TIERS:
            expected = f"expected a list of at most {MAX_TIERS} network nodes"
            raise InvalidInputError(expected, (*path, "NetworkNodes"), nodes)
        given = {f"layer-{i}": node for i, node in enumerate(nodes, 1)}
    elif isinstance(status := fields.get("resourcestatus"), dict):
        topology = status.get("physicalHostTopology") or {}
        if not isinstance(topology, dict):
            where = (*path, "resourceStatus", "physicalHostTopology")
            raise InvalidInputError("expected an object", where, topology)
        given = {level: topology.get(level) for level in GCP_LEVELS}
    else:
        return None
    for label in given.values():
        if label not in (None, "") and not (isinstance(label, str) and is_name(label)):
            raise InvalidInputError("expected the id of a part of a network", path, label)
    return {level: label or None for level, label in given.items()}


def _oci(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what fields say of a place in a network of OCI, without prefixes and endings."""
    matches = ((_OCI.fullmatch(key), value) for key, value in fields.items())
    return {match[1]: value for match, value in matches if match is not None}


def _tagged(fields: Mapping[str, Any]) -> list[Any]:
    """Return the tag `Name` of an instance of AWS."""
    tags = fields.get("tags")
    rows = [tag for tag in tags if isinstance(tag, dict)] if isinstance(tags, list) else []
    return [tag.get("Value") for tag in rows if tag.get("Key") == "Name"]


def _whole(found: _Found, where: str, book: Bookkeeping) -> Fabric:
    """Return the one network that the files tell of; without one, labels of nodes do.

    Raises `InvalidInputError`: there are several, or none.
    """
    labels = found.labels
    unique = bool(labels)  # ids of a cloud; what labels of nodes say may be said again elsewhere
    if not labels and not found.fabrics:
        keys = label_keys(found.nodes, (), ())
        short = {key: key.rpartition("/")[2] for key in keys}
        for node in found.nodes if keys else ():
            name = node.metadata.name
            labels[name] = {short[k]: node.metadata.labels.get(k) or f"@{name}" for k in keys}
    fabrics = list(found.fabrics)
    if labels:
        levels = max(map(tuple, labels.values()), key=len)
        other = next((n for n, given in labels.items() if tuple(given) != levels[: len(given)]), "")
        if other:
            raise InvalidInputError(
                f"host {other} is of another cloud than others; expected one network",
                file=where,
                show_value=False,
            )
        places = {n: tuple(given.get(level) for level in levels) for n, given in labels.items()}
        told = [i for i in range(len(levels)) if any(place[i] for place in places.values())]
        places = {name: tuple(place[i] for i in told) for name, place in places.items()}
        short_of = sorted(name for name, place in places.items() if None in place)
        if short_of:
            book.cannot_say(
                "some level of a host: one that stands for it is in its place", *short_of
            )
        above: defaultdict[str, set[str]] = defaultdict(set)
        for place in places.values() if unique else ():
            for outer, label in pairwise(place):
                if outer is not None and label is not None:
                    above[label].add(outer)
        if several := sorted(label for label, outer in above.items() if len(outer) > 1):
            book.cannot_say(
                "that parts of a network are under several: one domain in each", *several
            )
        fabrics.append(Fabric(tuple(levels[i] for i in told), places))
    large = any(len(fabric.places) > MAX_HOSTS for fabric in fabrics)
    if len(fabrics) != 1 or large:
        nowhere = (
            "has no host with a place in a network; expected some" if book.total(HOSTS) else ""
        )
        what = "tell of several networks; expected one" if fabrics else nowhere or EXPECTED
        what = f"have more than {MAX_HOSTS:,} hosts; expected fewer" if large else what
        raise InvalidInputError(what, file=where, show_value=False)
    (fabric,) = fabrics
    odd = sorted(host for host in fabric.places if not is_name(host))
    if odd:
        book.leave(HOSTS, "no host of a cluster can have its name", *odd)
    places = {host: place for host, place in fabric.places.items() if is_name(host)}
    if not places:
        raise InvalidInputError("has no host; expected some", file=where, show_value=False)
    for label in {label for place in places.values() for label in place if label is not None}:
        if not is_name(label):
            raise InvalidInputError("expected the name of a domain", value=label, file=where)
    return replace(fabric, places=places)


# Levels of a network in a cluster.


def _matched(fabric: Fabric, cluster: ClusterDocument, found: _Found, book: Bookkeeping) -> Fabric:
    """Return the places of a cluster's hosts: by name, in full or up to the first dot.

    Raises `InvalidInputError`: no host is in the network.
    """
    hosts = list(ranges.expand_all(entry.name for entry in cluster.hosts))
    short = Counter(_short(name) for name in hosts)
    index = {_short(name): name for name in hosts if short[_short(name)] == 1}
    index |= {name: name for name in hosts}
    places: dict[str, tuple[str | None, ...]] = {}
    uplinks = {key: mbps for key, mbps in fabric.uplinks.items() if key[0] != HOST_LEVEL}
    for name, place in fabric.places.items():
        called = (name, *found.aliases.get(name, ()))
        keys = (*called, *map(_short, called))
        host = next((index[key] for key in keys if key in index), None)
        if host is None or host in places:
            why = "no host has its name" if host is None else "another is the same host"
            book.leave(HOSTS, why, name)
        else:
            places[host] = place
            if (HOST_LEVEL, name) in fabric.uplinks:
                uplinks[HOST_LEVEL, host] = fabric.uplinks[HOST_LEVEL, name]
    book.take(HOSTS, len(places))
    if not places:
        first = next(iter(fabric.places), "")
        raise InvalidInputError(
            f"is no host of the network; expected names such as {first}",
            ("hosts", 0, "name"),
            hosts[0],
        )
    return replace(fabric, places=places, uplinks=uplinks)


def _short(name: str) -> str:
    """Return a name up to the first dot, in lower case; an address is one as a whole."""
    first = name.partition(".")[0].lower()
    return name if first.isdecimal() else first


def _attached(cluster: ClusterDocument, fabric: Fabric, book: Bookkeeping) -> ClusterDocument:
    """Return a cluster with the levels of a network, below those of its own that stay."""
    paths = _paths(cluster.domains)
    own = {h: paths[entry.parent] for entry in cluster.hosts for h in ranges.expand(entry.name)}
    kept = _kept(cluster, fabric, own)
    gone = cluster.levels[kept:]
    if gone:
        book.notes.append(f"levels that make room for those of the network: {', '.join(gone)}")
    levels = (*cluster.levels[:kept], *fabric.levels)
    missing = sorted(own.keys() - fabric.places.keys())
    if missing:
        book.cannot_say("where hosts are that the network does not have: each is alone", *missing)
    nowhere = (None,) * len(fabric.levels)
    places = {
        host: (*path[:kept], *_filled(fabric.places.get(host, nowhere), fabric.levels, host))
        for host, path in own.items()
    }
    if len(levels) > MAX_LEVELS:
        what = (
            f"makes {len(levels)} levels with those of the network; expected at most {MAX_LEVELS}"
        )
        raise InvalidInputError(what, ("levels",), show_value=False)
    links = {level: link for level, link in cluster.links.items() if level not in gone}
    uplinks = {
        (level, name): mbps
        for (level, name), mbps in cluster.own_uplinks.items()
        if level in links and level not in fabric.links
    }
    uplinks |= fabric.uplinks
    graph = fabric.graph if not missing and not kept else {}
    if graph:
        uplinks = {key: mbps for key, mbps in uplinks.items() if key[0] == HOST_LEVEL}
        links = {}
    elif fabric.graph:
        book.cannot_say("links between switches: some hosts, or levels, are around the network")
    domains, leaf_of = _domains(levels, places, kept, uplinks)
    named = {place[-1]: leaf_of[host] for host, place in places.items()}
    if cluster.wan and not kept:
        book.notes.append("links between the outermost domains are gone with them")
    return cluster.model_copy(
        update={
            "levels": levels,
            "domains": domains,
            "hosts": tuple(_entries(cluster.hosts, leaf_of, uplinks)),
            "links": {
                level: link
                for level, link in {**links, **fabric.links}.items()
                if not graph or level == HOST_LEVEL
            },
            "wan": cluster.wan if kept else (),
            "fabric": tuple(
                FabricEntry(between=(named.get(a, a), named.get(b, b)), **link.model_dump())
                for (a, b), link in graph.items()
            ),
        }
    )


def _paths(domains: Iterable[DomainEntry]) -> dict[str | None, tuple[str, ...]]:
    """Return each domain with those around it, the outermost first."""
    above = {domain.name: domain.parent for domain in domains}
    paths: dict[str | None, tuple[str, ...]] = {None: ()}
    for name in above:
        path = [name]
        while (parent := above[path[-1]]) is not None:
            path.append(parent)
        paths[name] = tuple(reversed(path))
    return paths


def _kept(cluster: ClusterDocument, fabric: Fabric, own: Mapping[str, tuple[str, ...]]) -> int:
    """Return how many outer levels stay: each outermost domain of the network is in one."""
    for depth, level in enumerate(cluster.levels):
        inside: dict[str | None, str] = {}
        if level in fabric.levels or any(
            inside.setdefault(place[0], own[host][depth]) != own[host][depth]
            for host, place in fabric.places.items()
        ):
            return depth
    return len(cluster.levels)


def _filled(place: Sequence[str | None], levels: Sequence[str], host: str) -> tuple[str, ...]:
    """Return a place with stand-ins, named after the next label below, or else above, or the host.

    Hosts under the same leaf stay together above it, and those at the same spine below it.
    """
    filled = []
    for depth, label in enumerate(place):
        around = (*place[depth:], *reversed(place[:depth]), host)
        near = next(one for one in around if one is not None)
        filled.append(label or f"{near}+{levels[depth]}")
    return tuple(filled)


def _domains(
    levels: Sequence[str],
    places: Mapping[str, tuple[str, ...]],
    kept: int,
    uplinks: Mapping[tuple[str, str], int],
) -> tuple[tuple[DomainEntry, ...], dict[str, str]]:
    """Return the domains and the innermost of each host.

    A label that is in several domains is qualified by the one around it, but not of kept levels.
    """
    paths = sorted({place[: i + 1] for place in places.values() for i in range(len(place))})
    number = Counter(path[-1] for path in paths)
    names: dict[tuple[str, ...], str] = {}
    domains = []
    for path in sorted(paths, key=len):
        parent = names.get(path[:-1])
        twice = number[path[-1]] > 1 and parent is not None and len(path) > kept
        names[path] = fitting(f"{parent}/{path[-1]}" if twice else path[-1])
        level = levels[len(path) - 1]
        own = uplinks.get((level, path[-1]))
        domains.append(DomainEntry(name=names[path], level=level, parent=parent, uplink_mbps=own))
    return tuple(domains), {host: names[place] for host, place in places.items()}


def _entries(
    entries: Iterable[HostEntry], leaf_of: Mapping[str, str], uplinks: Mapping[tuple[str, str], int]
) -> Iterator[HostEntry]:
    """Yield entries with their domains and uplinks; ranges of hosts with several are divided."""
    for entry in entries:
        model = CATALOGUE.get(entry.model or "")
        own = {} if model is not None and model.nic_rails else uplinks
        keys = (
            (name, (leaf_of[name], own.get((HOST_LEVEL, name))))
            for name in ranges.expand(entry.name)
        )
        for (leaf, uplink), group in groupby(keys, key=lambda pair: pair[1]):
            names = [name for name, _ in group]
            name = names[0]
            if len(names) > 1:
                prefix = entry.name.rpartition("[")[0]
                name = f"{prefix}[{name[len(prefix) :]}-{names[-1][len(prefix) :]}]"
            changed = {"name": name, "parent": leaf, "uplink_mbps": uplink}
            yield entry.model_copy(update=changed)


def _with_weights(round_: Round, book: Bookkeeping) -> Round:
    """Return a round in which the levels count in `spread`, four times as much per level upwards.

    Its own weights stay if it has all of their levels.
    """
    levels = round_.cluster.levels
    weights = round_.spread_weights()
    if "spread" not in round_.policy.terms or (weights and weights.keys() <= {*levels, HOST_LEVEL}):
        return round_
    weights = {level: min(4**i, 10**6) for i, level in enumerate(reversed(levels))}
    book.notes.append(
        f"weights in the term spread: {', '.join(f'{k} {v}' for k, v in weights.items())}"
    )
    return round_.model_copy(
        update={"policy": round_.policy.model_copy(update={"spread_weights": weights})}
    )
