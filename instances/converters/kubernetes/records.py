"""What is read of nodes and pods."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import Field

from placewright.instances.converters.kubernetes.accessor import (
    AsList,
    CountOrOne,
    Labels,
    LabelText,
    Moment,
    NameText,
    OptionalName,
    PortNumber,
    PriorityNumber,
    Quantities,
    Record,
    Seconds,
    Text,
    Texts,
    Truth,
)


class Owner(Record):
    """A controller or owner of an object."""

    apiVersion: Text = ""  # noqa: N815
    kind: Text = ""
    name: Text = ""
    uid: Text = ""
    controller: Truth = False


class Meta(Record):
    """Metadata of an object."""

    name: NameText
    namespace: OptionalName = None
    uid: Text = ""
    labels: Labels = Field(default_factory=dict)
    annotations: Texts = Field(default_factory=dict)
    ownerReferences: Annotated[tuple[Owner, ...], AsList] = ()  # noqa: N815
    creationTimestamp: Moment = None  # noqa: N815
    deletionTimestamp: Moment = None  # noqa: N815


class Object(Record):
    """Any object."""

    apiVersion: Text = ""  # noqa: N815
    metadata: Meta

    @property
    def name(self) -> str:
        """Name, with the namespace if it is in one."""
        meta = self.metadata
        return meta.name if meta.namespace is None else f"{meta.namespace}/{meta.name}"

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.metadata.namespace or "", self.metadata.name


class Condition(Record):
    """A condition of an object's status."""

    type: Text = ""
    status: Text = ""
    lastTransitionTime: Moment = None  # noqa: N815


Conditions = Annotated[tuple[Condition, ...], AsList]


class Taint(Record):
    """What keeps pods off a node that do not tolerate it."""

    key: Text = ""
    value: Text = ""
    effect: Text = ""


class Toleration(Record):
    """What a pod tolerates: without an effect every one, with no key every taint."""

    key: Text = ""
    operator: Text = ""
    value: Text = ""
    effect: Text = ""


class NodeSpec(Record):
    """What is wanted of a node."""

    unschedulable: Truth = False
    taints: Annotated[tuple[Taint, ...], AsList] = ()


class NodeStatus(Record):
    """What a node has, and how it is."""

    capacity: Quantities = Field(default_factory=dict)
    allocatable: Quantities = Field(default_factory=dict)
    conditions: Conditions = ()


class Node(Object):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Resources(Record):
    """What a container asks for."""

    requests: Quantities = Field(default_factory=dict)
    limits: Quantities = Field(default_factory=dict)

    @property
    def asked(self) -> dict[str, Decimal]:
        """Requests, and limits of what is not requested."""
        return {**self.limits, **self.requests}


class Port(Record):
    """A port of a container; `hostPort` is that of the node which it takes, 0: none."""

    hostPort: PortNumber = 0  # noqa: N815
    containerPort: PortNumber = 0  # noqa: N815
    protocol: LabelText = ""


class Container(Record):
    """A container of a pod; an init container that is always restarted runs on beside others."""

    name: Text = ""
    resources: Resources = Resources()
    ports: Annotated[tuple[Port, ...], AsList] = ()
    restartPolicy: Text = ""  # noqa: N815


class Expression(Record):
    """A test of a label, or of a field of a node."""

    key: Text = ""
    operator: Text = ""
    values: Annotated[tuple[Text, ...], AsList] = ()


class SelectorTerm(Record):
    """Tests that all have to pass."""

    matchExpressions: Annotated[tuple[Expression, ...], AsList] = ()  # noqa: N815
    matchFields: Annotated[tuple[Expression, ...], AsList] = ()  # noqa: N815


class NodeSelector(Record):
    """Terms of which one has to match."""

    nodeSelectorTerms: Annotated[tuple[SelectorTerm, ...], AsList] = ()  # noqa: N815


class NodeAffinity(Record):
    """Which nodes a pod may go to."""

    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = None  # noqa: N815


class LabelSelector(Record):
    """Labels that something has to have; an empty one selects all."""

    matchLabels: Texts = Field(default_factory=dict)  # noqa: N815
    matchExpressions: Annotated[tuple[Expression, ...], AsList] = ()  # noqa: N815


class PodTerm(Record):
    """Pods that matter to another one, in a domain of a label key."""

    topologyKey: Text = ""  # noqa: N815
    labelSelector: LabelSelector | None = None  # noqa: N815
    namespaces: Annotated[tuple[Text, ...], AsList] = ()
    namespaceSelector: LabelSelector | None = None  # noqa: N815
    matchLabelKeys: Annotated[tuple[Text, ...], AsList] = ()  # noqa: N815
    mismatchLabelKeys: Annotated[tuple[Text, ...], AsList] = ()  # noqa: N815


class Spread(PodTerm):
    """How evenly pods are over the domains of a label key."""

    maxSkew: CountOrOne = 1  # noqa: N815
    minDomains: CountOrOne = 1  # noqa: N815
    whenUnsatisfiable: Text = ""  # noqa: N815
    nodeAffinityPolicy: Text = ""  # noqa: N815
    nodeTaintsPolicy: Text = ""  # noqa: N815


class PodAffinity(Record):
    """Pods that have to be, or may not be, in the domain of a pod."""

    requiredDuringSchedulingIgnoredDuringExecution: Annotated[  # noqa: N815
        tuple[PodTerm, ...], AsList
    ] = ()


class Affinity(Record):
    """Which nodes a pod may go to, and that other pods matter."""

    nodeAffinity: NodeAffinity | None = None  # noqa: N815
    podAffinity: PodAffinity | None = None  # noqa: N815
    podAntiAffinity: PodAffinity | None = None  # noqa: N815


class Gate(Record):
    """What keeps a pod from being scheduled until it is removed."""

    name: Text = ""


class SchedulingGroup(Record):
    """The group of pods that a pod is in (from 1.36 on)."""

    podGroupName: OptionalName = None  # noqa: N815


class Volume(Record):
    """A volume of a pod."""

    persistentVolumeClaim: object = None  # noqa: N815


class PodSpec(Record):
    """What a pod asks for, and where it is."""

    containers: Annotated[tuple[Container, ...], AsList] = ()
    initContainers: Annotated[tuple[Container, ...], AsList] = ()  # noqa: N815
    resources: Resources | None = None
    overhead: Quantities = Field(default_factory=dict)
    nodeName: OptionalName = None  # noqa: N815
    nodeSelector: Texts = Field(default_factory=dict)  # noqa: N815
    affinity: Affinity | None = None
    tolerations: Annotated[tuple[Toleration, ...], AsList] = ()
    priority: PriorityNumber = 0
    priorityClassName: Text = ""  # noqa: N815
    schedulingGates: Annotated[tuple[Gate, ...], AsList] = ()  # noqa: N815
    schedulingGroup: SchedulingGroup | None = None  # noqa: N815
    topologySpreadConstraints: Annotated[tuple[Spread, ...], AsList] = ()  # noqa: N815
    resourceClaims: Annotated[tuple[object, ...], AsList] = ()  # noqa: N815
    volumes: Annotated[tuple[Volume, ...], AsList] = ()
    hostNetwork: Truth = False  # noqa: N815
    activeDeadlineSeconds: Seconds | None = None  # noqa: N815
    preemptionPolicy: Text = ""  # noqa: N815


class ContainerStatus(Record):
    """How a container is, and what it was given: more than it asks while it shrinks."""

    name: Text = ""
    allocatedResources: Quantities = Field(default_factory=dict)  # noqa: N815
    resources: Resources | None = None


class PodStatus(Record):
    """How a pod is."""

    containerStatuses: Annotated[tuple[ContainerStatus, ...], AsList] = ()  # noqa: N815
    phase: Text = ""
    startTime: Moment = None  # noqa: N815
    conditions: Conditions = ()


class Pod(Object):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    unreadable: Text = ""
