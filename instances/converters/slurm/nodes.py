"""Slurm's nodes as hosts, and which of them a job may use."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

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
        "DOWN",
        "DRAIN",
        "DRAINED",
        "DRAINING",
        "ERROR",
        "FAIL",
        "FAILING",
        "FUTURE",
        "INVALID_REG",
        "MAINT",
        "NOT_RESPONDING",
        "NO_RESPOND",
        "POWERING_DOWN",
        "REBOOT_ISSUED",
        "REBOOT_REQUESTED",
        "UNKNOWN",
    }
)
"""States in which Slurm starts nothing on a node; PLANNED, RESERVED, POWERED_DOWN are others."""

NODE = "node"
WHOLE_NODE = 1000
"""Of the resource `node`, where some job has its nodes alone: that is all, another job has 1."""

MAX_REMEMBERED = 1024
"""Sets of nodes that are kept, lest a hostile dump fill the memory with different ones."""

UNNAMED = "gpu"
"""The model of GPUs of which Slurm does not say one: GRES `gpu:8`."""

_NAME = re.compile(NAME)


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that become hosts, by name, which of them form a partition, and GPU models."""

    by_name: Mapping[str, SlurmNode]
    partitions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    models: frozenset[str] = frozenset()
    _most: dict[frozenset[str], int] = field(default_factory=dict)
    _matching: dict[str, frozenset[str] | None] = field(default_factory=dict)

    def most_gpus(self, names: frozenset[str]) -> int:
        """Return the most GPUs that one of some nodes has, at least one node."""
        if names not in self._most:
            if len(self._most) >= MAX_REMEMBERED:
                self._most.clear()
            self._most[names] = max(self.by_name[name].gres.total for name in names)
        return self._most[names]

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


def take_nodes(nodes: Sequence[SlurmNode], book: Bookkeeping) -> Nodes:
    """Return the nodes that become hosts; what of them is left out is in the bookkeeping."""
    kept: dict[str, SlurmNode] = {}
    partitions: dict[str, set[str]] = {}
    for node in nodes:
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
            if len(node.gres.gpus) > 1:
                book.cannot_say("several GPU models of one node", node.name)
            if node.gres.others:
                book.cannot_say("GRES other than GPUs", node.name)
    book.take("nodes", len(kept))
    return Nodes(
        kept,
        {name: frozenset(hosts) for name, hosts in partitions.items()},
        frozenset(model for node in kept.values() if (model := gpu_model(node)) is not None),
    )


def gpu_model(node: SlurmNode) -> str | None:
    """Return the model of a node's GPUs, `UNNAMED` if Slurm names none or several."""
    if not node.gres.total:
        return None
    models = list(node.gres.gpus)
    return models[0] if len(models) == 1 and _NAME.fullmatch(models[0]) else UNNAMED


def hosts(
    nodes: Nodes,
    topology: Topology,
    held: Mapping[str, tuple[int, int]],
    alone: Mapping[str, int] | None,
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
            resources={} if alone is None else {NODE: max(WHOLE_NODE, alone.get(name, 0))},
            healthy=not node.states & AWAY,
            annotations=caveats.of_node(name),
        )
        for name, node in sorted(nodes.by_name.items())
    )


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
