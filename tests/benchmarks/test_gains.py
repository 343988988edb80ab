"""Parts of formulations are found, noted as they run, left out, and compared; the page has all."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from placewright import load_round, solve_round

ROOT = Path(__file__).parents[2]
ROUND = ROOT / "instances" / "library" / "quickstart.yaml"


@pytest.fixture(scope="module", autouse=True)
def importable() -> Iterator[None]:
    """The guards, which are importable from the repository's root only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        yield


@pytest.fixture
def parts() -> ModuleType:
    return importlib.import_module("benchmarks.guards.parts")


@pytest.fixture
def gains() -> ModuleType:
    return importlib.import_module("benchmarks.guards.gains")


def row(value: int, bound: float = 100, status: str = "feasible", cpu_s: float = 2) -> Any:
    term = {"name": "value", "sense": "max", "value": value, "bound": bound, "status": status}
    return {"round": "r", "terms": [term], "cpu_s": cpu_s}


@pytest.mark.parametrize(
    ("full", "less", "what"),
    [
        (row(90), row(90), []),
        (row(90), row(80), ["`value`"]),
        (row(80), row(90), ["`value`"]),
        (row(100, status="optimal"), row(100), ["proof of `value`"]),
        (row(90), row(90, bound=110), ["bound of `value`"]),
        (row(90), row(90, cpu_s=2.4), []),
        (row(90), row(90, cpu_s=3), ["CPU"]),
        (row(80), row(90, cpu_s=3), ["`value`"]),
        (row(90), {"round": "r", "error": "none"}, ["a plan"]),
    ],
)
def test_what_a_part_gains(gains: ModuleType, full: Any, less: Any, what: list[str]) -> None:
    assert [gain.what for gain in gains.gains(full, less)] == what


def test_what_ran_is_noted_and_can_be_left_out(parts: ModuleType) -> None:
    with parts.observed() as ran:
        solve_round(load_round(ROUND), isolation="none")
    assert {"gang/greedy", "gang/trivial bounds"} <= ran
    with parts.left_out("gang/greedy"), parts.observed() as without:
        solve_round(load_round(ROUND), isolation="none")
    assert "gang/host-indexed model at once" in without
    before = [getattr(*place) for places in parts.parts().values() for place in places]
    with parts.left_out("gang/greedy"):
        pass
    assert before == [getattr(*place) for places in parts.parts().values() for place in places]


def test_rounds_are_decided_with_each_part_and_without_it(
    gains: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "quickstart.json").write_text(load_round(ROUND).model_dump_json())
    file, page = tmp_path / "rows.jsonl", tmp_path / "page.md"
    page.write_text("# Gains\n\n| part |\n")
    arguments = [str(tmp_path), str(file), "--parts", "*/greedy", "--page", str(page)]
    assert gains.main(arguments) == 0
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [each["without"] for each in rows] == [None, "gang/greedy"]
    assert page.read_text().startswith("# Gains\n\n| part | rounds |")
    assert "| gang/greedy | 1 |" in page.read_text()
    gains.main(arguments)
    assert len(file.read_text().splitlines()) == len(rows)


def test_the_page_has_a_row_for_every_part(parts: ModuleType) -> None:
    page = (ROOT / "docs" / "benchmarks" / "gains.md").read_text()
    assert [name for name in parts.parts() if f"\n| {name} |" not in page] == []
