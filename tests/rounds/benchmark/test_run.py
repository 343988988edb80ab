"""Runs of the public benchmark: rows, what a kill leaves, commands, and comparisons."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from examples import by_day, examples
from placewright import load_plan, solve_round, verify
from placewright.instances.benchmark.index import Instance, read_index, round_of
from placewright.instances.errors import InvalidInputError
from placewright.rounds.benchmark import run as protocol
from placewright.rounds.benchmark.baselines import RULES, literal
from placewright.rounds.benchmark.results import bests, compared, contradictions, summaries
from placewright.rounds.benchmark.run import (
    Protocol,
    Row,
    Task,
    read_rows,
    results_file,
    run_all,
    run_task,
    tasks_of,
)

INDEX = read_index()
TINY = [INDEX[name] for name in ("bundled-pools", "bundled-gpu-pairs-across", "bundled-fgd")]
EXACT = Protocol(5.0, deterministic=True)


def write_all(path: Path, tasks: list[Task], executor: Executor) -> list[Row]:
    with results_file(path) as (file, had):
        return list(run_all(tasks, executor, file, had))


def tasks(instances: list[Instance], *solvers: str, seeds: int = 1) -> list[Task]:
    return tasks_of(instances, solvers, seeds, EXACT)[0]


def test_rows_are_verified_and_know_their_protocol(tmp_path):
    made = tasks(TINY[:1], "placewright", "greedy", "first-fit", "fgd", seeds=2)
    with ThreadPoolExecutor(1) as here:
        rows = write_all(tmp_path / "rows.jsonl", made, here)
    assert [row.key for row in rows] == [task.key for task in made]
    assert [row.seed for row in rows] == [0, 1, 0, 0, 0]
    first = rows[0]
    assert (first.status, first.wall_s, first.cpu_s, first.machine) == ("optimal", None, None, "")
    assert first.protocol == {"seconds": 5.0, "deterministic": True, "cores": 1, "gap": 1e-4}
    assert "placewright" in first.versions
    assert first.values == {known.name: known.value for known in TINY[0].best}
    assert read_rows(tmp_path / "rows.jsonl") == [Row(**json.loads(row.line)) for row in rows]


def test_a_killed_run_ends_with_the_same_bytes(tmp_path):
    made = tasks(TINY, "placewright", "greedy", "best-fit")
    path = tmp_path / "rows.jsonl"
    with ThreadPoolExecutor(2) as here:
        write_all(path, made, here)
        whole = path.read_bytes()
        for cut in random.Random(1).sample(range(len(whole)), examples(day=3, nightly=10)):
            path.write_bytes(whole[:cut])
            write_all(path, made, here)
            assert path.read_bytes() == whole, cut
        assert write_all(path, made, here) == []


@pytest.mark.nightly
def test_a_process_killed_at_random_moments_ends_with_the_same_bytes(tmp_path):
    words = [sys.executable, "-m", "placewright.cli.app", "bench", "--deterministic"]
    words += ["--only", "bundled-[d-k]*", "--solver", "placewright", "--solver", "fgd"]
    words += ["--executor", "local:2", "-o"]
    whole, path = tmp_path / "whole.jsonl", tmp_path / "rows.jsonl"
    began = time.monotonic()
    subprocess.run([*words, whole], check=True, capture_output=True)
    took = time.monotonic() - began
    drawn = random.Random(2)
    for _ in range(10):
        with subprocess.Popen([*words, path], stdout=-1, stderr=-1) as running:
            time.sleep(drawn.uniform(0, took / 2))
            running.send_signal(drawn.choice((signal.SIGKILL, signal.SIGTERM)))
    subprocess.run([*words, path], check=True, capture_output=True)
    assert path.read_bytes() == whole.read_bytes()


def test_rows_of_another_protocol_or_no_rows_are_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    made = tasks(TINY[:1], "greedy")
    with ThreadPoolExecutor(1) as here:
        write_all(path, made, here)
        other = [replace(task, protocol=Protocol(9.0, deterministic=True)) for task in made]
        with pytest.raises(InvalidInputError, match="another protocol"):
            write_all(path, other, here)
        path.write_text("no rows\n")
        with pytest.raises(InvalidInputError, match="line 1: expected a row"):
            write_all(path, made, here)


def test_a_file_has_one_writer(tmp_path):
    with results_file(tmp_path / "rows.jsonl"), pytest.raises(InvalidInputError, match="another"):  # noqa: SIM117
        with results_file(tmp_path / "rows.jsonl"):
            pass


def test_a_solver_that_raises_is_a_row(monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("no idea")

    monkeypatch.setattr(protocol, "SOLVERS", {"greedy": broken})
    (task,) = tasks(TINY[:1], "greedy")
    row = run_task(task)
    assert (row.status, row.note) == ("failed", "RuntimeError: no idea")


def test_a_command_gets_files_and_its_plan_is_judged():
    solve = "from placewright.cli.app import main; import sys; sys.exit(main(sys.argv[1:]))"
    command = f"{sys.executable} -c '{solve}' solve {{round}} -o {{plan}} --time-limit {{seconds}}"
    task = Task(TINY[0], "mine", 0, Protocol(300.0), command.replace("{seconds}", "20"))
    row = run_task(task)
    assert row.status == "optimal", row
    assert row.cpu_s is not None
    assert row.cpu_s > 0
    assert run_task(replace(task, command="false {round} {plan}")).status == "no_plan"
    assert run_task(replace(task, command="no-such-program {round} {plan}")).status == "failed"


RANDOM = sorted(
    (one for one in INDEX.values() if one.suite == "small" and one.policy == "gang"),
    key=lambda one: one.gpus,
)


@pytest.mark.parametrize("instance", by_day(RANDOM, 2), ids=lambda one: one.name)
def test_plans_of_baselines_are_valid_and_literal_bounds_hold(instance):
    round_ = round_of(instance)
    for name in RULES:
        row = run_task(Task(instance, name, 0, EXACT))
        assert row.status in ("feasible", "skipped"), row
    tried = literal("highs", round_, 3.0)
    if tried is not None and tried.plan is not None:
        row = run_task(Task(instance, "literal-highs", 0, Protocol(3.0)))
        assert row.status != "invalid", row
        assert contradictions([row], bests([row], INDEX)) == []


def test_plans_that_beat_the_index_are_kept(tmp_path):
    known = TINY[0].best
    worse = [one.model_copy(update={"value": 0, "bound": None}) for one in known]
    instance = TINY[0].model_copy(update={"best": tuple(worse)})
    run_task(Task(instance, "greedy", 0, EXACT, plans=str(tmp_path)))
    plan = load_plan(tmp_path / f"{instance.name}.json")
    assert verify(round_of(instance), plan).ok
    run_task(Task(TINY[0], "greedy", 0, EXACT, plans=str(tmp_path / "none")))
    assert not (tmp_path / "none").exists()


def test_the_shifted_mean_and_gaps_of_a_summary():
    row = Row("bundled-pools", "a", 0, "optimal", {"value": TINY[0].best[0].value}, cpu_s=0.0)
    rows = [row, replace(row, instance="bundled-fgd", values={}, status="no_plan", cpu_s=3.0)]
    (summary,) = summaries(rows, bests(rows, INDEX))
    assert (summary.runs, summary.plans, summary.proven, summary.bests) == (2, 1, 1, 1)
    assert summary.mean_gap == 0.5
    assert summary.cpu_s == pytest.approx(1.0)


def test_a_plan_that_beats_a_bound_is_told():
    solved = solve_round(round_of(TINY[0]), time_limit=5.0, deterministic=True)
    value = solved.certificate.terms[0].value
    rows = [Row("bundled-pools", "a", 0, "feasible", {"value": value}, bound=value - 1.0)]
    (line,) = contradictions(rows, bests(rows, INDEX))
    assert f"beats the bound {value - 1:g} of a" in line


ROUNDS = 40


def drawn(seed: int, *, worse: float = 0.0, slower: float = 1.0, first: int = 0) -> list[Row]:
    """Rows of a solver whose values and times vary: a third of the rounds is solved every time."""
    draw = random.Random(seed)
    rows = []
    for number in range(ROUNDS):
        noise = 0.0 if number % 3 == 0 else 0.002 * (1 + number % 5)
        for run in range(3):
            loss = abs(draw.gauss(0, noise)) + (worse if number % 3 else 0.0)
            cpu = (0.1 + number / 4) * slower * draw.uniform(0.8, 1.25)
            value = round(1_000_000 * (1 - loss))
            rows.append(
                Row(f"r{number}", "a", first + run, "feasible", {"value": value}, cpu_s=cpu)
            )
    return rows


def test_noise_of_seeds_is_no_regression():
    for seed in range(20):
        found = compared(drawn(2 * seed), drawn(2 * seed + 1, first=3), {})
        assert (found.worse, found.better) == ((), ()), seed
        assert found.compared == ROUNDS


def test_a_planted_worse_or_slower_solver_is_caught_each_time():
    for seed in range(20):
        old = drawn(2 * seed)
        assert any(
            "first term" in line
            for line in compared(old, drawn(2 * seed + 1, worse=0.01), {}).worse
        )
        slower = compared(old, drawn(2 * seed + 1, slower=1.6), {})
        assert any("slower" in line for line in slower.worse)
        assert compared(drawn(2 * seed + 1, slower=1.6), old, {}).better


def test_one_round_that_is_worse_is_named():
    old = drawn(1)
    new = [replace(row, values={"value": 900_000}) if row.instance == "r3" else row for row in old]
    found = compared(old, new, {})
    assert found.worse[0].startswith("a on r3: first term 10")
    assert len(found.worse) == len({"one", "over all"})


def test_rows_that_one_run_lacks_are_told():
    old = drawn(1)
    new = [row for row in old if row.instance != "r3"] + [replace(old[0], solver="b")]
    assert compared(old, new, {}).left_out == ("solver b", "1 rounds of a")


def test_runs_of_other_limits_are_not_compared():
    other = [replace(row, protocol={"seconds": 9.0}) for row in drawn(1)]
    with pytest.raises(InvalidInputError, match="other limits"):
        compared(drawn(1), other, {})
