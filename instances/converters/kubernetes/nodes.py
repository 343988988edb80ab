"""Nodes as hosts, and which of them a pod may go to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.levels import Levels
from placewright.instances.converters.kubernetes.records import Node
from placewright.instances.converters.kubernetes.source_ids import of_node
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.cluster import MAX_GPUS_PER_HOST, HostEntry

KIND = "nodes"
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
MODEL_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
)
_MIB = Decimal(1024) ** 2
_SHARED = "-SHARED"
_MACHINE = "node.kubernetes.io/instance-type"


@dataclass(slots=True)
class Amounts:
    """GPUs, millicores, MiB and pieces of extended resources."""

    gpus: int = 0
    cpu: int = 0
    memory: int = 0
    others: dict[str, int] = field(default_factory=dict)

    @property
    def most(self) -> int:
        """The largest of its numbers."""
        return max(self.gpus, self.cpu, self.memory, *self.others.values(), 0)

    @property
    def names(self) -> set[str]:
        """The resources of which it is some; GPUs by all names that they may have."""
        some = {"cpu": self.cpu, "memory": self.memory, **self.others}
        some |= dict.fromkeys(GPU_RESOURCES, self.gpus)
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


def amounts(asked: Mapping[str, Decimal], *, up: bool) -> Amounts:
    """Return quantities in small units, rounded up (what is asked) or down (what is there)."""
    way = ROUND_CEILING if up else ROUND_FLOOR

    def whole(amount: Decimal) -> int:
        return min(MAX_AMOUNT, int(amount.to_integral_value(way)))

    return Amounts(
        gpus=sum(whole(asked.get(name, Decimal(0))) for name in GPU_RESOURCES),
        cpu=whole(asked.get("cpu", Decimal(0)) * 1000),
        memory=whole(asked.get("memory", Decimal(0)) / _MIB),
        others={
            name: whole(amount)
            for name, amount in sorted(asked.items())
            if "/" in name and name not in GPU_RESOURCES
        },
    )


def gpu_model(node: Node) -> str | None:
    """Return the GPU model of a node, without what says how it is shared; None: it has no GPUs.

    Without a label of the model it is the type of the machine, or else the maker of the GPUs.
    """
    has = node.status.allocatable
    makers = [name for name in GPU_RESOURCES if has.get(name, 0) >= 1]
    if not makers:
        return None
    labels = node.metadata.labels
    found = next((labels[key] for key in (*MODEL_LABELS, _MACHINE) if labels.get(key)), None)
    return makers[0].partition(".")[0] if found is None else found.removesuffix(_SHARED)


def take_nodes(nodes: Sequence[Node], book: Bookkeeping) -> dict[str, Node]:
    """Return the nodes that become hosts, by name."""
    kept: dict[str, Node] = {}
    for node in nodes:
        name = node.metadata.name
        if amounts(node.status.allocatable, up=False).gpus > MAX_GPUS_PER_HOST:
            book.leave(KIND, f"more than {MAX_GPUS_PER_HOST} GPUs", name)
            continue
        kept[name] = node
        book.take(KIND)
        if gpu_model(node) and not any(node.metadata.labels.get(key) for key in MODEL_LABELS):
            book.cannot_say("the GPU model of a node that no label names", name)
        if any((node.metadata.labels.get(key) or "").endswith(_SHARED) for key in MODEL_LABELS):
            book.cannot_say("GPUs shared in time: each share counts as a GPU", name)
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

    Parameters
    ----------
    nodes
        From `take_nodes`.
    levels
        Where they are.
    held
        What pods of the round hold of each node: a host has at least that.
    background
        What other pods hold of each node: that is taken off.
    extended
        Extended resources that some job of the round asks for.
    """
    made = []
    for name, node in nodes.items():
        has = amounts(node.status.allocatable, up=False)
        mine, other = held.get(name, Amounts()), background.get(name, Amounts())
        made.append(
            HostEntry(
                name=name,
                parent=levels.leaf_of.get(name),
                gpus=has.gpus,
                gpu_model=gpu_model(node),
                cpu=f"{max(has.cpu - other.cpu, mine.cpu)}m",
                memory=f"{max(has.memory - other.memory, mine.memory)}Mi",
                resources={
                    key: max(
                        has.others.get(key, 0) - other.others.get(key, 0), mine.others.get(key, 0)
                    )
                    for key in sorted(extended)
                },
                healthy=ready(node),
                annotations=of_node(node),
            )
        )
    return tuple(made)


def over_full(
    nodes: Mapping[str, Node],
    held: Mapping[str, Amounts],
    background: Mapping[str, Amounts],
) -> list[str]:
    """Return the nodes of which pods hold more cores, memory or extended resources than it has."""
    found = []
    for name, node in nodes.items():
        has, total = amounts(node.status.allocatable, up=False), Amounts()
        total.add(held.get(name, Amounts()))
        total.add(background.get(name, Amounts()))
        more = any(amount > has.others.get(key, 0) for key, amount in total.others.items())
        if total.cpu > has.cpu or total.memory > has.memory or more:
            found.append(name)
    return found


def gpus_of(nodes: Mapping[str, Node]) -> dict[str, int]:
    """Return how many GPUs each node has."""
    return {name: amounts(node.status.allocatable, up=False).gpus for name, node in nodes.items()}
