"""Slurm's nodes as hosts, and which of them a job may use."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.slurm.caveats import Caveats
from placewright.instances.converters.slurm.features import matches
from placewright.instances.converters.slurm.hostlist import compress
from placewright.instances.converters.slurm.records import SlurmNode
from placewright.instances.converters.slurm.topology import Topology
from placewright.instances.derived.slurm_marks import NODE_NAME
from placewright.instances.documents.base import MAX_AMOUNT, NAME
from placewright.instances.documents.cluster import MAX_GPUS_PER_HOST, HostEntry

AWAY = frozenset(
    {
        "BLOCKED",
        "DOWN",
        "DRAIN",
        "DRAINED",
        "DRAINING",
        "ERROR",
        "FAIL",
        "FAILING",
        "FUTURE",
        "INVALID",
        "INVALID_REG",
        "MAINT",
        "NOT_RESPONDING",
        "NO_RESPOND",
        "POWERING_DOWN",
        "POWER_DOWN",
        "POWER_DRAIN",
        "REBOOT_ISSUED",
        "REBOOT_REQUESTED",
        "UNKNOWN",
    }
)
"""States in which Slurm starts nothing on a node; PLANNED, RESERVED, POWERED_DOWN are others."""

NODE = "node"
WHOLE_NODE = 1000
"""Of the resource `node`, where some job has its nodes alone: that is all, another job has 1."""

MAINTENANCE = "MAINTENANCE"
"""A state in which jobs of the reservation start alone; where a dump has none, nothing does."""

MAX_NAME = 240
MAX_REMEMBERED = 1024
"""Sets of nodes that are kept, lest a hostile dump fill the memory with different ones."""

UNNAMED = "gpu"
"""The model of GPUs of which Slurm does not say one: GRES `gpu:8`."""

_NAME = re.compile(NAME)
_SLICE = re.compile(r"(?:^|_)[0-9]+g\.[0-9]+gb")


class Room(NamedTuple):
    """The most GPUs, and CPUs, that one of some nodes has; the GPU models, GRES and MiB of all."""

    gpus: int
    cpus: int
    models: frozenset[str]
    parts: frozenset[tuple[str, int]]
    memory: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that become hosts, by name, which of them form a partition, and GPU models.

    `mixed` are the models of nodes with several, by the name that stands for these together.
    """

    by_name: Mapping[str, SlurmNode]
    partitions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    models: frozenset[str] = frozenset()
    mixed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    _rooms: dict[frozenset[str], Room] = field(default_factory=dict)
    _matching: dict[str, frozenset[str] | None] = field(default_factory=dict)

    @property
    def counted(self) -> frozenset[str]:
        """GPU models that are resources of hosts, as some node has them beside others."""
        return frozenset[str]().union(*self.mixed.values())

    def room(self, names: frozenset[str]) -> Room:
        """Return what there is on some nodes, at least one."""
        if names not in self._rooms:
            if len(self._rooms) >= MAX_REMEMBERED:
                self._rooms.clear()
            nodes = [self.by_name[name] for name in names]
            self._rooms[names] = Room(
                max(node.gres.total for node in nodes),
                max(map(_cpus, nodes)),
                frozenset(model for node in nodes if (model := gpu_model(node)) is not None),
                frozenset((p, parts_per_gpu(n, p)) for n in nodes for p in n.gres.parts),
                frozenset(map(_memory, nodes)),
            )
        return self._rooms[names]

    def of_gpus(self, asked: Mapping[str, int], allowed: frozenset[str]) -> dict[str, Any]:
        """Return the fields of a task group for GPUs by model ("": any); {} if no node has them.

        Models of nodes that have several are resources. GPUs of any model are whole ones where all
        allowed nodes have whole ones.
        """
        named = frozenset(asked) - {""}
        if not named:
            there = self.room(allowed).models
            whole = frozenset(model for model in self.models if not _SLICE.search(model))
            only = whole != self.models and there and there <= whole
            return {"gpu_models": tuple(sorted(there)) if only else None, "resources": {}}
        alone = {model for model in self.models - set(self.mixed) if named == {model}}
        able = alone | {name for name, models in self.mixed.items() if named <= models}
        if not able:
            return {}
        counted = self.counted
        resources = {of_model(model): asked[model] for model in sorted(named) if model in counted}
        return {"gpu_models": tuple(sorted(able)), "resources": resources}

    def of_features(self, text: str) -> frozenset[str] | None:
        """Return the nodes that match a constraint, None if it cannot be read."""
        if text not in self._matching:
            if len(self._matching) >= MAX_REMEMBERED:
                self._matching.clear()
            found = {
                name: not text or matches(text, node.active_features)
                for name, node in self.by_name.items()
            }
            read = None not in found.values()
            names = frozenset(name for name, match in found.items() if match)
            self._matching[text] = names if read else None
        return self._matching[text]


def take_nodes(
    nodes: Sequence[SlurmNode], book: Bookkeeping, *, reservations: bool = True
) -> Nodes:
    """Return the nodes that become hosts; what of them is left out is in the bookkeeping.

    `reservations`: the dump has them.
    """
    kept: dict[str, SlurmNode] = {}
    partitions: dict[str, set[str]] = {}
    for node in nodes:
        if not reservations and MAINTENANCE in node.states:
            node = node.model_copy(update={"state": ("MAINT",)})
        if not NODE_NAME.fullmatch(node.name):
            book.leave("nodes", "a name that Slurm's commands cannot have", node.name)
        elif node.name in kept:
            book.leave("nodes", "listed twice", node.name)
        elif node.gres.total > MAX_GPUS_PER_HOST:
            book.leave("nodes", f"more than {MAX_GPUS_PER_HOST} GPUs", node.name)
        else:
            kept[node.name] = node
            for partition in node.partitions:
                partitions.setdefault(partition, set()).add(node.name)
            if node.gres.others:
                book.cannot_say("GRES other than GPUs", node.name)
    book.take("nodes", len(kept))
    models = {name: node.gres.models for node in kept.values() if (name := gpu_model(node))}
    return Nodes(
        kept,
        {name: frozenset(hosts) for name, hosts in partitions.items()},
        frozenset(models),
        {name: found for name, found in models.items() if name not in {*found, UNNAMED}},
    )


def of_model(model: str) -> str:
    """Return the resource that the GPUs of a model are of hosts with several, as TRES name it."""
    return f"gres/gpu:{model}"


def parts_per_gpu(node: SlurmNode, part: str) -> int:
    """Return how many parts, such as shards, each GPU of a node has; 0 if it has none."""
    return node.gres.parts[part] // (node.gres.total or 1)


def gpu_model(node: SlurmNode) -> str | None:
    """Return the model of a node's GPUs, `a100+v100` for several, `UNNAMED` if there is no name."""
    if not node.gres.total:
        return None
    name = "+".join(sorted(model or UNNAMED for model in node.gres.gpus))
    return name if len(name) <= MAX_NAME and _NAME.fullmatch(name) else UNNAMED


def hosts(
    nodes: Nodes,
    topology: Topology,
    held: Mapping[str, tuple[int, int]],
    alone: Mapping[str, int] | None,
    resources: Mapping[str, Mapping[str, int]],
    in_use: Collection[str],
    caveats: Caveats,
) -> tuple[HostEntry, ...]:
    """Return the hosts of a cluster.

    Parameters
    ----------
    nodes
        From `take_nodes`.
    topology
        Where they are.
    held
        Millicores and MiB that running jobs hold of each host: a host has at least those.
    alone
        If some job has its nodes alone, so that hosts have the resource `node`: what running jobs
        hold of it. More than all of it is held where a dump contradicts itself.
    resources
        What running jobs hold of other resources of each host.
    in_use
        Hosts with `unlisted_gpus`, which nobody can have alone.
    caveats
        Which of them the annotations have.
    """
    return tuple(
        HostEntry(
            name=name,
            parent=topology.leaf_of.get(name),
            gpus=node.gres.total,
            gpu_model=gpu_model(node),
            cpu=f"{max(_cpus(node) * 1000, held.get(name, (0, 0))[0])}m",
            memory=f"{max(_memory(node), held.get(name, (0, 0))[1])}Mi",
            resources=(
                {}
                if alone is None
                else {NODE: max(WHOLE_NODE - (name in in_use), alone.get(name, 0))}
            )
            | _resources(node, nodes.counted, resources.get(name, {})),
            healthy=not node.states & AWAY,
            annotations=caveats.of_node(name),
        )
        for name, node in sorted(nodes.by_name.items())
    )


def _resources(node: SlurmNode, counted: frozenset[str], held: Mapping[str, int]) -> dict[str, int]:
    """Return GPUs of the models that are counted, and parts of GPUs, at least what jobs hold."""
    has = {of_model(model): node.gres.gpus[model] for model in counted & node.gres.models}
    has |= {f"gres/{part}": number for part, number in node.gres.parts.items()}
    return {name: max(has.get(name, 0), held.get(name, 0)) for name in sorted({*has, *held})}


def unlisted_gpus(
    nodes: Nodes, held: Mapping[str, Mapping[int, int]], closed: Collection[str]
) -> dict[str, list[int]]:
    """Return the GPUs by open host that Slurm has in use, and that no job of the dump holds.

    A job that ends holds them until its epilog has run; some releases lose count as they restart.
    Slurm starts nothing there.
    """
    found = {}
    for name, node in sorted(nodes.by_name.items()):
        used = node.gres_used
        free = [index for index in range(node.gres.total) if not held.get(name, {}).get(index)]
        more = used.total - (node.gres.total - len(free))
        if free and more > 0 and name not in closed:
            found[name] = ([i for i in free if i in used.indices] or free)[:more]
    return found


def over_full(nodes: Nodes, held: Mapping[str, tuple[int, int]]) -> list[str]:
    """Return the hosts of which running jobs hold more cores or memory than there are."""
    return [
        name
        for name, (cpu, memory) in sorted(held.items())
        if cpu > _cpus(nodes.by_name[name]) * 1000 or memory > _memory(nodes.by_name[name])
    ]


def _cpus(node: SlurmNode) -> int:
    return min(node.effective_cpus or node.cpus or 0, MAX_AMOUNT // 1000)


def _memory(node: SlurmNode) -> int:
    return max(0, (node.real_memory or 0) - (node.specialized_memory or 0))


@lru_cache(maxsize=MAX_REMEMBERED)
def as_ranges(hosts: frozenset[str]) -> tuple[str, ...]:
    """Return hosts as names and ranges."""
    return compress(hosts)
