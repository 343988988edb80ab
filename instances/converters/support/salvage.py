"""What is left of an object that cannot be read: enough to know where it runs, and to count it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

_M = TypeVar("_M", bound=BaseModel)


def salvaged(
    kind: type[_M], raw: Any, error: ValidationError, defaults: Mapping[str, Any], **how: Any
) -> _M | None:
    """Return a record without the fields that are wrong; None if it needs one of these.

    Parameters
    ----------
    kind
        The record, which has a field `unreadable`: why it could not be read as it is.
    raw, error
        Its values, and what is wrong with them.
    defaults
        What stands for fields that it needs and that are wrong.
    how
        Further arguments of `model_validate`.
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
