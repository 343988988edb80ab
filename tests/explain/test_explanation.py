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
    explanation = explain_job(
        load_round(str(LIBRARY / "pair.yaml")), None, "pair", isolation="none"
    )
    assert explanation.verdict is Verdict.NEVER
    assert sentences(explanation) == ["2 GPUs per task", "4 GPUs per task"]
    assert explanation.proof is not None
    assert (explanation.proof.blocked, explanation.proof.minimal) == ("certified", True)


BUNDLED = {
    "pair": ("pair", Verdict.NEVER),
    "homework": ("quickstart", Verdict.NEVER_WITHIN_RULES),
    "newest": ("why-jobs-wait", Verdict.NOT_UNTIL_HOSTS_ARE_BACK),
    "consolidated": ("helios-7-7-7", Verdict.NOT_NOW),
    "peer": ("why-jobs-wait", Verdict.OTHERS_INSTEAD),
}


@pytest.mark.parametrize("job", BUNDLED)
def test_a_bundled_round_has_each_verdict(job: str) -> None:
    name, verdict = BUNDLED[job]
    round_ = load_round(str(LIBRARY / f"{name}.yaml"))
    plan = solve_round(round_, isolation="none")
    explanation = explain_job(round_, plan, job, isolation="none")
    assert explanation.verdict is verdict
    assert explanation.proof is not None
    assert (explanation.proof.blocked, explanation.proof.minimal) == ("certified", True)


def test_a_job_that_would_delay_a_reservation_could_start_but_for_that() -> None:
    runs = {"started": 900, "tasks": [{"host": "h0", "gpus": [0, 1]}]}
    two, four = ({"options": [{"groups": [{"gpu": n}]}]} for n in (2, 4))
    jobs = [
        {"name": "old", "expected_runtime_s": 600, "running": runs, **two},
        {"name": "first", "submitted": 10, "expected_runtime_s": 600, **four},
        {"name": "long", "submitted": 20, "expected_runtime_s": 6000, **two},
    ]
    round_ = tiny(jobs, now=1000, policy={"backfill": {"depth": 1}})
    plan = solve_round(round_, isolation="none")
    explanation = explain_job(round_, plan, "long", isolation="none")
    assert explanation.verdict is Verdict.HELD_FOR_RESERVATION
    alone = explain_job(round_, None, "long", isolation="none")
    assert (alone.verdict, alone.held_by) == (explanation.verdict, explanation.held_by)


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
            "job pretrain starts (16 GPUs, of higher priority, tenant research)",
            "3 jobs of lower priority start: finetune, sweep and notebooks "
            + "(13.2 GPUs on hosts that could hold a task)",
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
