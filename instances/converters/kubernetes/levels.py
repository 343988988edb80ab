"""The layers above the nodes, from labels: those asked for, or the first vendor's found."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from placewright.instances.converters.kubernetes.accessor import MAX_NAME
from placewright.instances.converters.kubernetes.records import Node
from placewright.instances.documents.cluster import DomainEntry
from placewright.instances.errors import InvalidInputError
from placewright.topology.units import HOST_LEVEL

HOSTNAME = "kubernetes.io/hostname"
VENDORS: tuple[tuple[str, ...], ...] = (
    tuple(f"fabric.topograph.run/tier-{tier}" for tier in (2, 1, 0)),
    tuple(f"network.topology.nvidia.com/{x}" for x in ("datacenter", "spine", "block")),
    ("cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"),
    tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3, 4)),
    tuple(f"backend.coreweave.cloud/{x}" for x in ("fabric", "superpod", "leafgroup")),
    ("oci.oraclecloud.com/host.network_block_id", "oci.oraclecloud.com/host.rack_id"),
    (
        "oci.oraclecloud.com/rdma.network_block_id",
        "oci.oraclecloud.com/rdma.local_block_id",
    ),
    ("topology.nebius.com/tier-2", "topology.nebius.com/tier-1"),
    ("accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain"),
    ("kubernetes.azure.com/ppg",),
    ("volcano.sh/hypercluster", "volcano.sh/hypernode", "volcano.sh/tor"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/zone"),
)
"""Label keys of topologies, outermost first; the first row of which a node has a label is taken."""

_WEIGHT_STEP = 4


@dataclass(frozen=True, slots=True)
class Levels:
    """The layers above the nodes.

    Attributes
    ----------
    level_of : mapping of str to str
        Name of the level of each label key, outermost first.
    domains : tuple of DomainEntry
        All domains.
    leaf_of : mapping of str to str
        The innermost domain of each node.
    unlabelled : tuple of str
        Nodes without the label of some level: each is a domain of its own there.
    above : mapping of str to str
        The domain that each domain is in.
    aliases : mapping of str to str
        Other names of label keys.
    """

    level_of: Mapping[str, str] = field(default_factory=dict)
    domains: tuple[DomainEntry, ...] = ()
    leaf_of: Mapping[str, str] = field(default_factory=dict)
    unlabelled: tuple[str, ...] = ()
    above: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The levels, outermost first."""
        return tuple(self.level_of.values())

    @property
    def weights(self) -> dict[str, int]:
        """Weight of each level in the term `spread`: each counts four times the one in it."""
        return {name: _WEIGHT_STEP**i for i, name in enumerate(reversed(self.names))}

    def domain_of(self, node: str, level: str) -> str:
        """Return the domain of a level that a node is in."""
        at = self.leaf_of[node]
        for _ in range(len(self.names) - 1 - self.names.index(level)):
            at = self.above[at]
        return at

    def named(self, key: str) -> str | None:
        """Return the level of a label key or of another name of it, None if there is none."""
        key = key if key in self.level_of else self.aliases.get(key, key)
        return HOST_LEVEL if key == HOSTNAME else self.level_of.get(key)


def label_keys(
    nodes: Sequence[Node], asked: Sequence[str], topologies: Sequence[Sequence[str]]
) -> tuple[str, ...]:
    """Return the label keys of the levels, outermost first.

    Parameters
    ----------
    nodes
        All nodes.
    asked
        Keys that the caller wants; no others then.
    topologies
        Keys that queues are set up with, of each topology; one that suits most nodes goes before
        the known vendors.

    Raises
    ------
    InvalidInputError
        A key is asked for that no node has.
    """
    present = {key for node in nodes for key in node.metadata.labels}
    for key in asked:
        if key not in present:
            raise InvalidInputError(
                "is on no node; expected label keys of nodes, outermost first",
                value=key,
                unknown=(key, present),
            )
    if asked:
        return tuple(dict.fromkeys(key for key in asked if key != HOSTNAME))
    set_up = [tuple(dict.fromkeys(k for k in keys if k != HOSTNAME)) for keys in topologies]
    labelled = {
        keys: sum(all(key in node.metadata.labels for key in keys) for node in nodes)
        for keys in set_up
        if keys
    }
    best = max(labelled, key=lambda keys: (labelled[keys], len(keys), keys), default=())
    if labelled.get(best):
        return best
    found = ((key for key in row if key in present) for row in VENDORS)
    return next((keys for keys in map(tuple, found) if keys), ())


def read_levels(
    nodes: Sequence[Node], keys: Sequence[str], aliases: Mapping[str, str] | None = None
) -> Levels:
    """Return the layers that labels of nodes make, with the names of domains qualified.

    `aliases` are other names of label keys, by which pods may ask for a level. Labels repeat across
    parents: `rack-1` may be in two blocks.
    """
    short = [key.rpartition("/")[2] for key in keys]
    unique = len(set(short)) == len(short) and HOST_LEVEL not in short and "" not in short
    names = dict(zip(keys, short if unique else map(_fitting, keys), strict=True))
    domains: dict[str, DomainEntry] = {}
    leaf_of: dict[str, str] = {}
    unlabelled: list[str] = []
    for node in nodes:
        parent: str | None = None
        for key in keys:
            label = node.metadata.labels.get(key) or f"@{node.metadata.name}"
            name = _fitting(label if parent is None else f"{parent}/{label}")
            domains.setdefault(name, DomainEntry(name=name, level=names[key], parent=parent))
            parent = name
        if parent is not None:
            leaf_of[node.metadata.name] = parent
        if not all(node.metadata.labels.get(key) for key in keys):
            unlabelled.append(node.metadata.name)
    depth = {name: i for i, name in enumerate(names.values())}
    ordered = sorted(domains.values(), key=lambda domain: (depth[domain.level], domain.name))
    above = {one.name: one.parent for one in ordered if one.parent is not None}
    return Levels(names, tuple(ordered), leaf_of, tuple(unlabelled), above, aliases or {})


def _fitting(name: str) -> str:
    """Return a name, or what stands for it if it is too long: its end, and a digest of it all."""
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{digest}:{name[-(MAX_NAME - 17) :]}"
