"""The page on formulations of one's own: its program runs, and finds what enumeration finds."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Collection
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from placewright.solver import InProcess, Limits

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "your-own-formulation.md"
BACKENDS = ("highs", "cp-sat", "cbc", "scip")
CHILDREN = {"root": ("mid0", "mid1"), "mid0": ("a", "b"), "mid1": ("c", "d")}
WORKERS = {"a": 2, "b": 6, "c": 5, "d": 4}
SWITCHES = ("root", "mid0", "mid1", *WORKERS)


def program() -> str:
    """Return the page's program."""
    return PAGE.read_text().split("```python\n")[1].split("```")[0]


def messages(aggregating: Collection[str]) -> int:
    """Return the messages on all links."""

    def sent(switch: str) -> tuple[int, int]:
        below = [sent(child) for child in CHILDREN.get(switch, ())]
        came = WORKERS.get(switch, 0) + sum(above for above, _ in below)
        above = 1 if switch in aggregating else came
        return above, above + sum(total for _, total in below)

    return sent("root")[1]


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """Return what the program defines, once it has run."""
    found: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(program(), found)
    found["printed"] = printed.getvalue()
    return found


def test_the_program_prints_what_the_page_says(names: dict[str, Any]) -> None:
    assert names["printed"].strip() in PAGE.read_text()
    best = [min(map(messages, combinations(SWITCHES, k))) for k in range(8)]
    assert names["fewest"] == best == [51, 35, 20, 15, 11, 9, 8, 7]
    assert len([line for line in program().splitlines() if line.strip()]) <= 60


def test_one_switch_after_the_other_is_worse() -> None:
    chosen: list[str] = []
    found = [messages(chosen)]
    while len(chosen) < len(SWITCHES):
        rest = [switch for switch in SWITCHES if switch not in chosen]
        chosen.append(min(rest, key=lambda switch: messages([*chosen, switch])))
        found.append(messages(chosen))
    assert found == [51, 35, 25, 17, 13, 10, 8, 7]
    assert chosen[0] == "root"
    best = min(combinations(SWITCHES, 2), key=messages)
    assert set(best) == {"b", "mid1"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_finds_it(names: dict[str, Any], backend: str) -> None:
    for most in (0, 2, 5):
        arrays = names["aggregation"](most).arrays("messages")
        outcome = InProcess().solve(backend, arrays, Limits(20))
        assert outcome.objective == pytest.approx(names["fewest"][most])
