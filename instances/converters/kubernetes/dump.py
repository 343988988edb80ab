"""All objects of a dump that are read, their classes and budgets, and what is told of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated, Any

from pydantic import Field

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes import groups as kr
from placewright.instances.converters.kubernetes import kueue, nodes
from placewright.instances.converters.kubernetes.devices import with_devices
from placewright.instances.converters.kubernetes.eligibility import (
    HYPER_NODE,
    HyperNode,
    selects,
    with_tiers,
)
from placewright.instances.converters.kubernetes.groups import (
    GROUP_KINDS,
    KUEUE,
    WORKLOAD,
    Gang,
    PodGroup,
)
from placewright.instances.converters.kubernetes.groups import KIND as GROUPS
from placewright.instances.converters.kubernetes.kueue import Queues
from placewright.instances.converters.kubernetes.ledger import (
    BUDGET,
    JOB_SET,
    LEADER_WORKER_SET,
    LEDGERS,
    LIMIT_RANGE,
    PRIORITY_CLASS,
    QUEUE_CLASS,
    RESOURCE_QUOTA,
    RUNTIME_CLASS,
)
from placewright.instances.converters.kubernetes.namespaces import ResourceQuota
from placewright.instances.converters.kubernetes.nodes import count_beside
from placewright.instances.converters.kubernetes.quotas import QUEUE_KINDS, GroupQueue
from placewright.instances.converters.kubernetes.records import (
    AsList,
    CountOrOne,
    LabelSelector,
    Node,
    Object,
    Pod,
    PodSpec,
    PriorityNumber,
    Quantities,
    Record,
    Text,
    Texts,
    Toleration,
    Truth,
)
from placewright.instances.converters.kubernetes.sources import (
    NODE,
    POD,
    Kind,
    Source,
    key_of,
    name_of,
    read_all,
)
from placewright.instances.converters.ledger import Rule, caveats_of_all
from placewright.instances.documents.caveats import Caveat, annotation_of

_CLASS_LABEL = "kueue.x-k8s.io/priority-class"


class PriorityClass(Object):
    """A class by whose name pods have a priority."""

    value: PriorityNumber = 0
    globalDefault: Truth = False  # noqa: N815
    preemptionPolicy: Text = ""  # noqa: N815


class _Overhead(Record):
    podFixed: Quantities = Field(default_factory=dict)  # noqa: N815


class _Scheduling(Record):
    nodeSelector: Texts = Field(default_factory=dict)  # noqa: N815
    tolerations: Annotated[tuple[Toleration, ...], AsList] = ()


class RuntimeClass(Object):
    """What pods of a runtime have on top: node labels, tolerations, amounts."""

    overhead: _Overhead | None = None
    scheduling: _Scheduling | None = None

    def applied(self, spec: PodSpec) -> PodSpec:
        """Return the spec of a pod as it is made; as it is if it asks for other nodes."""
        wanted = self.scheduling or _Scheduling()
        selector = {**spec.nodeSelector, **wanted.nodeSelector}
        if not spec.nodeSelector.items() <= selector.items():
            return spec
        extra = {} if self.overhead is None else self.overhead.podFixed
        made = {
            "nodeSelector": selector,
            "tolerations": (*spec.tolerations, *wanted.tolerations),
            "overhead": spec.overhead or extra,
            "runtimeClassName": "",
        }
        return spec.model_copy(update=made)


@dataclass(frozen=True, slots=True)
class Runtimes:
    """Runtime classes by name. The API server adds to pods what theirs says when it makes them."""

    by_name: Mapping[str, RuntimeClass]

    def of_pods(self, pods: list[Pod]) -> list[Pod]:
        """Return pods of which those that wait have it."""
        return [
            pod.model_copy(update={"spec": self._applied(pod.spec)})
            if pod.spec.nodeName is None and pod.spec.runtimeClassName
            else pod
            for pod in pods
        ]

    def of_workloads(self, workloads: list[kr.Workload]) -> list[kr.Workload]:
        """Return workloads with what their pods will have: their templates do not have it."""
        return list(map(self._workload, workloads))

    def _workload(self, one: kr.Workload) -> kr.Workload:
        sets = one.spec.podSets
        if not any(each.template.spec.runtimeClassName for each in sets):
            return one
        made = tuple(
            each.model_copy(
                update={
                    "template": each.template.model_copy(
                        update={"spec": self._applied(each.template.spec)}
                    )
                }
            )
            for each in sets
        )
        return one.model_copy(update={"spec": one.spec.model_copy(update={"podSets": made})})

    def _applied(self, spec: PodSpec) -> PodSpec:
        found = self.by_name.get(spec.runtimeClassName)
        return spec if found is None else found.applied(spec)


class _BudgetSpec(Record):
    selector: LabelSelector | None = None


class _BudgetStatus(Record):
    disruptionsAllowed: CountOrOne = 0  # noqa: N815


class Budget(Object):
    """How many of some pods may be stopped now (PodDisruptionBudget)."""

    spec: _BudgetSpec = _BudgetSpec()
    status: _BudgetStatus = _BudgetStatus()

    def broken_by(self, pods: Sequence[Pod]) -> bool:
        """Whether these pods may not all be stopped."""
        selector = self.spec.selector
        hit = [
            pod
            for pod in pods
            if selector is not None
            and pod.spec.nodeName is not None
            and pod.metadata.namespace == self.metadata.namespace
            and selects(selector, pod.metadata.labels)
        ]
        return len(hit) > self.status.disruptionsAllowed


def caveats_of_budgets(budgets: Sequence[Budget], pods: Sequence[Pod]) -> Iterator[Caveat]:
    """Yield what budgets say of a job, whose pods are stopped together if it moves or stops."""
    broken = [one.metadata.name for one in budgets if one.broken_by(pods)]
    if broken:
        text = f"that a disruption budget ({broken[0][:100]}) keeps it running is not read"
        yield Caveat(rule="disruption-budget", text=text)


def with_priorities(
    sources: Mapping[Kind, Sequence[Source]], book: Bookkeeping
) -> Mapping[Kind, Sequence[Source]]:
    """Return sources whose pods, groups and workloads have the priority of the class they name.

    What says its priority keeps it; pods and workloads without a class have the default's.
    """
    classes, own = (
        {one.name: one for one in read_all(PriorityClass, sources.get(kind, ()), book, what)}
        for kind, what in (
            (PRIORITY_CLASS, "priority classes"),
            (QUEUE_CLASS, "priority classes of Kueue"),
        )
    )
    if not classes and not own:
        return sources
    default = next((one for one in classes.values() if one.globalDefault), None)
    found = dict(sources)
    for kind in (POD, WORKLOAD, *GROUP_KINDS):
        usual = None if kind in GROUP_KINDS else default
        found[kind] = [
            _prioritized(one, own if _is_own(one.raw.get("spec")) else classes, usual)
            for one in sources.get(kind, ())
        ]
    if own:
        found[POD] = [_queued(one, own) for one in found[POD]]
    return found


def _prioritized(
    source: Source, classes: Mapping[str, PriorityClass], default: PriorityClass | None
) -> Source:
    spec = source.raw.get("spec")
    if not isinstance(spec, dict) or spec.get("priority") is not None:
        return source
    name = spec.get("priorityClassName") or _reference(spec).get("name")
    found = classes.get(name) if isinstance(name, str) and name else default
    if found is None:
        return source
    policy = spec.get("preemptionPolicy") or found.preemptionPolicy
    given = {**spec, "priority": found.value, "preemptionPolicy": policy}
    return source._replace(raw={**source.raw, "spec": given})


def _queued(source: Source, own: Mapping[str, PriorityClass]) -> Source:
    """Return a pod with the priority of the class of Kueue that its label names."""
    meta, spec = source.raw.get("metadata"), source.raw.get("spec")
    labels = meta.get("labels") if isinstance(meta, dict) else None
    name = labels.get(_CLASS_LABEL) if isinstance(labels, dict) else None
    if not isinstance(name, str) or name not in own or not isinstance(spec, dict):
        return source
    given = {**spec, "priority": own[name].value}
    return source._replace(raw={**source.raw, "spec": given})


def _is_own(spec: Any) -> bool:
    """Whether the class of a workload is one of Kueue's."""
    source = spec.get("priorityClassSource") if isinstance(spec, dict) else None
    return (
        source == "kueue.x-k8s.io/workloadpriorityclass"
        or _reference(spec).get("kind") == QUEUE_CLASS.name
    )


def _reference(spec: Any) -> Mapping[str, Any]:
    found = spec.get("priorityClassRef") if isinstance(spec, dict) else None
    return found if isinstance(found, dict) else {}


# Caveats of Kubernetes: rules of pods, nodes, groups and queues that are told.

_EXCLUSIVE = Rule("exclusive-topology", "that nobody else may be in its domain is not read")
_GPU_TYPE = Rule("gpu-type", "which GPUs its annotations name is not read")
_POOL = Rule("node-pool", "the node pool of its scheduler is not read")
_NOTES = {
    "alpha.jobset.sigs.k8s.io/exclusive-topology": _EXCLUSIVE,
    "leaderworkerset.sigs.k8s.io/exclusive-topology": _EXCLUSIVE,
    "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology": _EXCLUSIVE,
    "nvidia.com/use-gputype": _GPU_TYPE,
    "nvidia.com/nouse-gputype": _GPU_TYPE,
    "nvidia.com/use-gpuuuid": _GPU_TYPE,
    "nvidia.com/nouse-gpuuuid": _GPU_TYPE,
    "volcano.sh/numa-topology-policy": Rule("numa-topology", "NUMA nodes are not read"),
    "kai.scheduler/node-pool": _POOL,
    "runai/node-pool": _POOL,
}
"""Rules that annotations and labels of pods stand for."""

_LABELS = {
    JOB_SET: "jobset.sigs.k8s.io/jobset-name",
    LEADER_WORKER_SET: "leaderworkerset.sigs.k8s.io/name",
}


@dataclass(frozen=True, slots=True)
class Caveats:
    """Caveats by the kind of object, its namespace and name; and budgets, which select pods."""

    of: Mapping[Kind, Mapping[tuple[str, str], tuple[Caveat, ...]]] = field(default_factory=dict)
    budgets: Sequence[Budget] = ()

    def of_node(self, node: Object) -> dict[str, str]:
        """Return the annotation of a host."""
        return annotation_of(self._find(NODE, node.key))

    def of_job(
        self,
        pods: Sequence[Pod],
        group: tuple[Kind, Object] | None = None,
        queues: Iterable[tuple[Kind, tuple[str, str]]] = (),
        more: Iterable[Caveat] = (),
    ) -> dict[str, str]:
        """Return the annotation of a job: what its pods, group and queues say, and more."""
        return annotation_of((*more, *self._of_job(pods, group, queues)))

    def _of_job(
        self,
        pods: Sequence[Pod],
        group: tuple[Kind, Object] | None,
        queues: Iterable[tuple[Kind, tuple[str, str]]],
    ) -> Iterator[Caveat]:
        for pod in pods:
            yield from self._find(POD, pod.key)
            yield from _noted(pod)
        if group is not None:
            yield from self._find(group[0], group[1].key)
        for one in (*pods, *(() if group is None else group[1:])):
            for kind, name in _controllers(one):
                found = self._find(kind, (one.metadata.namespace or "", name))
                yield from (each for each in found if each.rule != _EXCLUSIVE.name or not pods)
        yield from caveats_of_budgets(self.budgets, pods)
        for kind, key in queues:
            yield from self._find(kind, key)

    def of_namespace(self, name: str) -> Iterator[Caveat]:
        """Yield what is told of pods that are still to be made in a namespace."""
        for space, one in self.of.get(LIMIT_RANGE, ()):
            yield from self._find(LIMIT_RANGE, (space, one)) if space == name else ()

    def _find(self, kind: Kind, key: tuple[str, str]) -> tuple[Caveat, ...]:
        return self.of.get(kind, {}).get(key, ())


def _noted(pod: Pod) -> Iterator[Caveat]:
    """Yield rules that a pod has by annotations or labels, but for those its spec says, too."""
    spec, meta = pod.spec, pod.metadata
    near = spec.affinity is not None and (
        spec.affinity.podAffinity or spec.affinity.podAntiAffinity
    )
    for key in {**meta.labels, **meta.annotations}:
        rule = _NOTES.get(key)
        if rule is not None and not (rule is _EXCLUSIVE and (near or spec.nodeSelector)):
            yield rule.caveat()


def _controllers(one: Object) -> Iterator[tuple[Kind, str]]:
    """Yield kinds and names of what made an object, as owners and labels say."""
    for owner in one.metadata.ownerReferences:
        yield Kind(owner.apiVersion.rpartition("/")[0], owner.kind), owner.name
    for kind, label in _LABELS.items():
        if label in one.metadata.labels:
            yield kind, one.metadata.labels[label]


def queues_of_kueue(
    queues: Queues, workload: kr.Workload
) -> Iterator[tuple[Kind, tuple[str, str]]]:
    """Yield the queues, cohorts and flavors that a workload is bound by."""
    if workload.spec.queueName is not None:
        yield kr.LOCAL_QUEUE, (workload.metadata.namespace or "", workload.spec.queueName)
    name = queues.queue_of(workload)
    queue = queues.cluster.get(name or "")
    if queue is None:
        return
    yield kr.CLUSTER_QUEUE, queue.key
    for flavor in queue.flavors:
        yield kr.FLAVOR, ("", flavor.name or "")
    for cohort in queues.cohorts_of(queue):
        yield kr.COHORT, ("", cohort)


def queues_above(
    above: Mapping[str, str | None], queue: str | None
) -> Iterator[tuple[Kind, tuple[str, str]]]:
    """Yield a queue of KAI or Volcano and those that it is in, from the inside out."""
    seen: set[str] = set()
    while queue and queue not in seen:
        seen.add(queue)
        for kind in QUEUE_KINDS:
            yield kind, ("", queue)
        queue = above.get(queue)


def read_caveats(sources: Mapping[Kind, Sequence[Source]], book: Bookkeeping) -> Caveats:
    """Go through all objects of a dump."""
    keyed = {kind: [(key_of(one), one.raw) for one in found] for kind, found in sources.items()}
    found = caveats_of_all(LEDGERS, keyed, book)
    for kind in _LABELS:
        for name, raw in keyed.get(kind, ()):
            notes = raw["metadata"].get("annotations")
            if isinstance(notes, dict) and any(_NOTES.get(key) is _EXCLUSIVE for key in notes):
                found[kind][name] = (*found[kind].get(name, ()), _EXCLUSIVE.caveat())
    return Caveats(found, read_all(Budget, sources.get(BUDGET, ()), book, "disruption budgets"))


# All objects of a dump that are read, and how many there are of others.

PODS = "pods"
_TOPOLOGIES = (kr.TOPOLOGY, Kind("kai.scheduler", "Topology"))
READ_KINDS = frozenset(LEDGERS)
_LEAVES = (POD, NODE, kr.WORKLOAD)
_OWNERS = ("apps", "batch")
"""API groups of controllers, which are known by their pods."""


@dataclass(frozen=True, slots=True)
class Dump:
    """The objects of a dump, sorted by name; `nodes` are those that become hosts."""

    nodes: Mapping[str, Node]
    pods: Sequence[Pod]
    groups: Mapping[Gang, PodGroup]
    workloads: Mapping[tuple[str, str], kr.Workload]
    queues: kueue.Queues
    group_queues: Sequence[GroupQueue]
    topologies: Sequence[kr.Topology]
    tiers: Sequence[str]
    caveats: Caveats
    parents: Mapping[str, str]
    spaces: Sequence[ResourceQuota]
    taken: int = 0

    @property
    def now(self) -> int:
        """When it was taken, or the latest moment that an object speaks of, as having been."""
        return max(self.taken, *self._moments())

    def _moments(self) -> Iterator[int]:
        yield 0
        conditions = chain(
            (c for node in self.nodes.values() for c in node.status.conditions),
            (c for pod in self.pods for c in pod.status.conditions),
            (c for workload in self.workloads.values() for c in workload.status.conditions),
        )
        for condition in conditions:
            yield condition.lastTransitionTime or 0
        for one in chain(self.nodes.values(), self.pods, self.workloads.values()):
            yield one.metadata.creationTimestamp or 0
        for pod in self.pods:
            yield pod.status.startTime or 0


def read_dump(sources: Mapping[Kind, Sequence[Source]], book: Bookkeeping) -> Dump:
    """Read the objects of some files; those of kinds that are not read are counted.

    Raises `InvalidInputError`: an object has a value that Kubernetes would not have.
    """
    sources = with_devices(sources, book)
    caveats = read_caveats(sources, book)
    sources = with_priorities(sources, book)
    for kind in sorted(sources):
        if kind not in READ_KINDS:
            name = f"{kind.name} of {kind.group}" if kind.group else kind.name
            also = "; its pods and workload are, if it has any" if kind.group in _OWNERS else ""
            for source in sources[kind]:
                book.leave("other objects", f"{name} is not read{also}", name_of(source))
    queues = read_all(kr.ClusterQueue, sources.get(kr.CLUSTER_QUEUE, ()), book, "cluster queues")
    local = read_all(kr.LocalQueue, sources.get(kr.LOCAL_QUEUE, ()), book, "local queues")
    flavors = read_all(kr.ResourceFlavor, sources.get(kr.FLAVOR, ()), book, "flavors")
    cohorts = read_all(kr.ClusterQueue, sources.get(kr.COHORT, ()), book, "cohorts")
    spaces = read_all(Object, sources.get(kr.NAMESPACE, ()), book, "namespaces")
    classes = read_all(RuntimeClass, sources.get(RUNTIME_CLASS, ()), book, "runtime classes")
    runtimes = Runtimes({one.name: one for one in classes})
    workloads = kueue.as_growth(
        runtimes.of_workloads(read_all(kr.Workload, sources.get(kr.WORKLOAD, ()), book, kueue.KIND))
    )
    topologies = [
        one
        for kind in _TOPOLOGIES
        for one in read_all(kr.Topology, sources.get(kind, ()), book, "topologies")
    ]
    groups = {
        Gang(kind.group, *group.key): group
        for kind in GROUP_KINDS
        for group in read_all(PodGroup, sources.get(kind, ()), book, GROUPS)
    }
    listed = read_all(Node, sources.get(NODE, ()), book, nodes.KIND)
    count_beside(map(nodes.resources_of, listed))
    kept = nodes.take_nodes(listed, book)
    hyper_nodes = read_all(HyperNode, sources.get(HYPER_NODE, ()), book, "hypernodes")
    labelled, tiers = with_tiers(kept, hyper_nodes, book)
    return Dump(
        nodes=labelled,
        tiers=tiers,
        pods=runtimes.of_pods(read_all(Pod, sources.get(POD, ()), book, PODS)),
        groups=groups,
        workloads={one.key: one for one in workloads},
        queues=kueue.Queues(
            {one.metadata.name: one for one in queues},
            {one.key: one for one in local},
            {one.metadata.name: one for one in flavors},
            {one.metadata.name: one for one in cohorts},
            {one.metadata.name: one.metadata.labels for one in spaces},
            {one.key: one for one in workloads},
            {one.metadata.name: one.keys for one in topologies if one.apiVersion.startswith(KUEUE)},
        ),
        group_queues=[
            one
            for kind in QUEUE_KINDS
            for one in read_all(GroupQueue, sources.get(kind, ()), book, "queues")
        ],
        topologies=topologies,
        caveats=caveats,
        parents=dict(_parents(sources)),
        spaces=read_all(ResourceQuota, sources.get(RESOURCE_QUOTA, ()), book, "resource quotas"),
    )


def _parents(sources: Mapping[Kind, Sequence[Source]]) -> Iterator[tuple[str, str]]:
    """Yield the uids of objects and of their controllers, as of Jobs that a JobSet has made."""
    for source in chain.from_iterable(of for kind, of in sources.items() if kind not in _LEAVES):
        meta = source.raw.get("metadata")
        owners = meta.get("ownerReferences") if isinstance(meta, dict) else None
        for one in owners if isinstance(owners, list) else ():
            if isinstance(one, dict) and one.get("controller") is True:
                yield str(source.raw["metadata"].get("uid")), str(one.get("uid"))
