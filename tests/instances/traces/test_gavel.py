"""The readers of Gavel's and Shockwave's traces."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.papers import THROUGHPUTS
from placewright.instances.traces.read import read_trace
from placewright.instances.traces.trace import NEVER
from tests.instances.traces.files import INPUTS, SHARED, needs_traces, written

GAVEL = (
    'LM (batch size 5)\tpython3 main.py --x "y"\tlm\t--steps\t1\t3000\t2\t1\t1.2\t30\n'
    "A3C\tpython3 main.py\ta3c\t--max-steps\t0\t1000\t1\t1\t-1.000000\t10.5\n"
)
RATES = {"v100": {"('LM (batch size 5)', 2)": {"null": 3.0}, "('A3C', 1)": {"null": 0.7}}}

SHOCKWAVE = (
    "LM (batch size 5)\tpython3 main.py\tlm\t--steps\t1\t3000\t2\tgns\t1\t2.0\t1418\t30\n"
    "A3C\tpython3 main.py\ta3c\t-n\t0\t1000\t1\tstatic\t1\t-1.000000\t60\t0\n"
)


def test_steps_take_the_time_of_gavels_v100(tmp_path: Path) -> None:
    (tmp_path / THROUGHPUTS).write_text(json.dumps(RATES))
    trace = read_trace(written(tmp_path, GAVEL, "a.trace"))
    assert trace.names == ("1", "0")
    assert trace.submit_us.tolist() == [0, 19_500_000]
    assert trace.gpus.tolist() == [1, 2]
    assert trace.work_us.tolist() == [1_428_571_429, 1_000_000_000]
    assert trace.deadline_us.tolist() == [NEVER, 19_500_000 + 1_200_000_000]
    assert trace.value.tolist() == [0, 1]
    assert [trace.models[m] for m in trace.model] == ["A3C", "LM (batch size 5)"]


def test_shockwave_has_durations(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, SHOCKWAVE, "a.trace"))
    assert trace.submit_us.tolist() == [0, 30_000_000]
    assert trace.gpus.tolist() == [1, 2]
    assert trace.work_us.tolist() == [60_000_000, 1_418_000_000]
    assert trace.deadline_us.tolist() == [NEVER, 30_000_000 + 2_836_000_000]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (GAVEL.replace("\t3000\t", "\tnan\t"), "line 1, column total_steps: 'nan'"),
        (GAVEL.replace("\t3000\t", "\t0\t"), "line 1, column total_steps: '0'"),
        (GAVEL.replace("\t10.5", "\t-3"), "line 2, column arrival_time: '-3'"),
        (GAVEL.replace("\t1.2\t", "\t-2\t"), "line 1, column SLO: '-2'"),
        (GAVEL.replace("\t2\t1\t1.2", "\t4\t1\t1.2"), "line 1, column job_type: 'LM (batch size"),
        (GAVEL.replace("A3C\t", "A3C,\t"), "line 2, column job_type: 'A3C,'"),
        (GAVEL.replace("\t10.5", ""), "line 2: 9 fields; expected 10 (job_type, command"),
        (GAVEL.replace("\t1000\t", "\t1000000000000\t"), "line 2, column total_steps"),
        (SHOCKWAVE.replace("1418", "1e9"), "line 1, column duration: '1e9'"),
        (SHOCKWAVE.replace("\t60\t0", "\t0\t0"), "line 2, column duration: '0'"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / THROUGHPUTS).write_text(json.dumps(RATES))
    with pytest.raises(InvalidInputError) as caught:
        read_trace(written(tmp_path, text, "a.trace"))
    assert told in str(caught.value)
    assert "a.trace" in str(caught.value)


@pytest.mark.parametrize(
    "rates",
    [
        None,
        "[]",
        "{",
        '{"v100": 1}',
        '{"v100": {"x": 1}}',
        '{"v100": {"x": {"null": "fast"}}}',
        '{"v100": {"x": {"null": -1}}}',
        '{"v100": {"x": {"null": 1e400}}}',
        '{"v100": {"x": {"null": true}}}',
        f'{{"v100": {{"x": {{"null": 1{"0" * 400}}}}}}}',
    ],
)
def test_throughputs_that_cannot_be_used(rates: str | None, tmp_path: Path) -> None:
    if rates is not None:
        (tmp_path / THROUGHPUTS).write_text(rates)
    with pytest.raises(InvalidInputError, match=THROUGHPUTS):
        read_trace(written(tmp_path, GAVEL, "a.trace"))


@needs_traces
def test_the_published_traces(tmp_path: Path) -> None:
    shutil.copy(SHARED / "profiles" / "gavel" / THROUGHPUTS, tmp_path)
    shutil.copy(INPUTS / "gavel_max_min_fairness.trace", tmp_path)
    gavel = read_trace(tmp_path / "gavel_max_min_fairness.trace")
    assert len(gavel) == 96
    assert np.bincount(gavel.gpus).tolist() == [0, 59, 19, 0, 18]
    shockwave = read_trace(INPUTS / "shockwave_120.trace")
    assert len(shockwave) == 120
    assert np.bincount(shockwave.gpus).tolist() == [0, 92, 20, 0, 8]
    assert int(shockwave.submit_us[-1]) == 5_011_000_000
