"""`Cells`: a column of text in little memory, whose numbers are read without a loop over rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import overload

import numpy as np
import numpy.typing as npt

from placewright.array_types import Ints

ROWS = 1 << 16
"""Rows of a piece; the last one may have fewer."""

MAX_DIGITS = 15
"""Of whole numbers, so that none overflows."""


class Cells(Sequence[str]):
    """A column of a table: the text of some rows at a time in one string, and where each ends."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._ends: list[npt.NDArray[np.int32]] = []
        self._count = 0

    def extend(self, cells: Sequence[str]) -> None:
        """Append a piece: `ROWS` cells, or fewer where it is the last."""
        lengths = np.fromiter(map(len, cells), dtype=np.int32, count=len(cells))
        self._texts.append("".join(cells))
        self._ends.append(np.cumsum(lengths, dtype=np.int32))
        self._count += len(cells)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [self[one] for one in range(*row.indices(self._count))]
        row = range(self._count)[row]
        piece, place = divmod(row, ROWS)
        ends = self._ends[piece]
        return self._texts[piece][ends[place - 1] if place else 0 : ends[place]]

    def __iter__(self) -> Iterator[str]:
        for piece in range(len(self._texts)):
            yield from self.piece(piece)

    def piece(self, number: int) -> list[str]:
        """Return the cells of a piece."""
        text, ends = self._texts[number], self._ends[number].tolist()
        return [text[begin:end] for begin, end in pairwise((0, *ends))]

    def whole_numbers(self) -> Iterator[tuple[int, Ints | None]]:
        """Yield the first row of each piece, and its numbers if all its cells are digits."""
        for number, (text, ends) in enumerate(zip(self._texts, self._ends, strict=True)):
            yield number * ROWS, _numbers(text, ends)


def _numbers(text: str, ends: npt.NDArray[np.int32]) -> Ints | None:
    lengths = np.diff(ends, prepend=0)
    if not (text.isascii() and text.isdigit()):
        return None
    if int(lengths.min()) == 0 or int(lengths.max()) > MAX_DIGITS:
        return None
    digits = np.frombuffer(text.encode("ascii"), dtype=np.uint8) - np.uint8(ord("0"))
    power = np.repeat(ends, lengths) - np.arange(1, len(digits) + 1)
    values: Ints = np.add.reduceat(digits * 10 ** power.astype(np.int64), ends - lengths)
    return values
