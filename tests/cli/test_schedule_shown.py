"""What is shown of a schedule of stages: a Gantt chart, and what each job waits for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placewright import load_round, solve_round
from placewright.cli.app import main
from placewright.explain.stages import waits_of
from placewright.report.page import render_report

ROUND = Path(__file__).parents[2] / "instances" / "library" / "acme-evaluation.yaml"


@pytest.fixture
def plan(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> str:
    path = tmp_path / "plan.json"
    assert main(["solve", str(ROUND), "-o", str(path)]) == 0
    capfd.readouterr()
    return str(path)


def test_a_schedule_is_drawn(plan: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(ROUND), "--plan", plan]) == 0
    shown = capfd.readouterr().out
    assert "Schedule" in shown
    assert "after code" in shown
    assert "█" in shown
    assert main(["show", str(ROUND), "--plan", plan, "-o", str(tmp_path / "plan.svg")]) == 0
    assert "maths-metric" in (tmp_path / "plan.svg").read_text()


def test_what_a_job_waits_for_is_explained(plan: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(ROUND), plan, "--job", "chat"]) == 0
    shown = capfd.readouterr().out
    assert "  In the schedule: begins in 5m, gpu of A100 is full\n" in shown
    assert "    plan   job code starts (1 GPU, of the same priority)\n" in shown
    assert main(["explain", str(ROUND), plan, "--job", "code-metric", "--format", "json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert [one["job"] for one in found["conflict"]] == ["code"]
    entry = found["schedule"]
    assert (entry["start"], entry["after"], entry["full"]) == (300, "code", None)
    assert main(["explain", str(ROUND), plan, "--all"]) == 0
    assert "job chat begins in 300 s: gpu of A100 is full\n" in capfd.readouterr().out
    assert main(["explain", str(ROUND), plan, "--job", "nobody"]) == 3


def test_the_page_has_the_chart() -> None:
    round_ = load_round(ROUND)
    plan = solve_round(round_, isolation="none")
    page = render_report(round_, plan, time_limit=5.0)
    assert "<caption>Schedule, in the order of the round</caption>" in page
    assert "after code, which is done 5m from now at the earliest" in page
    assert waits_of(round_, plan)["code"].text(round_.now) == ""
