"""What a plan means for Kubernetes: scripts for an operator, and Events that say why jobs wait."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.exporters.kubernetes import (
    ELSEWHERE,
    ObjectsOf,
    kubernetes_script,
    waiting_event,
)
from placewright.instances.exporters.kueue import kueue_script
from placewright.live.watch.api_server import ApiServer
from placewright.live.watch.reading import Acted

_CONFLICT = 409
_WRITTEN = range(200, 300)


class KubernetesActor:
    """Writes no more than Events: plans are carried out by whoever pipes their script.

    Parameters
    ----------
    server
        Where Events go.
    events
        Say in an Event about each job that waits why it does.
    """

    def __init__(self, server: ApiServer, *, events: bool) -> None:
        self._server = server
        self._events = events
        self._told: dict[str, str] = {}

    def commands(self, round_: Round, plan: Plan) -> tuple[str, Sequence[str]]:
        """Return the scripts for pods and for Workloads of Kueue, one after the other.

        And a line for each thing that neither can say.
        """
        pods, workloads = kubernetes_script(round_, plan), kueue_script(round_, plan)
        unsaid = dict.fromkeys((*pods.unsaid, *workloads.unsaid))
        lines = [f"Kubernetes cannot be told: {one}" for one in unsaid if ELSEWHERE not in one]
        return f"{pods.text}\n{workloads.text}", lines

    def act(self, round_: Round, plan: Plan, until: float) -> Acted:
        """Write the Events of jobs whose reason has changed, if asked."""
        if not self._events:
            return Acted()
        waiting = {one.job: one for one in plan.decisions if one.decision is DecisionKind.WAIT}
        self._told = {job: text for job, text in self._told.items() if job in waiting}
        undone = []
        for at, job in enumerate(round_.jobs):
            if job.name not in waiting:
                continue
            try:
                call = waiting_event(round_, ObjectsOf(job, at), waiting[job.name])
            except InvalidInputError:  # `commands` counts it
                continue
            if call is None or self._told.get(job.name) == call.document["message"]:
                continue
            if time.monotonic() > until:
                undone.append("not told: why further jobs wait: too old by now")
                break
            code = self._write(call.document)
            if code in _WRITTEN:
                self._told[job.name] = call.document["message"]
            else:
                undone.append(f"not told: why {job.name} waits: the API server answers {code}")
        return Acted(undone=tuple(undone))

    def _write(self, event: dict[str, Any]) -> int:
        """Make an Event, or change the one that is there."""
        path = f"/api/v1/namespaces/{event['metadata']['namespace']}/events"
        code = self._server.send("POST", path, event, "application/json")
        if code != _CONFLICT:
            return code
        name = event["metadata"]["name"]
        return self._server.send("PATCH", f"{path}/{name}", event, "application/merge-patch+json")
