"""Attributes of nodes, edges and the graph of a cluster: those known are checked for their type."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from placewright.topology.catalogue import LINK_MATRICES
from placewright.topology.gpu_links import GpuLinks, links_of_words
from placewright.topology.graph import EDGE_ATTRIBUTES, TOLD, GraphError, Node

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
    """Checks attributes against their tables; unknown names are compared once.

    Attributes
    ----------
    own : Counter of object
        Names of the user's own attributes, and how often each occurs.
    """

    def __init__(self) -> None:
        self.own: Counter[object] = Counter()
        self._seen: set[tuple[int, object]] = set()

    def of(self, at: Sequence[Node], given: Any, known: Mapping[str, type]) -> dict[str, Any]:
        """Return the attributes of a node, an edge or (at ()) the graph that are known."""
        found = {}
        for name, value in given.items():
            if value is None or name == "kind":
                continue
            if name not in known:
                self._refuse_misspelled(at, name, known)
                self.own[name] += name not in TOLD
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
        whole = isinstance(value, int | np.integer) or (
            isinstance(value, float | np.floating) and float(value).is_integer()
        )
        return int(value) if whole and 0 <= value <= MAX_AMOUNT else None
    if kind is float:
        number = isinstance(value, int | float | np.integer | np.floating)
        return float(value) if number and 0 <= value <= MAX_LATENCY_US else None
    if kind is list:
        return list(value) if isinstance(value, list | tuple) else None
    if kind is dict:
        return dict(value) if isinstance(value, Mapping) else None
    return str(value) if isinstance(value, str) and value else None


# What the graph itself lists.


def listed_links(
    listed: Mapping[str, Any], levels: Collection[str], attributes: Attributes
) -> dict[str, tuple[int, float | None]]:
    """Return Mbit/s and latency of the uplinks that a graph lists, by level."""
    links: dict[str, tuple[int, float | None]] = {}
    for level, values in listed.items():
        at = f"links of {show(level)}"
        if level not in levels:
            raise graph_error([], f"{at}: unknown level; expected one of {', '.join(levels)}")
        if not isinstance(values, Mapping):
            raise graph_error([], f"{at} are {show(values)}; expected bandwidth_mbps, latency_us")
        said = attributes.of((), values, EDGE_ATTRIBUTES)
        if not said.get("bandwidth_mbps"):
            raise graph_error([], f"{at}: bandwidth_mbps missing; expected at least 1 Mbit/s")
        links[level] = said["bandwidth_mbps"], said.get("latency_us")
    return links


def listed_matrices(listed: Sequence[Any]) -> dict[str, GpuLinks]:
    """Return the link matrices that host models have and that a graph lists, by name."""
    found: dict[str, GpuLinks] = {}
    for number, values in enumerate(listed):
        try:
            links = links_of_words(values)
            wrong = _wrong_in(links, values)
        except (AttributeError, KeyError, TypeError, ValueError):
            wrong = f"is {show(values)}"
        if wrong is None and links.name in found:
            wrong = f"has the name {show(links.name)} of another"
        if wrong is not None:
            expected = "expected a link matrix as in a Cluster document, with a name of its own"
            raise graph_error([], f"gpu_links[{number}] {wrong}; {expected}")
        found[links.name] = links
    return {**LINK_MATRICES, **found}


def _wrong_in(links: GpuLinks, values: Mapping[str, Any]) -> str | None:
    """Say what is wrong with a matrix that was read from these values."""
    rows = [row.split() for row in (*values["gpus"], *values.get("nics", ()))]
    classes = values["classes"]
    unknown = {word for row in rows for word in row} - classes.keys() - {"X", "-"}
    if unknown:
        return f"has {show(min(unknown))}, which is none of its classes"
    numbers = [*links.numa, *(one["bandwidth_mbps"] for one in classes.values())]
    odd = [number for number in numbers if _of_type(number, int) is None]
    if odd or not isinstance(links.name, str):
        return f"has {show(odd[0] if odd else links.name)} for a {'number' if odd else 'name'}"
    square = all(len(row) == links.gpus for row in rows)
    if not square or len(links.numa) not in (0, links.gpus):
        return f"is not of {links.gpus} GPUs in each row"
    if (*zip(*links.kind, strict=True),) != links.kind:
        return "has other links one way than back"
    return None
