"""`Names`: the names of the jobs of a trace, made when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from placewright.array_types import Ints

_PIECE = 1 << 16


class Names(Sequence[str]):
    """Names that are given, or else numbers, in some order; equal to a tuple of the same names.

    Parameters
    ----------
    given
        Names in the order of the file; None: each job is called by its number in that order.
    order
        Numbers of the jobs, int64 (jobs,).
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, given: Sequence[str] | None, order: Ints) -> None:
        self._given, self._order = given, order

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, job: int) -> str: ...
    @overload
    def __getitem__(self, job: slice) -> tuple[str, ...]: ...
    def __getitem__(self, job: int | slice) -> str | tuple[str, ...]:
        if not isinstance(job, slice):
            number = int(self._order[job])
            return str(number) if self._given is None else self._given[number]
        numbers = self._order[job].tolist()
        given = self._given
        return tuple(map(str, numbers) if given is None else (given[n] for n in numbers))

    def __iter__(self) -> Iterator[str]:
        for begin in range(0, len(self), _PIECE):
            yield from self[begin : begin + _PIECE]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Names | tuple):
            return NotImplemented
        return len(self) == len(other) and all(map(str.__eq__, self, other))
