"""Large CSV tables, which are kept in pieces: the same cells, numbers and errors as in one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from placewright.instances.converters.support.csv_table import ROWS, read_table
from placewright.instances.errors import InvalidInputError

COUNT = 2 * ROWS + 7
LIMIT = 10**9


def table_of(tmp_path: Path, cells: list[str]) -> Path:
    """Write a table of a number, and a cell that may need quotes."""
    path = tmp_path / "t.csv"
    text = "".join(f'{row},"{cell}"\r\n' for row, cell in enumerate(cells))
    path.write_bytes(b"\xef\xbb\xbf" + f"number,cell\r\n{text}".encode())
    return path


def test_cells_and_numbers_of_all_pieces(tmp_path: Path) -> None:
    cells = [("", "é\n", "x,y", "𝔸")[row % 4] for row in range(COUNT)]
    table = read_table(table_of(tmp_path, cells))
    assert list(table.columns["cell"]) == cells
    assert table.columns["cell"][ROWS - 1 : ROWS + 2] == cells[ROWS - 1 : ROWS + 2]
    assert table.columns["cell"][-1] == cells[-1]
    assert np.array_equal(table.integers("number", LIMIT), np.arange(COUNT))
    assert np.array_equal(table.decimals("number", 3, LIMIT), 1000 * np.arange(COUNT))
    assert len(table.lines) == COUNT
    assert table.lines[5] == 9, "the second row has a line end inside quotes"
    with pytest.raises(IndexError):
        table.columns["cell"][COUNT]


@pytest.mark.nightly(after=5)
@pytest.mark.parametrize("row", [0, ROWS - 1, ROWS, COUNT - 1])
@pytest.mark.parametrize("bad", ["-1", "1.5", "²", "1 ", "9" * 16, str(LIMIT + 1), ""])
def test_the_line_of_an_error(row: int, bad: str, tmp_path: Path) -> None:
    cells = ["7"] * COUNT
    cells[row] = bad
    table = read_table(table_of(tmp_path, cells))
    with pytest.raises(InvalidInputError, match=rf"line {row + 2}, column cell: .*expected"):
        table.integers("cell", LIMIT)
    if bad == "":
        assert table.integers("cell", LIMIT, blank=3)[row] == 3
        assert table.decimals("cell", 1, LIMIT, blank=-1).tolist().count(-1) == 1
    if bad == "1.5":
        assert table.decimals("cell", 2, LIMIT)[row] == 150


@pytest.mark.nightly
def test_bytes_that_are_no_text_are_counted_from_the_first(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    before = b"number,cell\n" + b"1,2\n" * 700_000
    path.write_bytes(before + b"1,\xff\n")
    with pytest.raises(InvalidInputError, match=f"byte {len(before) + 2} is not UTF-8"):
        read_table(path)


def test_old_line_ends_and_no_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"number,cell\r1,2\r3,4")
    assert list(read_table(path).columns["cell"]) == ["2", "4"]
    path.write_bytes(b" \n\n")
    with pytest.raises(InvalidInputError, match="empty; expected CSV"):
        read_table(path)
    path.write_bytes(b"number,cell\n" + b"1" * (17 << 20))
    with pytest.raises(InvalidInputError, match=r"t\.csv: a line is too long"):
        read_table(path)
