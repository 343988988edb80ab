"""The verb `report`: one page, of valid plans of one round."""

from __future__ import annotations

from pathlib import Path

import pytest

from placewright import load_round, solve_round, write
from placewright.cli.app import main

LIBRARY = Path(__file__).parents[2] / "instances" / "library"
QUICKSTART = str(LIBRARY / "quickstart.yaml")


@pytest.fixture(scope="module")
def plan(tmp_path_factory) -> str:
    file = tmp_path_factory.mktemp("plans") / "plan.json"
    write(solve_round(load_round(QUICKSTART), isolation="none"), file)
    return str(file)


def test_a_page_is_written(plan, tmp_path, capsys):
    file = tmp_path / "report.html"
    assert main(["report", QUICKSTART, plan, "-o", str(file), "--explain", "0"]) == 0
    assert file.read_text().startswith("<!doctype html>")
    assert capsys.readouterr().err == f"wrote {file}\n"


def test_two_plans_go_to_standard_output(plan, capsys):
    assert main(["report", QUICKSTART, plan, plan, "--explain", "0"]) == 0
    assert "None: both decide every job alike." in capsys.readouterr().out


def test_a_plan_that_breaks_a_rule_or_is_of_another_round_has_no_page(plan, tmp_path, capsys):
    broken = tmp_path / "broken.json"
    broken.write_text(Path(plan).read_text().replace('"a1"', '"b2"'))
    output = tmp_path / "report.html"
    assert main(["report", QUICKSTART, str(broken), "-o", str(output)]) == 7
    other = str(LIBRARY / "pair.yaml")
    assert main(["report", other, plan, "-o", str(output)]) == 3
    assert main(["report", QUICKSTART, plan, "-o", plan]) == 2
    assert not output.exists()
    assert "is an input" in capsys.readouterr().err
