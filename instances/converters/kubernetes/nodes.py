"""Nodes as hosts: which of their resources count as GPUs, and the layers above them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.groups import of_node
from placewright.instances.converters.kubernetes.records import MAX_NAME, Node
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.cluster import MAX_GPUS_PER_HOST, DomainEntry, HostEntry
from placewright.instances.errors import InvalidInputError
from placewright.topology import CATALOGUE
from placewright.topology.link_rates import board_of
from placewright.topology.units import HOST_LEVEL

_MACHINE = "node.kubernetes.io/instance-type"
DEVICES, DEVICE_MODEL = "dra/", "placewright.dev/device-model"
_NVIDIA = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator")

CLIQUE = "nvidia.com/gpu.clique"
"""The label of GPU feature discovery for the NVLink domain of a rack, and its part."""

MODEL_LABELS: Mapping[str, tuple[str, ...]] = {
    "nvidia.com/gpu": _NVIDIA,
    "amd.com/gpu": ("amd.com/gpu.product-name",),
    "nvidia.com/gpu.shared": _NVIDIA,
    "nvidia.com/mig-*": _NVIDIA,
    "gpu.intel.com/i915": ("gpu.intel.com/product",),
    "gpu.intel.com/xe": ("gpu.intel.com/product",),
    "google.com/tpu": ("cloud.google.com/gke-tpu-accelerator",),
    "habana.ai/gaudi": (),
    "aws.amazon.com/neuron": (),
    "aws.amazon.com/neurondevice": (),
    "aws.amazon.com/neuroncore": (),
    "amd.com/*px_nps*": ("amd.com/gpu.product-name",),
    **dict.fromkeys(
        (
            "huawei.com/Ascend*",
            "cambricon.com/mlu*",
            "hygon.com/dcu",
            "metax-tech.com/gpu",
            "mthreads.com/gpu",
            "iluvatar.com/gpu",
            "enflame.com/gcu",
            "kunlunxin.com/xpu",
            "qualcomm.com/qaic",
        ),
        (),
    ),
    f"{DEVICES}*": (_NVIDIA[0], "amd.com/gpu.product-name", DEVICE_MODEL),
}
"""Names that count, `*` for any end, and the labels of nodes that tell the model.

On a node with several of them the first is that of its GPUs; the others, and slices beside anything
else, are resources of hosts, on every node.
"""

SHARED = "-SHARED"
"""What a label of the model ends with where GPUs are shared in time."""

_REPLICAS = "nvidia.com/gpu.replicas"

NO_ACCELERATORS: Mapping[str, str] = MappingProxyType({})

_ALSO: ContextVar[Mapping[str, str]] = ContextVar("also", default=NO_ACCELERATORS)
_NOTHING: frozenset[str] = frozenset()
_BESIDE: ContextVar[frozenset[str]] = ContextVar("beside", default=_NOTHING)
_OF_NODES: ContextVar[dict[int, tuple[Node, str, Amounts]] | None] = ContextVar(
    "of_nodes", default=None
)
"""Nodes, by their identity, with the resource that their GPUs are of, and what they have."""


@contextmanager
def counting(also: Mapping[str, str]) -> Iterator[None]:
    """Context: resources of these names count too; each has the label that tells its model."""
    token, beside, known = _ALSO.set(dict(also)), _BESIDE.set(_NOTHING), _OF_NODES.set({})
    try:
        yield
    finally:
        _ALSO.reset(token)
        _BESIDE.reset(beside)
        _OF_NODES.reset(known)


def count_beside(nodes: Iterable[Iterable[str]]) -> None:
    """Within `counting`: learn which names are resources beside GPUs, from those of each node."""
    found: set[str] = set()
    for names in nodes:
        first, *others = accelerators_in(names) or [""]
        found |= {first, *others} if others and is_slice(first) else set(others)
    _BESIDE.set(frozenset(found))
    _OF_NODES.set({})


def accelerators_in(names: Iterable[str]) -> list[str]:
    """Return the names that count as GPUs, in the order of the table, what users name first."""
    return [name for name in _known(names) if name not in _BESIDE.get()]


def beside_in(names: Iterable[str]) -> list[str]:
    """Return the names of accelerators that are resources beside GPUs."""
    beside = _BESIDE.get()
    return [name for name in _known(names) if name in beside] if beside else []


def _known(names: Iterable[str]) -> tuple[str, ...]:
    return _in_order(tuple(names), tuple(_ALSO.get()))


@lru_cache(maxsize=256)
def _in_order(names: tuple[str, ...], also: tuple[str, ...]) -> tuple[str, ...]:
    known = [(at, name) for name in names if (at := _place(name, also)) is not None]
    return tuple(name for _, name in sorted(known))


def is_slice(name: str) -> bool:
    """Whether a resource is slices of GPUs (MIG)."""
    return name.partition("/")[2].startswith("mig-")


@lru_cache(maxsize=4096)
def _place(name: str, also: tuple[str, ...]) -> int | None:
    """Return where in the table a name stands, behind what users name; None: nowhere."""
    patterns = enumerate((*also, *MODEL_LABELS))
    return next((at for at, one in patterns if fnmatchcase(name, one)), None)


def model_of(name: str, labels: Mapping[str, str]) -> tuple[str, bool]:
    """Return the model of the accelerators of a node, and whether a label says it.

    Without one it is the type of the machine, or else the maker. Parts of a GPU carry the name of
    their resource behind it, since they are not what whole GPUs of that model are.
    """
    also = _ALSO.get()
    own = next((keys for one, keys in MODEL_LABELS.items() if fnmatchcase(name, one)), ())
    keys = (also[name],) if name in also else own
    told = next((labels[key] for key in keys if labels.get(key)), None)
    found = told or labels.get(_MACHINE) or name.partition(".")[0]
    kind = name.partition("/")[2]
    part = f":{kind}" if kind.startswith("mig-") or kind == "gpu.shared" else ""
    return found.removesuffix(SHARED) + part, told is not None


def _shared(labels: Mapping[str, str]) -> bool:
    """Whether labels of a node say that each of its GPUs is there several times."""
    told = (labels.get(key) or "" for key in told_labels())
    return labels.get(_REPLICAS, "1") not in ("", "0", "1") or any(
        text.endswith(SHARED) for text in told
    )


def told_labels() -> list[str]:
    """Return all labels that tell a model."""
    return [key for keys in ((*_ALSO.get().values(),), *MODEL_LABELS.values()) for key in keys]


# The layers above the nodes, from labels: those asked for, or the first vendor's found.

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

    `level_of`: name of the level of each label key, outermost first. `domains`: all domains.
    `leaf_of`: the innermost domain of each node. `unlabelled`: nodes without the label of some
    level: each is a domain of its own there. `above`: the domain that each domain is in. `aliases`:
    other names of label keys.
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

    `nodes`: all nodes. `asked`: keys that the caller wants; no others then. `topologies`: keys that
    queues are set up with, of each topology; one that suits most nodes goes before the known
    vendors. Raises `InvalidInputError`: a key is asked for that no node has.
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
    names = dict(zip(keys, short if unique else map(fitting, keys), strict=True))
    domains: dict[str, DomainEntry] = {}
    leaf_of: dict[str, str] = {}
    unlabelled: list[str] = []
    for node in nodes:
        parent: str | None = None
        for key in keys:
            label = node.metadata.labels.get(key) or f"@{node.metadata.name}"
            name = fitting(label if parent is None else f"{parent}/{label}")
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


def fitting(name: str) -> str:
    """Return a name, or what stands for it if it is too long: its end, and a digest of it all."""
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{digest}:{name[-(MAX_NAME - 17) :]}"


# Nodes as hosts, and which of them a pod may go to.

KIND = "nodes"
HOST_PORT = "hostPort/"
"""Resources that stand for a port of the host: each node has one piece of each."""

_MIB = Decimal(1024) ** 2
_NONE = Decimal(0)
_STRATEGY = "nvidia.com/mig.strategy"


@dataclass(slots=True)
class Amounts:
    """GPUs, millicores, MiB and pieces of other resources; `accelerator` says what the GPUs are."""

    gpus: int = 0
    cpu: int = 0
    memory: int = 0
    others: dict[str, int] = field(default_factory=dict)
    accelerator: str = ""

    @property
    def most(self) -> int:
        """The largest of its numbers."""
        return max(self.gpus, self.cpu, self.memory, *self.others.values(), 0)

    @property
    def beside(self) -> int:
        """How many accelerators it is that are resources beside GPUs."""
        return sum(self.others[name] for name in beside_in(self.others))

    @property
    def names(self) -> set[str]:
        """The resources of which it is some."""
        some = {"cpu": self.cpu, "memory": self.memory, **self.others}
        some[self.accelerator] = self.gpus
        return {name for name, amount in some.items() if amount}

    def add(self, more: Amounts) -> None:
        """Add amounts."""
        self.gpus += more.gpus
        self.cpu += more.cpu
        self.memory += more.memory
        for name, amount in more.others.items():
            self.others[name] = self.others.get(name, 0) + amount

    def plus(self, more: Amounts) -> Amounts:
        """Return the sum with other amounts."""
        total = Amounts()
        total.add(self)
        total.add(more)
        return total


def amounts(asked: Mapping[str, Decimal], *, up: bool, accelerator: str = "") -> Amounts:
    """Return quantities in small units, rounded up (what is asked) or down (what is there).

    The GPUs are those of the resource `accelerator`, by default the first of the table; resources
    of other names, and pods, disk space and huge pages (MiB), are beside them.
    """
    way = ROUND_CEILING if up else ROUND_FLOOR

    def whole(amount: Decimal) -> int:
        return min(MAX_AMOUNT, int(amount.to_integral_value(way)))

    def piece(name: str, amount: Decimal) -> int:
        return whole(amount if "/" in name or name == "pods" else amount / _MIB)

    name = accelerator or next(iter(accelerators_in(k for k, n in asked.items() if whole(n))), "")
    return Amounts(
        gpus=whole(asked.get(name, Decimal(0))),
        cpu=whole(asked.get("cpu", Decimal(0)) * 1000),
        memory=whole(asked.get("memory", Decimal(0)) / _MIB),
        others={
            key: piece(key, amount)
            for key, amount in sorted(asked.items())
            if key not in (name, "cpu", "memory")
        },
        accelerator=name,
    )


def accelerator_of(node: Node) -> str:
    """Return the resource name of a node's GPUs; empty: it has none."""
    return _found(node)[1]


def resources_of(node: Node) -> set[str]:
    """Return the names of the resources that a node has, allocatable now or not."""
    names = {**node.status.capacity, **node.status.allocatable}
    return {key for key, n in names.items() if max(n, node.status.capacity.get(key, n)) >= 1}


def has(node: Node) -> Amounts:
    """Return what a node has for pods, not to be changed; GPUs that are away are among its GPUs.

    A node that does not say how many pods it takes has room for all.
    """
    return _found(node)[2]


def _found(node: Node) -> tuple[Node, str, Amounts]:
    known = _OF_NODES.get()
    found = None if known is None else known.get(id(node))
    if found is None:
        name = next(iter(accelerators_in(resources_of(node))), "")
        there = amounts(node.status.allocatable, up=False, accelerator=name or "none")
        there.gpus += _away(node, name)
        there.others.setdefault("pods", MAX_AMOUNT)
        found = node, name, there
        if known is not None:
            known[id(node)] = found
    return found


def away(node: Node) -> int:
    """Return how many GPUs of a node are not to be had now: it has them, but none may ask."""
    return _away(node, accelerator_of(node))


def _away(node: Node, name: str) -> int:
    there = node.status.allocatable.get(name, _NONE)
    return max(0, int(node.status.capacity.get(name, there) - there)) if name else 0


def room_for(has: Amounts, key: str) -> int:
    """Return how much of a resource beside GPUs, cores and memory a node has."""
    return 1 if key.startswith(HOST_PORT) else has.others.get(key, 0)


def gpu_model(node: Node) -> str | None:
    """Return the GPU model of a node, without what says how it is shared; None: it has no GPUs."""
    name = accelerator_of(node)
    return model_of(name, node.metadata.labels)[0] if name else None


def board(node: Node, gpus: int) -> str | None:
    """Return the host model whose links between GPUs a node has: no other board has so many.

    Shared GPUs and parts of them are none of a board; trays of NVLink racks say of which domain
    they are (`nvidia.com/gpu.clique`).
    """
    name, model, labels = accelerator_of(node), gpu_model(node), node.metadata.labels
    is_whole = name in ("nvidia.com/gpu", "amd.com/gpu") or name.startswith(DEVICES)
    if not is_whole or model is None or _shared(labels):
        return None
    found = board_of(model, gpus)
    is_tray = found is not None and CATALOGUE[found].nvlink_hosts > 1
    return None if is_tray and not labels.get(CLIQUE) else found


def idle_resources(
    nodes: Mapping[str, Node],
    held: Mapping[str, Amounts],
    wanted: Iterable[Amounts],
    without_gpus: int,
) -> frozenset[str]:
    """Return the resources of every node of which there is enough for whatever may come.

    `nodes`: all nodes. `held`: what pods without GPUs hold of each. `wanted`: what pods and pod
    sets ask that may be in the round. `without_gpus`: how many of them ask for no GPU, and may be
    on a node beside those that do.
    """
    most: dict[str, int] = {}
    for one in wanted:
        for key, amount in one.others.items():
            most[key] = max(amount, most.get(key, 0))
    plain = {key for key in most if "/" not in key}
    short = {
        key
        for name, node in nodes.items()
        for has_ in [has(node)]
        for key in plain
        if most[key] * (has_.gpus + without_gpus)
        > has_.others.get(key, 0) - held.get(name, Amounts()).others.get(key, 0)
    }
    return frozenset(plain - short)


def take_nodes(nodes: Sequence[Node], book: Bookkeeping) -> dict[str, Node]:
    """Return the nodes that become hosts, by name."""
    kept: dict[str, Node] = {}
    for node in nodes:
        name = node.metadata.name
        if has(node).gpus > MAX_GPUS_PER_HOST:
            book.leave(KIND, f"more than {MAX_GPUS_PER_HOST} GPUs", name)
            continue
        kept[name] = node
        book.take(KIND)
        labels, accelerator = node.metadata.labels, accelerator_of(node)
        if accelerator and not model_of(accelerator, labels)[1]:
            book.cannot_say("the GPU model of a node that no label names", name)
        if _shared(labels):
            book.cannot_say("GPUs shared in time: each share counts as a GPU", name)
        if labels.get(_STRATEGY) == "single" and "MIG" in (gpu_model(node) or ""):
            book.cannot_say("MIG slices of strategy single: each counts as a GPU", name)
        if beside_in(resources_of(node)):
            book.cannot_say("GPUs of a name that stands beside others: they are resources", name)
        if away(node):
            book.cannot_say("which GPUs of a node are away: the last ones count as such", name)
    return kept


def ready(node: Node) -> bool:
    """Whether the kubelet of a node answers; one that never said anything may be ready."""
    states = [one.status for one in node.status.conditions if one.type == "Ready"]
    return all(state == "True" for state in states)


def hosts(
    nodes: Mapping[str, Node],
    levels: Levels,
    held: Mapping[str, Amounts],
    background: Mapping[str, Amounts],
    extended: frozenset[str],
) -> tuple[HostEntry, ...]:
    """Return the hosts of a cluster.

    `nodes`: from `take_nodes`. `levels`: where they are. `held`: what pods of the round hold of
    each node: a host has at least that. `background`: what other pods hold of each node: that is
    taken off. `extended`: extended resources that some job of the round asks for.
    """
    made = []
    for name, node in nodes.items():
        there = has(node)
        mine, other = held.get(name, Amounts()), background.get(name, Amounts())
        made.append(
            HostEntry(
                name=name,
                parent=levels.leaf_of.get(name),
                gpus=there.gpus,
                gpu_model=gpu_model(node),
                gpu_links=board(node, there.gpus),
                cpu=f"{max(there.cpu - other.cpu, mine.cpu)}m",
                memory=f"{max(there.memory - other.memory, mine.memory)}Mi",
                resources={
                    key: max(
                        room_for(there, key) - other.others.get(key, 0), mine.others.get(key, 0)
                    )
                    for key in sorted(extended)
                },
                healthy=ready(node),
                annotations=of_node(node),
            )
        )
    return tuple(made)


def crowded(
    nodes: Mapping[str, Node], background: Mapping[str, Amounts], asked: Iterable[Amounts]
) -> list[str]:
    """Return the nodes that could take some task but for the pods without GPUs that are there."""
    largest = Amounts()
    for one in asked:
        largest.cpu, largest.memory = max(largest.cpu, one.cpu), max(largest.memory, one.memory)
        for key, amount in one.others.items():
            largest.others[key] = max(amount, largest.others.get(key, 0))
    found = []
    for name, held in background.items():
        there = has(nodes[name])
        pairs = [(there.cpu, held.cpu, largest.cpu), (there.memory, held.memory, largest.memory)]
        pairs += [(room_for(there, k), held.others.get(k, 0), n) for k, n in largest.others.items()]
        if there.gpus and any(n <= most < n + taken for most, taken, n in pairs):
            found.append(name)
    return found


def over_full(
    nodes: Mapping[str, Node],
    held: Mapping[str, Amounts],
    background: Mapping[str, Amounts],
) -> list[str]:
    """Return the nodes of which pods hold more cores, memory or extended resources than it has."""
    found = []
    for name, node in nodes.items():
        there, total = has(node), Amounts()
        total.add(held.get(name, Amounts()))
        total.add(background.get(name, Amounts()))
        more = any(amount > room_for(there, key) for key, amount in total.others.items())
        if total.cpu > there.cpu or total.memory > there.memory or more:
            found.append(name)
    return found


def gpus_of(nodes: Mapping[str, Node]) -> dict[str, int]:
    """Return how many GPUs each node has."""
    return {name: has(node).gpus for name, node in nodes.items()}
