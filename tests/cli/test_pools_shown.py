"""Pools in the terminal: how full the fullest domains are, in rounds, maps and printed plans."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from placewright.cli.views.gang.tables import print_jobs_of_round
from placewright.instances.documents.job import Job
from placewright.instances.documents.plan import Plan
from placewright.instances.documents.round import Round
from placewright.instances.io.files import parse_round, write

RACKS = 30


@pytest.fixture(scope="module")
def round_() -> Round:
    """Racks of a host each; a job runs in the third, another one asks power, too."""
    group = {"gpu": 8, "resources": {"power_w": 5000}}
    running = {"tasks": [{"host": "h2", "gpus": list(range(8))}], "pinned": True}
    return parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {
                "levels": ["rack"],
                "domains": [{"name": f"r{i}", "level": "rack"} for i in range(RACKS)],
                "hosts": [
                    {"name": f"h{i}", "parent": f"r{i}", "gpus": 8, "gpu_model": "X"}
                    for i in range(RACKS)
                ],
                "pools": [{"resource": "power_w", "level": "rack", "capacity": 8000}],
            },
            "jobs": [
                {"name": "runs", "options": [{"groups": [group]}], "running": running},
                {"name": "starts", "options": [{"groups": [group]}]},
            ],
        }
    )


@pytest.fixture(scope="module")
def files(round_: Round, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The round, and a plan that starts the job in the eighth rack."""
    folder = tmp_path_factory.mktemp("pools")
    running = round_.jobs[0].running
    assert running is not None
    keep = {"job": "runs", "decision": "keep", "option": 0, "tasks": running.tasks}
    start = {
        "job": "starts",
        "decision": "start",
        "option": 0,
        "tasks": [{"host": "h7", "gpus": list(range(8))}],
    }
    write(round_, folder / "round.json")
    write(Plan.model_validate({"decisions": [keep, start]}), folder / "plan.json")
    return folder / "round.json", folder / "plan.json"


def rows_of(out: str) -> list[list[str]]:
    """The cells of each row about power."""
    found = [re.split(" {2,}", line.strip()) for line in out.splitlines()]
    return [cells for cells in found if cells[0] == "power_w"]


def test_a_round_says_what_is_in_use(run, files) -> None:
    result = run("show", files[0])
    assert result.code == 0
    rows = rows_of(result.out)
    assert rows[0] == ["power_w", "rack r2", "8,000", "5,000", "62.5 %"]
    assert len(rows) == 20
    assert "... and 10 more domains" in result.out


def test_a_plan_has_before_and_after(run, files) -> None:
    result = run("show", files[0], "--plan", files[1])
    assert result.code == 0
    assert rows_of(result.out)[:3] == [
        ["power_w", "rack r2", "8,000", "5,000", "5,000", "62.5 %"],
        ["power_w", "rack r7", "8,000", "0", "5,000", "62.5 %"],
        ["power_w", "rack r0", "8,000", "0", "0", "0 %"],
    ]
    assert "... and 10 more domains" in result.out


def test_a_solved_plan_has_the_same_table_and_all_of_it_on_request(run, files) -> None:
    result = run("solve", files[0], "--time-limit", "2s")
    assert result.code == 0
    assert [row[-1] for row in rows_of(result.out)[:3]] == ["62.5 %", "62.5 %", "0 %"]
    every = run("solve", files[0], "--time-limit", "2s", "--all")
    assert len(rows_of(every.out)) == RACKS


def test_jobs_ask_what_hosts_share_and_keep_apart(round_: Round) -> None:
    group = {
        "count": 2,
        "gpu": 1,
        "resources": {"power_w": 2500, "nic": 1},
        "apart": {"level": "host"},
    }
    option = {"groups": [group], "required": "rack", "uses": {"lic": 1}}
    job = Job.model_validate({"name": "j", "options": [option]})
    printed = StringIO()
    console = Console(file=printed, width=200)
    print_jobs_of_round(console, round_.model_copy(update={"jobs": (job,)}))
    asks = "2 x 1 with 2,500 of power_w, at most 1 per host, all in one rack, uses 1 of lic"
    assert f" {asks} " in printed.getvalue()
