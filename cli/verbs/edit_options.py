"""Edits as options of the command line: the same edits as in a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from placewright.cli.format.times import seconds
from placewright.cli.format.usage import suggestion

if TYPE_CHECKING:
    from placewright.instances.documents.edits import Edits
    from placewright.instances.documents.round import Round

NO = "none"
IN_REGION = ".gpu@"


@dataclass(frozen=True, slots=True)
class EditOptions:
    """What the options of edits were given."""

    file: str | None = None
    drain: Sequence[str] = ()
    fail: Sequence[str] = ()
    restore: Sequence[str] = ()
    release: Sequence[str] = ()
    add: Sequence[str] = ()
    quota: Sequence[str] = ()
    cap: Sequence[str] = ()
    pool: Sequence[str] = ()
    limit: Sequence[str] = ()
    change: Sequence[str] = ()
    remove: Sequence[str] = ()
    end: Sequence[str] = ()
    submit: Sequence[str] = ()
    replicate: Sequence[str] = ()
    at: str | None = None


@dataclass(frozen=True, slots=True)
class GivenEdits:
    """Edits, and the option that each of them comes from, None for those of the file."""

    edits: Edits
    file: str | None
    options: tuple[str | None, ...]

    def applied(self, round_: Round) -> Round:
        """Return the round with the edits.

        Raises
        ------
        InvalidInputError
            An edit of the file makes no sense.
        typer.BadParameter
            One of an option makes none.
        """
        from placewright.instances.edits.apply import apply_edits
        from placewright.instances.errors import InvalidInputError

        try:
            return apply_edits(round_, self.edits)
        except InvalidInputError as error:
            raise self.blamed(error) from None

    def blamed(self, error: Exception) -> Exception:
        """Return an error as one of the file, or of the option that it comes from."""
        return _blamed(error, self.options, self.file)


def read_edits(given: EditOptions) -> GivenEdits:
    """Return the edits of the file, then those of the options, in the order of `EditOptions`.

    Raises
    ------
    InvalidInputError
        A file cannot be read, or is not valid.
    typer.BadParameter
        An option is not valid.
    """
    from placewright.instances.documents.edits import Edits
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.io.files import load_edits, parse_edits

    first = Edits() if given.file is None else load_edits(given.file)
    pairs = list(_raw_edits(given))
    options = (*(None for _ in first.edits), *(option for option, _ in pairs))
    try:
        more = parse_edits({"edits": [raw for _, raw in pairs]})
    except InvalidInputError as error:
        raise _blamed(error, options[len(first.edits) :], None) from None
    return GivenEdits(Edits(edits=(*first.edits, *more.edits)), given.file, options)


def _blamed(error: Any, options: Sequence[str | None], file: str | None) -> Exception:
    path = error.path
    option = options[int(path[1])] if path[:1] == ("edits",) and len(path) > 1 else None
    if option is None:
        return error if file is None else error.inside(file)  # type: ignore[no-any-return]
    # Without the number of the edit, its verb and the place in a list, which the user never wrote.
    inside = tuple(path[3:])
    while inside and isinstance(inside[0], int):
        inside = inside[1:]
    return typer.BadParameter(error.at(inside).text(place=False), param_hint=option)


def _raw_edits(given: EditOptions) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of an option and the edit that it stands for."""
    for verb in ("drain", "fail", "restore", "release"):
        hosts = list(getattr(given, verb))
        if hosts:
            yield f"--{verb}", {verb: hosts}
    for text in given.add:
        name, found, count = text.rpartition("=")
        like: dict[str, Any] = {"like": name, "count": _value(count)} if found else {"like": text}
        yield "--add", {"add": like}
    for text in given.quota:
        yield "--quota", {"quota": _quota(text)}
    for text in given.cap:
        yield "--cap", {"cap": _cap(text)}
    for text in given.pool:
        yield "--pool", {"pool": _pool(text)}
    for text in given.limit:
        name, value = _pair(text, "--limit", "LIMIT=NUMBER")
        limit = {"without": [name]} if value == NO else {"to": {name: _value(value)}}
        yield "--limit", {"limits": limit}
    for text in given.change:
        yield "--set", {"job": _job(text)}
    for verb in ("remove", "end"):
        jobs = list(getattr(given, verb))
        if jobs:
            yield f"--{verb}", {verb: jobs}
    for file in given.submit:
        yield "--submit", {"submit": _jobs_in(file)}
    for text in given.replicate:
        dataset, region = _pair(text, "--replicate", "DATASET=REGION")
        yield "--replicate", {"replicate": {"dataset": dataset, "regions": [region]}}
    if given.at is not None:
        later = given.at.startswith("+")
        span = seconds(given.at.removeprefix("+"))
        if span is None or not span.is_integer():
            raise typer.BadParameter(
                f"{given.at}: expected a time on the round's clock in seconds, or +TIME from now",
                param_hint="--at",
            )
        yield "--at", {"advance_s" if later else "at": int(span)}


def _quota(text: str) -> dict[str, Any]:
    """Return the edit of `TENANT.RESOURCE=AMOUNT`, `=+AMOUNT`, `=-AMOUNT` or `=none`.

    `TENANT.gpu@REGION=AMOUNT` are all GPUs that it may hold in a region.
    """
    name, value = _pair(text, "--quota", "TENANT.RESOURCE=AMOUNT")
    tenant, found, region = name.partition(IN_REGION)
    if found:
        if not tenant or not region or value == NO or value[0] in "+-":
            raise _wrong(text, "--quota", "TENANT.gpu@REGION=AMOUNT, all that it may hold there")
        return {tenant: {"in_regions": {region: _value(value)}}}
    tenant, found, resource = name.rpartition(".")
    if not found:
        raise _wrong(text, "--quota", "TENANT.RESOURCE=AMOUNT")
    if value == NO:
        return {tenant: {"without": [resource]}}
    field = {"+": "more", "-": "less"}.get(value[0], "to")
    return {tenant: {field: {resource: _value(value.lstrip("+-"))}}}


def _cap(text: str) -> dict[str, Any]:
    """Return the edit of `CAP.LIMIT=AMOUNT`, `=+AMOUNT`, `=-AMOUNT` or `=none`.

    The limit is `gpus`, `gpus@MODEL`, `jobs` or a resource.
    """
    from placewright.instances.documents.caps import Measure

    form = "CAP.LIMIT=AMOUNT with a limit gpus, gpus@MODEL, jobs or a resource"
    name, value = _pair(text, "--cap", form)
    cap, found, key = name.rpartition(".")
    before, model, rest = name.rpartition(".gpus@")
    if model and before and rest:
        cap, found, key = before, ".", f"gpus@{rest}"
    if not found or not cap or not key:
        raise _wrong(text, "--cap", form)
    if value == NO:
        return {cap: {"without": [key]}}
    field = {"+": "more", "-": "less"}.get(value[0], "to")
    return {cap: {field: Measure.of_key(key).at(_value(value.lstrip("+-")))}}


def _pool(text: str) -> dict[str, Any]:
    """Return the edit of `RESOURCE=AMOUNT`, `RESOURCE@LEVEL=+AMOUNT` or `RESOURCE@LEVEL:DOMAIN=`.

    Without a level it is the pool of the whole cluster, without a domain each of the level.
    """
    form = "RESOURCE[@LEVEL[:DOMAIN]]=AMOUNT"
    name, value = _pair(text, "--pool", form)
    resource, at, where = name.partition("@")
    level, colon, domain = where.partition(":")
    if not resource or (at and not level) or (colon and not domain):
        raise _wrong(text, "--pool", form)
    change: dict[str, Any] = {"level": level} if level else {}
    if domain:
        change["domains"] = [domain]
    field = {"+": "more", "-": "less"}.get(value[0], "to")
    return {resource: {**change, field: _value(value.lstrip("+-"))}}


def _job(text: str) -> dict[str, Any]:
    """Return the edit of `JOB.FIELD=VALUE`, or `=none` for a job without it."""
    from placewright.instances.documents.edits import JobEdit

    fields = list(JobEdit.model_fields)
    found = re.fullmatch(rf"(.+)\.({'|'.join(fields)})=(.+)", text, re.DOTALL)
    if found is None:
        name = text.partition("=")[0].rpartition(".")[2]
        raise typer.BadParameter(
            f"{text}: expected JOB.FIELD=VALUE with a field of jobs{suggestion(name, fields)}",
            param_hint="--set",
        )
    job, field, value = found.groups()
    if value == NO:
        return {job: {"without": [field]}}
    if value[0] in "+-" and field == "due":
        span = seconds(value[1:])
        if span is None or not span.is_integer():
            raise _wrong(text, "--set", "JOB.due=+TIME, later, or -TIME, earlier")
        return {job: {"due_later_s": int(span) * (1 if value[0] == "+" else -1)}}
    if field == "expected_runtime_s" and (span := seconds(value)) is not None:
        return {job: {field: int(span) if span.is_integer() else span}}
    if numbers := re.fullmatch(r"(\d+)(?:-(\d+))?", value) if field == "num_hosts" else None:
        least, most = numbers[1], numbers[2] or numbers[1]
        return {job: {field: {"min": int(least), "max": int(most)}}}
    if value[0] == "-" and field == "host_sets":
        return {job: {"drop_host_sets": _names(value[1:])}}
    if value[0] == "+" and field in ("gpu_models", "regions"):
        return {job: {f"add_{field}": _names(value[1:])}}
    if field in ("gpu_models", "regions", "hosts", "host_sets") and value[0] != "[":
        return {job: {field: _names(value)}}
    return {job: {field: _value(value)}}


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _jobs_in(file: str) -> Any:
    """Return the raw jobs of a file: one job, a list of jobs, or a document with `jobs`."""
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.io.files import load_values, parse_edits

    values = load_values(file)
    if isinstance(values, dict):
        values = values.get("jobs", [values])
    try:
        parse_edits({"edits": [{"submit": values}]})
    except InvalidInputError as error:
        raise error.moved(lambda path: path[3:]).inside(file) from None
    return values


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    name, found, value = text.rpartition("=")
    if not found or not name or not value:
        raise _wrong(text, option, form)
    return name, value


def _value(text: str) -> Any:
    """Return a value as YAML has it."""
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.io.yaml_json import parse_yaml

    try:
        return parse_yaml(text)
    except InvalidInputError:
        return text


def _wrong(text: str, option: str, form: str) -> typer.BadParameter:
    return typer.BadParameter(f"{text}: expected {form}", param_hint=option)
