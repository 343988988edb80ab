"""Admission by Kueue: what keeps a workload from it, whatever quotas are left, and what ends it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from placewright.instances.converters.kubernetes.accelerators import accelerators_in
from placewright.instances.converters.kubernetes.eligibility import holds
from placewright.instances.converters.kubernetes.kueue import Queues, asked_by
from placewright.instances.converters.kubernetes.kueue_records import (
    ClusterQueue,
    LocalQueue,
    Workload,
)
from placewright.instances.converters.kubernetes.nodes import HOST_PORT
from placewright.instances.documents.caveats import Caveat
from placewright.instances.documents.source_keys import OWN_CHECK

_STOPPED = ("Hold", "HoldAndDrain")
_ENDS = ("Retry", "Rejected")
"""States of admission checks that end an admission."""

_OWN_LABEL = "kubernetes.io/metadata.name"
_FAIR_SHARING = Caveat(
    rule="fair-sharing", text="preemption by fair sharing is not read", hard=False
)
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
    if queue is None or workload.status.admission is not None:
        return
    if queue.cohort is not None and queues.shares_fairly:
        yield _FAIR_SHARING
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
    return all(labels.get(key) == value for key, value in selector.matchLabels.items()) and all(
        holds(one, labels) for one in selector.matchExpressions
    )
