"""From `kubectl get` to a reason: the commands of docs/how-to/kubernetes.md and what they print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from placewright.cli.app import main

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "data" / "kubernetes"
PAGE = (ROOT / "docs" / "how-to" / "kubernetes.md").read_text()
FILES = [str(SAMPLES / "nodes-pods.json"), str(SAMPLES / "queues.json")]


def test_a_dump_leads_to_the_reason_that_the_page_shows(tmp_path, capsys):
    target = str(tmp_path / "round.json")
    assert main(["convert", "kubernetes", *FILES, "-o", target]) == 0
    said = capsys.readouterr().err
    assert "pods: 2 of 4 in the round" in said
    assert "left out: 1 pod: has ended: research/eval-0" in said
    assert main(["explain", target, "--job", "research/job-pretrain"]) == 0
    shown = capsys.readouterr().out
    (block,) = (b for b in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL) if "Because" in b)
    assert block.removesuffix("  ...\n") in shown


def test_a_wrong_label_is_an_error_of_the_option(tmp_path, capsys):
    target = str(tmp_path / "round.json")
    arguments = ["convert", "kubernetes", *FILES, "-o", target, "--levels", "rack"]
    assert main(arguments) == 2
    assert "--levels" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["evil\x1b[2J", "a\nb"])
def test_hostile_names_reach_the_terminal_escaped_and_in_one_line(tmp_path, capsys, name):
    file = tmp_path / "dump.json"
    file.write_text((SAMPLES / "nodes-pods.json").read_text().replace("notebook", repr(name)[1:-1]))
    file.write_text(file.read_text().replace("\\x1b", "\\u001b"))
    assert main(["convert", "kubernetes", str(file), "-o", str(tmp_path / "round.json")]) == 3
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert len(said.splitlines()) == 1
