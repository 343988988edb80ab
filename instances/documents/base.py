"""What all documents share: a strict base class, names and counts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pkgutil import resolve_name
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

API_VERSION: Final = "placewright/v1alpha2"
MAX_AMOUNT = 10**12
"""Of any resource, in its small unit: milli-GPU, millicores, MiB."""

MAX_TOTAL = 10**18
"""What a plan's terms stay within: sums over its jobs, which arrays of 64 bits hold."""

MAX_NOW = 253_402_300_799
"""The last second of the year 9999: no calendar date comes later."""

MAX_MOMENT = 10**13
MAX_COUNT = 100_000

T = TypeVar("T")
Many = Annotated[tuple[T, ...], Field(fail_fast=True)]
"""A list of which only the first wrong entry is reported: millions of errors fill the memory."""

ONE, MANY = "[one]", "[many]"
"""Tags of a field that is one value or a list: paths of errors are without them."""


_INVALID_INPUT = "placewright.instances.documents.form_errors:invalid_input"
"""What words errors knows documents, so that it is found when it is needed."""


class Document(BaseModel):
    """Base of every document: immutable, and an unknown field is an error.

    What validates a kind of document is built when the first is read: no command reads all kinds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    def __init__(self, **values: Any) -> None:
        """Make the document in Python.

        Raises
        ------
        InvalidInputError
            It names the field, its value and what was expected.
        """
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise resolve_name(_INVALID_INPUT)(error, type(self), values) from None

    # Documents are read without it.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def model_construct(cls, **values: Any) -> Self:  # type: ignore[override]
        """Make a document from valid values, all required ones among them, without validation.

        Plans have one for each job and task. As documents have no aliases, extra fields or
        private attributes, this takes less than half of the time of pydantic's own.
        """
        made, assign = cls.__new__(cls), object.__setattr__
        fields = {**_defaults(cls), **values}
        for name, factory in _factories(cls):
            if name not in values:
                fields[name] = factory()
        assign(made, "__dict__", fields)
        assign(made, "__pydantic_fields_set__", set(values))
        assign(made, "__pydantic_extra__", None)
        assign(made, "__pydantic_private__", None)
        return made

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield what `repr` shows: the fields that are not the default."""
        for name, value in super().__repr_args__():
            field = type(self).model_fields.get(name or "")
            if field is None or value != field.get_default(call_default_factory=True):
                yield name, value


@cache
def _defaults(kind: type[Document]) -> dict[str, Any]:
    """Return the fields of a document in order, with their defaults."""
    return {name: field.default for name, field in kind.model_fields.items()}


@cache
def _factories(kind: type[Document]) -> tuple[tuple[str, Any], ...]:
    """Return the fields whose defaults are made, with what makes them."""
    fields = kind.model_fields.items()
    return tuple((n, f.default_factory) for n, f in fields if f.default_factory is not None)


NAME = r"^[A-Za-z0-9._:/@|+=-]+$"
HOST_NAME = r"^[A-Za-z0-9._:/@|+=-]+(\[[0-9]{1,9}-[0-9]{1,9}\])?$"
Name = Annotated[str, Field(min_length=1, max_length=253, pattern=NAME)]
PriorityNumber = Annotated[int, Field(strict=True, ge=-(10**9), le=10**9)]
Flag = Annotated[bool, Field(strict=True)]
Amount = Annotated[int, Field(strict=True, ge=0, le=MAX_AMOUNT)]
Count = Annotated[int, Field(strict=True, ge=1, le=MAX_COUNT)]
Index = Annotated[int, Field(strict=True, ge=0, le=MAX_AMOUNT)]
Total = Annotated[int, Field(strict=True, ge=-MAX_TOTAL, le=MAX_TOTAL)]
Moment = Annotated[int, Field(strict=True, ge=0, le=MAX_MOMENT)]
"""Of a plan, in seconds on the round's clock; times of a round are an `Index`, and earlier."""
