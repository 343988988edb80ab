"""Raw rounds in small units: milli-GPU, millicores and MiB as integers, easy to draw and add up.

A document has whole units and suffixes: `as_document` writes one, and `in_small_units` reads one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter

from placewright.instances.documents.quantities import Mib, MilliCpu

_MILLI = frozenset(("gpu", "cpu", "cores"))
_MIB = frozenset(("memory", "gpu_memory"))
_thousandths = TypeAdapter(MilliCpu).validate_python
_PARSERS = dict.fromkeys(_MILLI, _thousandths) | dict.fromkeys(
    _MIB, TypeAdapter(Mib).validate_python
)


def as_document(raw: Any) -> Any:
    """Return raw values with their quantities as a document has them; texts stay as they are."""
    if isinstance(raw, list | tuple):
        return [as_document(entry) for entry in raw]
    if not isinstance(raw, dict):
        return raw
    return {name: _written(name, value) for name, value in raw.items()}


def in_small_units(document: Any) -> Any:
    """Return the values of a document that was written, with its quantities in small units."""
    if isinstance(document, list | tuple):
        return [in_small_units(entry) for entry in document]
    if not isinstance(document, dict):
        return document
    return {name: _read(name, value) for name, value in document.items()}


def _read(name: str, value: Any) -> Any:
    if value is None:
        return None
    parse = _PARSERS.get(name, in_small_units)
    if name == "quotas" and isinstance(value, dict):  # of a region, by tenant
        return {tenant: _thousandths(amount) for tenant, amount in value.items()}
    if name == "caps" and isinstance(value, dict):
        return {cap: _cap(limits, _thousandths, in_small_units) for cap, limits in value.items()}
    return [parse(entry) for entry in value] if isinstance(value, list | tuple) else parse(value)


def _written(name: str, value: Any) -> Any:
    suffix = "m" if name in _MILLI else "Mi" if name in _MIB else ""
    if name == "quotas" and isinstance(value, dict):  # of a region, by tenant
        return {tenant: f"{milli}m" for tenant, milli in value.items()}
    if name == "caps" and isinstance(value, dict):
        return {cap: _cap(limits, _milli, as_document) for cap, limits in value.items()}
    if suffix and isinstance(value, list | tuple):
        return [_amount(entry, suffix) for entry in value]
    return _amount(value, suffix) if suffix else as_document(value)


def _cap(limits: Any, gpus: Callable[[Any], Any], others: Callable[[Any], Any]) -> Any:
    """Return a cap with its GPUs and its other amounts converted."""
    made = others({name: limits[name] for name in limits if not name.startswith("gpus")})
    if limits.get("gpus") is not None:
        made["gpus"] = gpus(limits["gpus"])
    if limits.get("gpus_by_model"):
        made["gpus_by_model"] = {m: gpus(most) for m, most in limits["gpus_by_model"].items()}
    return made


def _milli(value: Any) -> Any:
    return _amount(value, "m")


def _amount(value: Any, suffix: str) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return f"{value}{suffix}" if whole else value
