"""Numbers of things and lists of names as phrases."""

from __future__ import annotations

import pytest

from placewright.instances.derived.phrases import count, counted, plural, several


@pytest.mark.parametrize(
    ("noun", "many"),
    [
        *(("rack", "racks"), ("leaf", "leaves"), ("superleaf", "superleaves"), ("zone", "zones")),
        *(("switch", "switches"), ("chassis", "chassis"), ("facility", "facilities")),
        *(("bay", "bays"), ("GPU", "GPUs"), ("box", "boxes"), ("waiting job", "waiting jobs")),
        ("job or leaf", "jobs or leaves"),
    ],
)
def test_plurals(noun: str, many: str) -> None:
    assert plural(noun) == many


def test_counts() -> None:
    assert count(1, "leaf") == "1 leaf"
    assert count(0, "leaf") == "0 leaves"
    assert count(1213, "host") == "1,213 hosts"


def test_names_are_shortened() -> None:
    assert several([]) == "-"
    assert several(["a"]) == "a"
    assert several(["a", "b"], conjunction="or") == "a or b"
    assert several(["a", "b", "c", "d"]) == "a, b, c and d"
    assert several([*"abcde"], conjunction="or") == "a, b, c, d or e"
    assert several([*"abcdef"]) == "a, b, c, d and 2 more"
    assert several([*"abc"], 1) == "a and 2 more"
    assert several(["a"] * 1500, 2) == "a, a and 1,498 more"


def test_names_are_counted() -> None:
    assert counted(["old"], "job") == "job old"
    assert counted(["a", "b"], "job") == "2 jobs (a and b)"
    assert counted([*"abcde"], "leaf") == "5 leaves (a, b, c, d and e)"
