"""The page on how to enter the benchmark: its solver runs, and its plans are checked."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from examples import by_night
from placewright.cli.app import main
from placewright.instances.benchmark.index import read_index
from placewright.rounds.benchmark.run import read_rows

PAGE = (Path(__file__).parents[1] / "docs" / "how-to" / "enter-the-benchmark.md").read_text()
PROGRAM = PAGE.split("```python\n")[1].split("```")[0]


def line_with(words: str) -> list[str]:
    """Return the words of a command of the page, without the program's name."""
    (line,) = (one for one in PAGE.splitlines() if one.startswith("placewright") and words in one)
    return shlex.split(line.replace("python ", f"{sys.executable} "))[1:]


def test_the_page_knows_how_many_rounds_there_are() -> None:
    assert f"a library of {len(read_index())} rounds" in PAGE


def test_the_solver_of_the_page_enters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len([line for line in PROGRAM.splitlines() if line.strip()]) <= 37
    Path("first_fit.py").write_text(PROGRAM)
    words = line_with("--command")
    if not by_night():
        words[words.index("gang-*-64-64")] = "gang-easy-64-64"
    assert main([*words, "--time-limit", "20" if by_night() else "10"]) == 0
    rows = read_rows("mine.jsonl")
    assert {row.solver for row in rows} == {"first_fit.py"}
    assert {row.status for row in rows} <= {"feasible", "optimal", "within_gap"}, rows
    assert any(row.values["value"] > 0 for row in rows)
    assert main(["bench", "report", "mine.jsonl", "-o", "page.html"]) == 0
    assert "first_fit.py" in Path("page.html").read_text()
    capsys.readouterr()
