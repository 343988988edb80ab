"""A plan for KAI Scheduler: a BindRequest per pod, which its binder would carry out.

Untried on a running KAI: two writers of BindRequests disagree, so its scheduler would have to leave
these pods alone.
"""

from __future__ import annotations

from typing import Any

from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.exporters.kubernetes_objects import Hostnames, ObjectsOf
from placewright.topology.units import WHOLE_GPU

UNTRIED = "placewright.dev/untried"


def bind_requests(round_: Round, plan: Plan) -> tuple[dict[str, Any], list[str]]:
    """Return a List of BindRequests of the pods that start, and jobs whose pods are not known.

    Raises
    ------
    InvalidInputError
        A job or host lacks the annotations of `convert kubernetes`, or has a name that Kubernetes
        cannot have.
    """
    hostnames = Hostnames(round_)
    jobs = {job.name: ObjectsOf(job, at) for at, job in enumerate(round_.jobs)}
    items, unknown = [], []
    for decision in plan.decisions:
        if decision.decision is not DecisionKind.START:
            continue
        objects = jobs[decision.job]
        option = objects.job.options[decision.option or 0]
        pods = [objects.pod_of(task) for task in decision.tasks]
        if None in pods:
            unknown.append(decision.job)
            continue
        for task, pod in zip(decision.tasks, pods, strict=True):
            if pod is None:
                continue
            count = option.groups[task.group].gpu // WHOLE_GPU
            items.append(
                {
                    "apiVersion": "scheduling.run.ai/v1alpha2",
                    "kind": "BindRequest",
                    "metadata": {
                        "name": pod.name,
                        "namespace": objects.namespace,
                        "annotations": {UNTRIED: "true"},
                        "labels": {"pod-name": pod.name},
                    },
                    "spec": {
                        "podName": pod.name,
                        "selectedNode": hostnames.of(task.host),
                        "receivedResourceType": "Regular",
                        "receivedGPU": {"count": count, "portion": "1"},
                    },
                }
            )
    return {"apiVersion": "v1", "kind": "List", "items": items}, unknown
