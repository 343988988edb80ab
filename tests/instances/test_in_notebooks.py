"""What notebooks show: plans as data frames, and documents as tables of escaped text."""

from __future__ import annotations

import pytest

from placewright import Job, Round, explain_job, solve_round
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
