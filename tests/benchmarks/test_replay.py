"""The benchmark `replay`: its trace is the cluster that it promises, and a command plays it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import replay
from examples import examples
from placewright.instances.traces.read import read_trace
from placewright.instances.traces.trace import SECOND


def test_the_trace_asks_for_the_load_of_the_year(tmp_path: Path) -> None:
    replay.write_trace(tmp_path / "trace.csv", 5000)
    trace = read_trace(tmp_path / "trace.csv")
    seconds = replay.YEAR_S * 5000 / replay.JOBS
    room = SECOND * seconds * replay.HOSTS * replay.GPUS_PER_HOST
    assert (trace.gpus * trace.work_us).sum() / room == pytest.approx(replay.LOAD, rel=1e-3)
    assert trace.submit_us.max() < SECOND * seconds
    assert (trace.predicted_us >= trace.work_us).all()


def test_a_replay_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = examples(day=150, nightly=500)
    monkeypatch.setattr(replay, "QUICK_JOBS", jobs)
    (row,) = replay.run([replay.Case("easy", 300)], quick=True)
    assert (row.case, row.status, row.figures["jobs"]) == ("easy-300s", "done", jobs)
