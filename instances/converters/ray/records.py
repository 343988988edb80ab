"""What is read of Ray's state: its nodes, and placement groups with their bundles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from placewright.instances.converters.kubernetes.accessor import (
    AsList,
    AsMapping,
    Labels,
    NameText,
    Record,
    Text,
    Texts,
)

GPU, CPU, MEMORY = "GPU", "CPU", "memory"
"""Resources of Ray; memory is in bytes."""

MIB = 2**20
_AMOUNT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,9})?)(?: ?([KMGTP]iB|B))?")
_SCALES = {"B": 1, **{f"{unit}iB": 1024**i for i, unit in enumerate("KMGTP", 1)}}
_MOST = Decimal(2) ** 70


def _amount(value: Any) -> Decimal:
    """Return an amount of a resource: a number, or bytes as a text such as `21.572 GiB`.

    Raises
    ------
    ValueError
        It is none.
    """
    text = str(value) if isinstance(value, int | float | str) else ""
    match = _AMOUNT.fullmatch(text)
    if isinstance(value, bool) or match is None:
        raise ValueError('expected an amount such as 8.0 or "21.572 GiB"')
    found = Decimal(match[1]) * Decimal(_SCALES[match[2] or "B"])
    if found > _MOST:
        raise ValueError('expected an amount such as 8.0 or "21.572 GiB"')
    return found


Amount = Annotated[Decimal, BeforeValidator(_amount)]
Resources = Annotated[dict[str, Amount], AsMapping]


class RayNode(Record):
    """A node, as `ray list nodes` has it."""

    node_id: NameText
    node_name: Text = ""
    state: Text = ""
    resources_total: Resources = Field(default_factory=dict)
    labels: Labels = Field(default_factory=dict)


class Bundle(Record):
    """Resources that are reserved on one node; `node_id` is "" while there is none."""

    unit_resources: Resources = Field(default_factory=dict)
    node_id: Text = ""
    label_selector: Texts = Field(default_factory=dict)


class _Stats(Record):
    creation_request_received_ns: Annotated[int, BeforeValidator(lambda v: _whole(v))] = 0


class PlacementGroup(Record):
    """Bundles that are reserved together, as `ray list placement-groups --detail` has them."""

    placement_group_id: NameText
    name: Text = ""
    state: Text = ""
    bundles: Annotated[tuple[Bundle, ...], AsList] = ()
    stats: Annotated[_Stats, BeforeValidator(lambda v: v or {})] = Field(default_factory=_Stats)


def _whole(value: Any) -> int:
    """Return nanoseconds, which Ray writes as text.

    Raises
    ------
    ValueError
        It is no whole number of some size.
    """
    text = str(value) if isinstance(value, int | str) else ""
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,19}", text, re.ASCII):
        raise ValueError("expected nanoseconds since 1970")
    return int(text)


def selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool | None:
    """Whether labels are what a selector asks for; None if it cannot be read.

    A value is a label, `!` and a label, `in(a,b)` or `!in(a,b)`.
    """
    for key, asked in selector.items():
        negated = asked.startswith("!")
        text = asked.removeprefix("!")
        if text.startswith("in(") and text.endswith(")"):
            values = [value.strip() for value in text[3:-1].split(",")]
        elif "(" in text or ")" in text:
            return None
        else:
            values = [text]
        if (labels.get(key) in values) is negated:
            return False
    return True
