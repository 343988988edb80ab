"""A manifest of a JobSet, a LeaderWorkerSet or a Workflow of Argo becomes jobs that wait."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import Field, ValidationError

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.eligibility import requests
from placewright.instances.converters.kubernetes.nodes import HOST_PORT, told_labels
from placewright.instances.converters.kubernetes.records import (
    AsList,
    CountOrOne,
    NameText,
    Object,
    PodSpec,
    Record,
    Texts,
)
from placewright.instances.converters.kubernetes.sources import Source, refused
from placewright.instances.converters.kubernetes.workflow import Workflow, of_workflow
from placewright.instances.documents.arrangement import Apart, Slices
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_documents

MAX_REPLICAS = 10_000
_EXCLUSIVE = {
    "JobSet": "alpha.jobset.sigs.k8s.io/exclusive-topology",
    "LeaderWorkerSet": "leaderworkerset.sigs.k8s.io/exclusive-topology",
}


class _Meta(Record):
    annotations: Texts = Field(default_factory=dict)


class _Pod(Record):
    spec: PodSpec = PodSpec()


class _JobSpec(Record):
    parallelism: CountOrOne = 1
    completions: CountOrOne | None = None
    template: _Pod = _Pod()


class _Template(Record):
    metadata: _Meta = _Meta()
    spec: _JobSpec = _JobSpec()


class _ReplicatedJob(Record):
    name: NameText
    replicas: CountOrOne = 1
    template: _Template = _Template()


class _JobSetSpec(Record):
    replicatedJobs: Annotated[tuple[_ReplicatedJob, ...], AsList] = ()  # noqa: N815


class _JobSet(Object):
    spec: _JobSetSpec


class _Pods(Record):
    size: CountOrOne = 1
    leaderTemplate: _Pod | None = None  # noqa: N815
    workerTemplate: _Pod = _Pod()  # noqa: N815


class _LeaderWorkerSpec(Record):
    replicas: CountOrOne = 1
    leaderWorkerTemplate: _Pods = _Pods()  # noqa: N815


class _LeaderWorkerSet(Object):
    spec: _LeaderWorkerSpec


class Manifest(NamedTuple):
    """The jobs of a manifest, and what of it they cannot say."""

    jobs: tuple[Job, ...]
    book: Bookkeeping


def read_manifest(
    file: str | os.PathLike[str], *, levels: Mapping[str, str] | None = None
) -> Manifest:
    """Turn JobSets, LeaderWorkerSets and Workflows of a manifest into jobs, for `whatif -e`.

    A JobSet is one job with a task group for each replicated job. Each replica of a
    LeaderWorkerSet is a job, whose groups are its leader and its workers. Each task of a
    Workflow's DAG is a job of policy `stages`.

    Parameters
    ----------
    file
        YAML or JSON, other objects beside them in further documents.
    levels
        Names of levels by the label keys that annotations of an exclusive topology have.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or no object in it asks for GPUs.
    """
    name = os.fspath(file)
    book = Bookkeeping()
    jobs: list[Job] = []
    for raw in load_documents(file):
        if not isinstance(raw, dict):
            raise InvalidInputError("expected an object of Kubernetes", file=name, value=raw)
        kind = raw.get("kind")
        try:
            if kind == "JobSet":
                jobs += _of_job_set(_JobSet.model_validate(raw), levels or {}, book)
            elif kind == "LeaderWorkerSet":
                jobs += _of_leaders(_LeaderWorkerSet.model_validate(raw), levels or {}, book)
            elif kind == "Workflow":
                jobs += of_workflow(Workflow.model_validate(raw), _group, book)
            else:
                book.leave("objects", "no JobSet, LeaderWorkerSet or Workflow", f"{kind}")
        except ValidationError as error:
            raise refused(error, Source(name, (), raw)) from None
        except InvalidInputError as error:
            raise error.inside(name) from None
    if not jobs:
        raise InvalidInputError(
            "expected a JobSet or a LeaderWorkerSet whose pods ask for GPUs, or a Workflow",
            file=name,
            show_value=False,
        )
    return Manifest(tuple(jobs), book)


def _of_job_set(one: _JobSet, levels: Mapping[str, str], book: Bookkeeping) -> Iterator[Job]:
    name, key = one.metadata.name, _EXCLUSIVE["JobSet"]
    groups: list[TaskGroup] = []
    for part in one.spec.replicatedJobs:
        spec = part.template.spec
        pods = min(
            spec.parallelism, spec.parallelism if spec.completions is None else spec.completions
        )
        if not pods * part.replicas:
            continue
        notes = {**one.metadata.annotations, **part.template.metadata.annotations}
        owner = f"{name}/{part.name}"
        level = _level(notes.get(key, ""), levels, owner, book)
        arranged: dict[str, Any] = {}
        if level is not None and part.replicas == 1:
            arranged = {"required": level}
        elif level is not None:
            arranged = {
                "slices": Slices(size=pods, required=level),
                "apart": Apart(level=level, most=pods),
            }
        group = _group(part.name, pods * part.replicas, spec.template.spec, owner, book)
        groups.append(group.model_copy(update=arranged))
    yield from _jobs(name, 1, groups, None, book)


def _of_leaders(
    one: _LeaderWorkerSet, levels: Mapping[str, str], book: Bookkeeping
) -> Iterator[Job]:
    name, pods = one.metadata.name, one.spec.leaderWorkerTemplate
    leader, workers = pods.leaderTemplate, pods.size
    groups: list[TaskGroup] = []
    if leader is not None and workers:
        groups.append(_group("leader", 1, leader.spec, name, book))
        workers -= 1
    if workers:
        groups.append(_group("workers", workers, pods.workerTemplate.spec, name, book))
    key = one.metadata.annotations.get(_EXCLUSIVE["LeaderWorkerSet"], "")
    level = _level(key, levels, name, book)
    if one.spec.replicas > MAX_REPLICAS:
        raise InvalidInputError(
            f"expected at most {MAX_REPLICAS:,}",
            path=("spec", "replicas"),
            value=one.spec.replicas,
        )
    yield from _jobs(name, one.spec.replicas, groups, level, book)


def _jobs(
    name: str, replicas: int, groups: list[TaskGroup], level: str | None, book: Bookkeeping
) -> Iterator[Job]:
    if not any(group.gpu for group in groups):
        book.leave("objects", "asks for no GPU", name)
        return
    book.take("objects")
    option = Option(groups=tuple(groups), required=level)
    for i in range(replicas):
        yield Job(name=name if replicas == 1 else f"{name}-{i}", options=(option,))


def _group(name: str, count: int, spec: PodSpec, owner: str, book: Bookkeeping) -> TaskGroup:
    asked = requests(spec)
    labels = told_labels()
    models = [spec.nodeSelector[key] for key in dict.fromkeys(labels) if key in spec.nodeSelector]
    if others := sorted(set(spec.nodeSelector) - set(labels)):
        book.cannot_say(f"nodes by label ({', '.join(others)})", owner)
    if spec.affinity is not None:
        book.cannot_say("affinity", owner)
    return TaskGroup(
        name=name,
        count=count,
        gpu=asked.gpus,
        cpu=f"{asked.cpu}m",
        memory=f"{asked.memory}Mi",
        resources={
            key: amount
            for key, amount in asked.others.items()
            if amount and "/" in key and not key.startswith(HOST_PORT)
        },
        gpu_models=tuple(models) or None,
    )


def _level(key: str, levels: Mapping[str, str], owner: str, book: Bookkeeping) -> str | None:
    if key and key not in levels:
        book.cannot_say(f"exclusive topology by {key}, which no --level names", owner)
    elif key:
        book.cannot_say("that nobody else may be in an exclusive domain", owner)
    return levels.get(key)
