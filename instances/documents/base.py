"""What all documents share: a strict base class, names, counts and quantities.

Inside everything is an integer: GPUs in milli-GPU, CPU in millicores, memory in MiB.
A plain integer in a file is already in that unit; CPU and memory may also be written with a
suffix (`"500m"`, `"4Gi"`). A bare `"8"` is refused, since it could mean 8 cores or 8 millicores.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from placewright.topology.units import WHOLE_GPU

API_VERSION: Final = "placewright/v1alpha1"
MAX_AMOUNT = 10**12
MAX_TOTAL = 10**18
"""What a plan's terms stay within: sums over its jobs, which arrays of 64 bits hold."""

MAX_MOMENT = 10**13
MAX_COUNT = 100_000
MAX_GPU = 1_000_000_000
CORE_RESOURCES = ("gpu", "cpu", "memory")

T = TypeVar("T")
Many = Annotated[tuple[T, ...], Field(fail_fast=True)]
"""A list of which only the first wrong entry is reported: millions of errors fill the memory."""

_SUFFIXES = {
    "Ki": (1, 1024),
    "Mi": (1, 1),
    "Gi": (1024, 1),
    "Ti": (1024**2, 1),
    "Pi": (1024**3, 1),
}
_MEMORY = re.compile(r"^([0-9]{1,15})(Ki|Mi|Gi|Ti|Pi)$")
_CPU = re.compile(r"^([0-9]{1,15})m$")


class Document(BaseModel):
    """Base of every document: immutable, and an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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


@cache
def _defaults(kind: type[Document]) -> dict[str, Any]:
    """Return the fields of a document in order, with their defaults."""
    return {name: field.default for name, field in kind.model_fields.items()}


@cache
def _factories(kind: type[Document]) -> tuple[tuple[str, Any], ...]:
    """Return the fields whose defaults are made, with what makes them."""
    fields = kind.model_fields.items()
    return tuple((n, f.default_factory) for n, f in fields if f.default_factory is not None)


def _cpu(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    match = _CPU.fullmatch(value)
    if not match:
        raise ValueError('expected millicores, as an integer (8000) or with its suffix ("8000m")')
    return int(match[1])


def _memory(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    match = _MEMORY.fullmatch(value)
    if not match:
        raise ValueError('expected MiB, as an integer (4096) or with a suffix ("4Gi", "512Mi")')
    times, per = _SUFFIXES[match[2]]
    amount, rest = divmod(int(match[1]) * times, per)
    if rest:
        raise ValueError("expected a whole number of MiB")
    return amount


def _named(resources: dict[str, int]) -> dict[str, int]:
    for name in CORE_RESOURCES:
        if name in resources:
            raise ValueError(f"{name!r} has a field of its own; expected other resources only")
    return resources


def _gpu_share(value: int) -> int:
    if value > WHOLE_GPU and value % WHOLE_GPU:
        raise ValueError(
            "expected milli-GPU: up to 1000 for a share of one GPU, above that a multiple of 1000"
        )
    return value


NAME = r"^[A-Za-z0-9._:/@|+=-]+$"
Name = Annotated[str, Field(min_length=1, max_length=253, pattern=NAME)]
Flag = Annotated[bool, Field(strict=True)]
Amount = Annotated[int, Field(strict=True, ge=0, le=MAX_AMOUNT)]
Count = Annotated[int, Field(strict=True, ge=1, le=MAX_COUNT)]
Index = Annotated[int, Field(strict=True, ge=0, le=MAX_AMOUNT)]
Total = Annotated[int, Field(strict=True, ge=-MAX_TOTAL, le=MAX_TOTAL)]
Moment = Annotated[int, Field(strict=True, ge=0, le=MAX_MOMENT)]
"""Of a plan, in seconds on the round's clock; times of a round are an `Index`, and earlier."""

Resources = Annotated[dict[Name, Amount], AfterValidator(_named)]
MilliGpu = Annotated[int, Field(strict=True, ge=0, le=MAX_GPU), AfterValidator(_gpu_share)]
MilliCpu = Annotated[
    int,
    BeforeValidator(
        _cpu, json_schema_input_type=Amount | Annotated[str, Field(pattern=_CPU.pattern)]
    ),
    Field(strict=True, ge=0, le=MAX_AMOUNT),
]
Mib = Annotated[
    int,
    BeforeValidator(
        _memory, json_schema_input_type=Amount | Annotated[str, Field(pattern=_MEMORY.pattern)]
    ),
    Field(strict=True, ge=0, le=MAX_AMOUNT),
]
