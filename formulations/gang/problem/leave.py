"""Leave to preempt: which running jobs a job may preempt, by precedence and the rules of a round.

Running jobs are told apart by **kind**: tenant, precedence and caps. What a job may preempt is a
set of kinds; sets have numbers, by which shapes differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placewright.array_types import Bools, Ints
from placewright.formulations.gang.problem.entitlement import BorrowingOptions
from placewright.formulations.gang.problem.jobs import RunningJob
from placewright.instances.documents.job import Job
from placewright.instances.documents.policy import Preemption
from placewright.instances.documents.round import Round

NOBODY = 0
"""The number of the empty set of kinds."""


class Kind(NamedTuple):
    """What rules look at in a job."""

    tenant: str | None
    entitled: bool
    priority: int
    caps: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Over:
    """Whether tasks may preempt running jobs, by their shapes.

    Attributes
    ----------
    rank, leave : int64 (shapes,)
        Rank, and number of the set of kinds that a shape may preempt.
    sets : bool (sets, kinds) or None
        Which kinds are in which sets; None if precedence alone decides.
    """

    rank: Ints
    leave: Ints
    sets: Bools | None

    def __call__(self, shape: int | Ints, victim: RunningJob) -> Bools:
        """Return whether tasks of a shape, or of each of several, may preempt a running job."""
        above: Bools = np.asarray(self.rank[shape] > victim.level)
        return above if self.sets is None else above & self.sets[self.leave[shape], victim.kind]

    def covers(self, kind: int, other: int) -> bool:
        """Whether all that may preempt a kind may preempt another kind, too."""
        return self.sets is None or not (self.sets[:, kind] & ~self.sets[:, other]).any()


class Leave:
    """The sets of kinds that jobs may preempt, numbered as they are met.

    Attributes
    ----------
    ruled : bool
        Whether the round says more than precedence does. If not, every number is `NOBODY`.
    key : tuple
        Equal for rounds whose jobs have the same sets.
    """

    def __init__(self, round_: Round, borrowed: BorrowingOptions) -> None:
        self._rules = {t.name: t.preemption for t in round_.tenants if t.preemption is not None}
        self.ruled = bool(self._rules) or any(job.preempts is not None for job in round_.jobs)
        kinds = dict.fromkeys(
            self._kind(job, i not in borrowed)
            for i, job in enumerate(round_.jobs if self.ruled else ())
            if job.running is not None and not job.running.pinned
        )
        self._kinds = {kind: number for number, kind in enumerate(kinds)}
        self._sets: dict[tuple[bool, ...], int] = {(False,) * len(kinds): NOBODY}
        self._known: dict[tuple[Kind, frozenset[str] | None], int] = {}
        self.key = (self.ruled, tuple(sorted(self._rules.items())), tuple(kinds))

    def number(self, job: Job, *, entitled: bool) -> int:
        """Return the number of the set of kinds that a job may preempt."""
        if not self.ruled:
            return NOBODY
        named = None if job.preempts is None else frozenset(job.preempts)
        key = Kind(job.tenant, entitled, job.priority), named
        if key not in self._known:
            found = tuple(self._allows(*key, kind) for kind in self._kinds)
            self._known[key] = self._sets.setdefault(found, len(self._sets))
        return self._known[key]

    def kind(self, job: Job, *, entitled: bool) -> int:
        """Return the number of the kind of a running job that may move."""
        return self._kinds[self._kind(job, entitled)] if self.ruled else 0

    def has(self, number: int, kind: int) -> bool:
        """Whether a kind is in the set of a number."""
        return list(self._sets)[number][kind]

    def matrix(self) -> Bools | None:
        """Return which kinds are in which sets, bool (sets, kinds); None if precedence decides."""
        return np.array(list(self._sets), dtype=np.bool_) if self.ruled else None

    def _kind(self, job: Job, entitled: bool) -> Kind:
        return Kind(job.tenant, entitled, job.priority, frozenset(job.caps))

    def _allows(self, mine: Kind, named: frozenset[str] | None, theirs: Kind) -> bool:
        if (mine.entitled, mine.priority) <= (theirs.entitled, theirs.priority):
            return False
        if named is not None and named.isdisjoint(theirs.caps):
            return False
        rule = self._rules.get(mine.tenant or "")
        if rule is None:
            return True
        lower = theirs.priority < mine.priority
        if mine.tenant == theirs.tenant:
            return lower and rule.within == "lower"
        if theirs.entitled or not _one_cohort(rule, self._rules.get(theirs.tenant or "")):
            return False
        if mine.entitled:
            return rule.reclaim == "any" or (lower and rule.reclaim == "lower")
        within = rule.borrow_up_to is None or theirs.priority <= rule.borrow_up_to
        return lower and within and rule.borrow == "lower"


def _one_cohort(rule: Preemption, other: Preemption | None) -> bool:
    return other is not None and rule.cohort is not None and rule.cohort == other.cohort
