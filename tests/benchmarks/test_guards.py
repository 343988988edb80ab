"""Runs of two versions compared: equal plans, values within tolerance, proofs and bounds kept."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from examples import by_day
from placewright.instances import parse_round

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def importable() -> Iterator[None]:
    """The guards, which are importable from the repository's root only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        yield


@pytest.fixture
def compare() -> ModuleType:
    return importlib.import_module("benchmarks.guards.compare")


@pytest.fixture
def main() -> Callable[[Sequence[str]], int]:
    function: Callable[[Sequence[str]], int] = importlib.import_module(
        "benchmarks.guards.__main__"
    ).main
    return function


@pytest.fixture
def rounds() -> ModuleType:
    return importlib.import_module("benchmarks.guards.rounds")


def rows_of(file: Path) -> dict[str, dict[str, Any]]:
    return run(*map(json.loads, file.read_text().splitlines()))


def row(name: str, value: int = 100_000, bound: int = 100_100, later: int = 50) -> dict[str, Any]:
    first = {
        "name": "value",
        "sense": "max",
        "value": value,
        "bound": bound,
        "proof": "certified",
        "certified": bound,
    }
    second = {**first, "name": "spread", "sense": "min", "value": later, "bound": 0}
    return {
        "round": name,
        "sha256": "a",
        "repeatable": True,
        "degraded": [],
        "status": "feasible",
        "terms": [first, second],
        "cpu_s": 1.0,
    }


def run(*rows: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["round"]: one for one in rows}


def test_equal_runs_have_no_failure(compare):
    rows = run(row("golden-a"), row("value-b"))
    found = compare.compared([rows, rows], deepcopy(rows))
    assert not found.failures
    assert (found.golden, found.skipped) == (1, 0)


def test_another_plan_of_a_golden_round_is_a_failure(compare):
    new = row("golden-a") | {"sha256": "b"}
    found = compare.compared([run(row("golden-a"))], run(new))
    (failure,) = found.failures
    assert failure.startswith("golden-a: the plan is another")


@pytest.mark.parametrize("other", [{"sha256": "b"}, {"repeatable": False}])
def test_a_round_that_the_baseline_does_not_repeat_is_left_out(compare, other):
    runs = [run(row("golden-a")), run(row("golden-a") | other)]
    found = compare.compared(runs, run(row("golden-a") | {"sha256": "c"}))
    assert not found.failures
    assert (found.golden, found.skipped) == (0, 1)


@pytest.mark.parametrize(("value", "fails"), [(99_960, False), (99_940, True), (100_090, False)])
def test_a_first_term_may_be_worse_by_the_tolerance_only(compare, value, fails):
    found = compare.compared([run(row("value-b"))], run(row("value-b", value)))
    assert bool(found.failures) == fails


def test_it_may_be_as_bad_as_the_worst_run_of_the_baseline(compare):
    runs = [run(row("value-b")), run(row("value-b", 99_000))]
    assert not compare.compared(runs, run(row("value-b", 98_990))).failures
    assert compare.compared(runs, run(row("value-b", 98_900))).failures


def test_a_later_term_that_is_worse_is_reported_unless_an_earlier_one_is_better(compare):
    base = [run(row("value-b"))]
    assert compare.compared(base, run(row("value-b", later=60))).later[0] == pytest.approx(0.2)
    assert compare.compared(base, run(row("value-b", 100_090, later=60))).later[0] == 0


def test_a_value_beyond_the_other_version_s_bound_is_a_failure(compare):
    base = [run(row("value-b"))]
    assert compare.compared(base, run(row("value-b", 100_200, 100_300))).failures
    assert compare.compared(base, run(row("value-b", 99_990, 99_995))).failures


def test_a_proof_that_is_a_claim_now_is_a_failure_and_a_looser_bound_is_reported(compare):
    new = row("value-b", bound=100_200)
    assert compare.compared([run(row("value-b"))], run(new)).bounds[0] == pytest.approx(0.001, 0.01)
    new["terms"][0]["proof"] = "claimed"
    assert compare.compared([run(row("value-b"))], run(new)).failures


def test_what_went_wrong_on_the_way_is_a_failure(compare):
    new = row("golden-a") | {"degraded": ["greedy: raised"]}
    (failure,) = compare.compared([run(row("golden-a"))], run(new)).failures
    assert failure == "golden-a: degraded: greedy: raised"


def test_what_is_not_compared_is_told(compare):
    unsolved = {"round": "tiny-c", "error": "InternalError: no"}
    base = run(row("golden-a"), row("golden-b"), unsolved)
    found = compare.compared([base], run(row("golden-a"), row("tiny-c")))
    assert not found.failures
    lines = list(found.lines())
    assert "not compared, not in all runs: 1 (golden-b)" in lines
    assert "not compared, without a plan of the baseline: 1 (tiny-c)" in lines


def test_a_round_that_is_not_solved_any_more_is_a_failure(compare):
    new = {"round": "tiny-c", "error": "InternalError: no"}
    found = compare.compared([run(row("tiny-c"))], run(new))
    assert found.failures == ["tiny-c: InternalError: no"]


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    ("pattern", "number"),
    by_day(
        [
            ("bundled-quickstart", 1),
            ("tiny-*-0", None),
            ("golden-interleaving-100", 1),
            ("golden-deadline-100", 1),
            ("value-victims-512", 1),
            ("golden-defragment-512", 1),
        ],
        5,
    ),
)
def test_a_round_of_each_prefix_goes_all_the_way(main, rounds, tmp_path, capsys, pattern, number):
    folder, file = tmp_path / "rounds", tmp_path / "rows.jsonl"
    assert main(["rounds", str(folder), "--only", pattern]) == 0
    number = len(rounds.POLICIES) if number is None else number
    assert f"{number} rounds written, 0 left out" in capsys.readouterr().out
    assert main(["solve", str(folder), str(file)]) == 0
    rows = rows_of(file)
    assert len(rows) == number
    assert not any(row["degraded"] for row in rows.values())
    assert main(["compare", str(file), "--new", str(file)]) == 0
    assert "0 failures" in capsys.readouterr().out


def test_tiny_rounds_are_as_the_loader_accepts_them(rounds):
    for policy in rounds.POLICIES:
        for seed in range(rounds.TINY):
            parse_round(rounds.tiny_document(policy, seed))


def test_rounds_whose_trace_is_missing_are_left_out_and_told(
    main, rounds, tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(rounds.NEEDS, "interleaving", tmp_path / "absent")
    assert main(["rounds", str(tmp_path), "--only", "golden-[di]*-512"]) == 0
    assert main(["rounds", str(tmp_path), "--only", "golden-interleaving-*"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["golden-defragment-512.json"]
    out = capsys.readouterr().out
    assert f"golden-interleaving-100: left out, {tmp_path / 'absent'} not found" in out
    assert "0 rounds written, 2 left out" in out


def test_a_round_that_cannot_be_solved_is_a_row_and_the_next_one_is_solved(main, tmp_path, capsys):
    folder, file = tmp_path / "rounds", tmp_path / "rows.jsonl"
    main(["rounds", str(folder), "--only", "bundled-quickstart"])
    (folder / "bundled-a.json").write_text("{}")
    assert main(["solve", str(folder), str(file)]) == 1
    rows = rows_of(file)
    assert rows["bundled-a"]["error"].startswith("InvalidInputError: ")
    assert rows["bundled-quickstart"]["status"] == "optimal"
    capsys.readouterr()
    assert main(["solve", str(folder), str(file)]) == 1
    assert f"2 are in {file} already" in capsys.readouterr().err
    assert len(file.read_text().splitlines()) == 2
