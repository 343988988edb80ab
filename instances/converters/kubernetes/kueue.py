"""Kueue: the queue of a workload, what its pods ask for, what keeps it from admission."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import chain, product
from typing import Literal, TypeAlias

from placewright.instances.converters.kubernetes.eligibility import requests, selects, tolerated
from placewright.instances.converters.kubernetes.groups import (
    ClusterQueue,
    LocalQueue,
    PodSet,
    Quota,
    ResourceFlavor,
    TopologyAssignment,
    Workload,
)
from placewright.instances.converters.kubernetes.nodes import HOST_PORT, HOSTNAME, accelerators_in
from placewright.instances.converters.kubernetes.records import PodSpec, Toleration
from placewright.instances.documents.base import MAX_COUNT
from placewright.instances.documents.caveats import Caveat
from placewright.instances.documents.policy import Preemption, Tenant
from placewright.instances.documents.source_keys import OWN_CHECK

KIND = "workloads"
_REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
_WEIGHTS = 1000
"""Weights of fair sharing are counted in thousandths."""


Flavors: TypeAlias = tuple[tuple[str, str], ...]
"""The flavor of each resource, by its name."""


@dataclass(frozen=True)
class Queues:
    """Kueue's queues, flavors and workloads by name, labels of namespaces, keys of topologies."""

    cluster: Mapping[str, ClusterQueue] = field(default_factory=dict)
    local: Mapping[tuple[str, str], LocalQueue] = field(default_factory=dict)
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    cohorts: Mapping[str, ClusterQueue] = field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    workloads: Mapping[tuple[str, str], Workload] = field(default_factory=dict)
    topologies: Mapping[str, Collection[str]] = field(default_factory=dict)

    def queue_of(self, workload: Workload) -> str | None:
        """Return the ClusterQueue of a workload, None if the dump does not say."""
        admission = workload.status.admission
        if admission is not None and admission.clusterQueue is not None:
            return admission.clusterQueue
        local = self._local(workload)
        return None if local is None else local.spec.clusterQueue

    def root_of(self, cohort: str) -> str:
        """Return the outermost cohort of one, or one of those that are in a circle."""
        return self._from(cohort)[-1]

    def above(self, cohort: str) -> list[str]:
        """Return the cohorts that one is in, from the inside out; none twice."""
        return self._from(cohort)[1:]

    def in_circle(self, queue: ClusterQueue) -> bool:
        """Whether a queue is in cohorts of which some are in each other."""
        return queue.cohort is not None and self._parent(self.root_of(queue.cohort)) is not None

    def _from(self, cohort: str) -> list[str]:
        found = [cohort]
        while (above := self._parent(found[-1])) is not None and above not in found:
            found.append(above)
        return found

    def _parent(self, cohort: str) -> str | None:
        one = self.cohorts.get(cohort)
        return None if one is None else one.spec.parentName or one.spec.parent

    def cohorts_of(self, queue: ClusterQueue) -> list[str]:
        """Return the cohorts of a queue, from the inside out."""
        return [] if queue.cohort is None else [queue.cohort, *self.above(queue.cohort)]

    def _local(self, workload: Workload) -> LocalQueue | None:
        name = workload.spec.queueName
        return None if name is None else self.local.get((workload.metadata.namespace or "", name))

    def choices_of(self, workload: Workload, pod_set: PodSet) -> list[Flavors]:
        """Return the flavors that a pod set may have: of each resource one.

        Those that it has been admitted with, or else all of its queue, in its order. Resources
        that a queue has no quota of are of no flavor.
        """
        admission = workload.status.admission
        grows = self.workloads.get(grows_from(workload))
        if admission is None and grows is not None:
            admission = grows.status.admission
        if admission is not None:
            given = [a.flavors for a in admission.podSetAssignments if a.name == pod_set.name]
            return [tuple(sorted(given[0].items()))] if given else [()]
        queue = self.cluster.get(self.queue_of(workload) or "")
        requested = requests(pod_set.template.spec).names
        asked = {"pods", *requested}
        parts = [
            [
                tuple((one.name, flavor.name) for one in flavor.resources if one.name in asked)
                for flavor in group.flavors
                if flavor.name is not None
                and self._tolerated(flavor.name, pod_set.template.spec)
                and (group.names.isdisjoint(requested) or self._suits(flavor.name, pod_set, queue))
            ]
            for group in (() if queue is None else queue.spec.resourceGroups)
            if not group.names.isdisjoint(asked)
        ]
        return [tuple(pair for part in chosen for pair in part) for chosen in product(*parts)]

    @cached_property
    def covered(self) -> set[str]:
        """The resources that some queue has a quota of."""
        flavors = chain.from_iterable(queue.flavors for queue in self.cluster.values())
        return {one.name for flavor in flavors for one in flavor.resources}

    @cached_property
    def heads(self) -> Mapping[str, tuple[str, str]]:
        """Who is first of those that wait in each queue: of the highest priority, the oldest."""
        found: dict[str, tuple[tuple[int, int, str], tuple[str, str]]] = {}
        for key, one in self.workloads.items():
            name = self.queue_of(one) or ""
            if name in self.cluster and one.stage == 1 and one.spec.active:
                at = -one.spec.priority, one.metadata.creationTimestamp or 0, one.name
                found[name] = min(found.get(name, (at, key)), (at, key))
        return {name: key for name, (_, key) in found.items()}

    @cached_property
    def shares_fairly(self) -> bool:
        """Whether fair sharing is on, as far as it shows."""
        every = (*self.cluster.values(), *self.cohorts.values())
        return any(q.status.fairSharing is not None or q.spec.fairSharing for q in every)

    @cached_property
    def uncounted(self) -> set[str]:
        """What some workload has been admitted with, while it asks for it, without a flavor."""
        found: set[str] = set()
        for workload in self.workloads.values():
            admission = workload.status.admission
            given = {} if admission is None else {a.name: a for a in admission.podSetAssignments}
            for one in workload.spec.podSets:
                if one.name in given:
                    found |= requests(one.template.spec).names - {*given[one.name].flavors}
        return found

    def _tolerated(self, name: str, spec: PodSpec) -> bool:
        """Whether pods tolerate the taints of a flavor."""
        flavor = self.flavors.get(name)
        also = () if flavor is None else flavor.spec.tolerations
        return flavor is None or all(
            tolerated(taint, (*spec.tolerations, *also)) for taint in flavor.spec.nodeTaints
        )

    def _suits(self, name: str, pod_set: PodSet, queue: ClusterQueue | None) -> bool:
        """Whether a flavor has a Topology, as a pod set that wants one needs and others must not.

        It needs all levels that the pod set names. In a queue in which all flavors have a Topology
        every pod set wants it.
        """
        near, flavor = pod_set.topologyRequest, self.flavors.get(name)
        if flavor is None:
            return True
        of_queue = self.known(tuple(("", f.name or "") for f in (queue.flavors if queue else ())))
        levels = self.topologies.get(flavor.spec.topologyName)
        if near is not None and levels is not None and not near.keys <= {*levels}:
            return False
        if all(one.spec.topologyName for one in of_queue):
            return True
        return bool(flavor.spec.topologyName) == (near is not None and near.explicit)

    def known(self, flavors: Flavors) -> list[ResourceFlavor]:
        """Return the objects of some flavors, as far as the dump has them."""
        names = dict.fromkeys(flavor for _, flavor in flavors)
        return [self.flavors[name] for name in names if name in self.flavors]


def grows_from(workload: Workload) -> tuple[str, str]:
    """Return the key of the workload that one is to replace as its job grows."""
    space, _, name = workload.metadata.annotations.get(_REPLACES, "").partition("/")
    return space, name


def as_growth(workloads: Iterable[Workload]) -> list[Workload]:
    """Return workloads of which those that are to replace another ask only for what is added."""
    found = {one.key: one for one in workloads}
    for key, one in found.items():
        old = found.get(grows_from(one))
        if old is None or old.stage < 2 or one.stage != 1:
            continue
        had = {part.name: part.count for part in old.spec.podSets}
        sets = [
            part.model_copy(update={"count": max(0, part.count - had.get(part.name, 0))})
            for part in one.spec.podSets
        ]
        spec = one.spec.model_copy(update={"podSets": tuple(sets)})
        found[key] = one.model_copy(update={"spec": spec})
    return list(found.values())


def asked_by(workload: Workload) -> set[str]:
    """Return the resources that the pods of a workload ask for."""
    asked = (requests(one.template.spec).names for one in workload.spec.podSets if one.count)
    return set[str]().union(*asked)


def tolerations(flavors: list[ResourceFlavor]) -> tuple[Toleration, ...]:
    """Return what pods of some flavors tolerate beyond what they say themselves."""
    return tuple(one for flavor in flavors for one in flavor.spec.tolerations)


def tenant_of(queues: Queues, name: str, quota: Mapping[str, int], *, weighed: bool) -> Tenant:
    """Return the tenant of a ClusterQueue.

    `quota`: what it may hold at most, borrowed or not. `weighed`: whether queues have weights of
    fair sharing.
    """
    queue = queues.cluster[name]
    own = [one.nominalQuota or Decimal(0) for _, one in of_gpus(queue)]
    guarantee = min(quota["gpu"], int(sum(own) * 1000)) if own and "gpu" in quota else None
    sharing = queue.spec.fairSharing
    weight = Decimal(1) if sharing is None or sharing.weight is None else sharing.weight
    return Tenant(
        name=name,
        weight=max(1, min(10**6, int(weight * _WEIGHTS))) if weighed else 1,
        preemption=_preemption(queues, queue),
    ).model_copy(
        update={
            "quota": dict(quota),
            "guarantee": {"gpu": guarantee} if queue.cohort and guarantee is not None else {},
        }
    )


def _preemption(queues: Queues, queue: ClusterQueue) -> Preemption:
    """Return whose workloads those of a queue may preempt."""
    asked, cohort = queue.spec.preemption, queue.cohort
    reclaim: Literal["never", "lower", "any"] = "never"
    if asked.reclaimWithinCohort in ("LowerPriority", "Any"):
        reclaim = "any" if asked.reclaimWithinCohort == "Any" else "lower"
    borrow = asked.borrowWithinCohort
    return Preemption(
        within="never" if asked.withinClusterQueue in ("", "Never") else "lower",
        reclaim=reclaim,
        borrow="lower" if borrow.policy == "LowerPriority" else "never",
        borrow_up_to=borrow.maxPriorityThreshold,
        cohort=None if cohort is None else queues.root_of(cohort),
    )


def assigned(assignment: TopologyAssignment) -> list[str] | None:
    """Return the node of each pod of an assignment, None if that is not of nodes."""
    if not assignment.levels or assignment.levels[-1] != HOSTNAME:
        return None
    found: list[str] = []
    if sum(domain.count for domain in assignment.domains) > MAX_COUNT:
        return None
    for domain in assignment.domains:
        found += [domain.values[-1] if domain.values else ""] * domain.count
    for part in assignment.slices:
        values = part.valuesPerLevel[-1] if part.valuesPerLevel else None
        if values is None:
            return None
        one, number = values.individual, part.domainCount
        names = [values.universal] * number
        if one is not None:
            names = [f"{one.prefix}{root}{one.suffix}" for root in one.roots]
        counts = part.podCounts.individual or (part.podCounts.universal or 1,) * number
        if len(names) != len(counts):
            return None
        if len(found) + sum(counts) > MAX_COUNT:
            return None
        for name, count in zip(names, counts, strict=True):
            found += [name] * count
    return found


def of_gpus(queue: ClusterQueue) -> Iterator[tuple[str, Quota]]:
    """Yield the flavors that a queue has GPUs of, each with how many."""
    for flavor in queue.flavors:
        for one in flavor.resources:
            if one.name and accelerators_in([one.name]) and flavor.name is not None:
                yield flavor.name, one


# Admission by Kueue: what keeps a workload from it, whatever quotas are left, and what ends it.

_STOPPED = ("Hold", "HoldAndDrain")
_ENDS = ("Retry", "Rejected")
"""States of admission checks that end an admission."""

_OWN_LABEL = "kubernetes.io/metadata.name"
_FAIR_SHARING = Caveat(
    rule="fair-sharing", text="preemption by fair sharing is not read", hard=False
)
_IN_TURN = Caveat(
    rule="strict-fifo",
    text="that its queue admits nobody before those ahead of it (StrictFIFO) is not read",
)
NO_QUEUE = Caveat(rule="queue-missing", text="its queue, with its quota, is not in the dump")
_SPACE = Caveat(
    rule="namespace-selector", text="whether its queue admits its namespace is not read"
)
_OTHER_AMOUNTS = Caveat(
    rule="resource-transformations",
    text="that Kueue counts other resources than its pods ask for is not read",
)


def why_not_admitted(queues: Queues, workload: Workload) -> str:
    """Return what keeps a workload from being admitted, "" if nothing does."""
    return next(_obstacles(queues, workload), "")


def why_evicted(queues: Queues, workload: Workload) -> str:
    """Return why Kueue takes the admission of a workload away, "" if it does not."""
    return next(_ends(queues, workload), "") if workload.status.admission is not None else ""


def told(queues: Queues, workload: Workload) -> Iterator[Caveat]:
    """Yield what the dump does not say of the admission of a workload that is not admitted."""
    queue = queues.cluster.get(queues.queue_of(workload) or "")
    if workload.status.admission is not None:
        return
    if queue is None:
        if not why_not_admitted(queues, workload):
            yield NO_QUEUE
        return
    if queue.cohort is not None and queues.shares_fairly:
        yield _FAIR_SHARING
    in_turn = queue.spec.queueingStrategy == "StrictFIFO"
    if in_turn and queues.heads.get(queue.name, workload.key) != workload.key:
        yield _IN_TURN
    if _selects(queues, queue, workload) is None:
        yield _SPACE
    known = {OWN_CHECK, *(one.name for one in workload.status.admissionChecks)}
    if checks := [name for name in queue.checks if name not in known]:
        text = f"whether admission check {checks[0]} lets it pass is not known yet"
        yield Caveat(rule="admission-checks", text=text)
    if workload.counted - asked_by(workload):
        yield _OTHER_AMOUNTS
    left = sorted(_uncovered(queues, queue, workload))
    if left:
        text = (
            f"whether Kueue is configured to admit without quota of {', '.join(left)} is not read"
        )
        yield Caveat(rule="uncovered-resources", text=text)


def _obstacles(queues: Queues, workload: Workload) -> Iterator[str]:
    if not workload.spec.active:
        yield "it is not active"
    if workload.status.clusterName:
        yield f"cluster {workload.status.clusterName} runs it (MultiKueue)"
    for check in workload.status.admissionChecks:
        if check.name != OWN_CHECK and check.state not in ("Ready", ""):
            yield f"admission check {check.name} has not let it pass"
    if workload.status.admission is not None:
        yield from _ends(queues, workload)
        return
    requeue = workload.status.requeueState
    for said in workload.status.conditions if requeue is None or requeue.requeueAt is None else ():
        if said.type == "Requeued" and said.status == "False":
            yield f"Kueue has not queued it again ({said.reason or 'it does not say why'})"
    name, space = workload.spec.queueName, workload.metadata.namespace or ""
    if name is None:
        yield "it names no LocalQueue"
    local = queues.local.get((space, name or ""))
    if local is None and name is not None and queues.local:
        yield f"there is no LocalQueue {space}/{name}"
    found = queues.queue_of(workload)
    queue = queues.cluster.get(found or "")
    if queue is None and found is not None and queues.cluster:
        yield f"there is no ClusterQueue {found}"
    for kind, one in (("LocalQueue", local), ("ClusterQueue", queue)):
        if one is not None:
            yield from _refusals(kind, one)
    if queue is not None:
        yield from _misconfigured(queues, queue, workload)


def _refusals(kind: str, queue: LocalQueue | ClusterQueue) -> Iterator[str]:
    """Yield why a queue admits nobody."""
    if queue.spec.stopPolicy in _STOPPED:
        yield f"{kind} {queue.name} is stopped ({queue.spec.stopPolicy})"
    if queue.metadata.deletionTimestamp is not None:
        yield f"{kind} {queue.name} is being deleted"
    if any(one.type == "Active" and one.status == "False" for one in queue.status.conditions):
        yield f"{kind} {queue.name} is not active"


def _misconfigured(queues: Queues, queue: ClusterQueue, workload: Workload) -> Iterator[str]:
    """Yield what is wrong with a ClusterQueue, or makes it none for a workload."""
    name = f"ClusterQueue {queue.name}"
    if queues.in_circle(queue):
        yield f"{name} is in cohorts that are in a circle"
    for flavor in queue.flavors:
        if queues.flavors and flavor.name not in queues.flavors:
            yield f"there is no ResourceFlavor {flavor.name}, which {name} has quota of"
    if queue.spec.namespaceSelector is None:
        yield f"{name} has no namespaceSelector, so it admits no namespace"
    elif _selects(queues, queue, workload) is False:
        yield f"{name} does not admit namespace {workload.metadata.namespace or ''}"
    for resource in sorted(_uncovered(queues, queue, workload)):
        if _counts(queues, workload, resource):
            yield f"{name} has no quota of {resource}"


def _ends(queues: Queues, workload: Workload) -> Iterator[str]:
    """Yield what takes an admission away: of a workload that only has its quota, any stop does."""
    for one in workload.status.conditions:
        if one.type == "Evicted" and one.status == "True":
            yield f"it is evicted ({one.reason})" if one.reason else "it is evicted"
    if not workload.spec.active:
        yield "it is not active"
    for check in workload.status.admissionChecks:
        if check.state in _ENDS:
            yield f"admission check {check.name} is {check.state}"
    stops = _STOPPED if workload.has("QuotaReserved") and not workload.has("Admitted") else ()
    name, space = workload.spec.queueName or "", workload.metadata.namespace or ""
    local: LocalQueue | ClusterQueue | None = queues.local.get((space, name))
    queue = queues.cluster.get(queues.queue_of(workload) or "")
    for kind, found in (("LocalQueue", local), ("ClusterQueue", queue)):
        if found is not None and found.spec.stopPolicy in (*stops, "HoldAndDrain"):
            yield f"{kind} {found.name} is stopped ({found.spec.stopPolicy})"


def _uncovered(queues: Queues, queue: ClusterQueue, workload: Workload) -> set[str]:
    """Return what a workload asks for and a queue has no quota of, unless Kueue leaves it out.

    Its configuration may leave resources out. That shows in what it counts of a workload that
    waits, and in workloads that it has admitted without a flavor for them.
    """
    covered = {"pods", *(one.name for flavor in queue.flavors for one in flavor.resources)}
    left = {name for name in asked_by(workload) - covered if not name.startswith(HOST_PORT)}
    return (left & workload.counted if workload.counted else left) - queues.uncounted


def _counts(queues: Queues, workload: Workload, resource: str) -> bool:
    """Whether it is sure that Kueue refuses a workload for a resource without quota."""
    said = f"resource {resource} unavailable in ClusterQueue"
    return (
        resource in workload.counted
        or bool(accelerators_in([resource]))
        or any(said in one.message for one in workload.status.conditions)
        or resource in queues.covered
    )


def _selects(queues: Queues, queue: ClusterQueue, workload: Workload) -> bool | None:
    """Whether a queue admits the namespace of a workload; None if its labels are not known.

    A queue without a selector admits none.
    """
    selector, space = queue.spec.namespaceSelector, workload.metadata.namespace or ""
    if selector is None:
        return False
    known: Mapping[str, str] | None = queues.namespaces.get(space)
    labels = {_OWN_LABEL: space, **(known or {})}
    keys = {*selector.matchLabels, *(one.key for one in selector.matchExpressions)}
    if known is None and not keys <= {_OWN_LABEL}:
        return None
    return selects(selector, labels)
