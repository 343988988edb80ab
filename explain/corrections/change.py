"""A change: what somebody could do for a waiting job, and the least amount that lets it start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from placewright.explain.corrections.least_amount import least_amount
from placewright.explain.minimal_subset import minimal_subset, up_to
from placewright.instances.documents.edits import Edit

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
    asks.
    """

    kind: str
    most: int
    text: Callable[[int], str]
    edits: Callable[[int], tuple[Edit, ...]]
    left: Callable[[int], float] = lambda _: 1.0

    @property
    def strongest(self) -> Form:
        """The change in its largest amount."""
        return self._form(self.most)

    def least(self, suffices: Suffices) -> Form:
        """Return the change in its least amount, by bisection."""
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
