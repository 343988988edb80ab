"""Explanations: verdicts of bundled rounds, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from placewright.explain.explain_job import explain_job
from placewright.explain.explanation import Explanation, Verdict
from placewright.instances.documents.round import Round
from placewright.instances.errors import InvalidInputError
from placewright.instances.io.files import load_round, parse_round
from placewright.rounds import solve_round

LIBRARY = Path(__file__).parents[2] / "instances" / "library"


def tiny(jobs: list[dict[str, Any]], **fields: Any) -> Round:
    """A round of one host of 4 GPUs."""
    return parse_round(
        {
            "apiVersion": "placewright/v1alpha2",
            "kind": "Round",
            "cluster": {"hosts": [{"name": "h0", "gpus": 4, "gpu_model": "A100"}]},
            "jobs": jobs,
            **fields,
        }
    )


def sentences(explanation: Explanation) -> list[str]:
    return [fact.text for fact in explanation.conflict]


def test_two_groups_that_fit_alone_and_not_together_can_never_run() -> None:
    groups = [{"name": "a", "gpu": 2}, {"name": "b", "gpu": 4}]
    round_ = tiny([{"name": "pair", "options": [{"groups": groups}]}])
    explanation = explain_job(round_, None, "pair", isolation="none")
    assert explanation.verdict is Verdict.NEVER
    assert sentences(explanation) == ["2 GPUs per task", "4 GPUs per task"]
    assert explanation.proof is not None
    assert (explanation.proof.blocked, explanation.proof.minimal) == ("certified", True)


QUICKSTART = {
    "colossus": (
        Verdict.NEVER,
        ["8 GPUs per task", "all 4 tasks start together", "tasks of a group lie in one rack"],
    ),
    "homework": (
        Verdict.NEVER_WITHIN_RULES,
        ["1 GPU per task", "all 8 tasks start together", "tenant students may hold 4 GPUs"],
    ),
    "pretrain-next": (
        Verdict.OTHERS_INSTEAD,
        [
            "8 GPUs per task",
            "all 2 tasks start together",
            "tasks of a group lie in one rack",
            "pretrain starts (16 GPUs, of higher priority, tenant research)",
            "3 jobs of lower priority start (13.2 GPUs, on hosts that could hold a task)",
        ],
    ),
}


@pytest.mark.parametrize("job", QUICKSTART)
def test_jobs_of_the_quickstart(job: str) -> None:
    round_ = load_round(str(LIBRARY / "quickstart.yaml"))
    plan = solve_round(round_, isolation="none")
    explanation = explain_job(round_, plan, job, isolation="none")
    assert (explanation.verdict, sentences(explanation)) == QUICKSTART[job]
    assert explanation.proof is not None
    assert explanation.proof.minimal


def test_a_job_that_does_not_wait_is_refused() -> None:
    round_ = tiny([{"name": "one", "options": [{"groups": [{"gpu": 1}]}]}])
    plan = solve_round(round_, isolation="none")
    with pytest.raises(InvalidInputError, match="by the plan"):
        explain_job(round_, plan, "one")
    with pytest.raises(InvalidInputError, match="unknown job"):
        explain_job(round_, None, "two")


def test_without_time_nothing_is_decided() -> None:
    round_ = tiny([{"name": "one", "options": [{"groups": [{"gpu": 8}]}]}])
    explanation = explain_job(round_, None, "one", time_limit=0, isolation="none")
    assert explanation.verdict is Verdict.UNDECIDED
    assert not explanation.conflict
