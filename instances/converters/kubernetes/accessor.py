"""Values of Kubernetes objects as types that pydantic reads.

A quantity is a number or a text with a suffix (`500m`, `2Ti`, `100k`, `1e3`). Null stands for what
is not given, wherever that may be left out.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from placewright.instances.documents.base import MAX_AMOUNT, MAX_COUNT, NAME

MAX_NAME = 253
_NAME = re.compile(NAME)
_LABEL = re.compile(r"[A-Za-z0-9._-]{1,63}")
_QUANTITY = re.compile(
    r"(-?[0-9]{1,18}(?:\.[0-9]{0,9})?)(?:([numkMGTPE]|[KMGTPE]i)|[eE](-?[0-9]))?"
)
_SCALES: dict[str, Decimal] = {
    **{suffix: Decimal(1000) ** i for i, suffix in enumerate(("", "k", "M", "G", "T", "P", "E"))},
    **{
        suffix: Decimal(1024) ** i
        for i, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
    },
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
}
_MOST = Decimal(2) ** 70
"""Of any quantity in its own unit: about 10^21, which is a zettabyte."""

_QUANTITIES = 'a quantity of Kubernetes, such as 8, "500m" or "64Gi"'


class Record(BaseModel):
    """An object or a part of one; fields that are not read are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def quantity(value: Any) -> Decimal:
    """Return a quantity of Kubernetes in units: cores, bytes, pieces.

    Raises
    ------
    ValueError
        It is no quantity, is negative, or too large to be one.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"expected {_QUANTITIES}")  # noqa: TRY004
    if isinstance(value, int) and abs(value) > _MOST:
        raise ValueError(f"expected {_QUANTITIES}")
    text = str(value) if isinstance(value, int) else f"{value}"
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"expected {_QUANTITIES}")
    amount = Decimal(match[1]) * _SCALES[match[2] or ""] * Decimal(10) ** int(match[3] or 0)
    if not 0 <= amount <= _MOST:
        raise ValueError(f"expected {_QUANTITIES}, from 0 to {_MOST}")
    return amount


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError("expected a text")  # noqa: TRY004
    return value


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value or len(value) > MAX_NAME:
        raise ValueError(f"expected a name of 1 to {MAX_NAME} characters")
    if _NAME.fullmatch(value) is None:
        raise ValueError("expected only letters, digits and any of . _ : / @ | + = -")
    return value


def _label(value: Any) -> str:
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or _LABEL.fullmatch(value) is None:
        raise ValueError("expected a label: at most 63 letters, digits and any of . _ -")
    return value


def _optional_name(value: Any) -> str | None:
    return None if value is None or value == "" else _name(value)


def _is_whole(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _count(value: Any) -> int:
    if value is None:
        return 1
    if not _is_whole(value, MAX_COUNT):
        raise ValueError(f"expected a whole number from 0 to {MAX_COUNT}")
    return int(value)


def _seconds(value: Any) -> int:
    if not _is_whole(value, MAX_AMOUNT):
        raise ValueError(f"expected a whole number from 0 to {MAX_AMOUNT}")
    return int(value)


def _priority(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**31:
        raise ValueError("expected a whole number of 32 bits")
    return max(-(10**9), min(10**9, value))


def _moment(value: Any) -> int | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        at = None if moment is None else (moment if moment.tzinfo else moment.replace(tzinfo=UTC))
        seconds = -1 if at is None else int(at.timestamp())
    except (ValueError, OverflowError):
        seconds = -1
    if seconds < 0:
        raise ValueError('expected a time from 1970 on, such as "2026-01-31T12:00:00Z"')
    return seconds


def _flag(value: Any) -> bool:
    if value is None:
        return False
    if not isinstance(value, bool):
        raise ValueError("expected true or false")  # noqa: TRY004
    return value


def _active(value: Any) -> bool:
    return True if value is None else _flag(value)


def _list(value: Any) -> Any:
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise ValueError("expected a list")  # noqa: TRY004
    return value


def _mapping(value: Any) -> Any:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("expected an object")  # noqa: TRY004
    return value


def _port(value: Any) -> int:
    if value is None:
        return 0
    if not _is_whole(value, 2**16 - 1):
        raise ValueError("expected the number of a port, below 65536")
    return int(value)


PortNumber = Annotated[int, BeforeValidator(_port)]
Quantity = Annotated[Decimal, BeforeValidator(quantity)]
Text = Annotated[str, BeforeValidator(_text)]
"""A text; empty if not given."""

NameText = Annotated[str, BeforeValidator(_name)]
OptionalName = Annotated[str | None, BeforeValidator(_optional_name)]
CountOrOne = Annotated[int, BeforeValidator(_count)]
Seconds = Annotated[int, BeforeValidator(_seconds)]
PriorityNumber = Annotated[int, BeforeValidator(_priority)]
"""A priority; those of the system, above 10^9, are 10^9."""

Moment = Annotated[int | None, BeforeValidator(_moment)]
"""A time as seconds since 1970."""

Truth = Annotated[bool, BeforeValidator(_flag)]
TruthByDefault = Annotated[bool, BeforeValidator(_active)]
AsList = BeforeValidator(_list)
AsMapping = BeforeValidator(_mapping)
Texts = Annotated[dict[str, Text], AsMapping]
"""Texts by key, such as annotations and selectors, which may hold anything."""

LabelText = Annotated[str, BeforeValidator(_label)]
Labels = Annotated[dict[NameText, LabelText], AsMapping]
"""Labels of an object, of which names are made."""

Quantities = Annotated[dict[NameText, Quantity], AsMapping]
