"""The benchmarks: costs attributed to the right run, honest rows, tables, JSON, exit codes."""

from __future__ import annotations

import importlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace

import pytest
from rich.console import Console

from placewright import load_round, solve_round
from placewright.instances.generators.gang import generate_round

ROOT = Path(__file__).parents[2]
METHODS = ["placewright", "greedy", "highs"]
COLUMNS = {"case", "method", "seed", "value", "bound", "gap", "seconds", "cpu_seconds", "peak_mib"}
BURN = "import time\nwhile time.process_time() < 0.1: pass\n"
BUNDLED = ROOT / "instances" / "library" / "helios-8-8-4.yaml"


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    """The modules of the benchmarks, which are importable from the repository's root only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        patch.chdir(ROOT)
        modules = "baselines", "clocked", "compare", "incremental", "measure", "plots", "presets"
        modules += "report", "scale", "shapes", "speeds"
        names = {"main": "__main__"} | {name: name for name in modules}
        yield SimpleNamespace(
            **{key: importlib.import_module(f"benchmarks.{name}") for key, name in names.items()}
        )


@pytest.fixture
def rows(bench):
    """The kept rows of two cases: all plans proven optimal but greedy's; and one without a plan."""
    known = bench.report.kept(Path(__file__).with_name("rows.jsonl"))
    return [row for alike in known.values() for row in alike]


@pytest.fixture
def calibrated(bench, monkeypatch):
    """Solve no program to calibrate the machine."""
    monkeypatch.setattr(bench.report, "calibration", lambda: 0.5)


@pytest.fixture
def in_process(bench, monkeypatch):
    """Call methods in this process, so that planted ones need not be importable in another."""

    def measured(prepare, function, repeats):
        return [bench.measure.Measured(function(prepare()), 1.0, 2.0, 3.0)] * repeats

    monkeypatch.setattr(bench.presets, "measured", measured)
    monkeypatch.setattr(bench.shapes, "measured", measured)


def compared(bench, term="value", **given):
    """The rows of methods that answer these (value, bound) on the case `quickstart`."""

    def runs(value, bound):
        answer = bench.baselines.Answer("feasible", term, value, bound)
        return [bench.measure.Measured(answer, 1.0, cpu, 3.0) for cpu in (1.5, 2.0, 9.0)]

    methods = {name: partial(runs, *pair) for name, pair in given.items()}
    return list(bench.compare.compared("quickstart", None, methods))


def rendered(table) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(table)
    return console.file.getvalue()


def troubled(row) -> list[str]:
    """Return what went wrong, but for solvers that were late on a loaded machine."""
    notes = row.note.split("; ") if row.note else []
    return [words for words in notes if not words.endswith("killed at the limit")]


@pytest.mark.usefixtures("calibrated")
def test_the_document_is_json_of_the_promised_shape(bench, rows):
    made = json.loads(json.dumps(bench.report.document("scale", rows), allow_nan=False))
    assert set(made) == {"benchmark", "machine", "versions", "calibration", "rows"}
    assert made["benchmark"] == "scale"
    assert made["machine"]["cores"] >= 1
    assert {"python", "placewright", "highspy", "ortools", "pulp"} <= set(made["versions"])
    assert made["calibration"] == 0.5
    assert [row["method"] for row in made["rows"]] == METHODS * 2
    assert all(set(row) >= COLUMNS for row in made["rows"])


@pytest.mark.nightly
def test_the_machine_is_calibrated_by_a_program_that_takes_time(bench):
    assert bench.measure.calibration() > 0


def test_rows_that_are_kept_are_read_again(bench, rows, tmp_path):
    file = tmp_path / "rows.jsonl"
    assert bench.report.kept(file) == {}
    bench.report.keep(file, "first", rows[:2])
    bench.report.keep(file, "second", rows[2:])
    bench.report.keep(file, "first", rows[4:])
    assert bench.report.kept(file) == {"first": rows[:2] + rows[4:], "second": rows[2:]}


def test_a_verified_plan_that_beats_any_bound_is_an_error(bench):
    rows = compared(bench, placewright=(10, 11.0), other=(12, None))
    assert [row.status for row in rows] == ["feasible", "feasible", "error"]
    assert rows[-1].method == "other"
    assert rows[-1].note == "verified value 12 beats the bound 11.0 of placewright"
    assert bench.report.failed(rows)
    assert not bench.report.failed(rows[:-1])


def test_a_term_that_is_minimised_is_beaten_from_below(bench):
    rows = compared(bench, "disruption", placewright=(12, 11.0), other=(10, 9.0))
    assert [(row.method, row.status) for row in rows[2:]] == [("other", "error")]


def test_gaps_are_to_the_own_bound_and_to_the_tightest_of_all(bench):
    rows = compared(bench, placewright=(90, 100.0), other=(80, 160.0), none=(None, None))
    assert [(row.gap, row.best_gap) for row in rows] == [(0.1, 0.1), (0.5, 0.2), (None, None)]
    assert {row.cpu_seconds for row in rows} == {2.0}


def test_a_method_that_fails_is_an_error_row_and_the_others_go_on(bench):
    def failing():
        raise bench.measure.RunError("no such solver")

    answer = bench.baselines.Answer("optimal", "value", 10, 10.0)
    methods = {"unknown": failing, "greedy": lambda: [bench.measure.Measured(answer, 1, 2, 3)]}
    rows = list(bench.compare.compared("quickstart", 7, methods))
    assert [(row.seed, row.status, row.note, row.cpu_seconds) for row in rows] == [
        (7, "error", "no such solver", None),
        (7, "optimal", "", 2),
    ]


def test_a_literal_model_that_is_too_large_is_skipped_with_a_reason(bench, monkeypatch):
    monkeypatch.setattr("placewright.rounds.benchmark.baselines.MAX_CELLS", 1)
    answer = bench.baselines.literal("highs", 5.0, load_round(BUNDLED))
    assert (answer.status, answer.value, answer.bound) == ("skipped", None, None)
    assert answer.note == "more than 1 variables"


@pytest.mark.parametrize("breaks", ["certificate", "decisions"])
def test_a_plan_without_certificate_or_that_breaks_a_rule_is_no_answer(bench, breaks):
    round_ = load_round(BUNDLED)
    plan = solve_round(round_, time_limit=0.0)
    changes = {"certificate": None, "decisions": plan.decisions[1:]}
    with pytest.raises(bench.baselines.InvalidPlanError):
        bench.baselines.of_plan(round_, plan.model_copy(update={breaks: changes[breaks]}))


def test_orphans_of_a_run_count_towards_its_cpu_seconds(bench):
    # The shell ends at once; what it leaves running is adopted and waited for.
    command = ["sh", "-c", '"$0" -c "$1" &', sys.executable, BURN]
    runs = bench.measure.measured(partial(list, command), subprocess.check_call, 2)
    assert len(runs) == 2
    assert runs[0].cpu_seconds <= runs[1].cpu_seconds
    assert all(run.cpu_seconds >= 0.09 for run in runs)


@pytest.mark.parametrize(
    ("function", "argument", "words"),
    [(os._exit, 3, "ended with exit code 3$"), (int, "three", "^ValueError: invalid literal")],
)
def test_a_run_that_ends_without_a_result_says_how(bench, function, argument, words):
    with pytest.raises(bench.measure.RunError, match=words):
        bench.measure.measured(partial(type(argument), argument), function, 1)


def test_a_command_returns_its_output_and_what_its_children_cost(bench):
    """Memory is that of the children, and not of the benchmark."""
    kept = BURN + "kept = bytearray(100 * 2**20)"
    run = bench.measure.command(["sh", "-c", '"$0" -c "$1"; echo done', sys.executable, kept])
    assert run.result == "done\n"
    assert run.seconds > 0
    assert run.cpu_seconds >= 0.09
    assert 100 < run.peak_mib < 125


def test_a_command_that_fails_says_how(bench):
    with pytest.raises(bench.measure.RunError, match=r"^exit code 3: too bad$"):
        bench.measure.command(["sh", "-c", "echo first >&2; echo too bad >&2; exit 3"])


@pytest.mark.parametrize("name", ["scale", "presets", "shapes"])
def test_every_case_is_named_once_and_the_quick_ones_are_among_them(bench, name):
    benchmark = bench.main.BENCHMARKS[name]
    every = [(case.name, getattr(case, "seed", None)) for case in benchmark.cases(quick=False)]
    quick = [(case.name, getattr(case, "seed", None)) for case in benchmark.cases(quick=True)]
    assert len(set(every)) == len(every)
    assert set(quick) < set(every)


def test_the_tables_show_each_method_and_its_ratio_to_placewright(bench, rows):
    table = rendered(bench.report.rows_table(rows))
    assert table.count("helios-8-8-4") == table.count("tight-64-30 seed 1") == 1
    assert all(table.count(f" {method} ") == 2 for method in METHODS)
    assert "no_solution: highs: stopped at the limit" in table
    lines = [line.split() for line in rendered(bench.report.summary_table(rows)).splitlines()[2:]]
    assert [" ".join(words) for words in lines] == [
        "placewright 2 2 2 0.003 % 0.005 % 1.83 1.00",
        "greedy 2 2 0 18.056 % 25.000 % 0.25 0.14",
        "highs 2 1 1 50.000 % 100.000 % 5.00 2.73",  # a case without a plan counts as all lost
    ]


def test_the_mean_of_cpu_seconds_is_geometric_and_shifted(bench):
    assert bench.report.shifted_mean([0.0, 3.0, None]) == pytest.approx(1.0)
    assert bench.report.shifted_mean([None]) is None


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_plot_is_written_on_request(bench, rows, tmp_path, ending):
    pytest.importorskip("matplotlib")
    picture = tmp_path / f"plot.{ending}"
    bench.plots.over_cost("scale", rows, picture)
    assert picture.stat().st_size > 1000
    if ending == "svg":
        text = picture.read_text(encoding="utf-8")
        assert all(f"<!-- {words} -->" in text for words in (*METHODS, "CPU seconds"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["unheard-of"],
        [],
        ["scale", "--plot", "x.doc"],
        ["scale", "--slow"],
        ["scale", "--quick", "--case", "unheard-of"],
    ],
)
def test_wrong_usage_exits_2_and_names_the_benchmarks(bench, capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        bench.main.main(arguments)
    assert stop.value.code == 2
    assert "scale" in capsys.readouterr().err


@pytest.mark.usefixtures("calibrated")
def test_a_pattern_chooses_among_the_cases(bench, monkeypatch, capsys):
    tried = []

    def run(cases, *, quick):
        tried.extend(cases)
        yield bench.report.Row("case", "method", None, "skipped")

    benchmark = bench.main.Benchmark(bench.scale.cases, run, bench.scale.draw)
    monkeypatch.setitem(bench.main.BENCHMARKS, "scale", benchmark)
    assert bench.main.main(["scale", "--quick", "--case", "tight-*", "--json"]) == 0
    assert {(case.mix, case.gpus) for case in tried} == {("tight", 512), ("tight", 4096)}
    assert json.loads(capsys.readouterr().out)["benchmark"] == "scale"


@pytest.mark.parametrize(("value", "code"), [(10, 0), (12, 1)])
@pytest.mark.usefixtures("calibrated")
def test_the_exit_code_says_whether_a_row_is_an_error(bench, monkeypatch, capsys, value, code):
    rows = compared(bench, placewright=(value, 11.0))
    benchmark = bench.main.Benchmark(
        bench.scale.cases, lambda _, *, quick: iter(rows), bench.scale.draw
    )
    monkeypatch.setitem(bench.main.BENCHMARKS, "scale", benchmark)
    assert bench.main.main(["scale", "--case", "easy-512-400", "--json"]) == code
    printed = capsys.readouterr()
    assert json.loads(printed.out)["rows"][0]["value"] == value
    statuses = ["feasible", "error"] if code else ["feasible"]
    lines = [f"quickstart placewright: {status}" for status in statuses]
    assert printed.err.splitlines() == [*lines, "calibration"]


@pytest.mark.nightly
def test_a_file_is_solved_by_the_command_line_and_its_stages_are_distinguished(bench):
    scaled = list(bench.scale.run([bench.scale.Case(64, 30, "hard", 0, 20.0)], quick=True))
    assert [(row.case, row.method) for row in scaled] == [
        ("hard-64-30", "placewright"),
        ("hard-64-30", "greedy"),
    ]
    ours, greedy = scaled
    assert list(ours.figures) == [f"{stage} s" for stage in (*bench.clocked.STAGES, "other")]
    assert all(ours.figures[f"{stage} s"] > 0 for stage in ("reading", "building", "verifying"))
    assert greedy.figures["solving s"] == 0
    for row in scaled:
        assert not troubled(row)
        assert row.value <= row.bound
        assert min(row.seconds, row.cpu_seconds, row.peak_mib) > 0
    assert not bench.report.failed(scaled)
    # The gap of greedy is to the bound of placewright.
    assert greedy.bound > ours.bound
    assert ours.best_gap == ours.gap
    assert greedy.best_gap == pytest.approx((ours.bound - greedy.value) / ours.bound)
    # Further figures have a table of their own.
    heading, _, first, second = rendered(bench.report.figures_table(scaled)).splitlines()
    assert heading.split() == ["case", "method", *" ".join(scaled[0].figures).split()]
    assert f"{scaled[0].figures['reading s']:.2f}" in first
    assert second.split()[0] == "greedy"


@pytest.mark.nightly
def test_a_round_that_cannot_be_made_is_an_error_row(bench):
    (row,) = bench.scale.run([bench.scale.Case(12, 5, "easy", 0)], quick=True)
    assert row.status == "error"
    assert "exit code 2: " in row.note
    assert "multiple of 8" in row.note


@pytest.mark.parametrize(
    ("verb", "methods"), [("generate", ["placewright"]), ("verify", ["placewright", "greedy"])]
)
def test_what_another_process_refuses_is_an_error_row(bench, monkeypatch, verb, methods):
    def refusing(arguments):
        if verb in arguments:
            raise bench.measure.RunError(f"exit code 7: {verb} refuses")
        return bench.measure.Measured('{"reading": 0.5}', 1.0, 2.0, 3.0)

    monkeypatch.setattr(bench.scale, "command", refusing)
    rows = list(bench.scale.run(bench.scale.cases(quick=True)[:1], quick=True))
    assert [row.method for row in rows] == methods
    assert {row.status for row in rows} == {"error"}
    assert {row.note for row in rows} == {f"exit code 7: {verb} refuses"}
    assert all(row.value is None for row in rows)


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_plot_of_scale_has_a_line_per_mix_and_method(bench, tmp_path, ending):
    pytest.importorskip("matplotlib")
    rows = [
        bench.report.Row(case.name, method, case.seed, "optimal", best_gap=0.01, seconds=2.0)
        for case in bench.scale.cases(quick=False)
        if case.seed == 0 and not case.common
        for method in ("placewright", "greedy")
    ]
    picture = tmp_path / f"plot.{ending}"
    bench.scale.draw([*rows, bench.report.Row(rows[0].case, "greedy", 0, "error")], picture)
    assert picture.stat().st_size > 1000
    if ending == "svg":
        text = picture.read_text(encoding="utf-8")
        assert all(f"<!-- {mix}, greedy -->" in text for mix in ("easy", "hard", "tight"))


@pytest.mark.nightly
def test_engine_and_solve_round_decide_the_same_rounds(bench):
    case = bench.incremental.Case(64, 20, "easy", seed=0, rounds=2, seconds=1.0)
    engine, alone = bench.incremental.run([case], quick=True)
    assert (engine.method, alone.method) == ("engine", "placewright")
    assert engine.figures["rounds"] == 2
    assert engine.figures["behind"] == 0
    assert engine.figures["median"] <= engine.figures["below % of GPUs, worst"]
    assert 0 < engine.figures["ratio, median"] <= engine.figures["ratio, worst"]
    for row in (engine, alone):
        assert (row.case, row.seed, row.term) == ("easy-64-20", 0, "value")
        assert not troubled(row)
        assert row.value <= min(engine.bound, alone.bound)
        assert min(row.seconds, row.cpu_seconds, row.peak_mib) > 0
    assert not bench.report.failed([engine, alone])


def played_rounds(bench, monkeypatch, *, engine, alone, bound):
    """The rows of a case of 512 GPUs with one round that ended with these values."""

    def call(value):
        answer = bench.baselines.Answer("feasible", "value", value, bound)
        return bench.incremental.Call(answer, 1.0, 2.0)

    one = bench.incremental.Played(512, call(engine), tuple(call(value) for value in alone))
    run = bench.measure.Measured([one], 1.0, 2.0, 3.0)
    monkeypatch.setattr(bench.incremental, "measured", lambda *_: [run])
    return list(bench.incremental.run(bench.incremental.cases(quick=True), quick=True))


def test_a_plan_of_an_engine_that_beats_a_bound_is_an_error_row(bench, monkeypatch):
    rows = played_rounds(bench, monkeypatch, engine=12, alone=(10, 10), bound=11.0)
    assert [row.status for row in rows] == ["feasible", "feasible", "error"]
    assert rows[-1].note == "round 0: verified value 12 beats 11.0"
    assert bench.report.failed(rows)


def test_an_engine_that_is_behind_both_solves_from_scratch_is_an_error_row(bench, monkeypatch):
    rows = played_rounds(bench, monkeypatch, engine=18_000, alone=(42_000, 34_000), bound=5e4)
    assert [row.status for row in rows] == ["feasible", "feasible", "error"]
    assert rows[-1].note.startswith("round 0: 4.688 % of the GPUs below a solve from scratch")
    assert rows[0].figures["behind"] == 1
    assert rows[0].figures["spread, worst"] == pytest.approx(1.5625)


def test_an_engine_within_the_spread_and_the_tolerance_is_not_behind(bench, monkeypatch):
    rows = played_rounds(bench, monkeypatch, engine=33_500, alone=(42_000, 34_000), bound=5e4)
    assert rows[0].figures["behind"] == 0
    assert not bench.report.failed(rows)


@pytest.mark.usefixtures("calibrated")
def test_cases_whose_rows_are_kept_are_not_run_again(bench, monkeypatch, capsys, tmp_path):
    tried = []

    def run(cases, *, quick):
        tried.extend(case.name for case in cases)
        for case in cases:
            yield bench.report.Row(case.name, "method", 0, "skipped", figures={"rounds": 1.0})

    benchmark = bench.main.Benchmark(bench.incremental.cases, run, None)
    monkeypatch.setitem(bench.main.BENCHMARKS, "incremental", benchmark)
    file = str(tmp_path / "rows.jsonl")
    assert bench.main.main(["incremental", "--case", "easy-512-*-0", "--rows", file]) == 0
    capsys.readouterr()
    assert bench.main.main(["incremental", "--case", "easy-512-*", "--rows", file, "--json"]) == 0
    assert tried == [f"easy-512-400-{seed}" for seed in range(3)]
    printed = json.loads(capsys.readouterr().out)
    assert [row["case"] for row in printed["rows"]] == tried
    assert printed["calibration"] == 0.5


def test_every_function_of_a_stage_exists(bench):
    assert all(callable(resolve_name(n)) for each in bench.clocked.STAGES.values() for n in each)


def test_a_stage_within_another_counts_once(bench):
    now = [0.0]
    clock = bench.clocked.Clock(bench.clocked.STAGES, "other", lambda: now[0])

    def spend(seconds):
        now[0] += seconds

    solve = clock.timed("solving", spend)

    def expand():
        spend(1.0)
        solve(5.0)
        raise ValueError

    spend(0.5)
    with pytest.raises(ValueError):
        clock.timed("expanding", expand)()
    spend(0.25)
    seconds = clock.read()
    assert seconds.pop("expanding") == 1.0
    assert seconds.pop("solving") == 5.0
    assert seconds.pop("other") == 0.75
    assert set(seconds.values()) == {0.0}


def test_without_the_trace_presets_are_skipped_and_say_why(bench, monkeypatch, tmp_path):
    monkeypatch.setattr(bench.presets, "TRACE", tmp_path)
    rows = list(bench.presets.run(bench.presets.cases(quick=True), quick=True))
    assert len(rows) == len(bench.presets.PRESETS)
    assert {row.status for row in rows} == {"skipped"}
    assert all("openb_node_list_gpu_node.csv" in row.note for row in rows)
    assert not bench.report.failed(rows)


def test_drained_hosts_have_work_and_are_the_same_each_time(bench):
    round_ = generate_round(512, 10, mix="easy", seed=0)
    used = {task.host for job in round_.jobs if job.running for task in job.running.tasks}
    vacated = bench.presets.PRESETS["drain"](round_).policy.vacate
    assert len(set(vacated)) == 4
    assert used.issuperset(vacated)
    assert bench.presets.PRESETS["drain"](round_).policy.vacate == vacated


@pytest.mark.nightly
@pytest.mark.usefixtures("in_process")
def test_every_preset_is_decided_on_files_like_those_of_the_trace(bench, monkeypatch, tmp_path):
    nodes = ["sn,cpu_milli,memory_mib,gpu,model"]
    nodes += [f"n{i},96000,786432,8,A" for i in range(12)]
    pods = ["name,cpu_milli,memory_mib,num_gpu,gpu_milli"]
    pods += [f"p{i},8000,32768,{gpus},1000" for i, gpus in enumerate([8, 4, 2, 1, 1, 1] * 2)]
    monkeypatch.setattr(bench.presets, "TRACE", tmp_path)
    cases = bench.presets.cases(quick=True)
    for file, lines in zip(cases[0].files, (nodes, pods), strict=True):
        file.write_text("\n".join(lines), encoding="utf-8")
    rows = list(bench.presets.run(cases, quick=True))
    assert [row.case for row in rows] == [case.name for case in cases]
    first = {"drain": "remaining", "hot_swap": "remaining", "defragment": "freed"}
    for row in rows:
        assert row.term == first.get(row.case.split("-")[0], "value")
        assert set(row.figures) == {"moved", "preempted"}
        assert row.note == ""
        assert row.gap == 0 or row.term == "freed"
    assert sum(row.figures["moved"] for row in rows) >= 12
    assert not bench.report.failed(rows)


def test_a_preset_counts_the_jobs_that_move_and_those_that_stop(bench):
    round_ = bench.presets.PRESETS["hot_swap-1"](generate_round(64, 4, mix="easy", seed=0))
    (host,) = round_.policy.vacate
    (_,) = [job for job in round_.jobs if job.running and job.running.tasks[0].host == host]
    answer = bench.presets.decide(10.0, round_)
    assert (answer.term, answer.value, answer.bound) == ("remaining", 0, 0)
    assert answer.figures == {"moved": 1, "preempted": 0}


def known_application(bench):
    """A job that computes 10 samples a second per slow GPU, and synchronises across hosts."""
    speeds = bench.speeds
    step = speeds.Measurement(10, 1.0, (0.0, 0.1, 0.2), (1, 2, 4), (0.2, 1.0, 2.0))
    return speeds.Application((step,), {"k80": 1.0, "p100": 2.0, "v100": 4.0}, 20)


def test_goodput_is_throughput_at_the_efficiency_of_its_batch(bench):
    application = known_application(bench)
    assert application.goodput("k80", 1, 20.0) == 10.0  # two steps make up the first batch
    assert application.goodput("v100", 4, 20.0) == 40 / (0.25 + 0.2) * (20 + 20) / (20 + 40)
    assert application.goodput("k80", 12, 1e9) == pytest.approx(120 / (1 + 1.5))
    assert application.goodput("k80", 24, 20.0) == 0.0  # more hosts than were measured


def test_options_are_powers_of_two_in_a_host_and_whole_hosts_and_the_same_each_time(bench):
    known = (known_application(bench),)
    made = bench.shapes.shapes_round(128, 3, known)
    assert made == bench.shapes.shapes_round(128, 3, known)
    assert made != bench.shapes.shapes_round(128, 4, known)
    assert len(made.jobs) == 64
    asked = {
        (g.gpu_models[0], g.gpu, g.count) for j in made.jobs for o in j.options for g in o.groups
    }
    assert {(gpu, count) for model, gpu, count in asked if model == "p100"} == {
        *((1000 * n, 1) for n in (1, 2, 4, 8)),
        *((8000, n) for n in (2, 3, 4)),
    }
    values = [option.value for job in made.jobs for option in job.options]
    assert len(set(values)) > 100
    assert 0 < min(values) < max(values) < 1.1 * bench.shapes.VALUE_OF_ONE


@pytest.mark.usefixtures("in_process")
def test_the_literal_programs_and_placewright_find_the_same_optimum(bench, monkeypatch):
    known = (known_application(bench),)
    monkeypatch.setattr(bench.shapes, "applications", lambda: known)
    monkeypatch.setattr(bench.shapes, "FILES", ())
    monkeypatch.setattr(bench.shapes, "QUICK_SECONDS", 60.0)
    rows = list(bench.shapes.run([bench.shapes.Case(64, 0)], quick=True))
    assert [row.method for row in rows] == ["placewright", "highs", "cbc"]
    assert len({row.value for row in rows}) == 1
    assert {(row.term, row.best_gap, row.note) for row in rows} == {("value", 0.0, "")}
    assert rows[0].figures["jobs"] == 32
    assert not bench.report.failed(rows)


def test_without_the_speed_tables_shapes_are_skipped_and_say_which(bench, monkeypatch, tmp_path):
    monkeypatch.setattr(bench.shapes, "FILES", (tmp_path / "speeds.json",))
    (row,) = bench.shapes.run([bench.shapes.Case(64, 0)], quick=True)
    assert row.status == "skipped"
    assert "speeds.json not found" in row.note


def test_the_speed_tables_give_each_job_more_on_faster_gpus_and_on_more_of_them(bench):
    if not all(file.is_file() for file in bench.speeds.FILES):
        pytest.skip("the published tables are not here")
    for application in bench.speeds.applications():
        slow, fast = (application.goodput(model, 1, 1e4) for model in ("k80", "v100"))
        assert 0 < slow < fast
        assert application.goodput("v100", 4, 1e4) > 2 * fast


def test_figures_of_several_seeds_have_means(bench):
    rows = [
        bench.report.Row("stream", "EASY", seed, "done", figures={"mean wait": wait})
        for seed, wait in ((0, 2.0), (1, 5.0))
    ]
    rows.append(bench.report.Row("stream", "none", 0, "done", figures={"longest wait": 7.0}))
    _, _, easy, none = rendered(bench.report.means_table(rows)).splitlines()
    assert easy.split() == ["stream", "EASY", "2", "3.50", "-"]
    assert none.split() == ["none", "1", "-", "7.00"]


def test_bars_are_drawn_of_the_figures_that_rows_have(bench, tmp_path):
    pytest.importorskip("matplotlib")
    figures = {"mean wait, small": 2.0, "longest wait, small": 3.0}
    rows = [bench.report.Row("stream", method, 0, "done", figures=figures) for method in METHODS]
    picture = tmp_path / "bars.svg"
    importlib.import_module("benchmarks.backfill").draw(rows, picture)
    assert picture.stat().st_size > 1000
