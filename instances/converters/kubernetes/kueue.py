"""Kueue: which queue a workload is in and what that may hold, and what its pods ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import chain, product
from typing import Literal, TypeAlias

from placewright.instances.converters.kubernetes.accelerators import accelerators_in
from placewright.instances.converters.kubernetes.eligibility import tolerated
from placewright.instances.converters.kubernetes.kueue_records import (
    ClusterQueue,
    LocalQueue,
    PodSet,
    Quota,
    ResourceFlavor,
    TopologyAssignment,
    Workload,
)
from placewright.instances.converters.kubernetes.levels import HOSTNAME
from placewright.instances.converters.kubernetes.pods import requests
from placewright.instances.converters.kubernetes.records import PodSpec, Toleration
from placewright.instances.documents.base import MAX_COUNT
from placewright.instances.documents.policy import Preemption, Tenant

KIND = "workloads"
_REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
_WEIGHTS = 1000
"""Weights of fair sharing are counted in thousandths."""


Flavors: TypeAlias = tuple[tuple[str, str], ...]
"""The flavor of each resource, by its name."""


@dataclass(frozen=True)
class Queues:
    """Kueue's queues, flavors and workloads by name, and the labels of namespaces."""

    cluster: Mapping[str, ClusterQueue] = field(default_factory=dict)
    local: Mapping[tuple[str, str], LocalQueue] = field(default_factory=dict)
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    cohorts: Mapping[str, ClusterQueue] = field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    workloads: Mapping[tuple[str, str], Workload] = field(default_factory=dict)

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

        In a queue in which all flavors have one every pod set wants it.
        """
        near, flavor = pod_set.topologyRequest, self.flavors.get(name)
        of_queue = self.known(tuple(("", f.name or "") for f in (queue.flavors if queue else ())))
        if flavor is None or all(one.spec.topologyName for one in of_queue):
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

    Parameters
    ----------
    quota
        What it may hold at most, borrowed or not.
    weighed
        Whether queues have weights of fair sharing.
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
