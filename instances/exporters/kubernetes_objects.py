"""Which objects of Kubernetes jobs, tasks and hosts are, by the annotations of `convert`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from placewright.instances.checks.round import checked
from placewright.instances.derived.doubts import why_waits
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision, Task
from placewright.instances.documents.quantities import small_number
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import (
    KUBERNETES_GATES,
    KUBERNETES_HOSTNAME,
    KUBERNETES_KIND,
    KUBERNETES_NAME,
    KUBERNETES_NAMESPACE,
    KUBERNETES_POD_UIDS,
    KUBERNETES_PODS,
    KUBERNETES_SELECTORS,
    KUBERNETES_UID,
    KUBERNETES_VERSION,
)
from placewright.instances.errors import InvalidInputError, printable
from placewright.instances.exporters.kubectl import Call, apply

MAX_MESSAGE = 1024
"""Characters of the message of an Event."""

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_UID = re.compile(r"[A-Za-z0-9-]{1,64}")
_VERSION = re.compile(r"(?:[a-z0-9.-]{1,253}/)?v[0-9][a-z0-9]{0,20}")
_NO_GATE = "-"


@dataclass(frozen=True)
class PodOf:
    """The pod of a task; `gate` is where ours stands among its gates, None if it has none."""

    name: str
    uid: str
    gate: int | None
    has_selector: bool


@dataclass(frozen=True)
class ObjectsOf:
    """A job's objects.

    Raises
    ------
    InvalidInputError
        By each attribute, if the annotation that it reads is missing, or no name that Kubernetes
        could have.
    """

    job: Job
    at: int

    @property
    def namespace(self) -> str:
        """Where its objects are."""
        return self._text(KUBERNETES_NAMESPACE, _NAME)

    @property
    def name(self) -> str:
        """The name of its object."""
        return self._text(KUBERNETES_NAME, _NAME)

    @property
    def uid(self) -> str:
        """The uid of its object."""
        return self._text(KUBERNETES_UID, _UID)

    @property
    def kind(self) -> str:
        """The kind of its object, "" if a label alone makes its gang."""
        return self.job.annotations.get(KUBERNETES_KIND, "")

    @cached_property
    def pods(self) -> Mapping[tuple[int, int], PodOf]:
        """Its pods, by task group and index; none if the dump had none of them yet."""
        found = {}
        for g in range(max(len(option.groups) for option in self.job.options)):
            if f"{KUBERNETES_PODS}{g}" not in self.job.annotations:
                continue
            names = self._list(f"{KUBERNETES_PODS}{g}", _NAME)
            uids = self._list(f"{KUBERNETES_POD_UIDS}{g}", _UID)
            gates = self.job.annotations.get(f"{KUBERNETES_GATES}{g}", "").split(",")
            chosen = self.job.annotations.get(f"{KUBERNETES_SELECTORS}{g}", "").split(",")
            for i, (name, uid) in enumerate(zip(names, uids, strict=False)):
                gate = gates[i] if i < len(gates) else _NO_GATE
                found[g, i] = PodOf(
                    name,
                    uid,
                    small_number(gate),
                    i < len(chosen) and chosen[i] == "yes",
                )
        return found

    def pod_of(self, task: Task) -> PodOf | None:
        """Return the pod of a task, None if there is none yet."""
        return self.pods.get((task.group, task.index))

    def text(self, key: str) -> str:
        """Return an annotation, "" if it is missing."""
        return self.job.annotations.get(key, "")

    def name_at(self, key: str) -> str:
        """Return an annotation that is the name of an object."""
        return self._text(key, _NAME)

    def names_at(self, key: str) -> list[str]:
        """Return an annotation that is a list of names."""
        return self._list(key, _NAME)

    def uid_at(self, key: str) -> str:
        """Return an annotation that is a uid."""
        return self._text(key, _UID)

    @property
    def version(self) -> str:
        """The API version of its object."""
        return self._text(KUBERNETES_VERSION, _VERSION)

    def _list(self, key: str, pattern: re.Pattern[str]) -> list[str]:
        texts = self.job.annotations.get(key, "").split(",")
        for text in texts:
            self._check(key, text, pattern)
        return texts

    def _text(self, key: str, pattern: re.Pattern[str]) -> str:
        text = self.job.annotations.get(key, "")
        self._check(key, text, pattern)
        return text

    def _check(self, key: str, text: str, pattern: re.Pattern[str]) -> None:
        if not pattern.fullmatch(text):
            raise InvalidInputError(
                "expected what convert kubernetes writes here: a name that Kubernetes can have",
                path=("jobs", self.at, "annotations", key),
                value=text,
            )


class Hostnames:
    """The label `kubernetes.io/hostname` of each host; its name where nothing else is said."""

    def __init__(self, round_: Round) -> None:
        self._labels = {
            host.name: host.annotations.get(KUBERNETES_HOSTNAME, host.name)
            for host in checked(round_).cluster.hosts
        }

    def of(self, host: str) -> str:
        """Return the label of a host.

        Raises
        ------
        InvalidInputError
            It is no label that Kubernetes could have.
        """
        label = self._labels.get(host, host)
        if not _LABEL.fullmatch(label):
            raise InvalidInputError(
                f"expected the value of a label, for host {host}",
                path=("cluster", "hosts"),
                value=label,
            )
        return label


def time_text(seconds: int) -> str:
    """Return seconds since 1970 as Kubernetes writes a time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def waiting_event(round_: Round, objects: ObjectsOf, decision: Decision) -> Call | None:
    """Return the call that says why a job waits, as an Event about its object or first pod."""
    why = printable(why_waits(round_, objects.job, decision))
    if not why:
        return None
    version, kind = objects.text(KUBERNETES_VERSION), objects.kind
    if kind and version and objects.text(KUBERNETES_UID):
        name, uid = objects.name, objects.uid
    elif objects.pods:
        first = next(iter(objects.pods.values()))
        version, kind, name, uid = "v1", "Pod", first.name, first.uid
    else:
        return None
    time = time_text(round_.now)
    event: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name[:240]}.placewright", "namespace": objects.namespace},
        "involvedObject": {
            "apiVersion": version,
            "kind": kind,
            "namespace": objects.namespace,
            "name": name,
            "uid": uid,
        },
        "type": "Normal",
        "reason": "PlacewrightWaits",
        "message": f"waits: {why}"[:MAX_MESSAGE],
        "source": {"component": "placewright"},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }
    return apply(event, f"say why {objects.namespace}/{name} waits")
