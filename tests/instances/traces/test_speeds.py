"""Options and speeds of traces: our own columns, ElasticFlow's tables, Gavel's GPU models."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.papers import MEASURED, THROUGHPUTS
from placewright.instances.traces.read import read_trace
from placewright.instances.traces.trace import SPEED_BY_OPTION, SPREAD_SPEED, RunOption
from tests.instances.traces.files import TRACES, needs_traces, written
from tests.instances.traces.test_gavel import GAVEL

TABLES = Path(__file__).parents[2] / "data" / "elasticflow-speeds" / MEASURED
HEAD = "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
JOBS = "b,60,6503,bert,99,128,16,604\na,0,100,vgg16,900,64,1,20\nnone,0,1,gone,9,1,0,5\n"


def test_columns_of_our_own_format(tmp_path: Path) -> None:
    head = "submit_s,gpus,duration_s,speed:1,speed:4:V100:tp4,spread:4:V100:tp4\n"
    trace = read_trace(written(tmp_path, head + "5,1,9,0.5,,\n0,1,9,1,2.5,2\n"))
    assert trace.options == (RunOption(1), RunOption(4, "V100", "tp4"))
    assert trace.extra[SPEED_BY_OPTION].tolist() == [[1_000_000, 2_500_000], [500_000, 0]]
    assert trace.extra[SPREAD_SPEED].tolist() == [[0, 2_000_000], [0, 0]]
    assert not trace.unread


def test_elasticflows_tables(tmp_path: Path) -> None:
    shutil.copytree(TABLES, tmp_path / MEASURED)
    trace = read_trace(written(tmp_path, HEAD + JOBS.splitlines()[0] + "\n" + JOBS.splitlines()[1]))
    assert trace.options == tuple(map(RunOption, (1, 2, 4, 8, 16, 32, 64)))
    speeds = trace.extra[SPEED_BY_OPTION]
    assert speeds[0, :2].tolist() == [1_000_000, round(1e6 * 9.03564356887826 / 5.053019147087227)]
    assert speeds[1, 4] == 1_000_000
    assert speeds[1, 3] == round(1e6 * 9.994239610576015 / 10.767556247473081)


def test_without_its_tables_elasticflow_has_no_speeds(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, HEAD + JOBS))
    assert (trace.options, dict(trace.extra)) == ((), {})
    assert trace.left_out == {"asked no GPU": 1}


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        ("trace", ("bert", "../bert"), "line 2, column model_name: '../bert': expected a model"),
        ("trace", ("bert", "llama"), "line 2, column model_name: 'llama': expected a model"),
        ("trace", (",128,", ",100,"), "line 2, column num_gpu: '16': expected GPUs and a batch"),
        ("trace", (",128,16,", ",128,3,"), "line 2, column num_gpu: '3': expected GPUs and a"),
        ("table", ("3.57", "nan"), "line 3, column 1: 'nan"),
        ("table", (",1,2,", ",one,2,"), "line 1: 'one': expected a number of GPUs"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, file: str, change: tuple[str, str], said: str) -> None:
    shutil.copytree(TABLES, tmp_path / MEASURED)
    table = tmp_path / MEASURED / "bert.csv"
    if file == "table":
        table.write_text(table.read_text().replace(*change))
    text = HEAD + JOBS.splitlines()[0]
    path = written(tmp_path, text.replace(*change) if file == "trace" else text)
    with pytest.raises(InvalidInputError, match=said):
        read_trace(path)


def test_gavels_gpu_models(tmp_path: Path) -> None:
    lm, a3c = "('LM (batch size 5)', 2)", "('A3C', 1)"
    rates = {
        "k80": {lm: {"null": 0.0}, a3c: {"null": 0.35}},
        "k80_unconsolidated": {lm: {"null": 0.0}},
        "v100": {lm: {"null": 3.0}, a3c: {"null": 0.7}},
        "v100_unconsolidated": {lm: {"null": 1.5}},
    }
    (tmp_path / THROUGHPUTS).write_text(json.dumps(rates))
    trace = read_trace(written(tmp_path, GAVEL, "a.trace"))
    assert trace.options == tuple(RunOption(n, m) for n in (1, 2) for m in ("K80", "V100"))
    assert trace.extra[SPEED_BY_OPTION].tolist() == [
        [500_000, 1_000_000, 0, 0],
        [0, 0, 0, 1_000_000],
    ]
    assert trace.extra[SPREAD_SPEED].tolist() == [
        [500_000, 1_000_000, 0, 0],
        [0, 0, 0, 500_000],
    ]


@needs_traces
@pytest.mark.parametrize("cluster", ["cluster03", "cluster06", "cluster10"])
def test_measured_speeds_reproduce_every_duration(tmp_path: Path, cluster: str) -> None:
    """Iterations at the measured rate of the GPUs asked take `duration`, to the second."""
    path = TRACES / "elasticflow" / "deadline" / f"{cluster}.csv"
    rates = {}
    for file in TABLES.glob("*.csv"):
        for row in csv.DictReader(file.open()):
            for gpus, rate in row.items():
                rates[file.stem, row["global_batch_size"], gpus] = rate
    jobs = list(csv.DictReader(path.open()))
    took = [
        int(job["num_iteration"])
        / float(rates[job["model_name"], job["batch_size"], job["num_gpu"]])
        for job in jobs
    ]
    told = np.array([int(job["duration"]) for job in jobs])
    assert np.abs(np.array(took) - told).max() <= 1
