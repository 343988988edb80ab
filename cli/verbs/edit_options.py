"""Edits as options of the command line: the same edits as in a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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


def read_edits(file: str | None, given: Mapping[str, Sequence[str] | None]) -> GivenEdits:
    """Return the edits of a file, then those of options, by their names, in this order.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or is not valid.
    typer.BadParameter
        An option is not valid.
    """
    from placewright.instances.documents.edits import Edits
    from placewright.instances.errors import InvalidInputError
    from placewright.instances.io.files import load_edits, parse_edits

    first = Edits() if file is None else load_edits(file)
    pairs = list(_raw_edits(given))
    options = (*(None for _ in first.edits), *(option for option, _ in pairs))
    try:
        more = parse_edits({"edits": [raw for _, raw in pairs]})
    except InvalidInputError as error:
        raise _blamed(error, options[len(first.edits) :], None) from None
    return GivenEdits(Edits(edits=(*first.edits, *more.edits)), file, options)


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


def _raw_edits(
    given: Mapping[str, Sequence[str] | None],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of an option and the edit that it stands for."""
    read = {"add": _add, "quota": _quota, "set": _job}
    for option, texts in given.items():
        if option in read:
            for text in texts or ():
                yield f"--{option}", read[option](text)
        elif texts:
            yield f"--{option}", {option: list(texts)}


def _add(text: str) -> dict[str, Any]:
    """Return the edit of `LIKE` or `LIKE=COUNT`."""
    name, found, count = text.rpartition("=")
    return {"add": {"like": name, "count": _value(count)} if found else {"like": text}}


def _quota(text: str) -> dict[str, Any]:
    """Return the edit of `TENANT.RESOURCE=AMOUNT`, `=+AMOUNT`, `=-AMOUNT` or `=none`.

    `TENANT.gpu@REGION=AMOUNT` are all GPUs that it may hold in a region.
    """
    name, _, value = text.rpartition("=")
    if not name or not value:
        raise _wrong(text, "--quota", "TENANT.RESOURCE=AMOUNT")
    tenant, found, region = name.partition(IN_REGION)
    if found:
        if not tenant or not region or value == NO or value[0] in "+-":
            raise _wrong(text, "--quota", "TENANT.gpu@REGION=AMOUNT, all that it may hold there")
        return {"quota": {tenant: {"in_regions": {region: _value(value)}}}}
    tenant, found, resource = name.rpartition(".")
    if not found:
        raise _wrong(text, "--quota", "TENANT.RESOURCE=AMOUNT")
    if value == NO:
        return {"quota": {tenant: {"without": [resource]}}}
    field = {"+": "more", "-": "less"}.get(value[0], "to")
    return {"quota": {tenant: {field: {resource: _value(value.lstrip("+-"))}}}}


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
        return {"job": {job: {"without": [field]}}}
    if value[0] in "+-" and field == "due":
        span = seconds(value[1:])
        if span is None or not span.is_integer():
            raise _wrong(text, "--set", "JOB.due=+TIME, later, or -TIME, earlier")
        return {"job": {job: {"due_later_s": int(span) * (1 if value[0] == "+" else -1)}}}
    if field == "expected_runtime_s" and (span := seconds(value)) is not None:
        return {"job": {job: {field: int(span) if span.is_integer() else span}}}
    if numbers := re.fullmatch(r"(\d+)(?:-(\d+))?", value) if field == "num_hosts" else None:
        least, most = numbers[1], numbers[2] or numbers[1]
        return {"job": {job: {field: {"min": int(least), "max": int(most)}}}}
    if value[0] == "-" and field == "host_sets":
        return {"job": {job: {"drop_host_sets": _names(value[1:])}}}
    if value[0] == "+" and field in ("gpu_models", "regions"):
        return {"job": {job: {f"add_{field}": _names(value[1:])}}}
    if field in ("gpu_models", "regions", "hosts", "host_sets") and value[0] != "[":
        return {"job": {job: {field: _names(value)}}}
    return {"job": {job: {field: _value(value)}}}


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


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
