"""A backend that misbehaves costs quality, never the next solve."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from placewright.solver import (
    BackendUnavailableError,
    InProcess,
    Limits,
    Model,
    Status,
    UnsupportedModelError,
    Worker,
    process,
)

HERE = str(Path(__file__).parent)
SHORT = Limits(seconds=1.0)
LONG = Limits(seconds=30.0)

_spec = importlib.util.spec_from_file_location(
    "planted_backends", Path(HERE, "planted_backends.py")
)
planted = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(planted)
OPTIMUM, tiny = planted.OPTIMUM, planted.tiny


@pytest.fixture(scope="module")
def worker():
    sys.path.insert(0, HERE)
    with Worker() as one:
        yield one
    sys.path.remove(HERE)


def solve(worker, name, limits=LONG, start=None, report=None):
    return worker.solve(f"planted_backends:{name}", tiny(), limits, start, report)


def still_works(worker) -> None:
    outcome = worker.solve("highs", tiny(), LONG)
    assert outcome.status is Status.OPTIMAL
    assert outcome.objective == 7.0
    assert outcome.values.tolist() == OPTIMUM.tolist()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("raises", "raised ValueError: no luck"),
        ("answers_nothing", "answer NoneType is no outcome"),
        ("exits", "exit code 7: last words"),
        ("is_killed", "signal SIGKILL"),
        ("lies_about_the_point", "lied: it returned a point that is not feasible"),
        ("lies_with_a_fraction", "lied: it returned a point that is not feasible"),
        ("lies_about_the_shape", "lied: it returned a point that is not feasible"),
        ("lies_about_the_bound", "lied: it claimed the bound 6.5, which the point 7.0 beats"),
        ("lies_about_the_objective", "lied: it claimed the objective 1000.0 of a point of 7.0"),
        ("lies_about_the_duals", "lied: it returned duals that are not a finite number per row"),
        ("lies_with_nan", "lied: it returned the bound nan"),
        ("denies_its_own_point", "lied: it claimed infeasibility"),
        ("underbids_its_own_point", "lied: it claimed the bound 6.0"),
    ],
)
def test_fault_becomes_a_failed_outcome_with_its_reason(worker, name: str, words: str) -> None:
    outcome = solve(worker, name)
    assert outcome.status is Status.FAILED
    assert words in outcome.message
    assert outcome.values is None
    assert outcome.bound is None
    still_works(worker)


def test_backend_that_hangs_is_killed_at_the_limit(worker) -> None:
    still_works(worker)
    outcome = solve(worker, "hangs", SHORT)
    assert outcome.status is Status.FAILED
    assert outcome.message == "killed at the limit"
    assert outcome.wall_stopped
    still_works(worker)


def test_small_models_need_no_process() -> None:
    with Worker(tries_here=True) as fresh:
        still_works(fresh)
        assert fresh.cpu_seconds() == 0
        assert solve(fresh, "is_killed").status is Status.FAILED


def test_a_try_in_this_process_leaves_another_half_of_the_limit_or_takes_all(monkeypatch) -> None:
    attempt, given = process.attempt, []

    def noted(backend, arrays, limits, start, report):
        given.append(limits.seconds)
        return attempt(backend, arrays, limits, start, report)

    monkeypatch.setattr(process, "attempt", noted)
    seconds = process.HERE_SECONDS
    with Worker(tries_here=True) as fresh:
        for limit in (seconds / 2, seconds * 1.5, seconds * 2, seconds * 2.5):
            fresh.solve("highs", tiny(), Limits(seconds=limit))
    assert given == [seconds / 2, seconds * 1.5, seconds * 2, seconds]


def test_a_search_that_hangs_in_this_process_is_left_to_another(monkeypatch) -> None:
    stuck = threading.Event()

    def hang(*_, **__):
        stuck.wait()

    monkeypatch.setattr(process, "attempt", hang)
    with Worker(tries_here=True) as fresh:
        still_works(fresh)
        assert fresh.peak_mib() > 0
        with Worker(tries_here=True) as beside:  # none begins beside a search that goes on
            still_works(beside)
            assert beside.peak_mib() > 0
    stuck.set()


def test_last_point_and_bound_of_a_killed_backend_are_kept(worker) -> None:
    still_works(worker)
    heard = []
    outcome = solve(worker, "hangs_with_a_point", SHORT, report=heard.append)
    assert outcome.status is Status.FEASIBLE
    assert outcome.values.tolist() == [2.0, 1.0]
    assert (outcome.objective, outcome.bound) == (5.0, 7.5)
    assert [news.objective for news in heard] == [5.0]
    assert outcome.trajectory == ((0.0, 5.0, 7.5),)
    still_works(worker)


def test_last_point_of_a_crashed_backend_is_kept(worker) -> None:
    outcome = solve(worker, "exits_with_a_point")
    assert outcome.status is Status.FEASIBLE
    assert (outcome.objective, outcome.bound) == (5.0, 7.5)
    assert "exit code 7" in outcome.message
    still_works(worker)


@pytest.mark.nightly
def test_streamed_point_that_is_not_feasible_is_dropped(worker) -> None:
    still_works(worker)
    heard = []
    outcome = solve(worker, "hangs_with_a_lie", SHORT, report=heard.append)
    assert outcome.status is Status.FAILED
    assert heard == []


@pytest.mark.nightly
def test_backend_that_takes_too_much_memory_is_killed(worker) -> None:
    outcome = solve(worker, "takes_memory", Limits(seconds=30.0, memory_mib=300))
    assert outcome.status is Status.FAILED
    assert "of memory; at most 300 MiB was expected" in outcome.message
    assert worker.peak_mib() > 300
    still_works(worker)


def test_program_started_by_a_killed_backend_is_killed_too(worker, tmp_path, monkeypatch) -> None:
    note = tmp_path / "pid"
    monkeypatch.setenv("PLANTED_FILE", str(note))
    with Worker() as fresh:
        outcome = solve(fresh, "hangs_with_a_program", SHORT)
        assert outcome.message == "killed at the limit"
    assert is_gone(int(note.read_text()))


def is_gone(process: int) -> bool:
    for _ in range(100):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


PARENT = """
import sys
from placewright.solver import Limits, Worker
import planted_backends as planted

with Worker() as worker:
    worker.warm("highs")
    print(worker._child.process.pid, worker._child.scratch, flush=True)
    worker.solve(sys.argv[1], planted.hard(), Limits(seconds=60.0))
"""


@pytest.mark.nightly(after=1)
@pytest.mark.parametrize(
    "backend", ["highs", "cp-sat", "cbc", "scip", "planted_backends:hangs_with_a_program"]
)
def test_search_ends_when_the_parent_is_killed(backend: str, tmp_path) -> None:
    note = tmp_path / "pid"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, backend],
        env={**os.environ, "PYTHONPATH": HERE, "PLANTED_FILE": str(note)},
        stdout=subprocess.PIPE,
        text=True,
    )
    worker, scratch = parent.stdout.readline().split()
    time.sleep(3)
    assert not is_gone_now(int(worker))
    assert Path(scratch).is_dir()
    parent.kill()
    parent.wait()
    assert is_gone(int(worker))
    assert not Path(scratch).exists()
    if note.exists():
        assert is_gone(int(note.read_text()))


def test_almost_integral_point_becomes_exactly_integral(worker) -> None:
    outcome = solve(worker, "almost_integral")
    assert outcome.values.tolist() == OPTIMUM.tolist()
    assert outcome.objective == 7.0


def test_claimed_infeasibility_is_checked_against_the_start(worker) -> None:
    assert solve(worker, "denies").status is Status.INFEASIBLE
    assert solve(worker, "denies", start=OPTIMUM).status is Status.FAILED
    assert solve(worker, "denies", start=np.array([3.0, 3.0])).status is Status.INFEASIBLE
    assert solve(InProcess(), "denies", start=OPTIMUM).status is Status.FAILED


def test_prints_of_a_backend_do_not_reach_the_pipe(worker) -> None:
    assert solve(worker, "prints").objective == 7.0


def test_interrupt_does_not_reach_the_worker(worker) -> None:
    assert solve(worker, "hears_an_interrupt").objective == 7.0


def test_interrupt_of_the_parent_kills_the_worker_and_goes_on(worker) -> None:
    def interrupt(_):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

    # A test run in the background may have inherited that interrupts are ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            solve(worker, "hangs_with_a_point", report=interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    still_works(worker)


def test_limit_of_zero_seconds_is_kept(worker) -> None:
    assert solve(worker, "seconds_left", LONG).status is Status.NO_SOLUTION
    assert float(solve(worker, "seconds_left", Limits(0.0)).message) == 0.0
    for backend in ("highs", "cp-sat", "cbc", "scip"):
        assert worker.solve(backend, tiny(), Limits(0.0)).status in Status


def test_worker_ends_when_it_is_closed(worker) -> None:
    with Worker() as fresh:
        process = int(solve(fresh, "almost_integral").message)
        assert not is_gone_now(process)
        assert fresh.cpu_seconds() > 0
        assert fresh.peak_mib() > 0
    assert is_gone_now(process)
    assert fresh.cpu_seconds() > 0
    fresh.close()


def is_gone_now(process: int) -> bool:
    return not Path(f"/proc/{process}").exists()


def test_one_worker_serves_many_solves_and_a_new_one_follows_a_fault(worker) -> None:
    first, second = (solve(worker, "almost_integral").message for _ in range(2))
    assert first == second
    cpu = worker.cpu_seconds()
    solve(worker, "exits")
    assert solve(worker, "almost_integral").message != first
    assert worker.cpu_seconds() >= cpu


def test_warming_is_optional_and_forgives_an_unknown_backend(worker) -> None:
    with Worker() as fresh:
        fresh.warm("highs")
        fresh.warm("no_such_module:solve")
        still_works(fresh)


@pytest.mark.parametrize("make", [Worker, InProcess])
def test_errors_of_the_caller_are_raised(make) -> None:
    model = Model()
    column = model.variables("x", 1, upper=3, integer=False)
    model.term("value", column, 1, sense="max")
    with make() as solver:
        with pytest.raises(UnsupportedModelError, match="column 0 is continuous"):
            solver.solve("cp-sat", model.arrays("value"), LONG)
        with pytest.raises(BackendUnavailableError, match="'nonsense' is unknown"):
            solver.solve("nonsense", model.arrays("value"), LONG)
        with pytest.raises(BackendUnavailableError, match="no_such_module"):
            solver.solve("no_such_module:solve", model.arrays("value"), LONG)


@pytest.mark.parametrize("name", ["raises", "answers_nothing", "lies_about_the_point"])
def test_faults_without_isolation_become_failed_outcomes(worker, name: str) -> None:
    assert solve(InProcess(), name).status is Status.FAILED


def test_large_model_goes_through_the_pipe(worker) -> None:
    model = Model()
    columns = model.variables("x", 20_000, upper=1)
    rows = model.rows("cap", 20_000, upper=1)
    model.add(rows, columns, 1)
    model.add(rows, np.roll(columns, 1), 1)
    model.term("value", columns, 1, sense="max")
    outcome = worker.solve("highs", model.arrays("value", relax=True), LONG)
    assert outcome.objective == pytest.approx(10_000)
    assert outcome.row_duals.shape == (20_000,)


def test_a_fork_leaves_the_worker_process_to_its_parent() -> None:
    # In a process of its own, since a test's fork would run the end of pytest, too.
    script = """
import os, sys
from planted_backends import tiny
from placewright.solver import Limits, Worker

with Worker() as worker:
    worker.solve("highs", tiny(), Limits(seconds=30.0))
    mine = worker._child
    child = os.fork()
    if child == 0:
        worker.close()
        worker.solve("highs", tiny(), Limits(seconds=30.0))
        assert worker._child.process.pid != mine.process.pid
        worker.close()
        sys.exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert mine.process.poll() is None and mine.scratch.is_dir()
    outcome = worker.solve("highs", tiny(), Limits(seconds=30.0))
    assert not outcome.fault and worker._child is mine
assert not mine.scratch.exists()
"""
    paths = os.pathsep.join([HERE, *sys.path])
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_without_a_folder_for_files_this_process_solves(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with Worker() as fresh:
        fresh.warm("highs")
        outcome = fresh.solve("highs", tiny(), LONG)
        assert outcome.objective == 7.0
        assert outcome.fault
        assert outcome.message.startswith("solved in this process, as no other could be started: ")
        assert "missing" in outcome.message
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        still_works(fresh)
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_cannot_be_started_leaves_nothing_open(monkeypatch, tmp_path) -> None:
    def refuse(*args, **kwargs) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(subprocess, "Popen", refuse)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with Worker() as fresh:
        fresh.warm("highs")
        outcome = fresh.solve("highs", tiny(), LONG)
        assert (outcome.objective, outcome.fault) == (7.0, True)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert list(tmp_path.iterdir()) == []


def test_with_few_file_handles_this_process_solves() -> None:
    script = """
import resource
import placewright.solver.backends.highs
from planted_backends import tiny
from placewright.solver import Limits, Worker

resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5))
with Worker() as worker:
    outcome = worker.solve("highs", tiny(), Limits(seconds=30.0))
assert outcome.objective == 7.0 and outcome.fault, outcome
assert "Too many open files" in outcome.message
"""
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([HERE, *sys.path])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
