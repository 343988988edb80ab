"""Which nodes a pod may go to: its selector, its affinity and the taints that it tolerates."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from placewright.instances.converters.kubernetes.nodes import Amounts, accelerator_of, gpu_model
from placewright.instances.converters.kubernetes.records import (
    Expression,
    LabelSelector,
    Node,
    NodeSelector,
    PodSpec,
    SelectorTerm,
    Taint,
    Toleration,
)
from placewright.instances.converters.slurm.hostlist import compress
from placewright.instances.converters.support.host_sets import Condition, HostSets

_HARD = ("NoSchedule", "NoExecute")
_OF_STATE = tuple(
    f"node.kubernetes.io/{state}" for state in ("not-ready", "unreachable", "unschedulable")
)
"""Taints that say how a node is, which a round says otherwise."""

_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""What kube-scheduler sees on a node that is cordoned, and some pods tolerate."""

_PRESSED = Toleration(key="node.kubernetes.io/memory-pressure", operator="Exists")
"""What pods tolerate that ask for cores or memory."""


@dataclass(slots=True)
class Eligibility:
    """The nodes that pods may go to; answers are kept, since pods of a kind ask the same.

    Attributes
    ----------
    nodes : mapping of str to Node
        All nodes.
    gpus : mapping of str to int
        How many GPUs each has.
    cordons : bool
        Whether cordons are taints, since somebody tolerates them; else nobody comes to such nodes.
    idle : frozenset of str
        Resources of which every node has enough for all pods: nothing is asked of them.
    everywhere : frozenset of str
        Names of all nodes.
    host_sets : HostSets
        Those that task groups refer to.
    """

    nodes: Mapping[str, Node]
    gpus: Mapping[str, int]
    idle: frozenset[str] = frozenset()
    cordons: bool = False
    everywhere: frozenset[str] = field(init=False)
    _with_gpus: frozenset[str] = field(init=False)
    _of_model: dict[str | None, frozenset[str]] = field(init=False)
    _of_name: dict[str, frozenset[str]] = field(init=False)
    host_sets: HostSets = field(init=False)
    _known: dict[str, tuple[Condition, ...]] = field(default_factory=dict)
    _labelled: dict[str, frozenset[str]] = field(default_factory=dict)
    _models: dict[tuple[frozenset[str], bool], tuple[str, ...] | None] = field(default_factory=dict)
    _able: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)
    _meeting: dict[tuple[Condition, ...], frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.everywhere = frozenset(self.nodes)
        self.host_sets = HostSets(len(self.nodes), compress)
        self._with_gpus = frozenset(name for name in self.nodes if self.gpus[name])
        found: dict[str | None, set[str]] = {}
        named: dict[str, set[str]] = {}
        for name in self._with_gpus:
            found.setdefault(gpu_model(self.nodes[name]), set()).add(name)
            named.setdefault(accelerator_of(self.nodes[name]), set()).add(name)
        self._of_name = {name: frozenset(names) for name, names in named.items()}
        self._of_model = {model: frozenset(names) for model, names in found.items()}

    def with_labels(self, labels: Mapping[str, str]) -> frozenset[str]:
        """Return the names of the nodes that have all of these labels."""
        key = json.dumps(labels, sort_keys=True)
        if key not in self._labelled:
            self._labelled[key] = frozenset(
                name for name, node in self.nodes.items() if has_labels(node, labels)
            )
        return self._labelled[key]

    def able(self, allowed: frozenset[str], asked: int) -> frozenset[str]:
        """Return the allowed nodes that have GPUs, if some are asked."""
        if not asked:
            return allowed
        if allowed not in self._able:
            all_able = allowed <= self._with_gpus
            self._able[allowed] = allowed if all_able else allowed & self._with_gpus
        return self._able[allowed]

    def is_of(self, host: str, wanted: Amounts) -> bool:
        """Whether the GPUs of a node are of the resource that somebody asks for, if any."""
        return not wanted.gpus or host in self._of_name.get(wanted.accelerator, ())

    def others(self, wanted: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
        """Yield what is asked beside GPUs, cores and memory, as far as a node may lack it."""
        return ((key, amount) for key, amount in wanted if key not in self.idle)

    def all_of(self, conditions: tuple[Condition, ...]) -> frozenset[str]:
        """Return the names of the nodes that meet all conditions."""
        if conditions not in self._meeting:
            met = self.everywhere.intersection(*(one.hosts for one in conditions))
            self._meeting[conditions] = met
        return self._meeting[conditions]

    def conditions(
        self, spec: PodSpec, wanted: Amounts, also: Iterable[Toleration] = ()
    ) -> tuple[Condition, ...]:
        """Return what nodes have to meet that a pod may go to.

        Parameters
        ----------
        spec, wanted
            Of the pod, and what it asks for: GPUs of another resource are none for it.
        also
            Tolerations that its queue would add.
        """
        required = None
        if spec.affinity is not None and spec.affinity.nodeAffinity is not None:
            required = spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
        pressed = (_PRESSED,) if wanted.cpu or wanted.memory else ()
        tolerations = (*spec.tolerations, *also, *pressed)
        asked = {
            "selector": spec.nodeSelector,
            "affinity": None if required is None else required.model_dump(),
            "tolerations": [one.model_dump() for one in tolerations],
            "accelerator": wanted.accelerator if wanted.gpus else "",
        }
        key = json.dumps(asked, sort_keys=True)
        if key not in self._known:
            found = [
                Condition(f"label/{label}={value}", self.with_labels({label: value}))
                for label, value in spec.nodeSelector.items()
            ]
            same = self._of_name.get(wanted.accelerator, frozenset())
            if wanted.gpus and same != self._with_gpus:
                found.append(Condition(f"resource/{wanted.accelerator}", same))
            if required is not None:
                found.append(self._nodes("affinity", lambda node: _selected(node, required)))
            found.append(
                self._nodes(
                    "tolerated",
                    lambda node: (
                        all(tolerated(taint, tolerations) for taint in node.spec.taints)
                        and not (
                            self.cordons
                            and node.spec.unschedulable
                            and not passes_cordons(tolerations)
                        )
                    ),
                )
            )
            self._known[key] = tuple(found)
        return self._known[key]

    def _nodes(self, name: str, test: Callable[[Node], bool]) -> Condition:
        return Condition(name, frozenset(n for n, node in self.nodes.items() if test(node)))

    def as_document(
        self, conditions: Iterable[Condition], allowed: frozenset[str], asked: int
    ) -> dict[str, Any]:
        """Return what tells a task group's hosts: nothing, GPU models, or else host sets.

        Nodes without GPUs do not matter to a task that asks for some.

        Parameters
        ----------
        conditions
            What the nodes have to meet.
        allowed
            Those that do, at least one that has what is asked.
        asked
            How many GPUs the task asks for.
        """
        every = self.able(self.everywhere, asked)
        inside = self.able(allowed, asked)
        if inside == every:
            return {}
        models = self._models_of(inside, asked)
        if models is not None:
            return {"gpu_models": models}
        telling = [one for one in conditions if not every <= one.hosts]
        return self.host_sets.fields(telling, inside)

    def _models_of(self, inside: frozenset[str], asked: int) -> tuple[str, ...] | None:
        """Return the GPU models of which nodes are all, None if they are not all of some models."""
        key = inside, bool(asked)
        if key not in self._models:
            models = [model for model, names in self._of_model.items() if names & inside]
            union = frozenset[str]().union(*(self._of_model[model] for model in models))
            named = tuple(sorted(model for model in models if model))
            self._models[key] = named if asked and inside == union else None
        return self._models[key]


def has_labels(node: Node, labels: Mapping[str, str]) -> bool:
    """Whether a node has all of these labels."""
    return all(node.metadata.labels.get(key) == value for key, value in labels.items())


def _selected(node: Node, selector: NodeSelector) -> bool:
    return any(_matches(node, term) for term in selector.nodeSelectorTerms)


def _matches(node: Node, term: SelectorTerm) -> bool:
    fields = {"metadata.name": node.metadata.name}
    if not term.matchExpressions and not term.matchFields:
        return False
    return all(holds(one, node.metadata.labels) for one in term.matchExpressions) and all(
        holds(one, fields) for one in term.matchFields
    )


def holds(test: Expression, labels: Mapping[str, str]) -> bool:
    """Whether labels pass a test."""
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
        return _compares(test.operator, value, test.values[0])
    return False


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether labels pass all tests of a selector; none selects nothing, an empty one all."""
    return (
        selector is not None
        and all(labels.get(key) == value for key, value in selector.matchLabels.items())
        and all(holds(one, labels) for one in selector.matchExpressions)
    )


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether tolerations let a pod pass a taint."""
    if taint.effect not in _HARD or taint.key in _OF_STATE:
        return True
    return any(_tolerates(one, taint) for one in tolerations)


def passes_cordons(tolerations: Iterable[Toleration]) -> bool:
    """Whether tolerations let a pod go to a node that is cordoned."""
    return any(_tolerates(one, _CORDON) for one in tolerations)


def _tolerates(one: Toleration, taint: Taint) -> bool:
    if one.effect and one.effect != taint.effect:
        return False
    if not one.key:
        return one.operator == "Exists"
    if one.key != taint.key:
        return False
    if one.operator in ("Gt", "Lt"):
        return _compares(one.operator, taint.value, one.value)
    return one.operator == "Exists" or one.value == taint.value


def _compares(operator: str, value: str | None, limit: str) -> bool:
    """Whether a value is a whole number, and more ("Gt") or less ("Lt") than another."""
    try:
        left, right = int(value or ""), int(limit)
    except ValueError:
        return False
    return left > right if operator == "Gt" else left < right
