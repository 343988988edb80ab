"""Errors of form: pydantic's errors in a document as one `InvalidInputError`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from placewright.instances.documents.annotations import LINE
from placewright.instances.documents.base import HOST_NAME, MANY, NAME, ONE
from placewright.instances.documents.plan import SHA256
from placewright.instances.errors import InvalidInputError, merged

MOST_ERRORS = 10_000
"""Of one document that are looked for."""

_TEXTS = {
    "bool_type": "expected true or false",
    "dict_type": "expected a mapping",
    "finite_number": "expected a finite number",
    "float_type": "expected a number",
    "greater_than_equal": "expected at least {ge}",
    "int_type": "expected an integer",
    "less_than_equal": "expected at most {le}",
    "literal_error": "expected {expected}",
    "enum": "expected {expected}",
    "model_type": "expected a mapping",
    "string_too_long": "expected at most {max_length} characters",
    "string_too_short": "expected at least {min_length} character",
    "string_type": "expected text",
    "string_unicode": "expected valid Unicode text",
    "too_long": "expected at most {max_length} in the list",
    "too_short": "expected at least {min_length} in the list",
    "tuple_type": "expected a list",
    "value_error": "{error}",
}
_PATTERNS = {
    NAME: "expected only letters, digits and any of . _ : / @ | + = -",
    HOST_NAME: "expected only letters, digits and any of . _ : / @ | + = -, or a range: h[000-127]",
    SHA256: "expected a sha256: 64 of 0-9 and a-f",
    LINE: "expected one line without control characters",
}


def invalid_input(
    error: ValidationError, document: type[BaseModel], raw: Any = None
) -> InvalidInputError:
    """Return the errors of a document, those of its raw values after the first of each list, too.

    Lists stop at their first wrong entry, lest a wrong file of millions fill the memory; only when
    a document is refused is the rest of them looked at.
    """
    details = chain(_details(error), _further(error, document, raw, ()))
    return merged([_error(one, document) for one in islice(details, MOST_ERRORS)])


def _error(details: ErrorDetails, document: type[BaseModel]) -> InvalidInputError:
    path = tuple(part for part in details["loc"] if part != "[key]")
    cause = details.get("ctx", {}).get("error")
    if isinstance(cause, InvalidInputError):
        return cause.moved(lambda inner: path + inner)
    unknown = None
    if details["type"] == "extra_forbidden":
        unknown = str(path[-1]), _fields(document, path[:-1])
    elif details["type"] in ("literal_error", "enum") and isinstance(details["input"], str):
        unknown = details["input"], re.findall("'([^']*)'", details["ctx"]["expected"])
    return InvalidInputError(
        _expected(details, document, path),
        path=path,
        value=details["input"],
        show_value=details["type"] != "missing" and not isinstance(details["input"], BaseModel),
        unknown=unknown,
    )


def _details(error: ValidationError) -> list[ErrorDetails]:
    """Return the errors with the paths that a document has."""
    # A list that stopped at a wrong entry is also reported as too short: that is no second error.
    details = error.errors(include_url=False)
    for one in details:
        one["loc"] = tuple(part for part in one["loc"] if part not in (ONE, MANY))
    within = {e["loc"][:length] for e in details for length in range(len(e["loc"]))}
    return [e for e in details if e["loc"] not in within]


def _further(
    error: ValidationError, document: Any, raw: Any, at: tuple[str | int, ...]
) -> Iterator[ErrorDetails]:
    """Yield the errors after the first wrong entry of each list, with their paths below `at`."""
    stopped = {
        e["loc"][:depth]: part
        for e in _details(error)
        for depth, part in enumerate(e["loc"])
        if isinstance(part, int)
    }
    for path, first in stopped.items():
        entries, kind = _values(raw, path), _annotation(document, path)
        if not isinstance(entries, list | tuple) or get_args(kind)[1:] != (Ellipsis,):
            continue
        entry = get_args(kind)[0]
        adapter = TypeAdapter(entry)
        for index, value in enumerate(entries[first + 1 :], first + 1):
            try:
                adapter.validate_python(value)
            except ValidationError as another:
                inside = (*at, *path, index)
                for e in _details(another):
                    yield {**e, "loc": (*inside, *e["loc"])}
                yield from _further(another, _unwrapped(entry), value, inside)


def _values(raw: Any, path: tuple[str | int, ...]) -> Any:
    """Return the raw value at a path, None if there is none."""
    try:
        for part in path:
            raw = raw[part]
    except (TypeError, KeyError, IndexError):
        return None
    return raw


def _expected(details: ErrorDetails, document: type[BaseModel], path: Sequence[str | int]) -> str:
    context = details.get("ctx", {})
    if details["type"] == "missing":
        return "missing; expected a value"
    if details["type"] == "extra_forbidden":
        return f"unknown field; expected one of {', '.join(_fields(document, path[:-1]))}"
    if details["type"] == "string_pattern_mismatch":
        return _PATTERNS[context["pattern"]]
    text = _TEXTS.get(details["type"])
    return text.format(**context) if text else f"expected otherwise: {details['msg']}"


def _fields(document: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """Return the field names of the document that a path leads to."""
    return sorted(_annotation(document, path).model_fields)


def _annotation(document: Any, path: Sequence[str | int]) -> Any:
    """Return the type of what a path leads to in a document."""
    here = document
    for part in path:
        if isinstance(here, type) and issubclass(here, BaseModel):
            here = _unwrapped(here.model_fields[str(part)].annotation)
        else:  # a list or mapping: on to what its entries are
            here = _unwrapped([entry for entry in get_args(here) if entry is not Ellipsis][-1])
    return here


def _unwrapped(annotation: Any) -> Any:
    """Return a type without what `Annotated[...]` and `| None` add; of one or a list, the list."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (Union, UnionType):
            annotation = [part for part in get_args(annotation) if part is not NoneType][-1]
        else:
            return annotation
