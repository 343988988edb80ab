"""A plan as a table, and as BindRequests of KAI."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import jsonschema
import pytest
import yaml

from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Reason, Task
from placewright.instances.documents.round import Round
from placewright.instances.exporters.csv_table import COLUMNS, plan_csv
from placewright.instances.exporters.kubernetes import UNTRIED, bind_requests
from tests.instances.exporters.test_kubernetes_script import gated, planned
from tests.instances.kubernetes.dumps import convert, node

CRD = (
    Path(__file__).parents[4]
    / "shared/data/live/kubernetes/KAI-Scheduler"
    / "deployments__kai-scheduler__crds__scheduling.run.ai_bindrequests.yaml"
)


def of_jobs(*names):
    jobs = [{"name": name, "options": [{"groups": [{"gpu": 1}]}]} for name in names]
    hosts = [{"name": "h0", "gpus": 8, "gpu_model": "A"}]
    return Round.model_validate({"cluster": {"hosts": hosts}, "jobs": jobs})


def test_a_row_per_task_and_one_per_job_that_waits():
    tasks = tuple(Task(index=i, host=f"h{i}", gpus=(0, 1)) for i in range(2))
    plan = Plan(
        decisions=(
            Decision(job="a", decision=DecisionKind.START, option=0, tasks=tasks),
            Decision(job="b", decision=DecisionKind.WAIT, reason=Reason.QUOTA),
        )
    )
    rows = list(csv.DictReader(io.StringIO(plan_csv(of_jobs("a", "b"), plan))))
    assert tuple(rows[0]) == COLUMNS
    assert [(r["job"], r["task"], r["host"], r["gpus"]) for r in rows] == [
        ("a", "0", "h0", "0 1"),
        ("a", "1", "h1", "0 1"),
        ("b", "", "", ""),
    ]
    assert "quota" in rows[2]["reason"]


@pytest.mark.parametrize("name", ["=1+1", "+a", "-2", "@A1"])
def test_no_cell_can_start_a_formula(name):
    plan = Plan(decisions=(Decision(job=name, decision=DecisionKind.WAIT, reason=Reason.QUOTA),))
    (row,) = csv.DictReader(io.StringIO(plan_csv(of_jobs(name), plan)))
    assert row["job"] == f"'{name}"


def test_a_bind_request_per_pod_says_that_it_is_untried(tmp_path):
    round_, plan = planned(convert(tmp_path, node("n0"), node("n1"), gated("a", 8), gated("b", 8)))
    made, unsaid = bind_requests(round_, plan)
    assert unsaid == {}
    assert {item["spec"]["selectedNode"] for item in made["items"]} == {"n0", "n1"}
    assert [item["spec"]["podName"] for item in made["items"]] == ["a", "b"]
    assert all(item["metadata"]["annotations"] == {UNTRIED: "true"} for item in made["items"])
    if not CRD.is_file():
        pytest.skip("the schemas of KAI are not here")
    (version,) = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    for item in made["items"]:
        jsonschema.validate(item, version["schema"]["openAPIV3Schema"])
