"""Which nodes a pod may go to: its selector, its affinity and the taints that it tolerates."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from placewright.instances.converters.kubernetes.nodes import gpu_model
from placewright.instances.converters.kubernetes.records import (
    Expression,
    Node,
    NodeSelector,
    PodSpec,
    SelectorTerm,
    Taint,
    Toleration,
)
from placewright.instances.converters.slurm.hostlist import compress

_HARD = ("NoSchedule", "NoExecute")
_OF_STATE = "node.kubernetes.io/"
"""Taints that say how a node is, which a round says otherwise."""


@dataclass(slots=True)
class Eligibility:
    """The nodes that pods may go to; answers are kept, since pods of a kind ask the same."""

    nodes: Mapping[str, Node]
    _known: dict[str, frozenset[str]] = field(default_factory=dict)

    def allowed(self, spec: PodSpec, also: Iterable[Toleration] = ()) -> frozenset[str]:
        """Return the names of the nodes that a pod may go to.

        Parameters
        ----------
        spec
            Of the pod.
        also
            Tolerations that its queue would add.
        """
        required = None
        if spec.affinity is not None and spec.affinity.nodeAffinity is not None:
            required = spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
        tolerations = (*spec.tolerations, *also)
        asked = {
            "selector": spec.nodeSelector,
            "affinity": None if required is None else required.model_dump(),
            "tolerations": [one.model_dump() for one in tolerations],
        }
        key = json.dumps(asked, sort_keys=True)
        if key not in self._known:
            self._known[key] = frozenset(
                name
                for name, node in self.nodes.items()
                if has_labels(node, spec.nodeSelector)
                and (required is None or _selected(node, required))
                and all(_tolerated(taint, tolerations) for taint in node.spec.taints)
            )
        return self._known[key]

    def as_document(
        self, allowed: frozenset[str], gpus: Mapping[str, int], asked: int
    ) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
        """Return allowed nodes as a task group has them: GPU models, or else hosts.

        Nodes without GPUs do not matter to a task that asks for some.

        Parameters
        ----------
        allowed
            Their names, at least one that has what is asked.
        gpus
            How many GPUs each node has.
        asked
            How many GPUs the task asks for.
        """
        able = {name for name in self.nodes if gpus[name] or not asked}
        inside = able & allowed
        if inside == able:
            return None, None
        models = {gpu_model(self.nodes[name]) for name in inside}
        if asked and inside == {n for n in able if gpu_model(self.nodes[n]) in models}:
            return tuple(sorted(model for model in models if model is not None)), None
        return None, compress(inside)


def has_labels(node: Node, labels: Mapping[str, str]) -> bool:
    """Whether a node has all of these labels."""
    return all(node.metadata.labels.get(key) == value for key, value in labels.items())


def _selected(node: Node, selector: NodeSelector) -> bool:
    return any(_matches(node, term) for term in selector.nodeSelectorTerms)


def _matches(node: Node, term: SelectorTerm) -> bool:
    fields = {"metadata.name": node.metadata.name}
    if not term.matchExpressions and not term.matchFields:
        return False
    return all(_holds(one, node.metadata.labels) for one in term.matchExpressions) and all(
        _holds(one, fields) for one in term.matchFields
    )


def _holds(test: Expression, labels: Mapping[str, str]) -> bool:
    value = labels.get(test.key)
    if test.operator == "In":
        return value is not None and value in test.values
    if test.operator == "NotIn":
        return value is None or value not in test.values
    if test.operator == "Exists":
        return value is not None
    if test.operator == "DoesNotExist":
        return value is None
    if test.operator in ("Gt", "Lt") and len(test.values) == 1:
        try:
            left, right = int(value or ""), int(test.values[0])
        except ValueError:
            return False
        return left > right if test.operator == "Gt" else left < right
    return False


def _tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    if taint.effect not in _HARD or taint.key.startswith(_OF_STATE):
        return True
    return any(_tolerates(one, taint) for one in tolerations)


def _tolerates(one: Toleration, taint: Taint) -> bool:
    if one.effect and one.effect != taint.effect:
        return False
    if not one.key:
        return one.operator == "Exists"
    return one.key == taint.key and (one.operator == "Exists" or one.value == taint.value)
