"""Kubernetes: states by listing and watching, plans as scripts and Events."""

from __future__ import annotations

import json
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from placewright.instances.converters import READ_KINDS, convert_kubernetes
from placewright.instances.converters.kubernetes.nodes import NO_ACCELERATORS
from placewright.instances.documents.plan import DecisionKind, Plan
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError, printable
from placewright.instances.exporters.kubernetes import (
    ELSEWHERE,
    ObjectsOf,
    kubernetes_script,
    waiting_event,
)
from placewright.instances.exporters.kueue import kueue_script
from placewright.live.watch.loop import Acted, Reading, SourceError

PROXY = "http://127.0.0.1:8001"
"""Where `kubectl proxy` listens: it has the rights of whoever started it."""

WATCH_S = 30
"""After so many seconds the server ends a watch, so that silence is never taken for news."""

MAX_LINE = 16 * 2**20
"""Bytes of one event."""

PAGE = 500
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_GONE = 410


class GoneError(Exception):
    """What a watch was to go on from is too old: list again."""


class Resource(NamedTuple):
    """Objects of one kind: the path of their list, and how each of them would be headed."""

    path: str
    api_version: str
    kind: str


class ApiServer:
    """Requests to an API server, until it is closed.

    `url`: the server; None is that of the cluster that this runs in, or a `kubectl proxy`.
    `timeout_s`: how long an answer may take.
    """

    def __init__(self, url: str | None, *, timeout_s: float) -> None:
        self._token: Path | None = None
        verify: ssl.SSLContext | bool = True
        inside = os.environ.get("KUBERNETES_SERVICE_HOST")
        if url is None and inside and (_ACCOUNT / "token").exists():
            port = os.environ.get("KUBERNETES_SERVICE_PORT_HTTPS", "443")
            url = f"https://[{inside}]:{port}" if ":" in inside else f"https://{inside}:{port}"
            verify = ssl.create_default_context(cafile=_ACCOUNT / "ca.crt")
            self._token = _ACCOUNT / "token"
        self.url = PROXY if url is None else url
        self._timeout_s = timeout_s
        self._client = httpx.Client(base_url=self.url, verify=verify, timeout=timeout_s)

    def close(self) -> None:
        """Close all connections; what waits for an answer gets an error."""
        self._client.close()

    def get(self, path: str, **params: str) -> dict[str, Any]:
        """Return the object at a path.

        Raises GoneError if it is too old to go on from. Raises SourceError if the server is down,
        slow, refuses, or answers with something else than an object.
        """
        try:
            answer = self._client.get(path, params=params, headers=self._headers())
        except httpx.HTTPError as error:
            raise SourceError(f"{self.url}{path}: {_said(error)}") from None
        return self._object(path, answer)

    def send(self, method: str, path: str, body: Mapping[str, Any], content: str) -> int:
        """Send an object; return the code of the answer, whatever it is.

        Raises SourceError if there is no answer.
        """
        headers = {**self._headers(), "content-type": content}
        try:
            return self._client.request(
                method, path, content=json.dumps(body), headers=headers
            ).status_code
        except httpx.HTTPError as error:
            raise SourceError(f"{self.url}{path}: {_said(error)}") from None

    def events(self, path: str, version: str) -> Iterator[dict[str, Any]]:
        """Yield the events of a watch since a resource version, until the server ends it.

        Raises GoneError if the version is too old. Raises SourceError if the connection is cut, or
        something comes that is no event.
        """
        params = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
        }
        timeout = httpx.Timeout(self._timeout_s, read=WATCH_S + 15)
        try:
            with self._client.stream(
                "GET", path, params=params, headers=self._headers(), timeout=timeout
            ) as answer:
                if answer.status_code != httpx.codes.OK:
                    answer.read()
                    self._object(path, answer)
                for line in _lines(answer):
                    yield self._event(path, line)
        except httpx.HTTPError as error:
            raise SourceError(f"{self.url}{path}: {_said(error)}") from None

    def _event(self, path: str, line: str) -> dict[str, Any]:
        try:
            event = json.loads(line)
        except ValueError:
            raise SourceError(f"{self.url}{path}: expected events as JSON") from None
        body = event.get("object") if isinstance(event, dict) else None
        if not isinstance(body, dict):
            raise SourceError(f"{self.url}{path}: expected events with an object")
        if event.get("type") == "ERROR":
            if body.get("code") == _GONE:
                raise GoneError
            raise SourceError(f"{self.url}{path}: {printable(str(body.get('message')))[:200]}")
        return {"type": event.get("type"), "object": body}

    def _object(self, path: str, answer: httpx.Response) -> dict[str, Any]:
        if answer.status_code == _GONE:
            raise GoneError
        if answer.status_code != httpx.codes.OK:
            raise SourceError(f"{self.url}{path}: answers {answer.status_code}")
        try:
            found = answer.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise SourceError(f"{self.url}{path}: expected an object as JSON")
        return found

    def _headers(self) -> dict[str, str]:
        """Return the token, which kubelet renews, read anew."""
        if self._token is None:
            return {}
        try:
            return {"authorization": f"Bearer {self._token.read_text().strip()}"}
        except OSError as error:
            raise SourceError(f"{self._token}: cannot be read ({error.strerror})") from None


def _lines(answer: httpx.Response) -> Iterator[str]:
    """Yield the lines of an answer, none of which may be too long."""
    rest = b""
    for part in answer.iter_bytes():
        rest += part
        *whole, rest = rest.split(b"\n")
        for line in whole:
            if line.strip():
                yield line.decode(errors="replace")
        if len(rest) > MAX_LINE:
            raise SourceError(f"an event of more than {MAX_LINE // 2**20} MiB")


def _said(error: Exception) -> str:
    return printable(str(error))[:200] or type(error).__name__


MAX_OBJECTS = 1_000_000
MOST_PATIENCE_S = 30.0


class Mirror:
    """Objects of one kind, of which a thread keeps a copy.

    `server`, `resource`: what is listed and watched. `changed`: is called when the copy has
    changed.
    """

    def __init__(self, server: ApiServer, resource: Resource, changed: Callable[[], None]) -> None:
        self._server, self.resource, self._changed = server, resource, changed
        self._objects: dict[tuple[str, str], dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._heard: float | None = None
        self._problem = "nothing was listed yet"
        self._thread = threading.Thread(target=self._run, name=resource.path, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop watching, as soon as the server's answer allows."""
        self._ends.set()

    def state(self) -> tuple[list[dict[str, Any]], float]:
        """Return the objects, and until when they were known to be as they are here.

        Raises SourceError if they were never listed, or could not be listed again.
        """
        with self._lock:
            if self._heard is None:
                raise SourceError(self._problem)
            return list(self._objects.values()), self._heard

    def _run(self) -> None:
        failures = 0
        version: str | None = None
        while not self._ends.is_set():
            try:
                if version is None:
                    version = self._list()
                version = self._follow(version)
                failures = 0
            except GoneError:
                version = None
            except SourceError as error:
                failures += 1
                self._problem = str(error)
                self._ends.wait(min(2.0**failures, MOST_PATIENCE_S))
                if failures > 1:
                    version = None

    def _list(self) -> str:
        """List all objects, page by page; return the version to watch from."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        began, following = time.monotonic(), ""
        while True:
            params = {"limit": str(PAGE), **({"continue": following} if following else {})}
            page = self._server.get(self.resource.path, **params)
            items, meta = page.get("items") or [], page.get("metadata")
            if not isinstance(items, list) or not isinstance(meta, dict):
                raise SourceError(f"{self.resource.path}: expected a list of objects")
            for item in items:
                key = _key(item)
                if key is not None:
                    found[key] = self._headed(item)
            if len(found) > MAX_OBJECTS:
                raise SourceError(f"{self.resource.path}: more than {MAX_OBJECTS:,} objects")
            following = str(meta.get("continue") or "")
            if not following:
                break
        with self._lock:
            self._objects, self._heard = found, began
        self._changed()
        return str(meta.get("resourceVersion") or "0")

    def _follow(self, version: str) -> str:
        """Take over what a watch tells until the server ends it; return where to go on."""
        began = time.monotonic()
        for event in self._server.events(self.resource.path, version):
            meta = event["object"].get("metadata")
            if isinstance(meta, dict):
                version = str(meta.get("resourceVersion") or version)
            key = _key(event["object"])
            with self._lock:
                self._heard = time.monotonic()
                if event["type"] in ("ADDED", "MODIFIED") and key is not None:
                    self._objects[key] = self._headed(event["object"])
                elif event["type"] == "DELETED" and key is not None:
                    self._objects.pop(key, None)
                else:
                    continue
            self._changed()
            if self._ends.is_set():
                return version
        ended = time.monotonic()
        if ended - began < WATCH_S * 0.9:  # not as agreed: what it says last is all that is known
            self._ends.wait(1)
            return version
        with self._lock:
            self._heard = ended
        return version

    def _headed(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return an object with version and kind, which those in lists do not have."""
        return {**item, "apiVersion": self.resource.api_version, "kind": self.resource.kind}


def _key(item: Any) -> tuple[str, str] | None:
    meta = item.get("metadata") if isinstance(item, dict) else None
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        return None
    return str(meta.get("namespace") or ""), meta["name"]


SETTLES_S = 1.0
"""A state is read so long after the first change, since changes come in groups."""

FIRST_LIST_S = 60.0
"""How long the first lists may take."""


class KubernetesSource:
    """States of a Kubernetes cluster, until it is closed.

    `server`: the API server. `levels`, `movable`, `accelerators`: as for `read_kubernetes`.
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        levels: Sequence[str],
        movable: bool,
        accelerators: Mapping[str, str] = NO_ACCELERATORS,
    ) -> None:
        self._server, self._levels, self._movable = server, levels, movable
        self._accelerators = accelerators
        self._changed = threading.Event()
        self._mirrors: list[Mirror] = []

    def close(self) -> None:
        """Stop watching."""
        for mirror in self._mirrors:
            mirror.end()
        self._server.close()

    def read(self) -> Reading:
        """Return the state as it is known; it is as old as the kind that was heard of last.

        Raises SourceError if the API server does not answer, or what it has is no state of a
        cluster.
        """
        if not self._mirrors:
            self._mirrors = [
                Mirror(self._server, one, self._changed.set) for one in self._resources()
            ]
        self._changed.clear()
        states = [self._first(mirror) for mirror in self._mirrors]
        try:
            made = convert_kubernetes(
                (item for items, _ in states for item in items),
                self._server.url,
                levels=self._levels,
                movable=self._movable,
                accelerators=self._accelerators,
                now=int(time.time()),
            )
        except InvalidInputError as error:
            raise SourceError(str(error)) from None
        return Reading(made, min(heard for _, heard in states))

    def wait(self, seconds: float) -> None:
        """Return after so many seconds, or soon after something has changed."""
        if self._changed.wait(seconds):
            time.sleep(min(SETTLES_S, seconds))

    @staticmethod
    def _first(mirror: Mirror) -> tuple[list[dict[str, object]], float]:
        """Return the state of a mirror, for which the first list is waited for."""
        end = time.monotonic() + FIRST_LIST_S
        while True:
            try:
                return mirror.state()
            except SourceError:
                if time.monotonic() > end:
                    raise
            time.sleep(0.1)

    def _resources(self) -> list[Resource]:
        """Return what of the kinds that are read the server has."""
        found = [
            Resource("/api/v1/nodes", "v1", "Node"),
            Resource("/api/v1/pods", "v1", "Pod"),
            Resource("/api/v1/namespaces", "v1", "Namespace"),
            Resource("/api/v1/resourcequotas", "v1", "ResourceQuota"),
            Resource("/api/v1/limitranges", "v1", "LimitRange"),
        ]
        groups = {kind.group for kind in READ_KINDS if kind.group}
        try:
            listed = self._server.get("/apis").get("groups") or []
            for group in listed:
                name = group.get("name") if isinstance(group, dict) else None
                if name in groups:
                    found += self._of_group(str(name), group)
        except GoneError:
            raise SourceError(f"{self._server.url}/apis: answers 410") from None
        return found

    def _of_group(self, name: str, group: dict[str, object]) -> Iterator[Resource]:
        preferred = group.get("preferredVersion")
        version = preferred.get("groupVersion") if isinstance(preferred, dict) else None
        if not isinstance(version, str):
            return
        kinds = {kind.name for kind in READ_KINDS if kind.group == name}
        for one in self._server.get(f"/apis/{version}").get("resources") or []:
            if isinstance(one, dict) and one.get("kind") in kinds and "/" not in str(one["name"]):
                yield Resource(f"/apis/{version}/{one['name']}", version, str(one["kind"]))


_CONFLICT = 409
_WRITTEN = range(200, 300)


class KubernetesActor:
    """Writes no more than Events: plans are carried out by whoever pipes their script.

    `server`: where Events go. `events`: say in an Event about each job that waits why it does.
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
