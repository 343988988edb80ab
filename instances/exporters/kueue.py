"""A plan for Workloads of Kueue.

Where a flavor has a Topology, Kueue says itself on which nodes pods go: the template of the
suspended Job gets the planned nodes as affinity, and the Workload is deleted, so that Kueue makes
it anew and assigns these nodes. Otherwise the check `placewright` of the Workload is answered with
a node selector for each pod set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Task
from placewright.instances.documents.quantities import small_number
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import (
    KUBERNETES_AFFINITY,
    KUBERNETES_CHECK,
    KUBERNETES_LEVELS,
    KUBERNETES_OWNER,
    KUBERNETES_POD_SETS,
    KUBERNETES_TOPOLOGY,
    OWN_CHECK,
)
from placewright.instances.exporters.kubernetes import (
    WORKLOAD,
    Call,
    Hostnames,
    ObjectsOf,
    PodCalls,
    Script,
    delete,
    patch,
    test,
    time_text,
)

HOSTNAME = "kubernetes.io/hostname"
_JOB = ("batch/v1", "Job")


def kueue_script(round_: Round, plan: Plan) -> Script:
    """Return the calls of kubectl by which Kueue admits what a valid plan starts, where it says.

    Pods that stop for these workloads alone are deleted first. What cannot be said is counted and
    left out, also jobs and hosts with names that Kubernetes cannot have.
    """
    return _WorkloadCalls(round_, plan).script()


def topology_assignments(round_: Round, plan: Plan) -> dict[str, Any]:
    """Return where the plan puts each pod set, as the TopologyAssignment that Kueue would write.

    For comparison only: the status of a Workload is Kueue's own.

    Returns
    -------
    By `namespace/name` of each Workload that starts, its pod sets with an assignment of v1beta2.
    """
    hostnames = Hostnames(round_)
    jobs = {job.name: ObjectsOf(job, at) for at, job in enumerate(round_.jobs)}
    return {
        f"{jobs[one.job].namespace}/{jobs[one.job].name}": {
            name: _assignment([hostnames.of(task.host) for task in tasks])
            for name, tasks in _pod_sets(jobs[one.job], one).items()
        }
        for one in plan.decisions
        if one.decision is DecisionKind.START and jobs[one.job].kind == WORKLOAD
    }


class _WorkloadCalls(PodCalls):
    of_kueue = True
    elsewhere = "jobs that stop for others than workloads of Kueue: export kubernetes"

    def start(self, objects: ObjectsOf, decision: Decision) -> Iterator[Call]:
        if objects.kind != WORKLOAD:
            self.cannot_say("jobs that are not Kueue's: export kubernetes", decision.job)
        elif objects.text(KUBERNETES_TOPOLOGY) == "yes":
            yield from self._as_affinity(objects, decision)
        else:
            yield from self._as_answer(objects, decision)

    def _as_affinity(self, objects: ObjectsOf, decision: Decision) -> Iterator[Call]:
        owner = (
            objects.text(f"{KUBERNETES_OWNER}api-version"),
            objects.text(f"{KUBERNETES_OWNER}kind"),
        )
        if owner != _JOB:
            self.cannot_say("jobs of other kinds than Job of batch/v1", decision.job)
            return
        if objects.text(KUBERNETES_AFFINITY) == "yes":
            self.cannot_say("jobs with an affinity of their own", decision.job)
            return
        hosts = [self.hostnames.of(task.host) for task in decision.tasks]
        if len(set(Counter(hosts).values())) > 1:
            self.cannot_say("how many pods go to each node, where they differ", decision.job)
        job = objects.name_at(f"{KUBERNETES_OWNER}name")
        nodes = sorted(set(hosts))
        operations = [
            test("/metadata/uid", objects.uid_at(f"{KUBERNETES_OWNER}uid")),
            test("/spec/suspend", True),
            {"op": "add", "path": "/spec/template/spec/affinity", "value": _affinity(nodes)},
        ]
        where = ", ".join(nodes)
        space = objects.namespace
        yield patch("job", space, job, operations, f"let {space}/{job} go to {where} only")
        yield delete(
            f"apis/{objects.version}",
            space,
            "workloads",
            objects.name,
            objects.uid,
            f"let Kueue make {space}/{objects.name} anew",
        )

    def _as_answer(self, objects: ObjectsOf, decision: Decision) -> Iterator[Call]:
        at = small_number(objects.text(KUBERNETES_CHECK))
        if at is None:
            self.cannot_say(f"Workloads without the check {OWN_CHECK}", decision.job)
            return
        updates = []
        for name, tasks in _pod_sets(objects, decision).items():
            selector = self._selector(tasks)
            if selector is None:
                self.cannot_say("pod sets on nodes that no label has in common", decision.job)
                return
            if HOSTNAME not in selector:
                self.cannot_say("on which nodes of a domain pods go", decision.job)
            updates.append({"name": name, "nodeSelector": selector})
        path, now = f"/status/admissionChecks/{at}", time_text(self.round.now)
        operations = [
            test("/metadata/uid", objects.uid),
            test(f"{path}/name", OWN_CHECK),
            test(f"{path}/state", "Pending"),
            {"op": "add", "path": f"{path}/podSetUpdates", "value": updates},
            {"op": "add", "path": f"{path}/message", "value": "placed by Placewright"},
            {"op": "add", "path": f"{path}/lastTransitionTime", "value": now},
            {"op": "replace", "path": f"{path}/state", "value": "Ready"},
        ]
        does = f"answer the check of {objects.namespace}/{objects.name}"
        yield patch(
            "workload", objects.namespace, objects.name, operations, does, subresource="status"
        )

    def _selector(self, tasks: Sequence[Task]) -> dict[str, str] | None:
        """Return the label that all hosts of some tasks have in common, of the innermost domain."""
        hosts = {task.host for task in tasks}
        if len(hosts) == 1:
            return {HOSTNAME: self.hostnames.of(next(iter(hosts)))}
        keys = self.round.annotations.get(KUBERNETES_LEVELS, "").split(",")
        if len(keys) != len(self.round.cluster.levels):
            return None
        key_of = dict(zip(self.round.cluster.levels, keys, strict=True))
        domains = {domain.name: domain for domain in self.round.cluster.domains}
        ats = {host.parent for host in self.round.cluster.hosts if host.name in hosts}
        while len(ats) > 1:
            ats = {None if at is None else domains[at].parent for at in ats}
        (at,) = ats
        if at is None:
            return None
        domain = domains[at]
        label = at if domain.parent is None else at.removeprefix(f"{domain.parent}/")
        if label.startswith("@") or ":" in label:  # stands for a label that is missing or too long
            return None
        return {key_of[domain.level]: label}


def _pod_sets(objects: ObjectsOf, decision: Decision) -> dict[str, list[Task]]:
    """Return the tasks of each pod set that gets some."""
    names = objects.names_at(KUBERNETES_POD_SETS)
    found: dict[str, list[Task]] = {}
    for task in decision.tasks:
        found.setdefault(names[min(task.group, len(names) - 1)], []).append(task)
    return found


def _affinity(nodes: Sequence[str]) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": list(nodes)}]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _assignment(hosts: Sequence[str]) -> dict[str, Any]:
    counts = Counter(sorted(hosts))
    names, numbers = list(counts), list(counts.values())
    values: dict[str, Any] = (
        {"universal": names[0]} if len(names) == 1 else {"individual": {"roots": names}}
    )
    pods: dict[str, Any] = (
        {"universal": numbers[0]} if len(set(numbers)) == 1 else {"individual": numbers}
    )
    part = {"domainCount": len(names), "podCounts": pods, "valuesPerLevel": [values]}
    return {"levels": [HOSTNAME], "slices": [part]}
