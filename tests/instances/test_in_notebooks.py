"""What notebooks show: plans as data frames, and documents as tables of escaped text."""

from __future__ import annotations

import pytest

from placewright import Job, Plan, Round, explain_job, solve_round
from placewright.instances.documents.html import html_table


@pytest.fixture(scope="module")
def solved():
    hosts = [{"name": "h0", "gpus": 4, "gpu_model": "A100"}]
    jobs = [Job("a", gpus=4), Job("b", gpus=8, tasks=2)]
    round_ = Round.model_validate({"cluster": {"hosts": hosts}, "jobs": jobs})
    return round_, solve_round(round_, isolation="none")


def test_a_plan_is_a_frame_with_a_row_for_each_job(solved):
    pytest.importorskip("pandas")
    frame = solved[1].to_frame()
    assert list(frame.columns) == ["decision", "option", "reason", "gpus", "hosts"]
    assert frame.loc["a"].to_dict() | {"reason": None} == {
        "decision": "start",
        "option": 0,
        "reason": None,
        "gpus": 4,
        "hosts": "h0",
    }
    assert frame.loc["b", "reason"] == "never_fits"


def test_a_plan_is_drawn_with_a_row_for_each_host_and_a_colour_for_each_job():
    pytest.importorskip("matplotlib").use("agg")
    tasks = {
        "a": [("h1", (0, 1)), ("h0", (3,))],
        "b": [("h0", (0,))],
        "c": [("h0", (0,))],
    }
    decisions = [
        {
            "job": job,
            "decision": "start",
            "option": 0,
            "tasks": [{"index": i, "host": h, "gpus": g} for i, (h, g) in enumerate(places)],
        }
        for job, places in tasks.items()
    ]
    axes = Plan.model_validate({"decisions": decisions}).plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["h0", "h1"]
    boxes = {
        (round(bar.get_x(), 2), round(bar.get_y() + 0.4), bar.get_facecolor())
        for bar in axes.patches
    }
    assert {(x, y) for x, y, _ in boxes} == {(-0.45, 0), (0, 0), (2.55, 0), (-0.45, 1), (0.55, 1)}
    assert len({colour for _, _, colour in boxes}) == 3
    assert [text.get_text() for text in axes.texts] == ["b", "c", "a", "a"]
    assert Plan(decisions=()).plot(axes) is axes


def test_documents_show_themselves(solved):
    round_, plan = solved
    assert "1 start, 1 wait" in plan._repr_html_()
    assert "<td>optimal</td>" in plan._repr_html_()
    assert "2 jobs, 0 of them running" in round_._repr_html_()
    assert "never" in explain_job(round_, plan, "b")._repr_html_()


def test_text_is_escaped():
    assert html_table("<a>", ("&",), [("<script>", None)]) == (
        "<table><caption>&lt;a&gt;</caption><tr><th>&amp;</th></tr>"
        "<tr><td>&lt;script&gt;</td><td></td></tr></table>"
    )
