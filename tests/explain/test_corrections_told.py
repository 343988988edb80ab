"""Corrections that an explanation tells: applied as edits, they start the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from placewright import explain_job, load_round, solve_round
from placewright.explain.conflict import SolvingOracle
from placewright.explain.corrections.change import COSTS
from placewright.explain.explanation import Verdict
from placewright.explain.facts.fact import World, without_waiting
from placewright.instances.documents.round import Round
from placewright.instances.edits.apply import apply_edits

QUICKSTART = Path(__file__).parents[2] / "instances" / "library" / "quickstart.yaml"


@pytest.mark.parametrize(
    ("job", "verdict", "some_day", "now"),
    [
        (
            "colossus",
            Verdict.NEVER,
            {"allow tasks of a group in several racks", "ask 3 instead of 4 tasks"},
            {"ask 2 instead of 4 tasks"},
        ),
        (
            "homework",
            Verdict.NEVER_WITHIN_RULES,
            {"raise the quota of students by 4 GPUs"},
            {"raise the quota of students by 4 GPUs"},
        ),
        ("render", Verdict.OTHERS_INSTEAD, None, {"repair host b2"}),
    ],
)
def test_quickstart(job: str, verdict: Verdict, some_day: set[str] | None, now: set[str]) -> None:
    round_ = load_round(QUICKSTART)
    plan = solve_round(round_, isolation="none")
    found = explain_job(round_, plan, job, corrections=6, isolation="none")
    assert found.verdict is verdict
    assert found.corrections is not None
    if some_day is None:
        assert found.corrections.some_day is None
    else:
        assert found.corrections.some_day is not None
        assert some_day <= {one.text for one in found.corrections.some_day}
    assert now <= {one.text for one in found.corrections.now}
    with SolvingOracle.opened(round_, time_limit=30.0, isolation="none") as oracle:
        for one in found.corrections.now:
            edited = apply_edits(found.world.base, one.edits)
            assert oracle.start(World(edited, job)).starts


def test_costs_leave_out_what_is_not_to_be_proposed() -> None:
    round_ = load_round(QUICKSTART)
    costs = {kind: cost for kind, cost in COSTS.items() if kind != "quota"}
    found = explain_job(round_, None, "homework", corrections=6, costs=costs, isolation="none")
    assert found.corrections is not None
    assert {part.kind for one in found.corrections.now for part in one.parts} == {"tasks"}
    assert without_waiting(round_, "homework") == found.world.base


def test_the_end_of_a_job_that_the_plan_stops_is_of_no_use_beside_the_plan() -> None:
    whole = {"options": [{"groups": [{"gpu": 8}]}]}
    runs = {"tasks": [{"host": "h", "gpus": list(range(8))}]}
    round_ = Round.model_validate(
        {
            "cluster": {"hosts": [{"name": "h", "gpus": 8, "gpu_model": "H100"}]},
            "jobs": [
                {"name": "stops", **whole, "running": runs},
                {"name": "urgent", "priority": 1, **whole},
                {"name": "waits", **whole},
            ],
        }
    )
    plan = solve_round(round_, isolation="none")
    found = explain_job(round_, plan, "waits", corrections=6, isolation="none").corrections
    assert found is not None
    (end,) = (one for one in found.now if one.edits.edits[0].end == ("stops",))
    assert end.beside_plan is False
