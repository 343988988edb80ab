"""What is read of a dump of Slurm: its files, and records of jobs, nodes and reservations."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
)

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.slurm.gres_links import gres_text
from placewright.instances.converters.slurm.texts import (
    Gres,
    HostLists,
    Minutes,
    Moment,
    Number,
    Record,
    Text,
    Tres,
    Truth,
    Words,
    compress,
    read_gres,
    read_tres,
)
from placewright.instances.converters.support.live import salvaged, why
from placewright.instances.derived.slurm_marks import (
    NODE_LIST,
    NUM_NODES,
    RELEASED,
    RESERVATION,
    asked_of,
    is_placed,
)
from placewright.instances.documents.base import MAX_AMOUNT, Name
from placewright.instances.documents.quantities import small_number
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import entries_of, load_text, parse_values

MAX_FILES = 1000
JSON_PARTS = ("jobs", "nodes", "reservations", "associations", "qos", "licenses", "partitions")
_TEXT_PARTS = {
    "SwitchName=": "topology",
    "BlockName=": "topology",
    "ReservationName=": "reservations",
    "LicenseName=": "licenses",
    "PartitionName=": "partitions",
    "Configuration data as of": "config",
    "Cluster|Account|": "associations",
    "Name|Priority|": "qos",
    "Account|User|": "shares",
}
_NONE = ("No reservations in the system", "No licenses configured", "No topology information")
"""How texts begin that say that there is nothing of their kind."""

OLDEST = "22.05"
"""The first release of Slurm whose JSON is read."""

_STRUCTURED = (".json", ".yaml", ".yml")
_SUFFIXES = ("", ".txt", ".conf", *_STRUCTURED)
_JOBS = "`squeue --json --states=all`"
_NODES = "`scontrol show node --json` (Slurm 22.05: `sinfo --json`)"
_READ = (
    "squeue --json --states=all, scontrol show node --json (Slurm 22.05: sinfo --json), "
    "scontrol show topology, partition, reservation, licenses or config, sacctmgr, sshare"
)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a dump: its file, and its values (JSON, YAML) or its text."""

    file: str
    raw: Any = None
    text: str | None = None


@dataclass(slots=True)
class Sources:
    """The parts of a dump by name, and the files that say nothing which is read."""

    parts: dict[str, Part] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)


def find_sources(paths: Sequence[str | os.PathLike[str]]) -> Sources:
    """Read the files of a dump, or of the folders that hold it.

    Where JSON and text say the same, JSON is taken. Of files in a folder those that say nothing
    which is read are ignored; a file that is named has to say something. Raises
    `InvalidInputError`: a file cannot be read, is not what it seems, or two say the same.
    """
    found = Sources()
    for path in [os.fspath(path) for path in paths]:
        if Path(path).is_dir():
            for file in _files(path):
                if not _add(found, file, named=False):
                    found.ignored.append(Path(file).name)
        elif not _add(found, path, named=True):
            raise InvalidInputError(
                f"expected what one of these prints: {_READ}", file=path, show_value=False
            )
    for part, command in (("jobs", _JOBS), ("nodes", _NODES)):
        if part not in found.parts:
            raise InvalidInputError(
                f"has no {part}; expected also a file that {command} prints",
                file=" ".join(os.fspath(path) for path in paths),
                show_value=False,
            )
    return found


def _files(folder: str) -> list[str]:
    """Return the files of a folder that may be part of a dump, sorted."""
    entries = [entry.path for entry in entries_of(folder) if entry.is_file()]
    if len(entries) > MAX_FILES:
        raise InvalidInputError(
            f"has {len(entries):,} files; expected a folder of at most {MAX_FILES:,}",
            file=folder,
            show_value=False,
        )
    return [file for file in entries if Path(file).suffix.lower() in _SUFFIXES]


def _add(found: Sources, file: str, *, named: bool) -> bool:
    """Add the parts that a file says; return whether there are any.

    Of files that nobody named those that are empty or no text say nothing, unless they should be
    JSON or YAML.
    """
    structured = file.lower().endswith(_STRUCTURED)
    try:
        text = load_text(file)
    except InvalidInputError:
        if structured and Path(file).is_file() and not Path(file).stat().st_size:
            problem = f"empty; expected what {_NODES} prints, or another command of a dump"
            raise InvalidInputError(problem, file=file, show_value=False) from None
        if named or structured:
            raise
        return False
    if structured or text.lstrip().startswith("{"):
        raw = parse_values(text, file)
        _check_release(raw, file)
        if named and isinstance(raw, dict) and "sinfo" in raw:
            raise InvalidInputError(
                "lists partitions, as sinfo does from 23.02 on; expected what "
                "`scontrol show node --json` prints",
                file=file,
                path=("sinfo",),
                show_value=False,
            )
        if isinstance(raw, dict) and "QOS" in raw:  # slurmrestd until v0.0.38
            raw = {"qos": raw["QOS"], **raw}
        names = [part for part in JSON_PARTS if isinstance(raw, dict) and part in raw]
        if isinstance(raw, list) and any(isinstance(x, dict) and "topology" in x for x in raw):
            names = ["topology"]
        for name in names:
            _keep(found, name, Part(file, raw=raw))
        return bool(names)
    kind = _kind(text)
    if kind is None:
        gres = gres_text(text)
        if gres is None:
            return text.startswith(_NONE)
        kind, text = "gres", gres
    _keep(found, kind, Part(file, text=text))
    return True


def _check_release(raw: Any, file: str) -> None:
    """Refuse what a release of Slurm wrote whose JSON has other fields."""
    release = raw
    for key in ("meta", "Slurm", "release"):
        release = release.get(key) if isinstance(release, dict) else None
    if isinstance(release, str) and "1" <= release < OLDEST:
        problem = f"is of Slurm {release}; expected Slurm from {OLDEST} on"
        raise InvalidInputError(problem, file=file, path=("meta",), show_value=False)


def _kind(text: str) -> str | None:
    """Return what a text is about, by its first line that is no comment."""
    for line in text.splitlines():
        start = line.strip()
        if start and not start.startswith("#"):
            return next((kind for key, kind in _TEXT_PARTS.items() if start.startswith(key)), None)
    return None


def _keep(found: Sources, name: str, part: Part) -> None:
    """Keep a part: JSON or YAML before text, and of the topology what scontrol shows before that.

    What scontrol shows is the topology that is in use; in YAML and configuration are others, too.
    """
    other = found.parts.get(name)
    if other is None or _rank(part) > _rank(other):
        found.parts[name] = part
    elif _rank(part) == _rank(other) and (part.raw, part.text) != (other.raw, other.text):
        raise InvalidInputError(
            f"has {name}, as {json.dumps(Path(other.file).name)} does; expected them once",
            file=part.file,
            show_value=False,
        )


def _rank(part: Part) -> int:
    if part.text is None:
        return 1
    return 2 if "Level=" in part.text or "BlockIndex=" in part.text else 0


# What is read of Slurm's JSON: a record for each job, node, reservation, association and QOS.

OWN = ("Assoc", "BeginTime", "Dependency", "JobArrayTaskLimit", "Licenses", "Partition", "QOS")
"""How reasons begin for which Slurm keeps a job waiting though there may be room for it."""

MAX_ALLOCATION = 200_000


class HeldNode(NamedTuple):
    """A node of a running job: its CPUs, or its cores where CPUs are not said, and its MiB."""

    name: str
    cpus: int | None
    cores: int
    memory: int


def _hosts(value: Any, info: ValidationInfo) -> tuple[str, ...]:
    if value is None or value == ():
        return ()
    if isinstance(value, list):
        value = ",".join(map(str, value))
    if not isinstance(value, str):
        raise ValueError("expected a list of hosts as text, such as h[0-3,7]")  # noqa: TRY004
    lists: HostLists = info.context or HostLists()
    return lists.expand(value)


def _gres(value: Any) -> Gres:
    if isinstance(value, Gres):
        return value
    if value is not None and not isinstance(value, str):
        raise ValueError("expected GRES as text, such as gpu:h100:8")
    return read_gres(value or "")


def _gres_of_nodes(value: Any) -> tuple[Gres, ...]:
    if value is None or value == ():
        return ()
    if not isinstance(value, list) or len(value) > MAX_ALLOCATION:
        raise ValueError("expected a list of GRES, one of each node")
    return tuple(_gres(one) for one in value)


def _tres(value: Any) -> Tres:
    if isinstance(value, Tres):
        return value
    if value is not None and not isinstance(value, str):
        raise ValueError("expected TRES as text, such as cpu=48,mem=384G")
    return read_tres(value or "")


def _allocation(value: Any) -> tuple[HeldNode, ...]:
    """Read `job_resources`: a list `allocated_nodes` until v0.0.40, `nodes.allocation` after it."""
    if value is None or value == ():
        return ()
    if not isinstance(value, dict):
        raise ValueError("expected a mapping")  # noqa: TRY004
    nodes = value.get("nodes")
    if isinstance(nodes, str | None):
        held = value.get("allocated_nodes")
    else:
        held = _inner(nodes, "allocation")
    if held is None:
        return ()
    if not isinstance(held, list) or len(held) > MAX_ALLOCATION:
        raise ValueError("expected the allocated nodes as a list")
    return tuple(_held_node(node) for node in held)


def _held_node(node: Any) -> HeldNode:
    if not isinstance(node, dict):
        raise ValueError("expected each allocated node as a mapping")  # noqa: TRY004
    name = node.get("name", node.get("nodename"))
    if not isinstance(name, str):
        raise ValueError("expected the name of each allocated node")  # noqa: TRY004
    cpus, memory = node.get("cpus"), node.get("memory")
    counted = None if cpus is None else _inner(cpus, "count")
    mib = node.get("memory_allocated") if memory is None else _inner(memory, "allocated")
    for amount in (counted, mib):
        number = isinstance(amount, int) and not isinstance(amount, bool)
        if amount is not None and not (number and 0 <= amount <= MAX_AMOUNT):
            raise ValueError("expected whole numbers of CPUs and memory of each allocated node")
    return HeldNode(name, counted, _cores(node.get("sockets")), mib or 0)


def _inner(value: Any, key: str) -> Any:
    if not isinstance(value, dict) or (value and key not in value):
        raise ValueError(f"expected a mapping that has {key!r}")
    return value.get(key)


def _cores(sockets: Any) -> int:
    """Count the cores with a status `allocated`, in mappings by index or in lists."""
    count = 0
    for socket in _entries(sockets):
        for core in _entries(socket.get("cores") if isinstance(socket, dict) else socket):
            status = core.get("status", core) if isinstance(core, dict) else core
            words = status if isinstance(status, list) else [status]
            if not all(isinstance(word, str) for word in words):
                raise ValueError("expected the status of each core as text")
            count += any(word.lower().startswith("alloc") for word in words)
    return count


def _entries(value: Any) -> list[Any]:
    if not isinstance(value, dict | list | None):
        problem = "expected sockets and cores as lists, or mappings by their index"
        raise ValueError(problem)  # noqa: TRY004
    return list(value.values()) if isinstance(value, dict) else value or []


Hosts = Annotated[tuple[str, ...], BeforeValidator(_hosts)]
GresText = Annotated[Gres, PlainValidator(_gres)]
Account = Annotated[Name | None, BeforeValidator(lambda value: value or None)]
_NO_GRES = Gres()
_NO_GRES_FIELD = Field(
    default_factory=lambda: _NO_GRES
)  # a default would be copied for each record


@lru_cache(maxsize=256)
def _capitals(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(word.upper() for word in words)


class SlurmJob(Record):
    """A job of `squeue --json`."""

    job_id: Annotated[int, Field(strict=True, ge=0, le=MAX_AMOUNT)]
    job_state: Words
    state_reason: Text = ""
    admin_comment: Text = ""
    account: Account = None
    cluster: Text = ""
    user_name: Text = ""
    qos: Text = ""
    partition: Words = ()
    priority: Number = None
    hold: Truth = False
    requeue: Truth = False
    dependency: Text = ""
    submit_time: Moment = None
    eligible_time: Moment = None
    start_time: Moment = None
    last_sched_evaluation: Moment = None
    time_limit: Minutes = None
    node_count: Number = None
    max_nodes: Number = None
    tasks: Number = None
    tasks_per_node: Number = None
    tasks_per_tres: Number = None
    cpus: Number = None
    minimum_cpus_per_node: Number = None
    threads_per_core: Number = None
    memory_per_node: Number = None
    memory_per_cpu: Number = None
    cpus_per_tres: GresText = _NO_GRES_FIELD
    memory_per_tres: GresText = _NO_GRES_FIELD
    tres_per_job: GresText = _NO_GRES_FIELD
    tres_per_node: GresText = _NO_GRES_FIELD
    tres_per_socket: GresText = _NO_GRES_FIELD
    tres_per_task: GresText = _NO_GRES_FIELD
    tres_req_str: Annotated[Tres, PlainValidator(_tres)] = Tres()
    gres_detail: Annotated[tuple[Gres, ...], PlainValidator(_gres_of_nodes)] = ()
    job_resources: Annotated[tuple[HeldNode, ...], BeforeValidator(_allocation)] = ()
    nodes: Hosts = ()
    required_nodes: Hosts = ()
    excluded_nodes: Hosts = ()
    features: Text = ""
    shared: Words = ()
    licenses: Text = ""
    resv_name: Text = ""
    switches: Number = Field(
        default=None,
        validation_alias=AliasChoices("required_switches", "minimum_switches", "switches"),
    )
    segment_size: Number = None
    flags: Words = ()
    het_job_id: Number = None
    het_job_offset: Number = None
    het_job_id_set: Text = ""
    array_job_id: Number = None
    array_task_id: Number = None
    array_task_string: Text = ""
    array_max_tasks: Number = None
    title: Text = Field(default="", validation_alias="name")
    unreadable: Text = ""
    all_memory: Truth = False
    """Of its nodes, as `Scheduler.as_allocated` finds it."""

    @property
    def other_names(self) -> tuple[str, ...]:
        """Names that people know it by: `--job-name`, of a task of an array, of a component."""
        task, component = self.array_task_id, self.het_job_offset or 0
        names = (
            self.title,
            f"{self.array_job_id}_{task}" if self.array_job_id and task is not None else "",
            f"{self.het_job_id}+{component}" if self.het_job_id else "",
        )
        return tuple(dict.fromkeys(name for name in names if name))

    @property
    def name(self) -> str:
        """Its number, which all of Slurm's commands take."""
        return str(self.job_id)

    @property
    def named_nodes(self) -> tuple[str, ...]:
        """Nodes that its user names: none of those to which Placewright sent it."""
        if not is_placed(self.admin_comment):
            return self.required_nodes
        listed = asked_of(self.admin_comment).get(NODE_LIST, "")
        with suppress(ValueError):
            return HostLists().expand(listed) if listed else ()
        return ()

    @property
    def least_nodes(self) -> int:
        """The fewest nodes that it asks for; its number of nodes is what Slurm expects."""
        return max(1, self.tres_req_str.nodes or self.node_count or 1)

    @property
    def most_nodes(self) -> int | None:
        """The most nodes that it may have, None for any number."""
        last = asked_of(self.admin_comment).get(NUM_NODES, "").rpartition("-")[2]
        told = small_number(last)
        most = self.max_nodes if told is None else told
        return max(self.least_nodes, most) if most else None

    @property
    def reservation(self) -> str:
        """The reservation that it asks for, if that is none of Placewright's."""
        return "" if self.resv_name.startswith(RESERVATION) else self.resv_name

    @property
    def names_most_nodes(self) -> bool:
        """Whether its user names the most nodes, and it is not the number of its tasks."""
        implied = "EXACT_TASK_COUNT_REQUESTED" in self.flags and self.max_nodes == self.tasks
        implied = implied and self.least_nodes < (self.max_nodes or 0)
        return not (implied or self.most_nodes is None or "JOB_IMPLICIT_MAX_NODES" in self.flags)

    @property
    def fields_of_ours(self) -> tuple[str, ...]:
        """Fields that a plan had set, by the names of `scontrol update`, and `Hold`.

        A job that Slurm itself keeps waiting is not held again, but left to it.
        """
        released = self.admin_comment.startswith(RELEASED) and not self.state_reason.startswith(OWN)
        nodes = self.required_nodes != self.named_nodes
        reserved = self.resv_name != self.reservation
        kept = NUM_NODES in asked_of(self.admin_comment) and self.max_nodes != self.most_nodes
        given = (released, kept, nodes, reserved)
        names = ("Hold", NUM_NODES, NODE_LIST, "ReservationName")
        return tuple(name for name, one in zip(names, given, strict=True) if one)

    @property
    def asked(self) -> dict[str, str]:
        """What its user asks for in fields that a plan may set, as `scontrol update` has it."""
        least, most, names = self.least_nodes, self.most_nodes or 0, self.named_nodes
        several = self.names_most_nodes and most > least
        found = {NUM_NODES: f"{least}-{most}"} if several else {}
        return found | ({NODE_LIST: ",".join(compress(names))} if names else {})

    @property
    def states(self) -> frozenset[str]:
        """Its state and the flags of it, in capitals."""
        return _capitals(self.job_state)

    @property
    def names_memory(self) -> bool:
        """Whether it asks for an amount of memory."""
        named = (self.memory_per_node, self.memory_per_cpu, self.memory_per_tres.total)
        return any(named) or bool(self.tres_req_str.memory)

    def without_memory(self) -> dict[str, object]:
        """Return the fields of a job where Slurm allocates no memory."""
        held = tuple(one._replace(memory=0) for one in self.job_resources)
        tres = self.tres_req_str._replace(memory=0)
        names = dict.fromkeys(("memory_per_node", "memory_per_cpu"))
        return {**names, "memory_per_tres": _NO_GRES, "job_resources": held, "tres_req_str": tres}

    @property
    def exclusive(self) -> bool:
        """Whether it has its nodes alone: also with all of their memory, as every job has some."""
        return self.all_memory or any(word.lower() == "none" for word in self.shared)


def fields_of(record: type[Record], *but: str) -> str:
    """Return the names by which Slurm has the fields that a record reads, `but` for our own."""
    found: list[str] = []
    for name, one in record.model_fields.items():
        alias = one.validation_alias
        names = alias.choices if isinstance(alias, AliasChoices) else [alias or name]
        found += [] if name in but else map(str, names)
    return " ".join(found)


class SlurmNode(Record):
    """A node of `scontrol show node --json`, or of `sinfo --json` of 22.05."""

    name: Name
    state: Words = ()
    state_flags: Words = ()
    partitions: Words = ()
    active_features: Words = ()
    cpus: Number = None
    effective_cpus: Number = None
    threads: Number = None
    sockets: Number = None
    cores: Number = None
    specialized_cores: Number = None
    alloc_cpus: Number = None
    alloc_memory: Number = None
    features: Words = ()
    real_memory: Number = None
    specialized_memory: Number = None
    gres: GresText = _NO_GRES_FIELD
    gres_used: GresText = _NO_GRES_FIELD

    @property
    def per_core(self) -> int:
        """CPUs of a core, which jobs get together: 1 where Slurm is told of cores as CPUs."""
        threads, cores = max(1, self.threads or 1), (self.sockets or 0) * (self.cores or 0)
        return max(1, min(threads, (self.cpus or 0) // cores)) if cores else threads

    @property
    def states(self) -> frozenset[str]:
        """Its state and the flags of it, in capitals."""
        return _capitals((*self.state, *self.state_flags))


class SlurmReservation(Record):
    """A reservation of `scontrol show reservation`, as JSON or text."""

    name: Text
    node_list: Hosts = ()
    start_time: Number = None
    end_time: Number = None
    users: Words = ()
    accounts: Words = ()
    groups: Text = ""
    flags: Words = ()
    core_count: Number = None
    tres: Annotated[Tres, PlainValidator(_tres)] = Tres()


class SlurmLicence(Record):
    """A licence of `scontrol show licenses`, as JSON or text."""

    name: Text = Field(validation_alias="LicenseName")
    total: Number = Field(default=None, validation_alias="Total")
    used: Number = Field(default=None, validation_alias="Used")
    free: Number = Field(default=None, validation_alias="Free")
    reserved: Number = Field(default=None, validation_alias="Reserved")

    @property
    def available(self) -> int:
        """How many no job and no reservation holds."""
        left = (self.total or 0) - (self.used or 0) - (self.reserved or 0)
        return max(0, left) if self.free is None else self.free


class Dump(Record):
    """A file of jobs or nodes: the moment that it is of."""

    last_update: Moment = None


# Records of a dump out of plain values, with the file in each error.

_R = TypeVar("_R", bound=Record)
_UNKNOWN = {"job_id": 0, "job_state": "RUNNING"}
"""What is taken of a job that does not say it: its nodes, if it names some, are not free."""

_MAPPING = "expected a mapping"
_TEXTS = {
    "missing": "missing; expected a value",
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "dict_type": _MAPPING,
    "tuple_type": "expected a list",
    "int_type": "expected a whole number",
    "string_type": "expected text",
    "string_unicode": "expected valid Unicode text",
    "string_too_short": "expected a name",
    "string_too_long": "expected a shorter name",
    "string_pattern_mismatch": "expected only letters, digits and any of . _ : / @ | + = -",
    "greater_than_equal": "expected 0 or more",
    "less_than_equal": f"expected at most {MAX_AMOUNT}",
}


def read_records(kind: type[_R], part: Part, *path: str | int) -> _R:
    """Read a record from a part of a dump.

    `kind`: the record. `part`: its values. `path`: where in its file they are, if not at its top;
    of a whole file, the part that is read. Raises `InvalidInputError`: the first value that is not
    what Slurm writes: file, field, value, what was expected.
    """
    raw: Any = part.raw
    whole = len(path) == 1
    if whole and isinstance(raw, dict):
        raw = {key: raw[key] for key in (path[0], "last_update") if key in raw}
    try:
        return kind.model_validate(raw, context=HostLists())
    except ValidationError as error:
        raise _refused(error, part.file, () if whole else path) from None


def read_list(kind: type[_R], part: Part, name: str, book: Bookkeeping) -> tuple[_R, ...]:
    """Read the records of a list one after the other, so that none is built after a wrong one.

    `kind`: the record. `part`: where the list is. `name`: its name, by which the bookkeeping counts
    what is left out. `book`: says whether records that are wrong are left out. Raises
    `InvalidInputError`: as `read_records` does, unless they are left out.
    """
    entries = part.raw[name]
    if not isinstance(entries, list | None):
        wrong = InvalidInputError("expected a list", file=part.file, path=(name,), value=entries)
        if name in ("jobs", "nodes"):
            raise wrong
        book.refuse(wrong)
        book.leave(name, "cannot be read: expected a list", "?")
        return ()
    lists, found = HostLists(), []
    for i, raw in enumerate(entries or ()):
        try:
            found.append(kind.model_validate(raw, context=lists))
        except ValidationError as error:
            book.refuse(_refused(error, part.file, (name, i)))
            left = salvaged(kind, raw, error, _UNKNOWN, context=lists)
            if left is None:
                book.leave(name, why(error), "?")
            else:
                found.append(left)
    return tuple(found)


def _refused(error: ValidationError, file: str, path: tuple[str | int, ...]) -> InvalidInputError:
    first = error.errors(include_url=False)[0]
    return InvalidInputError(
        _expected(first),
        file=file,
        path=(*path, *_parts(first["loc"])),
        value=first["input"],
        show_value=first["type"] != "missing",
    )


def _parts(place: Iterable[str | int]) -> Iterator[str | int]:
    for part in place:
        yield from part.split(".") if isinstance(part, str) and part != "[key]" else ()
        yield from [part] if isinstance(part, int) else ()


def _expected(error: Any) -> str:
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    return _TEXTS.get(error["type"], f"expected otherwise: {error['msg']}")
