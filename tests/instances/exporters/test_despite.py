"""What has a hard caveat is not acted on unless somebody says so, nor is what depends on it."""

from __future__ import annotations

from typing import Any

import pytest

from placewright import Plan, Round, solve_round
from placewright.cli.app import main
from placewright.instances.documents.caveats import Caveat, annotation_of
from placewright.instances.documents.plan import DecisionKind
from placewright.instances.exporters.kueue import kueue_script
from placewright.instances.exporters.needs import obeying
from placewright.instances.exporters.slurm import slurm_script, slurm_steps
from placewright.instances.io.files import write
from tests.support.slurm_dumps import convert, job

SPREAD = annotation_of([Caveat(rule="spread", text="topology spread is not read")])
WISH = annotation_of([Caveat(rule="wish", text="wishes are not read", hard=False)])


PAIRED = ["X NV PIX PIX", "NV X PIX PIX", "PIX PIX X NV", "PIX PIX NV X"]
ALIKE = ["X NV NV NV", "NV X NV NV", "NV NV X NV", "NV NV NV X"]


def preempting(*, notes: dict[str, str], of_host: dict[str, str] | None = None) -> Round:
    """`high` preempts `low`, `small` starts beside it."""
    running = {"tasks": [{"index": 0, "host": "h0", "gpus": [0, 1]}]}

    def one(name: str, gpu: int, priority: int, **more: Any) -> dict[str, Any]:
        options = [{"groups": [{"gpu": gpu}]}]
        return {"name": name, "priority": priority, "options": options, **more}

    return Round.model_validate(
        {
            "cluster": {
                "hosts": [
                    {"name": "h0", "gpus": 2, "gpu_model": "A", "annotations": of_host or {}},
                    {"name": "h1", "gpus": 1, "gpu_model": "A"},
                ]
            },
            "jobs": [
                one("high", 2, 5, annotations={"slurm/job": "2", **notes}),
                one("low", 2, 0, running=running, annotations={"slurm/job": "1"}),
                one("small", 1, 0, annotations={"slurm/job": "3"}),
            ],
        }
    )


def kinds(plan: Plan) -> dict[str, DecisionKind]:
    return {one.job: one.decision for one in plan.decisions}


DONE = {"high": "start", "low": "preempt", "small": "start"}
LEFT = {"high": "wait", "low": "keep", "small": "start"}


@pytest.mark.parametrize(
    ("notes", "despite", "expected"),
    [
        ({}, (), DONE),
        (WISH, (), DONE),
        (SPREAD, (), LEFT),
        (SPREAD, ("wish",), LEFT),
        (SPREAD, ("spread",), DONE),
    ],
)
def test_a_job_with_a_hard_caveat_waits_and_nobody_stops_for_it(notes, despite, expected):
    round_ = preempting(notes=notes)
    plan = solve_round(round_, isolation="none")
    left = obeying(round_, plan, despite)
    assert kinds(left.plan) == expected
    assert bool(left.lines) is (expected == LEFT)
    steps = slurm_steps(round_, left.plan)
    assert {one.job for one in steps.steps if one.commands} == (
        {"2", "3"} if expected == LEFT else {"1", "2", "3"}
    )


def test_a_hard_caveat_of_a_host_is_one_of_who_would_go_there():
    round_ = preempting(notes={}, of_host=SPREAD)
    left = obeying(round_, solve_round(round_, isolation="none"))
    assert kinds(left.plan) == LEFT
    first = "not done: 1 job (high): topology spread is not read; "
    more = "not done: 1 job (low): depends on these"
    assert left.lines == (f"{first}--despite spread does it all the same", more)


def test_comments_and_events_say_what_is_not_obeyed(tmp_path):
    asks = {"tres_per_node": "gpu:8", "contiguous": True}
    round_ = convert(tmp_path, [job(1, **asks), job(2, **asks, node_count=9)]).round
    plan = solve_round(round_, isolation="none")
    script = slurm_script(round_, obeying(round_, plan).plan).text
    assert "ReqNodeList=h" not in script
    left = slurm_steps(round_, obeying(round_, plan).plan).steps[0]
    assert left.does == "leave 1 to Slurm"
    assert [one.held for one in left.commands] == [True, True]
    assert "AdminComment=placewright: waits:" in left.commands[1].words[-1]
    assert "AdminComment=placewright: waits: as far as the round knows: --contiguous" in script
    assert "; as far as the round knows: --contiguous is not read" in script
    assert "start 1 on" in str(slurm_steps(round_, plan).steps)
    assert not kueue_script(round_, plan).calls


@pytest.mark.parametrize(
    ("rows", "asked", "gpus", "waits"),
    [
        (PAIRED, {"required": "nvlink"}, 2, True),
        (PAIRED, {}, 2, False),
        (PAIRED, {"required": "pcie"}, 4, False),  # which are all GPUs of the host
        (ALIKE, {"required": "nvlink"}, 2, False),
    ],
)
def test_who_needs_some_gpus_rather_than_others_is_not_sent_where_none_are_named(
    rows, asked, gpus, waits, tmp_path
):
    classes = {
        "NV": {"kind": "nvlink", "bandwidth_mbps": 400},
        "PIX": {"kind": "pcie", "bandwidth_mbps": 100},
    }
    host = {"name": "h0", "gpus": 4, "gpu_model": "A", "gpu_links": "m"}
    links = [{"name": "m", "classes": classes, "gpus": rows}]
    group = {"gpu": gpus, "gpu_links": asked}
    round_ = Round.model_validate(
        {
            "cluster": {"gpu_links": links, "hosts": [host]},
            "policy": {"terms": ["value", "gpu_links"]},
            "jobs": [{"name": "new", "options": [{"groups": [group]}]}],
        }
    )
    plan = solve_round(round_, isolation="none")
    assert kinds(plan) == {"new": "start"}
    left = obeying(round_, plan)
    assert kinds(left.plan) == {"new": "wait" if waits else "start"}
    assert kinds(obeying(round_, plan, ["gpu-links"]).plan) == {"new": "start"}
    said = "not done: 1 job (new): which GPUs of a host it gets is not told, and not all are joined"
    assert [line.startswith(said) for line in left.lines] == [True] * waits
    files = [str(tmp_path / name) for name in ("r.json", "p.json", "plan.csv")]
    write(round_, files[0])
    write(plan, files[1])
    assert main(["export", "csv", *files[:2], "-o", files[2]]) == 0
    assert "start" in (tmp_path / "plan.csv").read_text()
