"""The README and the tour tell the truth: their commands, the first example and the program."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from placewright.instances import parse_plan

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
TOUR = (ROOT / "docs" / "tour.md").read_text()
ROUND = "instances/library/quickstart.yaml"
SETUP = "python3 -m venv .venv && .venv/bin/pip install -q "
EXCERPT = ["Objective, most important first"]
"""Of what the first command prints; which of several equal places was taken is not shown."""

DATA = ROOT / "tests" / "data"


def blocks(page: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w+)\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


def commands(page: str) -> list[str]:
    return [line for text in blocks(page, "sh") for line in text.splitlines()]


@pytest.fixture
def clone(tmp_path):
    """A folder in which commands find the bundled rounds and may write."""
    (tmp_path / "instances").symlink_to(ROOT / "instances")
    return tmp_path


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A clone in which the commands of the README have been run, and what they printed."""
    clone = tmp_path_factory.mktemp("clone")
    (clone / "instances").symlink_to(ROOT / "instances")
    lines = [line for line in commands(README) if "[dev]" not in line]
    return clone, [run_line(line.removeprefix(f"{SETUP}'.[plot]' && "), clone) for line in lines]


def run_line(line: str, folder: Path) -> str:
    """Run a line in a shell, with this Python's placewright, and return what it prints."""
    ours = f"{shlex.quote(sys.executable)} -m placewright.cli.app "
    done = subprocess.run(
        [
            "bash",
            "-o",
            "pipefail",
            "-c",
            re.sub(r"(^|[|&] )(\.venv/bin/)?placewright ", rf"\1{ours}", line),
        ],
        capture_output=True,
        text=True,
        cwd=folder,
        env={
            **os.environ,
            "NO_COLOR": "1",
            "COLUMNS": "100",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        },
        timeout=120,
        check=True,
    )
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


def test_the_readme_is_short():
    assert len(README.split()) <= 700


def test_the_test_command_and_the_script_of_ci_are_the_same_steps():
    (command,) = (line for line in commands(README) if "[dev]" in line)
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    positions = [script.index(step) for step in command.split(" && ")]
    assert positions == sorted(positions)


def test_the_first_command_installs_and_solves_and_all_others_run_what_it_installed():
    first, *others = commands(README)
    assert first == f"{SETUP}'.[plot]' && .venv/bin/placewright solve {ROUND} -o plan.json"
    for line in others:
        if not line.startswith(SETUP):
            assert all(part.startswith(".venv/bin/") for part in line.split(" | ")), line


def test_the_commands_of_the_readme_work_one_after_the_other(shown):
    clone, (*_, last) = shown
    assert (clone / "plan.svg").read_text().count("<svg") == 1
    assert re.search(r"^ serve .* moves ", last, flags=re.MULTILINE)


def test_the_first_example_shows_what_the_command_prints(shown):
    (example,) = (text for text in blocks(README, "text") if text.startswith("Plan for round"))
    _, (printed, *_) = shown
    tables = example.strip().split("\n\n")
    assert all(f"\n{table}\n" in f"\n{printed}\n" for table in tables), printed
    assert [table.splitlines()[0] for table in tables][1:] == EXCERPT


def test_a_dump_is_explained_as_the_readme_shows(clone):
    (shown,) = (text for text in blocks(README, "text") if " convert slurm dump" in text)
    _, convert, explain, *lines = shown.splitlines()
    (clone / "dump").symlink_to(DATA / "slurm" / "v0.0.44")
    run_line(convert.removeprefix("$ "), clone)
    printed = run_line(explain.removeprefix("$ "), clone).splitlines()
    *lines, last = lines
    assert (printed[: len(lines)], last) == (lines, "  ...")


@pytest.mark.nightly
def test_the_presets_make_rounds_that_are_solved(clone):
    lines = [line for line in commands(TOUR) if line.startswith("placewright preset")]
    assert len(lines) == 4
    printed = [run_line(line, clone) for line in lines]
    assert ["serve   migrated" in text for text in printed] == [True, True, True, False]
    assert "1,322 GPU-s   1,322 GPU-s   0 %   certified" in printed[0]


@pytest.mark.nightly
def test_the_other_commands_of_the_tour_work_one_after_the_other(clone):
    lines = [line for line in commands(TOUR) if not line.startswith("placewright preset")]
    for line in lines:
        assert run_line(line, clone)


@pytest.fixture
def library_example(monkeypatch, capsys):
    (example,) = blocks(TOUR, "python")
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    exec(compile(example, "tour.md", "exec"), names)
    return example, names, capsys.readouterr().out


def test_the_library_example_gives_the_plan_of_the_command_line(library_example, shown):
    example, names, printed = library_example
    assert len(example.strip().splitlines()) <= 10
    ours = names["plan"].model_dump(mode="json")
    clone, _ = shown
    theirs = parse_plan(json.loads((clone / "plan.json").read_text())).model_dump(mode="json")
    for plan in (ours, theirs):
        del plan["certificate"]["run"]
    assert ours == theirs
    assert "pretrain start" in printed
