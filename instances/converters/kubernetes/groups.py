"""Pod groups of all dialects: how many pods of one run together, in which queue, and where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, NamedTuple

from pydantic import Field

from placewright.instances.converters.kubernetes.accessor import (
    AsList,
    CountOrOne,
    OptionalName,
    PriorityNumber,
    Record,
    Text,
)
from placewright.instances.converters.kubernetes.records import Object, Pod
from placewright.instances.converters.kubernetes.sources import Kind
from placewright.instances.documents.base import MAX_COUNT, NAME

KIND = "pod groups"
NATIVE, KAI = "scheduling.k8s.io", "scheduling.run.ai"
VOLCANO, COSCHEDULING = "scheduling.volcano.sh", "scheduling.x-k8s.io"
TIER = "volcano.sh/hypernode-tier-"
"""What label keys of Volcano's tiers begin with; the number follows."""

WORKLOAD = "kueue.x-k8s.io"
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

    def stays(self, priority: int) -> bool:
        """Whether its pods, of some priority, may not be preempted (KAI)."""
        said = self.spec.preemptibility.lower()
        return said == "non-preemptible" or (not said and priority >= _BUILD)

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
        if network is None or network.highestTierAllowed is None or network.mode != mode:
            return ""
        return f"{TIER}{network.highestTierAllowed}"


def gang_of(pod: Pod, workload_of: Mapping[str, tuple[str, str]]) -> Gang:
    """Return the gang of a pod.

    Parameters
    ----------
    pod
        Any pod.
    workload_of
        Namespace and name of the workload of each object that owns one, by uid, or by kind,
        namespace and name.
    """
    meta = pod.metadata
    space, notes, labels = meta.namespace or "", meta.annotations, meta.labels
    own = pod.spec.schedulingGroup
    if own is not None and own.podGroupName:
        return Gang(NATIVE, space, own.podGroupName)
    grown = f"{SLICE_OF}/{space}/{notes.get(SLICE_OF)}"
    if pod.spec.nodeName is not None and grown in workload_of:
        return Gang(WORKLOAD, *workload_of[grown])
    if _is_name(notes.get("kueue.x-k8s.io/workload")):
        return Gang(WORKLOAD, space, notes["kueue.x-k8s.io/workload"])
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
            return Gang(WORKLOAD, *workload_of[uid])
    for by, key, where in (
        (KAI, "pod-group-name", notes),
        (VOLCANO, "scheduling.k8s.io/group-name", notes),
        (COSCHEDULING, "scheduling.x-k8s.io/pod-group", labels),
        (WORKLOAD, "kueue.x-k8s.io/pod-group-name", labels),
        *((key, key, labels) for key in _OTHER_LABELS),
    ):
        if _is_name(where.get(key)):
            return Gang(by, space, where[key])
    for owner in meta.ownerReferences:
        if owner.controller and owner.kind == "Job" and _is_name(owner.name):
            return Gang("Job", space, owner.name)
    return Gang("Pod", space, meta.name)


def title_of(gang: Gang, pod: Pod) -> str:
    """Return the name of a gang, with its namespace, as people type it: `ml/js`, `ml/lws-0`."""
    parts = [pod.metadata.labels.get(key, "") for key in _OTHER_LABELS.get(gang.by, ())]
    name = "-".join(parts) if parts and all(map(_is_name, parts)) else gang.name
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


def _is_name(text: str | None) -> bool:
    """Whether a text can be the name of an object; labels and annotations may hold any text."""
    return text is not None and len(text) <= 253 and _NAME.fullmatch(text) is not None
