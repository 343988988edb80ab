"""A Workflow of Argo becomes jobs with stages: the tasks of its DAG, which wait for others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Annotated

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.records import (
    AsList,
    Container,
    NameText,
    PodSpec,
    Record,
    Text,
)
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.stage import MAX_TASK_S, Stage
from placewright.instances.errors import InvalidInputError

_NAMED = re.compile(r"(?<![\w.-])[A-Za-z0-9][\w-]*")
"""The tasks in an expression such as `a.Succeeded && (b || c)`."""

_HOW = re.compile(r"\.(?!Succeeded\b)\w")
"""How a task has to end, other than well."""


class _Task(Record):
    name: NameText
    template: Text = ""
    dependencies: Annotated[tuple[Text, ...], AsList] = ()
    depends: Text = ""
    when: Text = ""
    withItems: Annotated[tuple[object, ...], AsList] = ()  # noqa: N815
    withParam: object = None  # noqa: N815
    withSequence: object = None  # noqa: N815


class _Dag(Record):
    tasks: Annotated[tuple[_Task, ...], AsList] = ()


class _Limited(PodSpec):
    """What is said of the pods of a template, or of a workflow, and how many run at once."""

    parallelism: object = None
    synchronization: object = None


class _Template(_Limited):
    name: NameText
    dag: _Dag | None = None
    container: Container | None = None
    script: Container | None = None
    sidecars: Annotated[tuple[Container, ...], AsList] = ()


class _Spec(_Limited):
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
    _refuse_twice([template.name for template in one.spec.templates], ("spec", "templates"))
    entry = templates.get(one.spec.entrypoint)
    if entry is None or entry.dag is None:
        raise InvalidInputError(
            "expected a template with a dag", ("spec", "entrypoint"), one.spec.entrypoint
        )
    _check_names(entry.dag.tasks)
    book.take("objects")
    _limits(one.spec, workflow, book)
    _limits(entry, workflow, book)
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
        _limits(template, owner, book)
        if task.withParam is not None or task.withSequence is not None:
            problem = f"task {task.name} has items that are not listed; expected withItems"
            raise InvalidInputError(problem, ("spec", "templates"), task.template)
        if "|" in task.depends or "!" in task.depends:
            book.cannot_say("that not all tasks before a task have to be done", owner)
        if _HOW.search(task.depends):
            book.cannot_say("that a task waits for another to end in a certain way", owner)
        if task.when:
            book.cannot_say("when a task is left out", owner)
        count = max(1, len(task.withItems))
        spec = template.model_copy(
            update={
                "containers": (container, *template.sidecars),
                "nodeSelector": {**one.spec.nodeSelector, **template.nodeSelector},
                "affinity": template.affinity or one.spec.affinity,
            }
        )
        group = group_of(task.name, count, spec, owner, book)
        after = tuple(f"{workflow}/{name}" for name in _before(task))
        stage = Stage(task_s=seconds or 1, after=after, gang=count == 1)
        yield Job(name=owner, options=(Option(groups=(group,)),), stage=stage)


def _before(task: _Task) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*task.dependencies, *_NAMED.findall(task.depends)]))


def _limits(what: _Limited, owner: str, book: Bookkeeping) -> None:
    if what.parallelism is not None:
        book.cannot_say("how many tasks may run at once", owner)
    if what.synchronization is not None:
        book.cannot_say("mutexes and semaphores", owner)


def _check_names(tasks: Sequence[_Task]) -> None:
    """Refuse tasks of one name, those that wait for unknown ones, and cycles."""
    path = "spec", "templates"
    _refuse_twice([task.name for task in tasks], path)
    before = {task.name: _before(task) for task in tasks}
    for task in tasks:
        for name in before[task.name]:
            if name not in before:
                problem = f"task {task.name} waits for it; expected one of {', '.join(before)}"
                raise InvalidInputError(problem, path, name, unknown=(name, before))
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        names = ", ".join(error.args[1][1:])
        problem = f"each task waits for another, a cycle: {names}; expected tasks without one"
        raise InvalidInputError(problem, path) from None


def _refuse_twice(names: Sequence[str], path: tuple[str, ...]) -> None:
    for name, number in Counter(names).items():
        if number > 1:
            raise InvalidInputError("given twice; expected each name once", path, name)
