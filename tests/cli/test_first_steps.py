"""The verbs for first steps: `init` writes what can be solved, `examples` what is bundled."""

from __future__ import annotations

import pytest

from placewright import load_round, solve_round, verify
from placewright.instances.documents.policy import Policy
from placewright.instances.io.library import FOLDER, STARTERS, examples
from placewright.instances.io.yaml_json import parse_yaml
from placewright.instances.policies import POLICIES


def test_the_round_to_begin_from_is_solved_and_moves_a_job():
    round_ = load_round(STARTERS / "round.yaml")
    plan = solve_round(round_, isolation="none")
    assert verify(round_, plan).ok
    assert plan.certificate.status == "optimal"
    assert {decision.decision for decision in plan.decisions} == {"start", "migrate"}


def test_the_policy_to_begin_from_is_one():
    Policy.model_validate(parse_yaml((STARTERS / "policy.yaml").read_text()))


def test_every_bundled_round_says_what_it_shows():
    found = list(examples())
    assert {each.path for each in found} == set(FOLDER.glob("*.yaml"))
    assert all(each.source and each.answer and each.policy in POLICIES for each in found)


def test_init_replaces_no_file(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("init").code == 0
    assert load_round(tmp_path / "round.yaml").name == "my-round"
    again = run("init")
    assert again.code == 2
    assert "round.yaml: exists" in again.err
    assert run("init", "policy", "-o", "-").out == (STARTERS / "policy.yaml").read_text()


@pytest.mark.parametrize(("words", "code"), [(("quickstart",), 0), (("quickstrat",), 2)])
def test_examples_prints_a_round_by_its_name(run, words, code):
    result = run("examples", *words)
    assert result.code == code
    assert result.out == ((FOLDER / "quickstart.yaml").read_text() if code == 0 else "")
    assert "mast-regions  [geo]  MAST" in run("examples", "--policy", "geo").out
