"""kube-scheduler's extender: pods go where the last plan has their job, and others say why not.

Source: k8s.io/kube-scheduler/extender/v1: ExtenderArgs (`Pod`, `NodeNames`), ExtenderFilterResult
(`NodeNames`, `FailedAndUnresolvableNodes`, `Error`), HostPriorityList (`Host`, `Score` of 0 to 10),
ExtenderPreemptionArgs and ExtenderPreemptionResult (`NodeNameToMetaVictims`). Its types have no
JSON tags: names are written as in Go, and are read in upper case or lower.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from placewright.instances.converters.kubernetes.eligibility import requests
from placewright.instances.converters.kubernetes.groups import gang_of, title_of
from placewright.instances.converters.kubernetes.records import Pod
from placewright.instances.documents.form_errors import invalid_input
from placewright.instances.documents.source_keys import WAITING_PART
from placewright.instances.errors import InvalidInputError
from placewright.live.serve.lane import JobPlaces, TaskPlace
from placewright.topology.units import WHOLE_GPU

JOB = "placewright.dev/job"
"""Annotation of a pod: the job of the round that it belongs to."""

BEST = 10
"""MaxExtenderPriority."""

MAX_NAMED = 3
MOST_NODES = 100_000
_WAITS = "placewright: waits,"


class Args(NamedTuple):
    """A pod, and the nodes that kube-scheduler would take for it.

    When it asks what it may preempt: by node the pods that it would stop there.
    """

    pod: Pod
    nodes: Sequence[str]
    victims: Mapping[str, Any]


class Extender:
    """Answers of the last plan; it remembers which place it gave to which pod."""

    def __init__(self) -> None:
        self._jobs: Mapping[str, JobPlaces] | None = None
        self._of: dict[str, str] = {}  # the job of each uid of a pod or owner
        self._left_out: Mapping[str, str] = {}
        self._given: dict[str, tuple[str, int]] = {}

    def show(
        self, jobs: Mapping[str, JobPlaces], left_out: Mapping[str, str] | None = None
    ) -> None:
        """Answer by another plan from now on; of pods that are left out of its round, why."""
        self._jobs, self._given, self._left_out = jobs, {}, left_out or {}
        # Of those that an object owns, the job that waits comes last: it is who asks.
        self._of = {uid: name for name, places in jobs.items() for uid in places.owners}
        self._of |= {
            task.pod: name for name, places in jobs.items() for task in places.tasks if task.pod
        }

    def filtered(self, args: Args) -> dict[str, Any]:
        """Return the node that the plan has for a pod, and why it cannot go to the others."""
        asked = requests(args.pod.spec).gpus * WHOLE_GPU
        if not asked and JOB not in args.pod.metadata.annotations:
            return _result(args.nodes, {})
        node, why = self._place(args, asked)
        failed = {name: why for name in args.nodes if name != node}
        return _result([] if node is None else [node], failed)

    def prioritized(self, args: Args) -> list[dict[str, Any]]:
        """Return a score for each node: all of it for the one that the pod was given."""
        given = self._given.get(_key(args.pod))
        node = None
        if given is not None and self._jobs is not None:
            job, number = given
            node = self._jobs[job].tasks[number].host
        return [{"Host": name, "Score": BEST if name == node else 0} for name in args.nodes]

    def preempted(self, args: Args) -> dict[str, Any]:
        """Return what may be stopped for a pod: something only where the plan has it."""
        hosts: set[str] = set()
        job = None if self._jobs is None else self._job_of(args.pod, self._jobs)
        if job is not None and self._jobs is not None:
            tasks = self._jobs[job].tasks
            asked = requests(args.pod.spec).gpus * WHOLE_GPU
            hosts = {tasks[number].host for number in self._free(job, tasks, args.pod, asked)}
        kept = {node: pods for node, pods in args.victims.items() if node in hosts}
        return {"NodeNameToMetaVictims": kept}

    def _place(self, args: Args, asked: int) -> tuple[str | None, str]:
        """Return the node for a pod, if there is one, and what is said of all others."""
        if self._jobs is None:
            return None, f"{_WAITS} no plan yet"
        job = self._job_of(args.pod, self._jobs)
        if job is None:
            why = self._left_out.get(args.pod.name)
            return None, f"{_WAITS} {f'not in the round: {why}' if why else 'in no plan'}"
        places = self._jobs[job]
        if not places.tasks:
            return None, f"{_WAITS} {places.why}"
        more = f"; {places.why}" if places.why else ""
        free = self._free(job, places.tasks, args.pod, asked)
        nodes = set(args.nodes)
        self._given.pop(_key(args.pod), None)
        for number in free:
            host = places.tasks[number].host
            if host in nodes:
                self._given[_key(args.pod)] = job, number
                return host, f"placewright: planned for {host}{more}"
        hosts = list(dict.fromkeys(places.tasks[number].host for number in free))
        if hosts:
            others = f" and {len(hosts) - MAX_NAMED} more" if len(hosts) > MAX_NAMED else ""
            return None, f"{_WAITS} planned for {', '.join(hosts[:MAX_NAMED])}{others}{more}"
        gpus = f"{asked / WHOLE_GPU:g} GPU{'' if asked == WHOLE_GPU else 's'}"
        return None, f"{_WAITS} no place of job {job} for {gpus} is left"

    def _free(self, job: str, tasks: Sequence[TaskPlace], pod: Pod, asked: int) -> list[int]:
        """Return the tasks of a job that a pod may be, its own first, then those of no pod.

        Its own is its, too, where what it asks is no GPU of the round but a resource (MIG).
        """
        key = _key(pod)
        before = self._given.get(key)
        taken = {given for other, given in self._given.items() if other != key}
        free = [
            number
            for number, task in enumerate(tasks)
            if (job, number) not in taken
            and (not asked or task.milli_gpu == asked or pod.metadata.uid == (task.pod or None))
        ]

        def order(number: int) -> tuple[bool, bool, bool]:
            of = tasks[number].pod
            return (job, number) != before, of != pod.metadata.uid or not of, bool(of)

        return sorted(free, key=order)

    def _job_of(self, pod: Pod, jobs: Mapping[str, JobPlaces]) -> str | None:
        """Return the job of a pod: by its annotation, its uid, its owners', or its name.

        By name as `convert kubernetes` has it; where pods of a gang run, those that wait are a job
        of their own.
        """
        meta = pod.metadata
        named = meta.annotations.get(JOB)
        if named:
            return named if named in jobs else None
        for uid in (meta.uid, *(owner.uid for owner in meta.ownerReferences)):
            if uid and uid in self._of:
                return self._of[uid]
        whole = title_of(gang_of(pod, {}), pod)
        names = (f"{whole}{WAITING_PART}", whole, pod.name)
        return next((name for name in names if name in jobs), None)


def args_of(raw: Any) -> Args:
    """Read ExtenderArgs.

    Raises InvalidInputError if they are none, or have no names of nodes.
    """
    if not isinstance(raw, dict):
        raise InvalidInputError("expected ExtenderArgs", value=raw)
    given = {key.lower(): value for key, value in raw.items()}
    names, victims = given.get("nodenames"), given.get("nodenametometavictims")
    if victims is not None:
        if not isinstance(victims, dict):
            raise InvalidInputError(
                "expected a mapping", path=("NodeNameToMetaVictims",), value=victims
            )
        names = list(victims)
    if names is None:
        raise InvalidInputError(
            "missing; expected nodeCacheCapable: true in kube-scheduler's configuration",
            path=("NodeNames",),
            show_value=False,
        )
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidInputError("expected a list of names", path=("NodeNames",), value=names)
    if len(names) > MOST_NODES:
        raise InvalidInputError(
            f"expected at most {MOST_NODES:,} names", path=("NodeNames",), show_value=False
        )
    try:
        return Args(Pod.model_validate(given.get("pod")), names, victims or {})
    except ValidationError as error:
        raise invalid_input(error, Pod, given.get("pod")).under("Pod") from None


def refusal(message: str) -> dict[str, Any]:
    """Return an ExtenderFilterResult that says what is wrong; of a status, its number is shown."""
    return {"Error": f"placewright: {message}"}


def _result(nodes: Sequence[str], failed: Mapping[str, str]) -> dict[str, Any]:
    """Return an ExtenderFilterResult.

    The other nodes are unresolvable: who is preempted is for the plan to decide.
    """
    return {
        "NodeNames": list(nodes),
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": dict(failed),
        "Error": "",
    }


def _key(pod: Pod) -> str:
    return pod.metadata.uid or pod.name
