"""Columns in few characters: run-length encoding, and names that count up as ranges."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

Names: TypeAlias = list[str | list[str | int]]
"""Names one after the other; `[prefix, first, count, width]` stands for names that count up."""

MIN_RANGE = 3
_NUMBERED = re.compile(r"(.*?)(0|[1-9][0-9]{0,8}|0[0-9]{1,8})", re.DOTALL)


def runs(values: ArrayLike) -> list[int]:
    """Return equal values that follow each other as value, length, value, length, ..."""
    column = np.asarray(values, dtype=np.int64)
    if not column.size:
        return []
    starts = np.flatnonzero(np.concatenate(([True], column[1:] != column[:-1])))
    lengths = np.diff(np.append(starts, column.size))
    pairs: list[int] = np.stack((column[starts], lengths), axis=1).ravel().tolist()
    return pairs


def ranges(names: Sequence[str]) -> Names:
    """Return names with those that count up by one, three or more, as a range."""
    packed: Names = []
    first = 0
    while first < len(names):
        last, prefix, start, width = _counting(names, first)
        if last - first >= MIN_RANGE:
            packed.append([prefix, start, last - first, width])
        else:
            last = first + 1
            packed.append(names[first])
        first = last
    return packed


def _counting(names: Sequence[str], first: int) -> tuple[int, str, int, int]:
    """Return where names from `first` on stop counting up; their prefix, number and width."""
    found = _NUMBERED.fullmatch(names[first])
    if found is None:
        return first + 1, "", 0, 0
    prefix, digits = found[1], found[2]
    number, width = int(digits), len(digits) if digits[0] == "0" and len(digits) > 1 else 0
    last = first + 1
    while last < len(names) and names[last] == f"{prefix}{number + last - first:0{width}d}":
        last += 1
    return last, prefix, number, width
