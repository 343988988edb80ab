"""`verify --bound` proves how good any plan is."""

from __future__ import annotations

from pathlib import Path

from placewright import load_round, solve_round, write
from placewright.cli.app import main
from placewright.instances.documents.plan import Decision, DecisionKind
from placewright.rounds import prove_bounds

QUICKSTART = Path(__file__).parents[2] / "instances" / "library" / "quickstart.yaml"


def test_a_plan_without_a_certificate_gets_bounds_that_are_proven_now(tmp_path, capsys):
    plan = solve_round(load_round(QUICKSTART), time_limit=0)
    foreign = plan.model_copy(update={"certificate": None, "round": None})
    write(foreign, str(tmp_path / "plan.json"))
    code = main(["verify", str(QUICKSTART), str(tmp_path / "plan.json"), "--bound"])
    printed = capsys.readouterr().out
    assert code == 0
    assert "Bounds, proven now" in printed
    assert "90,400" in printed.split("Bounds, proven now")[1]


def test_bounds_speak_of_the_plan_that_is_given():
    round_ = load_round(QUICKSTART)
    nothing = solve_round(round_, time_limit=0)
    waiting = [
        d if d.decision is DecisionKind.KEEP else Decision(job=d.job, decision=DecisionKind.WAIT)
        for d in nothing.decisions
    ]
    plan = nothing.model_copy(update={"decisions": tuple(waiting), "certificate": None})
    value, disruption, spread, opened = prove_bounds(round_, plan)
    assert (value.value, value.bound, value.gap) == (0, 90400, 1.0)
    # No host has to open for a value of 0.
    assert (opened.value, opened.bound, opened.gap) == (0, 0, 0)
    assert disruption.gap == spread.gap == 0
