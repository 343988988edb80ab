"""The command as a whole: help, version, errors and what is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import placewright
from placewright.cli.verbs.convert import convert

ROOT = Path(__file__).parents[2]
VERBS = ("solve", "verify", "validate", "show", "preset", "generate", "convert", "schema")
PRESETS = ("drain", "hot-swap", "defragment", "minimal-victims")


def placewright_process(*args: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "placewright", *map(str, args)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "100"},
        timeout=60,
        check=False,
        **options,
    )


def test_help_loads_neither_solver_nor_numpy_nor_networkx():
    program = (
        "import sys; from placewright.cli.app import main; code = main(['--help']);"
        "heavy = {'ortools', 'highspy', 'pulp', 'numba', 'numpy', 'networkx', 'yaml'};"
        "heavy |= {'matplotlib'};"
        "print(code, sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        timeout=60,
        check=True,
    )
    assert done.stderr.strip() == "0 []"
    assert all(verb in done.stdout for verb in VERBS)


def test_without_arguments_the_help_is_shown(run):
    result = run()
    assert result.code in (0, 2)
    assert "Usage: placewright" in result.out
    assert not result.err


@pytest.mark.parametrize(
    "verb",
    [
        *(("solve",), ("verify",), ("validate",), ("show",), ("schema",)),
        *(("generate", "cluster"), ("generate", "round")),
        *(("convert", command.name) for command in convert.registered_commands),
        *(("preset", name) for name in PRESETS),
    ],
    ids=" ".join,
)
def test_every_verb_explains_itself_with_an_example(run, verb):
    result = run(*verb, "--help")
    assert result.code == 0
    assert f"Example: placewright {' '.join(verb)}" in result.out


def test_version_is_that_of_the_project(run):
    assert run("--version") == (0, f"placewright {placewright.__version__}\n", "")


def test_an_unexpected_exception_is_one_line_and_exit_1(run, monkeypatch):
    def broken(kind: str) -> None:
        raise RuntimeError(f"no schema\nfor {kind}")

    monkeypatch.setattr("placewright.instances.io.schema.json_schema", broken)
    result = run("schema")
    assert result.code == 1
    assert not result.out
    assert result.err.startswith("placewright: internal error: RuntimeError: no schema for Round")
    assert result.err.count("\n") == 1


def test_names_with_markup_are_printed_as_they_are(run, tmp_path):
    result = run("validate", tmp_path / "[bold]x[" / "y.json")
    assert result.code == 3
    assert "[bold]x[/y.json" in result.said


def test_a_pipeline_of_real_processes_keeps_results_on_stdout(tmp_path):
    made = placewright_process("generate", "round", "--gpus", "64", "--jobs", "5")
    assert made.returncode == 0
    assert made.stderr.startswith("made round easy-64-5-0: 64 GPUs")
    checked = placewright_process("validate", "-", input=made.stdout)
    assert checked.returncode == 0
    assert checked.stdout.startswith("-: valid Round, 64 GPUs")
    assert not checked.stderr


def test_bad_input_of_a_real_process_is_one_line_without_a_traceback(tmp_path):
    done = placewright_process("solve", tmp_path / "missing.json", "-o", tmp_path / "plan.json")
    assert done.returncode == 3
    assert not done.stdout
    assert done.stderr.count("\n") == 1
    assert "missing.json" in done.stderr
    assert not (tmp_path / "plan.json").exists()


def test_a_terminal_without_block_characters_is_no_reason_to_fail(round_file):
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "placewright.cli.app", "show", str(round_file)],
        capture_output=True,
        text=True,
        env=env,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert "Jobs by size" in done.stdout


@pytest.mark.parametrize(
    ("group", "verb", "panel"),
    [((), "explain", "Ask"), (("convert",), "openb", "Traces"), (("watch",), "slurm", "Commands")],
)
def test_help_lists_verbs_in_panels(run, group, verb, panel):
    listed = run(*group, "--help").out.split(f"\n{panel}:\n")[1].split("\n\n")[0]
    assert f"\n  {verb} " in f"\n{listed}"
