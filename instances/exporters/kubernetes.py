"""A plan for pods of Kubernetes: their gate goes in the patch that says on which node they run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from placewright.instances.documents.plan import Decision, DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import OWN_GATE
from placewright.instances.exporters.kubectl import Call, Script, delete, patch, script, test
from placewright.instances.exporters.kubernetes_objects import (
    Hostnames,
    ObjectsOf,
    PodOf,
    waiting_event,
)

WORKLOAD = "Workload"
_HOSTNAME = "/spec/nodeSelector/kubernetes.io~1hostname"


def kubernetes_script(round_: Round, plan: Plan) -> Script:
    """Return the calls of kubectl that carry a valid plan out.

    First pods of jobs that are preempted or move are deleted, in the order of the moves; then pods
    that start are sent to their nodes, and last Events say why jobs wait. What makes a deleted pod
    anew makes it with the gate, so that the next plan places it.

    Raises
    ------
    InvalidInputError
        A job or host lacks the annotations of `convert kubernetes`, or has a name that Kubernetes
        cannot have.
    """
    made = _Calls(round_, Hostnames(round_))
    return script([*made.of(plan)], made.unsaid)


@dataclass
class _Calls:
    round: Round
    hostnames: Hostnames
    unsaid: dict[str, list[str]] = field(default_factory=dict)

    def of(self, plan: Plan) -> Iterator[Call]:
        objects = {job.name: ObjectsOf(job, at) for at, job in enumerate(self.round.jobs)}
        decisions = {one.job: one for one in plan.decisions}
        for name in in_order_of_moves(plan):
            yield from self._stop(objects[name], decisions[name])
        for decision in plan.decisions:
            if decision.decision is DecisionKind.START:
                yield from self._start(objects[decision.job], decision)
        for decision in plan.decisions:
            if decision.decision is DecisionKind.WAIT:
                event = waiting_event(objects[decision.job], decision, self.round.now)
                if event is not None:
                    yield event

    def _stop(self, objects: ObjectsOf, decision: Decision) -> Iterator[Call]:
        name = decision.job
        moves = decision.decision is DecisionKind.MIGRATE
        if objects.kind == WORKLOAD or not objects.pods:
            self._cannot_say("jobs of Kueue that stop or move", name)
            return
        if moves:
            self._cannot_say("where pods go that are made anew: the next plan says it", name)
        why = "which moves" if moves else f"for {', '.join(decision.displaced_by)}"
        for pod in objects.pods.values():
            does = f"delete {objects.namespace}/{pod.name} of {name}, {why}"
            yield delete("api/v1", objects.namespace, "pods", pod.name, pod.uid, does)

    def _start(self, objects: ObjectsOf, decision: Decision) -> Iterator[Call]:
        if objects.kind == WORKLOAD and not objects.pods:
            self._cannot_say("jobs that Kueue admits: export kueue", decision.job)
            return
        calls = []
        for task in decision.tasks:
            pod = objects.pod_of(task)
            if pod is None or pod.gate is None:
                self._cannot_say(f"pods without the gate {OWN_GATE}", decision.job)
                return
            host = self.hostnames.of(task.host)
            does = f"send {objects.namespace}/{pod.name} to {task.host}"
            operations = release(pod, pod.gate, host)
            calls.append(patch("pod", objects.namespace, pod.name, operations, does))
        self._cannot_say("which GPUs of a node", decision.job)
        yield from calls

    def _cannot_say(self, what: str, job: str) -> None:
        self.unsaid.setdefault(what, []).append(job)


def in_order_of_moves(plan: Plan) -> list[str]:
    """Return the jobs that stop or move, in the order of the plan's section `moves`."""
    section = next((one for one in plan.sections if one["kind"] == "moves"), None)
    if section is None:
        return []
    return [*section["steps"], *section["needs_spare"]]


def release(pod: PodOf, gate: int, host: str) -> list[dict[str, Any]]:
    """Return the patch that sends a gated pod to a node and takes our gate away.

    The server refuses a second change of the node selector, so both are done at once.
    """
    place = (
        {"op": "add", "path": _HOSTNAME, "value": host}
        if pod.has_selector
        else {"op": "add", "path": "/spec/nodeSelector", "value": {"kubernetes.io/hostname": host}}
    )
    return [
        test("/metadata/uid", pod.uid),
        test(f"/spec/schedulingGates/{gate}/name", OWN_GATE),
        place,
        {"op": "remove", "path": f"/spec/schedulingGates/{gate}"},
    ]
