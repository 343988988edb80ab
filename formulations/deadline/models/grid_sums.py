"""Prefix sums over rows of a sparse grid, without the whole grid in memory."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from placewright.array_types import Floats, Ints

Marks: TypeAlias = tuple[Ints, Ints, Floats]
"""Amounts at some rows and columns of a grid."""


def grid_rows(size: int, rows: Ints, *, vertical: list[Marks], diagonal: list[Marks]) -> Floats:
    """Return some rows of a grid, ascending, as prefix sums along each row.

    What is marked stands in its row and in all rows below: in the same column, or slanted, a column
    further in each. Row by row, for the whole grid would be as large as the square of its size.
    """
    each = [(_group_by_row(vertical), np.zeros(size)), (_group_by_row(diagonal), np.zeros(size))]
    sums, last = np.empty((len(rows), size)), -1
    for number, row in enumerate(rows.tolist()):
        for at in range(last + 1, row + 1):
            each[1][1][1:] = each[1][1][:-1].copy()
            each[1][1][0] = 0.0
            for marks, line in each:
                if at in marks:
                    np.add.at(line, *marks[at])
        last = row
        np.cumsum(each[0][1] + each[1][1], out=sums[number])
    return sums


def _group_by_row(marks: list[Marks]) -> dict[int, tuple[Ints, Floats]]:
    """Return columns and amounts of the marks by their row."""
    row, column, amount = (np.concatenate([mark[i] for mark in marks]) for i in range(3))
    if not len(row):
        return {}
    order = np.argsort(row, kind="stable")
    rows, begin = np.unique(row[order], return_index=True)
    parts = np.split(order, begin[1:])
    return {at: (column[part], amount[part]) for at, part in zip(rows.tolist(), parts, strict=True)}
