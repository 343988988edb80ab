"""Who may import whom: the contracts in pyproject.toml, and what they cannot say."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[1]
FOLDERS = (
    "topology",
    "solver",
    "instances",
    "formulations",
    "rounds",
    "explain",
    "report",
    "live",
    "cli",
)
CEILINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ceilings"]


@pytest.mark.parametrize("folder", [*FOLDERS, "fuzz", "benchmarks", "tests"])
def test_no_folder_has_more_lines_or_files_than_its_ceiling(folder):
    """Ceilings fall with what they hold: one that leaves a twentieth of room is lowered."""
    paths = [path for path in (ROOT / folder).rglob("*.py") if path.name != "__init__.py"]
    lines = sum(path.read_text().count("\n") for path in paths)
    most_lines, most_files = CEILINGS[folder]
    assert 0.95 * most_lines <= lines <= most_lines
    assert 0.95 * most_files - 1 <= len(paths) <= most_files


def test_the_import_contracts_hold(monkeypatch):
    monkeypatch.setattr("logging.config.dictConfig", lambda _: None)  # it turns loggers off
    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0


def test_modules_import_from_the_home_of_a_public_name():
    """A contract does not see where a name of `placewright` itself comes from."""
    graph = grimp.build_graph("placewright", cache_dir=None)
    assert graph.find_modules_that_directly_import("placewright") == {"placewright.cli.commands"}


def test_the_architecture_page_has_a_row_for_each_folder():
    page = (ROOT / "docs" / "architecture.md").read_text()
    for folder in FOLDERS:
        assert f"| `{folder}/` |" in page


def test_a_program_that_a_test_starts_keeps_what_it_compiles():
    words = [sys.executable, "-c", "import sys; print(sys.dont_write_bytecode)"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "False\n"
