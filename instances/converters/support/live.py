"""What converters of live clusters share: host sets, GPU models, what is left of wrong objects."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from placewright.instances.checks.round import check_round
from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.derived.names import AllowedHosts
from placewright.instances.documents.base import NAME
from placewright.instances.documents.form_errors import invalid_input
from placewright.instances.documents.job import Job
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.round import MAX_HOST_SETS, Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_values

_M = TypeVar("_M", bound=BaseModel)


def salvaged(
    kind: type[_M], raw: Any, error: ValidationError, defaults: Mapping[str, Any], **how: Any
) -> _M | None:
    """Return a record without the fields that are wrong; None if it needs one of these.

    `kind`: the record, which has a field `unreadable`: why it could not be read as it is. `raw`,
    `error`: its values, and what is wrong with them. `defaults`: what stands for fields that it
    needs and that are wrong. `how`: further arguments of `model_validate`.
    """
    if "unreadable" not in kind.model_fields or not isinstance(raw, dict):
        return None
    kept = dict(raw)
    for one in error.errors(include_url=False, include_input=False):
        field, *inside = one["loc"] or ("",)
        inner = kept.get(str(field))
        if inside and isinstance(inner, dict):
            kept[str(field)] = {key: value for key, value in inner.items() if key != inside[0]}
        else:
            kept.pop(str(field), None)
    try:
        return kind.model_validate({**defaults, **kept, "unreadable": why(error)}, **how)
    except ValidationError:
        return None


def why(error: ValidationError) -> str:
    """Return why an object is left out, the same for all of which the same field is wrong."""
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(part for part in first["loc"] if isinstance(part, str) and part != "[key]")
    text = str(first["ctx"]["error"]) if first["type"] == "value_error" else first["msg"]
    return f"cannot be read: {field}: {text}" if field else f"cannot be read: {text}"


# Host sets of a round that is made: each condition on hosts is named once.

MAX_MEMBERS = 10_000_000
"""Hosts of all sets together; conditions beyond are lists of hosts."""

MAX_NAME = 253
_MAX_NAME = 200
_MAX_REMEMBERED = 1024
_NAME = re.compile(NAME)


class Condition(NamedTuple):
    """Hosts that meet a condition of a job, and what it is called: `partition/main`."""

    name: str
    hosts: frozenset[str]


class HostSets:
    """The host sets of a round.

    `everywhere`: how many hosts there are. `compress`: returns names and ranges of hosts. `sets`:
    those that some task group refers to.
    """

    def __init__(
        self, everywhere: int, compress: Callable[[frozenset[str]], tuple[str, ...]]
    ) -> None:
        self.sets: dict[str, tuple[str, ...]] = {}
        self._everywhere, self._compress = everywhere, compress
        self._known: dict[tuple[str, tuple[str, ...]], str] = {}
        self._ranges: dict[frozenset[str], tuple[str, ...]] = {}
        self._members = 0

    def fields(self, conditions: Iterable[Condition], allowed: frozenset[str]) -> dict[str, Any]:
        """Return the fields of a task group that may go to the hosts that meet all conditions.

        `allowed` are these hosts: a list of them where no more sets may be named.
        """
        names: list[str] = []
        for condition in conditions:
            if len(condition.hosts) < self._everywhere:
                name = self._name(condition)
                if name is None:
                    return {"hosts": self._compress(allowed)}
                names.append(name)
        return {"host_sets": tuple(dict.fromkeys(names))}

    def used_by(self, jobs: Iterable[Job]) -> dict[str, tuple[str, ...]]:
        """Return the sets that jobs refer to: others are of jobs that were left out."""
        used = {
            name
            for job in jobs
            for option in job.options
            for group in option.groups
            for name in group.host_sets
        }
        return {name: self.sets[name] for name in sorted(used)}

    def _name(self, condition: Condition) -> str | None:
        """Return the name of a set, None if there are too many."""
        if condition.hosts not in self._ranges:
            if len(self._ranges) >= _MAX_REMEMBERED:
                self._ranges.clear()
            self._ranges[condition.hosts] = self._compress(condition.hosts)
        hosts = self._ranges[condition.hosts]
        key = condition.name, hosts
        if key not in self._known:
            full = len(self.sets) == MAX_HOST_SETS
            if full or self._members + len(condition.hosts) > MAX_MEMBERS:
                return None
            self._members += len(condition.hosts)
            self._known[key] = self._free_name(condition.name)
            self.sets[self._known[key]] = hosts
        return self._known[key]

    def _free_name(self, wanted: str) -> str:
        """Return a name that is free: the wanted one, or one with a number."""
        base = wanted
        if len(wanted) > _MAX_NAME or not _NAME.fullmatch(wanted):
            base = wanted.partition("/")[0]
        elif wanted not in self.sets:
            return wanted
        number = 1
        while f"{base}:{number}" in self.sets:
            number += 1
        return f"{base}:{number}"


def either(kind: str, names: Sequence[str]) -> str:
    """Return what hosts of one of several things are called: `partition/a+b`."""
    return f"{kind}/{'+'.join(sorted(names))}"


# Jobs in a cap of GPUs by model: each task group names one model, and each model has an option.

MAX_OPTIONS = 64


def with_one_model_each(
    job: Job, model_of: Mapping[str, str | None], capped: Collection[str]
) -> Job | None:
    """Return a job of which what counts by model is known; None if a round cannot say it.

    A running job has the model that it runs on. An option of a pending one becomes one for each
    model that all of its groups may have. `model_of`: the GPU model of each host. `capped`: GPU
    models of which GPUs are limited.
    """
    if job.running is not None:
        there: dict[int, set[str | None]] = {}
        for task in job.running.tasks:
            there.setdefault(task.group, set()).add(model_of[task.host])
        option = job.options[job.running.option]
        found = [there.get(g, set()) for g in range(len(option.groups))]
        if any(len(models) != 1 for models, g in zip(found, option.groups, strict=True) if g.gpu):
            return None
        options = [_with_models(option, [next(iter(models), None) for models in found])]
        return job.model_copy(update={"options": tuple(options)})
    options = []
    for option in job.options:
        able = [_models_of(group, model_of) if group.gpu else None for group in option.groups]
        asked = [models for models in able if models is not None]
        if not any(models.intersection(capped) for models in asked):
            options.append(option)
            continue
        common = sorted(frozenset.intersection(*asked))
        if all(len(models) == 1 for models in asked):
            options.append(_with_models(option, [next(iter(m), None) if m else None for m in able]))
        for model in common if any(len(models) > 1 for models in asked) else ():
            named = option.model_copy(update={"name": f"{option.name}-{model}"})
            options.append(_with_models(named, [model if m else None for m in able]))
    if not options or len(options) > MAX_OPTIONS:
        return None
    return job.model_copy(update={"options": tuple(options)})


def _models_of(group: TaskGroup, model_of: Mapping[str, str | None]) -> frozenset[str]:
    """Return the GPU models that a group may have."""
    hosts = AllowedHosts({}).of(group)
    there = model_of.values() if hosts is None else (model_of[name] for name in hosts)
    found = frozenset(model for model in there if model is not None)
    return found if group.gpu_models is None else found.intersection(group.gpu_models)


def _with_models(option: Option, models: Collection[str | None]) -> Option:
    groups = tuple(
        group if model is None or not group.gpu else _of_model(group, model)
        for group, model in zip(option.groups, models, strict=True)
    )
    return option.model_copy(update={"groups": groups})


def _of_model(group: TaskGroup, model: str) -> TaskGroup:
    return group.model_copy(update={"gpu_models": (model,)})


# What converters of dumps of live clusters return, and a policy in place of the scheduler's.


class LeftOutError(Exception):
    """Why something is not in the round; `more` is what is special to it."""

    def __init__(self, why: str, more: str = "") -> None:
        super().__init__(why)
        self.more = more


def is_name(text: str | None) -> bool:
    """Whether a text can be the name of something in a round."""
    return text is not None and len(text) <= MAX_NAME and _NAME.fullmatch(text) is not None


def summary_of(round_: Round, run: str = "jobs run") -> str:
    """Return a line about a round of a live cluster."""
    running = sum(job.running is not None for job in round_.jobs)
    gpus = sum(host.gpus or 0 for host in round_.cluster.hosts)
    return (
        f"{round_.name}: {len(round_.cluster.hosts):,} hosts, {gpus:,} GPUs; {running:,} {run}, "
        f"{len(round_.jobs) - running:,} wait"
    )


class LiveConversion(NamedTuple):
    """A round made from a dump, a line about it, what was left out, and files without use."""

    round: Round
    summary: str
    book: Bookkeeping
    ignored: tuple[str, ...] = ()


class GivenPolicy:
    """Fields of a policy, as a round has them, that take the place of those of a scheduler.

    Parameters
    ----------
    file
        Its JSON or YAML: a mapping, such as `{backfill: null}` or `{aging: {doubles_after_s: 60}}`.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or is no mapping.
    """

    def __init__(self, file: str | os.PathLike[str]) -> None:
        self._file = os.fspath(file)
        fields = load_values(file)
        if not isinstance(fields, dict):
            raise InvalidInputError(
                "expected fields of a policy, such as backfill: {depth: 1}",
                file=self._file,
                value=fields,
            )
        self.fields: Mapping[str, Any] = fields
        self._policy(Policy())

    def __str__(self) -> str:
        """Say which fields it has, in a line."""
        return f"policy: {', '.join(sorted(self.fields)) or 'nothing'} as in {self._file}"

    def of(self, made: LiveConversion) -> LiveConversion:
        """Return a round with this policy; its bookkeeping says so.

        Raises
        ------
        InvalidInputError
            The round cannot have it.
        """
        round_ = made.round.model_copy(update={"policy": self._policy(made.round.policy)})
        try:
            check_round(round_)
        except InvalidInputError as error:
            raise error.inside(self._file) from None
        made.book.notes.append(str(self))
        return made._replace(round=round_)

    def _policy(self, policy: Policy) -> Policy:
        given = {name: getattr(policy, name) for name in policy.model_fields_set}
        try:
            return Policy.model_validate({**given, **self.fields})
        except ValidationError as error:
            raise invalid_input(error, Policy).inside(self._file) from None
