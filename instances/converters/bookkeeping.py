"""Bookkeeping of a dump: what of it is in the round, what is left out and why, what is not said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from placewright.instances.errors import printable

MAX_NAMES = 5
"""Names that a line shows of those it counts."""


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
    """

    taken: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    left_out: defaultdict[tuple[str, str], list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )
    unsaid: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

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
            number = f"{len(names):,} {kind if len(names) != 1 else kind.removesuffix('s')}"
            lines.append(f"left out: {number}: {reason}: {_some(names)}")
        for what, names in sorted(self.unsaid.items()):
            lines.append(f"not said by the round: {what}{': ' if names else ''}{_some(names)}")
        return [printable(line) for line in lines]


def _some(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    shown = ", ".join(names[:MAX_NAMES])
    more = len(names) - MAX_NAMES
    return shown if more <= 0 else f"{shown} and {more:,} more"
