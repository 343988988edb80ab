"""`placewright solve`: what is printed and written, and with which exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placewright.instances import verify as verification
from placewright.instances.documents.plan import Decision, DecisionKind, Plan, Task
from placewright.instances.documents.round import Round
from placewright.instances.io.files import load_plan, write
from tests.cli import regional


@pytest.fixture
def solver(monkeypatch, plan_file: Path):
    """Replace the solver by one that returns the plan on disk, changed as the test wants."""

    class Solver:
        def __init__(self) -> None:
            self.asked: dict[str, object] = {}
            self.certificate: dict[str, object] = {}

        def __call__(self, round_, **limits: object) -> Plan:
            self.asked = limits
            plan = load_plan(plan_file)
            certificate = plan.certificate.model_copy(update=self.certificate)
            return plan.model_copy(update={"certificate": certificate})

    stand_in = Solver()
    monkeypatch.setattr("placewright.rounds.solve_round", stand_in)
    return stand_in


def test_the_plan_is_printed_as_tables(run, solver, round_file):
    result = run("solve", round_file)
    assert result.code == 0
    assert not result.err
    for text in ("Plan for round easy-64-30-1", "started", "kept", "waiting", "value", "spread"):
        assert text in result.out
    assert "the plan gives no reason" in result.out
    assert "more job" in result.out
    assert "backend greedy (packer 1.0), seed 0, 0.50 s, 0.25 CPU s, peak 100 MiB" in result.out


def test_moves_are_listed_in_their_order(run, monkeypatch, moving):
    round_, plan = moving
    monkeypatch.setattr("placewright.rounds.solve_round", lambda _, **limits: load_plan(plan))
    result = run("solve", round_)
    assert result.code == 0
    rows = [line.split() for line in result.out.splitlines()]
    for row in (
        "started 1 4",
        "migrated 3 6",
        "preempted 1 4",
        "kept 1 1",
        "1 low preempted 4 a0:0-3 displaced by gang",
        "2 train migrated 1 a1:1 a2:0",
        "3 left migrated 2 a1:2-3 a2:2-3",
        "4 right migrated, by a spare 2 a2:2-3 a1:2-3",
        "gang started 4 default a0:0-3",
    ):
        assert row.split() in rows
    assert "Moves, in this order; 1 of 4 by a spare place" in result.out
    # Stops: low loses 660 s on 4 GPUs, train 30 s on 2, right 30 s on 2, left as given; 9 GPUs.
    assert next(r[:4] for r in rows if "disruption" in r) == ["disruption", "min", "6.325", "GPU-h"]


def test_more_moves_than_rows_are_counted(run, monkeypatch, tmp_path):
    tasks = [Task(host=f"h{i:02d}", gpus=(0,)) for i in range(60)]
    jobs = [
        {
            "name": f"j{i}",
            "options": [{"groups": [{"gpu": 1}]}],
            "running": {"tasks": [tasks[i].model_dump()]},
        }
        for i in range(30)
    ]
    hosts = [{"name": "h[00-59]", "gpus": 1, "gpu_model": "T4"}]
    round_ = Round.model_validate({"cluster": {"hosts": hosts}, "jobs": jobs})
    moved = tuple(
        Decision(job=job.name, decision=DecisionKind.MIGRATE, option=0, tasks=(tasks[30 + i],))
        for i, job in enumerate(round_.jobs)
    )
    steps = [job.name for job in round_.jobs]
    plan = Plan(decisions=moved, sections=({"kind": "moves", "steps": steps, "needs_spare": []},))
    write(round_, tmp_path / "round.json")
    monkeypatch.setattr("placewright.rounds.solve_round", lambda _, **limits: plan)
    result = run("solve", tmp_path / "round.json")
    assert result.code == 0
    assert "... and 10 more moves" in result.out
    assert "spare" not in result.out


def test_options_reach_the_solver(run, solver, round_file):
    limits = ["--time-limit", "2.5", "--backend", "cp-sat", "--seed", "7", "--deterministic"]
    assert run("solve", round_file, *limits).code == 0
    assert solver.asked == {
        "time_limit": 2.5,
        "gap": None,
        "backend": "cp-sat",
        "seed": 7,
        "deterministic": True,
        "progress": None,
        "executor": None,
    }


@pytest.mark.parametrize("where", ["cloud", "local:0", "local:x", "dask://", "dask://here"])
def test_an_executor_that_cannot_be_is_wrong_usage(run, tmp_path, where):
    write(regional.fast()[0], tmp_path / "round.json")
    result = run("solve", tmp_path / "round.json", "--executor", where)
    assert (result.code, result.out) == (2, "")
    assert f"--executor: {where}: expected" in result.said
    assert "Traceback" not in result.said


def test_an_executor_for_a_round_that_has_no_use_for_one_is_wrong_usage(run, round_file):
    result = run("solve", round_file, "--executor", "local:2")
    assert (result.code, result.out) == (2, "")
    assert "--executor: local:2: the round has policy 'gang'; expected 'geo'" in result.said


def test_without_options_the_limits_of_the_round_stand(run, solver, round_file):
    assert run("solve", round_file).code == 0
    assert {solver.asked[name] for name in ("time_limit", "gap", "seed", "deterministic")} == {None}


def test_json_goes_to_stdout_without_tables(run, solver, round_file):
    for args in (["--format", "json"], ["-o", "-"]):
        result = run("solve", round_file, *args)
        assert result.code == 0
        assert not result.err
        assert json.loads(result.out)["kind"] == "Plan"


def test_the_plan_is_written_and_the_table_still_printed(run, solver, round_file, tmp_path):
    result = run("solve", round_file, "-o", tmp_path / "out.json")
    assert result.code == 0
    assert "Plan for round" in result.out
    assert load_plan(tmp_path / "out.json").kind == "Plan"


def test_a_missed_gap_exits_5_with_the_plan_written(run, solver, round_file, tmp_path):
    solver.certificate = {"gap": 0.02}
    result = run("solve", round_file, "--gap", "0.01", "-o", tmp_path / "out.json")
    assert result.code == 5
    written = tmp_path / "out.json"
    assert result.err == f"wrote {written}\nplacewright: gap 2 % missed; asked for 1 %\n"
    assert (tmp_path / "out.json").exists()


def test_an_unproven_gap_is_missed_when_one_was_asked(run, solver, round_file):
    assert run("solve", round_file, "--gap", "0.5").code == 5


def test_a_met_gap_exits_0(run, solver, round_file):
    solver.certificate = {"gap": 0.01}
    assert run("solve", round_file, "--gap", "0.01").code == 0


def test_a_degraded_plan_says_so_on_stderr(run, solver, round_file):
    solver.certificate = {"degraded": ("the worker died",)}
    result = run("solve", round_file)
    assert result.code == 0
    assert result.err == "placewright: degraded: the worker died\n"


def test_an_interrupt_writes_the_best_plan_and_exits_130(run, solver, round_file, tmp_path):
    solver.certificate = {"degraded": ("interrupted",)}
    result = run("solve", round_file, "-o", tmp_path / "out.json", "--gap", "0")
    assert result.code == 130
    assert load_plan(tmp_path / "out.json").decisions


def test_an_output_that_cannot_be_written_is_refused_before_the_search(
    run, solver, round_file, tmp_path
):
    before = round_file.read_bytes()
    for output in (tmp_path, tmp_path / "nowhere" / "plan.json", round_file):
        result = run("solve", round_file, "-o", output)
        assert result.code == 2
        assert not result.out
    assert not solver.asked
    assert round_file.read_bytes() == before


@pytest.mark.parametrize("content", ["", "[]", "{", '{"kind": "Plan"}', "a: &a [*a]"])
def test_bad_input_exits_3_with_one_line_and_writes_nothing(run, tmp_path, content):
    bad = tmp_path / "bad.yaml"
    bad.write_text(content)
    result = run("solve", bad, "-o", tmp_path / "plan.json")
    assert result.code == 3
    assert not result.out
    assert result.err.count("\n") == 1
    assert result.err.startswith(f"placewright: {bad}")
    assert not (tmp_path / "plan.json").exists()


def test_collectives_are_listed_with_their_bottleneck_and_time(run):
    round_ = Path(verification.__file__).parents[1] / "library" / "megatron.yaml"
    result = run("solve", round_)
    assert result.code == 0
    rows = [" ".join(line.split()) for line in result.out.splitlines()]
    assert "Collectives, slowest first" in rows
    assert "train ranks ring of 9,322 MiB 200 Gbit/s 780.459 ms" in rows
    assert any(row.startswith("bottleneck min 780.459 ms 780.459 ms 0 %") for row in rows)


@pytest.mark.parametrize(
    ("name", "title", "rows"),
    [
        ("drf-weighted", "Dominant shares", ["b 36 % cpu", "a 42 % memory"]),
        (
            "hived",
            "Cells in use",
            ["vc2 host (cell 0) a3 notebook", "default rack (cell 0) rack-of-2 gang"],
        ),
    ],
)
def test_what_tenants_have_is_listed(run, name, title, rows):
    result = run("solve", Path(verification.__file__).parents[1] / "library" / f"{name}.yaml")
    assert result.code == 0
    shown = [" ".join(line.split()) for line in result.out.splitlines()]
    assert [row for row in [title, *rows] if row not in shown] == []
