"""A plan as commands and objects for Kubernetes, and for KAI."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, NamedTuple

from placewright.instances.checks.round import checked
from placewright.instances.derived.doubts import why_waits
from placewright.instances.derived.phrases import count
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Task
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
    OWN_GATE,
)
from placewright.instances.errors import InvalidInputError, printable
from placewright.instances.exporters.needs import VAIN, Needs, stopping
from placewright.topology.units import WHOLE_GPU

GUARDS = """
# all JOB..., any JOB...: whether nothing was skipped of each of them, of one of them
all() {
    for job; do
        case $undone in *" $job "*) why="needs $job" && return 1 ;; esac
    done
}
any() {
    for job; do
        all "$job" && why='is not as it was' && return
    done
    return 1
}
"""
"""Functions of a shell by which a call is made only if none was skipped that it needs."""

_HEAD = f"""\
#!/bin/sh
# Made by placewright export: safe to run twice. The server refuses a call whose object is no longer
# as it was when the plan was made; what needs that call is not done either. First it is asked
# whether it would refuse what belongs together (a dry run).
undone=' ' told=' ' why='is not as it was'

# skipped OBJECT [JOB]: a call about it was refused, or is not made
skipped() {{
    case $told in *" $1 "*) ;; *) echo "placewright: $1 $why: skipped" >&2 ;; esac
    undone="$undone${{2-}} " told="$told$1 " why='is not as it was'
}}
{GUARDS}"""


class Call(NamedTuple):
    """One call.

    `does` says what for, `about` names the object, `document` goes to its standard input. `job` is
    the job that it is part of; it is made only if nothing was skipped of any job that it `needs`,
    and of at least one job that is among its `users`, if it has some.
    """

    does: str
    about: str
    words: tuple[str, ...]
    document: Any = None
    job: str = ""
    needs: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    is_dry: bool = False

    def dry(self) -> Call:
        """Return the call that only asks whether the server would refuse this one."""
        asks = self._replace(does=f"try: {self.does}", is_dry=True)
        if self.document is None:
            return asks._replace(words=(*self.words, "--dry-run=server"))
        return asks._replace(document={**self.document, "dryRun": ["All"]})


class Script(NamedTuple):
    """A script, how many calls it has beside dry runs, and a line for what cannot be said."""

    text: str
    calls: int
    unsaid: tuple[str, ...]


def test(path: str, value: str | bool) -> dict[str, Any]:
    """Return the operation of a JSON Patch (RFC 6902) without which it is refused as a whole."""
    return {"op": "test", "path": path, "value": value}


def patch(
    kind: str,
    namespace: str,
    name: str,
    operations: Sequence[dict[str, Any]],
    does: str,
    *,
    subresource: str | None = None,
) -> Call:
    """Return the call of a JSON Patch."""
    words = ["kubectl", "patch", kind, name, "-n", namespace, "--type=json"]
    if subresource is not None:
        words.append(f"--subresource={subresource}")
    return Call(does, f"{namespace}/{name}", (*words, "-p", json.dumps(operations)))


def delete(api: str, namespace: str, plural: str, name: str, uid: str, does: str) -> Call:
    """Return the call that deletes an object if it has this uid; `api` begins its path."""
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
    path = f"/{api}/namespaces/{namespace}/{plural}/{name}"
    return Call(
        does, f"{namespace}/{name}", ("kubectl", "delete", "--raw", path, "-f", "-"), options
    )


def apply(document: dict[str, Any], does: str) -> Call:
    """Return the call that makes an object, or makes it as it is here."""
    meta = document["metadata"]
    return Call(
        does, f"{meta['namespace']}/{meta['name']}", ("kubectl", "apply", "-f", "-"), document
    )


def in_order(calls: Mapping[str, Sequence[Call]], needs: Needs) -> Iterator[Call]:
    """Yield calls by job, first about those that stop, then about those that start.

    Dry runs come first, of all that is more than one call, or that others need.
    """
    made = [
        call._replace(
            job=name, needs=(name, *needs.of.get(name, ())), users=needs.users.get(name, ())
        )
        for name, own in calls.items()
        for call in own
    ]
    for call in made:
        if len(call.needs) > 1 or call.users or len(calls[call.job]) > 1:
            yield call.dry()._replace(users=())
    yield from made


def script(calls: Iterable[Call], unsaid: dict[str, list[str]]) -> Script:
    """Write calls as a script of a POSIX shell.

    No call reads what the script itself is read from.
    """
    listed = list(calls)
    lines = tuple(f"{what}: {count(len(jobs), 'job')}" for what, jobs in sorted(unsaid.items()))
    return Script(
        "\n".join([_HEAD, *map(_block, listed)]), sum(not c.is_dry for c in listed), lines
    )


def guards(users: Sequence[str], needs: Sequence[str]) -> str:
    """Return what comes before a command that some jobs need, and that needs others."""
    words = (("any", *users), ("all", *needs))
    return "".join(f"{shlex.join(one)} && " for one in words if len(one) > 1)


def _block(call: Call) -> str:
    given = "</dev/null" if call.document is None else "<<'END'"
    about = shlex.join((call.about, call.job) if call.job else (call.about,))
    command = (
        f"{guards(call.users, call.needs)}{shlex.join(call.words)} {given} >&2 || skipped {about}"
    )
    lines = [f"# {printable(call.does)}", command]
    if call.document is not None:
        lines += [json.dumps(call.document), "END"]
    return "\n".join(lines) + "\n"


# Which objects of Kubernetes jobs, tasks and hosts are, by the annotations of `convert`.

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

    Raises `InvalidInputError`: by each attribute, if the annotation that it reads is missing, or no
    name that Kubernetes could have.
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
                ("jobs", self.at, "annotations", key),
                text,
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

        Raises `InvalidInputError`: it is no label that Kubernetes could have.
        """
        label = self._labels.get(host, host)
        if not _LABEL.fullmatch(label):
            raise InvalidInputError(
                f"expected the value of a label, for host {host}", ("cluster", "hosts"), label
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


# A plan for pods of Kubernetes: their gate goes in the patch that says on which node they run.

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
        if decision.decision is DecisionKind.RESIZE:
            self.cannot_say("running jobs that change their size", name)
            return
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


# A plan for KAI Scheduler: a BindRequest per pod, which its binder would carry out.
#
# Untried on a running KAI: two writers of BindRequests disagree, so its scheduler would have to
# leave these pods alone.

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
