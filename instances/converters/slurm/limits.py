"""Limits of accounts, users and QOS, as sacctmgr writes them in JSON or text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.slurm.records import Part
from placewright.instances.converters.slurm.texts import (
    COUNTED,
    number,
    read_amounts,
    read_gres,
    seconds,
    table,
    words,
)
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

    cluster: str
    owner: Owner
    parent: str
    together: Limit
    jobs: int | None
    single: JobLimit


def associations_of(part: Part | None) -> Iterator[Association]:
    """Yield the associations of a part; raises `InvalidInputError` for what Slurm never writes."""
    for one in _entries(part, "associations"):
        yield Association(
            one.read(_TEXT, "cluster", "Cluster"),
            (
                one.read(_TEXT, "account", "Account"),
                one.read(_TEXT, "user", "User"),
                one.read(_TEXT, "partition", "Partition"),
            ),
            one.read(_TEXT, "parent_account", PARENT),
            one.limit("max.tres.total", "GrpTRES", "max.jobs.per.count", "GrpJobs"),
            one.read(_NUMBER, "max.jobs.active", "MaxJobs"),
            one.single("max.tres", "max.jobs.per.wall_clock"),
        )


def qos_of(part: Part | None) -> Iterator[tuple[str, Qos, QosLimits, JobLimit]]:
    """Yield name, what a QOS says beside its limits, these, and what a single job may ask for."""
    most, active = "limits.max.tres", "limits.max.jobs.active_jobs.per"
    for one in _entries(part, "qos"):
        said = Qos(
            one.read(_WORDS, "preempt.list", "Preempt"),
            one.read(_NUMBER, "priority", "Priority") or 0,
            _modes(one.read(_WORDS, "preempt.mode", "PreemptMode")),
            one.read(_SECONDS, "limits.grace_time", "GraceTime") or 0,
            one.read(_SECONDS, "preempt.exempt_time", "PreemptExemptTime"),
            _flags(one.read(_WORDS, "flags", "Flags")),
        )
        limits = QosLimits(
            one.limit(f"{most}.total", "GrpTRES", "limits.max.active_jobs.count", "GrpJobs"),
            one.limit(f"{most}.per.user", "MaxTRESPU", f"{active}.user", "MaxJobsPU"),
            one.limit(f"{most}.per.account", "MaxTRESPA", f"{active}.account", "MaxJobsPA"),
        )
        single = one.single(most, "limits.max.wall_clock.per.job", "limits.min.tres.per.job")
        yield one.read(_TEXT, "name", "Name"), said, limits, single


_How: TypeAlias = tuple[Callable[[Any], _T], Callable[[str], _T]]
"""What reads a value of JSON, and the text of a cell."""


class _Entry(NamedTuple):
    """An object of JSON, or a row of a table, and where it stands."""

    file: str
    raw: Mapping[str, Any]
    path: tuple[str | int, ...] = ()
    line: int | None = None

    def read(self, how: _How[_T], path: str, column: str) -> _T:
        """Read what is at a path of JSON, None where there is nothing, or in a column of a row."""
        value: Any = self.raw
        at = self.path
        try:
            if self.line is not None:
                value, at = self.raw.get(column, ""), (column,)
                return how[1](value)
            for key in path.split("."):
                if not isinstance(value, dict | None):
                    raise ValueError("expected a mapping")  # noqa: TRY004
                value, at = (value or {}).get(key), (*at, key)
            return how[0](value)
        except ValueError as error:
            refused = InvalidInputError(str(error), file=self.file, path=at, value=value)
            refused.line = self.line
            raise refused from None

    def limit(self, path: str, tres: str, jobs_path: str, jobs: str) -> Limit:
        """Return a limit of what is held together, and of how many hold it."""
        limit = self.read(_LIMIT, path, tres)
        return limit._replace(jobs=self.read(_NUMBER, jobs_path, jobs))

    def single(self, tres: str, wall_clock: str, least: str = "") -> JobLimit:
        """Return what a single job may ask for."""
        return JobLimit(
            self.read(_LIMIT, f"{tres}.per.job", "MaxTRES"),
            self.read(_LIMIT, f"{tres}.per.node", "MaxTRESPerNode"),
            self.read(_MINUTES, wall_clock, "MaxWall"),
            self.read(_LIMIT, f"{tres}.minutes.per.job", "MaxTRESMins"),
            self.read(_LIMIT, least, "MinTRES"),
        )


def _entries(part: Part | None, name: str) -> Iterator[_Entry]:
    if part is None:
        return
    if part.text is not None:
        for line, cells in table(part.text):
            yield _Entry(part.file, cells, line=line)
        return
    entries = part.raw[name]
    if not isinstance(entries, list):
        raise InvalidInputError("expected a list", file=part.file, path=(name,), value=entries)
    for i, raw in enumerate(entries):
        if not isinstance(raw, dict):
            raise InvalidInputError("expected a mapping", file=part.file, path=(name, i), value=raw)
        yield _Entry(part.file, raw, (name, i))


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


def _minutes(text: str) -> int | None:
    limit = seconds(text)
    return limit and limit // 60


_TEXT: _How[str] = (_text, str)
_WORDS: _How[tuple[str, ...]] = (words, words)
_NUMBER: _How[int | None] = (number, _whole)
_SECONDS: _How[int | None] = (number, seconds)
_MINUTES: _How[int | None] = (number, _minutes)
_LIMIT: _How[Limit] = (_limit, _text_limit)

# Limits of accounts, users and QOS: what they allow, and which QOS may preempt which.

MAX_CHAIN = 50
"""Accounts above one another; a job counts in 64 caps at most."""


@dataclass(frozen=True, slots=True)
class Limits:
    """GPU limits by account, the account above each, ranks of QOS, and what a round cannot say.

    `together`: what the jobs of an association, and of those below it, may hold. `jobs_of_users`:
    `MaxJobs` by association; that of an account is for each user in it. `qos`: limits of QOS by
    name. `of_qos`: what else QOS say, by name. `job_of_association`, `job_of_qos`: what a single
    job may ask for. `without_parents`: there are limits, and the dump does not say which account is
    above which.
    """

    gpus: Mapping[str, int] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)
    ranks: Mapping[str, int] = field(default_factory=dict)
    without_parents: bool = False
    together: Mapping[Owner, Limit] = field(default_factory=dict)
    jobs_of_users: Mapping[Owner, int] = field(default_factory=dict)
    qos: Mapping[str, QosLimits] = field(default_factory=dict)
    of_qos: Mapping[str, Qos] = field(default_factory=dict)
    job_of_association: Mapping[Owner, JobLimit] = field(default_factory=dict)
    job_of_qos: Mapping[str, JobLimit] = field(default_factory=dict)

    def flags(self, qos: str) -> frozenset[str]:
        """Return the flags of a QOS, in capitals and without what stands between words."""
        return self.of_qos.get(qos, Qos()).flags

    def of_job(
        self, account: str, user: str, partitions: Sequence[str], qos: Iterable[str]
    ) -> Iterator[tuple[str, JobLimit]]:
        """Yield what limits a single job, and what it is of: the first that says it holds."""
        for name in qos:
            if (limit := self.job_of_qos.get(name)) is not None:
                yield f"QOS {name}", limit
        own = [(account, user, one) for one in (*(partitions if len(partitions) == 1 else ()), "")]
        for owner in [*own, *((one, "", "") for one in self.path(account))]:
            if (limit := self.job_of_association.get(owner)) is not None:
                yield f"account {owner[0]}" + (f" user {user}" if owner[1] else ""), limit

    def not_enforced(self) -> Limits:
        """Return what else accounts and QOS say, where no job waits for their limits."""
        return Limits(parents=self.parents, ranks=self.ranks, of_qos=self.of_qos)

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


def read_limits(
    associations: Part | None, qos: Part | None, cluster: str, book: Bookkeeping
) -> Limits:
    """Return what associations and QOS say about GPUs, numbers of jobs and preemption.

    `cluster`: whose associations count, "": the dump does not say; a database may have several.
    Raises `InvalidInputError`: a value is not what Slurm writes.
    """
    together: dict[Owner, Limit] = {}
    jobs_of_users: dict[Owner, int] = {}
    parents: dict[str, str] = {}
    single: dict[Owner, JobLimit] = {}
    clusters: set[str] = set()
    others: set[str] = set()
    for one in _each(associations_of, associations, "associations", book):
        if cluster and one.cluster and one.cluster != cluster:
            others.add(one.cluster)
            continue
        clusters.add(one.cluster)
        account = one.owner[0]
        if one.parent:
            parents.setdefault(account, one.parent)
        if one.together:
            together[one.owner] = one.together
        if one.jobs is not None:
            jobs_of_users[one.owner] = one.jobs
        if one.single != FREE:
            single[one.owner] = one.single
    if others and not clusters:
        book.cannot_say("limits of its accounts, as the associations are of other clusters")
    if len(clusters) > 1:
        book.cannot_say("which of several clusters the limits of its accounts are of")
    gpus = {
        account: limit.gpus[""]
        for (account, user, partition), limit in together.items()
        if "" in limit.gpus and not user and not partition
    }
    of_qos: dict[str, Qos] = {}
    limited: dict[str, QosLimits] = {}
    single_of_qos: dict[str, JobLimit] = {}
    for name, said, limits, limit in _each(qos_of, qos, "qos", book):
        of_qos[name] = said
        if any(limits):
            limited[name] = limits
        if limit != FREE:
            single_of_qos[name] = limit
    text = associations.text if associations is not None else None
    named = text is None or PARENT in text.partition("\n")[0].split("|")
    return Limits(
        gpus=gpus,
        parents=parents,
        ranks=_ranks({name: one.preempts for name, one in of_qos.items()}),
        without_parents=bool(together) and not named,
        together=together,
        jobs_of_users=jobs_of_users,
        qos=limited,
        of_qos=of_qos,
        job_of_association=single,
        job_of_qos=single_of_qos,
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
