"""Keys of the annotations by which a round says what its jobs and hosts are in their source."""

from __future__ import annotations

from typing import Final

OWN_GATE: Final = "placewright.dev/plan"
"""The scheduling gate of pods that wait for a plan of ours."""

OWN_CHECK: Final = "placewright"
"""The name of the AdmissionCheck by which Kueue asks for a plan of ours."""

SOURCE: Final = "source"
"""Of a round: `slurm`, `kubernetes`, `ray` or `hived`."""

BOOKKEEPING: Final = "bookkeeping"
"""Of a round: what of the source is in it, what is left out, and what it cannot say, as JSON."""

ALSO: Final = "also"
"""Of a job: other names by which people know it, as a JSON list: of its owners, groups, array."""

HELD: Final = "held"
"""Of a job that is held: why, in words that go after "the job is held:"."""

LEAVES: Final = "leaves"
"""Of a running job that its scheduler is about to stop: why, in words that go after "since"."""

SLURM_JOB: Final = "slurm/job"
"""Of a job: its number, as commands take it: `17`, of a task of an array `17_3`."""

SLURM_COMPONENTS: Final = "slurm/components"
"""Of a heterogeneous job: the number of the component of each task group, separated by commas."""

SLURM_USER: Final = "slurm/user"
"""Of a job: the name of its user."""

SLURM_OURS: Final = "slurm/ours"
"""Of a job: fields that a plan of ours had set, separated by commas, as `scontrol update` has them:
`NumNodes`, `ReqNodeList`, `ReservationName`. `Hold`: a plan of ours released it from our hold."""

SLURM_ASKED: Final = "slurm/asked"
"""Of a job: what its user asks for in fields that a plan may set, as `scontrol update` has it:
`NumNodes=2-4 ReqNodeList=h1`."""

WAITING_PART: Final = ":waiting"
"""What the name of a job ends with that is the rest of a gang of which some pods run."""

SLURM_PREEMPT: Final = "slurm/preempt"
"""Of a running job that may be preempted: `requeue` or `cancel`, and after a comma the seconds that
it has to end by itself."""

KUBERNETES_KIND: Final = "kubernetes/kind"
"""Of a job: `Workload`, `PodGroup`, `Job` or `Pod`; none if a label alone makes its gang."""

KUBERNETES_BY: Final = "kubernetes/by"
"""Of a job: the API group of its object, or the label that makes its gang, or `Job` or `Pod`."""

KUBERNETES_NAMESPACE: Final = "kubernetes/namespace"
KUBERNETES_NAME: Final = "kubernetes/name"
KUBERNETES_UID: Final = "kubernetes/uid"
"""Of a job (its object) and of a host (its node)."""

KUBERNETES_HOSTNAME: Final = "kubernetes/hostname"
"""Of a host: the label `kubernetes.io/hostname` of its node."""

KUBERNETES_OWNER: Final = "kubernetes/owner-"
"""Of a job: begins `api-version`, `kind`, `name`, `uid` of the controller of its object."""

KUBERNETES_PODS: Final = "kubernetes/pods/"
"""Of a job: begins the names of the pods of a task group, in the order of tasks; then its index."""

KUBERNETES_POD_UIDS: Final = "kubernetes/pod-uids/"
"""Of a job: the uids of the same pods."""

KUBERNETES_POD_SETS: Final = "kubernetes/pod-sets"
"""Of a job of a Workload: the name of the pod set of each task group, separated by commas."""

KUBERNETES_VERSION: Final = "kubernetes/api-version"
"""Of a job: that of its object."""

KUBERNETES_GATES: Final = "kubernetes/gates/"
"""Of a job: begins where the gate `placewright.dev/plan` stands among those of each pod, or `-`."""

KUBERNETES_SELECTORS: Final = "kubernetes/selectors/"
"""Of a job: begins whether each pod has a node selector, `yes` or `no`."""

KUBERNETES_TOPOLOGY: Final = "kubernetes/topology"
"""Of a job of a Workload: `yes` if a Topology is that of its flavors, so that Kueue places it."""

KUBERNETES_AFFINITY: Final = "kubernetes/affinity"
"""Of a job of a Workload: `yes` if the template of a pod set has an affinity of its own."""

KUBERNETES_CHECK: Final = "kubernetes/check"
"""Of a job of a Workload: where the check `placewright` stands among those of its status."""

KUBERNETES_LEVELS: Final = "kubernetes/levels"
"""Of a round: the label keys of its levels, outermost first, separated by commas."""

KUBERNETES_TENANTS: Final = "kubernetes/tenants"
"""Of a round: `kueue` if its tenants are ClusterQueues."""

RAY_NODE: Final = "ray/node-id"
"""Of a host: the id of its node."""

RAY_GROUP: Final = "ray/placement-group"
"""Of a job: the id of its placement group."""

RAY_BUNDLES: Final = "ray/bundles/"
"""Of a job: begins the indices of the bundles of a task group, in the order of tasks."""
