"""From pydantic's first complaint about a document to one `InvalidInputError`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from placewright.instances.cluster import HOST_NAME
from placewright.instances.documents import NAME
from placewright.instances.errors import InvalidInputError
from placewright.instances.plan import SHA256

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
    "too_long": "expected at most {max_length} entries",
    "too_short": "expected at least {min_length} entries",
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
    # A list that stopped at a wrong entry is also told to be too short: that is no second error.
    told = error.errors(include_url=False)
    within = {e["loc"][:length] for e in told for length in range(len(e["loc"]))}
    first, *others = (e for e in told if e["loc"] not in within)
    more = f" (and {len(others)} more)" if others else ""
    path = tuple(part for part in first["loc"] if part != "[key]")
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InvalidInputError):
        return InvalidInputError(
            cause.expected + more, file=file, path=path + cause.path, value=cause.value
        )
    return InvalidInputError(
        _expected(first, document, path) + more,
        file=file,
        path=path,
        value=first["input"],
        show_value=first["type"] != "missing" and not isinstance(first["input"], BaseModel),
    )


def _expected(told: ErrorDetails, document: type[BaseModel], path: Sequence[str | int]) -> str:
    context = told.get("ctx", {})
    if told["type"] == "missing":
        return "missing; expected a value"
    if told["type"] == "extra_forbidden":
        return f"unknown field; expected one of {', '.join(_fields(document, path[:-1]))}"
    if told["type"] == "string_pattern_mismatch":
        return _PATTERNS[context["pattern"]]
    text = _TEXTS.get(told["type"])
    return text.format(**context) if text else f"expected otherwise: {told['msg']}"


def _fields(document: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """Return the field names of the document that a path leads to."""
    for part in path:
        if isinstance(part, str):
            document = _document_in(document.model_fields[part].annotation)
    return sorted(document.model_fields)


def _document_in(annotation: Any) -> type[BaseModel]:
    """Return the document type that an annotation such as `tuple[Job, ...] | None` mentions."""
    waiting = [annotation]
    while True:  # ends: the path came from validating a document there
        current = waiting.pop()
        if isinstance(current, type) and issubclass(current, BaseModel):
            return current
        waiting.extend(get_args(current))
