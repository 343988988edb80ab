"""`placewright verify` and `placewright validate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placewright.instances.generators.gang import generate_cluster, generate_round
from placewright.instances.io.files import load_plan, write
from placewright.instances.verify import rule_ids

Raw = dict[str, object]


def rewrite(path: Path, change) -> None:
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))


def test_a_valid_plan_is_one_line(run, round_file, plan_file):
    result = run("verify", round_file, plan_file)
    expected = f"{plan_file}: valid, a plan for round easy-64-30-1\n"
    assert result == (0, expected, "")


def test_verbose_lists_every_rule_and_term(run, round_file, plan_file):
    result = run("verify", round_file, plan_file, "-v")
    assert result.code == 0
    assert not result.err
    for rule in rule_ids():
        assert rule in result.out
    assert "violation" not in result.out
    assert "recomputed" in result.out
    assert "claimed" in result.out


def test_a_plan_without_certificate_is_checked_without_its_rules(run, round_file, plan_file):
    rewrite(plan_file, lambda raw: raw.update(certificate=None, round=None))
    result = run("verify", round_file, plan_file, "--verbose")
    assert result.code == 0
    assert "certificate_value" not in result.out


def test_a_broken_plan_exits_7_and_names_the_rule(run, round_file, plan_file):
    rewrite(plan_file, lambda raw: raw["decisions"].pop(0))
    result = run("verify", round_file, plan_file)
    assert result.code == 7
    assert result.out.startswith(f"{plan_file}: not valid, 1 violation\n")
    assert "[one_decision]" in result.out
    assert result.err.startswith(f"placewright: {plan_file} breaks one_decision; expected")
    assert result.err.count("\n") == 1


def test_what_a_plan_says_is_told_apart_from_what_it_does(run, round_file, plan_file):
    def lie(raw: Raw) -> None:
        waits = [one for one in raw["decisions"] if one["decision"] == "wait"]
        raw["decisions"] = [one for one in raw["decisions"] if one not in waits[1:]]
        waits[0]["reason"] = "refused"
        raw["certificate"]["terms"][0]["value"] += 1

    rewrite(plan_file, lie)
    result = run("verify", round_file, plan_file, "--bound", "--time-limit", "1")
    assert result.code == 12
    assert f"{plan_file}: a valid placement for round" in result.out
    assert "Bounds, proven now" in result.out
    assert result.err.startswith(f"placewright: {plan_file} breaks reason, certificate_value;")
    result = run("verify", round_file, plan_file, "--bound", "--format", "json")
    found = json.loads(result.out)
    assert (result.code, found["valid"], found["placement_valid"]) == (12, False, True)
    assert [bound["name"] for bound in found["bounds"]] == list(found["terms"])
    assert run("audit", round_file, plan_file, "--time-limit", "1").code == 0
    assert run("export", "csv", round_file, plan_file).code == 12


def test_many_violations_are_listed_in_part_unless_all_are_asked(run, round_file, plan_file):
    def haunt(raw: Raw) -> None:
        raw["decisions"] = [{"job": f"ghost-{i}", "decision": "wait"} for i in range(30)]

    rewrite(plan_file, haunt)
    result = run("verify", round_file, plan_file)
    assert result.code == 7
    assert "more violations; --verbose lists all of them" in result.out
    assert "more violations" not in run("verify", round_file, plan_file, "-v").out


def test_json_is_one_object(run, round_file, plan_file):
    result = run("verify", round_file, plan_file, "--format", "json")
    assert (result.code, result.err) == (0, "")
    found = json.loads(result.out)
    assert set(found) == {"valid", "placement_valid", "violations", "unverified", "terms"}
    assert (found["valid"], found["violations"], found["unverified"]) == (True, [], [])
    assert list(found["terms"]) == ["value", "disruption", "spread", "opened"]


def test_json_has_each_violation_by_rule_path_and_message(run, round_file, plan_file):
    rewrite(plan_file, lambda raw: raw["decisions"].pop(0))
    result = run("verify", round_file, plan_file, "--format", "json")
    assert result.code == 7
    found = json.loads(result.out)
    assert not found["valid"]
    (violation,) = found["violations"]
    assert set(violation) == {"rule", "path", "message"}
    assert (violation["rule"], violation["path"]) == ("one_decision", "decisions")


def test_json_says_what_is_taken_as_claimed(run, round_file, plan_file):
    def claim(raw: Raw) -> None:
        term = raw["certificate"]["terms"][0]
        term.update(bound=term["value"], claimed=term["value"], proof="claimed", gap=0)
        raw["certificate"]["gap"] = 0

    rewrite(plan_file, claim)
    found = json.loads(run("verify", round_file, plan_file, "--format", "json").out)
    assert (found["valid"], found["unverified"]) == (True, ["certificate.terms[0].bound"])
    rewrite(plan_file, lambda raw: raw.update(certificate=None, round=None))
    found = json.loads(run("verify", round_file, plan_file, "--format", "json").out)
    assert (found["valid"], found["unverified"]) == (True, ["round", "certificate"])


def test_json_and_verbose_exclude_one_another(run, round_file, plan_file):
    result = run("verify", round_file, plan_file, "--format", "json", "-v")
    assert (result.code, result.out) == (2, "")
    assert "--verbose: expected with --format text only" in result.err


def test_a_wrong_claim_stands_beside_the_recomputed_value(run, round_file, plan_file):
    def boast(raw: Raw) -> None:
        raw["certificate"]["terms"][0]["value"] = 123_456_789

    rewrite(plan_file, boast)
    result = run("verify", round_file, plan_file, "-v")
    assert result.code == 12
    assert "123,456,789" in result.out
    assert "certificate_value" in result.said


def test_a_plan_for_another_round_exits_3(run, tmp_path, plan_file):
    other = tmp_path / "other.json"
    write(generate_round(64, 30, seed=2), other)
    result = run("verify", other, plan_file)
    assert result.code == 3
    assert not result.out
    assert result.err.startswith(f"placewright: {plan_file}: round: ")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("place", [0, 1])
def test_an_unreadable_file_exits_3(run, round_file, plan_file, tmp_path, place):
    files = [round_file, plan_file]
    files[place] = tmp_path / "missing.json"
    result = run("verify", *files)
    assert result.code == 3
    assert not result.out
    assert "missing.json" in result.said


def test_a_round_in_place_of_a_plan_exits_3(run, round_file):
    result = run("verify", round_file, round_file)
    assert result.code == 3
    assert "expected Plan" in result.said


def test_validate_says_what_each_kind_holds(run, round_file, plan_file, tmp_path):
    cluster_file = tmp_path / "cluster.yaml"
    write(generate_cluster(128), cluster_file)
    jobs = len(load_plan(plan_file).decisions)
    for path, text in (
        (round_file, "valid Round, 64 GPUs (64 A100) on 8 hosts"),
        (cluster_file, "valid Cluster, 128 GPUs (96 A100, 32 V100) on 16 hosts"),
        (plan_file, f"valid Plan, {jobs} jobs"),
    ):
        result = run("validate", path)
        assert result.code == 0
        assert result.out.startswith(f"{path}: {text}")
        assert result.out.count("\n") == 1
        assert not result.err


def test_validate_names_the_place_of_a_fault(run, round_file):
    def shrink(raw: Raw) -> None:
        raw["jobs"][-1]["options"][0]["groups"][0]["count"] = -1

    rewrite(round_file, shrink)
    result = run("validate", round_file)
    assert result.code == 3
    assert not result.out
    assert ".options[0].groups[0].count" in result.said
    assert "-1" in result.said


def of_tiny_tasks(count: int) -> Raw:
    group = {"gpu": "8m"}
    return {
        "apiVersion": "placewright/v1alpha2",
        "kind": "Round",
        "cluster": {"hosts": [{"name": "h", "gpus": 8, "gpu_model": "A100"}]},
        "jobs": [{"name": f"j{i}", "options": [{"groups": [group]}]} for i in range(count)],
    }


@pytest.mark.parametrize("verb", [("validate",), ("show",), ("solve", "--time-limit", "0")])
def test_quantities_of_another_unit_are_warned_of(run, tmp_path, verb):
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(of_tiny_tasks(7)))
    result = run(*verb, path)
    assert result.code == 0
    assert result.err.splitlines() == [
        *(
            f"placewright: warning: jobs[{i}].options[0].groups[0].gpu: 8m: less than 0.05 of a "
            "GPU; is the unit meant?"
            for i in range(5)
        ),
        "placewright: warning: 2 more quantities like these",
    ]


def test_a_resource_that_nobody_has_is_warned_of_and_why_its_job_waits(run, tmp_path):
    path = tmp_path / "typo.json"
    group = {"count": 2, "gpu": 8, "resources": {"powr_w": 5}}
    pool = {"resource": "power_w", "capacity": 10}
    path.write_text(
        json.dumps(
            {
                "apiVersion": "placewright/v1alpha2",
                "kind": "Round",
                "cluster": {
                    "hosts": [{"name": "h", "gpus": 8, "gpu_model": "H100"}],
                    "pools": [pool],
                },
                "jobs": [{"name": "j", "options": [{"groups": [group]}]}],
            }
        )
    )
    result = run("solve", path, "-o", tmp_path / "plan.json")
    assert result.err.splitlines()[0] == (
        "placewright: warning: jobs[0].options[0].groups[0].resources.powr_w: 5: "
        "no host and no pool has any; is power_w meant?"
    )
    assert "at most 0 of 2 tasks fit even when all is empty (0 of powr_w free" in " ".join(
        result.out.split()
    )
    assert run("verify", path, tmp_path / "plan.json").code == 0
