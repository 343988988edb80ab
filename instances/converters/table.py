"""CSV tables with a header: read whole, checked column by column, every error with its line."""

from __future__ import annotations

import csv
import io
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from placewright.instances.documents import Name
from placewright.instances.errors import InvalidInputError

MAX_BYTES = 512 * 1024**2
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
        return InvalidInputError(
            expected,
            file=self.file,
            path=(f"line {self.lines[row]}, column {column}",),
            value=self.columns[column][row],
        )

    def has(self, column: str) -> bool:
        """Say whether the header names this column."""
        return column in self.columns

    def require(self, *columns: str) -> None:
        """Raise InvalidInputError for the first of these columns that the header lacks."""
        for column in columns:
            if column not in self.columns:
                raise InvalidInputError(
                    f"expected a column {column}",
                    file=self.file,
                    path=("line 1",),
                    value=",".join(self.columns),
                )

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


def read_table(path: str | Path) -> Table:
    """Read a CSV file in UTF-8 whose first line names the columns.

    Raises
    ------
    InvalidInputError
        If the file cannot be read, is no CSV, names a column twice, or a line has another number
        of fields than the header.
    """
    file = str(path)
    reader = csv.reader(io.StringIO(_read_text(Path(path)), newline=""), strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        header = next(reader, [])
        for fields in reader:
            if not fields:
                continue
            if len(fields) != len(header):
                raise InvalidInputError(
                    f"expected {len(header)} fields, as the header has",
                    file=file,
                    path=(f"line {reader.line_num}",),
                    value=f"{len(fields)} fields",
                )
            rows.append(fields)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise InvalidInputError(
            f"expected CSV ({error})",
            file=file,
            path=(f"line {reader.line_num}",),
            show_value=False,
        ) from None
    if len(set(header)) != len(header):
        raise InvalidInputError(
            "expected each column once", file=file, path=("line 1",), value=",".join(header)
        )
    cells = zip(*rows, strict=True) if rows else ((),) * len(header)
    return Table(file, dict(zip(header, cells, strict=True)), lines)


def _read_text(path: Path) -> str:
    """Return the text of a regular, non-empty UTF-8 file of at most `MAX_BYTES`."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            problem = "expected a CSV file, not a directory or device"
        elif about.st_size > MAX_BYTES:
            problem = f"expected at most {MAX_BYTES} bytes"
        else:
            text = path.read_text(encoding="utf-8-sig")
            if text.strip():
                return text
            problem = "expected a CSV file with a header, not an empty file"
    except UnicodeDecodeError:
        problem = "expected UTF-8 text"
    except OSError as error:
        problem = f"expected a readable CSV file ({error.strerror})"
    raise InvalidInputError(problem, file=str(path), show_value=False)
