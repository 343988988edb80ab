"""The service answers with plans, verdicts, explanations, promises, and one clear error."""

from __future__ import annotations

import json
import time

import pytest
from jsonschema import Draft202012Validator

from placewright import Engine, verify
from placewright.instances import parse_round
from placewright.instances.documents.job import Job
from placewright.instances.io.files import parse_plan

ARRIVING = {
    "name": "arriving",
    "options": [{"groups": [{"gpu": 4}]}],
    "deadline": {"work_s": 7200, "due": [{"at": 40_000, "value": 10}, {"at": 80_000, "value": 4}]},
}


def test_a_round_gets_its_verified_plan(solved, bundled):
    plan = parse_plan(solved)
    assert verify(parse_round(bundled("quickstart")), plan).ok
    assert plan.certificate is not None
    assert plan.certificate.terms[0].value == 90_400


@pytest.mark.nightly
def test_the_time_of_a_search_is_at_most_that_of_the_service(serve, bundled):
    with serve(seconds=0.0) as client:
        plan = client.post("/v1alpha2/solve", json=bundled("quickstart")).json()
    assert plan["certificate"]["terms"][0]["claimed"] is None  # the greedy plan


@pytest.mark.nightly
def test_fields_of_a_given_policy_hold_for_rounds_that_are_sent(serve, bundled):
    with serve(policy={"terms": ["disruption", "value"]}) as client:
        round_ = bundled("quickstart")
        plan = client.post("/v1alpha2/solve", json=round_).json()
        checked = client.post("/v1alpha2/verify", json={"round": round_, "plan": plan}).json()
    assert [one["name"] for one in plan["certificate"]["terms"]] == ["disruption", "value"]
    assert checked["valid"]


def test_a_plan_is_checked(client, solved, bundled):
    asked = {"round": bundled("quickstart"), "plan": solved, "bound": True}
    verdict = client.post("/v1alpha2/verify", json=asked).json()
    assert verdict["valid"]
    assert verdict["bounds"][0]["value"] == 90_400


def test_a_plan_that_breaks_a_rule_is_not_valid(client, solved, bundled):
    moved = json.loads(json.dumps(solved))
    started = next(one for one in moved["decisions"] if one["decision"] == "start")
    started["tasks"][0]["host"] = "nowhere"
    asked = {"round": bundled("quickstart"), "plan": moved}
    verdict = client.post("/v1alpha2/verify", json=asked).json()
    assert not verdict["valid"]
    assert "nowhere" in verdict["violations"][0]["message"]


def test_a_waiting_job_is_explained(client, solved, bundled):
    asked = {"round": bundled("quickstart"), "plan": solved, "job": "homework", "corrections": 1}
    found = client.post("/v1alpha2/explain", json=asked).json()
    assert found["verdict"] == "never_within_rules"
    assert "quota" in {fact["kind"] for fact in found["conflict"]}


def test_all_waiting_jobs_are_explained(client, solved, bundled):
    asked = {"round": bundled("quickstart"), "plan": solved}
    found = client.post("/v1alpha2/explain", json=asked).json()
    named = {job for group in found["groups"] for job in group["jobs"]}
    assert named == {"colossus", "pretrain-next", "homework", "render"}


@pytest.fixture(scope="module")
def leases():
    return {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Round",
        "cluster": {"hosts": [{"name": "h[0-1]", "gpus": 8, "gpu_model": "H100"}]},
        "jobs": [],
        "policy": {"formulation": "deadline"},
        "leases": {"length_s": 3600, "horizon": 24},
    }


def test_a_job_is_promised_what_an_engine_would_promise(client, leases):
    plan = client.post("/v1alpha2/solve", json=leases).json()
    answer = client.post("/v1alpha2/admit", json={"round": leases, "plan": plan, "job": ARRIVING})
    assert answer.status_code == 200, answer.text
    with Engine(parse_round(leases), time_limit=5.0) as engine:
        engine.round()
        expected = engine.admit(Job.model_validate(ARRIVING))
    assert expected.promise is not None
    assert answer.json()["promise"] == expected.promise.model_dump()
    assert answer.json()["runs"] == [list(run) for run in expected.runs]


def test_jobs_admitted_since_the_plan_are_kept(client, leases):
    plan = client.post("/v1alpha2/solve", json=leases).json()
    due = [{"at": 10_800, "value": 1}]
    admitted = []
    for number in range(3):
        job = {
            "name": f"whole-{number}",
            "options": [{"groups": [{"count": 2, "gpu": 8}]}],
            "deadline": {"work_s": 3600, "due": due},
        }
        asked = {"round": leases, "plan": plan, "admitted": admitted, "job": job}
        answer = client.post("/v1alpha2/admit", json=asked).json()
        if number < 2:  # two leases are left before the due time
            assert answer["promise"] == due[0]
            admitted.append(answer["job"])
    assert answer["promise"] is None
    assert set(answer["in_the_way"]) == {"whole-0", "whole-1"}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"job": {**ARRIVING, "tenant": "nobody"}}, "job.tenant"),
        ({"job": {**ARRIVING, "options": []}}, "job.options"),
        ({"job": {**ARRIVING, "deadline": None}}, "job.deadline"),
        ({"admitted": [ARRIVING]}, "job.name"),
        ({"admitted": [{**ARRIVING, "name": "b", "tenant": "nobody"}]}, "admitted[0].tenant"),
        ({"admitted": {}}, "admitted"),
    ],
)
def test_what_asks_for_a_promise_is_checked(client, leases, change, path):
    asked = {"round": leases, "job": ARRIVING, **change}
    answer = client.post("/v1alpha2/admit", json=asked)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == path


def test_a_policy_without_promises_admits_nobody(client, bundled):
    asked = {"round": bundled("quickstart"), "job": ARRIVING}
    answer = client.post("/v1alpha2/admit", json=asked)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == "round.policy.formulation"


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        (b"", 400, "empty"),
        (b"{", 400, "valid JSON"),
        (b"\xff", 400, "UTF-8"),
        (b"[" * 100 + b"]" * 100, 400, "levels"),
        (b"[]", 422, "apiVersion and kind"),
        (b'{"apiVersion": "placewright/v1alpha1", "kind": "Round"}', 422, "whole GPUs"),
        (b'{"apiVersion": "placewright/v1alpha2", "kind": "Plan"}', 422, "expected Round"),
    ],
)
def test_what_is_no_round_is_refused(client, body, status, expected):
    headers = {"Content-Type": "application/json"}
    answer = client.post("/v1alpha2/solve", content=body, headers=headers)
    assert answer.status_code == status
    assert answer.json()["kind"] == "Error"
    assert expected in answer.json()["message"]


def test_each_wrong_field_is_named(client, bundled):
    wrong = bundled("quickstart")
    wrong["jobs"][0]["tenant"] = "\x1b[31mnobody"
    wrong["jobs"][1]["options"][0]["groups"][0]["count"] = 0
    answer = client.post("/v1alpha2/solve", json=wrong)
    assert answer.status_code == 422
    errors = {one["path"]: one for one in answer.json()["errors"]}
    assert errors["jobs[1].options[0].groups[0].count"] == {
        "path": "jobs[1].options[0].groups[0].count",
        "value": "0",
        "expected": "expected at least 1",
    }
    assert "\x1b" not in answer.json()["message"]
    assert "\\x1b[31mnobody" in errors["jobs[0].tenant"]["value"]


def test_a_cluster_elsewhere_is_not_looked_for(client, bundled):
    asked = {**bundled("quickstart"), "cluster": {"ref": "/etc/passwd"}}
    answer = client.post("/v1alpha2/solve", json=asked)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == "cluster.ref"


@pytest.mark.parametrize(
    ("verb", "change", "path"),
    [
        ("verify", {"plan": None}, "plan"),
        ("verify", {"bound": 1}, "bound"),
        ("verify", {"other": 1}, "other"),
        ("explain", {"corrections": 51}, "corrections"),
        ("explain", {"job": 3}, "job"),
        ("explain", {"job": "nobody"}, "job"),
    ],
)
def test_what_is_asked_together_is_checked(client, solved, bundled, verb, change, path):
    asked = {"round": bundled("quickstart"), "plan": solved, **change}
    answer = client.post(f"/v1alpha2/{verb}", json=asked)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == path


def test_a_plan_of_another_round_is_refused(client, solved, bundled):
    asked = {"round": bundled("quickstart"), "plan": {**solved, "round": "0" * 64}}
    answer = client.post("/v1alpha2/verify", json=asked)
    assert answer.json()["errors"][0]["path"] == "plan.round"


def test_jobs_that_make_no_sense_may_wait(client, bundled):
    asked = bundled("quickstart")
    asked["jobs"].append({"name": "lost", "tenant": "no", "options": [{"groups": [{"gpu": 1}]}]})
    assert client.post("/v1alpha2/solve", json=asked).status_code == 422
    plan = client.post("/v1alpha2/solve?lenient=true", json=asked).json()
    assert {one["job"]: one["reason"] for one in plan["decisions"]}["lost"] == "invalid"
    assert client.post("/v1alpha2/solve?lenient=perhaps", json=asked).status_code == 422


def test_the_documents_are_the_openapi(client, solved, bundled):
    described = client.get("/openapi.json", headers={"Authorization": ""}).json()
    posts = {path: one["post"] for path, one in described["paths"].items()}
    assert set(posts) == {f"/v1alpha2/{verb}" for verb in ("solve", "verify", "explain", "admit")}

    def check(schema, value):
        whole = {**schema, "components": described["components"]}
        Draft202012Validator(whole).validate(value)

    solve = posts["/v1alpha2/solve"]
    json_of = "application/json"
    check(solve["requestBody"]["content"][json_of]["schema"], bundled("quickstart"))
    check(solve["responses"]["200"]["content"][json_of]["schema"], solved)


def test_unknown_paths_are_errors_like_all_others(client):
    answer = client.get("/nothing")
    assert answer.status_code == 404
    assert answer.json()["kind"] == "Error"


def test_metrics_and_page_show_the_last_round(serve, bundled):
    with serve(idle=True) as client:
        assert "No round" in client.get("/").text
        client.post("/v1alpha2/solve?show=false", json=bundled("quickstart"))
        assert "No round" in client.get("/").text
        client.post("/v1alpha2/solve", json=bundled("quickstart"))
        deadline = time.monotonic() + 60
        while "No round" in (page := client.get("/")).text:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert "colossus" in page.text
        assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
        metrics = client.get("/metrics").text
    lines = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line[0] != "#")
    assert lines["placewright_rounds_total"] == "1.0"
    assert lines["placewright_degraded_rounds_total"] == "0.0"
    assert lines['placewright_waiting_gpus{reason="quota"}'] == "24.0"
    assert lines['placewright_term_gap_ratio{term="value"}'] == "0.0"
    assert lines['placewright_free_domains{level="rack"}'] == "0.0"
    assert float(lines["placewright_stranded_gpus"]) > 0
    assert lines['placewright_answers_total{asked="solve",status="200"}'] == "2.0"
