"""A round of Muri's traces of which most jobs wait: reasons are printed, wrong plans refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placewright.instances import load_plan
from placewright.instances.documents.plan import DecisionKind

TRACES = Path(__file__).parents[1] / "data" / "muri"


@pytest.fixture
def solved(run, tmp_path):
    """Return the files of a round of 40 jobs on 32 GPUs and its plan, and what was printed."""
    round_, plan = tmp_path / "round.json", tmp_path / "plan.json"
    drawn = ("--jobs", "40", "--gpus", "32", "-o", round_)
    assert run("convert", "muri", TRACES / "trace3.csv", *drawn).code == 0
    result = run("solve", round_, "-o", plan)
    assert result.code == 0, result.err
    return round_, plan, result.out


def test_each_job_that_waits_has_a_reason_that_is_printed(solved):
    _, plan, printed = solved
    waiting = [d for d in load_plan(plan).decisions if d.decision is DecisionKind.WAIT]
    assert waiting
    for decision in waiting:
        assert decision.reason is not None
        assert decision.reason.value in printed


@pytest.mark.parametrize(
    ("field", "rule"), [("period", "period"), ("members", "gpu_capacity"), ("offset", "offsets")]
)
def test_a_group_that_is_not_as_it_says_is_refused(run, solved, tmp_path, field, rule):
    round_, plan, _ = solved
    raw = json.loads(plan.read_text(encoding="utf-8"))
    (section,) = (section for section in raw["sections"] if section["kind"] == "groups")
    group = section["groups"][0]
    if field == "period":
        group["period"] -= 1
    elif field == "members":
        group["members"].pop()
    else:
        group["members"][0]["offset"] = group["members"][1]["offset"]
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(raw), encoding="utf-8")
    refused = run("verify", round_, wrong)
    assert refused.code == 7
    _, broken = refused.err.rsplit("breaks ", 1)
    assert rule in broken
