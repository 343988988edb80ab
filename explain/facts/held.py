"""What is held now: the jobs that run, and what a waiting job says of itself for now.

All running jobs are one fact, which falls apart by tenant or cap, precedence and job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.explain.facts.fact import (
    Fact,
    Holds,
    Situation,
    Stratum,
    Takes,
    Verb,
    able_hosts,
    edit_job,
    group,
    named,
)
from placewright.formulations.gang.problem.limits import borrowing_options
from placewright.instances.derived.phrases import count, several, span
from placewright.instances.derived.source_words import words_of
from placewright.instances.derived.waiting import eligible
from placewright.instances.documents.job import Job
from placewright.instances.documents.quantities import amount_text
from placewright.instances.documents.round import Round
from placewright.instances.documents.source_keys import HELD

Relation = Literal["pinned", "higher", "same", "lower"]
RELATIONS: tuple[Relation, ...] = ("pinned", "higher", "same", "lower")

Precedence: TypeAlias = tuple[bool, bool, int]
"""Of a job with an option: guaranteed cells, entitled, its priority."""


def waits_for(round_: Round, name: str) -> Iterator[Fact]:
    """Yield what a pending job says of itself for now: it is held, or starts later."""
    job = named(name, round_)
    if job.held:
        edit = edit_job(name, lambda one: one.model_copy(update={"held": False}))
        why = job.annotations.get(HELD)
        text = f"the job is held: {why}" if why else "the job is held"
        yield Fact(Stratum.HELD, "held", text, edit)
    if not eligible(job.model_copy(update={"held": False}), round_.now):
        edit = edit_job(name, lambda one: one.model_copy(update={"not_before": None}))
        at, words = job.not_before or 0, words_of(round_)
        when = words.at(at) if words.epoch else f"in {span(at - round_.now)}"
        text = f"the job starts no earlier than {when}"
        about = {"at": job.not_before}
        yield Fact(Stratum.HELD, "not_before", text, edit, about)


class Within(NamedTuple):
    """Whether jobs count in a tenant's quota or a cap: `kind` is `tenant` or `cap`."""

    kind: str
    name: str
    inside: bool

    @property
    def text(self) -> str:
        """What is said of such jobs."""
        if self.kind == "cap":
            return f" {'in' if self.inside else 'outside of'} cap {self.name}"
        return f" of {self.name}" if self.inside else f" of others than {self.name}"

    @property
    def about(self) -> tuple[str, str]:
        """The same as a field of a document."""
        return self.kind if self.inside else f"other_than_{self.kind}", self.name

    def holds(self, job: Job) -> bool:
        """Whether a job is one of them."""
        counts = job.tenant == self.name if self.kind == "tenant" else self.name in job.caps
        return counts == self.inside


Said: TypeAlias = Callable[[Ints], Verb]
"""What some jobs do, said of one and of several."""


class Holders:
    """The jobs that hold something in a situation, beside one that waits there.

    Parameters
    ----------
    situation
        Where the job waits.
    round_
        The base round: of those that wait only this job.
    name
        Of the job.
    holds, takes
        Who holds something, and what each does by the plan.
    """

    def __init__(
        self, situation: Situation, round_: Round, name: str, holds: Holds, takes: Takes
    ) -> None:
        self._round, self._waits = round_, named(name, round_)
        self._holding = holding = situation.holding(holds, takes)
        able = able_hosts(situation.cluster, round_, self._waits)
        self._there, self._cores_there, self._is_there = holding.on(able)

    def facts(self, verb: Verb) -> list[Fact]:
        """Return what they hold as a fact, and apart from it what they hold by a plan alone.

        `verb` says what those do that held it before.
        """
        holding = self._holding
        others = np.arange(len(holding.jobs)) != holding.index.get(self._waits.name)

        def taken(some: Ints) -> Verb:
            kinds = dict.fromkeys(one for j in some if (one := holding.verbs[j]) is not None)
            ones, many = zip(*kinds, strict=True)
            return " or ".join(ones), " or ".join(many)

        parts: list[tuple[Stratum, Bools, Said]] = [
            (Stratum.HELD, others & ~holding.taken, lambda _: verb),
            (Stratum.TAKEN, others & holding.taken, taken),
        ]
        return [
            self._group(stratum, np.flatnonzero(mine), said, None, None)
            for stratum, mine, said in parts
            if mine.any()
        ]

    def _group(
        self,
        stratum: Stratum,
        members: Ints,
        said: Said,
        within: Within | None,
        relation: Relation | None,
    ) -> Fact:
        """Return a fact of some jobs: in one account or not in it, and of one relation."""
        jobs = [self._holding.jobs[j] for j in members.tolist()]
        about: dict[str, object] = {"jobs": len(jobs)}
        if len(jobs) == 1:
            about["job"] = jobs[0].name
        if within is not None:
            kind, name = within.about
            about[kind] = name
        if relation is not None:
            about["relation"] = relation
        counted = within is not None and within.inside
        shown = members if counted else members[self._is_there[members]]
        held, cores = self._held(counted)
        amounts = int(held[shown].sum()), int(cores[shown].sum())
        about["gpu"] = amounts[0]

        def partitions(conflict: Sequence[Fact]) -> Iterable[Sequence[Fact]]:
            account = None if within is not None else _account_in(conflict)
            if account is not None:
                inside, outside = (Within(*account, inside=inside) for inside in (True, False))
                own = np.array([inside.holds(job) for job in jobs], dtype=np.bool_)
                yield [
                    self._group(stratum, members[part], said, mine, relation)
                    for part, mine in ((own, inside), (~own, outside))
                    if part.any()
                ]
            if relation is None:
                relations = [self.relation(job) for job in jobs]
                yield [
                    self._group(stratum, members[part], said, within, one)
                    for one in RELATIONS
                    if (part := np.array([r == one for r in relations], dtype=np.bool_)).any()
                ]
            yield [
                self._group(stratum, members[k : k + 1], said, within, self.relation(job))
                for k, job in enumerate(jobs)
            ]

        text = self._text(members, shown, _amount(*amounts), said(members), within, relation)
        names = [job.name for job in jobs]
        return group(stratum, "jobs", text, names, Round.without_jobs, about, partitions)

    def _text(
        self,
        members: Ints,
        shown: Ints,
        amount: str,
        verb: Verb,
        within: Within | None,
        relation: Relation | None,
    ) -> str:
        """Return the sentence of some jobs; `shown` are those that it counts, the largest named."""
        if len(members) == 1:
            (j,) = members.tolist()
            one = self._holding.jobs[j]
            held = [_amount(int(self._holding.milli_gpu[j]), int(self._holding.milli_cpu[j]))]
            lies = self.relation(one)
            held.append("pinned" if lies == "pinned" else f"of {_PRIORITY[lies]}")
            if one.tenant is not None:
                held.append(f"tenant {one.tenant}")
            return f"job {one.name} {verb[0]} ({', '.join(held)})"
        jobs = count(len(shown), "pinned job" if relation == "pinned" else "job")
        if within is not None:
            jobs += within.text
        counted = within is not None and within.inside
        if relation is not None and relation != "pinned":
            jobs += f" of {_PRIORITY[relation]}"
        where = "" if counted else " on hosts that could hold a task"
        does = verb[len(shown) != 1]
        largest = shown[np.argsort(-self._held(counted)[0][shown], kind="stable")].tolist()
        who = f": {several([self._holding.jobs[j].name for j in largest])}" if largest else ""
        return f"{jobs} {does}{who} ({amount}{where})"

    def _held(self, everywhere: bool) -> tuple[Ints, Ints]:
        """Return milli-GPU and milli-cores of each job, or those on hosts that matter."""
        holding = self._holding
        found = self._there, self._cores_there
        return (holding.milli_gpu, holding.milli_cpu) if everywhere else found

    def relation(self, job: Job) -> Relation:
        """Return how the precedence of a job that holds something lies to that of who waits."""
        if job.running is not None and job.running.pinned:
            return "pinned"
        theirs = self._precedence(job, 0 if job.running is None else job.running.option)
        return "higher" if theirs > self._mine else "same" if theirs == self._mine else "lower"

    @cached_property
    def _mine(self) -> Precedence:
        """The precedence of the job that waits, with its best option."""
        waits = self._waits
        return max(self._precedence(waits, option) for option in range(len(waits.options)))

    def _precedence(self, job: Job, option: int) -> Precedence:
        guaranteed = job.tenant in self._owners and not job.opportunistic
        return guaranteed, option not in self._borrowed.get(job.name, ()), job.priority

    @cached_property
    def _owners(self) -> set[str]:
        """The tenants that own cells."""
        return {tenant.name for tenant in self._round.tenants if tenant.cells}

    @cached_property
    def _borrowed(self) -> dict[str, tuple[int, ...]]:
        """By name of a job the options with which it borrows."""
        borrowed = borrowing_options(self._round)
        return {self._round.jobs[j].name: options for j, options in borrowed.items()}


def _amount(milli_gpu: int, milli_cpu: int) -> str:
    """Say how many GPUs jobs hold; of jobs without any, how many cores."""
    cores = milli_cpu and not milli_gpu
    return amount_text("cpu", milli_cpu) if cores else amount_text("gpu", milli_gpu)


def _account_in(conflict: Sequence[Fact]) -> tuple[str, str] | None:
    """Return the tenant or cap whose limit is part of a conflict, a tenant before a cap."""
    limits = sorted((one for one in conflict if one.kind in ("quota", "cap")), key=_is_cap)
    kind = {"quota": "tenant", "cap": "cap"}
    return next(((kind[one.kind], one.about[kind[one.kind]]) for one in limits), None)


def _is_cap(fact: Fact) -> bool:
    return fact.kind == "cap"


_PRIORITY: Mapping[Relation, str] = {
    "higher": "higher priority",
    "same": "the same priority",
    "lower": "lower priority",
}
