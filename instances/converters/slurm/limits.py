"""Limits of accounts, users and QOS: what they allow, and which QOS may preempt which."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.slurm.sources import Part
from placewright.instances.converters.slurm.text import table
from placewright.instances.converters.slurm.tres import read_gres
from placewright.instances.errors import InvalidInputError

_T = TypeVar("_T")
_GPU = "gpu"
_PARENT = "ParentName"
_MOST = 10**9
MAX_CHAIN = 50
"""Accounts above one another; a job counts in 64 caps at most."""

_NO_GPUS = re.compile(r"\bgres/gpu(?::([^=,]+))?=0(?=,|$)")

Owner: TypeAlias = tuple[str, str, str]
"""Of an association: account, user ("": all of it) and partition ("": any)."""


class Limit(NamedTuple):
    """What some jobs may hold together: GPUs by model ("": any), and their number."""

    gpus: Mapping[str, int] = {}
    jobs: int | None = None

    def __bool__(self) -> bool:
        """Whether anything is limited."""
        return bool(self.gpus) or self.jobs is not None


NONE = Limit()


class QosLimits(NamedTuple):
    """What jobs of a QOS may hold: all of them, those of each user, and of each account."""

    together: Limit = NONE
    per_user: Limit = NONE
    per_account: Limit = NONE


@dataclass(frozen=True, slots=True)
class Limits:
    """GPU limits by account, the account above each, ranks of QOS, and what a round cannot say.

    Attributes
    ----------
    together
        What the jobs of an association, and of those below it, may hold.
    jobs_of_users
        `MaxJobs` by association; that of an account is for each user in it.
    qos
        Limits of QOS by name.
    without_parents
        There are limits, and the dump does not say which account is above which.
    """

    gpus: Mapping[str, int] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)
    unsaid: tuple[str, ...] = ()
    without_parents: bool = False
    together: Mapping[Owner, Limit] = field(default_factory=dict)
    jobs_of_users: Mapping[Owner, int] = field(default_factory=dict)
    qos: Mapping[str, QosLimits] = field(default_factory=dict)

    def tenant(self, account: str) -> str:
        """Return the nearest account at or above this one that has a limit of GPUs, else itself."""
        return next((one for one in self.path(account) if one in self.gpus), account)

    def path(self, account: str) -> Sequence[str]:
        """Return an account and those above it, from the inside out."""
        found: dict[str, None] = {}
        while account and account not in found and len(found) < MAX_CHAIN:
            found[account] = None
            account = self.parents.get(account, "")
        return tuple(found)


def read_limits(associations: Part | None, qos: Part | None, book: Bookkeeping) -> Limits:
    """Return what associations and QOS say about GPUs, numbers of jobs and preemption.

    Raises
    ------
    InvalidInputError
        A value is not what Slurm writes.
    """
    together: dict[Owner, Limit] = {}
    jobs_of_users: dict[Owner, int] = {}
    parents: dict[str, str] = {}
    unsaid: list[str] = []
    for one in _each(_associations, associations, "associations", book):
        account, user, _ = one.owner
        if one.parent:
            parents.setdefault(account, one.parent)
        if one.together:
            together[one.owner] = one.together
        if one.jobs is not None:
            jobs_of_users[one.owner] = one.jobs
        if one.per_job:
            unsaid.append(f"limit per job of account {account}" + (f" user {user}" if user else ""))
    gpus = {
        account: limit.gpus[""]
        for (account, user, partition), limit in together.items()
        if "" in limit.gpus and not user and not partition
    }
    ranked: dict[str, tuple[str, ...]] = {}
    limited: dict[str, QosLimits] = {}
    for name, preempts, limits, per_job in _each(_qos, qos, "qos", book):
        ranked[name] = preempts
        if any(limits):
            limited[name] = limits
        if per_job:
            unsaid.append(f"limit per job of QOS {name}")
    text = associations.text if associations is not None else None
    named = text is None or _PARENT in text.partition("\n")[0].split("|")
    return Limits(
        gpus=gpus,
        parents=parents,
        ranks=_ranks(ranked),
        unsaid=tuple(unsaid),
        without_parents=bool(together) and not named,
        together=together,
        jobs_of_users=jobs_of_users,
        qos=limited,
    )


def _ranks(preempts: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Return the rank of each QOS: one above the highest that it may preempt."""
    ranks = dict.fromkeys(preempts, 0)
    for _ in preempts:  # a circle would raise ranks for ever
        for name, others in preempts.items():
            below = [ranks[other] for other in others if other in ranks and other != name]
            ranks[name] = max(ranks[name], 1 + max(below)) if below else ranks[name]
    return {name: min(rank, len(preempts)) for name, rank in ranks.items()}


def _each(
    read: Callable[[Part | None], Iterator[_T]], part: Part | None, name: str, book: Bookkeeping
) -> Iterator[_T]:
    """Yield what is read of a part; where entries may be left out, each of them is read alone."""
    parts = [part]
    if part is not None and book.lenient:
        if part.text is not None:
            header, *rows = part.text.splitlines()
            parts = [Part(part.file, text=f"{header}\n{row}") for row in rows]
        elif isinstance(part.raw[name], list):
            parts = [Part(part.file, raw={name: [entry]}) for entry in part.raw[name]]
    for one in parts:
        try:
            yield from list(read(one))
        except InvalidInputError as error:
            book.refuse(error)
            book.leave(name, f"cannot be read: {error.expectation}", "?")


class _Association(NamedTuple):
    owner: Owner
    parent: str
    together: Limit
    jobs: int | None
    per_job: bool


def _associations(part: Part | None) -> Iterator[_Association]:
    if part is None:
        return
    if part.text is not None:
        for i, row in table(part.text):
            yield _Association(
                (row["Account"], row.get("User", ""), row.get("Partition", "")),
                row.get(_PARENT, ""),
                Limit(
                    _text_limit(row, "GrpTRES", part.file, i),
                    _text_number(row, "GrpJobs", part.file, i),
                ),
                _text_number(row, "MaxJobs", part.file, i),
                any(_text_limit(row, name, part.file, i) for name in ("MaxTRES", "MaxTRESPerNode")),
            )
        return
    for path, entry in _entries(part, "associations"):
        most = _inner(entry, "max")

        def gpus(*keys: str, most: Any = most, at: Any = path) -> dict[str, int]:
            return _json_limits(_inner(most, *keys), part.file, (*at, "max", *keys))

        def jobs(*keys: str, most: Any = most, at: Any = path) -> int | None:
            return _json_number(_inner(most, *keys), part.file, (*at, "max", *keys))

        yield _Association(
            (
                _text(entry, "account", part.file, path),
                _text(entry, "user", part.file, path),
                _text(entry, "partition", part.file, path),
            ),
            _text(entry, "parent_account", part.file, path),
            Limit(gpus("tres", "total"), jobs("jobs", "per", "count")),
            jobs("jobs", "active"),
            bool(gpus("tres", "per", "job") or gpus("tres", "per", "node")),
        )


def _qos(part: Part | None) -> Iterator[tuple[str, tuple[str, ...], QosLimits, bool]]:
    """Yield name, names that it may preempt, limits, and whether GPUs of a job are limited."""
    if part is None:
        return
    if part.text is not None:
        for i, row in table(part.text):
            limits = [
                Limit(_text_limit(row, tres, part.file, i), _text_number(row, jobs, part.file, i))
                for tres, jobs in (
                    ("GrpTRES", "GrpJobs"),
                    ("MaxTRESPU", "MaxJobsPU"),
                    ("MaxTRESPA", "MaxJobsPA"),
                )
            ]
            per_job = any(
                _text_limit(row, name, part.file, i) for name in ("MaxTRES", "MaxTRESPerNode")
            )
            preempts = tuple(n for n in row.get("Preempt", "").split(",") if n)
            yield row["Name"], preempts, QosLimits(*limits), per_job
        return
    for path, entry in _entries(part, "qos"):
        most, at = _inner(entry, "limits", "max"), (*path, "limits", "max")

        def limit(*keys: str, jobs: Sequence[str], most: Any = most, at: Any = at) -> Limit:
            return Limit(
                _json_limits(_inner(most, "tres", *keys), part.file, (*at, "tres", *keys)),
                _json_number(_inner(most, *jobs), part.file, (*at, *jobs)),
            )

        per = ("jobs", "active_jobs", "per")
        found = QosLimits(
            limit("total", jobs=("active_jobs", "count")),
            limit("per", "user", jobs=(*per, "user")),
            limit("per", "account", jobs=(*per, "account")),
        )
        preempts = _inner(entry, "preempt", "list")
        names = preempts if isinstance(preempts, list) else []
        yield (
            _text(entry, "name", part.file, path),
            tuple(name for name in names if isinstance(name, str)),
            found,
            bool(limit("per", "job", jobs=()).gpus or limit("per", "node", jobs=()).gpus),
        )


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


def _json_limits(entries: Any, file: str, path: tuple[str | int, ...]) -> dict[str, int]:
    """Return the limits of GPUs in a list of TRES: `{"name": "gpu", "count": 48}`."""
    limits: dict[str, int] = {}
    for entry in entries if isinstance(entries, list) else ():
        name, count = _inner(entry, "name"), _inner(entry, "count")
        if not isinstance(name, str) or name.partition(":")[0] != _GPU:
            continue
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _MOST:
            raise InvalidInputError("expected a number of GPUs", file=file, path=path, value=entry)
        limits[name.partition(":")[2]] = count
    return limits


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


def _text_limit(row: dict[str, str], column: str, file: str, line: int) -> dict[str, int]:
    text = row.get(column, "")
    try:
        found = dict(read_gres(text).gpus)
    except ValueError as error:
        refused = InvalidInputError(str(error), file=file, path=(column,), value=text)
        refused.line = line
        raise refused from None
    return found | {match[1] or "": 0 for match in _NO_GPUS.finditer(text)}
