"""Validation messages: pydantic's first error in a document as one `InvalidInputError`."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from placewright.instances.documents.base import NAME
from placewright.instances.documents.cluster import HOST_NAME
from placewright.instances.documents.plan import SHA256
from placewright.instances.errors import InvalidInputError

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
}


def invalid_input(
    error: ValidationError, document: type[BaseModel], file: str | None
) -> InvalidInputError:
    """Return the first error, and how many more there are in the same entry of the document."""
    # A list that stopped at a wrong entry is also reported as too short: that is no second error.
    details = error.errors(include_url=False)
    within = {e["loc"][:length] for e in details for length in range(len(e["loc"]))}
    first, *others = (e for e in details if e["loc"] not in within)
    more = f" (and {len(others)} more)" if others else ""
    path = tuple(part for part in first["loc"] if part != "[key]")
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InvalidInputError):
        return InvalidInputError(
            cause.expected + more,
            file=file,
            path=path + cause.path,
            value=cause.value,
            show_value=cause.show_value,
        )
    return InvalidInputError(
        _expected(first, document, path) + more,
        file=file,
        path=path,
        value=first["input"],
        show_value=first["type"] != "missing" and not isinstance(first["input"], BaseModel),
    )


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
    here: Any = document
    for part in path:
        if isinstance(here, type) and issubclass(here, BaseModel):
            here = _unwrapped(here.model_fields[str(part)].annotation)
        else:  # a list or mapping: on to what its entries are
            here = _unwrapped([entry for entry in get_args(here) if entry is not Ellipsis][-1])
    return sorted(here.model_fields)


def _unwrapped(annotation: Any) -> Any:
    """Return a type without what `Annotated[...]` and `| None` add to it."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (Union, UnionType):
            annotation = next(part for part in get_args(annotation) if part is not NoneType)
        else:
            return annotation
