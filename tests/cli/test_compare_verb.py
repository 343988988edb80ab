"""The verb `compare`: replays side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placewright.cli.app import main

TRACE = "submit_s,gpus,duration_s\n0,4,100\n5,8,30.5\n9,1,60\n20,8,4000\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with replays, which is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "trace.csv").write_text(TRACE)
    for policy, hosts, folder in (
        ("fifo", "1x8", "fifo"),
        ("srsf", "1x8", "srsf"),
        ("srsf", "2x8", "wide"),
    ):
        played = ["--policy", policy, "--hosts", hosts, "-o", folder]
        assert main(["replay", "trace.csv", *played]) == 0
    return tmp_path


def test_a_table_has_a_column_per_policy_and_the_best_marked(here, run):
    result = run("compare", "fifo", "srsf")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[1].split() == ["fifo", "srsf"]
    mean = next(line for line in lines if "JCT, mean" in line)
    assert mean.split()[-1] == "*"
    assert "Assumptions that differ" not in result.out


def test_other_assumptions_are_refused_unless_asked_for(here, run):
    refused = run("compare", "srsf", "wide")
    assert refused.code == 3
    assert "wide/summary.json: card.hosts: '2x8': expected '1x8'" in refused.err
    assert "--any-card" in refused.err
    assert refused.out == ""
    asked = run("compare", "srsf", "wide", "--any-card")
    assert asked.code == 0
    assert "srsf, hosts 2x8" in asked.out
    assert "Assumptions that differ" in asked.out


def test_json_has_groups_measures_and_the_best(here, run):
    found = json.loads(run("compare", "fifo", "srsf", "--format", "json").out)
    assert [group["name"] for group in found["groups"]] == ["fifo", "srsf"]
    assert found["groups"][0]["measures"]["jobs"] == {"mean": 4.0, "half_width": None}
    assert found["best"]["jct_mean_s"] == ["srsf"]
    assert found["differing"] == ["policy"]


def test_a_page_is_written(here, run):
    result = run("compare", "fifo", "srsf", "-o", "page.html")
    assert (result.code, result.err) == (0, "wrote page.html\n")
    assert Path("page.html").read_text().startswith("<!doctype html>")
    assert run("compare", "fifo", "-o", "-").out.startswith("<!doctype html>")


def test_many_policies_are_rows_in_blocks_that_fit(here, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    folders = []
    for policy in ("fit-first", "easy", "sjf", "srtf", "2d-las", "qssf"):
        assert (
            run("replay", "trace.csv", "--policy", policy, "--hosts", "1x8", "-o", policy).code == 0
        )
        folders.append(policy)
    lines = run("compare", *folders).out.splitlines()
    assert sum(line.startswith(" fit-first") for line in lines) > 1
    assert max(map(len, lines)) <= 60


def test_what_a_file_says_cannot_reach_the_terminal(here, run):
    summary = json.loads(Path("srsf/summary.json").read_text())
    summary["card"]["policy"] = "evil\x1b[2J\u202e[red]"
    summary["measures"]["new\x1b[2J"] = 1
    Path("srsf/summary.json").write_text(json.dumps(summary))
    result = run("compare", "fifo", "srsf")
    assert result.code == 0
    assert "evil\\x1b[2J\\u202e[red]" in result.out
    assert "\x1b" not in result.out + result.err
