"""CSV tables with a header: read in pieces, checked column by column, each error with its line."""

from __future__ import annotations

import csv
import io
import os
import re
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import overload

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from placewright.array_types import Ints
from placewright.instances.documents.base import Name
from placewright.instances.errors import InvalidInputError, value_text
from placewright.instances.io import unpacked

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


# CSV tables with a header: read in pieces, checked column by column, each error with its line.

MAX_BYTES = 256 * 1024**2
"""Of a file, unpacked."""

MAX_LINE = 16 * 1024**2
"""Bytes of a line."""

_DIGITS = re.compile(r"[0-9]{1,15}")
_NAME: TypeAdapter[str] = TypeAdapter(Name)


@dataclass(frozen=True, slots=True)
class Table:
    """A table by column; `lines[i]` is the line of the file on which row i ends."""

    file: str
    columns: Mapping[str, Sequence[str]]
    lines: Sequence[int]

    def error(self, row: int, column: str, expected: str) -> InvalidInputError:
        """Return the error of one cell."""
        value = value_text(self.columns[column][row])
        return _unusable(self.file, f"line {self.lines[row]}, column {column}: {value}: {expected}")

    def has(self, column: str) -> bool:
        """Say whether the header names this column."""
        return column in self.columns

    def require(self, *columns: str) -> None:
        """Raise InvalidInputError for the first of these columns that the header lacks."""
        for column in columns:
            if column not in self.columns:
                header = value_text(",".join(self.columns))
                raise _unusable(self.file, f"line 1: {header}: expected a column {column}")

    def integers(
        self, column: str, maximum: int, *, blank: int | None = None
    ) -> npt.NDArray[np.int64]:
        """Return a column of integers from 0 to `maximum`; `blank` stands for an empty cell."""

        def read(cell: str) -> int:
            return int(cell) if _DIGITS.fullmatch(cell) else -1

        expected = f"expected an integer from 0 to {maximum}"
        return self._numbers(column, maximum, blank, 1, read, expected)

    def decimals(
        self, column: str, places: int, maximum: int, *, blank: int | None = None
    ) -> npt.NDArray[np.int64]:
        """Return a column of decimals from 0 to `maximum` in units of 10^-places, exactly."""
        pattern = re.compile(rf"([0-9]{{1,15}})(?:\.([0-9]{{1,{places}}}))?")

        def read(cell: str) -> int:
            match = pattern.fullmatch(cell)
            return int(match[1] + (match[2] or "").ljust(places, "0")) if match else -1

        expected = f"expected a number from 0 to {maximum} with at most {places} decimals"
        return self._numbers(column, maximum, blank, 10**places, read, expected)

    def _numbers(
        self,
        column: str,
        maximum: int,
        blank: int | None,
        unit: int,
        read: Callable[[str], int],
        expected: str,
    ) -> npt.NDArray[np.int64]:
        """Return a column in units, -1 being what `read` returns for a cell that is no number."""
        cells = self.columns[column]
        out = np.empty(len(self.lines), dtype=np.int64)
        pieces = cells.whole_numbers() if isinstance(cells, Cells) else iter([(0, None)])
        for begin, numbers in pieces:
            if numbers is not None and int(numbers.max()) <= maximum:
                out[begin : begin + len(numbers)] = unit * numbers
                continue
            part = cells.piece(begin // ROWS) if isinstance(cells, Cells) else cells
            for row, cell in enumerate(part, begin):
                if blank is not None and not cell:
                    out[row] = blank
                    continue
                number = read(cell)
                if not 0 <= number <= maximum * unit:
                    raise self.error(row, column, expected)
                out[row] = number
        return out

    def names(self, column: str) -> Sequence[str]:
        """Return a column of names, each usable in a document and given once."""
        first: dict[str, int] = {}
        for row, cell in enumerate(self.columns[column]):
            self.check_name(row, column, cell)
            if first.setdefault(cell, row) != row:
                raise self.error(
                    row, column, f"expected each name once; line {self.lines[first[cell]]} has it"
                )
        return self.columns[column]

    def check_name(self, row: int, column: str, name: str) -> None:
        """Raise InvalidInputError unless a name taken from this cell can stand in a document."""
        try:
            _NAME.validate_python(name)
        except ValidationError:
            raise self.error(
                row, column, "expected a name of letters, digits and . _ : / @ | + = -"
            ) from None


def read_table(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    tabs: bool = False,
    keep: Collection[str] | None = None,
) -> Table:
    """Read a CSV file in UTF-8; `-` is standard input.

    `columns`: names of the columns of a file without a header; None: the first line names them.
    `tabs`: whether tabs are between fields, in which quotation marks mean nothing. `keep`: columns
    of which the cells are kept, where there are such; None: all. Raises `InvalidInputError`: if the
    file cannot be read, is no CSV, names a column twice, or a line has another number of fields
    than there are columns.
    """
    file = os.fspath(path)
    text = _read_lines(file)
    reader = (
        csv.reader(text, delimiter="\t", quoting=csv.QUOTE_NONE, strict=True)
        if tabs
        else csv.reader(text, strict=True)
    )
    told = "as in the header" if columns is None else f"({', '.join(columns)})"
    cells: dict[int, Cells] = {}
    lines = array("q")
    rows: list[list[str]] = []
    try:
        header = next(reader, []) if columns is None else columns
        cells = {n: Cells() for n, name in enumerate(header) if keep is None or name in keep}
        for fields in reader:
            if not fields:
                continue
            if len(fields) != len(header):
                raise _unusable(
                    file,
                    f"line {reader.line_num}: {len(fields)} fields; expected {len(header)} {told}",
                )
            rows.append(fields)
            lines.append(reader.line_num)
            if len(rows) == ROWS:
                _keep(rows, cells)
    except csv.Error as error:
        raise _unusable(file, f"line {reader.line_num}: {error}; expected CSV") from None
    if len(set(header)) != len(header):
        names = value_text(",".join(header))
        raise _unusable(file, f"line 1: {names}: expected each column once")
    _keep(rows, cells)
    return Table(file, {header[number]: column for number, column in cells.items()}, lines)


def _keep(rows: list[list[str]], cells: Mapping[int, Cells]) -> None:
    """Move rows into columns by number."""
    if rows:
        for number, column in cells.items():
            column.extend([fields[number] for fields in rows])
        rows.clear()


def _read_lines(file: str) -> Iterator[str]:
    """Yield the lines, with their ends, of a non-empty UTF-8 file of at most `MAX_BYTES`."""
    read, rest = 0, b""
    written, blanks = False, ""
    for piece in chain(unpacked.pieces(file, MAX_BYTES), (None,)):
        rest += piece or b""
        cut = max(rest.rfind(b"\n"), rest.rfind(b"\r", 0, len(rest) - 1)) + 1
        if piece is None:
            cut = len(rest)
        elif not cut and len(rest) > MAX_LINE:
            raise _unusable(file, f"a line is too long; expected at most {MAX_LINE} bytes")
        text = _text(file, rest[:cut], read)
        read, rest = read + cut, rest[cut:]
        if not (written or text.strip()):
            blanks += text
            continue
        yield from io.StringIO(text if written else blanks + text, newline="")
        written = True
    if not written:
        raise _unusable(file, "empty; expected CSV")


def _text(file: str, content: bytes, begin: int) -> str:
    try:
        return content.decode("utf-8-sig" if begin == 0 else "utf-8")
    except UnicodeDecodeError as error:
        byte = begin + error.start
        raise _unusable(file, f"byte {byte} is not UTF-8; expected UTF-8 text") from None


def _unusable(file: str, message: str) -> InvalidInputError:
    return InvalidInputError(message, file=file, show_value=False)
