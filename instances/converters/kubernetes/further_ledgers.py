"""Ledgers of classes, budgets and controllers: what pods say only by name, or not at all."""

from __future__ import annotations

from collections.abc import Mapping

from placewright.instances.converters.kubernetes.sources import Kind
from placewright.instances.converters.ledger import OTHERWISE, Ledger, Rule

PRIORITY_CLASS = Kind("scheduling.k8s.io", "PriorityClass")
QUEUE_CLASS = Kind("kueue.x-k8s.io", "WorkloadPriorityClass")
BUDGET = Kind("policy", "PodDisruptionBudget")
JOB_SET = Kind("jobset.x-k8s.io", "JobSet")
LEADER_WORKER_SET = Kind("leaderworkerset.x-k8s.io", "LeaderWorkerSet")
META_READ = """
    apiVersion kind metadata.name metadata.namespace metadata.uid metadata.labels
    metadata.annotations metadata.ownerReferences metadata.creationTimestamp
"""
DELETED = "metadata.deletionTimestamp"
_META_NO_EFFECT = """
    metadata.deletionGracePeriodSeconds metadata.finalizers metadata.generateName
    metadata.generation metadata.managedFields metadata.resourceVersion metadata.selfLink
"""
META_NO_EFFECT = f"{_META_NO_EFFECT} {DELETED}"
"""Of what is in use although it is being deleted, as its finalizers make sure."""

META_NO_EFFECT_OF_DELETED = _META_NO_EFFECT
"""Of what nobody starts, or starts by, once it is being deleted."""

CONDITIONS = "status.conditions status.observedGeneration"

CLAIMS = Rule(
    "resource-claims", "resource claims (DRA) but for whole GPUs of a device class are not read"
)
_STARTUP = Rule("startup-order", "that some of its pods start after others is not read", hard=False)
_REMOTE = Rule("multikueue", "that another controller runs it is not read")


def prefixed(prefix: str, paths: str) -> str:
    """Return paths below another one."""
    return " ".join(f"{prefix}{path}" for path in paths.split())


FURTHER_LEDGERS: Mapping[Kind, Ledger] = {
    PRIORITY_CLASS: Ledger(
        "priority classes",
        f"{META_READ} value globalDefault preemptionPolicy",
        f"{META_NO_EFFECT} description",
    ),
    QUEUE_CLASS: Ledger(
        "priority classes of Kueue", f"{META_READ} value", f"{META_NO_EFFECT} description"
    ),
    BUDGET: Ledger(
        "disruption budgets",
        f"{META_READ} spec.selector status.disruptionsAllowed",
        f"""{META_NO_EFFECT} {CONDITIONS} spec.maxUnavailable spec.minAvailable
        spec.unhealthyPodEvictionPolicy status.currentHealthy status.desiredHealthy
        status.disruptedPods status.expectedPods""",
    ),
    JOB_SET: Ledger(
        "job sets",
        META_READ,
        f"""{META_NO_EFFECT} {CONDITIONS} spec.coordinator spec.failurePolicy spec.network
        {prefixed("spec.replicatedJobs.", "groupName name replicas template")}
        spec.successPolicy spec.suspend spec.ttlSecondsAfterFinished spec.volumeClaimPolicies
        status.currentInPlaceRestartAttempt status.previousInPlaceRestartAttempt
        status.replicatedJobsStatus status.restarts status.restartsCountTowardsMax
        status.terminalState""",
        {
            "spec.managedBy": {"jobset.sigs.k8s.io/jobset-controller": None, OTHERWISE: _REMOTE},
            "spec.replicatedJobs.dependsOn": _STARTUP,
            "spec.startupPolicy.startupPolicyOrder": {"InOrder": _STARTUP},
        },
    ),
    LEADER_WORKER_SET: Ledger(
        "leader-worker sets",
        META_READ,
        f"""{META_NO_EFFECT} {CONDITIONS} spec.leaderWorkerTemplate spec.networkConfig
        spec.replicas spec.rolloutStrategy status.hpaPodSelector status.readyReplicas
        status.replicas status.updatedReplicas""",
        {"spec.startupPolicy": {"LeaderReady": _STARTUP}},
    ),
}
