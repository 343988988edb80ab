"""All waiting jobs, by what they wait for; and explanations as documents."""

from __future__ import annotations

import json
from pathlib import Path

from placewright.explain.document import explanation_document, kinds_document
from placewright.explain.explain_job import explain_job
from placewright.explain.explanation import Verdict
from placewright.explain.kinds import explain_all
from placewright.instances.io.files import load_round
from placewright.rounds import solve_round

QUICKSTART = str(Path(__file__).parents[2] / "instances" / "library" / "quickstart.yaml")


def test_jobs_that_wait_for_the_same_are_one_kind() -> None:
    round_ = load_round(QUICKSTART)
    first = next(job for job in round_.jobs if job.name == "homework")
    more = tuple(first.model_copy(update={"name": f"more-{k}", "weight": k}) for k in range(2))
    round_ = round_.model_copy(update={"jobs": (*round_.jobs, *more)})
    plan = solve_round(round_, isolation="none")
    kinds = explain_all(round_, plan, isolation="none")
    waiting = {one.job for one in plan.decisions if one.decision == "wait"}
    assert sorted(name for kind in kinds for name in kind.jobs) == sorted(waiting)
    (same,) = (kind for kind in kinds if "homework" in kind.jobs)
    assert same.jobs == ("homework", "more-0", "more-1")
    assert same.milli_gpu == 24_000
    assert same.explanation.verdict is Verdict.NEVER_WITHIN_RULES
    sizes = [kind.milli_gpu for kind in kinds]
    assert sizes == sorted(sizes, reverse=True)
    document = json.loads(json.dumps(kinds_document(kinds, "0" * 64)))
    assert [group["milli_gpu"] for group in document["groups"]] == sizes


def test_an_explanation_is_a_json_document() -> None:
    round_ = load_round(QUICKSTART)
    plan = solve_round(round_, isolation="none")
    found = explain_job(round_, plan, "pretrain-next", isolation="none")
    document = json.loads(json.dumps(explanation_document(found, "0" * 64)))
    assert document["verdict"] == "others_instead"
    assert document["conflict"][0] == {
        "stratum": "asks",
        "kind": "gpu",
        "amount": 8000,
        "text": "8 GPUs per task",
    }
    assert document["proof"]["minimal"]
    assert document["places"][0]["level"] == "rack"
    assert document["cost"]["term"] == "value"
