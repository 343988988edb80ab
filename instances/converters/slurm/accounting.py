"""Associations and QOS as sacctmgr writes them, JSON or text: what they limit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from placewright.instances.converters.slurm.sources import Part
from placewright.instances.converters.slurm.text import seconds, table
from placewright.instances.converters.slurm.tres import COUNTED, read_amounts, read_gres
from placewright.instances.errors import InvalidInputError

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
    """What a single job may ask for: GPUs, CPUs, MiB and nodes, of a node, and minutes."""

    asked: Limit = NONE
    per_node: Limit = NONE
    minutes: int | None = None


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
        for i, row in table(part.text):
            yield Association(
                (row["Account"], row.get("User", ""), row.get("Partition", "")),
                row.get(PARENT, ""),
                _text_limit(row, "GrpTRES", part.file, i, jobs="GrpJobs"),
                _text_number(row, "MaxJobs", part.file, i),
                _text_single(row, part.file, i),
            )
        return
    for path, entry in _entries(part, "associations"):
        most = _inner(entry, "max")

        def limit(*keys: str, most: Any = most, at: Any = path) -> Limit:
            return _json_limit(_inner(most, *keys), part.file, (*at, "max", *keys))

        def jobs(*keys: str, most: Any = most, at: Any = path) -> int | None:
            return _json_number(_inner(most, *keys), part.file, (*at, "max", *keys))

        yield Association(
            (
                _text(entry, "account", part.file, path),
                _text(entry, "user", part.file, path),
                _text(entry, "partition", part.file, path),
            ),
            _text(entry, "parent_account", part.file, path),
            limit("tres", "total")._replace(jobs=jobs("jobs", "per", "count")),
            jobs("jobs", "active"),
            JobLimit(
                limit("tres", "per", "job"),
                limit("tres", "per", "node"),
                jobs("jobs", "per", "wall_clock"),
            ),
        )


def qos_of(part: Part | None) -> Iterator[tuple[str, Qos, QosLimits, JobLimit]]:
    """Yield name, what a QOS says beside its limits, these, and what a single job may ask for."""
    if part is None:
        return
    if part.text is not None:
        for i, row in table(part.text):
            limits = [
                _text_limit(row, tres, part.file, i, jobs=jobs)
                for tres, jobs in (
                    ("GrpTRES", "GrpJobs"),
                    ("MaxTRESPU", "MaxJobsPU"),
                    ("MaxTRESPA", "MaxJobsPA"),
                )
            ]
            said = Qos(
                tuple(n for n in row.get("Preempt", "").split(",") if n),
                _text_number(row, "Priority", part.file, i) or 0,
                _modes(row.get("PreemptMode", "").split(",")),
                seconds(row.get("GraceTime", "")) or 0,
                seconds(row.get("PreemptExemptTime", "")),
                _flags(row.get("Flags", "").split(",")),
            )
            yield row["Name"], said, QosLimits(*limits), _text_single(row, part.file, i)
        return
    for path, entry in _entries(part, "qos"):
        most, at = _inner(entry, "limits", "max"), (*path, "limits", "max")

        def limit(*keys: str, jobs: Sequence[str] = (), most: Any = most, at: Any = at) -> Limit:
            found = _json_limit(_inner(most, "tres", *keys), part.file, (*at, "tres", *keys))
            return found._replace(jobs=_json_number(_inner(most, *jobs), part.file, (*at, *jobs)))

        def number(*keys: str, entry: Any = entry, at: Any = path) -> int | None:
            return _json_number(_inner(entry, *keys), part.file, (*at, *keys))

        per = ("jobs", "active_jobs", "per")
        found = QosLimits(
            limit("total", jobs=("active_jobs", "count")),
            limit("per", "user", jobs=(*per, "user")),
            limit("per", "account", jobs=(*per, "account")),
        )
        said = Qos(
            tuple(_texts(_inner(entry, "preempt", "list"))),
            number("priority") or 0,
            _modes(_texts(_inner(entry, "preempt", "mode"))),
            number("limits", "grace_time") or 0,
            number("preempt", "exempt_time"),
            _flags(_texts(entry.get("flags"))),
        )
        single = JobLimit(
            limit("per", "job"),
            limit("per", "node"),
            number("limits", "max", "wall_clock", "per", "job"),
        )
        yield _text(entry, "name", part.file, path), said, found, single


def _entries(part: Part, name: str) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any]]]:
    entries = part.raw[name]
    if not isinstance(entries, list):
        raise InvalidInputError("expected a list", file=part.file, path=(name,), value=entries)
    for i, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise InvalidInputError(
                "expected a mapping", file=part.file, path=(name, i), value=entry
            )
        yield (name, i), entry


def _inner(entry: Any, *keys: str) -> Any:
    for key in keys:
        entry = entry.get(key) if isinstance(entry, dict) else None
    return entry


def _text(entry: dict[str, Any], key: str, file: str, path: tuple[str | int, ...]) -> str:
    value = entry.get(key) or ""
    if not isinstance(value, str):
        raise InvalidInputError("expected text", file=file, path=(*path, key), value=value)
    return value


def _texts(values: Any) -> list[str]:
    return [one for one in values if isinstance(one, str)] if isinstance(values, list) else []


def _modes(words: Iterable[str]) -> frozenset[str]:
    """Return modes of preemption; none if the cluster's holds."""
    found = {word.strip().upper() for word in words} - {"", "CLUSTER", "DISABLED", "CLUSTER_GLOBAL"}
    return frozenset(found)


def _flags(words: Iterable[str]) -> frozenset[str]:
    """Return flags as sacctmgr prints them, in capitals: JSON has other words for some."""
    plain = (re.sub(r"[^A-Z]", "", word.upper()) for word in words)
    return frozenset(_OTHER_WORDS.get(word, word) for word in plain)


def _json_limit(entries: Any, file: str, path: tuple[str | int, ...]) -> Limit:
    """Return the limits in a list of TRES: `{"type": "gres", "name": "gpu", "count": 48}`."""
    gpus: dict[str, int] = {}
    others: dict[str, int] = {}
    for entry in entries if isinstance(entries, list) else ():
        kind, name, count = (_inner(entry, key) for key in ("type", "name", "count"))
        gpu = isinstance(name, str) and name.partition(":")[0] == _GPU
        if not gpu and kind not in COUNTED:
            continue
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _MOST:
            what = "GPUs" if gpu else str(kind)
            raise InvalidInputError(
                f"expected a number of {what}", file=file, path=path, value=entry
            )
        if gpu:
            gpus[str(name).partition(":")[2]] = count
        else:
            others[str(kind)] = count
    return Limit(gpus, None, others)


def _json_number(value: Any, file: str, path: tuple[str | int, ...]) -> int | None:
    """Return a number of jobs: `4`, or `{"set": true, "infinite": false, "number": 4}`."""
    if isinstance(value, dict):
        given = value.get("set") is True and value.get("infinite") is not True
        value = value.get("number") if given else None
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise InvalidInputError("expected a number of jobs", file=file, path=path, value=value)
    return value


def _text_number(row: dict[str, str], column: str, file: str, line: int) -> int | None:
    text = row.get(column, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < len(str(_MOST))):
        refused = InvalidInputError(
            "expected a number of jobs", file=file, path=(column,), value=text
        )
        refused.line = line
        raise refused
    return int(text)


def _text_single(row: dict[str, str], file: str, line: int) -> JobLimit:
    asked, per_node = (_text_limit(row, name, file, line) for name in ("MaxTRES", "MaxTRESPerNode"))
    wall = seconds(row.get("MaxWall", ""))
    return JobLimit(asked, per_node, None if wall is None else wall // 60)


def _text_limit(row: dict[str, str], column: str, file: str, line: int, jobs: str = "") -> Limit:
    text = row.get(column, "")
    try:
        gpus = dict(read_gres(text).gpus)
        others = read_amounts(text)
    except ValueError as error:
        refused = InvalidInputError(str(error), file=file, path=(column,), value=text)
        refused.line = line
        raise refused from None
    gpus |= {match[1] or "": 0 for match in _NO_GPUS.finditer(text)}
    return Limit(gpus, _text_number(row, jobs, file, line) if jobs else None, others)
