"""Ledger of fields of Kubernetes objects: what of each is read, has no effect, or is told."""

from __future__ import annotations

from collections.abc import Mapping

from placewright.instances.converters.kubernetes import groups as kr
from placewright.instances.converters.kubernetes.eligibility import HYPER_NODE
from placewright.instances.converters.kubernetes.groups import COSCHEDULING, KAI, NATIVE, VOLCANO
from placewright.instances.converters.kubernetes.sources import Kind
from placewright.instances.converters.ledger import OTHERWISE, Ledger, Rule, Told, expanded

PRIORITY_CLASS = Kind("scheduling.k8s.io", "PriorityClass")
QUEUE_CLASS = Kind("kueue.x-k8s.io", "WorkloadPriorityClass")
BUDGET = Kind("policy", "PodDisruptionBudget")
RUNTIME_CLASS = Kind("node.k8s.io", "RuntimeClass")
RESOURCE_QUOTA, LIMIT_RANGE = Kind("", "ResourceQuota"), Kind("", "LimitRange")
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
RUNTIME = Rule(
    "runtime-class", "what its RuntimeClass asks of nodes is not in the dump", hard=False
)
NAMESPACE_QUOTA = Rule("resource-quota", "a ResourceQuota of its namespace is not read in full")
EXCEEDED = Rule(
    "resource-quota", "that its ResourceQuota lets no pods be made anew is not read", hard=False
)
_RANGE = Rule("limit-range", "what its namespace lets a pod ask for (LimitRange) is not read")
_STARTUP = Rule("startup-order", "that some of its pods start after others is not read", hard=False)
_REMOTE = Rule("multikueue", "that another controller runs it is not read")


def prefixed(prefix: str, paths: str) -> str:
    """Return paths below another one."""
    return " ".join(f"{prefix}{path}" for path in expanded(paths))


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
    RUNTIME_CLASS: Ledger(
        "runtime classes",
        f"{META_READ} overhead.podFixed scheduling.nodeSelector scheduling.tolerations",
        f"{META_NO_EFFECT} handler",
    ),
    RESOURCE_QUOTA: Ledger(
        "resource quotas",
        f"{META_READ} spec.(hard scopes scopeSelector) status.used",
        f"{META_NO_EFFECT} status.hard",
    ),
    LIMIT_RANGE: Ledger(
        "limit ranges",
        META_READ,
        f"{META_NO_EFFECT} spec.limits.(default defaultRequest type)",
        {f"spec.limits.{name}": _RANGE for name in ("max", "min", "maxLimitRequestRatio")},
    ),
    JOB_SET: Ledger(
        "job sets",
        META_READ,
        f"""{META_NO_EFFECT} {CONDITIONS} spec.(coordinator failurePolicy network successPolicy
        suspend ttlSecondsAfterFinished volumeClaimPolicies)
        {prefixed("spec.replicatedJobs.", "groupName name replicas template")}
        status.(currentInPlaceRestartAttempt previousInPlaceRestartAttempt
        replicatedJobsStatus restarts restartsCountTowardsMax terminalState)""",
        {
            "spec.managedBy": {"jobset.sigs.k8s.io/jobset-controller": None, OTHERWISE: _REMOTE},
            "spec.replicatedJobs.dependsOn": _STARTUP,
            "spec.startupPolicy.startupPolicyOrder": {"InOrder": _STARTUP},
        },
    ),
    LEADER_WORKER_SET: Ledger(
        "leader-worker sets",
        META_READ,
        f"""{META_NO_EFFECT} {CONDITIONS} spec.(leaderWorkerTemplate networkConfig replicas
        rolloutStrategy) status.(hpaPodSelector readyReplicas replicas updatedReplicas)""",
        {"spec.startupPolicy": {"LeaderReady": _STARTUP}},
    ),
}


# Ledgers of claims of devices (DRA), their classes, and the slices that the devices are in.

CLAIM, CLAIM_TEMPLATE, SLICE, DEVICE_CLASS = (
    Kind("resource.k8s.io", name)
    for name in ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass")
)

_ASK = "deviceClassName count allocationMode"
_REQUEST_TOLD = "adminAccess capacity derivedAttributes selectors tolerations"
_DEVICE_NO_EFFECT = "capacity nodeAllocatableResources"
_DEVICE_TOLD = """
    allNodes allowMultipleAllocations consumesCounters bindingConditions bindsToNode
    bindingFailureConditions nodeName nodeSelector
"""


def _claim(spec: str, read: str = "", no_effect: str = "", told: str = "") -> Ledger:
    """Return the table of claims, in all versions, whose spec has a prefix."""
    of = f"{spec}devices.requests."
    asks = f"{prefixed(of, f'name {_ASK}')} {prefixed(f'{of}exactly.', _ASK)}"
    more = f"firstAvailable {_REQUEST_TOLD} {prefixed('exactly.', _REQUEST_TOLD)}"
    paths = (*prefixed(of, more).split(), f"{spec}devices.constraints", *told.split())
    return Ledger(
        "resource claims" if told else "templates of resource claims",
        f"{META_READ} {asks} {read}",
        f"{META_NO_EFFECT} {spec}devices.config {no_effect}",
        dict.fromkeys(paths, CLAIMS),
    )


DEVICE_LEDGERS: Mapping[Kind, Ledger] = {
    CLAIM: _claim(
        "spec.",
        prefixed("status.allocation.devices.results.", "driver pool device"),
        f"""{prefixed("status.allocation.devices.results.", "adminAccess bindingConditions")}
        {prefixed("status.allocation.devices.results.", "request tolerations")}
        status.allocation.devices.results.(bindingFailureConditions skipNodeOperations)
        status.allocation.devices.config status.allocation.(allocationTimestamp
        nodeSelector) status.(devices reservedFor)""",
        prefixed("status.allocation.devices.results.", "consumedCapacity shareID"),
    ),
    CLAIM_TEMPLATE: _claim("spec.spec.", no_effect="spec.metadata"),
    SLICE: Ledger(
        "resource slices",
        f"""{META_READ} spec.driver spec.nodeName spec.pool.name spec.pool.generation
        {prefixed("spec.devices.", "name attributes taints")}
        {prefixed("spec.devices.basic.", "attributes taints")}""",
        f"""{META_NO_EFFECT} spec.pool.resourceSliceCount spec.sharedCounters
        spec.partitionTypeAttribute spec.skipNodeOperations
        {prefixed("spec.devices.", _DEVICE_NO_EFFECT)}
        {prefixed("spec.devices.basic.", _DEVICE_NO_EFFECT)}""",
        dict.fromkeys(
            f"""spec.allNodes spec.nodeSelector spec.perDeviceNodeSelection
            {prefixed("spec.devices.", _DEVICE_TOLD)}
            {prefixed("spec.devices.basic.", _DEVICE_TOLD)}""".split(),
            Rule("shared-devices", "devices that are not of one node and one pod are not read"),
        ),
    ),
    DEVICE_CLASS: Ledger(
        "device classes",
        f"{META_READ} spec.selectors spec.extendedResourceName",
        f"{META_NO_EFFECT} spec.config spec.suitableNodes",
    ),
}


# Ledger of fields of Kubernetes objects: what of each is read, has no effect, or is told.

_POD_AFFINITY = Rule("pod-affinity", "required affinity to other pods is not read in full")
_POD_ANTI_AFFINITY = Rule("pod-anti-affinity", "anti-affinity to other pods is not read in full")
_SPREAD = Rule("topology-spread", "topology spread is not read in full")
BY_OTHER_PODS = {one.name: one for one in (_POD_AFFINITY, _POD_ANTI_AFFINITY, _SPREAD)}
"""Rules that pods make for each other: most of them are obeyed, and told where they are not."""

_WISHES = Rule("wishes", "preferred affinity, spread and taints are not read", hard=False)
_SCHEDULER = Rule("scheduler", "the rules of its scheduler are not read", hard=False)
_HOST_IP = Rule("host-ip", "of which address of the node a port is, is not read", hard=False)
_VOLUMES = Rule("volumes", "volumes and their zones are not read")
_NOMINATED = Rule("nominated", "the node that its scheduler has nominated is not read", hard=False)
_RESPONDERS = Rule("eviction-responders", "who answers evictions is not read", hard=False)
_SUBGROUPS = Rule("subgroups", "groups within the pod group are not read")
_TASK_MEMBERS = Rule("task-members", "the least number of pods per task is not read")
NO_GROUP = Rule("group-missing", "its pod group is not in the dump")
ONE_BY_ONE = Rule(
    "one-by-one", "that its scheduler starts pods one by one, no gang, is not read", hard=False
)
NO_CLASS = Rule("class-missing", "its priority class is not in the dump", hard=False)
_COMPOSITE = Rule("composite-group", "the group that the pod group is in is not read")
_MIN_RUNTIME = Rule("min-runtime", "how long jobs are safe from preemption is not read")
_QUEUE_QUOTA = Rule(
    "queue-quota", "what its queue deserves of cores and memory is not read", hard=False
)
_DESERVED = {"-1": None, OTHERWISE: _QUEUE_QUOTA}
_CLOSED = Rule("queue-closed", "that its queue is closed is not read")
_QUEUE_ORDER = Rule("queue-order", "the order of its queue is not read", hard=False)
_IN_TURN = Rule("strict-fifo", "that its queue starts nobody before those ahead of it is not read")
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
SUBGROUP_TOPOLOGY = Rule("subgroup-topology", "the topology of subgroups is not read")
TOPOLOGY_LEVEL = Rule("topology-level", "topology by a label that is no level is not read")
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
    ports.name
"""


_TEMPLATE_READ = """
    spec.containers.resources.(requests limits) spec.containers.restartPolicy
    spec.containers.ports.(hostPort protocol containerPort)
    spec.initContainers.ports.(containerPort hostPort protocol) spec.(hostNetwork overhead
    nodeName nodeSelector priority schedulingGates schedulingGroup activeDeadlineSeconds)
    spec.initContainers.resources.(requests limits) spec.initContainers.restartPolicy
    spec.resources.(requests limits) spec.runtimeClassName
    spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
    spec.tolerations.(key operator value effect)
    spec.topologySpreadConstraints.(labelSelector matchLabelKeys maxSkew minDomains
    nodeAffinityPolicy nodeTaintsPolicy topologyKey)
"""
_TEMPLATE_NO_EFFECT = " ".join(
    (
        """
    spec.(automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks
    ephemeralContainers hostAliases hostIPC hostPID hostUsers hostname hostnameOverride
    imagePullSecrets os readinessGates restartPolicy
    securityContext serviceAccount serviceAccountName setHostnameAsFQDN
    shareProcessNamespace subdomain terminationGracePeriodSeconds)
    spec.tolerations.tolerationSeconds spec.volumes.(azureFile configMap downwardAPI
    emptyDir gitRepo hostPath image name nfs projected secret)
""",
        prefixed("spec.containers.", _CONTAINER_NO_EFFECT),
        prefixed("spec.initContainers.", _CONTAINER_NO_EFFECT),
    )
)
_BY_ADDRESS: Told = {"0.0.0.0": None, "::": None, OTHERWISE: _HOST_IP}  # noqa: S104
_SCHEDULERS = ("default-scheduler", "kai-scheduler", "volcano", "scheduler-plugins-scheduler")
"""Those whose rules are read, by the names that they have where nobody gives them another."""

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
    "spec.containers.ports.hostIP": _BY_ADDRESS,
    "spec.initContainers.ports.hostIP": _BY_ADDRESS,
    "spec.schedulerName": {**dict.fromkeys(_SCHEDULERS), OTHERWISE: _SCHEDULER},
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
    f"""{META_NO_EFFECT_OF_DELETED} {_TEMPLATE_NO_EFFECT} status.(allocatedResources
    ephemeralContainerStatuses hostIP hostIPs initContainerStatuses message
    observedGeneration podIP podIPs qosClass reason resources volumeHealth resize)
    status.containerStatuses.(allocatedResourcesStatus containerID image imageID lastState
    name ready restartCount started state stopSignal user volumeMounts)""",
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
    f"""{META_NO_EFFECT} spec.(configSource externalID podCIDR podCIDRs providerID)
    spec.taints.timeAdded status.(addresses config daemonEndpoints declaredFeatures features
    images nodeInfo phase runtimeHandlers volumesAttached volumesInUse)""",
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
    f"""{META_READ} {prefixed(_SET, _TEMPLATE_READ)} spec.(active maximumExecutionTimeSeconds
    priority queueName priorityClassName priorityClassSource priorityClassRef)
    spec.podSets.(count minCount name) spec.podSets.topologyRequest.(podSetGroupName
    podSetSliceRequiredTopology podSetSliceSize preferred required unconstrained)
    status.admission.clusterQueue status.admission.podSetAssignments.(count flavors name
    topologyAssignment resourceUsage) status.admissionChecks.(name state) status.(conditions
    requeueState clusterName) status.resourceRequests.resources {_SET}metadata""",
    f"""{META_NO_EFFECT_OF_DELETED} {prefixed(_SET, _TEMPLATE_NO_EFFECT)}
    {_SET}spec.preemptionPolicy spec.podSets.topologyRequest.(podIndexLabel subGroupCount
    subGroupIndexLabel) {_SET}spec.priorityClassName
    status.(accumulatedPastExexcutionTimeSeconds accumulatedPastExecutionTimeSeconds
    nominatedClusterNames preemptionGates schedulingStats)
    status.admission.podSetAssignments.delayedTopologyRequest
    status.admissionChecks.(lastTransitionTime message requeueAfterSeconds retryCount)
    status.resourceRequests.name""",
    {
        **{f"{_SET}{path}": told for path, told in _TEMPLATE_TOLD.items()},
        "spec.podSets.topologyRequest.podsetSliceRequiredTopologyConstraints": SUBGROUP_TOPOLOGY,
        "spec.preemptionGates": _PREEMPTION_GATES,
        DELETED: _DELETED,
        "status.admissionChecks.podSetUpdates": _CHECKS,
        "status.reclaimablePods": _RECLAIMABLE,
        "status.unhealthyNodes": _UNHEALTHY,
    },
)

_QUOTA_READ = """
    spec.resourceGroups.flavors.name spec.resourceGroups.flavors.resources.(name
    nominalQuota borrowingLimit lendingLimit) spec.fairSharing
"""
_QUOTA_STATUS = """
    status.(admittedWorkloads flavorsReservation flavorsUsage flavorUsage flavors
    pendingWorkloads pendingWorkloadsStatus reservingWorkloads)
"""
CLUSTER_QUEUE = Ledger(
    "cluster queues",
    f"""{META_READ} {DELETED} {_QUOTA_READ} spec.(cohort cohortName stopPolicy admissionChecks)
    status.(conditions fairSharing) spec.namespaceSelector.(matchLabels matchExpressions)
    spec.queueingStrategy spec.admissionChecksStrategy.admissionChecks.(name onFlavors)
    spec.preemption.(borrowWithinCohort reclaimWithinCohort)""",
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
    f"""{META_READ} spec.(nodeLabels topologyName) spec.tolerations.(key operator value effect)
    spec.nodeTaints.(key value effect)""",
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
        f"""{META_READ} spec.(schedulingPolicy priority priorityClassName preemptionPolicy)
        spec.schedulingConstraints.topology.key""",
        f"""{META_NO_EFFECT} {CONDITIONS} spec.workloadRef
        spec.disruptionMode status.resourceClaimStatuses""",
        {
            "spec.parentCompositePodGroupName": _COMPOSITE,
            "spec.resourceClaims": CLAIMS,
        },
    ),
    KAI: Ledger(
        "pod groups",
        f"""{_GROUP_READ} spec.(priorityClassName preemptibility)
        spec.topologyConstraint.(preferredTopologyLevel requiredTopologyLevel)""",
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
        f"""{_GROUP_READ} spec.priorityClassName spec.networkTopology.(highestTierAllowed mode)""",
        f"{META_NO_EFFECT} {_GROUP_STATUS} spec.minResources",
        {
            "spec.minTaskMember": _TASK_MEMBERS,
            "spec.subGroupPolicy": _SUBGROUPS,
            "spec.networkTopology.highestTierName": SUBGROUP_TOPOLOGY,
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
        f"""{META_READ} spec.parentQueue spec.resources.gpu.(limit quota overQuotaWeight)
        spec.resources.cpu.limit spec.resources.memory.limit""",
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
        f"""{META_READ} spec.(capability deserved parent weight) spec.guarantee.resource""",
        f"""{META_NO_EFFECT} {CONDITIONS} spec.type status.allocated status.completed
        status.inqueue status.pending status.reservation status.running status.unknown""",
        {
            "status.state": {"Closed": _CLOSED, "Closing": _CLOSED},
            "spec.affinity": _QUEUE_NODES,
            "spec.dequeueStrategy": {"traverse": None, OTHERWISE: _IN_TURN},
            "spec.extendClusters": _QUEUE_NODES,
            "spec.priority": _QUEUE_ORDER,
            "spec.reclaimable": _PREEMPTION,
        },
    ),
}
HYPER_NODES = Ledger(
    "hypernodes",
    f"""{META_READ} spec.members.type spec.members.selector.(exactMatch labelMatch) spec.tier""",
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
