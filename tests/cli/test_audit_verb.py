"""`audit` judges a placement, whoever made it."""

from __future__ import annotations

import json
from pathlib import Path

from placewright import load_round, solve_round, write
from placewright.cli.app import main

QUICKSTART = Path(__file__).parents[2] / "instances" / "library" / "quickstart.yaml"


def test_a_valid_placement_has_the_distance_of_each_term_and_no_certificate_of_its_own(
    tmp_path, capsys
):
    plan = solve_round(load_round(QUICKSTART), time_limit=0)
    foreign = plan.model_copy(update={"certificate": None, "round": None})
    write(foreign, str(tmp_path / "plan.json"))
    assert main(["audit", str(QUICKSTART), str(tmp_path / "plan.json")]) == 0
    printed = capsys.readouterr().out
    assert "valid, a plan for round quickstart" in printed
    assert "90,400" in printed.split("Distance from the proven bounds")[1]


def test_a_placement_that_breaks_a_rule_is_not_judged_further(tmp_path, capsys):
    plan = solve_round(load_round(QUICKSTART), time_limit=0)
    broken = plan.model_copy(update={"certificate": None, "decisions": plan.decisions[1:]})
    write(broken, str(tmp_path / "plan.json"))
    assert main(["audit", str(QUICKSTART), str(tmp_path / "plan.json"), "--format", "json"]) == 7
    found = json.loads(capsys.readouterr().out)
    assert not found["valid"]
    assert found["violations"]
    assert "bounds" not in found
