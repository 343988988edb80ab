"""The verb `bench`: a run, a page, a comparison, and plans of others that are checked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from placewright import write
from placewright.instances.benchmark import index as library
from placewright.instances.benchmark.index import best_plan, read_index

SOLVERS = ("--solver", "greedy", "--solver", "first-fit")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_suite_is_run_reported_and_compared(run, tmp_path):
    words = ("bench", "--only", "bundled-[mp]*", *SOLVERS, "--executor", "local:1", "-o")
    result = run(*words, "old.jsonl")
    assert result.code == 0, result.err
    assert result.out.startswith("Skipped: first-fit on 4 rounds (other policies than gang).\n")
    assert "greedy" in result.out
    rows = [json.loads(line) for line in Path("old.jsonl").read_text().splitlines()]
    assert len(rows) == 8
    assert run(*words, "old.jsonl").code == 0
    assert len(Path("old.jsonl").read_text().splitlines()) == 8

    assert run("bench", "report", "old.jsonl", "-o", "page.html").code == 0
    page = Path("page.html").read_text()
    assert "Performance profiles" in page
    assert not re.search(r"<script|src=|https?://", page)

    worse = [row | {"values": {}, "status": "no_plan"} for row in rows if row["values"]]
    Path("new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in worse))
    compared = run("bench", "compare", "old.jsonl", "new.jsonl")
    assert compared.code == 1
    assert "greedy on bundled-megatron: first term 100.000 % worse" in compared.out
    same = run("bench", "compare", "old.jsonl", "old.jsonl")
    assert (same.code, same.out) == (0, "8 compared, 0 worse, 0 better\n")


def test_rounds_are_written_for_solvers_of_ones_own(run):
    assert run("bench", "rounds", "--only", "bundled-pools", "-o", "rounds").code == 0
    assert run("validate", "rounds/bundled-pools.json").code == 0


def test_a_better_plan_is_accepted_and_entered(run, monkeypatch, tmp_path):
    instance = read_index()["bundled-pools"]
    home = tmp_path / "library"
    home.mkdir()
    known = instance.best[0]
    worse = known.model_copy(update={"value": known.value - 1000})
    older = instance.model_copy(update={"best": (worse, *instance.best[1:])})
    library.write_index([older], home / "index.json")
    defaults = {"read_index": (home / "index.json",), "write_index": (home / "index.json",)}
    for name, values in defaults.items():
        monkeypatch.setattr(getattr(library, name), "__defaults__", values)
    monkeypatch.setattr(library.write_plan, "__defaults__", (home,))
    write(best_plan(instance), tmp_path / "bundled-pools.json")
    result = run("bench", "submit", "bundled-pools.json", "--by", "Ada, by hand", "--enter")
    assert result.code == 0, result.err
    assert result.out == (
        "bundled-pools.json: accepted, better than the best known plan for bundled-pools: "
        f"value {known.value:,}, known {known.value - 1000:,}\n"
    )
    entered = library.read_index()["bundled-pools"]
    assert entered.found is not None
    assert entered.found.by == "Ada, by hand"
    assert (home / "plans" / "bundled-pools.json.xz").exists()
    again = run("bench", "submit", "bundled-pools.json")
    assert "valid, but not new for bundled-pools" in again.out


def test_a_forged_plan_is_refused_and_the_rule_named(run, tmp_path):
    instance = read_index()["bundled-pools"]
    plan = best_plan(instance)
    first = next(one for one in plan.decisions if one.tasks)
    twin = next(one for one in plan.decisions if one.job != first.job and one.tasks)
    there = tuple(task.model_copy(update={"host": first.tasks[0].host}) for task in twin.tasks)
    forged = [
        one.model_copy(update={"tasks": there}) if one is twin else one for one in plan.decisions
    ]
    write(plan.model_copy(update={"decisions": tuple(forged)}), tmp_path / "bundled-pools.json")
    result = run("bench", "submit", "bundled-pools.json")
    assert result.code == 7
    assert "bundled-pools.json: refused, not a plan for bundled-pools\n  " in result.out


def test_a_plan_of_an_unknown_round_is_refused(run, tmp_path):
    plan = best_plan(read_index()["bundled-pools"]).model_copy(update={"round": "0" * 64})
    write(plan, tmp_path / "bundled-pools.json")
    result = run("bench", "submit", "bundled-pools.json")
    assert result.code == 3
    assert "is of no round of the library" in result.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "-o: missing"),
        (("--solver", "gredy", "-o", "a"), "--solver: gredy: expected one of"),
        (("--solver", "greedy", "--command", "x {round}", "-o", "a"), "without --solver"),
        (("--command", "{round}", "-o", "a"), "expected a program"),
        (("--command", "mine {round} {plan} {cores}", "-o", "a"), "expected a program"),
        (("submit", "--by", "", "plan.json"), "--by: expected 1 to 500 characters"),
        (("--only", "bundled-pool", "-o", "a"), "did you mean bundled-pools?"),
        (("--solver", "greedy", "--executor", "there", "-o", "a"), "--executor: there"),
    ],
)
def test_wrong_usage_is_told(words, said, run):
    result = run("bench", *words)
    assert result.code in (2, 3)
    assert said in result.err
