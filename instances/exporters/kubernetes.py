"""A plan for pods of Kubernetes: their gate goes in the patch that says on which node they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, ClassVar

from placewright.instances.documents.plan import Decision, DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import OWN_GATE
from placewright.instances.errors import InvalidInputError
from placewright.instances.exporters.kubectl import (
    Call,
    Script,
    delete,
    in_order,
    patch,
    script,
    test,
)
from placewright.instances.exporters.kubernetes_objects import (
    Hostnames,
    ObjectsOf,
    PodOf,
    waiting_event,
)
from placewright.instances.exporters.needs import VAIN, Needs, stopping

ODD = "jobs or hosts with names that Kubernetes cannot have"
WORKLOAD = "Workload"
ELSEWHERE = ": export "
"""What is counted and has this is said by another script."""

_HOSTNAME = "/spec/nodeSelector/kubernetes.io~1hostname"


def kubernetes_script(round_: Round, plan: Plan) -> Script:
    """Return the calls of kubectl that carry a valid plan out.

    First pods of jobs that are preempted or move are deleted, in the order of the moves; then pods
    that start are sent to their nodes, and last Events say why jobs wait. What makes a deleted pod
    anew makes it with the gate, so that the next plan places it. What cannot be said is counted and
    left out, also jobs and hosts with names that Kubernetes cannot have.
    """
    return PodCalls(round_, plan).script()


class PodCalls:
    """Calls about the pods of a plan, and what cannot be said, with the jobs that it is about.

    Pods that stop for workloads of Kueue alone are left to the calls about these.
    """

    of_kueue: ClassVar = False
    elsewhere: ClassVar = "jobs that stop for workloads of Kueue: export kueue"

    def __init__(self, round_: Round, plan: Plan) -> None:
        self.round, self.hostnames = round_, Hostnames(round_)
        self.unsaid: dict[str, list[str]] = {}
        self._objects = {job.name: ObjectsOf(job, at) for at, job in enumerate(round_.jobs)}
        self._decisions = {one.job: one for one in plan.decisions}
        self._stops, self._starts = stopping(plan), self._that(DecisionKind.START)
        self._needs = Needs(round_, plan, stops=self._stops, starts=self._starts)

    def script(self) -> Script:
        """Return the script of all calls."""
        calls = {name: self._made(self._stop, name) for name in self._stops}
        calls |= {name: self._made(self.start, name) for name in self._starts}
        can = {name for name, own in calls.items() if own}
        said = self._needs.consistent(can)
        for name in sorted(can - said):
            self.cannot_say(VAIN, name)
        ordered = in_order({name: calls[name] for name in calls if name in said}, self._needs)
        events = [self._made(self._event, name) for name in self._that(DecisionKind.WAIT)]
        return script([*ordered, *chain(*events)], self.unsaid)

    def cannot_say(self, what: str, job: str) -> None:
        """Note what cannot be said about a job."""
        self.unsaid.setdefault(what, []).append(job)

    def start(self, objects: ObjectsOf, decision: Decision) -> Iterator[Call]:
        """Yield the calls that let a job start; none if it cannot be said."""
        if objects.kind == WORKLOAD and not objects.pods:
            self.cannot_say("jobs that Kueue admits: export kueue", decision.job)
            return
        calls = []
        for task in decision.tasks:
            pod = objects.pod_of(task)
            if pod is None or pod.gate is None:
                self.cannot_say(f"pods without the gate {OWN_GATE}", decision.job)
                return
            host = self.hostnames.of(task.host)
            does = f"send {objects.namespace}/{pod.name} to {task.host}"
            operations = release(pod, pod.gate, host)
            calls.append(patch("pod", objects.namespace, pod.name, operations, does))
        self.cannot_say("which GPUs of a node", decision.job)
        yield from calls

    def _that(self, kind: DecisionKind) -> list[str]:
        return [name for name, one in self._decisions.items() if one.decision is kind]

    def _made(
        self, calls: Callable[[ObjectsOf, Decision], Iterator[Call]], name: str
    ) -> list[Call]:
        try:
            return list(calls(self._objects[name], self._decisions[name]))
        except InvalidInputError:
            self.cannot_say(ODD, name)
            return []

    def _stop(self, objects: ObjectsOf, decision: Decision) -> Iterator[Call]:
        name, users = decision.job, self._needs.users[decision.job]
        if objects.kind == WORKLOAD or not objects.pods:
            self.cannot_say("jobs of Kueue that stop or move", name)
            return
        for_kueue = users and all(self._objects[user].kind == WORKLOAD for user in users)
        if bool(for_kueue) is not self.of_kueue:
            self.cannot_say(self.elsewhere, name)
            return
        moves = decision.decision is DecisionKind.MIGRATE
        if moves:
            self.cannot_say("where pods go that are made anew: the next plan says it", name)
        why = "which moves" if moves else f"for {', '.join(decision.displaced_by)}"
        for pod in objects.pods.values():
            does = f"delete {objects.namespace}/{pod.name} of {name}, {why}"
            yield delete("api/v1", objects.namespace, "pods", pod.name, pod.uid, does)

    def _event(self, objects: ObjectsOf, decision: Decision) -> Iterator[Call]:
        if objects.kind == WORKLOAD or not self.of_kueue:
            event = waiting_event(self.round, objects, decision)
            if event is not None:
                yield event


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
