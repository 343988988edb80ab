"""Slurm's nodes as hosts, the topology above them, and what of them is reserved."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.ledger import Rule
from placewright.instances.converters.slurm.ledger import OF_HOSTS, Caveats
from placewright.instances.converters.slurm.records import (
    Part,
    SlurmNode,
    SlurmReservation,
    read_list,
    read_records,
)
from placewright.instances.converters.slurm.texts import PAIR, HostLists, blocks, compress, matches
from placewright.instances.derived.slurm_marks import NODE_NAME
from placewright.instances.documents.base import MAX_AMOUNT, NAME
from placewright.instances.documents.cluster import MAX_GPUS_PER_HOST, DomainEntry, HostEntry
from placewright.instances.documents.quantities import small_number
from placewright.instances.errors import InvalidInputError

LEAF, BLOCK = "leaf", "block"
MAX_LEVELS = 16
FURTHER_LEAVES = "further leaf switches, or blocks, of a node"


@dataclass(frozen=True, slots=True)
class Topology:
    """Levels, outermost first, their domains, and the innermost domain of each node.

    `weights` are those of the levels in the term `spread`, four times as much per level upwards.
    `sizes`: nodes of a block, and of an aggregated one; () of a tree.
    """

    levels: tuple[str, ...] = ()
    domains: tuple[DomainEntry, ...] = ()
    leaf_of: Mapping[str, str] = field(default_factory=dict)
    sizes: tuple[int, ...] = ()
    several: tuple[str, ...] = ()
    """Nodes of several leaves, of which `leaf_of` has the first."""

    def block_of(self, nodes: int) -> tuple[str | None, bool]:
        """Return the level of the smallest blocks that may have so many nodes, None for any.

        And whether Slurm has the nodes in fewer of the blocks below than the level says: it never
        takes more of them than a job of this size fills.
        """
        if nodes < 2 or not self.sizes:
            return None, False
        held = zip(reversed(self.levels), self.sizes, strict=False)
        level, size = next((one for one in held if nodes <= one[1]), (None, len(self.leaf_of)))
        return level, -(-nodes // self.sizes[0]) < -(-size // self.sizes[0])

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
    node of no switch is a domain of its own. Raises `InvalidInputError`: the file names a switch or
    block twice or not at all, has a circle, or no host list where there should be one.
    """
    if part is None:
        return Topology()
    try:
        switches, names, size = _of_yaml(part.raw) if part.text is None else _of_text(part.text)
        if not switches:
            return Topology()
        _check(switches)
        return _levels(switches, names, nodes, size)
    except InvalidInputError as error:
        raise error.inside(part.file) from None


def _of_text(text: str) -> tuple[dict[str, _Switch], list[str], int]:
    """Read topology.conf, or what `scontrol show topology` prints."""
    switches: dict[str, _Switch] = {}
    groups: list[tuple[str, ...]] = []
    lists = HostLists()
    size = nodes = 0
    for number, line in enumerate(text.replace("\\\n", " ").splitlines(), 1):
        pairs = {k.lower(): v for k, v in PAIR.findall(line.partition("#")[0])}
        try:
            if "aggregatedblock" in pairs:
                groups.append(_hosts(lists, pairs["aggregatedblock"], ()))
            elif "blocksizes" in pairs:
                nodes, size = _group_size(pairs["blocksizes"].split(","), ())
            elif name := pairs.get("switchname") or pairs.get("blockname"):
                children = _hosts(lists, pairs.get("switches", ""), ())
                below = () if children else _hosts(lists, pairs.get("nodes", ""), ())
                _put(switches, name, _Switch(below, children), ())
                nodes = nodes or small_number(pairs.get("blocksize", "")) or 0
        except InvalidInputError as error:
            error.line = number
            raise
    blocks = any(key in text for key in ("BlockName=", "blockname="))
    if blocks and not groups and size > 1:
        groups = _grouped(list(switches), size)
    return _with_groups(switches, groups, nodes) if blocks else (switches, [LEAF], 0)


def _of_yaml(raw: Any) -> tuple[dict[str, _Switch], list[str], int]:
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
            nodes, size = _group_size(sizes if isinstance(sizes, list) else [sizes], (at, kind))
            groups = _grouped(list(switches), size) if size > 1 else []
            return _with_groups(switches, groups, nodes)
    return switches, [LEAF], 0


def _group_size(sizes: Sequence[Any], path: tuple[str | int, ...]) -> tuple[int, int]:
    """Return the smallest size of blocks, and how many the next larger one groups, 1 if none is.

    The size is 0 where there is none.
    """
    numbers = [str(size).strip() for size in sizes]
    if not all(n.isascii() and n.isdigit() and int(n[:9]) > 0 and len(n) < 9 for n in numbers):
        raise InvalidInputError("expected block sizes such as 18,36", path=path, value=sizes)
    first, *others = map(int, numbers or ["0"])
    return first, others[0] // first if others else 1


def _grouped(blocks: Sequence[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(blocks[i : i + size]) for i in range(0, len(blocks), size)]


def _with_groups(
    switches: dict[str, _Switch], groups: Sequence[tuple[str, ...]], nodes: int
) -> tuple[dict[str, _Switch], list[str], int]:
    """Add aggregated blocks of the smallest size above the blocks; return the nodes of a block."""
    nodes = nodes or max((len(one.nodes) for one in switches.values()), default=0)
    smallest = min(map(len, groups), default=0)
    for group in groups:
        if len(group) == smallest > 1:
            _put(switches, "+".join((group[0], group[-1])), _Switch((), group), ())
    return switches, [BLOCK, "aggregated-block"], nodes


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


def _levels(
    switches: dict[str, _Switch], names: list[str], nodes: Iterable[str], size: int
) -> Topology:
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
    several: dict[str, None] = {}
    for name, switch in sorted(switches.items(), key=lambda item: -item[1].height):
        hang(name, switch.height, switch.parent)
        for node in switch.nodes:
            if leaf_of.setdefault(node, name) != name:
                several[node] = None
    for node in nodes:
        if node not in leaf_of:
            leaf_of[node] = hang(f"{node}+alone", 0, None)
    together = min((len(one.children) for one in switches.values() if one.children), default=0)
    sizes = tuple(filter(None, (size, size * together)))
    return Topology(tuple(reversed(levels)), tuple(domains), leaf_of, sizes, tuple(several))


# Slurm's nodes as hosts, and which of them a job may use.

AWAY = frozenset(
    {
        "BLOCKED",
        "DOWN",
        "DRAIN",
        "DRAINED",
        "DRAINING",
        "ERROR",
        "FAIL",
        "FAILING",
        "FUTURE",
        "INVALID",
        "INVALID_REG",
        "MAINT",
        "NOT_RESPONDING",
        "NO_RESPOND",
        "POWERING_DOWN",
        "POWER_DOWN",
        "POWER_DRAIN",
        "REBOOT_ISSUED",
        "UNKNOWN",
    }
)
"""States in which Slurm starts nothing on a node; PLANNED, RESERVED, POWERED_DOWN are others."""

REBOOTS = frozenset({"IDLE", "REBOOT_REQUESTED"})
"""States of a node that boots now; one that runs jobs takes others until then."""

NODE = "node"
WHOLE_NODE = 1000
"""Of the resource `node`, where some job has its nodes alone: that is all, another job has 1."""

MAINTENANCE = "MAINTENANCE"
"""A state in which jobs of the reservation start alone; where a dump has none, nothing does."""

MAX_NAME = 240
MAX_REMEMBERED = 1024
"""Sets of nodes that are kept, lest a hostile dump fill the memory with different ones."""

UNNAMED = "gpu"
"""The model of GPUs of which Slurm does not say one: GRES `gpu:8`."""

_NAME = re.compile(NAME)
_SLICE = re.compile(r"(?:^|_)[0-9]+g\.[0-9]+gb")


class Room(NamedTuple):
    """The most GPUs, and CPUs, that one of some nodes has; the GPU models, GRES and MiB of all.

    `per_core`: CPUs of a core, of all.
    """

    gpus: int
    cpus: int
    models: frozenset[str]
    parts: frozenset[tuple[str, int]]
    memory: frozenset[int] = frozenset()
    per_core: frozenset[int] = frozenset({1})

    def whole_cores(self, cpus: int, threads: int | None) -> tuple[int, int]:
        """Return the CPUs that a job gets of a node, those of whole cores, and those that it uses.

        `threads`: how many CPUs of a core it uses at most (--threads-per-core).
        """
        each = min(self.per_core)
        used = min(threads or each, each)
        cores = -(-cpus // used)
        return cores * each, cores * used


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that become hosts, by name, which of them form a partition, and GPU models.

    `mixed` are the models of nodes with several, by the name that stands for these together.
    """

    by_name: Mapping[str, SlurmNode]
    partitions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    models: frozenset[str] = frozenset()
    mixed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    counted: frozenset[str] = field(init=False)
    """GPU models that are resources of hosts, as some node has them beside others."""

    _rooms: dict[frozenset[str], Room] = field(default_factory=dict)
    _matching: dict[str, frozenset[str] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "counted", frozenset[str]().union(*self.mixed.values()))

    def room(self, names: frozenset[str]) -> Room:
        """Return what there is on some nodes, at least one."""
        if names not in self._rooms:
            if len(self._rooms) >= MAX_REMEMBERED:
                self._rooms.clear()
            nodes = [self.by_name[name] for name in names]
            self._rooms[names] = Room(
                max(node.gres.total for node in nodes),
                max(map(_cpus, nodes)),
                frozenset(model for node in nodes if (model := gpu_model(node)) is not None),
                frozenset((p, parts_per_gpu(n, p)) for n in nodes for p in n.gres.parts),
                frozenset(map(_memory, nodes)),
                frozenset(node.per_core for node in nodes),
            )
        return self._rooms[names]

    def of_gpus(self, asked: Mapping[str, int], allowed: frozenset[str]) -> dict[str, Any]:
        """Return the fields of a task group for GPUs by model ("": any); {} if no node has them.

        Models of nodes that have several are resources. GPUs of any model are whole ones where all
        allowed nodes have whole ones.
        """
        named = frozenset(asked) - {""}
        if not named:
            there = self.room(allowed).models
            whole = frozenset(model for model in self.models if not _SLICE.search(model))
            only = whole != self.models and there and there <= whole
            return {"gpu_models": tuple(sorted(there)) if only else None, "resources": {}}
        alone = {model for model in self.models - set(self.mixed) if named == {model}}
        able = alone | {name for name, models in self.mixed.items() if named <= models}
        if not able:
            return {}
        counted = self.counted
        resources = {of_model(model): asked[model] for model in sorted(named) if model in counted}
        return {"gpu_models": tuple(sorted(able)), "resources": resources}

    def after_reboot(self, text: str) -> bool:
        """Whether some node would match a constraint by features that it may boot with."""
        return any(matches(text, node.features) for node in self.by_name.values())

    def of_features(self, text: str) -> frozenset[str] | None:
        """Return the nodes that match a constraint, None if it cannot be read."""
        if text not in self._matching:
            if len(self._matching) >= MAX_REMEMBERED:
                self._matching.clear()
            found = {
                name: not text or matches(text, node.active_features)
                for name, node in self.by_name.items()
            }
            read = None not in found.values()
            names = frozenset(name for name, match in found.items() if match)
            self._matching[text] = names if read else None
        return self._matching[text]


def take_nodes(
    nodes: Sequence[SlurmNode], book: Bookkeeping, *, reservations: bool = True
) -> Nodes:
    """Return the nodes that become hosts; what of them is left out is in the bookkeeping.

    `reservations`: the dump has them.
    """
    kept: dict[str, SlurmNode] = {}
    partitions: dict[str, set[str]] = {}
    for node in nodes:
        if not reservations and MAINTENANCE in node.states:
            node = node.model_copy(update={"state": ("MAINT",)})
        if not NODE_NAME.fullmatch(node.name):
            book.leave("nodes", "a name that Slurm's commands cannot have", node.name)
        elif node.name in kept:
            book.leave("nodes", "listed twice", node.name)
        elif node.gres.total > MAX_GPUS_PER_HOST:
            book.leave("nodes", f"more than {MAX_GPUS_PER_HOST} GPUs", node.name)
        else:
            kept[node.name] = node
            for partition in node.partitions:
                partitions.setdefault(partition, set()).add(node.name)
            if node.gres.others:
                book.cannot_say("GRES other than GPUs", node.name)
    book.take("nodes", len(kept))
    models = {name: node.gres.models for node in kept.values() if (name := gpu_model(node))}
    return Nodes(
        kept,
        {name: frozenset(hosts) for name, hosts in partitions.items()},
        frozenset(models),
        {name: found for name, found in models.items() if name not in {*found, UNNAMED}},
    )


def of_model(model: str) -> str:
    """Return the resource that the GPUs of a model are of hosts with several, as TRES name it."""
    return f"gres/gpu:{model}"


def parts_per_gpu(node: SlurmNode, part: str) -> int:
    """Return how many parts, such as shards, each GPU of a node has; 0 if it has none."""
    return node.gres.parts[part] // (node.gres.total or 1)


def gpu_model(node: SlurmNode) -> str | None:
    """Return the model of a node's GPUs, `a100+v100` for several, `UNNAMED` if there is no name."""
    if not node.gres.total:
        return None
    name = "+".join(sorted(model or UNNAMED for model in node.gres.gpus))
    return name if len(name) <= MAX_NAME and _NAME.fullmatch(name) else UNNAMED


def hosts(
    nodes: Nodes,
    topology: Topology,
    held: Mapping[str, tuple[int, int]],
    alone: Mapping[str, int] | None,
    resources: Mapping[str, Mapping[str, int]],
    in_use: Collection[str],
    unlisted: Mapping[str, tuple[int, int]],
    caveats: Caveats,
    links: Mapping[str, str],
) -> tuple[HostEntry, ...]:
    """Return the hosts of a cluster.

    `nodes`: from `take_nodes`. `topology`: where they are. `held`: millicores and MiB that running
    jobs hold of each host: a host has at least those. `alone`: if some job has its nodes alone, so
    that hosts have the resource `node`: what running jobs hold of it. More than all of it is held
    where a dump contradicts itself. `resources`: what running jobs hold of other resources of each
    host. `in_use`: hosts with `unlisted_gpus`, which nobody can have alone. `unlisted`: from
    `unlisted_amounts`. `caveats`: which of
    them the annotations have. `links`: names of their link matrices.
    """
    return tuple(
        HostEntry(
            name=name,
            parent=topology.leaf_of.get(name),
            gpus=node.gres.total,
            gpu_model=gpu_model(node),
            gpu_links=links.get(name),
            cpu=f"{max(_cpus(node) * 1000 - beside[0], mine[0])}m",
            memory=f"{max(_memory(node) - beside[1], mine[1])}Mi",
            resources=(
                {}
                if alone is None
                else {NODE: max(WHOLE_NODE - (name in in_use or any(beside)), alone.get(name, 0))}
            )
            | _resources(node, nodes.counted, resources.get(name, {})),
            healthy=not (node.states & AWAY or node.states >= REBOOTS),
            annotations=caveats.of_node(name),
        )
        for name, node in sorted(nodes.by_name.items())
        for mine, beside in [(held.get(name, (0, 0)), unlisted.get(name, (0, 0)))]
    )


def _resources(node: SlurmNode, counted: frozenset[str], held: Mapping[str, int]) -> dict[str, int]:
    """Return GPUs of the models that are counted, and parts of GPUs, at least what jobs hold."""
    has = {of_model(model): node.gres.gpus[model] for model in counted & node.gres.models}
    has |= {f"gres/{part}": number for part, number in node.gres.parts.items()}
    return {name: max(has.get(name, 0), held.get(name, 0)) for name in sorted({*has, *held})}


def unlisted_gpus(
    nodes: Nodes, held: Mapping[str, Mapping[int, int]], closed: Collection[str]
) -> dict[str, list[int]]:
    """Return the GPUs by open host that Slurm has in use, and that no job of the dump holds.

    A job that ends holds them until its epilog has run; some releases lose count as they restart.
    Slurm starts nothing there.
    """
    found = {}
    for name, node in sorted(nodes.by_name.items()):
        used = node.gres_used
        free = [index for index in range(node.gres.total) if not held.get(name, {}).get(index)]
        more = used.total - (node.gres.total - len(free))
        if free and more > 0 and name not in closed:
            found[name] = ([i for i in free if i in used.indices] or free)[:more]
    return found


def unlisted_amounts(
    nodes: Nodes, held: Mapping[str, tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    """Return the millicores and MiB by host that Slurm has in use, and no job of the dump holds."""
    found = {}
    for name, node in sorted(nodes.by_name.items()):
        cpu, memory = held.get(name, (0, 0))
        more = (node.alloc_cpus or 0) * 1000 - cpu, (node.alloc_memory or 0) - memory
        if max(more) > 0:
            found[name] = max(0, more[0]), max(0, more[1])
    return found


def over_full(nodes: Nodes, held: Mapping[str, tuple[int, int]]) -> list[str]:
    """Return the hosts of which running jobs hold more cores or memory than there are."""
    return [
        name
        for name, (cpu, memory) in sorted(held.items())
        if cpu > _cpus(nodes.by_name[name]) * 1000 or memory > _memory(nodes.by_name[name])
    ]


def _cpus(node: SlurmNode) -> int:
    special = (node.specialized_cores or 0) * node.per_core
    cpus = node.effective_cpus or max(0, (node.cpus or 0) - special)
    return min(cpus, MAX_AMOUNT // 1000)


def _memory(node: SlurmNode) -> int:
    return max(0, (node.real_memory or 0) - (node.specialized_memory or 0))


@lru_cache(maxsize=MAX_REMEMBERED)
def as_ranges(hosts: frozenset[str]) -> tuple[str, ...]:
    """Return hosts as names and ranges."""
    return compress(hosts)


# Slurm's reservations, as JSON or as `scontrol show reservation` prints them.

PART = "that a part of its nodes alone is reserved: all of them are kept for it"
RESERVED_PART = Rule("reserved-part", "that a part of it alone is reserved is not read", hard=False)
FOR_WHOM = "for whom it is reserved, as the dump has no reservations"
RESERVED = Rule("reserved-for", "for whom it is reserved is not read")
_NO_TIME = ("", "(null)", "Unknown", "None", "N/A")


def read_reservations(part: Part | None, book: Bookkeeping) -> tuple[SlurmReservation, ...]:
    """Return the reservations of a dump; times of a text are local, as scontrol prints them.

    Raises `InvalidInputError`: a value is not what Slurm writes.
    """
    if part is None:
        return ()
    if part.text is None:
        return read_list(SlurmReservation, part, "reservations", book)
    found = []
    for i, row in enumerate(blocks(part.text, "ReservationName")):
        try:
            found.append(_of_row(row, i, part.file))
        except InvalidInputError as error:
            book.refuse(error)
            book.leave(
                "reservations", f"cannot be read: {error.expectation}", row["ReservationName"]
            )
    return tuple(found)


def _of_row(row: dict[str, str], index: int, file: str) -> SlurmReservation:
    return read_records(
        SlurmReservation,
        Part(
            file,
            raw={
                "name": row["ReservationName"],
                "node_list": row.get("Nodes"),
                "start_time": _moment(row.get("StartTime", ""), file, index, "StartTime"),
                "end_time": _moment(row.get("EndTime", ""), file, index, "EndTime"),
                "flags": row.get("Flags"),
                **{
                    name.lower(): row[name]
                    for name in ("Users", "Accounts", "Groups")
                    if row.get(name, "(null)") != "(null)"
                },
                "core_count": small_number(row.get("CoreCnt", "")),
                "tres": row.get("TRES"),
            },
        ),
        "reservations",
        index,
    )


def _moment(text: str, file: str, index: int, field: str) -> int | None:
    if text in _NO_TIME:
        return None
    try:
        return max(0, int(datetime.fromisoformat(text).timestamp()))
    except (ValueError, OverflowError, OSError):
        raise InvalidInputError(
            "expected a time such as 2026-11-24T22:50:24",
            file=file,
            path=("reservations", index, field),
            value=text,
        ) from None


class Share(NamedTuple):
    """What a reservation has of its nodes together: GPUs (0: none for it alone) and CPUs."""

    gpus: int
    cpus: int


def share_of(reservation: SlurmReservation, nodes: Nodes) -> Share | None:
    """Return what a reservation has of its nodes, None if that is all of them."""
    own = [nodes.by_name[name] for name in reservation.node_list if name in nodes.by_name]
    if len(own) < len(reservation.node_list):
        return None
    cores, gpus = reservation.core_count or 0, reservation.tres.gpus.total
    threads = max((node.threads or 1 for node in own), default=1)
    part = 0 < cores * threads < sum(node.cpus or 0 for node in own)
    part = part or 0 < gpus < sum(node.gres.total for node in own)
    return Share(gpus, cores * threads) if part else None


def tell_part(reservation: SlurmReservation, caveats: Caveats, book: Bookkeeping) -> None:
    """Tell that all nodes are kept for a reservation which has a part of them."""
    book.cannot_say(PART, reservation.name)
    for name in reservation.node_list:
        caveats.add(name, RESERVED_PART.caveat())


def tell_flags(reservation: SlurmReservation, caveats: Caveats) -> None:
    """Tell of its nodes if a reservation has flags that are not known."""
    if OF_HOSTS.caveat() in caveats.of.get("reservations", {}).get((reservation.name,), ()):
        for name in reservation.node_list:
            caveats.add(name, OF_HOSTS.caveat())


def tell_reserved(name: str, node: SlurmNode, caveats: Caveats, book: Bookkeeping) -> None:
    """Tell of a node that is reserved, in a dump without reservations."""
    if "RESERVED" in node.states:
        book.cannot_say(FOR_WHOM, name)
        caveats.add(name, RESERVED.caveat())


def overlapping(
    reservations: Sequence[SlurmReservation], now: int
) -> tuple[list[SlurmReservation], list[SlurmReservation]]:
    """Return the reservations that hold now, and those that begin later; others are over."""
    active: list[SlurmReservation] = []
    later: list[SlurmReservation] = []
    for one in reservations:
        if one.end_time is not None and one.end_time <= max(now, one.start_time or 0):
            continue
        (later if (one.start_time or 0) > now else active).append(one)
    return active, later
