"""Bookkeeping of a dump: what of it is in the round, what is left out and why, what is not said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from placewright.instances.documents.bookkeeping import Book, LeftOut, Unsaid
from placewright.instances.errors import InvalidInputError, printable

MAX_NAMES = 5
"""Names that a line shows of those it counts."""

MAX_REASONS = 100
"""Reasons that an annotation tells apart: those of the most entries."""

MAX_REASON = 200
ROOM = 2**17
"""Characters of names that an annotation may have beyond the first ones."""

MAX_LINE = 2_000
MAX_WRONG = 1000
"""Entries that cannot be read, beyond which a source is none of a cluster."""

NO_TIME = "not in the dump: when it was taken; the newest moment in it stands for that"
"""A note of a round whose time is a guess."""


@dataclass(slots=True)
class Bookkeeping:
    """Counts each entry of a source once, as taken or as left out for one reason.

    Attributes
    ----------
    taken : dict of str to int
        Entries that are in the round, by kind ("jobs", "nodes").
    left_out : dict of (str, str) to list of str
        Names of the entries that are not, by kind and reason.
    unsaid : dict of str to list of str
        What the source says of entries that are in the round, and a round cannot say; by what it
        is, with the names of the entries.
    fields : list of str
        A line for each kind about its fields: how many are read, which rules are told.
    notes : list of str
        Lines about the round as a whole, such as whose order its queue has.
    also : dict of str to tuple of str
        Other names of entries that are left out, by which people know them, too.
    why : dict of str to str
        More about why one is, or why a part of an entry is that itself is in the round.
    lenient : bool
        Entries that cannot be read are left out, as where a cluster is followed; else the first one
        is an error.
    """

    taken: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    left_out: defaultdict[tuple[str, str], list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )
    unsaid: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    fields: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lenient: bool = False
    also: dict[str, tuple[str, ...]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    _wrong: int = 0

    def refuse(self, error: InvalidInputError) -> None:
        """Raise an error of one entry, unless it is to be left out, which the caller does then."""
        self._wrong += 1
        if not self.lenient or self._wrong > MAX_WRONG:
            raise error

    def take(self, kind: str, number: int = 1) -> None:
        """Count entries that are in the round."""
        self.taken[kind] += number

    def leave(self, kind: str, reason: str, *names: str) -> None:
        """Count entries that are not in the round, with the reason why not."""
        self.left_out[kind, reason] += names

    def cannot_say(self, what: str, *names: str) -> None:
        """Note what a round cannot say of some entries."""
        self.unsaid[what] += names

    def total(self, kind: str) -> int:
        """Return the number of entries of a kind, in the round or not."""
        return self.taken[kind] + sum(
            len(names) for (of, _), names in self.left_out.items() if of == kind
        )

    def lines(self) -> list[str]:
        """Return a line for each kind, reason and thing that is not said, all printable."""
        kinds = dict.fromkeys((*self.taken, *(kind for kind, _ in self.left_out)))
        lines = [
            f"{kind}: {self.taken[kind]:,} of {self.total(kind):,} in the round" for kind in kinds
        ]
        for (kind, reason), names in sorted(self.left_out.items()):
            number = f"{len(names):,} {kind if len(names) != 1 else _one_of(kind)}"
            lines.append(f"left out: {number}: {reason}: {_some(names)}")
        for what, names in sorted(self.unsaid.items()):
            lines.append(f"not said by the round: {what}{': ' if names else ''}{_some(names)}")
        lines += [*self.fields, *self.notes]
        return [printable(line) for line in lines]

    def annotation(self) -> str:
        """Return the counts as JSON of one line, for the round.

        Of the names of entries that are left out all are there, of those with the rarest reasons
        first, as long as there is room. Beyond a hundred reasons the rest of a kind has the reason
        "other reasons".
        """
        kinds = dict.fromkeys((*self.taken, *(kind for kind, _ in self.left_out)))
        left_out = _most(self.left_out)
        for kind in kinds:
            rest = [n for k, n in self.left_out.items() if k[0] == kind and k not in left_out]
            if rest:
                left_out[kind, "other reasons"] = [name for names in rest for name in names]
        room = _Room()
        book = Book(
            taken={kind: self.taken[kind] for kind in kinds},
            left_out=[
                LeftOut(kind=key[0], reason=_short(key[1]), count=len(names), names=room.of(names))
                for key, names in _rarest(left_out)
            ],
            unsaid=[
                Unsaid(what=_short(what), count=len(names), names=room.of(names))
                for what, names in _rarest(_most(self.unsaid))
            ],
            fields=[printable(line)[:MAX_LINE] for line in self.fields],
            also={n: kept[1:] for n, more in self.also.items() if (kept := room.of([n, *more], 0))},
            why={n: kept[1] for n, text in self.why.items() if (kept := room.of([n, text], 0))},
        )
        book.left_out.sort(key=lambda one: (one.kind, one.reason))
        book.unsaid.sort(key=lambda one: one.what)
        return book.model_dump_json()


_Key = TypeVar("_Key", bound=Hashable)


def _most(lists: Mapping[_Key, list[str]]) -> dict[_Key, list[str]]:
    """Return the longest of some lists."""
    return dict(sorted(lists.items(), key=lambda item: -len(item[1]))[:MAX_REASONS])


def _rarest(lists: Mapping[_Key, list[str]]) -> list[tuple[_Key, list[str]]]:
    return sorted(lists.items(), key=lambda item: len(item[1]))


@dataclass(slots=True)
class _Room:
    """How many characters of names an annotation may still have."""

    left: int = ROOM

    def of(self, names: Sequence[str], least: int = MAX_NAMES) -> list[str]:
        """Return all names if there is room for them, else the first few."""
        shown = [_short(name) for name in names]
        self.left -= sum(map(len, shown[least:]))
        if self.left >= 0:
            return shown
        self.left = 0
        return shown[:least]


def _short(text: str) -> str:
    return printable(text)[:MAX_REASON]


def _some(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    shown = ", ".join(names[:MAX_NAMES])
    more = len(names) - MAX_NAMES
    return shown if more <= 0 else f"{shown} and {more:,} more"


def _one_of(kind: str) -> str:
    """Return what one of a kind is called: a queue of queues, a class of classes."""
    for many, one in (("classes", "class"), ("topologies", "topology")):
        if many in kind:
            return kind.replace(many, one)
    return kind.removesuffix("s")
