"""Explanations under `stages`: against all plans of tiny rounds, and what a job waits for."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fuzz.play import read
from fuzz.policies.stages import POLICY
from fuzz.policy import TooManyPlansError
from placewright import InvalidInputError, explain_job, solve_round
from placewright.explain.explanation import Verdict
from placewright.explain.facts.fact import FACTS
from tests.support.examples import tried

RUNS = {"tasks": [{"host": "h", "gpus": [0]}], "started": 60}


def round_of(*jobs: dict[str, Any]) -> Any:
    hosts = [{"name": "h", "gpus": 2, "gpu_model": "A"}]
    policy = {"formulation": "stages", "terms": ["makespan"]}
    return read({"now": 100, "cluster": {"hosts": hosts}, "jobs": list(jobs), "policy": policy})


def job(name: str, seconds: int, gpu: int = 1000, count: int = 1, **more: Any) -> dict[str, Any]:
    stage = {"task_s": seconds, "after": more.pop("after", []), "gang": more.pop("gang", True)}
    group = {"gpu": gpu, "count": count}
    return {"name": name, "options": [{"groups": [group]}], "stage": stage, **more}


def test_a_job_waits_for_those_before_it_and_says_until_when() -> None:
    tasks = job("tasks", 30, count=4, after=["runs"], gang=False)
    behind = job("behind", 30, 2000, after=["runs", "tasks"])
    round_ = round_of(job("runs", 300, running=RUNS), tasks, behind, job("wide", 30, 2000))
    plan = solve_round(round_, isolation="none")
    (fact,) = explain_job(round_, None, "tasks", isolation="none").conflict
    assert fact.text == "after runs, which runs until 4m20 from now"
    assert fact.about == {"job": "runs", "at": 360}
    found = explain_job(round_, plan, "behind", corrections=3, isolation="none")
    assert [one.text for one in found.conflict] == [
        "after tasks, which is done 5m20 from now at the earliest"
    ]
    assert found.wait is not None
    assert found.wait.scheduled.start == found.wait.ready
    assert found.wait.after == "tasks"
    found = explain_job(round_, None, "wide", corrections=3, isolation="none")
    assert found.verdict is Verdict.NOT_NOW
    assert [one.kind for one in found.conflict] == ["gpu", "jobs"]
    assert found.corrections is not None
    assert [one.text for one in found.corrections.now] == [
        "ask 1 instead of 2 GPUs per task",
        "wait 4m20 until job runs has ended",
    ]


def test_a_policy_without_facts_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FACTS._parts, "stages")
    with pytest.raises(InvalidInputError, match=r"policy.formulation: stages: of this policy"):
        explain_job(round_of(job("one", 1)), None, "one")


def can_begin(raw: Any, name: str) -> bool:
    """Whether some plan has a job begin now beside what runs, if it waits for nobody."""
    asked = next(one for one in raw["jobs"] if one["name"] == name)
    if asked["stage"]["after"]:
        return False
    left = [one for one in raw["jobs"] if "running" in one or one is asked]
    return any(
        not judged.broken and decision["decision"] == "start"
        for judged in POLICY.plans(raw | {"jobs": left}, Random(0))
        for decision in judged.document()["decisions"]
        if decision["job"] == name
    )


@pytest.mark.parametrize("seed", range(tried(150)))
def test_a_job_could_begin_if_a_plan_has_it_begin(seed: int) -> None:
    raw = POLICY.draw(Random(seed))
    round_ = read(raw)
    for one in raw["jobs"]:
        if "running" in one:
            continue
        try:
            begins = can_begin(raw, one["name"])
        except TooManyPlansError:
            continue
        found = explain_job(round_, None, one["name"], isolation="none")
        assert (found.verdict is Verdict.COULD_START) == begins
        if not begins:
            assert found.proof is not None
            assert found.proof.minimal
            assert found.proof.blocked is not None
