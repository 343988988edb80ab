"""Signals in the searches of `whatif`: what is known is printed, or a line that nothing is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from placewright.instances.documents.plan import Plan
from placewright.instances.io.files import load_plan, parse_plan
from placewright.rounds import solve_round

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def usual_handler() -> Any:
    """A test run in the background may have inherited that the signal is ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """Edits that move the clock."""
    path = tmp_path / "later.yaml"
    path.write_text("[{advance_s: 60}]")
    return path


def interrupted_second(monkeypatch, *, planless: bool) -> None:
    """Send a signal in the second of two searches, which then ends with a plan or without."""
    searches: list[int] = []

    def search(*args: Any, **how: Any) -> Plan:
        searches.append(1)
        if len(searches) == 1:
            return solve_round(*args, **how)
        plan = None if planless else solve_round(*args, **how)
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        if plan is None:
            raise KeyboardInterrupt
        certificate = plan.certificate.model_copy(update={"degraded": ("interrupted",)})
        return plan.model_copy(update={"certificate": certificate})

    monkeypatch.setattr("placewright.explain.whatif.solve_round", search)


@pytest.mark.nightly
def test_an_interrupt_of_the_second_search_compares_with_what_it_found(
    run, round_file, later, tmp_path, monkeypatch
):
    interrupted_second(monkeypatch, planless=False)
    after = tmp_path / "after.json"
    done = run("whatif", round_file, "-e", later, "-o", after)
    assert done.code == 130
    assert "The second search was interrupted: its plan may not be finished." in done.out
    assert load_plan(after).kind == "Plan"


def test_an_interrupt_before_a_second_plan_prints_the_first(
    run, round_file, later, tmp_path, monkeypatch
):
    interrupted_second(monkeypatch, planless=True)
    after = tmp_path / "after.json"
    done = run("whatif", round_file, "-e", later, "-o", after)
    assert done.code == 130
    said = "The clock is 1m later.\n\nThe second search was interrupted before it had a plan."
    assert said in done.out
    assert "Plan for round" in done.out
    assert not after.exists()


@pytest.mark.nightly
def test_an_interrupt_before_the_second_plan_as_json(run, round_file, later, monkeypatch):
    interrupted_second(monkeypatch, planless=True)
    done = run("whatif", round_file, "-e", later, "--format", "json")
    assert done.code == 130
    found = json.loads(done.out)
    assert found["interrupted"]
    assert parse_plan(found["before"]).kind == "Plan"


def test_an_interrupt_of_the_first_search_leaves_nothing(
    run, round_file, later, tmp_path, monkeypatch
):
    def search(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

    monkeypatch.setattr("placewright.explain.whatif.solve_round", search)
    done = run("whatif", round_file, "-e", later, "-o", tmp_path / "after.json")
    assert (done.code, done.out) == (6, "")
    assert "nothing was written" in done.err


SEARCH = """
import sys
sys.path[:0] = [{planted!r}]
import placewright.explain.whatif
from placewright.cli.app import main
from placewright.solver import Worker
honest, solve = Worker.solve, placewright.explain.whatif.solve_round
Worker.solve = lambda self, backend, *rest: honest(self, "planted_backends:hangs", *rest)
report = lambda *_: print("found", file=sys.stderr, flush=True)
placewright.explain.whatif.solve_round = lambda *args, **how: solve(
    *args, **{{**how, "progress": report}}
)
sys.exit(main())
"""


@pytest.mark.nightly
def test_a_real_second_search_ends_at_a_signal(round_file, later, plan_file, tmp_path):
    program = SEARCH.format(planted=str(ROOT / "tests" / "solver"))
    after = tmp_path / "after.json"
    words = ("whatif", round_file, "--plan", plan_file, "-e", later, "--time-limit", "600")
    with subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words), "-o", str(after)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr.readline() == "found\n"
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=120)
    assert process.returncode == 143
    assert "The second search was interrupted: its plan may not be finished." in out
    assert "Traceback" not in errors
    assert "interrupted" in load_plan(after).certificate.degraded
