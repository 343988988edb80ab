"""A change: what somebody could do for a waiting job, the least amount that suffices, its cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias

from placewright.explain.conflict import minimal_subset, up_to
from placewright.instances.documents.edits import Edit

# Who makes a change, and what it costs: what is easiest to do comes first.


class Who(StrEnum):
    """Who makes a change."""

    USER = "user"
    """Whose job it is."""
    TIME = "time"
    """Nobody: who waits."""
    ADMIN = "admin"
    """Who sets quotas and reservations."""
    OPERATOR = "operator"
    """Who repairs and buys hosts."""
    OTHERS = "others"
    """The users of jobs that give way."""


PER_CHANGE = 30
"""Of each change beside its own cost: corrections of fewer changes come first."""


class Cost(NamedTuple):
    """Who makes a change of some kind, and its cost: a whole number, at least 1."""

    who: Who
    cost: int

    @property
    def price(self) -> int:
        """What it adds to the cost of a correction."""
        return self.cost + PER_CHANGE


COSTS: Mapping[str, Cost] = {
    "models": Cost(Who.USER, 2),
    "any_host": Cost(Who.USER, 2),
    "level": Cost(Who.USER, 2),
    "remote": Cost(Who.USER, 2),
    "region": Cost(Who.USER, 2),
    "resume": Cost(Who.USER, 2),
    "num_hosts": Cost(Who.USER, 2),
    "slices": Cost(Who.USER, 3),
    "apart": Cost(Who.USER, 3),
    "gpu_links": Cost(Who.USER, 3),
    "label": Cost(Who.USER, 3),
    "cpu": Cost(Who.USER, 3),
    "memory": Cost(Who.USER, 3),
    "due": Cost(Who.USER, 3),
    "runtime": Cost(Who.USER, 3),
    "slowdown": Cost(Who.USER, 3),
    "load": Cost(Who.USER, 3),
    "conflicts": Cost(Who.USER, 3),
    "tasks": Cost(Who.USER, 4),
    "gpu": Cost(Who.USER, 4),
    "time": Cost(Who.TIME, 4),
    "ended": Cost(Who.TIME, 5),
    "quota": Cost(Who.ADMIN, 5),
    "cap": Cost(Who.ADMIN, 5),
    "pool": Cost(Who.ADMIN, 5),
    "release": Cost(Who.ADMIN, 5),
    "keep_using": Cost(Who.ADMIN, 5),
    "replicate": Cost(Who.ADMIN, 5),
    "repair": Cost(Who.OPERATOR, 6),
    "no_outage": Cost(Who.OPERATOR, 6),
    "preempt": Cost(Who.OTHERS, 7),
    "give_way": Cost(Who.OTHERS, 7),
    "hosts": Cost(Who.OPERATOR, 9),
}
"""The default costs, by kind of change; kinds that are left out of a table are not proposed."""


# The least amount of a change that suffices, by bisection.


class Amount(NamedTuple):
    """An amount that suffices, and the largest one known not to: no less suffices if it is next."""

    least: int
    too_little: int

    @property
    def proven(self) -> bool:
        """Whether no smaller whole amount suffices."""
        return self.least - self.too_little == 1


def least_amount(too_little: int, enough: int, suffices: Callable[[int], bool | None]) -> Amount:
    """Return the least amount above `too_little` that suffices, up to `enough`, which does.

    Parameters
    ----------
    too_little, enough
        Amounts of which it is known that the first does not suffice, and the second does.
    suffices
        Monotone: an amount suffices if a smaller one does. None if that is not known; such an
        amount is not taken, and then the answer may not be proven to be the least.
    """
    known, low = too_little, too_little
    while enough - low > 1:
        middle = (low + enough) // 2
        answer = suffices(middle)
        if answer:
            enough = middle
        else:
            low = middle
            known = middle if answer is False else known
    return Amount(enough, known)


# A change: what somebody could do for a waiting job, and the least amount that lets it start.


Suffices: TypeAlias = Callable[[Sequence[Edit]], bool | None]
"""Whether the job starts once a round is edited so; None if that is not known."""


Failed: TypeAlias = Callable[[str, Exception], None]
"""Is told of a change that cannot be tried, by what it is, and why."""

MAX_NEEDED = 32
"""Hosts or jobs of one change, beyond which it is of no use to people."""


@dataclass(frozen=True, slots=True)
class Form:
    """A change of some amount.

    Attributes
    ----------
    text
        What to do, as a phrase: `ask 16 instead of 17 tasks`.
    edits
        The same as edits of the round.
    least
        Whether no smaller amount is known to suffice, because none does.
    left
        The part that is left of what the job asks; 1 where nothing is given up.
    """

    text: str
    edits: tuple[Edit, ...]
    least: bool = True
    left: float = 1.0


class Change(Protocol):
    """One change of a kind, from its least amount to its largest."""

    @property
    def kind(self) -> str:
        """Key of its cost."""
        ...

    @property
    def strongest(self) -> Form:
        """The change in its largest amount."""
        ...

    def least(self, suffices: Suffices) -> Form | None:
        """Return the change in the least amount that suffices; None if that is too much to tell."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """A change without amounts: it is made or not."""

    kind: str
    strongest: Form

    def least(self, _: Suffices) -> Form:
        """Return the change."""
        return self.strongest


@dataclass(frozen=True, slots=True)
class Amounts:
    """A change by an amount: from 1 to `most`, each suffices if a smaller one does.

    `text` and `edits` are those of an amount; `left` is the part that is then left of what the job
    asks. If not `monotone`, only the largest does wherever another does, and all are tried.
    """

    kind: str
    most: int
    text: Callable[[int], str]
    edits: Callable[[int], tuple[Edit, ...]]
    left: Callable[[int], float] = lambda _: 1.0
    monotone: bool = True

    @property
    def strongest(self) -> Form:
        """The change in its largest amount."""
        return self._form(self.most)

    def least(self, suffices: Suffices) -> Form:
        """Return the change in its least amount, by bisection."""
        if not self.monotone:
            answers = [suffices(self.edits(amount)) for amount in range(1, self.most)]
            least = answers.index(True) if True in answers else len(answers)
            return self._form(least + 1, least=None not in answers[:least])
        found = least_amount(0, self.most, lambda amount: suffices(self.edits(amount)))
        return self._form(found.least, least=found.proven)

    def _form(self, amount: int, *, least: bool = True) -> Form:
        return Form(self.text(amount), self.edits(amount), least, self.left(amount))


@dataclass(frozen=True, slots=True)
class Names:
    """A change of hosts or jobs: of as few of these names as suffice, the first ones preferred.

    The least set is minimal: it does not suffice without any one of its names.
    """

    kind: str
    names: tuple[str, ...]
    text: Callable[[Sequence[str]], str]
    edits: Callable[[Sequence[str]], tuple[Edit, ...]]

    @property
    def strongest(self) -> Form:
        """The change of all names."""
        return Form(self.text(self.names), self.edits(self.names))

    def least(self, suffices: Suffices) -> Form | None:
        """Return the change of a minimal set of names, by QuickXplain; None if that is large."""
        known = True

        def enough(names: Sequence[str]) -> bool:
            nonlocal known
            answer = suffices(self.edits(names) if names else ())
            known = known and answer is not None
            return bool(answer)

        found = minimal_subset(self.names, enough, accepts=up_to(MAX_NEEDED))
        return None if found is None else Form(self.text(found), self.edits(found), known)


def each(sources: Sequence[Iterator[Change]], failed: Failed | None) -> Iterator[Change]:
    """Yield the changes of all sources; one that fails takes no other with it if that is told."""
    for source in sources:
        try:
            yield from source
        except Exception as error:
            if failed is None:
                raise
            failed("some changes", error)


def edit_of(**change: Any) -> Edit:
    """Return one edit: `edit_of(end=["old"])`."""
    return Edit.model_validate(change)
