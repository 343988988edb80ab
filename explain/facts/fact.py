"""A fact: a sentence of a round or plan, and the edit that takes it away.

A **world** is the round in which some facts hold and no others. Edits only remove: what a job asks,
a rule that binds it, what keeps room from it. So a job that starts in a world starts in every world
of fewer facts, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any, TypeAlias

from placewright.instances.documents.job import Job
from placewright.instances.documents.round import Round

Edit: TypeAlias = Callable[[Round], Round]
"""What turns a round into one in which a fact does not hold."""

GroupEdit: TypeAlias = Callable[[Round, Collection[str]], Round]
Partitions: TypeAlias = Callable[[Sequence["Fact"]], Iterable[Sequence["Fact"]]]


class Stratum(IntEnum):
    """How lasting a fact is, the most lasting first."""

    ASKS = 1
    RULES = 2
    AWAY = 3
    HELD = 4
    TAKEN = 5

    @property
    def title(self) -> str:
        """The name in documents."""
        return self.name.lower()


@dataclass(frozen=True, eq=False)
class Fact:
    """A sentence of a round, or of its plan.

    Parameters
    ----------
    stratum, kind
        Which section it is of, and what it speaks of, such as `gpu`, `quota` or `jobs`.
    text
        The sentence.
    edit
        The round without it; a second time it changes nothing.
    about
        What the sentence says as fields of a document: amounts in small units, names.
    names
        Of a group, the hosts or jobs that it speaks of.
    together
        Of a group, the edit of any names: edits of several groups at once.
    partitions
        Of a group that can fall apart, the ways in which it does, the coarsest first; each is a
        list of facts that together are this one. The sentences of the conflict so far are given. A
        fact that is all of a partition has fewer of them.
    """

    stratum: Stratum
    kind: str
    text: str
    edit: Edit
    about: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    together: GroupEdit | None = None
    partitions: Partitions | None = None


def group(
    stratum: Stratum,
    kind: str,
    text: str,
    names: Sequence[str],
    together: GroupEdit,
    about: Mapping[str, Any],
    partitions: Partitions,
) -> Fact:
    """Return the fact of some hosts or jobs; one of a single name does not fall apart."""

    def edit(round_: Round) -> Round:
        return together(round_, names)

    apart = partitions if len(names) > 1 else None
    return Fact(stratum, kind, text, edit, about, tuple(names), together, apart)


def ended_jobs(names: Sequence[str]) -> Fact:
    """Return the fact that some jobs run: without it they have ended."""
    return group(Stratum.HELD, "jobs", "", names, Round.without_jobs, {}, lambda _: ())


@dataclass(frozen=True, eq=False)
class World:
    """A round in which only some facts hold.

    Parameters
    ----------
    base
        The round in which all of them do: besides one pending job only such as run.
    job
        Name of the pending job.
    removed
        The facts that do not hold, in the order of their edits: the least preferred first.
    """

    base: Round
    job: str
    removed: tuple[Fact, ...] = ()

    @cached_property
    def round(self) -> Round:
        """The round as a document."""
        names: dict[GroupEdit, list[str]] = {}
        for fact in self.removed:
            if fact.together is not None:
                names.setdefault(fact.together, []).extend(fact.names)
        round_ = self.base
        for together, all_names in names.items():
            round_ = together(round_, frozenset(all_names))
        for fact in self.removed:
            if fact.together is None:
                round_ = fact.edit(round_)
        return round_


def edit_job(name: str, change: Callable[[Job], Job]) -> Edit:
    """Return the edit that changes one job."""

    def edit(round_: Round) -> Round:
        jobs = tuple(change(job) if job.name == name else job for job in round_.jobs)
        return round_.model_copy(update={"jobs": jobs})

    return edit


def named(job: str, round_: Round) -> Job:
    """Return a job of a round by its name; those that wait mostly are the last ones."""
    return next(one for one in reversed(round_.jobs) if one.name == job)


def without_waiting(round_: Round, job: str, names: Collection[str] = ()) -> Round:
    """Return the round in which nobody waits but one job; `names` are left out as well."""
    others = {one.name for one in round_.jobs if one.running is None and one.name != job}
    return round_.without_jobs(others.union(names))
