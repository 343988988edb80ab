"""Limits of accounts, users and QOS on GPUs, and which QOS may preempt which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from placewright.instances.converters.slurm.sources import Part
from placewright.instances.converters.slurm.tres import read_gres
from placewright.instances.errors import InvalidInputError

_GPU = "gpu"
_PARENT = "ParentName"
_MOST = 10**9
MAX_CHAIN = 50
"""Accounts above one another; a job counts in 64 caps at most."""

_COLUMNS = ("GrpTRES", "MaxTRESPU", "MaxTRESPA", "MaxTRES", "MaxTRESPerNode")
_PER = ("user", "account")


class QosLimits(NamedTuple):
    """GPUs that the jobs of a QOS may hold together, those of a user, and those of an account."""

    total: int | None = None
    per_user: int | None = None
    per_account: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """GPU limits, the account above each, ranks of QOS, and what a round cannot say.

    `gpus` are by account, `users` by account and user. `without_parents`: there are limits, and the
    dump does not say which account is above which.
    """

    gpus: Mapping[str, int] = field(default_factory=dict)
    users: Mapping[tuple[str, str], int] = field(default_factory=dict)
    qos: Mapping[str, QosLimits] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)
    unsaid: tuple[str, ...] = ()
    without_parents: bool = False

    def chain(self, account: str) -> tuple[str, ...]:
        """Return an account and those above it, the nearest first."""
        found: dict[str, None] = {}
        while account and account not in found and len(found) < MAX_CHAIN:
            found[account] = None
            account = self.parents.get(account, "")
        return tuple(found)

    def tenant(self, account: str) -> str:
        """Return the nearest account at or above this one that has a limit, else itself."""
        return next((one for one in self.chain(account) if one in self.gpus), account)


def read_limits(associations: Part | None, qos: Part | None) -> Limits:
    """Return what associations and QOS say about GPUs and preemption.

    Limits per GPU model, per job and per node are noted as what a round does not say.

    Raises
    ------
    InvalidInputError
        A value is not what Slurm writes.
    """
    gpus: dict[str, int] = {}
    users: dict[tuple[str, str], int] = {}
    parents: dict[str, str] = {}
    unsaid: list[str] = []
    for account, user, parent, limits in _associations(associations):
        if parent:
            parents.setdefault(account, parent)
        if _GPU in limits:
            if user:
                users[account, user] = limits[_GPU]
            else:
                gpus[account] = limits[_GPU]
        if set(limits) - {_GPU}:
            whose = f"account {account}" + (f" user {user}" if user else "")
            unsaid.append(f"limit of {whose}")
    ranked: dict[str, tuple[str, ...]] = {}
    of_qos: dict[str, QosLimits] = {}
    for name, preempts, limited, others in _qos(qos):
        ranked[name] = preempts
        of_qos[name] = limited
        if others:
            unsaid.append(f"limit of QOS {name}")
    text = associations.text if associations is not None else None
    named = text is None or _PARENT in text.partition("\n")[0].split("|")
    return Limits(
        gpus=gpus,
        users=users,
        qos=of_qos,
        parents=parents,
        ranks=_ranks(ranked),
        unsaid=tuple(unsaid),
        without_parents=bool(gpus) and not named,
    )


def _ranks(preempts: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Return the rank of each QOS: one above the highest that it may preempt."""
    ranks = dict.fromkeys(preempts, 0)
    for _ in preempts:  # a circle would raise ranks for ever
        for name, others in preempts.items():
            below = [ranks[other] for other in others if other in ranks and other != name]
            ranks[name] = max(ranks[name], 1 + max(below)) if below else ranks[name]
    return {name: min(rank, len(preempts)) for name, rank in ranks.items()}


def _associations(part: Part | None) -> Iterator[tuple[str, str, str, dict[str, int]]]:
    """Yield account, user, account above, and limits by resource, of each association."""
    if part is None:
        return
    if part.text is not None:
        for i, row in _rows(part.text):
            limits = _text_limit(row, "GrpTRES", part.file, i)
            yield row["Account"], row.get("User", ""), row.get(_PARENT, ""), limits
        return
    for path, entry in _entries(part, "associations"):
        total = _inner(entry, "max", "tres", "total")
        limits = _json_limits(total, part.file, (*path, "max", "tres", "total"))
        yield (
            _text(entry, "account", part.file, path),
            _text(entry, "user", part.file, path),
            _text(entry, "parent_account", part.file, path),
            limits,
        )


def _qos(part: Part | None) -> Iterator[tuple[str, tuple[str, ...], QosLimits, bool]]:
    """Yield name, names that it may preempt, limits, and whether it has others, of each QOS."""
    if part is None:
        return
    if part.text is not None:
        for i, row in _rows(part.text):
            by_column = [_text_limit(row, column, part.file, i) for column in _COLUMNS]
            preempts = tuple(n for n in row.get("Preempt", "").split(",") if n)
            yield row["Name"], preempts, *_of_qos(by_column)
        return
    for path, entry in _entries(part, "qos"):
        limits = _inner(entry, "limits", "max", "tres")
        per = _inner(limits, "per")
        lists = [_inner(limits, "total"), _inner(per, "user"), _inner(per, "account")]
        lists += (
            (one for key, one in per.items() if key not in _PER) if isinstance(per, dict) else ()
        )
        by_list = [_json_limits(one, part.file, (*path, "limits")) for one in lists]
        preempts = _inner(entry, "preempt", "list")
        names = preempts if isinstance(preempts, list) else []
        yield (
            _text(entry, "name", part.file, path),
            tuple(name for name in names if isinstance(name, str)),
            *_of_qos(by_list),
        )


def _of_qos(found: Sequence[Mapping[str, int]]) -> tuple[QosLimits, bool]:
    """Return limits of GPUs in all, per user and per account, and whether there are others."""
    said = QosLimits(*(one.get(_GPU) for one in found[:3]))
    return said, any(found[3:]) or any(set(one) - {_GPU} for one in found[:3])


def _rows(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of what `sacctmgr -P` prints, by the columns of its header."""
    header, *lines = text.splitlines()
    columns = header.split("|")
    for number, line in enumerate(lines, 2):
        if line.strip():
            cells = line.split("|")
            yield number, dict(zip(columns, cells + [""] * len(columns), strict=False))


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
        limits[name] = count
    return limits


def _text_limit(row: dict[str, str], column: str, file: str, line: int) -> dict[str, int]:
    text = row.get(column, "")
    try:
        gres = read_gres(text)
    except ValueError as error:
        refused = InvalidInputError(str(error), file=file, path=(column,), value=text)
        refused.line = line
        raise refused from None
    return {f"{_GPU}:{m}" if m else _GPU: count for m, count in gres.gpus.items()}
