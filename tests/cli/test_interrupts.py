"""Signals at any moment, in any number: a plan, or a line that says that nothing was written."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from placewright.cli.app import main
from placewright.instances.generators.gang import generate_round
from placewright.instances.io import files
from placewright.instances.io.files import load_plan, write
from tests.cli import regional

ROOT = Path(__file__).parents[2]
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
NOTHING = "placewright: interrupted before there was a result; nothing was written\n"


@pytest.fixture(autouse=True)
def usual_handlers() -> Iterator[None]:
    """A test run in the background may have inherited that signals are ignored."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def storm(*signals: signal.Signals) -> None:
    """Send signals to this process."""
    for number in signals:
        os.kill(os.getpid(), number)
    time.sleep(0.1)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.json"
    path.write_text("OLD")
    return path


@pytest.mark.parametrize("first", SIGNALS)
def test_signals_in_the_search_write_the_plan_and_name_the_first(
    run, monkeypatch, round_file, plan_file, old, first
):
    def solve(round_, **limits: object):
        plan = load_plan(plan_file)
        try:
            storm(first, *SIGNALS)
        except KeyboardInterrupt:
            storm(*SIGNALS, *SIGNALS)  # while the plan is being finished
            certificate = plan.certificate.model_copy(update={"degraded": ("interrupted",)})
            return plan.model_copy(update={"certificate": certificate})
        raise AssertionError("no interrupt")

    monkeypatch.setattr("placewright.rounds.solve_round", solve)
    result = run("solve", round_file, "-o", old)
    assert result.code == 128 + first
    assert "Plan for round" in result.out
    assert result.err == f"wrote {old}\nplacewright: degraded: interrupted\n"
    assert load_plan(old).kind == "Plan"


@pytest.mark.parametrize("where", ["instances.io.files.load_round", "rounds.solve_round"])
@pytest.mark.parametrize("number", SIGNALS)
def test_signals_before_there_is_a_plan_write_nothing_and_say_so(
    run, monkeypatch, round_file, old, where, number
):
    monkeypatch.setattr(f"placewright.{where}", lambda *_, **__: storm(number, *SIGNALS))
    result = run("solve", round_file, "-o", old)
    assert (result.code, result.out, result.err) == (6, "", NOTHING)
    assert old.read_text() == "OLD"


def test_a_plan_that_is_there_when_the_executor_is_closed_is_written(
    run, monkeypatch, tmp_path, old
):
    round_, plan = regional.fast()
    write(round_, tmp_path / "round.json")

    class Pool:
        def __enter__(self) -> None:
            return None

        def __exit__(self, *_: object) -> None:
            storm(signal.SIGTERM)

    monkeypatch.setattr("placewright.rounds.regions.executors.open_executor", lambda _: Pool())
    monkeypatch.setattr("placewright.rounds.solve_round", lambda *_, **__: plan)
    assert run("solve", tmp_path / "round.json", "-o", old, "--executor", "local").code == 0
    assert load_plan(old).kind == "Plan"


def test_a_signal_while_a_file_is_written_comes_too_late(run, monkeypatch, old):
    monkeypatch.setattr("pathlib.Path.replace", interrupting(Path.replace))
    assert run("generate", "cluster", "--gpus", "8", "-o", old).code == 0
    assert files.load_cluster(old).hosts


def test_a_signal_before_a_file_is_written_leaves_the_old_one(run, monkeypatch, old):
    make = interrupting(generate_round)
    monkeypatch.setattr("placewright.instances.generators.gang.generate_round", make)
    result = run("generate", "round", "--gpus", "8", "--jobs", "1", "-o", old)
    assert (result.code, result.out, result.err) == (6, "", NOTHING)
    assert old.read_text() == "OLD"
    assert list(old.parent.iterdir()) == [old]


def test_a_signal_while_the_plan_is_printed_says_that_it_is_written(
    run, monkeypatch, round_file, plan_file, old
):
    monkeypatch.setattr("placewright.rounds.solve_round", lambda *_, **__: load_plan(plan_file))
    monkeypatch.setattr("placewright.cli.views.tables.print_plan", lambda *_: storm(signal.SIGINT))
    result = run("solve", round_file, "-o", old)
    line = f"placewright: interrupted while printing; {old} is written\n"
    assert (result.code, result.err) == (130, line)
    assert load_plan(old).kind == "Plan"


def test_a_signal_that_a_library_makes_an_error_of_is_still_an_interrupt(
    run, monkeypatch, round_file
):
    def load(path: str, *, lenient: bool) -> None:
        try:
            storm(signal.SIGTERM)
        except BaseException as error:
            raise ValueError("no schema") from error

    monkeypatch.setattr("placewright.instances.io.files.load_round", load)
    result = run("solve", round_file)
    assert (result.code, result.out, result.err) == (6, "", NOTHING)


def test_a_signal_in_a_finaliser_is_not_lost(run, monkeypatch, round_file):
    class Finalised:
        def __del__(self) -> None:
            storm(signal.SIGINT)

    def load(path: str, *, lenient: bool) -> None:
        one = Finalised()
        del one
        time.sleep(60)

    monkeypatch.setattr("placewright.instances.io.files.load_round", load)
    result = run("solve", round_file)
    assert (result.code, result.out, result.err) == (6, "", NOTHING)


def test_signals_that_are_ignored_stay_so_and_handlers_come_back(run, monkeypatch, round_file):
    def hangup(kind: str) -> dict[str, str]:
        storm(signal.SIGHUP)
        return {}

    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup has it
    before = {number: signal.getsignal(number) for number in SIGNALS}
    monkeypatch.setattr("placewright.instances.io.schema.json_schema", hangup)
    assert run("schema") == (0, "{}\n", "")
    assert {number: signal.getsignal(number) for number in SIGNALS} == before


def test_elsewhere_than_in_the_main_thread_the_command_runs_without_signals():
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(main, ["--version"]).result() == 0


def interrupting(act: Callable[..., object]) -> Callable[..., object]:
    """Send signals before something is done."""

    def acts(*args, **options) -> object:
        storm(*SIGNALS)
        return act(*args, **options)

    return acts


SEARCH = """
import sys
sys.path[:0] = [{planted!r}]
import placewright.rounds
from placewright.cli.app import main
from placewright.solver import Worker
honest, solve = Worker.solve, placewright.rounds.solve_round
Worker.solve = lambda self, backend, *rest: honest(self, "planted_backends:hangs", *rest)
report = lambda *_: print("found", file=sys.stderr, flush=True)
placewright.rounds.solve_round = lambda *args, **how: solve(*args, **{{**how, "progress": report}})
sys.exit(main())
"""


def searching(round_file: Path, plan: Path, scratch: Path) -> subprocess.Popen[str]:
    """Start a search that would go on for a long time; it says when it has found a plan."""
    program = SEARCH.format(planted=str(ROOT / "tests" / "solver"))
    return subprocess.Popen(
        [sys.executable, "-c", program, "solve", round_file, "-o", plan, "--time-limit", "600"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(scratch)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_real_search_ends_at_a_storm_of_signals_and_leaves_only_the_plan(
    round_file, old, tmp_path
):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with searching(round_file, old, scratch) as process:
        assert process.stderr.readline() == "found\n"
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)  # of signals at the same time the lowest comes first
        for number in SIGNALS * 3:
            process.send_signal(number)
        errors = process.stderr.read()
    assert process.returncode == 143
    assert "Traceback" not in errors
    assert "degraded: interrupted" in errors
    assert load_plan(old).certificate.degraded
    assert not list(scratch.iterdir())


@pytest.mark.nightly
def test_signals_at_random_moments_leave_a_plan_or_a_word(round_file, old, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    chance = random.Random(0)
    for _ in range(4):
        old.write_text("OLD")
        with searching(round_file, old, scratch) as process:
            time.sleep(chance.uniform(0.2, 4))
            for _ in range(chance.choice((1, 2, 9))):
                process.send_signal(chance.choice(SIGNALS))
                time.sleep(chance.choice((0, 0.001, 0.05)))
            errors = process.stderr.read()
        if old.read_text() == "OLD":
            # Below zero: the signal came before any code of ours.
            assert process.returncode == 6 or process.returncode < 0
            assert process.returncode < 0 or errors.endswith(NOTHING)
        else:
            assert process.returncode in {128 + number for number in SIGNALS}
            assert load_plan(old).certificate.degraded
        assert process.returncode < 0 or "Traceback" not in errors
        assert not list(scratch.iterdir())
