"""What is read of Kueue's objects, v1beta1 and v1beta2."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from placewright.instances.converters.kubernetes.accessor import (
    AsList,
    CountOrOne,
    Moment,
    NameText,
    OptionalName,
    PriorityNumber,
    Quantities,
    Quantity,
    Record,
    Seconds,
    Text,
    Texts,
    Truth,
    TruthByDefault,
)
from placewright.instances.converters.kubernetes.records import (
    Condition,
    Conditions,
    Expression,
    Object,
    PodSpec,
    Taint,
    Toleration,
)
from placewright.instances.converters.kubernetes.sources import Kind

GROUP = "kueue.x-k8s.io"
WORKLOAD = Kind(GROUP, "Workload")
CLUSTER_QUEUE, LOCAL_QUEUE = Kind(GROUP, "ClusterQueue"), Kind(GROUP, "LocalQueue")
FLAVOR, TOPOLOGY, COHORT = (
    Kind(GROUP, "ResourceFlavor"),
    Kind(GROUP, "Topology"),
    Kind(GROUP, "Cohort"),
)
NAMESPACE = Kind("", "Namespace")


class TopologyRequest(Record):
    """How near to each other the pods of a pod set are wanted."""

    required: Text = ""
    preferred: Text = ""
    podSetSliceRequiredTopology: Text = ""  # noqa: N815
    podSetSliceSize: CountOrOne | None = None  # noqa: N815
    podSetGroupName: OptionalName = None  # noqa: N815
    unconstrained: Truth = False

    @property
    def explicit(self) -> bool:
        """Whether it wants topology-aware scheduling itself, whatever the queue has."""
        keys = (self.required, self.preferred, self.podSetSliceRequiredTopology)
        return self.unconstrained or any(keys)


class _TemplateMeta(Record):
    labels: Texts = Field(default_factory=dict)


class _Template(Record):
    metadata: _TemplateMeta = Field(default_factory=_TemplateMeta)
    spec: PodSpec = PodSpec()


class PodSet(Record):
    """Pods of a workload that ask the same."""

    name: OptionalName = None
    count: CountOrOne = 1
    minCount: CountOrOne | None = None  # noqa: N815
    template: _Template = _Template()
    topologyRequest: TopologyRequest | None = None  # noqa: N815


class _WorkloadSpec(Record):
    podSets: Annotated[tuple[PodSet, ...], AsList] = ()  # noqa: N815
    queueName: OptionalName = None  # noqa: N815
    priority: PriorityNumber = 0
    active: TruthByDefault = True
    maximumExecutionTimeSeconds: Seconds | None = None  # noqa: N815


class _PodCounts(Record):
    universal: CountOrOne | None = None
    individual: Annotated[tuple[CountOrOne, ...], AsList] = ()


class _Roots(Record):
    prefix: Text = ""
    suffix: Text = ""
    roots: Annotated[tuple[Text, ...], AsList] = ()


class _Values(Record):
    universal: Text = ""
    individual: _Roots | None = None


class _Slice(Record):
    domainCount: CountOrOne = 1  # noqa: N815
    podCounts: _PodCounts = _PodCounts()  # noqa: N815
    valuesPerLevel: Annotated[tuple[_Values, ...], AsList] = ()  # noqa: N815


class _Domain(Record):
    values: Annotated[tuple[Text, ...], AsList] = ()
    count: CountOrOne = 1


class TopologyAssignment(Record):
    """Where Kueue puts pods: `slices` in v1beta2, `domains` in v1beta1."""

    levels: Annotated[tuple[Text, ...], AsList] = ()
    slices: Annotated[tuple[_Slice, ...], AsList] = ()
    domains: Annotated[tuple[_Domain, ...], AsList] = ()


class Assignment(Record):
    """What a pod set got."""

    name: OptionalName = None
    count: CountOrOne | None = None
    flavors: Texts = Field(default_factory=dict)
    resourceUsage: Quantities = Field(default_factory=dict)  # noqa: N815
    topologyAssignment: TopologyAssignment | None = None  # noqa: N815


class _Admission(Record):
    clusterQueue: OptionalName = None  # noqa: N815
    podSetAssignments: Annotated[tuple[Assignment, ...], AsList] = ()  # noqa: N815


class _Requeue(Record):
    requeueAt: Moment = None  # noqa: N815


class _Check(Record):
    name: Text = ""
    state: Text = ""


class _Said(Condition):
    """A condition, and why it is so."""

    reason: Text = ""
    message: Text = ""


class _Counted(Record):
    """What Kueue counts of a pod set that waits, as its configuration has it."""

    resources: Quantities = Field(default_factory=dict)


class _WorkloadStatus(Record):
    admission: _Admission | None = None
    admissionChecks: Annotated[tuple[_Check, ...], AsList] = ()  # noqa: N815
    conditions: Annotated[tuple[_Said, ...], AsList] = ()
    resourceRequests: Annotated[tuple[_Counted, ...], AsList] = ()  # noqa: N815
    requeueState: _Requeue | None = None  # noqa: N815
    clusterName: Text = ""  # noqa: N815


class Workload(Object):
    """A job of whatever kind, as Kueue sees it."""

    spec: _WorkloadSpec = Field(default_factory=_WorkloadSpec)
    status: _WorkloadStatus = Field(default_factory=_WorkloadStatus)

    def has(self, condition: str) -> bool:
        """Whether a condition is true."""
        return any(c.type == condition and c.status == "True" for c in self.status.conditions)

    @property
    def stage(self) -> int:
        """How far it is: it has finished, waits, or is admitted."""
        return 0 if self.has("Finished") else 1 + (self.status.admission is not None)

    @property
    def counted(self) -> set[str]:
        """The resources that Kueue says that it counts, none if it does not say."""
        of = self.status.resourceRequests
        return {name for one in of for name, amount in one.resources.items() if amount} - {"pods"}


class Quota(Record):
    """How much of a resource a queue has of a flavor."""

    name: Text = ""
    nominalQuota: Quantity | None = None  # noqa: N815
    borrowingLimit: Quantity | None = None  # noqa: N815
    lendingLimit: Quantity | None = None  # noqa: N815


class _Flavor(Record):
    name: OptionalName = None
    resources: Annotated[tuple[Quota, ...], AsList] = ()


class _ResourceGroup(Record):
    flavors: Annotated[tuple[_Flavor, ...], AsList] = ()

    @property
    def names(self) -> set[str]:
        """The resources that its flavors have quotas of."""
        return {one.name for flavor in self.flavors for one in flavor.resources}


class _FairSharing(Record):
    weight: Quantity | None = None


class _Borrowing(Record):
    policy: Text = ""
    maxPriorityThreshold: PriorityNumber | None = None  # noqa: N815


class _Preemption(Record):
    withinClusterQueue: Text = ""  # noqa: N815
    reclaimWithinCohort: Text = ""  # noqa: N815
    borrowWithinCohort: _Borrowing = _Borrowing()  # noqa: N815


class _Selector(Record):
    matchLabels: Texts = Field(default_factory=dict)  # noqa: N815
    matchExpressions: Annotated[tuple[Expression, ...], AsList] = ()  # noqa: N815


class _QueueStatus(Record):
    conditions: Conditions = ()
    fairSharing: dict[str, object] | None = None  # noqa: N815


class _CheckRule(Record):
    """A check of workloads with some flavors; with any, if none is named."""

    name: Text = ""
    onFlavors: Annotated[tuple[Text, ...], AsList] = ()  # noqa: N815


class _Checks(Record):
    admissionChecks: Annotated[tuple[_CheckRule, ...], AsList] = ()  # noqa: N815


class _QueueSpec(Record):
    """Of a ClusterQueue, or of a Cohort, which has a parent."""

    resourceGroups: Annotated[tuple[_ResourceGroup, ...], AsList] = ()  # noqa: N815
    cohort: OptionalName = None
    cohortName: OptionalName = None  # noqa: N815
    fairSharing: _FairSharing | None = None  # noqa: N815
    stopPolicy: Text = ""  # noqa: N815
    parentName: OptionalName = None  # noqa: N815
    parent: OptionalName = None
    preemption: _Preemption = _Preemption()
    namespaceSelector: _Selector | None = None  # noqa: N815
    admissionChecks: Annotated[tuple[Text, ...], AsList] = ()  # noqa: N815
    admissionChecksStrategy: _Checks = _Checks()  # noqa: N815


class ClusterQueue(Object):
    """A queue with quotas; a Cohort is read as one."""

    spec: _QueueSpec = Field(default_factory=_QueueSpec)
    status: _QueueStatus = Field(default_factory=_QueueStatus)

    @property
    def cohort(self) -> str | None:
        """The cohort that it is in."""
        return self.spec.cohortName or self.spec.cohort

    @property
    def flavors(self) -> tuple[_Flavor, ...]:
        """The flavors that it has quotas of."""
        return tuple(flavor for group in self.spec.resourceGroups for flavor in group.flavors)

    @property
    def checks(self) -> tuple[str, ...]:
        """The admission checks that its workloads may have to pass."""
        mine = {flavor.name for flavor in self.flavors}
        rules = self.spec.admissionChecksStrategy.admissionChecks
        return self.spec.admissionChecks + tuple(
            one.name for one in rules if not one.onFlavors or mine.intersection(one.onFlavors)
        )


class _LocalSpec(Record):
    clusterQueue: OptionalName = None  # noqa: N815
    stopPolicy: Text = ""  # noqa: N815


class LocalQueue(Object):
    """A namespace's way into a ClusterQueue."""

    spec: _LocalSpec = Field(default_factory=_LocalSpec)
    status: _QueueStatus = Field(default_factory=_QueueStatus)


class _FlavorSpec(Record):
    nodeLabels: Texts = Field(default_factory=dict)  # noqa: N815
    topologyName: Text = ""  # noqa: N815
    nodeTaints: Annotated[tuple[Taint, ...], AsList] = ()  # noqa: N815
    tolerations: Annotated[tuple[Toleration, ...], AsList] = ()


class ResourceFlavor(Object):
    """The nodes that a quota is of."""

    spec: _FlavorSpec = Field(default_factory=_FlavorSpec)


class _Level(Record):
    nodeLabel: NameText  # noqa: N815
    alias: Text = ""


class _TopologySpec(Record):
    levels: Annotated[tuple[_Level, ...], AsList] = ()


class Topology(Object):
    """Label keys of the levels, outermost first; Kueue's and KAI's are alike."""

    spec: _TopologySpec = Field(default_factory=_TopologySpec)

    @property
    def keys(self) -> tuple[str, ...]:
        """Its label keys."""
        return tuple(level.nodeLabel for level in self.spec.levels)

    @property
    def aliases(self) -> dict[str, str]:
        """The label keys of levels that have a name of their own, by that (KAI)."""
        return {level.alias: level.nodeLabel for level in self.spec.levels if level.alias}
