"""What jobs and hosts of a round are in Kubernetes, as annotations by which writers find them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from placewright.instances.converters.kubernetes.groups import (
    GROUP_KINDS,
    WORKLOAD,
    Gang,
    other_names,
)
from placewright.instances.converters.kubernetes.kueue_records import Workload
from placewright.instances.converters.kubernetes.records import Node, Object, Pod
from placewright.instances.derived.source_words import also_of
from placewright.instances.documents.annotations import MAX_TEXT
from placewright.instances.documents.base import NAME
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

_HOSTNAME = "kubernetes.io/hostname"
_NAME = re.compile(NAME)
_KINDS = {
    **{kind.group: kind.name for kind in GROUP_KINDS},
    WORKLOAD: "Workload",
    "Job": "Job",
    "Pod": "Pod",
}


def of_gang(gang: Gang, found: Object | None, members: Sequence[Pod]) -> dict[str, str]:
    """Return what the object of a gang is, and its controller.

    Parameters
    ----------
    gang
        A gang, or a pod alone.
    found
        Its object, if the dump has it.
    members
        Its pods, which may say more: their controller is the Job of a gang that has one.
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
    ids = of_gang(Gang(WORKLOAD, *workload.key), workload, ())
    ids[KUBERNETES_TOPOLOGY] = _yes(is_placed_by_kueue)
    ids[KUBERNETES_AFFINITY] = _yes(
        any(one.template.spec.affinity is not None for one in workload.spec.podSets)
    )
    if OWN_CHECK in checks:
        ids[KUBERNETES_CHECK] = str(checks.index(OWN_CHECK))
    return ids


def also(members: Iterable[Pod], ids: Mapping[str, str]) -> dict[str, str]:
    """Return the other names of a job with some pods, but for those among its ids."""
    space = f"{ids.get(KUBERNETES_NAMESPACE, '')}/"
    known = {text for own in ids.values() for text in (own, f"{space}{own}")}
    text = also_of(name for name in other_names(members) if name not in known)
    return {ALSO: text} if text else {}


def of_groups(groups: Sequence[Sequence[Pod]], parts: Sequence[str]) -> dict[str, str]:
    """Return the pods of each task group, and its pod set.

    Parameters
    ----------
    groups
        Pods, in the order of tasks; none where the dump does not say.
    parts
        Names of pod sets, "" for groups that are of none.
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
    return {k: text for k, text in texts.items() if len(text) <= 253 and _NAME.fullmatch(text)}
