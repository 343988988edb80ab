"""The bundled round `hived`: its answer, and what quotas without cells make of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from placewright.cli.app import main
from placewright.instances import verify as verification
from placewright.instances.checks.round import check_round
from placewright.instances.documents.plan import Plan, Reason
from placewright.instances.documents.round import Round
from placewright.instances.io.files import load_plan, load_round
from placewright.instances.verify import verify
from placewright.rounds import Changes, Engine, solve_round

NAME = "hived"
FILE = Path(verification.__file__).parents[1] / "library" / f"{NAME}.yaml"
QUOTAS = {"vc1": 4000, "vc2": 8000, "default": 8000}


def hosts(plan: Plan) -> dict[str, list[str]]:
    return {d.job: sorted({task.host for task in d.tasks}) for d in plan.decisions}


@pytest.mark.parametrize("backend", ["highs", "cp-sat", "cbc", "scip"])
def test_the_stated_answer_is_reached(backend):
    round_ = load_round(FILE)
    plan = solve_round(round_, backend=backend, isolation="none")
    assert verify(round_, plan).ok
    values = {term.name: term.value for term in plan.certificate.terms}
    stated = ", ".join(f"{name} {value}" for name, value in values.items())
    assert f"# Answer: {stated}\n" in FILE.read_text()
    assert plan.certificate.terms[0].gap == 0
    assert hosts(plan) == {
        "train": ["a1"],
        "tune": ["a2"],
        "guest": ["a3"],
        "notebook": ["a3"],
        "gang": ["b1", "b2"],
        "second": [],
    }
    assert plan.decisions[-1].reason is Reason.QUOTA


def test_quotas_that_count_gpus_break_the_guarantee_of_the_rack():
    """All hold no more than what they own, but the notebook is on one of the rack's hosts."""
    raw = yaml.safe_load(FILE.read_text())
    del raw["bindings"]
    raw["tenants"] = [{"name": name, "quota": {"gpu": f"{gpu}m"}} for name, gpu in QUOTAS.items()]
    jobs = {job["name"]: job for job in raw["jobs"]}
    jobs["notebook"]["running"] = {"tasks": [{"host": "b1", "gpus": [0, 1]}]}
    for name in ("train", "tune", "notebook"):
        jobs[name]["running"]["pinned"] = True
    raw["jobs"] = [jobs[name] for name in ("train", "tune", "notebook", "gang")]
    round_ = Round.model_validate(raw)
    check_round(round_)
    waiting = solve_round(round_, isolation="none").decisions[-1]
    assert waiting.reason is Reason.CAPACITY


def test_cells_are_bound_from_round_to_round():
    round_ = load_round(FILE)
    with Engine(round_, isolation="none") as engine:
        engine.round()
        bound = {(b.tenant, b.domain) for b in engine.state.bindings}
        assert bound == {("vc1", "a1"), ("vc2", "a2"), ("vc2", "a3"), ("default", "rack-of-2")}
        # The gang is gone, and its rack with it; vc1 gets its host back for the job that waits.
        plan = engine.round(Changes(removed=["gang", "train"]))
        assert verify(engine.round_solved, plan).ok
        assert hosts(plan)["second"] == ["a1"]
        bound = {(b.tenant, b.domain) for b in engine.state.bindings}
        assert bound == {("vc1", "a1"), ("vc2", "a2"), ("vc2", "a3")}


def test_the_command_line_solves_it_and_a_following_round(tmp_path, capfd):
    first = tmp_path / "plan.yaml"
    assert main(["solve", str(FILE), "-o", str(first)]) == 0
    assert main(["verify", str(FILE), str(first)]) == 0
    plan = load_plan(first)
    raw = yaml.safe_load(FILE.read_text())
    decided = {decision.job: decision for decision in plan.decisions}
    for job in raw["jobs"]:
        tasks = [task.model_dump(mode="json") for task in decided[job["name"]].tasks]
        if tasks:
            job["running"] = {"tasks": tasks}
    section = next(section for section in plan.sections if section["kind"] == "cells")
    raw["bindings"] = [
        {key: binding[key] for key in ("tenant", "cell", "domain")}
        for binding in section["bindings"]
    ]
    following = tmp_path / "following.yaml"
    following.write_text(yaml.safe_dump(raw))
    second = tmp_path / "second.yaml"
    assert main(["solve", str(following), "-o", str(second)]) == 0
    assert main(["verify", str(following), str(second)]) == 0
    again = {d.job: (d.decision.value, d.reason) for d in load_plan(second).decisions}
    assert again.pop("second") == ("wait", Reason.QUOTA)
    assert set(again.values()) == {("keep", None)}
    assert "second" in capfd.readouterr().out
