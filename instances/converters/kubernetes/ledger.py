"""Ledger of fields of Kubernetes objects: what of each is read, has no effect, or is told."""

from __future__ import annotations

from collections.abc import Mapping

from placewright.instances.converters.kubernetes import kueue_records as kr
from placewright.instances.converters.kubernetes.device_ledgers import DEVICE_LEDGERS
from placewright.instances.converters.kubernetes.further_ledgers import (
    CLAIMS,
    CONDITIONS,
    DELETED,
    FURTHER_LEDGERS,
    META_NO_EFFECT,
    META_NO_EFFECT_OF_DELETED,
    META_READ,
    prefixed,
)
from placewright.instances.converters.kubernetes.groups import COSCHEDULING, KAI, NATIVE, VOLCANO
from placewright.instances.converters.kubernetes.hyper_nodes import HYPER_NODE
from placewright.instances.converters.kubernetes.sources import Kind
from placewright.instances.converters.ledger import OTHERWISE, Ledger, Rule, Told

_POD_AFFINITY = Rule("pod-affinity", "required affinity to other pods is not read in full")
_POD_ANTI_AFFINITY = Rule("pod-anti-affinity", "anti-affinity to other pods is not read in full")
_SPREAD = Rule("topology-spread", "topology spread is not read in full")
BY_OTHER_PODS = {one.name: one for one in (_POD_AFFINITY, _POD_ANTI_AFFINITY, _SPREAD)}
"""Rules that pods make for each other: most of them are obeyed, and told where they are not."""

_WISHES = Rule("wishes", "preferred affinity, spread and taints are not read", hard=False)
_VOLUMES = Rule("volumes", "volumes and their zones are not read")
_NOMINATED = Rule("nominated", "the node that its scheduler has nominated is not read", hard=False)
_RESPONDERS = Rule("eviction-responders", "who answers evictions is not read", hard=False)
_SUBGROUPS = Rule("subgroups", "groups within the pod group are not read")
_TASK_MEMBERS = Rule("task-members", "the least number of pods per task is not read")
_COMPOSITE = Rule("composite-group", "the group that the pod group is in is not read")
_MIN_RUNTIME = Rule("min-runtime", "how long jobs are safe from preemption is not read")
_QUEUE_QUOTA = Rule(
    "queue-quota", "what its queue deserves of cores and memory is not read", hard=False
)
_DESERVED = {"-1": None, OTHERWISE: _QUEUE_QUOTA}
_CLOSED = Rule("queue-closed", "that its queue is closed is not read")
_QUEUE_ORDER = Rule("queue-order", "the order of its queue is not read", hard=False)
_QUEUE_NODES = Rule("queue-nodes", "to which nodes its queue is bound is not read")
_CHECKS = Rule("admission-checks", "what an admission check changes of its pods is not read")
_PREEMPTION = Rule("queue-preemption", "whom its queue may preempt is not read")
_FUNGIBILITY = Rule(
    "flavor-fungibility", "which flavor Kueue tries before others is not read", hard=False
)
_NEWER_EQUAL = Rule(
    "queue-preemption",
    "that its queue may preempt newer jobs of one priority is not read",
    hard=False,
)
_SUBGROUP_TOPOLOGY = Rule("subgroup-topology", "the topology of subgroups is not read")
_RECLAIMABLE = Rule("reclaimable-pods", "that some of its pods have ended is not read", hard=False)
_UNHEALTHY = Rule("unhealthy-nodes", "which of its nodes Kueue replaces is not read", hard=False)
_PREEMPTION_GATES = Rule("preemption-gates", "gates of preemption are not read")
_DELETED = Rule("deleted", "that it is being deleted is not read")
_REGEX = Rule("regex-members", "members by regular expression are not read", hard=False)

_VOLUME_KINDS = """
    awsElasticBlockStore azureDisk cephfs cinder csi ephemeral fc flexVolume flocker
    gcePersistentDisk glusterfs iscsi persistentVolumeClaim photonPersistentDisk portworxVolume
    quobyte rbd scaleIO storageos vsphereVolume
"""
_CONTAINER_NO_EFFECT = """
    args command env envFrom image imagePullPolicy lifecycle livenessProbe name readinessProbe
    resizePolicy restartPolicyRules securityContext startupProbe stdin stdinOnce
    terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts workingDir
    ports.hostIP ports.name
"""


_TEMPLATE_READ = """
    spec.containers.resources.requests spec.containers.resources.limits
    spec.containers.restartPolicy spec.containers.ports.hostPort spec.containers.ports.protocol
    spec.containers.ports.containerPort spec.initContainers.ports.containerPort spec.hostNetwork
    spec.initContainers.resources.requests spec.initContainers.resources.limits
    spec.initContainers.restartPolicy spec.initContainers.ports.hostPort
    spec.initContainers.ports.protocol
    spec.resources.requests spec.resources.limits spec.overhead spec.nodeName spec.nodeSelector
    spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
    spec.tolerations.key spec.tolerations.operator spec.tolerations.value spec.tolerations.effect
    spec.topologySpreadConstraints.labelSelector spec.topologySpreadConstraints.matchLabelKeys
    spec.topologySpreadConstraints.maxSkew spec.topologySpreadConstraints.minDomains
    spec.topologySpreadConstraints.nodeAffinityPolicy
    spec.topologySpreadConstraints.nodeTaintsPolicy spec.topologySpreadConstraints.topologyKey
    spec.priority spec.schedulingGates spec.schedulingGroup spec.activeDeadlineSeconds
"""
_TEMPLATE_NO_EFFECT = " ".join(
    (
        """
        spec.automountServiceAccountToken spec.dnsConfig spec.dnsPolicy spec.enableServiceLinks
        spec.ephemeralContainers spec.hostAliases spec.hostIPC spec.hostPID
        spec.hostUsers
        spec.hostname spec.hostnameOverride spec.imagePullSecrets spec.os
        spec.readinessGates spec.restartPolicy spec.runtimeClassName spec.schedulerName
        spec.securityContext spec.serviceAccount spec.serviceAccountName spec.setHostnameAsFQDN
        spec.shareProcessNamespace spec.subdomain spec.terminationGracePeriodSeconds
        spec.tolerations.tolerationSeconds
        spec.volumes.azureFile spec.volumes.configMap spec.volumes.downwardAPI
        spec.volumes.emptyDir spec.volumes.gitRepo spec.volumes.hostPath spec.volumes.image
        spec.volumes.name spec.volumes.nfs spec.volumes.projected spec.volumes.secret
        """,
        prefixed("spec.containers.", _CONTAINER_NO_EFFECT),
        prefixed("spec.initContainers.", _CONTAINER_NO_EFFECT),
    )
)
_TEMPLATE_TOLD: Mapping[str, Told] = {
    "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution": _WISHES,
    "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution": _POD_AFFINITY,
    "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution": _WISHES,
    "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution": (
        _POD_ANTI_AFFINITY
    ),
    "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution": _WISHES,
    "spec.topologySpreadConstraints.whenUnsatisfiable": {
        "DoNotSchedule": _SPREAD,
        "ScheduleAnyway": _WISHES,
    },
    "spec.containers.resources.claims": CLAIMS,
    "spec.initContainers.resources.claims": CLAIMS,
    "spec.resources.claims": CLAIMS,
    "spec.resourceClaims": CLAIMS,
    "spec.evictionResponders": _RESPONDERS,
    **{f"spec.volumes.{kind}": _VOLUMES for kind in _VOLUME_KINDS.split()},
}

POD = Ledger(
    "pods",
    f"""{META_READ} {DELETED} {_TEMPLATE_READ} spec.preemptionPolicy spec.priorityClassName
    status.phase status.startTime status.conditions status.extendedResourceClaimStatus
    status.containerStatuses.allocatedResources status.containerStatuses.resources""",
    f"""{META_NO_EFFECT_OF_DELETED} {_TEMPLATE_NO_EFFECT}
    status.allocatedResources status.ephemeralContainerStatuses
    status.containerStatuses.allocatedResourcesStatus status.containerStatuses.containerID
    status.containerStatuses.image status.containerStatuses.imageID
    status.containerStatuses.lastState status.containerStatuses.name
    status.containerStatuses.ready status.containerStatuses.restartCount
    status.containerStatuses.started status.containerStatuses.state
    status.containerStatuses.stopSignal status.containerStatuses.user
    status.containerStatuses.volumeMounts
    status.hostIP status.hostIPs status.initContainerStatuses status.message
    status.observedGeneration status.podIP status.podIPs status.qosClass status.reason
    status.resources status.volumeHealth status.resize""",
    {
        **_TEMPLATE_TOLD,
        "status.nominatedNodeName": _NOMINATED,
        "status.resourceClaimStatuses": CLAIMS,
        "status.nodeAllocatableResourceClaimStatuses": CLAIMS,
    },
)

NODE = Ledger(
    "nodes",
    f"""{META_READ} spec.unschedulable spec.taints.key spec.taints.value
    status.allocatable status.capacity status.conditions""",
    f"""{META_NO_EFFECT} spec.configSource spec.externalID spec.podCIDR spec.podCIDRs
    spec.providerID spec.taints.timeAdded status.addresses status.config
    status.daemonEndpoints status.declaredFeatures status.features status.images status.nodeInfo
    status.phase status.runtimeHandlers status.volumesAttached status.volumesInUse""",
    {
        "spec.taints.effect": {"PreferNoSchedule": _WISHES},
        "spec.podPreemptionPolicy": Rule(
            "node-preemption", "preemption for resizes of its pods is not read", hard=False
        ),
    },
)


_SET = "spec.podSets.template."
WORKLOAD = Ledger(
    "workloads",
    f"""{META_READ} {prefixed(_SET, _TEMPLATE_READ)}
    spec.active spec.maximumExecutionTimeSeconds spec.podSets.count spec.podSets.minCount
    spec.podSets.name spec.podSets.topologyRequest.podSetGroupName
    spec.podSets.topologyRequest.podSetSliceRequiredTopology
    spec.podSets.topologyRequest.podSetSliceSize spec.podSets.topologyRequest.preferred
    spec.podSets.topologyRequest.required spec.podSets.topologyRequest.unconstrained
    spec.priority spec.queueName
    status.admission.clusterQueue status.admission.podSetAssignments.count
    status.admission.podSetAssignments.flavors status.admission.podSetAssignments.name
    status.admission.podSetAssignments.topologyAssignment
    status.admission.podSetAssignments.resourceUsage
    status.admissionChecks.name status.admissionChecks.state status.conditions
    status.requeueState status.resourceRequests.resources status.clusterName spec.priorityClassName
    spec.priorityClassSource spec.priorityClassRef {_SET}metadata""",
    f"""{META_NO_EFFECT_OF_DELETED} {prefixed(_SET, _TEMPLATE_NO_EFFECT)}
    {_SET}spec.preemptionPolicy
    spec.podSets.topologyRequest.podIndexLabel spec.podSets.topologyRequest.subGroupCount
    spec.podSets.topologyRequest.subGroupIndexLabel
    {_SET}spec.priorityClassName
    status.accumulatedPastExexcutionTimeSeconds status.accumulatedPastExecutionTimeSeconds
    status.admission.podSetAssignments.delayedTopologyRequest
    status.admissionChecks.lastTransitionTime status.admissionChecks.message
    status.admissionChecks.requeueAfterSeconds status.admissionChecks.retryCount
    status.nominatedClusterNames status.preemptionGates status.resourceRequests.name
    status.schedulingStats""",
    {
        **{f"{_SET}{path}": told for path, told in _TEMPLATE_TOLD.items()},
        "spec.podSets.topologyRequest.podsetSliceRequiredTopologyConstraints": _SUBGROUP_TOPOLOGY,
        "spec.preemptionGates": _PREEMPTION_GATES,
        DELETED: _DELETED,
        "status.admissionChecks.podSetUpdates": _CHECKS,
        "status.reclaimablePods": _RECLAIMABLE,
        "status.unhealthyNodes": _UNHEALTHY,
    },
)

_QUOTA_READ = """
    spec.resourceGroups.flavors.name
    spec.resourceGroups.flavors.resources.name
    spec.resourceGroups.flavors.resources.nominalQuota
    spec.resourceGroups.flavors.resources.borrowingLimit
    spec.resourceGroups.flavors.resources.lendingLimit spec.fairSharing
"""
_QUOTA_STATUS = """
    status.admittedWorkloads status.flavorsReservation status.flavorsUsage
    status.flavorUsage status.flavors status.pendingWorkloads status.pendingWorkloadsStatus
    status.reservingWorkloads
"""
CLUSTER_QUEUE = Ledger(
    "cluster queues",
    f"""{META_READ} {DELETED} {_QUOTA_READ} spec.cohort spec.cohortName spec.stopPolicy
    status.conditions
    spec.namespaceSelector.matchLabels spec.namespaceSelector.matchExpressions
    spec.admissionChecks spec.admissionChecksStrategy.admissionChecks.name status.fairSharing
    spec.admissionChecksStrategy.admissionChecks.onFlavors
    spec.preemption.borrowWithinCohort spec.preemption.reclaimWithinCohort""",
    f"""{META_NO_EFFECT_OF_DELETED} status.observedGeneration {_QUOTA_STATUS}
    spec.concurrentAdmissionPolicy spec.resourceGroups.coveredResources""",
    {
        "spec.admissionScope": _QUEUE_ORDER,
        "spec.flavorFungibility.preference": _FUNGIBILITY,
        "spec.flavorFungibility.whenCanBorrow": {"TryNextFlavor": _FUNGIBILITY},
        "spec.flavorFungibility.whenCanPreempt": {
            "Preempt": _FUNGIBILITY,
            "MayStopSearch": _FUNGIBILITY,
        },
        "spec.preemption.withinClusterQueue": {"LowerOrNewerEqualPriority": _NEWER_EQUAL},
        "spec.queueingStrategy": {"StrictFIFO": _QUEUE_ORDER},
    },
)
COHORT = Ledger(
    "cohorts",
    f"{META_READ} {_QUOTA_READ} spec.parentName spec.parent status.fairSharing",
    f"{META_NO_EFFECT} {CONDITIONS} spec.resourceGroups.coveredResources",
)
LOCAL_QUEUE = Ledger(
    "local queues",
    f"{META_READ} {DELETED} spec.clusterQueue spec.stopPolicy status.conditions",
    f"{META_NO_EFFECT_OF_DELETED} status.observedGeneration status.fairSharing {_QUOTA_STATUS}",
    {"spec.fairSharing": _QUEUE_ORDER},
)
FLAVOR = Ledger(
    "flavors",
    f"""{META_READ} spec.nodeLabels spec.topologyName spec.tolerations.key
    spec.tolerations.operator spec.tolerations.value spec.tolerations.effect
    spec.nodeTaints.key spec.nodeTaints.value spec.nodeTaints.effect""",
    f"{META_NO_EFFECT} spec.tolerations.tolerationSeconds spec.nodeTaints.timeAdded",
)
NAMESPACE = Ledger("namespaces", META_READ, f"{META_NO_EFFECT} spec.finalizers status")
TOPOLOGY = Ledger(
    "topologies", f"{META_READ} spec.levels.nodeLabel spec.levels.alias", META_NO_EFFECT
)

_GROUP_READ = f"{META_READ} spec.queue spec.minMember"
_GROUP_STATUS = f"{CONDITIONS} status.phase status.running status.succeeded status.failed"
POD_GROUPS = {
    NATIVE: Ledger(
        "pod groups",
        f"""{META_READ} spec.schedulingPolicy spec.schedulingConstraints.topology.key
        spec.priority spec.priorityClassName
        spec.preemptionPolicy""",
        f"""{META_NO_EFFECT} {CONDITIONS} spec.workloadRef
        spec.disruptionMode status.resourceClaimStatuses""",
        {
            "spec.parentCompositePodGroupName": _COMPOSITE,
            "spec.resourceClaims": CLAIMS,
        },
    ),
    KAI: Ledger(
        "pod groups",
        f"""{_GROUP_READ} spec.priorityClassName spec.preemptibility
        spec.topologyConstraint.preferredTopologyLevel
        spec.topologyConstraint.requiredTopologyLevel""",
        f"""{META_NO_EFFECT} {CONDITIONS} spec.markUnschedulable
        spec.schedulingBackoff spec.stalenessGracePeriod spec.topologyConstraint.topology
        status.resourcesStatus status.schedulingConditions""",
        {
            "spec.minSubGroup": _SUBGROUPS,
            "spec.subGroups": _SUBGROUPS,
            "spec.preemptionDelay": _MIN_RUNTIME,
        },
    ),
    VOLCANO: Ledger(
        "pod groups",
        f"""{_GROUP_READ} spec.priorityClassName spec.networkTopology.highestTierAllowed
        spec.networkTopology.mode""",
        f"{META_NO_EFFECT} {_GROUP_STATUS} spec.minResources",
        {
            "spec.minTaskMember": _TASK_MEMBERS,
            "spec.subGroupPolicy": _SUBGROUPS,
            "spec.networkTopology.highestTierName": _SUBGROUP_TOPOLOGY,
        },
    ),
    COSCHEDULING: Ledger(
        "pod groups",
        _GROUP_READ,
        f"""{META_NO_EFFECT} {_GROUP_STATUS} spec.minResources spec.scheduleTimeoutSeconds
        status.scheduled status.occupiedBy status.scheduleStartTime""",
    ),
}
QUEUES = {
    KAI: Ledger(
        "queues",
        f"""{META_READ} spec.parentQueue spec.resources.gpu.limit spec.resources.gpu.quota
        spec.resources.gpu.overQuotaWeight spec.resources.cpu.limit
        spec.resources.memory.limit""",
        f"""{META_NO_EFFECT} {CONDITIONS} spec.displayName spec.resources.cpu.overQuotaWeight
        spec.resources.memory.overQuotaWeight status.allocated status.allocatedNonPreemptible
        status.childQueues status.requested""",
        {
            "spec.priority": _QUEUE_ORDER,
            "spec.preemptMinRuntime": _MIN_RUNTIME,
            "spec.reclaimMinRuntime": _MIN_RUNTIME,
            "spec.resources.cpu.quota": _DESERVED,
            "spec.resources.memory.quota": _DESERVED,
        },
    ),
    VOLCANO: Ledger(
        "queues",
        f"""{META_READ} spec.capability spec.deserved spec.guarantee.resource spec.parent
        spec.weight""",
        f"""{META_NO_EFFECT} {CONDITIONS} spec.type status.allocated status.completed
        status.inqueue status.pending status.reservation status.running status.unknown""",
        {
            "status.state": {"Closed": _CLOSED, "Closing": _CLOSED},
            "spec.affinity": _QUEUE_NODES,
            "spec.dequeueStrategy": _QUEUE_ORDER,
            "spec.extendClusters": _QUEUE_NODES,
            "spec.priority": _QUEUE_ORDER,
            "spec.reclaimable": _PREEMPTION,
        },
    ),
}
HYPER_NODES = Ledger(
    "hypernodes",
    f"""{META_READ} spec.members.type spec.members.selector.exactMatch
    spec.members.selector.labelMatch spec.tier""",
    f"{META_NO_EFFECT} {CONDITIONS} spec.tierName status.nodeCount",
    {"spec.members.selector.regexMatch": _REGEX},
)

LEDGERS: Mapping[Kind, Ledger] = {
    Kind("", "Node"): NODE,
    Kind("", "Pod"): POD,
    kr.WORKLOAD: WORKLOAD,
    kr.CLUSTER_QUEUE: CLUSTER_QUEUE,
    kr.COHORT: COHORT,
    kr.LOCAL_QUEUE: LOCAL_QUEUE,
    kr.FLAVOR: FLAVOR,
    kr.NAMESPACE: NAMESPACE,
    kr.TOPOLOGY: TOPOLOGY,
    Kind("kai.scheduler", "Topology"): TOPOLOGY,
    HYPER_NODE: HYPER_NODES,
    **{Kind(group, "PodGroup"): ledger for group, ledger in POD_GROUPS.items()},
    **{Kind(group, "Queue"): ledger for group, ledger in QUEUES.items()},
    **FURTHER_LEDGERS,
    **DEVICE_LEDGERS,
}
"""By the kind of object; what has no table is no object that a reader takes."""
