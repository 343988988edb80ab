"""Records of a dump out of plain values, with the file in each error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from pydantic import ValidationError

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.slurm.accessor import Record
from placewright.instances.converters.slurm.hostlist import HostLists
from placewright.instances.converters.slurm.sources import Part
from placewright.instances.converters.support.salvage import salvaged, why
from placewright.instances.documents.base import MAX_AMOUNT
from placewright.instances.errors import InvalidInputError

_R = TypeVar("_R", bound=Record)
_UNKNOWN = {"job_id": 0, "job_state": "RUNNING"}
"""What is taken of a job that does not say it: its nodes, if it names some, are not free."""

_MAPPING = "expected a mapping"
_TEXTS = {
    "missing": "missing; expected a value",
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "dict_type": _MAPPING,
    "tuple_type": "expected a list",
    "int_type": "expected a whole number",
    "string_type": "expected text",
    "string_unicode": "expected valid Unicode text",
    "string_too_short": "expected a name",
    "string_too_long": "expected a shorter name",
    "string_pattern_mismatch": "expected only letters, digits and any of . _ : / @ | + = -",
    "greater_than_equal": "expected 0 or more",
    "less_than_equal": f"expected at most {MAX_AMOUNT}",
}


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
        return kind.model_validate(raw, context=HostLists())
    except ValidationError as error:
        raise _refused(error, part.file, () if whole else path) from None


def read_list(kind: type[_R], part: Part, name: str, book: Bookkeeping) -> tuple[_R, ...]:
    """Read the records of a list one after the other, so that none is built after a wrong one.

    Parameters
    ----------
    kind
        The record.
    part
        Where the list is.
    name
        Its name, by which the bookkeeping counts what is left out.
    book
        Says whether records that are wrong are left out.

    Raises
    ------
    InvalidInputError
        As `read_records` does, unless they are left out.
    """
    entries = part.raw[name]
    if not isinstance(entries, list | None):
        raise InvalidInputError("expected a list", file=part.file, path=(name,), value=entries)
    lists, found = HostLists(), []
    for i, raw in enumerate(entries or ()):
        try:
            found.append(kind.model_validate(raw, context=lists))
        except ValidationError as error:
            book.refuse(_refused(error, part.file, (name, i)))
            left = salvaged(kind, raw, error, _UNKNOWN, context=lists)
            if left is None:
                book.leave(name, why(error), "?")
            else:
                found.append(left)
    return tuple(found)


def _refused(error: ValidationError, file: str, path: tuple[str | int, ...]) -> InvalidInputError:
    first = error.errors(include_url=False)[0]
    return InvalidInputError(
        _expected(first),
        file=file,
        path=(*path, *_parts(first["loc"])),
        value=first["input"],
        show_value=first["type"] != "missing",
    )


def _parts(place: Iterable[str | int]) -> Iterator[str | int]:
    for part in place:
        yield from part.split(".") if isinstance(part, str) and part != "[key]" else ()
        yield from [part] if isinstance(part, int) else ()


def _expected(error: Any) -> str:
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    return _TEXTS.get(error["type"], f"expected otherwise: {error['msg']}")
