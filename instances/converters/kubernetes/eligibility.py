"""What pods ask for, and which nodes they may go to."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

from pydantic import Field

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.groups import TIER
from placewright.instances.converters.kubernetes.nodes import (
    HOST_PORT,
    HOSTNAME,
    Amounts,
    accelerator_of,
    amounts,
    gpu_model,
    ready,
)
from placewright.instances.converters.kubernetes.records import (
    AsList,
    Container,
    ContainerStatus,
    CountOrOne,
    Expression,
    LabelSelector,
    Node,
    NodeSelector,
    Object,
    OptionalName,
    Pod,
    PodSpec,
    Record,
    SelectorTerm,
    Taint,
    Text,
    Toleration,
)
from placewright.instances.converters.kubernetes.sources import Kind
from placewright.instances.converters.slurm.texts import compress
from placewright.instances.converters.support.live import Condition, HostSets
from placewright.instances.documents.source_keys import OWN_GATE

_SHARES = ("gpu-fraction", "gpu-memory")
_SLICED = ("nvidia.com/gpumem", "nvidia.com/gpucores", "volcano.sh/vgpu-")
_SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_PREEMPTABLE = "volcano.sh/preemptable"


class State(Enum):
    """How a pod is, as far as its place goes."""

    ENDED = "has ended"
    DELETED = "is deleted before it ran"
    BOUND = "bound"
    WAITING = "waiting"


def state_of(pod: Pod) -> State:
    """Return how a pod is; one that is deleted holds its node until it is gone."""
    if pod.status.phase in ("Succeeded", "Failed"):
        return State.ENDED
    if pod.spec.nodeName is not None:
        return State.BOUND
    return State.WAITING if pod.metadata.deletionTimestamp is None else State.DELETED


def asked_by(pod: Pod, known: dict[Hashable, Amounts]) -> Amounts:
    """Return what a pod asks for; one that is resized has the most of what it has and wants.

    `known`: what pods ask for, by what decides that; it is not to be changed.
    """
    spec = pod.spec
    given = {one.name: one for one in pod.status.containerStatuses}
    containers = tuple(_resized(one, given.get(one.name)) for one in spec.containers)
    key = (
        *(
            tuple((one.restartPolicy, tuple(one.resources.asked.items()), one.ports) for one in of)
            for of in (containers, spec.initContainers)
        ),
        None if spec.resources is None else tuple(spec.resources.asked.items()),
        tuple(spec.overhead.items()),
        spec.hostNetwork,
    )
    if key not in known:
        known[key] = requests(spec.model_copy(update={"containers": containers}))
    return known[key]


def _resized(one: Container, status: ContainerStatus | None) -> Container:
    """Return a container that asks for the most of what it has and wants."""
    if status is None or not (status.allocatedResources or status.resources):
        return one
    now = status.resources.requests if status.resources is not None else {}
    parts = (one.resources.asked, status.allocatedResources, now)
    most = {key: max(part.get(key, _NONE) for part in parts) for part in parts for key in part}
    if most == parts[0]:
        return one
    resources = one.resources.model_copy(update={"requests": most})
    return one.model_copy(update={"resources": resources})


def requests(spec: PodSpec) -> Amounts:
    """Return what kube-scheduler counts for a pod.

    All containers and those init containers that go on run together; other init containers run
    one after the other before, beside the former that have started. Amounts of the pod itself
    take the place of cores, memory and huge pages of its containers. A pod takes a place among the
    pods of its node, and the ports of the host that its containers ask for while it runs.
    """
    beside: dict[str, Decimal] = {}
    most: dict[str, Decimal] = {}
    for init in spec.initContainers:
        asked = _sum((beside, init.resources.asked))
        if init.restartPolicy == "Always":
            beside = asked
        most = {key: max(asked.get(key, _NONE), most.get(key, _NONE)) for key in {**asked, **most}}
    running = _sum((beside, *(one.resources.asked for one in spec.containers)))
    total = {key: max(running.get(key, _NONE), most.get(key, _NONE)) for key in {**running, **most}}
    if spec.resources is not None:
        own = spec.resources.asked.items()
        total |= {k: v for k, v in own if k in ("cpu", "memory") or k.startswith("hugepages-")}
    sidecars = (one for one in spec.initContainers if one.restartPolicy == "Always")
    ports = {
        f"{HOST_PORT}{number}/{port.protocol or 'TCP'}": Decimal(1)
        for one in (*spec.containers, *sidecars)
        for port in one.ports
        if (number := port.hostPort or (port.containerPort if spec.hostNetwork else 0))
    }
    return amounts(_sum((total, spec.overhead)) | ports | {"pods": Decimal(1)}, up=True)


def shares_gpus(pod: Pod) -> bool:
    """Whether a pod asks for a part of a GPU."""
    return any(key in pod.metadata.annotations for key in _SHARES)


def slices(asked: Amounts) -> bool:
    """Whether something asks for slices or shares of GPUs as extended resources."""
    return any(name.startswith(_SLICED) and asked.others[name] for name in asked.others)


def gated(pod: Pod) -> bool:
    """Whether a gate that is not ours keeps a pod from being scheduled."""
    return any(gate.name != OWN_GATE for gate in pod.spec.schedulingGates)


def ours(pod: Pod) -> bool:
    """Whether our gate keeps a pod until the plan starts it."""
    return any(gate.name == OWN_GATE for gate in pod.spec.schedulingGates)


def movable(pod: Pod) -> bool:
    """Whether a running pod may be stopped: something makes it anew, and nothing forbids it."""
    notes = pod.metadata.annotations
    return (
        pod.metadata.deletionTimestamp is None
        and any(owner.controller for owner in pod.metadata.ownerReferences)
        and not any(owner.kind == "DaemonSet" for owner in pod.metadata.ownerReferences)
        and notes.get(_SAFE) != "false"
        and notes.get(_PREEMPTABLE) != "false"
    )


def started(pod: Pod) -> int | None:
    """Return when a pod was started, or else bound."""
    bound = [one.lastTransitionTime for one in pod.status.conditions if one.type == "PodScheduled"]
    return pod.status.startTime or next(iter(bound), None)


_NONE = Decimal(0)


def _sum(parts: Iterable[dict[str, Decimal]]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for part in parts:
        for key, amount in part.items():
            total[key] = total.get(key, _NONE) + amount
    return total


# Which nodes a pod may go to: its selector, its affinity and the taints that it tolerates.

_HARD = ("NoSchedule", "NoExecute")
_OF_STATE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints that say how a node is, as its conditions do."""

_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""What kube-scheduler sees on a node that is cordoned, and some pods tolerate."""

_PRESSED = Toleration(key="node.kubernetes.io/memory-pressure", operator="Exists")
"""What pods tolerate that ask for cores or memory."""


@dataclass(slots=True)
class Eligibility:
    """The nodes that pods may go to; answers are kept, since pods of a kind ask the same.

    `nodes`: all nodes. `gpus`: how many GPUs each has. `cordons`: whether cordons are taints, since
    somebody tolerates them; else nobody comes to such nodes. `idle`: resources of which every node
    has enough for all pods: nothing is asked of them. `everywhere`: names of all nodes. `cordoned`:
    those where only some pods may go, and none that Kueue gives nodes to.
    `host_sets`: those that task groups refer to.
    """

    nodes: Mapping[str, Node]
    gpus: Mapping[str, int]
    idle: frozenset[str] = frozenset()
    cordons: bool = False
    everywhere: frozenset[str] = field(init=False)
    cordoned: frozenset[str] = field(init=False)
    _with_gpus: frozenset[str] = field(init=False)
    _of_model: dict[str | None, frozenset[str]] = field(init=False)
    _of_name: dict[str, frozenset[str]] = field(init=False)
    host_sets: HostSets = field(init=False)
    _known: dict[tuple[Any, ...], tuple[Condition, ...]] = field(default_factory=dict)
    _labelled: dict[str, frozenset[str]] = field(default_factory=dict)
    _models: dict[tuple[frozenset[str], bool], tuple[str, ...] | None] = field(default_factory=dict)
    _able: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)
    _meeting: dict[tuple[Condition, ...], frozenset[str]] = field(default_factory=dict)
    _same: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.everywhere = frozenset(self.nodes)
        self._same[self.everywhere] = self.everywhere
        cordoned = (name for name, node in self.nodes.items() if node.spec.unschedulable)
        self.cordoned = frozenset(cordoned if self.cordons else ())
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

    def in_domains(self, keys: Iterable[str]) -> Iterator[Condition]:
        """Yield that nodes have the labels of levels: those without one are in no domain of it."""
        for key in sorted(set(keys) - {HOSTNAME}):
            met = frozenset(n for n, node in self.nodes.items() if node.metadata.labels.get(key))
            if met and met != self.everywhere:
                yield Condition(f"level/{key}", met)

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
            # One object for equal sets: two are compared member by member wherever they meet.
            self._meeting[conditions] = self._same.setdefault(met, met)
        return self._meeting[conditions]

    def conditions(
        self, spec: PodSpec, wanted: Amounts, also: tuple[Toleration, ...] = ()
    ) -> tuple[Condition, ...]:
        """Return what nodes have to meet that a pod may go to.

        `spec`, `wanted`: of the pod, and what it asks for: GPUs of another resource are none for
        it. `also`: tolerations that its queue would add.
        """
        required = None
        if spec.affinity is not None and spec.affinity.nodeAffinity is not None:
            required = spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
        pressed = (_PRESSED,) if wanted.cpu or wanted.memory else ()
        asked = tuple(sorted(spec.nodeSelector.items())), required, spec.tolerations, also
        key = *asked, bool(pressed), wanted.accelerator if wanted.gpus else ""
        if key not in self._known:
            tolerations = (*spec.tolerations, *also, *pressed)
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
                        all(
                            tolerated(taint, tolerations) or _said_otherwise(taint, node)
                            for taint in node.spec.taints
                        )
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

        Nodes without GPUs do not matter to a task that asks for some. `conditions`: what the nodes
        have to meet. `allowed`: those that do, at least one that has what is asked. `asked`: how
        many GPUs the task asks for.
        """
        every = self.able(self.everywhere, asked)
        inside = self.able(allowed, asked)
        if inside is every or inside == every:
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
    return taint.effect not in _HARD or any(_tolerates(one, taint) for one in tolerations)


def _said_otherwise(taint: Taint, node: Node) -> bool:
    """Whether the round says by the health of a node, or a reservation, what a taint says."""
    if taint.key == _CORDON.key:
        return node.spec.unschedulable
    return taint.key in _OF_STATE and not ready(node)


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


# Volcano's HyperNodes as labels of nodes: one for each tier, with the HyperNode that it is in.

HYPER_NODE = Kind("topology.volcano.sh", "HyperNode")


class _Name(Record):
    name: OptionalName = None


class _Selector(Record):
    exactMatch: _Name | None = None  # noqa: N815
    labelMatch: LabelSelector | None = None  # noqa: N815
    regexMatch: object = None  # noqa: N815


class _Member(Record):
    type: Text = ""
    selector: _Selector = _Selector()


class _Spec(Record):
    tier: CountOrOne = 1
    members: Annotated[tuple[_Member, ...], AsList] = ()


class HyperNode(Object):
    """A domain of nodes, or of HyperNodes of lower tiers."""

    spec: _Spec = Field(default_factory=_Spec)


def with_tiers(
    nodes: Mapping[str, Node], found: Sequence[HyperNode], book: Bookkeeping
) -> tuple[dict[str, Node], tuple[str, ...]]:
    """Return the nodes with a label for each tier, and the keys of these, outermost first.

    Members by regular expression are not read: those of strangers may take for ever.
    """
    inside: defaultdict[str, dict[str, str]] = defaultdict(dict)
    by_name = {one.metadata.name: one for one in found}
    for one in found:
        if any(member.selector.regexMatch is not None for member in one.spec.members):
            book.cannot_say("members of a HyperNode by regular expression", one.metadata.name)
        for name in _nodes(one, by_name, nodes):
            inside[name].setdefault(f"{TIER}{one.spec.tier}", one.metadata.name)
    made = {}
    for name, node in nodes.items():
        labels = {**node.metadata.labels, **inside.get(name, {})}
        meta = node.metadata.model_copy(update={"labels": labels})
        made[name] = node.model_copy(update={"metadata": meta})
    tiers = sorted({one.spec.tier for one in found}, reverse=True)
    return made, tuple(f"{TIER}{tier}" for tier in tiers)


def _nodes(
    top: HyperNode, by_name: Mapping[str, HyperNode], nodes: Mapping[str, Node]
) -> Iterator[str]:
    """Yield the nodes in a HyperNode, and in those that it has as members."""
    seen, waiting = {top.metadata.name}, [top]
    while waiting:
        for member in waiting.pop().spec.members:
            exact, labels = member.selector.exactMatch, member.selector.labelMatch
            name = None if exact is None else exact.name
            if member.type == "HyperNode":
                child = by_name.get(name or "")
                if child is not None and child.metadata.name not in seen:
                    seen.add(child.metadata.name)
                    waiting.append(child)
            elif name is not None:
                yield from (name,) if name in nodes else ()
            elif labels is not None:
                yield from (n for n, node in nodes.items() if selects(labels, node.metadata.labels))
