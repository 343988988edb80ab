"""A task of SkyPilot becomes a job: each of its alternatives is an option."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from placewright.instances.documents.base import NAME
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_values

MAX_OPTIONS = 64
MAX_NODES = 100_000
_LISTS = ("any_of", "ordered")
_ACCELERATOR = re.compile(r"([A-Za-z0-9._-]{1,60})(?::([0-9]{1,4}(?:\.[0-9]{1,3})?))?")
_AMOUNT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(GB|TB|x)?\+?", re.IGNORECASE)
_UNSAFE = re.compile(r"[^A-Za-z0-9._:/@|+=-]")


def read_skypilot(file: str | os.PathLike[str]) -> Job:
    """Turn a task of SkyPilot into a job, for `whatif -f`.

    Its `num_nodes` nodes are tasks of one group. `accelerators` with several models, `any_of` and
    `ordered` are alternatives, each of them an option in their order; `cpus` and `memory` are what
    a node has at least. Fields that say nothing about a placement are not read.

    Raises
    ------
    InvalidInputError
        It is no task, asks for no GPU, or has a value that SkyPilot would not take.
    """
    name = os.fspath(file)
    task = load_values(file)
    try:
        return _job(task, Path(name).stem)
    except InvalidInputError as error:
        raise error.inside(name) from None
    except ValidationError as error:
        raise InvalidInputError(
            f"expected a task that can be a job: {error.errors()[0]['msg']}", value=None, file=name
        ) from None


def _job(task: Any, stem: str) -> Job:
    if not isinstance(task, dict) or not isinstance(task.get("resources"), dict):
        raise InvalidInputError(
            "expected a task of SkyPilot, with resources", path=("resources",), show_value=False
        )
    nodes = task.get("num_nodes", 1)
    if not isinstance(nodes, int) or isinstance(nodes, bool) or not 0 < nodes <= MAX_NODES:
        raise InvalidInputError(
            f"expected a number of 1 to {MAX_NODES:,}", path=("num_nodes",), value=nodes
        )
    title = task.get("name")
    groups: list[TaskGroup] = []
    for path, wanted in _alternatives(task["resources"]):
        groups += [group for group in _groups(wanted, nodes, path) if group not in groups]
    if not groups:
        raise InvalidInputError(
            "asks for no accelerator; expected one such as H100:8",
            path=("resources", "accelerators"),
            show_value=False,
        )
    if len(groups) > MAX_OPTIONS:
        raise InvalidInputError(
            f"has {len(groups)} alternatives; expected at most {MAX_OPTIONS}",
            path=("resources",),
            show_value=False,
        )
    return Job(
        name=_named(title if isinstance(title, str) and title else stem),
        options=tuple(
            Option(name=_option(i, group, len(groups)), groups=(group,))
            for i, group in enumerate(groups)
        ),
    )


def _alternatives(
    resources: Mapping[str, Any],
) -> Iterator[tuple[tuple[str | int, ...], Mapping[str, Any]]]:
    """Yield what a node may be like: the resources, overridden by each entry of a list of them."""
    base = {key: value for key, value in resources.items() if key not in _LISTS}
    given = [key for key in _LISTS if resources.get(key)]
    if not given:
        yield ("resources",), base
    for key in given:
        entries = resources[key]
        if not isinstance(entries, list):
            raise InvalidInputError("expected a list", path=("resources", key), value=entries)
        for i, entry in enumerate(entries):
            if not isinstance(entry, dict):
                raise InvalidInputError(
                    "expected resources", path=("resources", key, i), value=entry
                )
            yield ("resources", key, i), {**base, **entry}


def _groups(
    wanted: Mapping[str, Any], nodes: int, path: tuple[str | int, ...]
) -> Iterator[TaskGroup]:
    cpus = _amount(wanted.get("cpus"), (*path, "cpus"), 1)
    memory = _amount(wanted.get("memory"), (*path, "memory"), cpus)
    for model, number in _accelerators(wanted.get("accelerators"), (*path, "accelerators")):
        yield TaskGroup(
            count=nodes,
            gpu=f"{round(number * 1000)}m",
            cpu=f"{round(cpus * 1000)}m",
            memory=f"{round(memory * 1024)}Mi",
            gpu_models=(model,),
        )


def _accelerators(given: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str, float]]:
    """Yield models and numbers: of `H100:8`, a mapping, or a list, whose entries are choices."""
    if given is None:
        return
    entries: list[Any] = given if isinstance(given, list) else [given]
    if isinstance(given, dict):
        entries = [f"{model}:{number}" for model, number in given.items()]
    for entry in entries:
        match = _ACCELERATOR.fullmatch(str(entry))
        if match is None or match[1].lower().startswith("tpu"):
            raise InvalidInputError("expected a GPU such as H100:8", path=path, value=entry)
        yield match[1], float(match[2] or 1)


def _amount(given: Any, path: tuple[str | int, ...], cpus: float) -> float:
    """Return a least amount: `4`, `4+`, `64GB+`, or `4x` of the cores."""
    if given is None:
        return 0.0
    match = _AMOUNT.fullmatch(str(given))
    if match is None or isinstance(given, bool):
        raise InvalidInputError("expected an amount such as 8 or 8+", path=path, value=given)
    scales = {"": 1.0, "gb": 1.0, "tb": 1024.0, "x": cpus}
    return float(match[1]) * scales[(match[2] or "").lower()]


def _option(at: int, group: TaskGroup, number: int) -> str:
    if number == 1 or group.gpu_models is None:
        return "default"
    return f"{at}-{group.gpu_models[0]}-{group.gpu / 1000:g}"


def _named(text: str) -> str:
    made = _UNSAFE.sub("-", text)[:200]
    return made if re.fullmatch(NAME, made) else "task"
