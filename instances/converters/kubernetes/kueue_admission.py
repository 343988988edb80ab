"""Admission by Kueue: what keeps a workload from it, whatever quotas are left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from placewright.instances.converters.kubernetes.eligibility import holds
from placewright.instances.converters.kubernetes.kueue import Queues
from placewright.instances.converters.kubernetes.kueue_records import (
    ClusterQueue,
    LocalQueue,
    Workload,
)
from placewright.instances.documents.source_keys import OWN_CHECK

_STOPPED = ("Hold", "HoldAndDrain")
_OWN_LABEL = "kubernetes.io/metadata.name"


def why_not_admitted(queues: Queues, workload: Workload) -> str:
    """Return what keeps a workload from being admitted, "" if nothing does."""
    return next(_obstacles(queues, workload), "")


def checks_left(workload: Workload) -> list[str]:
    """Return the admission checks of others that have not let a workload pass."""
    checks = workload.status.admissionChecks
    return [one.name for one in checks if one.name != OWN_CHECK and one.state not in ("Ready", "")]


def may_be_excluded(queues: Queues, workload: Workload) -> bool:
    """Whether the dump does not say if the queue of a workload admits its namespace."""
    queue = queues.cluster.get(queues.queue_of(workload) or "")
    unknown = queue is not None and _selects(queues, queue, workload) is None
    return unknown and workload.status.admission is None


def _obstacles(queues: Queues, workload: Workload) -> Iterator[str]:
    if not workload.spec.active:
        yield "it is not active"
    for check in checks_left(workload):
        yield f"admission check {check} has not let it pass"
    if workload.status.admission is not None:
        return
    name, space = workload.spec.queueName, workload.metadata.namespace or ""
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
    if queue is not None and _selects(queues, queue, workload) is False:
        yield f"ClusterQueue {found} does not admit namespace {space}"


def _refusals(kind: str, queue: LocalQueue | ClusterQueue) -> Iterator[str]:
    """Yield why a queue admits nobody."""
    if queue.spec.stopPolicy in _STOPPED:
        yield f"{kind} {queue.name} is stopped ({queue.spec.stopPolicy})"
    if any(one.type == "Active" and one.status == "False" for one in queue.status.conditions):
        yield f"{kind} {queue.name} is not active"


def _selects(queues: Queues, queue: ClusterQueue, workload: Workload) -> bool | None:
    """Whether a queue admits the namespace of a workload; None if its labels are not known.

    A queue without a selector, which Kueue would not let admit anything, is read as one for all.
    """
    selector, space = queue.spec.namespaceSelector, workload.metadata.namespace or ""
    if selector is None:
        return True
    known: Mapping[str, str] | None = queues.namespaces.get(space)
    labels = {_OWN_LABEL: space, **(known or {})}
    keys = {*selector.matchLabels, *(one.key for one in selector.matchExpressions)}
    if known is None and not keys <= {_OWN_LABEL}:
        return None
    return all(labels.get(key) == value for key, value in selector.matchLabels.items()) and all(
        holds(one, labels) for one in selector.matchExpressions
    )
