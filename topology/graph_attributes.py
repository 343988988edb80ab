"""Attributes of nodes, edges and the graph of a cluster: those known are checked for their type."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from placewright.topology.graph import GraphError, Node

MAX_AMOUNT = 10**12
MAX_LATENCY_US = 1e9

_MAX_SHOWN = 60
_MAX_COMPARED = 1_000
_ALIKE = 0.75
_MEANT = {
    "bandwidth": "bandwidth_mbps",
    "cores": "cpu_milli",
    "cpu": "cpu_milli",
    "gpu": "gpus",
    "gpu_memory": "gpu_memory_mib",
    "latency": "latency_us",
    "memory": "memory_mib",
}
"""What is written in place of the names here."""

_EXPECTED = {
    str: "text",
    int: f"a whole number from 0 to {MAX_AMOUNT}",
    float: f"a number from 0 to {MAX_LATENCY_US:.0e}",
    bool: "true or false",
    dict: "a mapping",
    list: "a list",
}


def show(value: object) -> str:
    """Return a value for a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."


def graph_error(at: Sequence[Node], wrong: str) -> GraphError:
    """Return the error of a node (one), an edge (two), or of the graph (none)."""
    where = ("graph", "node {}", "edge {} to {}")[len(at)].format(*map(show, at))
    return GraphError(f"{where}: {wrong}")


class Attributes:
    """Checks attributes against their tables; unknown names are compared once."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, object]] = set()

    def of(self, at: Sequence[Node], given: Any, known: Mapping[str, type]) -> dict[str, Any]:
        """Return the attributes of a node, an edge or (at ()) the graph that are known."""
        found = {}
        for name, value in given.items():
            if value is None or name == "kind":
                continue
            if name not in known:
                self._refuse_misspelled(at, name, known)
                continue
            found[name] = _of_type(value, known[name])
            if found[name] is None:
                expected = _EXPECTED[known[name]]
                raise graph_error(at, f"{name} is {show(value)}; expected {expected}")
        return found

    def _refuse_misspelled(self, at: Sequence[Node], name: object, known: Any) -> None:
        if (id(known), name) in self._seen or len(self._seen) > _MAX_COMPARED:
            return
        self._seen.add((id(known), name))
        names = {one: one for one in known} | {a: b for a, b in _MEANT.items() if b in known}
        near = difflib.get_close_matches(str(name)[:_MAX_SHOWN].lower(), names, 1, _ALIKE)
        if near:
            raise graph_error(
                at,
                f"unknown attribute {show(name)}; expected {names[near[0]]}, or a "
                f"name of your own that is not so like it",
            )


def _of_type(value: Any, kind: type) -> Any:
    """Return a value as one of a type, None if it is none."""
    if kind is bool:
        return bool(value) if isinstance(value, bool | np.bool_) else None
    if isinstance(value, bool | np.bool_):
        return None
    if kind is int:
        return int(value) if isinstance(value, Integral) and 0 <= int(value) <= MAX_AMOUNT else None
    if kind is float:
        number = isinstance(value, Real) and 0 <= float(value) <= MAX_LATENCY_US
        return float(value) if number else None
    if kind is list:
        return list(value) if isinstance(value, list | tuple) else None
    if kind is dict:
        return dict(value) if isinstance(value, Mapping) else None
    return str(value) if isinstance(value, str) and value else None
