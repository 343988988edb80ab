"""What pods ask for, and how they are."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from decimal import Decimal
from enum import Enum

from placewright.instances.converters.kubernetes.nodes import HOST_PORT, Amounts, amounts
from placewright.instances.converters.kubernetes.records import Pod, PodSpec
from placewright.instances.documents.source_keys import OWN_GATE

_SHARES = ("gpu-fraction", "gpu-memory")
_SLICED = ("nvidia.com/gpumem", "nvidia.com/gpucores", "volcano.sh/vgpu-")
_SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_PREEMPTABLE = "volcano.sh/preemptable"


class State(Enum):
    """How a pod is, as far as its place goes."""

    ENDED = "has ended"
    DELETED = "is deleted before it ran"
    BOUND = "bound"
    WAITING = "waiting"


def state_of(pod: Pod) -> State:
    """Return how a pod is; one that is deleted holds its node until it is gone."""
    if pod.status.phase in ("Succeeded", "Failed"):
        return State.ENDED
    if pod.spec.nodeName is not None:
        return State.BOUND
    return State.WAITING if pod.metadata.deletionTimestamp is None else State.DELETED


def asked_by(pod: Pod) -> Amounts:
    """Return what a pod asks for; one that is resized has the most of what it has and wants."""
    spec, given = pod.spec, {one.name: one for one in pod.status.containerStatuses}
    containers = []
    for one in spec.containers:
        status = given.get(one.name)
        parts = [one.resources.asked]
        if status is not None:
            now = status.resources.requests if status.resources is not None else {}
            parts += [status.allocatedResources, now]
        most = {key: max(part.get(key, _NONE) for part in parts) for part in parts for key in part}
        resources = one.resources.model_copy(update={"requests": most})
        changed = most != parts[0]
        containers.append(one.model_copy(update={"resources": resources}) if changed else one)
    if all(map(operator.is_, containers, spec.containers)):
        return requests(spec)
    return requests(spec.model_copy(update={"containers": tuple(containers)}))


def requests(spec: PodSpec) -> Amounts:
    """Return what kube-scheduler counts for a pod.

    All containers and those init containers that go on run together; other init containers run
    one after the other before, beside the former that have started. Amounts of the pod itself
    take the place of cores and memory of its containers. A pod takes a place among the pods of its
    node, and the ports of the host that its containers ask for.
    """
    beside: dict[str, Decimal] = {}
    most: dict[str, Decimal] = {}
    for init in spec.initContainers:
        asked = _sum((beside, init.resources.asked))
        if init.restartPolicy == "Always":
            beside = asked
        most = {key: max(asked.get(key, _NONE), most.get(key, _NONE)) for key in {**asked, **most}}
    running = _sum((beside, *(one.resources.asked for one in spec.containers)))
    total = {key: max(running.get(key, _NONE), most.get(key, _NONE)) for key in {**running, **most}}
    if spec.resources is not None:
        total |= {k: v for k, v in spec.resources.asked.items() if k in ("cpu", "memory")}
    ports = {
        f"{HOST_PORT}{number}/{port.protocol or 'TCP'}": Decimal(1)
        for one in (*spec.containers, *spec.initContainers)
        for port in one.ports
        if (number := port.hostPort or (port.containerPort if spec.hostNetwork else 0))
    }
    return amounts(_sum((total, spec.overhead)) | ports | {"pods": Decimal(1)}, up=True)


def shares_gpus(pod: Pod) -> bool:
    """Whether a pod asks for a part of a GPU."""
    return any(key in pod.metadata.annotations for key in _SHARES)


def slices(asked: Amounts) -> bool:
    """Whether something asks for slices or shares of GPUs as extended resources."""
    return any(name.startswith(_SLICED) and asked.others[name] for name in asked.others)


def gated(pod: Pod) -> bool:
    """Whether a gate that is not ours keeps a pod from being scheduled."""
    return any(gate.name != OWN_GATE for gate in pod.spec.schedulingGates)


def movable(pod: Pod) -> bool:
    """Whether a running pod may be stopped: something makes it anew, and nothing forbids it."""
    notes = pod.metadata.annotations
    return (
        pod.metadata.deletionTimestamp is None
        and any(owner.controller for owner in pod.metadata.ownerReferences)
        and not any(owner.kind == "DaemonSet" for owner in pod.metadata.ownerReferences)
        and notes.get(_SAFE) != "false"
        and notes.get(_PREEMPTABLE) != "false"
    )


def started(pod: Pod) -> int | None:
    """Return when a pod was started, or else bound."""
    bound = [one.lastTransitionTime for one in pod.status.conditions if one.type == "PodScheduled"]
    return pod.status.startTime or next(iter(bound), None)


_NONE = Decimal(0)


def _sum(parts: Iterable[dict[str, Decimal]]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for part in parts:
        for key, amount in part.items():
            total[key] = total.get(key, _NONE) + amount
    return total
