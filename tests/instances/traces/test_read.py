"""Readers of traces, on handmade files."""

from __future__ import annotations

from pathlib import Path

import pytest

from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.read import read_trace
from placewright.instances.traces.trace import NEVER

SWF = """; Version: 2.2
; Computer: handmade
1 10 -1 100 4 -1 -1 4 200 -1 1 7 1 -1 1 -1 -1 -1
2 5 3 50 -1 -1 -1 2 -1 -1 1 8 1 -1 1 -1 -1 -1
3 20 0 -1 4 -1 -1 4 200 -1 0 7 1 -1 1 -1 -1 -1
1 -1 -1 40 4 -1 -1 4 200 -1 2 7 1 -1 1 -1 -1 -1
1 -1 15 60 4 -1 -1 4 200 -1 3 7 1 -1 1 -1 -1 -1
"""


def written(folder: Path, text: str, name: str = "trace.csv") -> Path:
    """Write a file."""
    path = folder / name
    path.write_text(text)
    return path


def test_our_own_format(tmp_path: Path) -> None:
    trace = read_trace(
        written(
            tmp_path,
            "submit_s,gpus,duration_s,name,tenant,predicted_s,deadline_s,value\n"
            "20.5,2,1.25,late,a,,,\n"
            "10,8,60,early,b,90,100,5\n",
        )
    )
    assert trace.names == ("early", "late")
    assert trace.submit_us.tolist() == [0, 10_500_000]
    assert trace.work_us.tolist() == [60_000_000, 1_250_000]
    assert trace.predicted_us.tolist() == [90_000_000, 1_250_000]
    assert trace.deadline_us.tolist() == [90_000_000, NEVER]
    assert trace.value.tolist() == [5, 0]
    assert [trace.tenants[t] for t in trace.tenant] == ["b", "a"]


def test_further_columns_of_whole_numbers_are_kept(tmp_path: Path) -> None:
    text = "submit_s,gpus,duration_s,cpus,note,work_us\n1,1,9,8,a,3\n0,1,9,16,b,3\n"
    trace = read_trace(written(tmp_path, text))
    assert {name: rows.tolist() for name, rows in trace.extra.items()} == {"cpus": [16, 8]}
    assert trace.work_us.tolist() == [9_000_000, 9_000_000]


def test_swf(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, SWF, "log.swf"))
    assert trace.names == ("2", "1")
    assert trace.submit_us.tolist() == [0, 5_000_000]
    assert trace.gpus.tolist() == [2, 4]
    assert trace.predicted_us.tolist() == [50_000_000, 200_000_000]
    assert [trace.tenants[t] for t in trace.tenant] == ["8", "7"]
    assert trace.left_out == {"ran no time": 1}


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("t.swf", "1 2 3\n", "line 1: '1 2 3': expected 18 fields"),
        ("t.swf", SWF.replace(" 50 ", " soon "), "line 4: 'soon': expected a number"),
        ("t.swf", SWF.replace("\n2 5 ", "\n1 5 "), "line 4: '1': expected each job once; line 3"),
        ("t.swf", SWF.replace(" 50 ", " 1_0 "), "line 4: '1_0': expected a number"),
        ("t.swf", SWF.replace(" 50 ", " 5000000000 "), "line 4: '5000000000': expected at most"),
        ("t.csv", "submit_s,gpus,duration_s\n0,0,5\n", "line 2, column gpus"),
        ("t.csv", "submit_s,gpus,duration_s\n0,1,abc\n", "line 2, column duration_s"),
        ("t.csv", "when,what\n0,1\n", "expected the columns of a known trace"),
        (
            "t.csv",
            "job_id,num_gpu,submit_time,iterations,iteration_time\n0,1,x,5,7\n",
            "submit_time",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    name: str, text: str, told: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_trace(written(tmp_path, text, name))
    assert told in str(caught.value)
    assert name in str(caught.value)
