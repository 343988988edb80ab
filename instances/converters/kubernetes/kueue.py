"""Kueue: which queue a workload is in and what that may hold, and what its pods ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

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
from placewright.instances.converters.kubernetes.nodes import GPU_RESOURCES
from placewright.instances.converters.kubernetes.records import Toleration
from placewright.instances.documents.base import MAX_AMOUNT, MAX_COUNT
from placewright.instances.documents.policy import Tenant

KIND = "workloads"
_STOPPED = ("Hold", "HoldAndDrain")
_WEIGHTS = 1000
"""Weights of fair sharing are counted in thousandths."""


@dataclass(frozen=True, slots=True)
class Queues:
    """Kueue's queues and flavors, by name."""

    cluster: Mapping[str, ClusterQueue] = field(default_factory=dict)
    local: Mapping[tuple[str, str], LocalQueue] = field(default_factory=dict)
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    cohorts: Mapping[str, ClusterQueue] = field(default_factory=dict)

    def queue_of(self, workload: Workload) -> str | None:
        """Return the ClusterQueue of a workload, None if the dump does not say."""
        admission = workload.status.admission
        if admission is not None and admission.clusterQueue is not None:
            return admission.clusterQueue
        local = self._local(workload)
        return None if local is None else local.spec.clusterQueue

    def root_of(self, cohort: str) -> str:
        """Return the outermost cohort of one, or one of those that are in a circle."""
        seen = {cohort}
        while (one := self.cohorts.get(cohort)) is not None:
            above = one.spec.parentName or one.spec.parent
            if above is None or above in seen:
                break
            cohort = above
            seen.add(cohort)
        return cohort

    def above(self, cohort: str) -> list[str]:
        """Return the cohorts that one is in, from the inside out; none twice."""
        found: list[str] = []
        root = self.root_of(cohort)
        while cohort != root and (one := self.cohorts.get(cohort)) is not None:
            above = one.spec.parentName or one.spec.parent
            if above is None or above in found:
                break
            found.append(above)
            cohort = above
        return found

    def cohorts_of(self, queue: ClusterQueue) -> list[str]:
        """Return the cohorts of a queue, from the inside out."""
        return [] if queue.cohort is None else [queue.cohort, *self.above(queue.cohort)]

    def stopped(self, workload: Workload) -> bool:
        """Whether a queue of a workload admits none."""
        local, name = self._local(workload), self.queue_of(workload)
        queue = None if name is None else self.cluster.get(name)
        return any(one is not None and one.spec.stopPolicy in _STOPPED for one in (local, queue))

    def _local(self, workload: Workload) -> LocalQueue | None:
        name = workload.spec.queueName
        return None if name is None else self.local.get((workload.metadata.namespace or "", name))

    def flavors_of(self, workload: Workload, pod_set: PodSet) -> list[ResourceFlavor] | None:
        """Return the flavors that GPUs of a pod set may be of, None if the dump does not say."""
        admission = workload.status.admission
        if admission is not None:
            names = [
                one.flavors[key]
                for one in admission.podSetAssignments
                if one.name == pod_set.name
                for key in GPU_RESOURCES
                if key in one.flavors
            ]
        else:
            queue = self.cluster.get(self.queue_of(workload) or "")
            names = [] if queue is None else [flavor for flavor, _ in of_gpus(queue)]
        found = [self.flavors[name] for name in dict.fromkeys(names) if name in self.flavors]
        return found if found and len(found) == len(set(names)) else None


def tolerations(flavors: list[ResourceFlavor] | None) -> tuple[Toleration, ...]:
    """Return what pods of some flavors tolerate beyond what they say themselves."""
    return tuple(one for flavor in flavors or () for one in flavor.spec.tolerations)


def tenants(queues: Queues) -> Iterator[Tenant]:
    """Yield a tenant per ClusterQueue.

    The quota is the nominal one and what may be borrowed: that is at most what the others of the
    cohort have.
    """
    nominal = {name: _nominal(queue) for name, queue in queues.cluster.items()}
    together: dict[str, Decimal] = {}
    shares = [(queue.cohort, nominal[name]) for name, queue in queues.cluster.items()]
    shares += [(name, _nominal(cohort)) for name, cohort in queues.cohorts.items()]
    for cohort, amount in shares:
        if cohort is not None and amount is not None:
            root = queues.root_of(cohort)
            together[root] = together.get(root, Decimal(0)) + amount
    weighed = any(queue.spec.fairSharing is not None for queue in queues.cluster.values())
    for name, queue in sorted(queues.cluster.items()):
        own = nominal[name]
        shared = queue.cohort is not None
        most = own
        if own is not None and queue.cohort is not None:
            most = together[queues.root_of(queue.cohort)]
            limits = [limit for _, one in of_gpus(queue) for limit in [one.borrowingLimit]]
            if all(limit is not None for limit in limits):
                most = min(most, own + sum(limit for limit in limits if limit is not None))
        sharing = queue.spec.fairSharing
        weight = Decimal(1) if sharing is None or sharing.weight is None else sharing.weight
        yield Tenant(
            name=name,
            quota={} if most is None else {"gpu": _milli(most)},
            guarantee={"gpu": _milli(own)} if shared and own is not None else {},
            weight=max(1, min(10**6, int(weight * _WEIGHTS))) if weighed else 1,
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
            if one.name in GPU_RESOURCES and flavor.name is not None:
                yield flavor.name, one


def _nominal(queue: ClusterQueue) -> Decimal | None:
    """Return the GPUs of all flavors, None if the queue has no quota of GPUs."""
    found = [one.nominalQuota or Decimal(0) for _, one in of_gpus(queue)]
    return sum(found, Decimal(0)) if found else None


def _milli(gpus: Decimal) -> str:
    return f"{min(MAX_AMOUNT, int(gpus * 1000))}m"
