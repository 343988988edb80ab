"""Slurm's topology as levels and domains: switches of a tree, or blocks and groups of blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from placewright.instances.converters.slurm.hostlist import HostLists
from placewright.instances.converters.slurm.sources import Part
from placewright.instances.documents.base import NAME
from placewright.instances.documents.cluster import DomainEntry
from placewright.instances.errors import InvalidInputError

LEAF, BLOCK = "leaf", "block"
MAX_LEVELS = 16
_PAIR = re.compile(r"([A-Za-z]+)=(\S*)")
_NAME = re.compile(NAME)


@dataclass(frozen=True, slots=True)
class Topology:
    """Levels, outermost first, their domains, and the innermost domain of each node.

    `weights` are those of the levels in the term `spread`, four times as much per level upwards.
    """

    levels: tuple[str, ...] = ()
    domains: tuple[DomainEntry, ...] = ()
    leaf_of: Mapping[str, str] = field(default_factory=dict)

    @property
    def weights(self) -> dict[str, int]:
        """Weights of the levels, the innermost 1."""
        return {level: min(4**height, 10**6) for height, level in enumerate(reversed(self.levels))}


@dataclass(slots=True)
class _Switch:
    """A switch or block: its nodes if it is a leaf, else what is below it."""

    nodes: tuple[str, ...]
    children: tuple[str, ...] = ()
    height: int = -1
    parent: str | None = None


def read_topology(part: Part | None, nodes: Iterable[str]) -> Topology:
    """Return the topology that a file says of some nodes; without a file there are no levels.

    A switch that hangs higher than others of its height has stand-ins on the levels between, and a
    node of no switch is a domain of its own.

    Raises
    ------
    InvalidInputError
        The file names a switch or block twice or not at all, has a circle, or no host list where
        there should be one.
    """
    if part is None:
        return Topology()
    try:
        switches, names = _of_yaml(part.raw) if part.text is None else _of_text(part.text)
        if not switches:
            return Topology()
        _check(switches)
        return _levels(switches, names, nodes)
    except InvalidInputError as error:
        raise error.inside(part.file) from None


def _of_text(text: str) -> tuple[dict[str, _Switch], list[str]]:
    """Read topology.conf, or what `scontrol show topology` prints."""
    switches: dict[str, _Switch] = {}
    groups: list[tuple[str, ...]] = []
    lists = HostLists()
    size = 0
    for number, line in enumerate(text.replace("\\\n", " ").splitlines(), 1):
        pairs = {k.lower(): v for k, v in _PAIR.findall(line.partition("#")[0])}
        try:
            if "aggregatedblock" in pairs:
                groups.append(_hosts(lists, pairs["aggregatedblock"], ()))
            elif "blocksizes" in pairs:
                size = _group_size(pairs["blocksizes"].split(","), ())
            elif name := pairs.get("switchname") or pairs.get("blockname"):
                children = _hosts(lists, pairs.get("switches", ""), ())
                below = () if children else _hosts(lists, pairs.get("nodes", ""), ())
                _put(switches, name, _Switch(below, children), ())
        except InvalidInputError as error:
            error.line = number
            raise
    blocks = any(key in text for key in ("BlockName=", "blockname="))
    if blocks and not groups and size > 1:
        groups = _grouped(list(switches), size)
    return _with_groups(switches, groups) if blocks else (switches, [LEAF])


def _of_yaml(raw: Any) -> tuple[dict[str, _Switch], list[str]]:
    """Read topology.yaml: the topology that is the cluster's default, else the first."""
    entries = [entry for entry in raw if isinstance(entry, dict)]
    chosen = next((e for e in entries if e.get("cluster_default") is True), entries[0])
    at, lists = raw.index(chosen), HostLists()
    switches: dict[str, _Switch] = {}
    for kind, key, one in (("tree", "switches", "switch"), ("block", "blocks", "block")):
        section = chosen.get(kind)
        if not isinstance(section, dict):
            continue
        rows = section.get(key)
        if not isinstance(rows, list):
            raise InvalidInputError("expected a list", path=(at, kind, key), value=rows)
        for i, row in enumerate(rows):
            path = (at, kind, key, i)
            if not isinstance(row, dict):
                raise InvalidInputError("expected a mapping", path=path, value=row)
            children = _hosts(lists, row.get("children") or "", path)
            below = () if children else _hosts(lists, row.get("nodes") or "", path)
            _put(switches, row.get(one), _Switch(below, children), path)
        if kind == "block":
            sizes = section.get("block_sizes") or []
            size = _group_size(sizes if isinstance(sizes, list) else [sizes], (at, kind))
            return _with_groups(switches, _grouped(list(switches), size) if size > 1 else [])
    return switches, [LEAF]


def _group_size(sizes: Sequence[Any], path: tuple[str | int, ...]) -> int:
    """Return how many blocks the next larger size groups, 1 if there is none."""
    numbers = [str(size).strip() for size in sizes]
    if not all(n.isascii() and n.isdigit() and int(n[:9]) > 0 and len(n) < 9 for n in numbers):
        raise InvalidInputError("expected block sizes such as 18,36", path=path, value=sizes)
    return int(numbers[1]) // int(numbers[0]) if len(numbers) > 1 else 1


def _grouped(blocks: Sequence[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(blocks[i : i + size]) for i in range(0, len(blocks), size)]


def _with_groups(
    switches: dict[str, _Switch], groups: Sequence[tuple[str, ...]]
) -> tuple[dict[str, _Switch], list[str]]:
    """Add aggregated blocks of the smallest size above the blocks."""
    smallest = min(map(len, groups), default=0)
    for group in groups:
        if len(group) == smallest > 1:
            _put(switches, "+".join((group[0], group[-1])), _Switch((), group), ())
    return switches, [BLOCK, "aggregated-block"]


def _put(
    switches: dict[str, _Switch], name: Any, switch: _Switch, path: tuple[str | int, ...]
) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > 200:
        raise InvalidInputError("expected the name of a switch or block", path=path, value=name)
    if name in switches:
        raise InvalidInputError("given twice; expected each name once", path=path, value=name)
    switches[name] = switch


def _hosts(lists: HostLists, text: Any, path: tuple[str | int, ...]) -> tuple[str, ...]:
    try:
        if not isinstance(text, str):
            raise ValueError("expected a list of names as text")  # noqa: TRY004
        return lists.expand(text)
    except ValueError as error:
        raise InvalidInputError(str(error), path=path, value=text) from None


def _check(switches: dict[str, _Switch]) -> None:
    """Set parents and heights; refuse unknown children, two parents, circles."""
    for name, switch in switches.items():
        for child in switch.children:
            below = switches.get(child)
            if below is None or below.parent is not None:
                fault = "unknown switch" if below is None else "has two parents"
                raise InvalidInputError(
                    f"{fault}; expected each switch below one other", path=(name,), value=child
                )
            below.parent = name
    leaves = [name for name, switch in switches.items() if not switch.children]
    order, waiting = list(leaves), {n: len(s.children) for n, s in switches.items()}
    for name in order:
        switch = switches[name]
        switch.height = 1 + max((switches[c].height for c in switch.children), default=-1)
        if switch.parent is not None:
            waiting[switch.parent] -= 1
            if not waiting[switch.parent]:
                order.append(switch.parent)
    if len(order) < len(switches):
        circle = next(name for name, switch in switches.items() if switch.height < 0)
        raise InvalidInputError("is below itself; expected a tree", value=circle)
    if switches and max(s.height for s in switches.values()) >= MAX_LEVELS:
        raise InvalidInputError(f"expected at most {MAX_LEVELS} levels", show_value=False)


def _levels(switches: dict[str, _Switch], names: list[str], nodes: Iterable[str]) -> Topology:
    top = max(switch.height for switch in switches.values())
    levels = [names[h] if h < len(names) else f"switch-{h}" for h in range(top + 1)]
    domains: list[DomainEntry] = []

    def hang(name: str, height: int, parent: str | None) -> str:
        """Add a domain, and stand-ins above it up to its parent; return its name."""
        above = top + 1 if parent is None else switches[parent].height
        for h in range(above - 1, height, -1):
            domains.append(DomainEntry(name=f"{name}+{h}", level=levels[h], parent=parent))
            parent = domains[-1].name
        domains.append(DomainEntry(name=name, level=levels[height], parent=parent))
        return name

    leaf_of: dict[str, str] = {}
    for name, switch in sorted(switches.items(), key=lambda item: -item[1].height):
        hang(name, switch.height, switch.parent)
        for node in switch.nodes:
            leaf_of.setdefault(node, name)
    for node in nodes:
        if node not in leaf_of:
            leaf_of[node] = hang(f"{node}+alone", 0, None)
    return Topology(tuple(reversed(levels)), tuple(domains), leaf_of)
