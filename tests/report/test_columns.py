"""Columns: what a page unpacks is what was packed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placewright.report.columns import ranges, runs


def unpacked_runs(pairs):
    return [value for value, n in zip(pairs[::2], pairs[1::2], strict=True) for _ in range(n)]


def unpacked_ranges(packed):
    names = []
    for one in packed:
        if isinstance(one, str):
            names.append(one)
        else:
            prefix, first, count, width = one
            names += [f"{prefix}{n:0{width}d}" for n in range(first, first + count)]
    return names


@given(st.lists(st.integers(-3, 3)))
def test_runs_are_unpacked_to_what_they_were(values):
    packed = runs(values)
    assert unpacked_runs(packed) == values
    assert all(a != b for a, b in zip(packed[::2], packed[2::2], strict=False))


NAMES = st.from_regex(r"[a-b0]{0,2}(0|[1-9][0-9]{0,10}|0[0-9]{0,3})?\n?", fullmatch=True)


@given(st.lists(NAMES))
def test_ranges_are_unpacked_to_what_they_were(names):
    assert unpacked_ranges(ranges(names)) == names


@pytest.mark.parametrize(
    ("names", "packed"),
    [
        ([], []),
        (["h0", "h1"], ["h0", "h1"]),
        (["h0", "h1", "h2"], [["h", 0, 3, 0]]),
        (["h08", "h09", "h10", "x"], [["h", 8, 3, 2], "x"]),
        (
            [f"r{r}-h{h}" for r in range(2) for h in range(3)],
            [["r0-h", 0, 3, 0], ["r1-h", 0, 3, 0]],
        ),
        (["h8", "h9", "h10", "h11"], [["h", 8, 4, 0]]),
        (["7", "8", "9"], [["", 7, 3, 0]]),
        (["é", "\u202e1"], ["é", "\u202e1"]),
    ],
)
def test_names_that_count_up_are_a_range(names, packed):
    assert ranges(names) == packed
