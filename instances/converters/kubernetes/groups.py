"""What puts pods together: pod groups, Kueue's objects, and ids by which writers find them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple

from pydantic import Field

from placewright.instances.converters.kubernetes.records import (
    AsList,
    Condition,
    Conditions,
    CountOrOne,
    LabelSelector,
    Moment,
    NameText,
    Node,
    Object,
    OptionalName,
    Pod,
    PodSpec,
    PriorityNumber,
    Quantities,
    Quantity,
    Record,
    Seconds,
    Taint,
    Text,
    Texts,
    Toleration,
    Truth,
    TruthByDefault,
)
from placewright.instances.converters.kubernetes.sources import Kind
from placewright.instances.converters.support.live import is_name
from placewright.instances.derived.source_words import also_of
from placewright.instances.documents.annotations import MAX_TEXT
from placewright.instances.documents.base import MAX_COUNT, NAME
from placewright.instances.documents.source_keys import (
    ALSO,
    KUBERNETES_AFFINITY,
    KUBERNETES_BY,
    KUBERNETES_CHECK,
    KUBERNETES_GATES,
    KUBERNETES_HOSTNAME,
    KUBERNETES_KIND,
    KUBERNETES_NAME,
    KUBERNETES_NAMESPACE,
    KUBERNETES_OWNER,
    KUBERNETES_POD_SETS,
    KUBERNETES_POD_UIDS,
    KUBERNETES_PODS,
    KUBERNETES_SELECTORS,
    KUBERNETES_TOPOLOGY,
    KUBERNETES_UID,
    KUBERNETES_VERSION,
    OWN_CHECK,
    OWN_GATE,
)

KUEUE = "kueue.x-k8s.io"
WORKLOAD = Kind(KUEUE, "Workload")
CLUSTER_QUEUE, LOCAL_QUEUE = Kind(KUEUE, "ClusterQueue"), Kind(KUEUE, "LocalQueue")
FLAVOR, TOPOLOGY, COHORT = (
    Kind(KUEUE, "ResourceFlavor"),
    Kind(KUEUE, "Topology"),
    Kind(KUEUE, "Cohort"),
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
    def keys(self) -> set[str]:
        """The label keys of the levels that it names."""
        return {self.required, self.preferred, self.podSetSliceRequiredTopology} - {""}

    @property
    def explicit(self) -> bool:
        """Whether it wants topology-aware scheduling itself, whatever the queue has."""
        return self.unconstrained or bool(self.keys)


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
    queueingStrategy: Text = ""  # noqa: N815
    parentName: OptionalName = None  # noqa: N815
    parent: OptionalName = None
    preemption: _Preemption = _Preemption()
    namespaceSelector: LabelSelector | None = None  # noqa: N815
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


# Pod groups of all dialects: how many pods of one run together, in which queue, and where.

KIND = "pod groups"
NATIVE, KAI = "scheduling.k8s.io", "scheduling.run.ai"
VOLCANO, COSCHEDULING = "scheduling.volcano.sh", "scheduling.x-k8s.io"
TIER = "volcano.sh/hypernode-tier-"
"""What label keys of Volcano's tiers begin with; the number follows."""

GROUP_KINDS = tuple(Kind(group, "PodGroup") for group in (NATIVE, KAI, VOLCANO, COSCHEDULING))

SLICE_OF = "kueue.x-k8s.io/workload-slice-name"
"""The annotation that names the first of the workloads that follow each other as a job grows."""

_NAME = re.compile(NAME)
_OF_RAY = re.compile(r"(-raycluster)?-[a-z0-9]{5}$")
"""What the name of a cluster ends with that Ray makes for a job or service."""
_CLASSES = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
"""Priority classes that KAI brings along."""

_BUILD = 100
"""Priority from which on KAI does not preempt, unless a group says otherwise."""

_OTHER_LABELS: Mapping[str, tuple[str, ...]] = {
    "leaderworkerset.sigs.k8s.io/group-key": (
        "leaderworkerset.sigs.k8s.io/name",
        "leaderworkerset.sigs.k8s.io/group-index",
    ),
    "jobset.sigs.k8s.io/jobset-uid": ("jobset.sigs.k8s.io/jobset-name",),
    "training.kubeflow.org/job-name": (),
    "ray.io/cluster": (),
}
"""Labels that make gangs, and those whose values name a gang where its own is a hash or uid."""


class Gang(NamedTuple):
    """A gang: the API group of what makes it (or a label, "Job", "Pod"), and its name."""

    by: str
    namespace: str
    name: str


class _Topology(Record):
    key: Text = ""


class _Constraints(Record):
    topology: Annotated[tuple[_Topology, ...], AsList] = ()


class _Least(Record):
    minCount: CountOrOne = 1  # noqa: N815


class _Policy(Record):
    gang: _Least | None = None


class _KaiTopology(Record):
    requiredTopologyLevel: Text = ""  # noqa: N815
    preferredTopologyLevel: Text = ""  # noqa: N815


class _Network(Record):
    mode: Text = ""
    highestTierAllowed: CountOrOne | None = None  # noqa: N815


class _GroupSpec(Record):
    """Of all dialects: those of Kubernetes, KAI, Volcano and the plugin coscheduling."""

    schedulingPolicy: _Policy | None = None  # noqa: N815
    schedulingConstraints: _Constraints | None = None  # noqa: N815
    minMember: CountOrOne | None = None  # noqa: N815
    queue: OptionalName = None
    topologyConstraint: _KaiTopology | None = None  # noqa: N815
    subGroups: Annotated[tuple[object, ...], AsList] = ()  # noqa: N815
    networkTopology: _Network | None = None  # noqa: N815
    preemptibility: Text = ""
    preemptionPolicy: Text = ""  # noqa: N815
    priority: PriorityNumber | None = None
    priorityClassName: Text = ""  # noqa: N815


def stays(preemptibility: str, priority: int) -> bool:
    """Whether KAI does not preempt pods: as is said of them, or else by their priority."""
    said = preemptibility.lower()
    return said == "non-preemptible" or (not said and priority >= _BUILD)


class PodGroup(Object):
    """A group of pods that run together."""

    spec: _GroupSpec = Field(default_factory=_GroupSpec)

    @property
    def alone(self) -> bool:
        """Whether its pods are scheduled one by one."""
        policy = self.spec.schedulingPolicy
        return policy is not None and policy.gang is None

    @property
    def priority(self) -> int | None:
        """Priority that it says its pods have together, None if it says none."""
        is_kai = self.apiVersion.startswith(KAI)
        usual = _CLASSES.get(self.spec.priorityClassName) if is_kai else None
        return usual if self.spec.priority is None else self.spec.priority

    @property
    def least(self) -> int:
        """How many pods have to run; `MAX_COUNT` if it does not say, for all of them."""
        policy = self.spec.schedulingPolicy
        if policy is not None and policy.gang is not None:
            return policy.gang.minCount
        return MAX_COUNT if self.spec.minMember is None else self.spec.minMember

    @property
    def required(self) -> tuple[str, ...]:
        """Label keys of which all pods share the value."""
        constraints, kai = self.spec.schedulingConstraints, self.spec.topologyConstraint
        keys = [] if constraints is None else [one.key for one in constraints.topology]
        keys += [] if kai is None else [kai.requiredTopologyLevel]
        return tuple(key for key in (*keys, self._tier("hard")) if key)

    @property
    def preferred(self) -> str:
        """Label key of which pods would best share the value; empty if there is none."""
        kai = self.spec.topologyConstraint
        return (kai.preferredTopologyLevel if kai is not None else "") or self._tier("soft")

    def _tier(self, mode: str) -> str:
        """Return the label key of the tier that Volcano's `networkTopology` names in a mode."""
        network = self.spec.networkTopology
        if network is None or network.highestTierAllowed is None:
            return ""
        if (network.mode or "hard") != mode:
            return ""
        return f"{TIER}{network.highestTierAllowed}"


def gang_of(pod: Pod, workload_of: Mapping[str, tuple[str, str]]) -> Gang:
    """Return the gang of a pod.

    `pod`: any pod. `workload_of`: namespace and name of the workload of each object that owns one,
    by uid, or by kind, namespace and name.
    """
    meta = pod.metadata
    space, notes, labels = meta.namespace or "", meta.annotations, meta.labels
    own = pod.spec.schedulingGroup
    if own is not None and own.podGroupName:
        return Gang(NATIVE, space, own.podGroupName)
    grown = f"{SLICE_OF}/{space}/{notes.get(SLICE_OF)}"
    if pod.spec.nodeName is not None and grown in workload_of:
        return Gang(KUEUE, *workload_of[grown])
    if is_name(notes.get("kueue.x-k8s.io/workload")):
        return Gang(KUEUE, space, notes["kueue.x-k8s.io/workload"])
    if workload_of:
        ray = _OF_RAY.sub("", labels.get("ray.io/cluster", ""))
        uids = (
            meta.uid,
            labels.get("jobset.sigs.k8s.io/jobset-uid"),
            *(o.uid for o in meta.ownerReferences),
            f"TrainJob/{space}/{labels.get('jobset.sigs.k8s.io/jobset-name')}",
            *(f"{kind}/{space}/{ray}" for kind in ("RayJob", "RayService")),
        )
        for uid in uids:
            if uid and uid in workload_of:
                return Gang(KUEUE, *workload_of[uid])
    for by, key, where in (
        (KAI, "pod-group-name", notes),
        (VOLCANO, "scheduling.k8s.io/group-name", notes),
        (COSCHEDULING, "scheduling.x-k8s.io/pod-group", labels),
        (KUEUE, "kueue.x-k8s.io/pod-group-name", labels),
        *((key, key, labels) for key in _OTHER_LABELS),
    ):
        if is_name(where.get(key)):
            return Gang(by, space, where[key])
    for owner in meta.ownerReferences:
        if owner.controller and owner.kind == "Job" and is_name(owner.name):
            return Gang("Job", space, owner.name)
    return Gang("Pod", space, meta.name)


def title_of(gang: Gang, pod: Pod) -> str:
    """Return the name of a gang, with its namespace, as people type it: `ml/js`, `ml/lws-0`."""
    parts = [pod.metadata.labels.get(key, "") for key in _OTHER_LABELS.get(gang.by, ())]
    name = "-".join(parts) if parts and all(map(is_name, parts)) else gang.name
    return f"{gang.namespace}/{name}" if gang.namespace else name


def other_names(objects: Iterable[Object]) -> Iterator[str]:
    """Yield what people call objects by, too: names and uids of owners, and of their groups."""
    for one in objects:
        meta = one.metadata
        space = f"{meta.namespace}/" if meta.namespace else ""
        yield from (f"{space}{owner.name}" for owner in meta.ownerReferences)
        ending = f"-{meta.labels.get('pod-template-hash', '')}"
        for owner in meta.ownerReferences:
            if owner.kind == "ReplicaSet" and len(ending) > 1 and owner.name.endswith(ending):
                yield f"{space}{owner.name.removesuffix(ending)}"
        yield from (owner.uid for owner in meta.ownerReferences if owner.uid)
        for key, names in _OTHER_LABELS.items():
            for label in (key, *names[:1]):
                if label in meta.labels:
                    yield f"{space}{meta.labels[label]}"


# What jobs and hosts of a round are in Kubernetes, as annotations by which writers find them.

_HOSTNAME = "kubernetes.io/hostname"
_KINDS = {
    **{kind.group: kind.name for kind in GROUP_KINDS},
    KUEUE: "Workload",
    "Job": "Job",
    "Pod": "Pod",
}


def of_gang(gang: Gang, found: Object | None, members: Sequence[Pod]) -> dict[str, str]:
    """Return what the object of a gang is, and its controller.

    `gang`: a gang, or a pod alone. `found`: its object, if the dump has it. `members`: its pods,
    which may say more: their controller is the Job of a gang that has one.
    """
    ids = {
        KUBERNETES_KIND: _KINDS.get(gang.by, ""),
        KUBERNETES_BY: gang.by,
        KUBERNETES_NAMESPACE: gang.namespace,
        KUBERNETES_NAME: gang.name,
    }
    if gang.by == "Pod" and members:
        found = members[0]
    if found is not None:
        ids[KUBERNETES_UID] = found.metadata.uid
        ids[KUBERNETES_VERSION] = found.apiVersion
    for owner in () if found is None else found.metadata.ownerReferences:
        if owner.controller:
            for field, value in (
                ("api-version", owner.apiVersion),
                ("kind", owner.kind),
                ("name", owner.name),
                ("uid", owner.uid),
            ):
                ids[f"{KUBERNETES_OWNER}{field}"] = value
    if gang.by == "Job" and members:
        owners = members[0].metadata.ownerReferences
        ids[KUBERNETES_UID] = next((one.uid for one in owners if one.name == gang.name), "")
    return _named(ids)


def of_workload(workload: Workload, *, is_placed_by_kueue: bool) -> dict[str, str]:
    """Return what a Workload is, and what decides how Kueue can be told where its pods go."""
    checks = [one.name for one in workload.status.admissionChecks]
    ids = of_gang(Gang(KUEUE, *workload.key), workload, ())
    ids[KUBERNETES_TOPOLOGY] = _yes(is_placed_by_kueue)
    ids[KUBERNETES_AFFINITY] = _yes(
        any(one.template.spec.affinity is not None for one in workload.spec.podSets)
    )
    if OWN_CHECK in checks:
        ids[KUBERNETES_CHECK] = str(checks.index(OWN_CHECK))
    return ids


def also(members: Iterable[Pod], ids: Mapping[str, str]) -> dict[str, str]:
    """Return the other names of a job with some pods, but for those among its ids."""
    names = list(other_names(members))
    if not names:
        return {}
    space = f"{ids.get(KUBERNETES_NAMESPACE, '')}/"
    known = {text for own in ids.values() for text in (own, f"{space}{own}")}
    text = also_of(name for name in names if name not in known)
    return {ALSO: text} if text else {}


def of_groups(groups: Sequence[Sequence[Pod]], parts: Sequence[str]) -> dict[str, str]:
    """Return the pods of each task group, and its pod set.

    `groups`: pods, in the order of tasks; none where the dump does not say. `parts`: names of pod
    sets, "" for groups that are of none.
    """
    ids = {KUBERNETES_POD_SETS: ",".join(parts)} if all(map(_NAME.fullmatch, parts)) else {}
    for g, pods in enumerate(groups):
        ids[f"{KUBERNETES_PODS}{g}"] = ",".join(pod.metadata.name for pod in pods)
        gates = [[gate.name for gate in pod.spec.schedulingGates] for pod in pods]
        if any(OWN_GATE in names for names in gates):
            places = (str(n.index(OWN_GATE)) if OWN_GATE in n else "-" for n in gates)
            ids[f"{KUBERNETES_GATES}{g}"] = ",".join(places)
            ids[f"{KUBERNETES_SELECTORS}{g}"] = ",".join(
                _yes(bool(pod.spec.nodeSelector)) for pod in pods
            )
        uids = [pod.metadata.uid for pod in pods]
        ids[f"{KUBERNETES_POD_UIDS}{g}"] = ",".join(uids) if all(map(_NAME.fullmatch, uids)) else ""
    return {key: text for key, text in ids.items() if 0 < len(text) <= MAX_TEXT}


def of_node(node: Node) -> dict[str, str]:
    """Return what a host is: the uid of its node, and the label that selects it."""
    name = node.metadata.labels.get(_HOSTNAME, "")
    return _named({KUBERNETES_UID: node.metadata.uid, KUBERNETES_HOSTNAME: name})


def _yes(true: bool) -> str:
    return "yes" if true else "no"


def _named(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts that can be names: other ones say nothing that a writer could use."""
    return {k: text for k, text in texts.items() if is_name(text)}
