"""CSV tables with a header: read in pieces, checked column by column, each error with its line."""

from __future__ import annotations

import csv
import io
import os
import re
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from placewright.instances.converters.support.cells import ROWS, Cells
from placewright.instances.documents.base import Name
from placewright.instances.errors import InvalidInputError, value_text
from placewright.instances.io import unpacked

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

    Parameters
    ----------
    columns
        Names of the columns of a file without a header; None: the first line names them.
    tabs
        Whether tabs are between fields, in which quotation marks mean nothing.
    keep
        Columns of which the cells are kept, where there are such; None: all.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, is no CSV, names a column twice, or a line has another number
        of fields than there are columns.
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
