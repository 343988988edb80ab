"""Associations and QOS as sacctmgr writes them, JSON or text: what they limit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

from placewright.instances.converters.slurm.accessor import number, words
from placewright.instances.converters.slurm.sources import Part
from placewright.instances.converters.slurm.text import seconds, table
from placewright.instances.converters.slurm.tres import COUNTED, read_amounts, read_gres
from placewright.instances.errors import InvalidInputError

_T = TypeVar("_T")
_GPU = "gpu"
PARENT = "ParentName"
_MOST = 10**9
_NO_GPUS = re.compile(r"\bgres/gpu(?::([^=,]+))?=0(?=,|$)")

_OTHER_WORDS = {
    "OVERRIDEPARTITIONQOS": "OVERPARTQOS",
    "PARTITIONMAXIMUMNODE": "PARTITIONMAXNODES",
    "PARTITIONMINIMUMNODE": "PARTITIONMINNODES",
}

Owner: TypeAlias = tuple[str, str, str]
"""Of an association: account, user ("": all of it) and partition ("": any)."""


class Limit(NamedTuple):
    """What some jobs may hold together: GPUs by model ("": any), CPUs, MiB, nodes, their number."""

    gpus: Mapping[str, int] = {}
    jobs: int | None = None
    others: Mapping[str, int] = {}

    def __bool__(self) -> bool:
        """Whether anything is limited."""
        return bool(self.gpus or self.others) or self.jobs is not None

    def but(self, stronger: Limit) -> Limit:
        """Return this limit without what a stronger one limits, too."""
        return Limit(
            {m: most for m, most in self.gpus.items() if m not in stronger.gpus},
            self.jobs if stronger.jobs is None else None,
            {n: most for n, most in self.others.items() if n not in stronger.others},
        )


NONE = Limit()


class JobLimit(NamedTuple):
    """What a single job may ask for: GPUs, CPUs, MiB and nodes, of a node, and minutes.

    `by_time`: the same times its minutes. `least`: what it must ask for.
    """

    asked: Limit = NONE
    per_node: Limit = NONE
    minutes: int | None = None
    by_time: Limit = NONE
    least: Limit = NONE


FREE = JobLimit()


class QosLimits(NamedTuple):
    """What jobs of a QOS may hold: all of them, those of each user, and of each account."""

    together: Limit = NONE
    per_user: Limit = NONE
    per_account: Limit = NONE


class Qos(NamedTuple):
    """What a QOS says beside its limits: how its jobs are ordered, and how they are preempted.

    `mode` is empty where the cluster says it; `exempt_s` is None there.
    """

    preempts: tuple[str, ...] = ()
    priority: int = 0
    mode: frozenset[str] = frozenset()
    grace_s: int = 0
    exempt_s: int | None = None
    flags: frozenset[str] = frozenset()


class Association(NamedTuple):
    """What an association says: whose it is, the account above, and what it limits."""

    owner: Owner
    parent: str
    together: Limit
    jobs: int | None
    single: JobLimit


def associations_of(part: Part | None) -> Iterator[Association]:
    """Yield the associations of a part; raises `InvalidInputError` for what Slurm never writes."""
    if part is None:
        return
    if part.text is not None:
        for row in _rows(part):
            yield Association(
                (row.text("Account"), row.text("User"), row.text("Partition")),
                row.text(PARENT),
                row.limit("GrpTRES", "GrpJobs"),
                row.read(_whole, "MaxJobs"),
                row.single(),
            )
        return
    for one in _entries(part, "associations"):
        per, tres = ("max", "jobs", "per"), ("max", "tres")
        yield Association(
            (one.read(_text, "account"), one.read(_text, "user"), one.read(_text, "partition")),
            one.read(_text, "parent_account"),
            one.read(_limit, *tres, "total")._replace(jobs=one.read(number, *per, "count")),
            one.read(number, "max", "jobs", "active"),
            JobLimit(
                one.read(_limit, *tres, "per", "job"),
                one.read(_limit, *tres, "per", "node"),
                one.read(number, *per, "wall_clock"),
                one.read(_limit, *tres, "minutes", "per", "job"),
            ),
        )


def qos_of(part: Part | None) -> Iterator[tuple[str, Qos, QosLimits, JobLimit]]:
    """Yield name, what a QOS says beside its limits, these, and what a single job may ask for."""
    if part is None:
        return
    if part.text is not None:
        for row in _rows(part):
            said = Qos(
                row.read(words, "Preempt"),
                row.read(_whole, "Priority") or 0,
                _modes(row.read(words, "PreemptMode")),
                row.read(seconds, "GraceTime") or 0,
                row.read(seconds, "PreemptExemptTime"),
                _flags(row.read(words, "Flags")),
            )
            limits = QosLimits(
                row.limit("GrpTRES", "GrpJobs"),
                row.limit("MaxTRESPU", "MaxJobsPU"),
                row.limit("MaxTRESPA", "MaxJobsPA"),
            )
            yield row.text("Name"), said, limits, row.single()
        return
    for one in _entries(part, "qos"):
        most = ("limits", "max")
        per, active = (*most, "tres", "per"), (*most, "jobs", "active_jobs", "per")
        together = one.read(number, *most, "active_jobs", "count")
        found = QosLimits(
            one.read(_limit, *most, "tres", "total")._replace(jobs=together),
            one.read(_limit, *per, "user")._replace(jobs=one.read(number, *active, "user")),
            one.read(_limit, *per, "account")._replace(jobs=one.read(number, *active, "account")),
        )
        said = Qos(
            one.read(words, "preempt", "list"),
            one.read(number, "priority") or 0,
            _modes(one.read(words, "preempt", "mode")),
            one.read(number, "limits", "grace_time") or 0,
            one.read(number, "preempt", "exempt_time"),
            _flags(one.read(words, "flags")),
        )
        single = JobLimit(
            one.read(_limit, *per, "job"),
            one.read(_limit, *per, "node"),
            one.read(number, *most, "wall_clock", "per", "job"),
            one.read(_limit, *most, "tres", "minutes", "per", "job"),
            one.read(_limit, "limits", "min", "tres", "per", "job"),
        )
        yield one.read(_text, "name"), said, found, single


class _Entry(NamedTuple):
    """An object of JSON, and where it stands."""

    file: str
    path: tuple[str | int, ...]
    raw: Any

    def read(self, how: Callable[[Any], _T], *keys: str) -> _T:
        """Read the value at some keys, None where there is none."""
        value, at = self.raw, self.path
        try:
            for key in keys:
                if not isinstance(value, dict | None):
                    raise ValueError("expected a mapping")  # noqa: TRY004
                value, at = (value or {}).get(key), (*at, key)
            return how(value)
        except ValueError as error:
            raise InvalidInputError(str(error), file=self.file, path=at, value=value) from None


class _Row(NamedTuple):
    """A row of a table, and the line where it stands."""

    file: str
    line: int
    cells: Mapping[str, str]

    def text(self, column: str) -> str:
        """Return a text."""
        return self.cells.get(column, "")

    def read(self, how: Callable[[str], _T], *columns: str) -> _T:
        """Read the text of a column."""
        (column,) = columns
        try:
            return how(self.text(column))
        except ValueError as error:
            text = self.text(column)
            refused = InvalidInputError(str(error), file=self.file, path=(column,), value=text)
            refused.line = self.line
            raise refused from None

    def limit(self, tres: str, jobs: str) -> Limit:
        """Return a limit of what is held together, and of how many hold it."""
        return self.read(_text_limit, tres)._replace(jobs=self.read(_whole, jobs))

    def single(self) -> JobLimit:
        """Return what a single job may ask for."""
        wall = self.read(seconds, "MaxWall")
        return JobLimit(
            self.read(_text_limit, "MaxTRES"),
            self.read(_text_limit, "MaxTRESPerNode"),
            None if wall is None else wall // 60,
            self.read(_text_limit, "MaxTRESMins"),
            self.read(_text_limit, "MinTRES"),
        )


def _rows(part: Part) -> Iterator[_Row]:
    for line, cells in table(part.text or ""):
        yield _Row(part.file, line, cells)


def _entries(part: Part, name: str) -> Iterator[_Entry]:
    entries = part.raw[name]
    if not isinstance(entries, list):
        raise InvalidInputError("expected a list", file=part.file, path=(name,), value=entries)
    for i, raw in enumerate(entries):
        if not isinstance(raw, dict):
            raise InvalidInputError("expected a mapping", file=part.file, path=(name, i), value=raw)
        yield _Entry(part.file, (name, i), raw)


def _text(value: Any) -> str:
    if not isinstance(value, str | None):
        raise ValueError("expected text")  # noqa: TRY004
    return value or ""


def _modes(words: Iterable[str]) -> frozenset[str]:
    """Return modes of preemption; none if the cluster's holds."""
    return frozenset(word.upper() for word in words) - {"CLUSTER", "DISABLED", "CLUSTER_GLOBAL"}


def _flags(words: Iterable[str]) -> frozenset[str]:
    """Return flags as sacctmgr prints them, in capitals: JSON has other words for some."""
    plain = (re.sub(r"[^A-Z]", "", word.upper()) for word in words)
    return frozenset(_OTHER_WORDS.get(word, word) for word in plain)


def _limit(entries: Any) -> Limit:
    """Return the limits in a list of TRES: `{"type": "gres", "name": "gpu", "count": 48}`."""
    if not isinstance(entries, list | None) or not all(isinstance(e, dict) for e in entries or ()):
        raise ValueError("expected a list of TRES")
    gpus: dict[str, int] = {}
    others: dict[str, int] = {}
    for entry in entries or ():
        kind, name = _text(entry.get("type")), _text(entry.get("name"))
        gpu, count = name.partition(":")[0] == _GPU, entry.get("count")
        if not gpu and kind not in COUNTED:
            continue
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _MOST:
            raise ValueError(f"expected a number of {'GPUs' if gpu else kind}")
        if gpu:
            gpus[name.partition(":")[2]] = count
        else:
            others[kind] = count
    return Limit(gpus, None, others)


def _whole(text: str) -> int | None:
    if text and not (text.isascii() and text.isdigit() and len(text) < len(str(_MOST))):
        raise ValueError("expected a whole number")
    return int(text) if text else None


def _text_limit(text: str) -> Limit:
    others = read_amounts(text)
    gpus = dict(read_gres(text).gpus)
    gpus |= {match[1] or "": 0 for match in _NO_GPUS.finditer(text)}
    return Limit(gpus, None, others)
