"""A plan for KAI Scheduler: a BindRequest per pod, which its binder would carry out.

Untried on a running KAI: two writers of BindRequests disagree, so its scheduler would have to leave
these pods alone.
"""

from __future__ import annotations

from typing import Any

from placewright.instances.documents.plan import Decision, DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.exporters.kubernetes import ODD
from placewright.instances.exporters.kubernetes_objects import Hostnames, ObjectsOf
from placewright.instances.exporters.needs import Needs, stopping
from placewright.topology.units import WHOLE_GPU

UNTRIED = "placewright.dev/untried"


def bind_requests(round_: Round, plan: Plan) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return a List of BindRequests of the pods that start, and what it cannot say, with the jobs.

    Nothing is told to stop, so that jobs that need this are left out, as are those with names that
    Kubernetes cannot have.
    """
    hostnames = Hostnames(round_)
    jobs = {job.name: ObjectsOf(job, at) for at, job in enumerate(round_.jobs)}
    starts = {one.job: one for one in plan.decisions if one.decision is DecisionKind.START}
    needs = Needs(round_, plan, stops=stopping(plan), starts=starts)
    items: list[dict[str, Any]] = []
    unsaid: dict[str, list[str]] = {}
    for name, decision in starts.items():
        what = "jobs for which others stop"
        if not needs.of[name]:
            try:
                requests = _requests(jobs[name], decision, hostnames)
                what = "" if requests else "jobs whose pods are not known"
                items += requests
            except InvalidInputError:
                what = ODD
        if what:
            unsaid.setdefault(what, []).append(name)
    return {"apiVersion": "v1", "kind": "List", "items": items}, unsaid


def _requests(objects: ObjectsOf, decision: Decision, hostnames: Hostnames) -> list[dict[str, Any]]:
    """Return a request for each pod of a job, none if one of them is not known."""
    option = objects.job.options[decision.option or 0]
    found = []
    for task in decision.tasks:
        pod = objects.pod_of(task)
        if pod is None:
            return []
        count = option.groups[task.group].gpu // WHOLE_GPU
        found.append(
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
    return found
