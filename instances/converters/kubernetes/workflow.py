"""A Workflow of Argo becomes jobs with stages: the tasks of its DAG, which wait for others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Annotated

from pydantic import Field

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.records import (
    AsList,
    Container,
    NameText,
    PodSpec,
    Record,
    Seconds,
    Text,
    Texts,
)
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.stage import MAX_TASK_S, Stage
from placewright.instances.errors import InvalidInputError

_NAMED = re.compile(r"(?<![\w.-])[A-Za-z0-9][\w-]*")
"""The tasks in an expression such as `a.Succeeded && (b || c)`."""


class _Task(Record):
    name: NameText
    template: Text = ""
    dependencies: Annotated[tuple[Text, ...], AsList] = ()
    depends: Text = ""
    withItems: Annotated[tuple[object, ...], AsList] = ()  # noqa: N815
    withParam: object = None  # noqa: N815
    withSequence: object = None  # noqa: N815


class _Dag(Record):
    tasks: Annotated[tuple[_Task, ...], AsList] = ()


class _Template(Record):
    name: NameText
    dag: _Dag | None = None
    container: Container | None = None
    script: Container | None = None
    nodeSelector: Texts = Field(default_factory=dict)  # noqa: N815
    activeDeadlineSeconds: Seconds | None = None  # noqa: N815


class _Spec(Record):
    entrypoint: Text = ""
    templates: Annotated[tuple[_Template, ...], AsList] = ()


class _Meta(Record):
    name: Text = ""
    generateName: Text = ""  # noqa: N815


class Workflow(Record):
    """A Workflow whose entry point is a DAG."""

    metadata: _Meta = _Meta()
    spec: _Spec


GroupOf = Callable[[str, int, PodSpec, str, Bookkeeping], TaskGroup]


def of_workflow(one: Workflow, group_of: GroupOf, book: Bookkeeping) -> Iterator[Job]:
    """Yield a job per task; it runs as long as its template may, `activeDeadlineSeconds`.

    A task `withItems` is that many tasks, any number at a time.
    """
    workflow = one.metadata.name or one.metadata.generateName.rstrip("-")
    templates = {template.name: template for template in one.spec.templates}
    entry = templates.get(one.spec.entrypoint)
    if entry is None or entry.dag is None:
        raise InvalidInputError(
            "expected a template with a dag", ("spec", "entrypoint"), one.spec.entrypoint
        )
    book.take("objects")
    for task in entry.dag.tasks:
        owner, template = f"{workflow}/{task.name}", templates.get(task.template)
        container = None if template is None else template.container or template.script
        seconds = None if template is None else template.activeDeadlineSeconds
        if template is None or container is None or not 0 < (seconds or 0) <= MAX_TASK_S:
            raise InvalidInputError(
                f"task {task.name} needs a template with a container and how long it may run, "
                f"activeDeadlineSeconds of 1 to {MAX_TASK_S:,}; expected one",
                ("spec", "templates"),
                task.template,
            )
        if task.withParam is not None or task.withSequence is not None:
            problem = f"task {task.name} has items that are not listed; expected withItems"
            raise InvalidInputError(problem, ("spec", "templates"), task.template)
        if "|" in task.depends or "!" in task.depends:
            book.cannot_say("that not all tasks before a task have to be done", owner)
        names = [*task.dependencies, *_NAMED.findall(task.depends)]
        count, spec = max(1, len(task.withItems)), PodSpec(containers=(container,))
        spec = spec.model_copy(update={"nodeSelector": template.nodeSelector})
        group = group_of(task.name, count, spec, owner, book)
        after = tuple(f"{workflow}/{name}" for name in dict.fromkeys(names))
        stage = Stage(task_s=seconds or 1, after=after, gang=count == 1)
        yield Job(name=owner, options=(Option(groups=(group,)),), stage=stage)
