"""What documents and file names say is shown, and never obeyed by the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from placewright.cli.format.output import note, out
from placewright.instances.errors import printable
from placewright.instances.io.files import load_plan

EVIL = "x\x1b]0;pwned\x07\x1b[31m\x9b2J\u202e\x7f"
SHOWN = r"x\x1b]0;pwned\x07\x1b[31m\x9b2J\u202e\x7f"
PRINTED = SHOWN.replace(r"\x07", "")
"""Rich drops some control characters by itself."""


def harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 日本", "plain é 日本"),
        ("two\nlines\r\nhere", "two lines here"),
        ("tab\t", r"tab\t"),
        (EVIL, SHOWN),
        ("\udcff", r"\udcff"),
    ],
)
def test_only_what_terminals_obey_is_escaped(text, shown):
    assert printable(text) == shown


def test_notes_and_everything_that_the_console_draws_are_escaped(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    console = out()
    table = Table(EVIL, title=EVIL)
    table.add_row(Text(EVIL))
    table.add_row(EVIL)
    tree = Tree(EVIL)
    tree.add(Text(EVIL))
    for shown in (EVIL, Text(f"{EVIL}\n{EVIL}"), table, tree):
        console.print(shown)
    note(EVIL)
    printed = capsys.readouterr()
    assert harmless(printed.out)
    assert harmless(printed.err)
    for line in (PRINTED, f"└── {PRINTED}"):
        assert line in printed.out.splitlines()
    assert printed.err == f"{SHOWN}\n"


@pytest.mark.parametrize(
    "args",
    [
        ("validate", EVIL),
        ("solve", EVIL, "-o", EVIL),
        ("solve", "r.json", "-o", f"{EVIL}/plan.json"),
        ("verify", "r.json", EVIL),
        ("show", "r.json", "--plan", EVIL),
        ("show", "r.json", "-o", EVIL),
        ("generate", "round", "--gpus", EVIL, "--jobs", "1"),
        ("convert", "openb", EVIL, EVIL, "-o", "x.json"),
        (EVIL,),
        ("solve", f"--{EVIL}"),
        ("schema", EVIL),
    ],
    ids=lambda args: args[0] if args[0] != EVIL else "verb",
)
def test_arguments_are_escaped_in_error_messages(run, monkeypatch, round_file, args):
    monkeypatch.chdir(round_file.parent)
    Path("r.json").write_bytes(round_file.read_bytes())
    result = run(*args)
    assert result.code in (2, 3)
    assert not result.out
    assert harmless(result.err)


def test_a_file_with_an_odd_name_is_read_and_its_name_escaped(run, round_file, tmp_path):
    odd = tmp_path / EVIL
    odd.write_bytes(round_file.read_bytes())
    result = run("validate", odd)
    assert result.code == 0
    assert harmless(result.out)
    assert f"/{PRINTED}: valid Round" in result.out


def test_a_plan_that_says_odd_things_is_shown_escaped(run, round_file, plan_file, monkeypatch):
    raw = json.loads(plan_file.read_text())
    certificate = raw["certificate"]
    certificate |= {"backend": EVIL, "versions": {EVIL: EVIL}, "degraded": [f"{EVIL}\n{EVIL}"]}
    plan_file.write_text(json.dumps(raw))
    monkeypatch.setattr("placewright.rounds.solve_round", lambda *_, **__: load_plan(plan_file))
    for verb in (
        ("solve", round_file),
        ("verify", round_file, plan_file),
        ("show", round_file, "--plan", plan_file),
    ):
        result = run(*verb)
        assert result.code == 0
        assert harmless(result.out)
        assert harmless(result.err)
    raw["sections"] = [{"kind": EVIL, EVIL: [EVIL]}]
    plan_file.write_text(json.dumps(raw))
    result = run("verify", round_file, plan_file)
    assert result.code == 7
    assert harmless(result.out)
    assert harmless(result.err)
