"""The tutorial is what happens: each command and each program prints what the page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from placewright.cli.app import main

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
BLOCK = re.compile(r"^```(console|python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_shows_what_is_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "instances").symlink_to(ROOT / "instances")
    names: dict[str, Any] = {}
    kinds = []
    for kind, text in BLOCK.findall(PAGE):
        kinds.append(kind)
        lines = text.splitlines()
        if kind == "python":
            exec(text, names)
            continue
        if kind == "console":
            command, *lines = lines
            assert main(shlex.split(command.removeprefix("$ "))[1:]) == 0
        printed = [line.strip() for line in capsys.readouterr().out.splitlines()]
        shown = [line.strip() for line in lines if line != "..."]
        if kind == "text":
            assert printed == shown
        else:
            assert [line for line in shown if line not in printed] == []
    assert {*kinds} == {"console", "python", "text"}
