"""Nodes as hosts, and which of them a pod may go to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.accelerators import (
    SHARED,
    accelerators_in,
    beside_in,
    model_of,
    told_labels,
)
from placewright.instances.converters.kubernetes.levels import Levels
from placewright.instances.converters.kubernetes.records import Node
from placewright.instances.converters.kubernetes.source_ids import of_node
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.documents.cluster import MAX_GPUS_PER_HOST, HostEntry

KIND = "nodes"
HOST_PORT = "hostPort/"
"""Resources that stand for a port of the host: each node has one piece of each."""

_MIB = Decimal(1024) ** 2
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

    name = accelerator or next(iter(accelerators_in(k for k, n in asked.items() if n >= 1)), "")
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
    return next(iter(accelerators_in(resources_of(node))), "")


def resources_of(node: Node) -> set[str]:
    """Return the names of the resources that a node has, allocatable now or not."""
    names = {**node.status.capacity, **node.status.allocatable}
    return {key for key, n in names.items() if max(n, node.status.capacity.get(key, n)) >= 1}


def has(node: Node) -> Amounts:
    """Return what a node has for pods; GPUs that are away now are among its GPUs.

    A node that does not say how many pods it takes has room for all.
    """
    name = accelerator_of(node)
    found = amounts(node.status.allocatable, up=False, accelerator=name or "none")
    found.gpus += away(node)
    found.others.setdefault("pods", MAX_AMOUNT)
    return found


def away(node: Node) -> int:
    """Return how many GPUs of a node are not to be had now: it has them, but none may ask."""
    name = accelerator_of(node)
    there = node.status.allocatable.get(name, Decimal(0))
    return max(0, int(node.status.capacity.get(name, there) - there)) if name else 0


def room_for(has: Amounts, key: str) -> int:
    """Return how much of a resource beside GPUs, cores and memory a node has."""
    return 1 if key.startswith(HOST_PORT) else has.others.get(key, 0)


def gpu_model(node: Node) -> str | None:
    """Return the GPU model of a node, without what says how it is shared; None: it has no GPUs."""
    name = accelerator_of(node)
    return model_of(name, node.metadata.labels)[0] if name else None


def idle_resources(
    nodes: Mapping[str, Node],
    held: Mapping[str, Amounts],
    wanted: Iterable[Amounts],
    without_gpus: int,
) -> frozenset[str]:
    """Return the resources of every node of which there is enough for whatever may come.

    Parameters
    ----------
    nodes
        All nodes.
    held
        What pods without GPUs hold of each.
    wanted
        What pods and pod sets ask that may be in the round.
    without_gpus
        How many of them ask for no GPU, and may be on a node beside those that do.
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
        if any((labels.get(key) or "").endswith(SHARED) for key in told_labels()):
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
        there = has(node)
        mine, other = held.get(name, Amounts()), background.get(name, Amounts())
        made.append(
            HostEntry(
                name=name,
                parent=levels.leaf_of.get(name),
                gpus=there.gpus,
                gpu_model=gpu_model(node),
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
