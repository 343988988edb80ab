"""Cutting stock for `contention` (Gilmore and Gomory 1961): gangs are cut, domains are filled.

A *piece* is the tasks of a gang in one domain, with the rate that they send over its link: none if
the gang is whole there. An integer program chooses how often gangs of a kind are cut into the same
pieces, and how often domains of a kind are filled by the same *pattern* of pieces that fits.
Gangs that differ in nothing but the rate are alike where they are whole, so that a level of a large
cluster has few patterns. Tasks of one size, domains of one level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from placewright.array_types import Ints
from placewright.formulations.gang import parameters
from placewright.formulations.session import Session
from placewright.solver import Model, Outcome

MOST_PIECES = 64
"""Of a gang or a domain, as the enumeration goes as deep."""


class Piece(NamedTuple):
    """Tasks of a gang in one domain, and what they send over its link, in Mbit/s."""

    tasks: int
    rate: int


Pieces: TypeAlias = tuple[Piece, ...]
"""Of a gang or of a domain, in falling order."""


class DomainKind(NamedTuple):
    """How many tasks a domain holds, and the Mbit/s that its link has left for them.

    The latter is less than 0 if others overload it.
    """

    room: int
    spare: int


class GangKind(NamedTuple):
    """Tasks of a gang in the domains, and whether others are elsewhere.

    `rate` is what it sends, `step` what each domain beyond the first adds to `spread`.
    """

    tasks: int
    outside: bool
    rate: int
    step: int


Kind = TypeVar("Kind", GangKind, DomainKind)
Cut: TypeAlias = tuple[GangKind, Pieces]
Pattern: TypeAlias = tuple[DomainKind, Pieces]


class LinkPatterns:
    """The integer program: least Mbit/s beyond what the links of some domains have left.

    All tasks of the `gangs`, a number of each kind, are placed in the `domains`; they add no more
    than `most_spread` to `spread`, None: anything.
    """

    def __init__(
        self, gangs: Counter[GangKind], domains: Counter[DomainKind], most_spread: int | None
    ) -> None:
        self._gangs, self._domains, self._most_spread = gangs, domains, most_spread
        self.cuts: list[Cut] = []
        self.patterns: list[Pattern] = []

    def enumerate_columns(self) -> bool:
        """List all cuts that the spread allows, and all patterns; False if none or too many."""
        left = parameters.PARAMETERS.models.max_link_pieces
        largest = max(kind.room for kind in self._domains)
        if not largest or not self._gangs:
            return False
        fewest = {kind: -(-kind.tasks // largest) for kind in self._gangs}
        if max(fewest.values()) > MOST_PIECES:
            return False
        slack = -1
        if self._most_spread is not None:
            least = sum(n * k.step * (fewest[k] - 1) for k, n in self._gangs.items())
            slack = self._most_spread - least
            if slack < 0:
                return False
        cuts, patterns = dict[Cut, None](), dict[Pattern, None]()
        for kind in self._gangs:
            bounded = slack >= 0 and kind.step
            parts = fewest[kind] + slack // kind.step if bounded else kind.tasks
            for sizes in _partitions(kind.tasks, largest, parts):
                cuts[kind, cut_of(kind, sizes)] = None
                left -= len(sizes)
                if left < 0:
                    return False
        pieces = sorted({piece for _, cut in cuts for piece in cut}, reverse=True)
        if largest > MOST_PIECES * pieces[-1].tasks:
            return False
        for of in self._domains:
            for pattern in _patterns(pieces, of.room):
                patterns[of, pattern] = None
                left -= len(pattern)
                if left < 0:
                    return False
        self.cuts, self.patterns = list(cuts), list(patterns)
        return True

    def solve(
        self, session: Session, now: tuple[Mapping[Cut, int], Mapping[Pattern, int]] | None = None
    ) -> Outcome | None:
        """Solve it, from how often each cut and each pattern is there `now`.

        The values of the outcome are how often each cut and each pattern is chosen, in their order.
        """
        pieces = {p: i for i, p in enumerate(sorted({p for _, cut in self.cuts for p in cut}))}
        model = Model()
        z = model.variables("cut", len(self.cuts))
        y = model.variables("pattern", len(self.patterns))
        _choose(model, "gangs", z, [kind for kind, _ in self.cuts], self._gangs)
        _choose(model, "domains", y, [kind for kind, _ in self.patterns], self._domains)
        rows = model.rows("pieces", len(pieces), lower=0, upper=0)
        for columns, each, sign in (
            (z, [cut for _, cut in self.cuts], 1.0),
            (y, [pattern for _, pattern in self.patterns], -1.0),
        ):
            entries = [(pieces[p], i) for i, ps in enumerate(each) for p in ps]
            piece, column = np.array(entries, dtype=np.int64).reshape(-1, 2).T
            model.add(rows[piece], columns[column], sign)
        if self._most_spread is not None:
            steps = np.array([kind.step * (len(cut) - 1) for kind, cut in self.cuts])
            unit = max(1, gcd(*steps.tolist()))
            model.row("spread", z, steps // unit, upper=self._most_spread // unit)
        beyond = [
            max(0, sum(p.rate for p in pattern) - kind.spare) - max(0, -kind.spare)
            for kind, pattern in self.patterns
        ]
        model.term("beyond", y, beyond, sense="min")
        start = None
        if now is not None:
            cut, filled = now
            times = [cut.get(key, 0) for key in self.cuts]
            times += [filled.get(key, 0) for key in self.patterns]
            start = np.array(times, dtype=np.float64)
        tuning = parameters.PARAMETERS.models
        return session.optimise(
            model.arrays("beyond"),
            share=tuning.link_pattern_share,
            most=tuning.max_link_pattern_seconds,
            start=start,
        )


def piece_of(kind: GangKind, tasks: int) -> Piece:
    """Return the piece that some tasks of a gang are."""
    return Piece(tasks, kind.rate if kind.outside or tasks < kind.tasks else 0)


def cut_of(kind: GangKind, sizes: Iterable[int]) -> Pieces:
    """Return the pieces of a gang with so many tasks in domains."""
    return tuple(sorted((piece_of(kind, tasks) for tasks in sizes), reverse=True))


def _choose(
    model: Model, name: str, columns: Ints, of: Sequence[Kind], number: Counter[Kind]
) -> None:
    """Require that the columns of each kind are chosen as often as there are such."""
    counts = np.array(list(number.values()))
    rows = model.rows(name, len(counts), lower=counts, upper=counts)
    at = {kind: i for i, kind in enumerate(number)}
    model.add(rows[[at[kind] for kind in of]], columns, 1.0)


def _partitions(total: int, largest: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write a number as at most so many falling numbers, none too large."""
    if total == 0:
        yield ()
    elif total <= parts * largest:
        for first in range(min(total, largest), 0, -1):
            for rest in _partitions(total - first, first, parts - 1):
                yield first, *rest


def _patterns(pieces: Sequence[Piece], room: int) -> Iterator[Pieces]:
    """Yield every multiset of pieces that fit into a domain."""
    yield ()
    for i, piece in enumerate(pieces):
        if piece.tasks <= room:
            for rest in _patterns(pieces[i:], room - piece.tasks):
                yield piece, *rest
