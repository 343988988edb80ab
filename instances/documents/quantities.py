"""Quantities: whole GPUs, cores and bytes in a document, integers of a small unit in memory.

A document says `gpu: 8`, `gpu: 0.25` or `gpu: 250m`, `cpu: 96` or `cpu: 1500m`, `memory: 64Gi`,
as a Kubernetes manifest does; quotes make no difference. Validation turns that into milli-GPU,
millicores and MiB, which is what every attribute of a document holds, and serialisation turns it
back. A number of memory without a suffix is refused: it could be bytes, MiB or GiB.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

from placewright.instances.documents.base import MAX_AMOUNT, Amount, Name
from placewright.instances.errors import InvalidInputError
from placewright.topology.units import WHOLE_GPU

CORE_RESOURCES = ("gpu", "cpu", "memory")
MAX_GPU = 1_000_000_000
"""Most milli-GPU of a task."""

_MILLI = 1000
_MIB_PER_GI = 1024
_DECIMAL = re.compile(r"^([0-9]{1,12})(?:\.([0-9]{1,3}))?$")
_THOUSANDTHS = re.compile(r"^([0-9]{1,15})m$")
_ZERO = re.compile(r"0+(\.0+)?(m|Ki|Mi|Gi|Ti|Pi)?")
_MEMORY = re.compile(r"^([0-9]{1,15}(?:\.[0-9]{1,3})?)(Ki|Mi|Gi|Ti|Pi)$")
_MIB_OF_SUFFIX = {suffix: Decimal(1024) ** i for i, suffix in enumerate(("Mi", "Gi", "Ti", "Pi"))}
_MIB_OF_SUFFIX["Ki"] = 1 / Decimal(1024)
_GPU_FORMS = 'GPUs as a number of at most three decimals (8, 0.25), or with a suffix ("250m")'
_CPU_FORMS = 'cores as a number of at most three decimals (96, 1.5), or with a suffix ("1500m")'
_MEMORY_FORMS = 'a whole number of MiB with a suffix ("64Gi", "512Mi"; Ki, Mi, Gi, Ti or Pi)'


def _thousandths(value: Any, forms: str, largest: int) -> int:
    """Return a number of whole units, or a text, as an integer of thousandths."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"expected {forms}")  # noqa: TRY004
    if isinstance(value, int):
        amount = value * _MILLI
    else:
        text = value if isinstance(value, str) else f"{Decimal(repr(value)):f}"
        if small := _THOUSANDTHS.fullmatch(text):
            amount = int(small[1])
        elif whole := _DECIMAL.fullmatch(text):
            amount = int(whole[1]) * _MILLI + int((whole[2] or "").ljust(3, "0"))
        else:
            raise ValueError(f"expected {forms}")
    if not 0 <= amount <= largest:
        raise ValueError(f"expected 0 to {largest // _MILLI}")
    return amount


def _gpu(value: Any) -> int:
    amount = _thousandths(value, _GPU_FORMS, MAX_GPU)
    if amount > WHOLE_GPU and amount % WHOLE_GPU:
        raise ValueError("expected a share of one GPU, up to 1, or a whole number of GPUs")
    return amount


def _gpus_of_many(value: Any) -> int:
    return _thousandths(value, _GPU_FORMS, MAX_AMOUNT)


def _cpu(value: Any) -> int:
    return _thousandths(value, _CPU_FORMS, MAX_AMOUNT)


def _memory(value: Any) -> int:
    if value in (0, "0") and not isinstance(value, bool):
        return 0
    if isinstance(value, str) and (match := _MEMORY.fullmatch(value)):
        amount = Decimal(match[1]) * _MIB_OF_SUFFIX[match[2]]
        if amount > MAX_AMOUNT:
            raise ValueError(f"expected at most {memory_in_gi(MAX_AMOUNT)}")
        if amount == int(amount):
            return int(amount)
    elif isinstance(value, int | float) or (isinstance(value, str) and _DECIMAL.fullmatch(value)):
        raise ValueError(f"expected {_MEMORY_FORMS}: a bare number could be bytes, MiB or GiB")
    raise ValueError(f"expected {_MEMORY_FORMS}")


def read_mib(text: str) -> int:
    """Return an amount of memory as an option has it: MiB, or with a suffix ("64Gi").

    Raises
    ------
    ValueError
        Says what was expected.
    """
    number = small_number(text)
    return _memory(text) if number is None else number


def small_number(text: str) -> int | None:
    """Return the number that a text of at most 15 digits is; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def is_zero(raw: Any) -> bool:
    """Whether a quantity of a document is none at all: 0, "0m", "0Gi"."""
    return _ZERO.fullmatch(str(raw)) is not None


def whole_units(thousandths: int) -> int | str:
    """Return thousandths as a document has them: 8 for 8000, "250m" for 250."""
    whole, rest = divmod(thousandths, _MILLI)
    return f"{thousandths}m" if rest else whole


def memory_text(mib: int) -> int | str:
    """Return MiB as a document has them, in the largest unit that divides: "64Gi", 0 for none."""
    for suffix in ("Pi", "Ti", "Gi", "Mi"):
        amount, rest = divmod(mib, int(_MIB_OF_SUFFIX[suffix]))
        if amount and not rest:
            return f"{amount}{suffix}"
    return 0


def memory_in_gi(mib: float) -> str:
    """Return MiB for a message, in one unit so that amounts compare: "1280Gi", "1.5Gi".

    Only what is below 1 Gi is in Mi.
    """
    if 0 < mib < _MIB_PER_GI:
        return f"{mib:.0f}Mi"
    return f"{mib / _MIB_PER_GI:.3f}".rstrip("0").rstrip(".") + "Gi"


def unit_of(resource: str) -> str:
    """Return the resource whose unit one has: `gpu` of `gpu@spot`, which is GPUs of a flavor."""
    return resource.partition("@")[0]


def read_amount(resource: str, value: Any) -> int:
    """Return an amount of a resource, as a document has it, in small units."""
    parse = _PARSERS.get(unit_of(resource))
    if parse is not None:
        return parse(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_AMOUNT:
        raise ValueError(f"expected a whole number from 0 to {MAX_AMOUNT}")
    return value


def write_amount(resource: str, amount: int) -> int | str:
    """Return an amount of a resource in small units as a document has it."""
    return _TEXTS.get(unit_of(resource), int)(amount)


def amount_text(resource: str, amount: int) -> str:
    """Return an amount with its unit, for a message: "2.5 GPUs", "1 core", "64Gi of memory"."""
    of, _, flavor = resource.partition("@")
    if flavor:
        text = amount_text(of, amount) if of in CORE_RESOURCES else f"{amount:,} {of}"
        return f"{text} of flavor {flavor}"
    if resource == "memory":
        return f"{memory_in_gi(amount)} of memory"
    if resource not in _NOUNS:
        return f"{amount:,} of {resource}"
    whole, rest = divmod(amount, _MILLI)
    number = f"{whole:,}.{rest:03}".rstrip("0") if rest else f"{whole:,}"
    return f"{number} {_NOUNS[resource]}{'' if number == '1' else 's'}"


def part_text(resource: str, part: int, whole: int) -> str:
    """Return a part of an amount, with the unit once: "8 of 16 GPUs"."""
    return f"{amount_text(resource, part).partition(' ')[0]} of {amount_text(resource, whole)}"


def _amounts(raw: Any) -> Any:
    """Return amounts by resource in small units."""
    if not isinstance(raw, dict):
        return raw
    amounts = dict(raw)
    for name in raw:
        if isinstance(name, str) and unit_of(name) in CORE_RESOURCES:
            try:
                amounts[name] = read_amount(name, raw[name])
            except ValueError as error:
                raise InvalidInputError(str(error), (name,), raw[name]) from None
    return amounts


def _amount_texts(amounts: dict[str, int]) -> dict[str, int | str]:
    return {
        name: write_amount(name, amount) if unit_of(name) in CORE_RESOURCES else amount
        for name, amount in amounts.items()
    }


def _others(resources: dict[str, int]) -> dict[str, int]:
    for name in CORE_RESOURCES:
        if name in resources:
            raise ValueError(f"{name!r} has a field of its own; expected other resources only")
    return resources


_PARSERS: dict[str, Callable[[Any], int]] = {
    "gpu": _gpus_of_many,
    "cpu": _cpu,
    "memory": _memory,
    "gpu_memory": _memory,
}
_TEXTS: dict[str, Callable[[int], int | str]] = {
    "gpu": whole_units,
    "cpu": whole_units,
    "memory": memory_text,
    "gpu_memory": memory_text,
}
_NOUNS = {"gpu": "GPU", "cpu": "core"}
_DECIMAL_SCHEMA = {
    "anyOf": [
        {"type": "number", "minimum": 0},
        {"type": "string", "pattern": f"{_DECIMAL.pattern}|{_THOUSANDTHS.pattern}"},
    ]
}
_MEMORY_SCHEMA = {"anyOf": [{"const": 0}, {"type": "string", "pattern": f"{_MEMORY.pattern}|^0$"}]}
_AMOUNTS_SCHEMA = {
    "type": "object",
    "properties": {"gpu": _DECIMAL_SCHEMA, "cpu": _DECIMAL_SCHEMA, "memory": _MEMORY_SCHEMA},
    "additionalProperties": {"type": "integer", "minimum": 0, "maximum": MAX_AMOUNT},
}

MilliGpu = Annotated[
    int, BeforeValidator(_gpu), PlainSerializer(whole_units), WithJsonSchema(_DECIMAL_SCHEMA)
]
"""GPUs of a task: a share of one, or whole ones."""

MilliGpuTotal = Annotated[
    int,
    BeforeValidator(_gpus_of_many),
    PlainSerializer(whole_units),
    WithJsonSchema(_DECIMAL_SCHEMA),
]
"""GPUs of many tasks together: any number of thousandths."""

MilliCpu = Annotated[
    int, BeforeValidator(_cpu), PlainSerializer(whole_units), WithJsonSchema(_DECIMAL_SCHEMA)
]
Mib = Annotated[
    int, BeforeValidator(_memory), PlainSerializer(memory_text), WithJsonSchema(_MEMORY_SCHEMA)
]
ResourceAmount = Annotated[
    int, WithJsonSchema({"anyOf": [*_DECIMAL_SCHEMA["anyOf"], *_MEMORY_SCHEMA["anyOf"]]})
]
"""An amount of a resource that another field of its document names."""

Resources = Annotated[dict[Name, Amount], AfterValidator(_others)]
"""Resources other than GPUs, cores and memory, each in a unit of the user's own."""

Amounts = Annotated[
    dict[Name, Amount],
    BeforeValidator(_amounts),
    PlainSerializer(_amount_texts),
    WithJsonSchema(_AMOUNTS_SCHEMA),
]
"""Amounts by resource, as in a quota: any number of thousandths of GPUs."""

Uses = Annotated[Amounts, AfterValidator(_others)]
"""Amounts of other resources than those of hosts; `gpu@spot` is in GPUs, as `gpu` is."""
