"""Limits of accounts, users and QOS: what they allow, and which QOS may preempt which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from placewright.instances.converters.bookkeeping import Bookkeeping
from placewright.instances.converters.slurm.accounting import (
    FREE,
    PARENT,
    JobLimit,
    Limit,
    Owner,
    Qos,
    QosLimits,
    associations_of,
    qos_of,
)
from placewright.instances.converters.slurm.sources import Part
from placewright.instances.errors import InvalidInputError

_T = TypeVar("_T")
MAX_CHAIN = 50
"""Accounts above one another; a job counts in 64 caps at most."""


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
    of_qos
        What else QOS say, by name.
    job_of_association, job_of_qos
        What a single job may ask for.
    without_parents
        There are limits, and the dump does not say which account is above which.
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

    def of_job(self, account: str, user: str, qos: Iterable[str]) -> Iterator[tuple[str, JobLimit]]:
        """Yield what limits a single job, and what it is of: the first that says it holds."""
        for name in qos:
            if (limit := self.job_of_qos.get(name)) is not None:
                yield f"QOS {name}", limit
        for owner in [(account, user, ""), *((one, "", "") for one in self.path(account))]:
            if (limit := self.job_of_association.get(owner)) is not None:
                yield f"account {owner[0]}" + (f" user {user}" if owner[1] else ""), limit

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
    single: dict[Owner, JobLimit] = {}
    for one in _each(associations_of, associations, "associations", book):
        account = one.owner[0]
        if one.parent:
            parents.setdefault(account, one.parent)
        if one.together:
            together[one.owner] = one.together
        if one.jobs is not None:
            jobs_of_users[one.owner] = one.jobs
        if one.single != FREE:
            single[one.owner] = one.single
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
