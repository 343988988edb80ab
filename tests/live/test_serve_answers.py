"""The service answers with plans, verdicts, explanations, and one clear error."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest
from fastapi.testclient import TestClient

from placewright import load_round, verify
from placewright.instances.io.files import json_text, parse_plan
from placewright.live.serve.app import make_app
from placewright.live.serve.settings import Settings

TOKEN = "a-token-of-the-tests"
LIBRARY = files("placewright.instances") / "library"


def bundled(name: str) -> str:
    return json_text(load_round(str(LIBRARY / f"{name}.yaml")))


@pytest.fixture(scope="module")
def client():
    app = make_app(Settings(token=TOKEN, seconds=5.0))
    with TestClient(app, base_url="http://localhost") as made:
        made.headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        yield made


@pytest.fixture(scope="module")
def solved(client):
    answer = client.post("/v1alpha2/solve", content=bundled("quickstart"))
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_round_gets_its_verified_plan(solved):
    round_ = load_round(str(LIBRARY / "quickstart.yaml"))
    plan = parse_plan(solved)
    assert verify(round_, plan).ok
    assert plan.certificate is not None
    assert plan.certificate.terms[0].value == 90_400


def test_a_plan_is_checked(client, solved):
    round_ = json.loads(bundled("quickstart"))
    verdict = client.post("/v1alpha2/verify", json={"round": round_, "plan": solved, "bound": True})
    assert verdict.status_code == 200
    assert verdict.json()["valid"]
    assert verdict.json()["bounds"][0]["value"] == 90_400
