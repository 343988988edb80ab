"""The README tells the truth: its commands, its first example and its library example."""

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
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
ROUND = "instances/library/quickstart.yaml"


def blocks(language: str) -> list[str]:
    return [text for found, text in BLOCKS if found == language]


def run_line(line: str) -> str:
    """Run a line of the README in a shell and return what it prints."""
    ours = f"{shlex.quote(sys.executable)} -m placewright.cli.app "
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", re.sub(r"(^|\| )placewright ", rf"\1{ours}", line)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100"},
        timeout=120,
        check=True,
    )
    return done.stdout


def solve(*options: str) -> str:
    printed = run_line(shlex.join(["placewright", "solve", ROUND, *options]))
    return "\n".join(line.rstrip() for line in printed.splitlines())


def test_the_test_command_and_the_script_of_ci_are_the_same_steps():
    (command,) = (line for text in blocks("sh") for line in text.splitlines() if "[dev]" in line)
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    positions = [script.index(step) for step in command.split(" && ")]
    assert positions == sorted(positions)


def test_the_first_command_installs_and_solves_the_round_of_the_example():
    first = blocks("sh")[0].strip()
    assert first.startswith("python3 -m venv .venv && .venv/bin/pip install")
    assert first.endswith(f".venv/bin/placewright solve {ROUND}")


def test_the_first_example_shows_what_the_command_prints():
    (shown,) = (text for text in blocks("text") if text.startswith("Plan for round quickstart"))
    # Below this line: which of several equally good places was taken, versions and times.
    stable, places = shown.split("\nJobs\n")
    printed, printed_places = solve().split("\nJobs\n")
    assert stable == printed
    first_columns = re.compile(r"^ (\S+) +(\w+) +([\d.]+)", flags=re.MULTILINE)
    assert first_columns.findall(places) == first_columns.findall(printed_places)


def test_the_presets_make_rounds_that_are_solved():
    lines = [line for text in blocks("sh") for line in text.splitlines()]
    commands = [line for line in lines if line.startswith("placewright preset")]
    assert len(commands) == 4
    printed = [run_line(command) for command in commands]
    assert ["serve   migrated" in text for text in printed] == [True, True, True, False]
    assert "1,322 GPU-s   1,322 GPU-s   0 %   certified" in printed[0]


@pytest.fixture
def library_example(monkeypatch, capsys):
    (example,) = blocks("python")
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    return example, names, capsys.readouterr().out


def test_the_library_example_gives_the_plan_of_the_command_line(library_example):
    example, names, printed = library_example
    assert len(example.strip().splitlines()) <= 10
    ours = names["plan"].model_dump(mode="json")
    theirs = parse_plan(json.loads(solve("--format", "json"))).model_dump(mode="json")
    for plan in (ours, theirs):
        del plan["certificate"]["run"]
    assert ours == theirs
    assert "pretrain start" in printed
