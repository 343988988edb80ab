"""Records of a dump out of plain values, with the file in each error."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ValidationError

from placewright.instances.converters.slurm.accessor import Record
from placewright.instances.converters.slurm.sources import Part
from placewright.instances.errors import InvalidInputError

_R = TypeVar("_R", bound=Record)


def read_records(kind: type[_R], part: Part, *path: str | int) -> _R:
    """Read a record from a part of a dump.

    Parameters
    ----------
    kind
        The record.
    part
        Its values.
    path
        Where in its file they are, if not at its top; of a whole file, the part that is read.

    Raises
    ------
    InvalidInputError
        The first value that is not what Slurm writes: file, field, value, what was expected.
    """
    raw: Any = part.raw
    whole = len(path) == 1
    if whole and isinstance(raw, dict):
        raw = {key: raw[key] for key in (path[0], "last_update") if key in raw}
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        inside = tuple(part for part in first["loc"] if part != "[key]")
        raise InvalidInputError(
            _expected(first),
            file=part.file,
            path=inside if whole else (*path, *inside),
            value=first["input"],
            show_value=first["type"] != "missing",
        ) from None


def _expected(error: Any) -> str:
    context = error.get("ctx", {})
    if error["type"] == "value_error":
        return str(context["error"])
    if error["type"] == "missing":
        return "missing; expected a value"
    if error["type"] == "string_pattern_mismatch":
        return "expected only letters, digits and any of . _ : / @ | + = -"
    return f"expected otherwise: {error['msg']}"
