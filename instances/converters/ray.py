"""A dump of Ray becomes a round: nodes are hosts, placement groups are gangs of bundles."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BeforeValidator, Field, ValidationError

from placewright.instances.checks.round import check_round
from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.kubernetes.nodes import Levels, label_keys, read_levels
from placewright.instances.converters.kubernetes.records import (
    AsList,
    AsMapping,
    Labels,
    NameText,
    Node,
    Record,
    Text,
    Texts,
)
from placewright.instances.converters.kubernetes.sources import Source, refused
from placewright.instances.converters.support.live import (
    LeftOutError,
    LiveConversion,
    is_name,
    summary_of,
)
from placewright.instances.documents.base import MAX_AMOUNT, MAX_COUNT
from placewright.instances.documents.cluster import MAX_GPUS_PER_HOST, ClusterDocument, HostEntry
from placewright.instances.documents.job import Job, Running
from placewright.instances.documents.option import Option, TaskGroup
from placewright.instances.documents.plan import Task
from placewright.instances.documents.policy import Policy
from placewright.instances.documents.round import Reservation, Round
from placewright.instances.documents.source_keys import (
    BOOKKEEPING,
    RAY_BUNDLES,
    RAY_GROUP,
    RAY_NODE,
    SOURCE,
)
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_values
from placewright.topology.units import WHOLE_GPU

GPU, CPU, MEMORY = "GPU", "CPU", "memory"
"""Resources of Ray; memory is in bytes."""

MIB = 2**20
_AMOUNT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,9})?)(?: ?([KMGTP]iB|B))?")
_SCALES = {"B": 1, **{f"{unit}iB": 1024**i for i, unit in enumerate("KMGTP", 1)}}
_MOST = Decimal(2) ** 70


def _amount(value: Any) -> Decimal:
    """Return an amount of a resource: a number, or bytes as a text such as `21.572 GiB`.

    Raises `ValueError`: it is none.
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

    Raises `ValueError`: it is no whole number of some size.
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


# Nodes of Ray as hosts, and what of their GPUs placement groups have not taken yet.

NODES = "nodes"
MODEL = "ray.io/accelerator-type"
UNNAMED = "gpu"


@dataclass
class Hosts:
    """Hosts by the id of their node, and what of them is free.

    Nothing may arrive on `closed` ones: groups that are not in the round hold some of their GPUs.
    """

    by_id: Mapping[str, RayNode]
    levels: Levels
    free: dict[str, list[int]]
    held: dict[str, tuple[int, int]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, nodes: Sequence[RayNode], levels: Sequence[str], book: Bookkeeping) -> Hosts:
        """Take nodes that are alive."""
        kept: dict[str, RayNode] = {}
        for node in nodes:
            if node.state != "ALIVE":
                book.leave(NODES, f"is not alive ({node.state or 'no state'})", node.node_id)
            elif node.node_id in kept:
                book.leave(NODES, "listed twice", node.node_id)
            elif node.resources_total.get(GPU, Decimal(0)) > MAX_GPUS_PER_HOST:
                book.leave(NODES, f"more than {MAX_GPUS_PER_HOST} GPUs", node.node_id)
            else:
                kept[node.node_id] = node
        book.take(NODES, len(kept))
        labelled = [
            Node.model_validate({"metadata": {"name": key, "labels": one.labels}})
            for key, one in sorted(kept.items())
        ]
        found = read_levels(labelled, label_keys(labelled, levels, ()) if levels else ())
        free = {
            key: [WHOLE_GPU] * int(one.resources_total.get(GPU, 0)) for key, one in kept.items()
        }
        return cls(kept, found, free)

    def entries(self, book: Bookkeeping) -> tuple[HostEntry, ...]:
        """Return the hosts, by id; each has at least what groups hold of it."""
        made = []
        for key, one in sorted(self.by_id.items()):
            cpu, memory = one.resources_total.get(CPU), one.resources_total.get(MEMORY)
            total = _down((cpu or Decimal(0)) * 1000), _down((memory or Decimal(0)) / MIB)
            held = self.held.get(key, (0, 0))
            if held[0] > total[0] or held[1] > total[1]:
                book.cannot_say("cores or memory of which groups hold more than the node has", key)
            made.append(
                HostEntry(
                    name=key,
                    parent=self.levels.leaf_of.get(key),
                    gpus=len(self.free[key]),
                    gpu_model=_model(one) if self.free[key] else None,
                    cpu=f"{max(total[0], held[0])}m",
                    memory=f"{max(total[1], held[1])}Mi",
                    annotations={RAY_NODE: key},
                )
            )
        return tuple(made)

    def hold(self, host: str, cpu: int, memory: int) -> bool:
        """Note millicores and MiB that a bundle holds; return whether a host can have so much."""
        before = self.held.get(host, (0, 0))
        after = before[0] + cpu, before[1] + memory
        if max(after) > MAX_AMOUNT:
            return False
        self.held[host] = after
        return True

    def take(self, host: str, milli: int) -> tuple[int, ...] | None:
        """Take GPUs of a host, or a share of one; None if there are none left."""
        free = self.free[host]
        if milli < WHOLE_GPU:
            fits = [i for i, left in enumerate(free) if left >= milli][: 1 if milli else 0]
            amount, number = milli, len(fits) if milli else 0
        else:
            number, amount = milli // WHOLE_GPU, WHOLE_GPU
            fits = [i for i, left in enumerate(free) if left == WHOLE_GPU][:number]
        if len(fits) < number or (milli and not fits):
            return None
        for i in fits:
            free[i] -= amount
        return tuple(fits)


def _model(node: RayNode) -> str:
    label = node.labels.get(MODEL, "")
    return label if is_name(label) else UNNAMED


def _down(value: Decimal) -> int:
    return min(MAX_AMOUNT, int(value.to_integral_value(ROUND_FLOOR)))


# Placement groups of Ray as jobs: their bundles are tasks.

GROUPS = "placement groups"
NS = 10**9
_READ = frozenset({GPU, CPU, MEMORY})


class _Ask(NamedTuple):
    """What a bundle asks for: milli-GPU, millicores, MiB, and the hosts it may be on."""

    gpu: int
    cpu: int
    memory: int
    hosts: tuple[str, ...] | None


def jobs_of(groups: Sequence[PlacementGroup], hosts: Hosts, book: Bookkeeping) -> tuple[Job, ...]:
    """Return the placement groups that can be jobs, those that have their nodes first."""
    jobs: dict[str, Job] = {}
    named = Counter(group.name for group in groups)
    for group in sorted(groups, key=lambda one: (one.state != "CREATED", one.placement_group_id)):
        key = group.placement_group_id
        try:
            if key in jobs:
                raise LeftOutError("listed twice")
            jobs[key] = _job(group, hosts, book, unique=named[group.name] == 1)
        except LeftOutError as error:
            book.leave(GROUPS, str(error), key)
            hosts.closed |= {one.node_id for one in group.bundles if one.node_id in hosts.by_id}
    book.take(GROUPS, len(jobs))
    return tuple(jobs.values())


def _job(group: PlacementGroup, hosts: Hosts, book: Bookkeeping, *, unique: bool) -> Job:
    """Return a placement group as a job, whose bundles are its tasks.

    Raises `LeftOutError`: it is no more, asks for nothing that a round can give, or is on nodes
    that are not there.
    """
    key = group.placement_group_id
    if group.state not in ("PENDING", "CREATED"):
        raise LeftOutError(f"is {group.state.lower() or 'in no state'}")
    if not 0 < len(group.bundles) <= MAX_COUNT:
        raise LeftOutError("has no bundles, or too many")
    pending = group.state == "PENDING"
    asks: dict[_Ask, list[int]] = {}
    for i, bundle in enumerate(group.bundles):
        asks.setdefault(_ask(bundle, hosts, book, key, pinned=not pending), []).append(i)
    if not any(ask.gpu for ask in asks):
        raise LeftOutError("asks for no GPU")
    several = len(asks) > 1
    option = Option(
        groups=tuple(
            TaskGroup(
                name=f"bundles-{g}" if several else "bundles",
                count=len(members),
                gpu=f"{ask.gpu}m",
                cpu=f"{ask.cpu}m",
                memory=f"{ask.memory}Mi",
                hosts=ask.hosts,
            )
            for g, (ask, members) in enumerate(asks.items())
        )
    )
    running = None if pending else Running(tasks=_places(group, asks, hosts), pinned=True)
    began = group.stats.creation_request_received_ns // NS
    name = group.name if unique and is_name(group.name) else key
    return Job(
        name=name,
        options=(option,),
        running=running,
        submitted=began or None,
        annotations={
            RAY_GROUP: key,
            **{
                f"{RAY_BUNDLES}{g}": ",".join(map(str, members))
                for g, members in enumerate(asks.values())
            },
        },
    )


def _ask(bundle: Bundle, hosts: Hosts, book: Bookkeeping, name: str, *, pinned: bool) -> _Ask:
    asked = bundle.unit_resources
    for other in sorted(set(asked) - _READ):
        book.cannot_say(f"resource {other} of bundles", name)
    gpu = asked.get(GPU, Decimal(0)) * 1000
    if gpu != int(gpu) or (gpu > WHOLE_GPU and gpu % WHOLE_GPU):
        raise LeftOutError("asks for whole GPUs and a part of one, or less than a thousandth")
    allowed: tuple[str, ...] | None = None
    if bundle.label_selector and not pinned:
        matches = {
            key: selects(bundle.label_selector, one.labels) for key, one in hosts.by_id.items()
        }
        if None in matches.values():
            raise LeftOutError("has a label selector that is not read")
        allowed = tuple(sorted(key for key, match in matches.items() if match))
        if not allowed:
            raise LeftOutError("selects no node that is alive")
        if len(allowed) == len(matches):
            allowed = None
    made = _Ask(
        int(gpu),
        int((asked.get(CPU, Decimal(0)) * 1000).to_integral_value(ROUND_CEILING)),
        int((asked.get(MEMORY, Decimal(0)) / MIB).to_integral_value(ROUND_CEILING)),
        allowed,
    )
    if max(made.gpu, made.cpu, made.memory) > MAX_AMOUNT:
        raise LeftOutError("asks for more than any node can have")
    return made


def _places(
    group: PlacementGroup, asks: Mapping[_Ask, Sequence[int]], hosts: Hosts
) -> tuple[Task, ...]:
    tasks = []
    for g, (ask, members) in enumerate(asks.items()):
        for i, at in enumerate(members):
            node = group.bundles[at].node_id
            if node not in hosts.by_id:
                raise LeftOutError("is on a node that is not alive")
            gpus = hosts.take(node, ask.gpu)
            if not hosts.hold(node, ask.cpu, ask.memory):
                raise LeftOutError("holds more than a node can have")
            if gpus is None:
                raise LeftOutError("is on a node with fewer GPUs than its groups hold")
            tasks.append(Task(group=g, index=i, host=node, gpus=gpus))
    return tuple(tasks)


# A dump of Ray becomes a round: nodes are hosts, placement groups are gangs of bundles.

_R = TypeVar("_R", bound=Record)


def read_ray(
    files: Sequence[str | os.PathLike[str]], *, levels: Sequence[str] = ()
) -> LiveConversion:
    """Turn a dump of a Ray cluster into a round.

    Ray cannot move placement groups, so those that have their nodes are pinned.

    Parameters
    ----------
    files
        What `ray list nodes` and `ray list placement-groups` print with `--format json --detail`.
    levels
        Label keys of the layers above the nodes, outermost first; none by default.

    Raises
    ------
    InvalidInputError
        A file cannot be read, or has a value that Ray would not print.
    """
    where = " ".join(os.fspath(file) for file in files)
    book = Bookkeeping()
    nodes: list[RayNode] = []
    groups: list[PlacementGroup] = []
    for file in files:
        _read(os.fspath(file), nodes, groups)
    hosts = Hosts.of(nodes, levels, book)
    if not hosts.by_id:
        raise InvalidInputError(
            "has no node that is alive; expected also what `ray list nodes --format json --detail` "
            "prints",
            file=where,
            show_value=False,
        )
    jobs = jobs_of(groups, hosts, book)
    book.cannot_say("what actors and tasks hold outside of placement groups")
    if groups:
        book.cannot_say("the strategy of placement groups, which `ray list` does not print")
    try:
        made = Round(
            name="ray",
            now=max((one.stats.creation_request_received_ns // NS for one in groups), default=0),
            cluster=ClusterDocument(
                levels=hosts.levels.names, domains=hosts.levels.domains, hosts=hosts.entries(book)
            ),
            jobs=jobs,
            reservations=tuple(Reservation(host=name) for name in sorted(hosts.closed)),
            policy=Policy(spread_weights=hosts.levels.weights) if hosts.levels.names else Policy(),
            annotations={SOURCE: "ray", BOOKKEEPING: book.annotation()},
        )
        check_round(made)
    except InvalidInputError as error:
        raise error.inside(where) from None
    summary = summary_of(made, "placement groups have their nodes")
    return LiveConversion(made, summary, book)


def _read(file: str, nodes: list[RayNode], groups: list[PlacementGroup]) -> None:
    values = load_values(file)
    if not isinstance(values, list):
        raise InvalidInputError(
            "expected a list, as `ray list ... --format json --detail` prints it",
            file=file,
            value=values,
        )
    for i, raw in enumerate(values):
        if isinstance(raw, dict) and "placement_group_id" in raw:
            groups.append(_record(PlacementGroup, Source(file, (i,), raw)))
        elif isinstance(raw, dict) and "node_id" in raw:
            nodes.append(_record(RayNode, Source(file, (i,), raw)))
        else:
            raise InvalidInputError(
                "expected a node or a placement group of Ray", file=file, path=(i,), value=raw
            )


def _record(kind: type[_R], source: Source) -> _R:
    try:
        return kind.model_validate(source.raw)
    except ValidationError as error:
        raise refused(error, source) from None
