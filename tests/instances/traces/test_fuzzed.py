"""Damaged trace files: each is read or refused with its name, and what is read is possible."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from examples import examples
from placewright.instances.errors import InvalidInputError
from placewright.instances.traces.formats import MAX_GPUS, MAX_WORK_S
from placewright.instances.traces.papers import PROFILES, THROUGHPUTS
from placewright.instances.traces.read import read_trace
from placewright.instances.traces.trace import NEVER, SECOND, Trace
from tests.instances.traces.files import written
from tests.instances.traces.test_clusters import HELIOS, KALOS, PAI, PHILLY
from tests.instances.traces.test_deadlines import CHRONUS, ELASTICFLOW
from tests.instances.traces.test_gavel import GAVEL, RATES, SHOCKWAVE
from tests.instances.traces.test_openb import HEAD, PODS
from tests.instances.traces.test_read import SWF
from tests.instances.traces.test_synergy import MODELS
from tests.instances.traces.test_synergy import TRACE as SYNERGY

OWN = (
    "submit_s,gpus,duration_s,name,predicted_s,deadline_s,value\n"
    "20.5,2,1.25,late,,,\n10,8,60,early,90,100,5\n"
)
MURI = (
    "job_id,num_gpu,submit_time,iterations,model_name,iteration_time,resource_time_0\n"
    "0,1,0,5853661,dqn,490,446\n1,8,201694000,8787693,dqn,509,435\n"
)
TIRESIAS = "job_id,num_gpu,submit_time,duration\n0,1,0,164\n1,8,30,147\n"

FILES = {
    "cluster_job_log": json.dumps(PHILLY[:3], indent=1),
    "helios.csv": HELIOS,
    "kalos.csv": KALOS,
    "pai.csv": PAI,
    "chronus.csv": CHRONUS,
    "elasticflow.csv": ELASTICFLOW,
    "gavel.trace": GAVEL,
    "muri.csv": MURI,
    "openb.csv": HEAD + PODS,
    "own.csv": OWN,
    "shockwave.trace": SHOCKWAVE,
    "swf.swf": SWF,
    "synergy": SYNERGY,
    "tiresias.csv": TIRESIAS,
}

BESIDE = {THROUGHPUTS: json.dumps(RATES), PROFILES: json.dumps(MODELS)}
"""Files that have to be in the folder of a trace."""

CELLS = (
    *("", "-1", "-0", "nan", "inf", "-inf", "1e400", "1e9", "0x10", "1_000", "٣", "²", "null"),
    *("9" * 15, "9" * 19, "9" * 400, "1.5", "0.0000001", "-1.000000", "9999999999", "1000000000"),
    *('"', "a,b", "\0", "\x1b[31m", "[1]", "0-0", "-", "5-5-5", "1-2-3-4"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the files that have to be beside a trace."""
    for name, text in BESIDE.items():
        written(tmp_path, text, name)
    return tmp_path


def possible(trace: Trace) -> None:
    """Check what holds of every trace."""
    assert len(set(trace.names)) == len(trace)
    columns = (trace.submit_us, trace.gpus, trace.work_us, trace.deadline_us, trace.value)
    assert all(len(column) == len(trace) and column.dtype == np.int64 for column in columns)
    assert np.all(np.diff(trace.submit_us, prepend=0) >= 0)
    assert np.all((trace.gpus >= 1) & (trace.gpus <= MAX_GPUS))
    assert np.all((trace.work_us >= 1) & (trace.work_us <= MAX_WORK_S * SECOND))
    assert np.all((trace.predicted_us >= 1) & (trace.predicted_us <= MAX_WORK_S * SECOND))
    assert np.all((trace.deadline_us == NEVER) | (np.abs(trace.deadline_us) < 1 << 61))
    assert np.all(trace.value >= 0)


def tried(folder: Path, name: str, text: str) -> None:
    """Read a file, which is possible or refused in one printable line that names it."""
    try:
        trace = read_trace(written(folder, text, name))
    except InvalidInputError as error:
        assert any(file in str(error) for file in (name, *BESIDE))
        assert str(error).isprintable()
    else:
        possible(trace)


def damaged(text: str, random: np.random.Generator) -> str:
    """Return a text with some characters changed, left out, doubled or cut off."""
    characters = list(text)
    for _ in range(int(random.integers(1, 4))):
        at = int(random.integers(len(characters)))
        match int(random.integers(4)):
            case 0:
                characters[at] = chr(int(random.integers(256)))
            case 1 if len(characters) > 1:
                del characters[at]
            case 2:
                characters[at:at] = characters[at : at + int(random.integers(1, 40))]
            case _:
                characters = characters[: at + 1]
    return "".join(characters)


@pytest.mark.nightly(after=2)
@pytest.mark.parametrize("name", FILES)
def test_each_cell_replaced_by_what_it_may_not_be(name: str, folder: Path) -> None:
    text = FILES[name]
    possible(read_trace(written(folder, text, name)))
    mark = "\t" if name.endswith(".trace") else " " if name.endswith(".swf") else ","
    lines = text.split("\n")
    for line, row in enumerate(lines[: examples(day=2, nightly=3)]):
        cells = row.split(mark)
        for field in range(len(cells)):
            for cell in CELLS:
                damaged = mark.join([*cells[:field], cell, *cells[field + 1 :]])
                tried(folder, name, "\n".join([*lines[:line], damaged, *lines[line + 1 :]]))


@pytest.mark.parametrize("name", FILES)
def test_bytes_changed_cut_and_doubled_at_random(name: str, folder: Path) -> None:
    random = np.random.default_rng(7)
    for _ in range(examples(day=120, nightly=300)):
        tried(folder, name, damaged(FILES[name], random))


@pytest.mark.parametrize(("name", "beside"), [("gavel.trace", THROUGHPUTS), ("synergy", PROFILES)])
def test_files_beside_a_trace_changed_at_random(name: str, beside: str, folder: Path) -> None:
    random = np.random.default_rng(7)
    for _ in range(examples(day=120, nightly=300)):
        written(folder, damaged(BESIDE[beside], random), beside)
        tried(folder, name, FILES[name])


@pytest.mark.nightly(after=14)
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "content", ["", "\n\n", "\0" * 1000, "x" * 10**6, "1," * 10**5, "\t" * 10**5]
)
def test_files_of_nothing_or_of_one_giant_line(name: str, content: str, folder: Path) -> None:
    tried(folder, name, content)
    tried(folder, name, FILES[name] + content)
