"""CSV tables with a header: read whole, checked column by column, every error with its line."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from placewright.instances.documents.base import Name
from placewright.instances.errors import InvalidInputError, value_text
from placewright.instances.io import streams

MAX_BYTES = 256 * 1024**2
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
        out = np.empty(len(self.lines), dtype=np.int64)
        for row, cell in enumerate(self.columns[column]):
            if blank is not None and not cell:
                out[row] = blank
            elif _DIGITS.fullmatch(cell) and int(cell) <= maximum:
                out[row] = int(cell)
            else:
                raise self.error(row, column, f"expected an integer from 0 to {maximum}")
        return out

    def decimals(self, column: str, places: int, maximum: int) -> npt.NDArray[np.int64]:
        """Return a column of decimals from 0 to `maximum` in units of 10^-places, exactly."""
        pattern = re.compile(rf"([0-9]{{1,15}})(?:\.([0-9]{{1,{places}}}))?")
        out = np.empty(len(self.lines), dtype=np.int64)
        for row, cell in enumerate(self.columns[column]):
            match = pattern.fullmatch(cell)
            units = int(match[1] + (match[2] or "").ljust(places, "0")) if match else -1
            if not 0 <= units <= maximum * 10**places:
                raise self.error(
                    row,
                    column,
                    f"expected a number from 0 to {maximum} with at most {places} decimals",
                )
            out[row] = units
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
    path: str | os.PathLike[str], columns: Sequence[str] | None = None, *, tabs: bool = False
) -> Table:
    """Read a CSV file in UTF-8; `-` is standard input.

    Parameters
    ----------
    columns
        Names of the columns of a file without a header; None: the first line names them.
    tabs
        Whether tabs are between fields, in which quotation marks mean nothing.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, is no CSV, names a column twice, or a line has another number
        of fields than there are columns.
    """
    file = os.fspath(path)
    text = io.StringIO(_read_text(file), newline="")
    reader = (
        csv.reader(text, delimiter="\t", quoting=csv.QUOTE_NONE, strict=True)
        if tabs
        else csv.reader(text, strict=True)
    )
    told = "as in the header" if columns is None else f"({', '.join(columns)})"
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        header = next(reader, []) if columns is None else columns
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
    except csv.Error as error:
        raise _unusable(file, f"line {reader.line_num}: {error}; expected CSV") from None
    if len(set(header)) != len(header):
        names = value_text(",".join(header))
        raise _unusable(file, f"line 1: {names}: expected each column once")
    cells = zip(*rows, strict=True) if rows else ((),) * len(header)
    return Table(file, dict(zip(header, cells, strict=True)), lines)


def _read_text(file: str) -> str:
    """Return the text of a non-empty UTF-8 file of at most `MAX_BYTES`."""
    content = streams.read(file, MAX_BYTES)
    if len(content) > MAX_BYTES:
        raise _unusable(file, f"too large; expected at most {MAX_BYTES} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unusable(file, f"byte {error.start} is not UTF-8; expected UTF-8 text") from None
    if not text.strip():
        raise _unusable(file, "empty; expected CSV")
    return text


def _unusable(file: str, message: str) -> InvalidInputError:
    return InvalidInputError(message, file=file, show_value=False)
