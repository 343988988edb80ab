"""Nodes of Ray as hosts, and what of their GPUs placement groups have not taken yet."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.levels import Levels, label_keys, read_levels
from placewright.instances.converters.kubernetes.records import Node
from placewright.instances.converters.ray.records import CPU, GPU, MEMORY, MIB, RayNode
from placewright.instances.documents.base import MAX_AMOUNT, NAME
from placewright.instances.documents.cluster import MAX_GPUS_PER_HOST, HostEntry
from placewright.instances.documents.source_keys import RAY_NODE
from placewright.topology.units import WHOLE_GPU

KIND = "nodes"
MODEL = "ray.io/accelerator-type"
UNNAMED = "gpu"
_NAME = re.compile(NAME)


@dataclass
class Hosts:
    """Hosts by the id of their node, and what of them is free.

    Nothing may arrive on `closed` ones: groups that are not in the round hold some of their GPUs.
    """

    by_id: Mapping[str, RayNode]
    levels: Levels
    free: dict[str, list[int]]
    held: dict[str, tuple[int, int]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, nodes: Sequence[RayNode], levels: Sequence[str], book: Bookkeeping) -> Hosts:
        """Take nodes that are alive."""
        kept: dict[str, RayNode] = {}
        for node in nodes:
            if node.state != "ALIVE":
                book.leave(KIND, f"is not alive ({node.state or 'no state'})", node.node_id)
            elif node.node_id in kept:
                book.leave(KIND, "listed twice", node.node_id)
            elif node.resources_total.get(GPU, Decimal(0)) > MAX_GPUS_PER_HOST:
                book.leave(KIND, f"more than {MAX_GPUS_PER_HOST} GPUs", node.node_id)
            else:
                kept[node.node_id] = node
        book.take(KIND, len(kept))
        labelled = [
            Node.model_validate({"metadata": {"name": key, "labels": one.labels}})
            for key, one in sorted(kept.items())
        ]
        found = read_levels(labelled, label_keys(labelled, levels, ()) if levels else ())
        free = {
            key: [WHOLE_GPU] * int(one.resources_total.get(GPU, 0)) for key, one in kept.items()
        }
        return cls(kept, found, free)

    def entries(self, book: Bookkeeping) -> tuple[HostEntry, ...]:
        """Return the hosts, by id; each has at least what groups hold of it."""
        made = []
        for key, one in sorted(self.by_id.items()):
            cpu, memory = one.resources_total.get(CPU), one.resources_total.get(MEMORY)
            total = _down((cpu or Decimal(0)) * 1000), _down((memory or Decimal(0)) / MIB)
            held = self.held.get(key, (0, 0))
            if held[0] > total[0] or held[1] > total[1]:
                book.cannot_say("cores or memory of which groups hold more than the node has", key)
            made.append(
                HostEntry(
                    name=key,
                    parent=self.levels.leaf_of.get(key),
                    gpus=len(self.free[key]),
                    gpu_model=_model(one) if self.free[key] else None,
                    cpu=f"{max(total[0], held[0])}m",
                    memory=f"{max(total[1], held[1])}Mi",
                    annotations={RAY_NODE: key},
                )
            )
        return tuple(made)

    def hold(self, host: str, cpu: int, memory: int) -> bool:
        """Note millicores and MiB that a bundle holds; return whether a host can have so much."""
        before = self.held.get(host, (0, 0))
        after = before[0] + cpu, before[1] + memory
        if max(after) > MAX_AMOUNT:
            return False
        self.held[host] = after
        return True

    def take(self, host: str, milli: int) -> tuple[int, ...] | None:
        """Take GPUs of a host, or a share of one; None if there are none left."""
        free = self.free[host]
        if milli < WHOLE_GPU:
            fits = [i for i, left in enumerate(free) if left >= milli][: 1 if milli else 0]
            amount, number = milli, len(fits) if milli else 0
        else:
            number, amount = milli // WHOLE_GPU, WHOLE_GPU
            fits = [i for i, left in enumerate(free) if left == WHOLE_GPU][:number]
        if len(fits) < number or (milli and not fits):
            return None
        for i in fits:
            free[i] -= amount
        return tuple(fits)


def _model(node: RayNode) -> str:
    label = node.labels.get(MODEL, "")
    return label if _NAME.fullmatch(label) else UNNAMED


def _down(value: Decimal) -> int:
    return min(MAX_AMOUNT, int(value.to_integral_value(ROUND_FLOOR)))
